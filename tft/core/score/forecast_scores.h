/* SPDX-License-Identifier: Apache-2.0
 *
 * The scores of forecasts of windows, in each target's own unit, and the loss that training minimises.
 */
#ifndef HALAY_TFT_FORECAST_SCORES_H
#define HALAY_TFT_FORECAST_SCORES_H

#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include "tft/core/score/forecast.h"
#include "tft/core/score/scores.h"

/*
 * The unit of MASE: the mean absolute error of repeating the value a season before, over all of an entity's rows before
 * a window's first target (Hyndman and Koehler 2006, with the rows that GluonTS, Monash and the M competitions take).
 * An entity with no more rows than a season has is measured by the row before. Only measured values count.
 */

/* The sums of one target over the rows so far, with a season between two values and with one step. */
struct tft_seasonal_sum {
    double by_season, by_step;
    size_t season_count, step_count;
    int found; /* a window had such rows before it, whether they differed or not */
};

struct tft_seasonal_error {
    const struct tft_data *data;   /* borrowed */
    size_t entity, rows;           /* sums are of that many rows of this entity */
    struct tft_seasonal_sum *sums; /* (targets) */
    double *errors;                /* (targets) */
    struct halay_region memory;    /* owned: of both */
};

enum halay_status tft_seasonal_error_init(struct halay_log *log, const struct tft_data *data,
                                          struct tft_seasonal_error *error);
void tft_seasonal_error_fini(struct tft_seasonal_error *error);

/* Returns the errors (targets) in the rows before a window's first target; 0: unknown. Valid until the next call. Cheap
 * for windows of an entity in ascending order. The rows have been checked by tft_data_check. */
const double *tft_seasonal_error_before(struct tft_seasonal_error *error, const struct tft_window *window);

struct tft_forecast_scores {
    size_t target_count;
    struct tft_scores *scores;       /* owned: (targets), each in its own unit */
    struct tft_scores *uncalibrated; /* owned: (targets), of the same forecasts as the model makes them; NULL: without
                                        calibrator */
    double loss_sum; /* over measured targets: the loss of forecasts (that of quantiles for distributions) times the
                              row's weight, in the unit of forecasts */
    double likelihood_sum; /* the same of distributions' own loss, which does not follow from forecasts */
    double loss;           /* the loss divided by the number of measured targets, times the model's factor */
};

/* Makes empty sums; entities: how many are kept apart. Nothing is held on error. */
enum halay_status tft_forecast_scores_init(struct halay_log *log, const double *quantiles, size_t quantile_count,
                                           const struct tft_data *data, size_t entities,
                                           struct tft_forecast_scores *result);
void tft_forecast_scores_fini(struct tft_forecast_scores *result);
/* Forecast positions [0, count) of the forecaster's gather and add their scores. seasonal: for the scaled
 * error, of the same data, or NULL; also: called with each forecast, or NULL. All ranks get the same bits. */
enum halay_status tft_forecast_scores_add(struct tft_forecaster *forecaster, size_t count,
                                          struct tft_seasonal_error *seasonal, tft_forecast_take also, void *arg,
                                          struct tft_forecast_scores *result);
/* Add one window's forecast p, (D, O, Q) as a forecaster gives it. */
enum halay_status tft_forecast_scores_add_window(const struct tft_forecaster *forecaster,
                                                 struct tft_seasonal_error *seasonal, const struct tft_window *window,
                                                 const float *p, struct tft_forecast_scores *result);
/* Add the forecast of one step, p (targets, quantiles): of the window's horizon's step h. seasonal_error: (targets), or
 * NULL. Where the scores do not separate entities, it counts for the first. */
void tft_forecast_scores_add_step(struct tft_forecast_scores *result, const struct tft_data *data,
                                  const double *seasonal_error, const struct tft_window *window, size_t h,
                                  const float *p);
/* Set the loss, from the forecasts that were added. */
void tft_forecast_scores_finish(const struct tft_model *model, struct tft_forecast_scores *result);
/* Forecasts, adds and finishes, for the model's quantiles, without the scaled error. */
enum halay_status tft_forecast_scores_of(struct tft_forecaster *forecaster, size_t count,
                                         struct tft_forecast_scores *result);

/* ---- the weights of a blend (blend_choice.c) ---- */

/* Forecast positions [0, count) of the forecaster's gather, set the blend's weights, and get the scores with them (in
 * which all entities are one; of very many windows those of some). All ranks get the same bits. The forecaster has no
 * blend. */
enum halay_status tft_blend_choose(struct tft_forecaster *forecaster, size_t count, struct tft_blend *blend,
                                   struct tft_forecast_scores *result);

/* Windows of these that it looks at: what a rank keeps of them is at most some 4 million numbers, or 20 windows. */
size_t tft_blend_choice_windows(const struct tft_blend *blend, size_t count);

#endif
