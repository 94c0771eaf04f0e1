/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: what `evaluate` and `backtest` report of a model's forecasts, or of several models': the scores
 * of each target, beside those of the naive forecasts (tft_naive_seasons) of the same values, and how they compare with
 * the best of them.
 */
#ifndef HALAY_TFT_EVALUATION_H
#define HALAY_TFT_EVALUATION_H

#include "tft/core/run/run_config.h"
#include "tft/core/score/forecast_scores.h"
#include "tft/core/score/naive.h"

/* The scores of a schema's naive forecasts. */
struct tft_naive_scores {
    size_t target_count, season_count, seasons[TFT_NAIVE_MAX];
    struct tft_scores *scores; /* owned: (seasons, targets, 2): with their residuals' quantiles, and plain */
};

struct tft_evaluation {
    struct halay_log *log; /* borrowed, as the next two */
    const struct tft_data *data;
    const struct tft_list *quantiles;
    size_t windows, short_windows;
    struct tft_forecast_scores result;
    struct tft_naive_scores naive;
    struct tft_seasonal_error seasonal; /* owned: divides the scaled error */
};

/* Makes empty sums. On error fini still has to be called, which takes a zeroed one, too. */
enum halay_status tft_evaluation_init(struct halay_log *log, const struct tft_data *data,
                                      const struct tft_list *quantiles, struct tft_evaluation *evaluation);
void tft_evaluation_fini(struct tft_evaluation *evaluation);

/* Forecast the forecaster's windows; add their scores and those of the naive forecasts, whose residuals are those of
 * the data's present training span. also may be NULL. */
enum halay_status tft_evaluation_add(struct tft_evaluation *evaluation, struct tft_forecaster *forecaster,
                                     tft_forecast_take also, void *arg);

/* The naive forecasts that have the lowest q-risk of the median at positions [0, count) of a gather, averaged over the
 * targets; infinite where nothing can be scored. Needs no model. */
enum halay_status tft_naive_find_best(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                      const struct tft_list *quantiles, struct tft_naive_best *best);

/* Makes the result of this kind: what it is of, `more` (which it takes over), and all scores, of the only target or of
 * each under "targets": a new reference; NULL without memory or if `more` is NULL. */
json_t *tft_evaluation_json(const struct tft_evaluation *evaluation, const char *kind, enum tft_split split,
                            size_t stride, json_t *more);

#endif
