/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/layers/layernorm.h"

struct norm norm_of(const struct pass *pass, const struct layernorm *layer, size_t R)
{
    return (struct norm){
        .R = R, .W = layer->W, .epsilon = layer->epsilon, .gamma = pass->p + layer->gamma, .beta = pass->p + layer->beta
    };
}

void layernorm_forward(const struct pass *pass, const struct layernorm *layer, real *y, size_t R, real *inverse,
                       real *z)
{
    const struct norm norm = norm_of(pass, layer, R);

    kernel_norm(pass->queue, &norm, y, inverse, z);
}

struct norm_backward norm_backward_of(const struct pass *pass, const struct layernorm *layer, const real *xhat,
                                      const real *inverse, size_t R, int add, real *d_z)
{
    return (struct norm_backward){ .R = R,
                                   .W = layer->W,
                                   .add = add,
                                   .xhat = xhat,
                                   .inverse = inverse,
                                   .gamma = pass->p + layer->gamma,
                                   .d_gamma = pass->g + layer->gamma,
                                   .d_beta = pass->g + layer->beta,
                                   .d_z = d_z };
}

void layernorm_backward(const struct pass *pass, const struct layernorm *layer, const real *xhat, const real *inverse,
                        size_t R, int add, real *d_z)
{
    const struct norm_backward backward = norm_backward_of(pass, layer, xhat, inverse, R, add, d_z);

    kernel_norm_backward(pass->queue, &backward);
}
