/* SPDX-License-Identifier: Apache-2.0
 *
 * Resampling of a row of `in` numbers to `out`, as pytorch-forecasting's skip connections do where a width changes:
 * linear interpolation with the ends aligned, each result times twice the sigmoid of a learned mask.
 *
 *   y_o = 2 sigmoid(mask_o) ((1 - f) x_l + f x_(l+1)),   l + f = o (in - 1) / (out - 1)
 *
 *   x = 0 1 2 3,  out = 7:   y ~  0   .5   1   1.5   2   2.5   3        (before the mask)
 *
 * That is a product with a matrix S (in, out) of at most two numbers a column, which is made from the mask once per
 * granule as a derived weight (tft/core/layers/pass.h). So it serves wherever a dense layer does: for part of a row,
 * and for a real of rank 1, whose resampled embedding has rank 1 too.
 */
#ifndef HALAY_TFT_SKIP_RESAMPLE_H
#define HALAY_TFT_SKIP_RESAMPLE_H

#include "tft/core/layers/linear.h"

struct resample {
    size_t mask; /* place of (out); TFT_NONE: no resampling: S, if it is asked for, is the identity */
};

/* Writes S, the weights of `layer` (in, out; without bias), from the mask. */
void resample_matrix(const struct pass *pass, const struct resample *resample, const struct linear *layer);
/* Writes the mask's gradient from that of S, which is complete. */
void resample_backward(const struct pass *pass, const struct resample *resample, const struct linear *layer);

#endif
