/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x w + b;  d_x = d_y w^T,  d_w = x^T d_y,  d_b = the rows of d_y added up.
 */
#include "tft/core/layers/linear.h"

void linear_product(const struct pass *pass, const struct linear *layer, const real *x, size_t R, int add, real *y,
                    size_t ldy)
{
    kernel_multiply(pass->queue, matrix_of(x, layer->in), matrix_of(pass_p(pass, layer->w), layer->out), R, layer->out,
                    layer->in, sum_to(y, ldy, add));
}

void linear_forward(const struct pass *pass, const struct linear *layer, const real *x, size_t R, real *y)
{
    const struct product product = { .a = matrix_of(x, layer->in),
                                     .b = matrix_of(pass_p(pass, layer->w), layer->out),
                                     .M = R,
                                     .N = layer->out,
                                     .K = layer->in,
                                     .to = written(y, layer->out),
                                     .bias = layer->b == TFT_NONE ? NULL : pass->p + layer->b };

    kernel_product(pass->queue, &product);
}

void linear_backward_kernel(const struct pass *pass, const struct linear *layer, const real *x, const real *d_y,
                            size_t R, int add)
{
    kernel_multiply(pass->queue, matrix_t(x, layer->in), matrix_of(d_y, layer->out), layer->in, layer->out, R,
                    sum_to(pass_g(pass, layer->w), layer->out, add));
}

void linear_backward_input(const struct pass *pass, const struct linear *layer, const real *d_y, size_t R, real *d_x,
                           int add_x)
{
    kernel_multiply(pass->queue, matrix_of(d_y, layer->out), matrix_t(pass_p(pass, layer->w), layer->out), R, layer->in,
                    layer->out, sum_to(d_x, layer->in, add_x));
}

void linear_backward(const struct pass *pass, const struct linear *layer, const real *x, const real *d_y, size_t R,
                     int add, real *d_x, int add_x)
{
    linear_backward_kernel(pass, layer, x, d_y, R, add);
    if (layer->b != TFT_NONE)
        kernel_rows_sum(pass->queue, d_y, R, layer->out, add, pass->g + layer->b);
    if (d_x)
        linear_backward_input(pass, layer, d_y, R, d_x, add_x);
}

void resample_matrix(const struct pass *pass, const struct resample *resample, const struct linear *layer)
{
    const real *mask = resample->mask == TFT_NONE ? NULL : pass->p + resample->mask;

    kernel_resample(pass->queue, mask, layer->in, layer->out, pass->derived + (layer->w - TFT_DERIVED));
}

void resample_backward(const struct pass *pass, const struct resample *resample, const struct linear *layer)
{
    kernel_resample_backward(pass->queue, pass->p + resample->mask, pass_g(pass, layer->w), layer->in, layer->out,
                             pass->g + resample->mask);
}
