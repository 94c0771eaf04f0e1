/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampler: which window is at which position of an epoch.
 *
 * A permutation of all windows is drawn by (seed, epoch) from Philox and its first `count` are taken: every window once
 * if count is all of them. Every rank draws the same order and computes its share of each batch, so an epoch is the
 * same set in the same order on any number of ranks.
 */
#ifndef HALAY_TFT_SAMPLER_H
#define HALAY_TFT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

/* A number that no training epoch has, for the windows of a validation that takes only some. */
#define TFT_SAMPLER_VALIDATION UINT32_MAX

/* Fill order (room for `total`): order[0 .. count) are the windows, the rest is scratch. count <= total. */
void tft_sampler_draw(uint32_t seed, uint32_t epoch, uint64_t total, uint64_t count, uint64_t *order);

#endif
