/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantile loss (TFT equations 24 and 25): q max(y - p, 0) + (1 - q) max(p - y, 0), summed over the quantiles, over the
 * targets that are not masked, times `scale`.
 *
 *   p, d_p (D B, Q O), time-major: column q O + o    y, w (B, D, O), samples first, as in a batch
 *
 * At p = y the slope is 0, between -q and 1 - q.
 */
#ifndef TFT_QUANTILE_LOSS_H
#define TFT_QUANTILE_LOSS_H

#include "tft/kernels/real.h"
#include <stddef.h>

/* The scaled loss; d_p (may be NULL) is written. Summed in double, in a fixed order. */
double quantile_loss(const real *p, const real *y, const real *w, const double *quantiles, size_t Q, size_t O, size_t B,
                     size_t D, double scale, real *d_p);

#endif
