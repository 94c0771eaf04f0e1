/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a GLU as one kernel each way: gate, layer norm, and a selection's weighted sum. A warp has a row in its
 * registers, so each array is read or written once. v and s stay the products: backward makes the gate again from them,
 * for a few operations where forward would write two arrays.
 *
 *     backward    a block a slab: a warp a row, each lane adds up its columns' sums; then the warps', in order; then
 *                 the slabs' (device.cuh)
 *
 * Rows that are too wide for that are taken by one kernel after the other, through memory.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"

namespace gate_norm_kernels
{

enum { SUM_GAMMA, SUM_BETA, SUM_V, SUM_G, GATE_SUMS };

struct opened {
    float v, s;
};

static __device__ __forceinline__ opened open_gate(float v, float bias_v, float s, float bias_g)
{
    return { v + bias_v, real_sigmoid(s + bias_g) };
}

/* N columns a lane: W is at most N warps. */
template <int N, class T> struct gate_norm_row {
    struct gate_norm g;

    __device__ void operator()(size_t r, unsigned lane) const
    {
        const size_t W = g.norm.W, first = r * W + lane;
        const view<T> v(g.v + first), s(g.s + first), skip(g.skip + first), xhats(g.xhat + first);
        float y[N], sum = 0, squares = 0;

        for (int k = 0; k < N; k++) {
            const size_t at = k * WARP, i = lane + at;

            if (i < W) {
                const opened gate = open_gate(v.get(at), g.bias_v[i], s.get(at), g.bias_g[i]);

                y[k] = skip.get(at) + gate.v * gate.s;
                sum += y[k];
            }
        }
        const float mean = warp_sum(sum) / static_cast<float>(W);
        for (int k = 0; k < N; k++)
            if (lane + k * WARP < W)
                squares += (y[k] - mean) * (y[k] - mean);
        const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(W) + g.norm.epsilon);
        const float weight = g.weights ? g.weights[r * g.V] : 0;
        const view<T> z(g.z + first), sums(g.sum + first);
        for (int k = 0; k < N; k++) {
            const size_t at = k * WARP, i = lane + at;

            if (i < W) {
                const float xhat = (y[k] - mean) * scale, value = norm_z(g.norm.gamma[i], xhat, g.norm.beta[i]);

                xhats.put(xhat, at);
                if (g.z)
                    z.put(value, at);
                if (g.weights)
                    sums.put((g.add ? sums.get(at) : 0) + weight * value, at);
            }
        }
        if (lane == 0)
            g.inverse[r] = scale;
    }
};

/* The gate alone. */
template <class T> struct gate_cell {
    struct gate_norm g;

    __device__ void operator()(size_t r, size_t i) const
    {
        const size_t at = r * g.norm.W + i;
        const opened gate = open_gate(get<T>(g.v + at), g.bias_v[i], get<T>(g.s + at), g.bias_g[i]);

        put<T>(get<T>(g.skip + at) + gate.v * gate.s, g.xhat + at);
    }
};

/* ---- backward ---- */

/* The gradients of an element's two products. */
static __device__ __forceinline__ opened gate_slopes(const struct gate_norm_backward &b, float v, float s, size_t i,
                                                     float d_y)
{
    const opened gate = open_gate(v, b.bias_v[i], s, b.bias_g[i]);
    const float d_v = d_y * gate.s;

    return { d_v, gate_d_g(d_v, gate.v, gate.s) };
}

template <int N, class T>
static __global__ void __launch_bounds__(WARP *ROW_WARPS)
    gate_norm_slabs(struct gate_norm_backward b, size_t slab, float *partial)
{
    __shared__ float lanes[ROW_WARPS][GATE_SUMS][WARP * N];
    const struct norm_backward &norm = b.norm;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t W = norm.W, end = (blockIdx.x + 1) * slab < norm.R ? (blockIdx.x + 1) * slab : norm.R;
    const float *const from = b.weights ? b.d_sum : norm.d_z;
    float sums[GATE_SUMS][N] = {};

    for (size_t r = blockIdx.x * slab + warp; r < end; r += ROW_WARPS) {
        const float weight = b.weights ? b.weights[r * b.V] : 1, inverse = norm.inverse[r];
        const size_t first = r * W + lane;
        const view<T> d_z(from + first), xhat(norm.xhat + first), v(b.v + first), s(b.s + first), d_y(norm.d_z + first);
        float d[N], x[N], sum = 0, dot = 0, weighed = 0;

        for (int k = 0; k < N; k++) {
            const size_t i = lane + k * WARP;

            if (i < W) {
                d[k] = d_z.get(k * WARP);
                x[k] = xhat.get(k * WARP);
                if (b.weights)
                    weighed += d[k] * norm_z(norm.gamma[i], x[k], b.beta[i]);
                d[k] *= weight;
                sums[SUM_GAMMA][k] += d[k] * x[k];
                sums[SUM_BETA][k] += d[k];
                sum += norm.gamma[i] * d[k];
                dot += norm.gamma[i] * d[k] * x[k];
            }
        }
        sum = warp_sum(sum) / static_cast<float>(W);
        dot = warp_sum(dot) / static_cast<float>(W);
        if (b.weights)
            weighed = warp_sum(weighed);
        if (b.weights && lane == 0)
            b.d_weights[r * b.V] = weighed;
        for (int k = 0; k < N; k++) {
            const size_t at = k * WARP, i = lane + at;

            if (i < W) {
                const float d_of_y = norm_d_y(inverse, norm.gamma[i] * d[k], sum, x[k], dot);
                const opened slopes = gate_slopes(b, v.get(at), s.get(at), i, d_of_y);

                d_y.put(d_of_y, at);
                store_any<1>({ { slopes.v } }, b.d_v + first + at);
                store_any<1>({ { slopes.s } }, b.d_g + first + at);
                sums[SUM_V][k] += slopes.v;
                sums[SUM_G][k] += slopes.s;
            }
        }
    }
    for (int s = 0; s < GATE_SUMS; s++)
        for (int k = 0; k < N; k++)
            lanes[warp][s][lane + k * WARP] = sums[s][k];
    __syncthreads();
    for (int s = 0; s < GATE_SUMS; s++)
        for (size_t i = threadIdx.x; i < W; i += WARP * ROW_WARPS) {
            float sum = 0;

            for (int w = 0; w < ROW_WARPS; w++)
                sum += lanes[w][s][i];
            partial[(blockIdx.x * GATE_SUMS + s) * W + i] = sum;
        }
}

/* The gate alone, from the gradient of y. */
template <class T> struct gate_columns {
    static constexpr int SUMS = 2;
    struct gate_norm_backward b;

    template <int V> __device__ pack<V> read(size_t r, size_t i) const
    {
        return load<V, T>(b.norm.d_z + r * b.norm.W + i);
    }
    template <int V> __device__ void operator()(size_t r, size_t i, const pack<V> &d_y, pack<V> *sums) const
    {
        for (int k = 0; k < V; k++) {
            const size_t at = r * b.norm.W + i + k;
            const opened slopes = gate_slopes(b, get<T>(b.v + at), get<T>(b.s + at), i + k, d_y.v[k]);

            store_any<1>({ { slopes.v } }, b.d_v + at);
            store_any<1>({ { slopes.s } }, b.d_g + at);
            sums[0].v[k] += slopes.v;
            sums[1].v[k] += slopes.s;
        }
    }
};

template <int N, class T> static void run_slabs(struct queue *queue, const struct gate_norm_backward *b)
{
    const struct norm_backward *norm = &b->norm;
    const size_t W = norm->W, most = CUDA_PARTIAL / (GATE_SUMS * W), rows = ROW_WARPS;
    size_t slabs = (norm->R + rows - 1) / rows, slab;

    slabs = slabs < CUDA_SLABS ? slabs : static_cast<size_t>(CUDA_SLABS);
    slabs = slabs < most ? slabs : most;
    slab = (norm->R + slabs - 1) / slabs;
    slabs = (norm->R + slab - 1) / slab;
    cuda_note(queue,
              cuda_launch(gate_norm_slabs<N, T>, slabs, WARP * ROW_WARPS, 0, queue->stream, *b, slab, queue->partial));
    launch_columns<1>(queue, sum_slabs<GATE_SUMS>{ queue->partial, W }, slabs, W, 1,
                      sums_to<GATE_SUMS>{ { norm->d_gamma, norm->d_beta, b->sum_v, b->sum_g }, 0, norm->add });
}

template <class T> static void gate_forward(struct queue *queue, const struct gate_norm *g)
{
    const struct norm *norm = &g->norm;
    const struct weighted z = { norm->R, norm->W, g->V, g->weights, g->xhat, norm->gamma, norm->beta };

    if (norm->W <= 2 * WARP) {
        run_rows(queue, gate_norm_row<2, T>{ *g }, norm->R);
    } else if (norm->W <= 5 * WARP) {
        run_rows(queue, gate_norm_row<5, T>{ *g }, norm->R);
    } else if (norm->W <= CUDA_ROW_MOST) {
        run_rows(queue, gate_norm_row<CUDA_ROW_MOST / WARP, T>{ *g }, norm->R);
    } else {
        run_cells(queue, gate_cell<T>{ *g }, norm->R, norm->W);
        cuda_norm(queue, norm, g->xhat, g->inverse, g->z);
        if (g->weights)
            cuda_weighted_sum(queue, &z, g->add, g->sum);
    }
}

template <class T> static void gate_backward(struct queue *queue, const struct gate_norm_backward *b)
{
    const struct norm_backward *norm = &b->norm;
    const struct weighted z = { norm->R, norm->W, b->V, b->weights, norm->xhat, norm->gamma, b->beta };

    if (norm->W <= 2 * WARP) {
        run_slabs<2, T>(queue, b);
    } else if (norm->W <= 5 * WARP) {
        run_slabs<5, T>(queue, b);
    } else if (norm->W <= CUDA_ROW_MOST) {
        run_slabs<CUDA_ROW_MOST / WARP, T>(queue, b);
    } else {
        if (b->weights)
            cuda_weighted_sum_backward(queue, &z, b->d_sum, norm->d_z, b->d_weights);
        cuda_norm_backward(queue, norm);
        run_columns(queue, gate_columns<T>{ *b }, takes_four(norm->W, norm->d_z), norm->R, norm->W, norm->add, b->sum_v,
                    b->sum_g);
    }
}

} // namespace gate_norm_kernels

using namespace gate_norm_kernels;

void cuda_gate_norm(struct queue *queue, const struct gate_norm *g)
{
    with_element(g->v, [&](auto element) { gate_forward<decltype(element)>(queue, g); });
}

void cuda_gate_norm_backward(struct queue *queue, const struct gate_norm_backward *b)
{
    with_element(b->v, [&](auto element) { gate_backward<decltype(element)>(queue, b); });
}
