/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x w + b;  d_x = d_y w^T,  d_w = x^T d_y,  d_b = the rows of d_y added up.
 */
#include "tft/layers/linear.h"
#include "tft/kernels/vector.h"
#include "tft/layers/product.h"

TFT_VECTOR void rows_add(real *restrict y, const real *restrict b, size_t R, size_t W)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            y[r * W + i] += b[i];
}

TFT_VECTOR static void rows_sum_add(const real *restrict x, size_t R, size_t W, real *restrict sum)
{
    size_t r = 0;

    for (; r + 4 <= R; r += 4) /* four rows at once: a quarter of the loads and stores of the sum */
        for (size_t i = 0; i < W; i++)
            sum[i] += (x[r * W + i] + x[(r + 1) * W + i]) + (x[(r + 2) * W + i] + x[(r + 3) * W + i]);
    for (; r < R; r++)
        for (size_t i = 0; i < W; i++)
            sum[i] += x[r * W + i];
}

void rows_sum(const real *x, size_t R, size_t W, int add, real *sum)
{
    if (!add)
        reals_zero(sum, W);
    rows_sum_add(x, R, W, sum);
}

TFT_VECTOR void reals_add(real *restrict y, const real *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void reals_zero(real *y, size_t n)
{
    memset(y, 0, n * sizeof *y);
}

void linear_product(const struct pass *pass, const struct linear *layer, const real *x, size_t R, int add, real *y,
                    size_t ldy)
{
    product(pass, matrix_of(x, layer->in), matrix_of(pass_p(pass, layer->w), layer->out), R, layer->out, layer->in,
            sum_to(y, ldy, add));
}

void linear_forward(const struct pass *pass, const struct linear *layer, const real *x, size_t R, real *y)
{
    linear_product(pass, layer, x, R, 0, y, layer->out);
    if (layer->b != TFT_NONE)
        rows_add(y, pass->p + layer->b, R, layer->out);
}

void linear_backward_kernel(const struct pass *pass, const struct linear *layer, const real *x, const real *d_y,
                            size_t R, int add)
{
    product(pass, matrix_t(x, layer->in), matrix_of(d_y, layer->out), layer->in, layer->out, R,
            sum_to(pass_g(pass, layer->w), layer->out, add));
}

void linear_backward_input(const struct pass *pass, const struct linear *layer, const real *d_y, size_t R, real *d_x,
                           int add_x)
{
    product(pass, matrix_of(d_y, layer->out), matrix_t(pass_p(pass, layer->w), layer->out), R, layer->in, layer->out,
            sum_to(d_x, layer->in, add_x));
}

void linear_backward(const struct pass *pass, const struct linear *layer, const real *x, const real *d_y, size_t R,
                     int add, real *d_x, int add_x)
{
    linear_backward_kernel(pass, layer, x, d_y, R, add);
    if (layer->b != TFT_NONE)
        rows_sum(d_y, R, layer->out, add, pass->g + layer->b);
    if (d_x)
        linear_backward_input(pass, layer, d_y, R, d_x, add_x);
}
