/* SPDX-License-Identifier: Apache-2.0
 *
 * Variable selection: softmax over the variables, the weighted sum, and skip connections that are resampled. With c_io
 * the interpolation's coefficients, s the sigmoid: S_io = 2 s(mask_o) c_io,  d_mask_o = 2 s'(mask_o) sum over i of c_io
 * d_S_io.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/vector.h"

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
            d_w[r * V + j] = w[r * V + j] * (d_w[r * V + j] - dot);
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
                out[r * H + i] += w * (gamma[i] * xhat[r * H + i] + beta[i]);
        else
            for (size_t i = 0; i < H; i++)
                out[r * H + i] = w * (gamma[i] * xhat[r * H + i] + beta[i]);
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
            sum += d_out[r * H + i] * (gamma[i] * xhat[r * H + i] + beta[i]);
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

/* The two inputs of output o, and the second one's share. */
struct between {
    size_t left, right;
    real share;
};

static struct between between(size_t o, size_t in, size_t out)
{
    real position = out > 1 ? (real)o * (real)(in - 1) / (real)(out - 1) : 0;
    size_t left = (size_t)position;

    if (left > in - 1)
        left = in - 1;
    return (struct between){ left, left + 1 < in ? left + 1 : left, position - (real)left };
}

void cpu_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s)
{
    memset(s, 0, in * out * sizeof *s);
    for (size_t o = 0; o < out; o++) {
        struct between at = between(o, in, out);
        real scale = mask ? 2 * real_sigmoid(mask[o]) : 1;

        s[at.left * out + o] += scale * (1 - at.share);
        s[at.right * out + o] += scale * at.share;
    }
}

void cpu_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in, size_t out, real *d_mask)
{
    for (size_t o = 0; o < out; o++) {
        struct between at = between(o, in, out);
        real open = real_sigmoid(mask[o]);
        real dot = (1 - at.share) * d_s[at.left * out + o] + at.share * d_s[at.right * out + o];

        d_mask[o] = 2 * open * (1 - open) * dot;
    }
}
