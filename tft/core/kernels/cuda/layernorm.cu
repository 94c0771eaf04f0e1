/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm: a warp a row, with the two passes of tft/core/kernels/cpu_layernorm.c; backward has one pass for the sums
 * over rows and one for the rows.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"

namespace layernorm_kernels
{

template <class T> struct normalise {
    size_t W;
    float epsilon;
    const float *gamma, *beta;
    float *y, *inverse, *z; /* z may be NULL */

    __device__ void operator()(size_t r, unsigned lane) const
    {
        float *row = y + r * W, sum = 0, squares = 0;

        for (size_t i = lane; i < W; i += WARP)
            sum += get<T>(row + i);
        const float mean = warp_sum(sum) / static_cast<float>(W);
        for (size_t i = lane; i < W; i += WARP)
            squares += (get<T>(row + i) - mean) * (get<T>(row + i) - mean);
        const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(W) + epsilon);
        for (size_t i = lane; i < W; i += WARP) {
            const float xhat = (get<T>(row + i) - mean) * scale;

            put<T>(xhat, row + i);
            if (z)
                put<T>(norm_z(gamma[i], xhat, beta[i]), z + r * W + i);
        }
        if (lane == 0)
            inverse[r] = scale;
    }
};

template <class T> struct norm_sums {
    static constexpr int SUMS = 2;
    const float *d_z, *xhat;
    size_t W;

    template <int V> struct input {
        pack<V> d, x;
    };
    template <int V> __device__ input<V> read(size_t r, size_t i) const
    {
        return { load<V, T>(d_z + r * W + i), load<V, T>(xhat + r * W + i) };
    }
    template <int V> __device__ void operator()(size_t, size_t, const input<V> &in, pack<V> *sums) const
    {
        for (int k = 0; k < V; k++) {
            sums[0].v[k] += in.d.v[k] * in.x.v[k];
            sums[1].v[k] += in.d.v[k];
        }
    }
};

template <class T> struct norm_rows {
    size_t W;
    const float *xhat, *inverse, *gamma;
    float *d_z;

    __device__ void operator()(size_t r, unsigned lane) const
    {
        const float *x = xhat + r * W;
        float *d = d_z + r * W, sum = 0, dot = 0;

        for (size_t i = lane; i < W; i += WARP) {
            const float s = gamma[i] * get<T>(d + i);

            sum += s;
            dot += s * get<T>(x + i);
        }
        sum = warp_sum(sum) / static_cast<float>(W);
        dot = warp_sum(dot) / static_cast<float>(W);
        for (size_t i = lane; i < W; i += WARP)
            put<T>(norm_d_y(inverse[r], gamma[i] * get<T>(d + i), sum, get<T>(x + i), dot), d + i);
    }
};

} // namespace layernorm_kernels

using namespace layernorm_kernels;

void cuda_norm(struct queue *queue, const struct norm *norm, real *y, real *inverse, real *z)
{
    with_element(y, [&](auto element) {
        run_rows(queue, normalise<decltype(element)>{ norm->W, norm->epsilon, norm->gamma, norm->beta, y, inverse, z },
                 norm->R);
    });
}

void cuda_norm_backward(struct queue *queue, const struct norm_backward *b)
{
    with_element(b->xhat, [&](auto element) {
        using T = decltype(element);

        run_columns(queue, norm_sums<T>{ b->d_z, b->xhat, b->W }, takes_four(b->W, b->d_z, b->xhat), b->R, b->W, b->add,
                    b->d_gamma, b->d_beta);
        run_rows(queue, norm_rows<T>{ b->W, b->xhat, b->inverse, b->gamma, b->d_z }, b->R);
    });
}
