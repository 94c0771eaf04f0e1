/* SPDX-License-Identifier: Apache-2.0
 *
 * Variable selection: softmax over the variables, the weighted sum, and skip connections that are resampled.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/formulas.h"

TFT_VECTOR static void softmax(real *z, size_t R, size_t V)
{
    for (size_t r = 0; r < R; r++) {
        real *row = z + r * V, largest = row[0], sum = 0;

        for (size_t j = 1; j < V; j++)
            largest = row[j] > largest ? row[j] : largest;
        for (size_t j = 0; j < V; j++)
            sum += row[j] = real_exp(row[j] - largest);
        for (size_t j = 0; j < V; j++)
            row[j] /= sum;
    }
}

void cpu_softmax(struct queue *queue, size_t R, size_t V, real *z)
{
    softmax(z, R, V);
}

void cpu_softmax_backward(struct queue *queue, const real *w, size_t R, size_t V, real *d_w)
{
    for (size_t r = 0; r < R; r++) {
        real dot = 0;

        for (size_t j = 0; j < V; j++)
            dot += w[r * V + j] * d_w[r * V + j];
        for (size_t j = 0; j < V; j++)
            d_w[r * V + j] = softmax_d_z(w[r * V + j], d_w[r * V + j], dot);
    }
}

TFT_VECTOR static void weighted_sum(real *restrict out, const real *restrict weights, const struct weighted *z, int add)
{
    const real *xhat = z->xhat, *gamma = z->gamma, *beta = z->beta;
    size_t R = z->R, H = z->W, V = z->V;

    for (size_t r = 0; r < R; r++) {
        real w = weights[r * V];

        if (add)
            for (size_t i = 0; i < H; i++)
                out[r * H + i] += w * norm_z(gamma[i], xhat[r * H + i], beta[i]);
        else
            for (size_t i = 0; i < H; i++)
                out[r * H + i] = w * norm_z(gamma[i], xhat[r * H + i], beta[i]);
    }
}

void cpu_weighted_sum(struct queue *queue, const struct weighted *z, int add, real *out)
{
    weighted_sum(out, z->weights, z, add);
}

TFT_VECTOR static void weighted_sum_backward(const real *restrict d_out, const real *restrict weights,
                                             const struct weighted *z, real *restrict d_z, real *restrict d_weights)
{
    const real *xhat = z->xhat, *gamma = z->gamma, *beta = z->beta;
    size_t R = z->R, H = z->W, V = z->V;

    for (size_t r = 0; r < R; r++) {
        real w = weights[r * V], sum = 0;

#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < H; i++) {
            sum += d_out[r * H + i] * norm_z(gamma[i], xhat[r * H + i], beta[i]);
            d_z[r * H + i] = w * d_out[r * H + i];
        }
        d_weights[r * V] = sum;
    }
}

void cpu_weighted_sum_backward(struct queue *queue, const struct weighted *z, const real *d_out, real *d_z,
                               real *d_weights)
{
    weighted_sum_backward(d_out, z->weights, z, d_z, d_weights);
}

void cpu_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s)
{
    for (size_t o = 0; o < out; o++)
        resample_column(mask, in, out, o, s);
}

void cpu_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in, size_t out, real *d_mask)
{
    for (size_t o = 0; o < out; o++)
        d_mask[o] = resample_d_mask(mask, d_s, in, out, o);
}
