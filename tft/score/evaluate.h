/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: forecasts of windows against what came, in the target's own unit; and the loss that training minimises.
 */
#ifndef HALAY_TFT_EVALUATE_H
#define HALAY_TFT_EVALUATE_H

#include "tft/score/forecast.h"
#include "tft/score/naive.h"
#include "tft/score/scores.h"

struct tft_evaluation_result {
    size_t target_count;
    struct tft_scores *scores; /* owned: (targets), each in its own unit */
    double loss_sum;           /* of measured targets and quantiles: the scaled quantile loss times the row's weight */
    double loss;               /* that over the number of measured targets, times the model's factor */
};

/* Called with each window's forecast, as tft_forecast's take. */
typedef enum halay_status (*tft_evaluation_also)(void *arg, size_t position, const struct tft_window *window,
                                                 const float *p);

/* Empty sums. Nothing is held on error. */
enum halay_status tft_evaluation_init(struct halay_log *log, const double *quantiles, size_t quantile_count,
                                      const struct tft_data *data, struct tft_evaluation_result *result);
void tft_evaluation_result_fini(struct tft_evaluation_result *result);
/* Forecast positions [0, count) of the forecaster's gather and add their scores; naive (may be NULL): (targets), for
 * the scaled error; also: may be NULL. All ranks get the same bits. */
enum halay_status tft_evaluation_add(struct tft_forecaster *forecaster, size_t count, const struct tft_naive *naive,
                                     tft_evaluation_also also, void *arg, struct tft_evaluation_result *result);
/* Both, by the model's quantiles, without naive forecasts. */
enum halay_status tft_evaluate(struct tft_forecaster *forecaster, size_t count, struct tft_evaluation_result *result);

#endif
