/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer: averages, norms of gradients, Adam's update, clipped; of arrays and of sparse gradients.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/formulas.h"

TFT_VECTOR static double sum_of_squares(const real *x, size_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

void cpu_squares(struct queue *queue, const real *x, size_t n, double *sum)
{
    *sum = sum_of_squares(x, n);
}

TFT_VECTOR static void average(real *restrict y, const real *restrict x, size_t n, real share)
{
    for (size_t i = 0; i < n; i++)
        y[i] = average_of(share, x[i], y[i]);
}

void cpu_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    average(y, x, n, (real)share);
}

TFT_VECTOR static void update(real *restrict p, real *restrict m, real *restrict v, const real *restrict gradient,
                              size_t n, struct adam_factors factors, real scale)
{
    for (size_t i = 0; i < n; i++)
        adam_update(factors, gradient[i] * scale, m + i, v + i, p + i);
}

void cpu_adam(struct queue *queue, const struct adam_run *run, const real *gradient, size_t n, real *m, real *v,
              real *p)
{
    double sum = 0;

    for (size_t i = 0; run->squares && i < run->count; i++)
        sum += run->squares[i];
    update(p, m, v, gradient, n, adam_factors_of(run), run->squares ? clip_factor(run->clip, sum) : 1);
}

void cpu_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum)
{
    const struct sparse_parts p = sparse_parts_of(x, shape);

    cpu_squares(queue, p.rows, (size_t)*p.count * shape.W, sum);
}

void cpu_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient, struct sparse shape,
                     real *m, real *v, real *p)
{
    const struct sparse_parts g = sparse_parts_of(gradient, shape);
    size_t W = shape.W;

    for (size_t i = 0; i < (size_t)*g.count; i++) {
        size_t at = (size_t)g.codes[i] * W;

        cpu_adam(queue, run, g.rows + i * W, W, m + at, v + at, p + at);
    }
}
