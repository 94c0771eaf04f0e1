/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles that cannot cross, the outputs' order, and the optimizer.
 *
 * Ascending quantiles: o_q moves p_q and all above it, with slope sigmoid(o_q) = 1 - e^(p_(q-1) - p_q): what forward
 * wrote over o is enough.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/vector.h"
#include <float.h>

void cpu_ascending(struct queue *queue, size_t R, size_t Q, size_t O, real *o)
{
    for (size_t r = 0; r < R; r++)
        for (size_t k = O; k < Q * O; k++)
            o[r * Q * O + k] = o[r * Q * O + k - O] + (real)tft_softplus((double)o[r * Q * O + k]);
}

void cpu_ascending_backward(struct queue *queue, const real *p, size_t R, size_t Q, size_t O, real *d_p)
{
    for (size_t r = 0; r < R; r++) {
        const real *row = p + r * Q * O;
        real *d = d_p + r * Q * O;

        for (size_t k = Q * O; k-- > O;) {
            d[k - O] += d[k];
            d[k] *= (real)-expm1((double)row[k - O] - (double)row[k]);
        }
    }
}

void cpu_samples_first(struct queue *queue, const struct outputs_run *run, real *y)
{
    size_t P = run->P, O = run->O, B = run->B, D = run->D;

    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < D; t++)
            for (size_t o = 0; o < O; o++)
                for (size_t k = 0; k < P; k++)
                    y[((b * D + t) * O + o) * P + k] = run->p[(t * B + b) * P * O + k * O + o];
}

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

/* A moment to which nothing is added any more (an embedding's row that is not seen again) would stay subnormal for
 * ever, since rounding to nearest keeps it from reaching zero, and make its vectors ten times slower. */
TFT_VECTOR static void average(real *restrict y, const real *restrict x, size_t n, real share)
{
    for (size_t i = 0; i < n; i++)
        y[i] += share * (x[i] - y[i]);
}

void cpu_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    (void)queue;
    average(y, x, n, (real)share);
}

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
    real scale, beta1, beta2, rest1, rest2, rate, decay, epsilon;
};

TFT_VECTOR static void update(real *restrict p, real *restrict m, real *restrict v, const real *restrict gradient,
                              size_t n, const struct factors *factors)
{
    const real scale = factors->scale, beta1 = factors->beta1, beta2 = factors->beta2, rest1 = factors->rest1,
               rest2 = factors->rest2, rate = factors->rate, decay = factors->decay, epsilon = factors->epsilon;

    for (size_t i = 0; i < n; i++) {
        real g = gradient[i] * scale;

        m[i] = normal_or_zero(beta1 * m[i] + rest1 * g);
        v[i] = normal_or_zero(beta2 * v[i] + rest2 * g * g);
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
                                     .rest1 = (real)(1 - run->beta1),
                                     .rest2 = (real)(1 - run->beta2),
                                     .rate = (real)run->rate,
                                     .decay = (real)run->decay,
                                     .epsilon = (real)run->epsilon };

    update(p, m, v, gradient, n, &factors);
}
