/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer: averages, norms of gradients, Adam's update, clipped; of arrays and of sparse gradients.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/vector.h"
#include <float.h>

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
        y[i] += share * (x[i] - y[i]);
}

void cpu_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    average(y, x, n, (real)share);
}

/* A moment to which nothing is added (an embedding's row that is not seen again) would stay subnormal forever, since
 * rounding to nearest keeps it from reaching zero, and its vectors would take ten times as long. */
TFT_INLINE real normal_or_zero(real x)
{
#ifdef TFT_DOUBLE
    const real least = DBL_MIN;
#else
    const real least = FLT_MIN;
#endif
    real size = x < 0 ? -x : x;

    return size < least ? 0 : x;
}

/* The factors of one update. */
struct factors {
    real scale, beta1, beta2, one_minus_beta1, one_minus_beta2, rate, decay, epsilon;
};

TFT_VECTOR static void update(real *restrict p, real *restrict m, real *restrict v, const real *restrict gradient,
                              size_t n, const struct factors *factors)
{
    const real scale = factors->scale, beta1 = factors->beta1, beta2 = factors->beta2,
               one_minus_beta1 = factors->one_minus_beta1, one_minus_beta2 = factors->one_minus_beta2,
               rate = factors->rate, decay = factors->decay, epsilon = factors->epsilon;

    for (size_t i = 0; i < n; i++) {
        real g = gradient[i] * scale;

        m[i] = normal_or_zero(beta1 * m[i] + one_minus_beta1 * g);
        v[i] = normal_or_zero(beta2 * v[i] + one_minus_beta2 * g * g);
        p[i] -= rate * m[i] / ((real)sqrt(v[i]) + epsilon) + decay * p[i];
    }
}

static double scale_of(const struct adam_run *run)
{
    double sum = 0, norm;

    for (size_t i = 0; run->squares && i < run->count; i++)
        sum += run->squares[i];
    norm = sqrt(sum);
    return run->squares && norm > run->clip ? run->clip / norm : 1; /* a NaN leaves the gradient as it is */
}

void cpu_adam(struct queue *queue, const struct adam_run *run, const real *gradient, size_t n, real *m, real *v,
              real *p)
{
    const struct factors factors = { .scale = (real)scale_of(run),
                                     .beta1 = (real)run->beta1,
                                     .beta2 = (real)run->beta2,
                                     .one_minus_beta1 = (real)(1 - run->beta1),
                                     .one_minus_beta2 = (real)(1 - run->beta2),
                                     .rate = (real)run->rate,
                                     .decay = (real)run->decay,
                                     .epsilon = (real)run->epsilon };

    update(p, m, v, gradient, n, &factors);
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
