/* SPDX-License-Identifier: Apache-2.0
 *
 * Dense layer: y = x w + b.
 *
 *   x (R, in)   w (in, out)   b (out), absent with TFT_NONE   y (R, out)
 */
#ifndef HALAY_TFT_LINEAR_H
#define HALAY_TFT_LINEAR_H

#include "tft/core/layers/pass.h"

#define TFT_NONE SIZE_MAX

struct linear {
    size_t in, out;
    size_t w, b; /* places; w is TFT_NONE if the layer is absent */
};

/* y = x w, without the bias: for callers that add it in a loop of their own. ldy: distance of y's rows. */
void linear_product(const struct pass *pass, const struct linear *layer, const real *x, size_t R, int add, real *y,
                    size_t ldy);
void linear_forward(const struct pass *pass, const struct linear *layer, const real *x, size_t R, real *y);

/* Writes or adds to the gradients of w (and b); d_x (may be NULL) is written, or added to with add_x. */
void linear_backward(const struct pass *pass, const struct linear *layer, const real *x, const real *d_y, size_t R,
                     int add, real *d_x, int add_x);
/* Its two halves: gradients of w alone (bias done elsewhere), and of x. */
void linear_backward_kernel(const struct pass *pass, const struct linear *layer, const real *x, const real *d_y,
                            size_t R, int add);
void linear_backward_input(const struct pass *pass, const struct linear *layer, const real *d_y, size_t R, real *d_x,
                           int add_x);

/*
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
struct resample {
    size_t mask; /* place of (out); TFT_NONE: no resampling: S, if it is asked for, is the identity */
};

/* Writes S, the weights of `layer` (in, out; without bias), from the mask. */
void resample_matrix(const struct pass *pass, const struct resample *resample, const struct linear *layer);
/* Writes the mask's gradient from that of S, which is complete. */
void resample_backward(const struct pass *pass, const struct resample *resample, const struct linear *layer);

#endif
