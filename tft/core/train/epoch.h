/* SPDX-License-Identifier: Apache-2.0
 *
 * An epoch: the windows of training and validation, and which of them is at which position.
 *
 * A permutation of all windows is drawn by (seed, epoch) from Philox and its first `count` are taken: every window once
 * if count is all of them. Every rank draws the same order and computes its share of each batch, so an epoch is the
 * same set in the same order on any number of ranks.
 */
#ifndef HALAY_TFT_EPOCH_H
#define HALAY_TFT_EPOCH_H

#include "base/memory.h"
#include "tft/core/data/windows.h"
#include "tft/core/run/run_config.h"

/* Zero-initialise. */
struct tft_epoch {
    struct tft_windows train, valid;
    struct halay_region orders;
    uint64_t *order, *valid_order; /* in orders: windows of this epoch; of each validation, ascending */
    size_t samples, valid_samples; /* how many of them are taken */
    size_t valid_max;              /* windows of a validation, beside the configuration's number; 0: no limit */
};

/* Lists the windows by the splits that the data's schema has now, in place of those listed before. */
enum halay_status tft_epoch_list(struct halay_log *log, const struct tft_data *data,
                                 const struct tft_run_config *config, struct tft_epoch *epoch);
/* Draws the order of the training windows in an epoch of this number. */
void tft_epoch_draw(struct tft_epoch *epoch, uint32_t seed, uint32_t number);
void tft_epoch_fini(struct tft_epoch *epoch);

/* Fills order (room for `total`): order[0 .. count) are the windows, the rest is scratch. count <= total. */
void tft_sampler_draw(uint32_t seed, uint32_t epoch, uint64_t total, uint64_t count, uint64_t *order);

#endif
