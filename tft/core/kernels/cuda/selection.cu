/* SPDX-License-Identifier: Apache-2.0
 *
 * Variable selection: softmax over the variables, the weighted sum, and skip connections that are resampled (the
 * formulas: tft/core/kernels/cpu_selection.c).
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"

namespace selection_kernels
{

struct softmax_row {
    size_t V;
    float *z;

    __device__ void operator()(size_t r, unsigned lane) const
    {
        float *row = z + r * V, largest = -INFINITY, sum = 0;

        for (size_t j = lane; j < V; j += WARP)
            largest = row[j] > largest ? row[j] : largest;
        largest = warp_max(largest);
        for (size_t j = lane; j < V; j += WARP)
            sum += row[j] = expf(row[j] - largest);
        sum = warp_sum(sum);
        for (size_t j = lane; j < V; j += WARP)
            row[j] /= sum;
    }
};

struct softmax_row_backward {
    size_t V;
    const float *w;
    float *d_w;

    __device__ void operator()(size_t r, unsigned lane) const
    {
        float dot = 0;

        for (size_t j = lane; j < V; j += WARP)
            dot += w[r * V + j] * d_w[r * V + j];
        dot = warp_sum(dot);
        for (size_t j = lane; j < V; j += WARP)
            d_w[r * V + j] = softmax_d_z(w[r * V + j], d_w[r * V + j], dot);
    }
};

template <int V, class T> struct add_weighted {
    struct weighted z;
    int add;
    float *out;

    __device__ void operator()(size_t r, size_t i) const
    {
        const size_t at = r * z.W + V * i;
        const pack<V> xhat = load<V, T>(z.xhat + at), gamma = load<V>(z.gamma + V * i), beta = load<V>(z.beta + V * i);
        const float weight = z.weights[r * z.V];
        pack<V> sum = {};

        if (add)
            sum = load<V, T>(out + at);
        for (int k = 0; k < V; k++)
            sum.v[k] += weight * norm_z(gamma.v[k], xhat.v[k], beta.v[k]);
        store<V, T>(sum, out + at);
    }
};

template <class T> struct weighted_backward {
    struct weighted z;
    const float *d_out;
    float *d_z, *d_weights;

    __device__ void operator()(size_t r, unsigned lane) const
    {
        const float w = z.weights[r * z.V];
        float sum = 0;

        for (size_t k = lane; k < z.W; k += WARP) {
            const size_t at = r * z.W + k;
            const float d = get<T>(d_out + at);

            sum += d * norm_z(z.gamma[k], get<T>(z.xhat + at), z.beta[k]);
            put<T>(w * d, d_z + at);
        }
        sum = warp_sum(sum);
        if (lane == 0)
            d_weights[r * z.V] = sum;
    }
};

/* A thread an output: its column of S. */
struct resample_columns {
    const float *mask;
    size_t in, out;
    float *s;

    __device__ void operator()(size_t o) const
    {
        resample_column(mask, in, out, o, s);
    }
};

struct resample_slopes {
    const float *mask, *d_s;
    size_t in, out;
    float *d_mask;

    __device__ void operator()(size_t o) const
    {
        d_mask[o] = resample_d_mask(mask, d_s, in, out, o);
    }
};

} // namespace selection_kernels

using namespace selection_kernels;

void cuda_softmax(struct queue *queue, size_t R, size_t V, real *z)
{
    run_rows(queue, softmax_row{ V, z }, R);
}

void cuda_softmax_backward(struct queue *queue, const real *w, size_t R, size_t V, real *d_w)
{
    run_rows(queue, softmax_row_backward{ V, w, d_w }, R);
}

void cuda_weighted_sum(struct queue *queue, const struct weighted *z, int add, real *out)
{
    with_element(out, [&](auto element) {
        using T = decltype(element);

        if (takes_four(z->W, z->xhat, z->gamma, z->beta, out))
            run_cells(queue, add_weighted<4, T>{ *z, add, out }, z->R, z->W / 4);
        else
            run_cells(queue, add_weighted<1, T>{ *z, add, out }, z->R, z->W);
    });
}

void cuda_weighted_sum_backward(struct queue *queue, const struct weighted *z, const real *d_out, real *d_z,
                                real *d_weights)
{
    with_element(d_out, [&](auto element) {
        run_rows(queue, weighted_backward<decltype(element)>{ *z, d_out, d_z, d_weights }, z->R);
    });
}

void cuda_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s)
{
    run_each(queue, resample_columns{ mask, in, out, s }, out);
}

void cuda_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in, size_t out, real *d_mask)
{
    run_each(queue, resample_slopes{ mask, d_s, in, out, d_mask }, out);
}
