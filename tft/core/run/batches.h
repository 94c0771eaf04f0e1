/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: the model for a schema, and the gathering of windows into its granules.
 */
#ifndef HALAY_TFT_BATCHES_H
#define HALAY_TFT_BATCHES_H

#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include "tft/core/model/gradients.h"
#include "tft/core/model/model.h"
#include "tft/core/run/occlusion.h"
#include "tft/core/run/run_config.h"

struct window_patch;

/* The configuration of the model for a schema and the categories found in training. Its variables are in tft_data's
 * order. */
void tft_batches_describe(const struct tft_schema *schema, const struct tft_encoding *encoding,
                          const struct tft_run_config *run, struct tft_model_config *model);

/*
 * The categories that training takes for unknown, to train the embedding's row for unknown values: each input with
 * 'unknown: true' in a twentieth of the windows, for the whole window. Which ones depends on seed, step and the
 * window's position in the batch, not on the rank or thread.
 */
struct tft_category_dropout {
    uint32_t seed, step;
};

/* The windows of a global batch: position p is window numbers[base + p], or base + p if numbers is NULL. All
 * borrowed. */
struct tft_gather {
    const struct tft_windows *windows;
    const uint64_t *numbers;
    size_t base;
    const struct tft_category_dropout *dropout; /* NULL: none */
    const struct tft_occlusion *occlusion;      /* NULL: none */
};

/* A tft_fill; arg is a struct tft_gather. Fills inputs, targets, weights and lengths. */
enum halay_status tft_gather_fill(void *arg, int thread, struct tft_batch *batch);

/* Finds what the window at a position has in place of the data's values (tft/core/kernels/kernels.h): there is
 * room for one for each real and category, static ones included. Returns how many there are. */
size_t tft_gather_patches(const struct tft_gather *gather, const struct tft_window *window, uint64_t position,
                          struct window_patch *patches);

/* The window at a position, and the number of measured targets at positions [first, first + count). */
struct tft_window tft_gather_window(const struct tft_gather *gather, size_t position);
enum halay_status tft_gather_targets(const struct tft_gather *gather, size_t first, size_t count, size_t *targets);

/*
 * Scaling per window: where the level of a series moves away from that of the training span, each window is scaled by
 * what its own past shows.
 *
 * Under `per: window` a real input x, scaled by its entity's or all values already, becomes (x - mean) / spread,
 * with the mean and the deviation of the input's plain values in the window's encoder; spread is at least 1/20 of
 * the training span's, or of an unseen entity's own rows', so that a flat past does not blow up its noise. Lags go
 * with their input. A target y at step h becomes (y - offset[h]) / unit: unit is the target's spread, and offset its
 * mean. Only rows before the origin are read. Distributions (tft/core/kernels/loss.h) are of y itself; offset and unit
 * say what the model's numbers mean for them, in the target's own unit if they are not scaled.
 */

/* Sets by which column each of the data's (reals) is scaled in its window, as in struct windows_run
 * (tft/core/kernels/kernels.h). Returns nonzero if any is scaled. */
int tft_window_scaling(const struct tft_data *data, int32_t *scaled_by);

/* The least spread, of 1 for the training span's. */
extern const double tft_spread_least;

/*
 * Checks that the targets suit a loss.
 */

/* Check the measured targets of all splits for data->loss. HALAY_ERR_FORMAT (logged: the entity, the moment, what would
 * be right): poisson and negative-binomial need whole numbers from 0 on, tweedie numbers from 0 on, and these three
 * targets that are not scaled by their logarithm. Reads all rows for those three, none for others. */
enum halay_status tft_targets_check(struct halay_log *log, const struct tft_data *data);

/* Warn of each target whose changes between an entity's last rows (SIZE_MAX: all) are lost in the floats that
 * data->loss takes. Returns nonzero if it did. Rows of a damaged file are left to what reads them next. */
int tft_targets_warn(struct halay_log *log, const struct tft_data *data, size_t rows);

#endif
