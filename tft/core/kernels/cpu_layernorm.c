/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm. A row's statistics take two passes while it is in the first-level cache: the mean, then the squares
 * around it, so that a large mean costs no precision. Backward, with s = gamma d_z:
 *     d_y = inverse (s - mean(s) - xhat mean(s xhat)),   d_gamma = sum over rows of d_z xhat,   d_beta = of d_z.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/formulas.h"

TFT_VECTOR static void norm_rows(real *restrict y, size_t R, size_t W, real epsilon, real *restrict inverse)
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

TFT_VECTOR static void norm_rows_output(const real *restrict xhat, const real *restrict gamma,
                                        const real *restrict beta, size_t R, size_t W, real *restrict z)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            z[r * W + i] = norm_z(gamma[i], xhat[r * W + i], beta[i]);
}

TFT_VECTOR static void norm_rows_backward(const real *restrict xhat, const real *restrict inverse,
                                          const real *restrict gamma, size_t R, size_t W, real *restrict d_gamma,
                                          real *restrict d_beta, real *restrict d_z)
{
    for (size_t r = 0; r < R; r++) {
        const real *x = xhat + r * W;
        real *d = d_z + r * W;
        real sum = 0, dot = 0;

#pragma omp simd reduction(+ : sum, dot)
        for (size_t i = 0; i < W; i++) {
            real s = gamma[i] * d[i];

            sum += s;
            dot += s * x[i];
        }
        sum /= (real)W;
        dot /= (real)W;
        for (size_t i = 0; i < W; i++) {
            d_gamma[i] += d[i] * x[i];
            d_beta[i] += d[i];
            d[i] = norm_d_y(inverse[r], gamma[i] * d[i], sum, x[i], dot);
        }
    }
}

void cpu_norm(struct queue *queue, const struct norm *norm, real *y, real *inverse, real *z)
{
    norm_rows(y, norm->R, norm->W, norm->epsilon, inverse);
    if (z)
        norm_rows_output(y, norm->gamma, norm->beta, norm->R, norm->W, z);
}

void cpu_norm_backward(struct queue *queue, const struct norm_backward *b)
{
    if (!b->add) {
        memset(b->d_gamma, 0, b->W * sizeof *b->d_gamma);
        memset(b->d_beta, 0, b->W * sizeof *b->d_beta);
    }
    norm_rows_backward(b->xhat, b->inverse, b->gamma, b->R, b->W, b->d_gamma, b->d_beta, b->d_z);
}
