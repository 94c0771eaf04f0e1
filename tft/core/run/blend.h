/* SPDX-License-Identifier: Apache-2.0
 *
 * Blend: where a target has `blend: season`, its forecast is a weighted mean of the model's and of baselines
 * (tft/core/run/baselines.h):
 *
 *     weight of the model * its quantile + sum over baselines of weight * (forecast + unit * error)
 *
 * The weights, whose sum is 1, are those of the step's third of the horizon. unit is the mean distance of values a
 * season apart in the window's past, and error a quantile of the baseline's errors in training windows, in that unit,
 * for each step: baselines need no training, so that every origin of that span can measure them. They and the model err
 * in different ways, so that their mean is often better than each. Validation chooses the weights
 * (tft/core/score/blend_choice.c); before, they are a half of the model and a half of the baseline with the lowest
 * quantile loss in training. Only measured values before the origin are read; where a baseline has none, the model
 * replaces it.
 */
#ifndef HALAY_TFT_BLEND_H
#define HALAY_TFT_BLEND_H

#include "base/memory.h"
#include "tft/core/run/baselines.h"
#include "tft/core/run/occlusion.h"
#include "tft/core/run/run_config.h"

enum { TFT_BLEND_THIRDS = 3 };

struct tft_blend {
    size_t horizon, targets, quantile_count;
    size_t count; /* of baselines */
    struct tft_baseline baselines[TFT_BASELINES_MAX];
    size_t error_count;
    double *errors;              /* (targets, baselines, horizon, quantiles); NULL: nothing is blended */
    double *weights;             /* (targets, thirds, 1 + baselines), of the model first */
    struct tft_history *history; /* used by each call of apply, so that only one may run at a time */
    double *points;              /* (baselines, horizon), as history */
    struct halay_region memory;  /* owned: of all these */
};

/* Finds the errors, and the weights before a choice, by training windows. Nothing is held on error, or if no target is
 * blended. */
enum halay_status tft_blend_fit(struct halay_log *log, const struct tft_windows *windows,
                                const struct tft_list *quantiles, struct tft_blend *blend);
/* Returns them as in a run's description: a new reference; NULL if memory runs out. */
json_t *tft_blend_json(const struct tft_blend *blend);
/* Read that. HALAY_ERR_FORMAT (not logged) if it does not fit. Nothing is held on error, or if no target is blended. */
enum halay_status tft_blend_read(const json_t *json, const struct tft_schema *schema, size_t quantile_count,
                                 struct tft_blend *blend);
void tft_blend_fini(struct tft_blend *blend);

/* Weights as the file of the best parameters has them: to be freed; NULL without memory. */
char *tft_blend_weights_text(const struct tft_blend *blend);
/* Read that; NULL: leave them as they are. HALAY_ERR_FORMAT (not logged) if it does not fit. */
enum halay_status tft_blend_weights_read(const char *text, struct tft_blend *blend);
size_t tft_blend_weights_count(const struct tft_blend *blend);
/* The weights of a target's step h, and the quantiles of a baseline's error there. */
double *tft_blend_weights_at(const struct tft_blend *blend, size_t target, size_t h);
const double *tft_blend_errors_at(const struct tft_blend *blend, size_t target, size_t baseline, size_t h);

/* Returns nonzero if no forecast has a part of a baseline. */
int tft_blend_is_model(const struct tft_blend *blend);
/* Returns nonzero if the target is blended. */
int tft_blend_has(const struct tft_blend *blend, const struct tft_schema *schema, size_t target);
/* Describes in a sentence what a target's forecast is made of. */
void tft_blend_describe(const struct tft_blend *blend, const struct tft_schema *schema, size_t target, char *text,
                        size_t size);

/* Forecasts of all baselines for a window, (baselines, horizon), and the unit of their errors. HALAY_ERR_FORMAT
 * (logged): damaged data. */
enum halay_status tft_blend_points(const struct tft_blend *blend, const struct tft_data *data,
                                   const struct tft_window *window, size_t target, double *points, double *unit);
/* Blend a window's forecast, p (horizon, targets, quantiles). occlusion: baselines of an occluded target forecast the
 * values that replace its own; NULL: no occlusion. HALAY_ERR_FORMAT (logged): damaged data. */
enum halay_status tft_blend_apply(const struct tft_blend *blend, const struct tft_data *data,
                                  const struct tft_window *window, const struct tft_occlusion *occlusion, float *p);

#endif
