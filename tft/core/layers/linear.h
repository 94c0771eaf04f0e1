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
    size_t w, b; /* places; w is TFT_NONE if there is no such layer */
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

#endif
