/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout whose mask depends only on the run's seed, the step, the site in the model and the sample.
 *
 * A *site* is where dropout happens, known by its name. Element e of a site, counted in (t, variable, head, h) order of
 * one sample with the window's absolute t, draws lane e mod 4 of Philox with
 *     key (seed, FNV-1a of the site's name)     counter (e / 4 low, e / 4 high, step, sample's position in the batch)
 * and is dropped if the draw is below threshold = floor(p 2^32); kept values are multiplied by 2^32 / (2^32 -
 * threshold). So neither granules, threads and ranks nor rows that are skipped to save work change the mask of the
 * others.
 */
#ifndef HALAY_TFT_DROPOUT_H
#define HALAY_TFT_DROPOUT_H

#include "tft/core/kernels/real.h"
#include <stddef.h>
#include <stdint.h>

/* One granule's dropout in one step. */
struct dropout {
    uint32_t threshold; /* 0: no dropout, nothing is drawn */
    real scale;         /* of kept values */
    uint32_t seed, step;
    uint64_t position; /* of the granule's first sample in the global batch */
};

/* A site as a layer keeps it: rows of W elements, that of time t begins at element t * stride + first. */
struct site {
    uint32_t name;
    size_t stride, first;
};

struct dropout dropout_of(double p, uint32_t seed, uint32_t step, uint64_t position);

/* keep[i] = 1 or 0 for elements e .. e + W - 1 of the site, sample b of the granule. */
void dropout_row(const struct dropout *dropout, uint32_t site, uint64_t e, size_t b, size_t W, uint8_t *keep);
/* Does the same for R rows (time-major) from row `row` of the window on: keep (R, W). */
void dropout_rows(const struct dropout *dropout, const struct site *site, size_t row, size_t R, size_t B, size_t W,
                  uint8_t *keep);

/* y = keep ? x * scale : 0, for n elements; may be in place. Its backward is itself. */
void dropout_apply(const struct dropout *dropout, const uint8_t *keep, const real *x, size_t n, real *y);

#endif
