/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: the model for a schema, and the gathering of windows into its granules.
 */
#ifndef HALAY_TFT_BATCHES_H
#define HALAY_TFT_BATCHES_H

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

/* What a window, which is that at a position, has in place of the data's values (tft/core/kernels/kernels.h): there is
 * room for one for each real and category, static ones included. Returns how many there are. */
size_t tft_gather_patches(const struct tft_gather *gather, const struct tft_window *window, uint64_t position,
                          struct window_patch *patches);

/* The window at a position, and the number of measured targets at positions [first, first + count). */
struct tft_window tft_gather_window(const struct tft_gather *gather, size_t position);
enum halay_status tft_gather_targets(const struct tft_gather *gather, size_t first, size_t count, size_t *targets);

#endif
