/* SPDX-License-Identifier: Apache-2.0
 *
 * Assessment: all that is said about forecasts of windows, of one model or of several one after the other: scores of
 * each target, beside those of the naive forecasts, one for each season of the schema, on the same values.
 */
#ifndef HALAY_TFT_ASSESSMENT_H
#define HALAY_TFT_ASSESSMENT_H

#include "tft/run/run_config.h"
#include "tft/score/evaluate.h"

/* The naive forecast's, with its residuals' quantiles and without. */
struct tft_naive_scores {
    struct tft_scores with, plain;
};

struct tft_assessment {
    struct halay_log *log; /* borrowed, as the next two */
    const struct tft_data *data;
    const struct tft_list *quantiles;
    size_t windows, short_windows;
    struct tft_evaluation_result result;
    struct tft_naive_scores *naive; /* owned: (seasons, targets) */
    char *has_season; /* owned: (targets) training had values of it a season apart, of an entity that is scored */
};

/* Empty sums. On error fini still has to be called. */
enum halay_status tft_assessment_init(struct halay_log *log, const struct tft_data *data,
                                      const struct tft_list *quantiles, struct tft_assessment *assessment);
void tft_assessment_fini(struct tft_assessment *assessment);

/* Forecast the forecaster's windows and add their scores, and the naive forecasts', whose residuals are those of the
 * training span as the data have it now. also may be NULL. */
enum halay_status tft_assessment_add(struct tft_assessment *assessment, struct tft_forecaster *forecaster,
                                     tft_evaluation_also also, void *arg);

/* All scores, of the only target or of each under "targets"; a new reference; NULL without memory. */
json_t *tft_assessment_json(const struct tft_assessment *assessment);

#endif
