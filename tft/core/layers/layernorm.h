/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer normalisation over the last dimension: z = gamma xhat + beta, xhat = (y - mean) / sqrt(variance + epsilon).
 *
 *   y, xhat, z (R, W)   inverse (R): 1 / sqrt(variance + epsilon)
 */
#ifndef HALAY_TFT_LAYERNORM_H
#define HALAY_TFT_LAYERNORM_H

#include "tft/core/layers/pass.h"

struct layernorm {
    size_t W;
    size_t gamma, beta; /* places in the block */
    real epsilon;
};

/* Calls of its kernels, for what is computed with it. */
struct norm norm_of(const struct pass *pass, const struct layernorm *layer, size_t R);
struct norm_backward norm_backward_of(const struct pass *pass, const struct layernorm *layer, const real *xhat,
                                      const real *inverse, size_t R, int add, real *d_z);

/* y becomes xhat, in place. z may be NULL: some callers need only xhat. */
void layernorm_forward(const struct pass *pass, const struct layernorm *layer, real *y, size_t R, real *inverse,
                       real *z);

/* d_z becomes d_y, in place; gradients of gamma and beta are written, or added to with `add`. */
void layernorm_backward(const struct pass *pass, const struct layernorm *layer, const real *xhat, const real *inverse,
                        size_t R, int add, real *d_z);

#endif
