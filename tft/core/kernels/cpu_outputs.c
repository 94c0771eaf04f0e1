/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs: quantiles that cannot cross, losses, the outputs' order.
 *
 * Ascending quantiles: o_q moves p_q and all above it, with slope sigmoid(o_q) = 1 - e^(p_(q-1) - p_q): what forward
 * wrote over o is enough.
 */
#include "tft/core/kernels/cpu.h"

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

static double quantile_loss(const struct outputs_run *run, real *d_p)
{
    size_t Q = run->P, O = run->O, B = run->B, D = run->D;
    double sum = 0;

    for (size_t t = 0; t < D; t++)
        for (size_t b = 0; b < B; b++)
            for (size_t q = 0; q < Q; q++)
                for (size_t o = 0; o < O; o++) {
                    size_t at = (t * B + b) * Q * O + q * O + o, target = (b * D + t) * O + o;
                    double weight = (double)run->w[target], above, slope;

                    /* A masked target may hold anything, a NaN too. */
                    above = weight == 0 ? 0 : (double)run->y[target] - (double)run->p[at];
                    slope = tft_quantile_slope(above, run->quantiles[q]);
                    sum -= weight == 0 ? 0 : weight * slope * above;
                    if (d_p)
                        d_p[at] = weight == 0 ? 0 : (real)(weight * slope * run->scale);
                }
    return sum * run->scale;
}

static double sum_of_targets(const struct outputs_run *run, real *d_p)
{
    size_t P = run->P, O = run->O, B = run->B, D = run->D;
    double sum = 0;

    for (size_t t = 0; t < D; t++)
        for (size_t b = 0; b < B; b++)
            for (size_t o = 0; o < O; o++) {
                size_t at = (t * B + b) * P * O + o, target = (b * D + t) * O + o;
                double weight = (double)run->w[target], numbers[TFT_LOSS_PARAMETERS_MAX],
                       slopes[TFT_LOSS_PARAMETERS_MAX] = { 0 };

                for (size_t k = 0; k < P; k++)
                    numbers[k] = (double)run->p[at + k * O];
                if (weight != 0) /* a masked target may hold anything, a NaN too */
                    sum += weight * tft_target_loss(run, target, b * O + o, numbers, slopes);
                for (size_t k = 0; k < P && d_p; k++)
                    d_p[at + k * O] = (real)(weight * slopes[k] * run->scale);
            }
    return sum * run->scale;
}

void cpu_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p)
{
    *loss = run->loss == TFT_LOSS_QUANTILES ? quantile_loss(run, d_p) : sum_of_targets(run, d_p);
}
