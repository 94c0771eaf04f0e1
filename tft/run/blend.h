/* SPDX-License-Identifier: Apache-2.0
 *
 * Blend: where a target has `blend: season`, its forecast is a mean of the model's and of a naive one:
 *
 *     share * model + (1 - share) * (value a season before + unit * error)
 *
 * The season is the one of the schema's, or a single step (the last value), whose forecasts of training windows have
 * the lowest quantile loss: a naive forecast needs no training, so that every origin of that span can judge it. unit is
 * the root mean square of the entity's differences a season apart in the training span (of an entity that training has
 * not seen: in the window's past), and error a quantile of what the naive forecast was off by in training windows, in
 * that unit, for each step of the horizon. The two err in different ways, so that their mean is often better than
 * either; validation chooses the share (tft/score/blend_choice.h), which is a half before. Only measured values before
 * the origin are read; where there are none, the model's forecast stands alone.
 */
#ifndef HALAY_TFT_BLEND_H
#define HALAY_TFT_BLEND_H

#include "tft/data/windows.h"
#include "tft/run/occlusion.h"
#include "tft/run/run_config.h"

struct tft_blend {
    size_t horizon, targets, quantile_count;
    size_t entities; /* that training has seen */
    double *errors;  /* owned: (targets, horizon, quantiles); NULL: nothing is blended */
    double *units;   /* owned: (entities, targets); 0: unknown */
    size_t *seasons; /* owned: (targets), of the naive forecasts */
    double share;    /* of the model */
};

/* The seasons and errors, by training windows; the share is a half. Nothing is held on error, or if no target is
 * blended. */
enum halay_status tft_blend_fit(struct halay_log *log, const struct tft_windows *windows,
                                const struct tft_list *quantiles, struct tft_blend *blend);
/* As a run's description holds them: a new reference; NULL if there is no memory. */
json_t *tft_blend_json(const struct tft_blend *blend);
/* Read that; the share is the caller's to set. HALAY_ERR_FORMAT (not logged) if it does not fit. Nothing is held on
 * error, or if no target is blended. */
enum halay_status tft_blend_read(const json_t *json, const struct tft_schema *schema, size_t entities,
                                 size_t quantile_count, struct tft_blend *blend);
void tft_blend_fini(struct tft_blend *blend);

/* Blend a window's forecast, p (horizon, targets, quantiles). occlusion: of a target that was taken away, what stands
 * in for it is the naive forecast; NULL: nothing was. HALAY_ERR_FORMAT (logged): damaged data. */
enum halay_status tft_blend_apply(const struct tft_blend *blend, const struct tft_data *data,
                                  const struct tft_window *window, const struct tft_occlusion *occlusion, float *p);

#endif
