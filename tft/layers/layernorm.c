/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics in two passes over a row that is in the first-level cache: the mean, then the squares around it, so that a
 * large mean costs no precision. Backward, with s = gamma d_z:
 *     d_y = inverse (s - mean(s) - xhat mean(s xhat)),   d_gamma = sum over rows of d_z xhat,   d_beta = of d_z.
 */
#include "tft/layers/layernorm.h"
#include "tft/kernels/vector.h"
#include "tft/layers/linear.h"

TFT_VECTOR static void normalise(real *restrict y, size_t R, size_t W, real epsilon, real *restrict inverse)
{
    for (size_t r = 0; r < R; r++) {
        real *row = y + r * W;
        real sum = 0, squares = 0, mean, scale;

#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < W; i++)
            sum += row[i];
        mean = sum / (real)W;
#pragma omp simd reduction(+ : squares)
        for (size_t i = 0; i < W; i++)
            squares += (row[i] - mean) * (row[i] - mean);
        scale = (real)1 / (real)sqrt(squares / (real)W + epsilon);
        for (size_t i = 0; i < W; i++)
            row[i] = (row[i] - mean) * scale;
        inverse[r] = scale;
    }
}

TFT_VECTOR static void output(const real *restrict xhat, const real *restrict gamma, const real *restrict beta,
                              size_t R, size_t W, real *restrict z)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            z[r * W + i] = gamma[i] * xhat[r * W + i] + beta[i];
}

TFT_VECTOR static void backward(const real *restrict xhat, const real *restrict inverse, const real *restrict gamma,
                                size_t R, size_t W, real *restrict d_gamma, real *restrict d_beta, real *restrict d_z)
{
    for (size_t r = 0; r < R; r++) {
        const real *x = xhat + r * W;
        real *d = d_z + r * W;
        real sum = 0, along = 0;

#pragma omp simd reduction(+ : sum, along)
        for (size_t i = 0; i < W; i++) {
            real s = gamma[i] * d[i];

            sum += s;
            along += s * x[i];
        }
        sum /= (real)W;
        along /= (real)W;
        for (size_t i = 0; i < W; i++) {
            d_gamma[i] += d[i] * x[i];
            d_beta[i] += d[i];
            d[i] = inverse[r] * (gamma[i] * d[i] - sum - x[i] * along);
        }
    }
}

void layernorm_forward(const struct pass *pass, const struct layernorm *layer, real *y, size_t R, real *inverse,
                       real *z)
{
    normalise(y, R, layer->W, layer->epsilon, inverse);
    if (z)
        layernorm_output(pass, layer, y, R, z);
}

void layernorm_output(const struct pass *pass, const struct layernorm *layer, const real *xhat, size_t R, real *z)
{
    output(xhat, pass->p + layer->gamma, pass->p + layer->beta, R, layer->W, z);
}

void layernorm_backward(const struct pass *pass, const struct layernorm *layer, const real *xhat, const real *inverse,
                        size_t R, int add, real *d_z)
{
    if (!add) {
        reals_zero(pass->g + layer->gamma, layer->W);
        reals_zero(pass->g + layer->beta, layer->W);
    }
    backward(xhat, inverse, pass->p + layer->gamma, R, layer->W, pass->g + layer->gamma, pass->g + layer->beta, d_z);
}
