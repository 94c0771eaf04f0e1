/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: forecasts of windows against what came, in the target's own unit; and the loss that training minimises.
 */
#ifndef HALAY_TFT_EVALUATE_H
#define HALAY_TFT_EVALUATE_H

#include "tft/forecast.h"
#include "tft/naive.h"
#include "tft/scores.h"

struct tft_evaluation_result {
    size_t target_count;
    struct tft_scores *scores; /* owned: (targets), each in its own unit */
    double loss;               /* mean over measured targets of the sum over quantiles of the scaled quantile loss */
};

/* Forecast positions [0, count) of the forecaster's gather and score them; naive (may be NULL): (targets), for the scaled error.
 * All ranks get the same bits. */
enum halay_status tft_evaluate(struct tft_forecaster *forecaster, size_t count, const struct tft_naive *naive,
                               struct tft_evaluation_result *result);
void tft_evaluation_result_fini(struct tft_evaluation_result *result);

/* The naive forecast of `lag` steps before for its target, on the same values: {"p10": .., ..., "plain": {...}, "values": n} as a new
 * reference; NULL for a lag that would look past the forecast's beginning, or without memory. */
json_t *tft_evaluate_naive(struct halay_log *log, const struct tft_gather *gather, size_t count,
                           const struct tft_naive *naive, const double *quantiles, size_t quantile_count);

#endif
