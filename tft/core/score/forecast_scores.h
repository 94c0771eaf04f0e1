/* SPDX-License-Identifier: Apache-2.0
 *
 * The scores of forecasts of windows, in each target's own unit, and the loss that training minimises.
 */
#ifndef HALAY_TFT_FORECAST_SCORES_H
#define HALAY_TFT_FORECAST_SCORES_H

#include "tft/core/score/forecast.h"
#include "tft/core/score/scores.h"
#include "tft/core/score/seasonal_error.h"

struct tft_forecast_scores {
    size_t target_count;
    struct tft_scores *scores;       /* owned: (targets), each in its own unit */
    struct tft_scores *uncalibrated; /* owned: (targets), of the same forecasts as the model says; NULL: there is no
                                        calibrator */
    double loss_sum; /* over measured targets: the loss of forecasts (that of quantiles for distributions) times the
                              row's weight, in the unit of forecasts */
    double likelihood_sum; /* the same of distributions' own loss, which does not follow from forecasts */
    double loss;           /* the loss divided by the number of measured targets, times the model's factor */
};

/* Empty sums; entities: how many are told apart. Nothing is held on error. */
enum halay_status tft_forecast_scores_init(struct halay_log *log, const double *quantiles, size_t quantile_count,
                                           const struct tft_data *data, size_t entities,
                                           struct tft_forecast_scores *result);
void tft_forecast_scores_fini(struct tft_forecast_scores *result);
/* Forecast positions [0, count) of the forecaster's gather and add their scores. seasonal: for the scaled
 * error, of the same data, or NULL; also: called with each forecast, or NULL. All ranks get the same bits. */
enum halay_status tft_forecast_scores_add(struct tft_forecaster *forecaster, size_t count,
                                          struct tft_seasonal_error *seasonal, tft_forecast_take also, void *arg,
                                          struct tft_forecast_scores *result);
/* Add the forecast of one step, p (targets, quantiles): of the window's horizon's step h. seasonal_error: (targets),
 * or NULL. Where the scores tell no entities apart it is of the first. */
void tft_forecast_scores_add_step(struct tft_forecast_scores *result, const struct tft_data *data,
                                  const double *seasonal_error, const struct tft_window *window, size_t h,
                                  const float *p);
/* Set the loss, of what was added. */
void tft_forecast_scores_finish(const struct tft_model *model, struct tft_forecast_scores *result);
/* Both, for the model's quantiles, without the scaled error. */
enum halay_status tft_forecast_scores_of(struct tft_forecaster *forecaster, size_t count,
                                         struct tft_forecast_scores *result);

#endif
