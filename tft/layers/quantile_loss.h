/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantile loss (TFT equations 24 and 25): q max(y - p, 0) + (1 - q) max(p - y, 0), summed over the quantiles, over the
 * targets that are not masked, times `scale`.
 *
 *   p, d_p (D B, Q O), time-major: column q O + o    y, w (B, D, O), samples first, as in a batch
 *
 * At p = y the slope is 0, between -q and 1 - q.
 */
#ifndef HALAY_TFT_QUANTILE_LOSS_H
#define HALAY_TFT_QUANTILE_LOSS_H

#include "tft/kernels/real.h"
#include <stddef.h>

struct quantile_loss {
    const double *quantiles; /* (Q) */
    size_t Q, O, B, D;
    double scale;
};

/* The scaled loss; d_p (may be NULL) is written. Summed in double, in a fixed order. */
double quantile_loss(const struct quantile_loss *of, const real *p, const real *y, const real *w, real *d_p);

#endif
