/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention (the formulas: tft/core/kernels/cpu_attention.c). Rows are time-major: the next step of a sample is B rows
 * on.
 *
 *     forward     a block a (sample, head), a warp a query: scores, softmax, product with v -> o of each head
 *                 then for each (query, sample, column) the mean of the heads
 *     backward    the same blocks: d_a, the scores' gradient, d_q; then for each step d_k and d_v, whose sums run over
 *                 queries (and heads) in order
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"

namespace attention_kernels
{

constexpr int QUERY_WARPS = 8;

/* Sizes and arrays of a call, for all kernels. */
struct shape {
    size_t B, T, N, heads, d;
    size_t strict;
    const size_t *padding; /* NULL: none */
    const float *q, *k, *v;
    float *a, *o; /* o: (B, heads, N, d) */
    float scale;

    __device__ size_t first(size_t b) const
    {
        return padding ? padding[b] : 0;
    }

    __device__ size_t seen(size_t n) const
    {
        return T - N + n + 1 - strict;
    }
};

static __device__ float head_dot(const float *x, const float *y, size_t n)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static __global__ void __launch_bounds__(WARP *QUERY_WARPS) attend_forward(shape s)
{
    const size_t b = blockIdx.x / s.heads, h = blockIdx.x % s.heads, H = s.heads * s.d;
    const unsigned lane = threadIdx.x % WARP;

    for (size_t n = threadIdx.x / WARP; n < s.N; n += QUERY_WARPS) {
        const size_t seen = s.seen(n), from = s.first(b) < seen ? s.first(b) : seen;
        const float *q = s.q + (n * s.B + b) * H + h * s.d;
        float *row = s.a + (blockIdx.x * s.N + n) * s.T, *o = s.o + (blockIdx.x * s.N + n) * s.d;
        float largest = -INFINITY, sum = 0;

        for (size_t t = lane; t < s.T; t += WARP) {
            const bool is_seen = t >= from && t < seen;
            const float score = is_seen ? head_dot(q, s.k + (t * s.B + b) * H + h * s.d, s.d) : 0;

            row[t] = score;
            largest = is_seen && score > largest ? score : largest;
        }
        largest = warp_max(largest);
        for (size_t t = lane; t < s.T; t += WARP)
            if (t >= from && t < seen)
                sum += row[t] = expf((row[t] - largest) * s.scale);
        sum = warp_sum(sum);
        for (size_t t = lane; t < s.T; t += WARP)
            if (t >= from && t < seen)
                row[t] /= sum;
        __syncwarp(); /* the row is read by all lanes */
        for (size_t i = lane; i < s.d; i += WARP) {
            float value = 0;

            for (size_t t = from; t < seen; t++)
                value += row[t] * s.v[(t * s.B + b) * s.d + i];
            o[i] = value;
        }
    }
}

/* ---- the mean of the heads ---- */

struct mean_of_heads {
    struct attention_run run;
    const float *o;
    float *mean;

    __device__ void operator()(size_t i) const
    {
        const size_t d = run.d, column = i % d, b = i / d % run.B, n = i / d / run.B;
        float sum = 0;

        for (size_t h = 0; h < run.heads; h++) {
            const size_t at = ((b * run.heads + h) * run.N + n) * d + column;

            if (!run.dropout.threshold)
                sum += o[at];
            else
                sum += dropout_value(run.keep[at], o[at], run.dropout.scale);
        }
        mean[i] = sum / static_cast<float>(run.heads);
    }
};

/* d_o of every head, from the mean's gradient. */
struct spread_mean {
    struct attention_run run;
    const float *d_mean;
    float *d_o;

    __device__ void operator()(size_t i) const
    {
        const size_t d = run.d, column = i % d, n = i / d % run.N, b = i / d / run.N / run.heads;
        const float part = d_mean[(n * run.B + b) * d + column] / static_cast<float>(run.heads);

        if (!run.dropout.threshold)
            d_o[i] = part;
        else
            d_o[i] = dropout_value(run.keep[i], part, run.dropout.scale);
    }
};

/* ---- backward ---- */

static __global__ void __launch_bounds__(WARP *QUERY_WARPS)
    attend_backward(shape s, const float *d_o, float *d_a, float *d_q)
{
    const size_t b = blockIdx.x / s.heads, h = blockIdx.x % s.heads, H = s.heads * s.d;
    const unsigned lane = threadIdx.x % WARP;

    for (size_t n = threadIdx.x / WARP; n < s.N; n += QUERY_WARPS) {
        const float *row = s.a + (blockIdx.x * s.N + n) * s.T, *from_o = d_o + (blockIdx.x * s.N + n) * s.d;
        float *d = d_a + (blockIdx.x * s.N + n) * s.T, row_dot = 0;

        for (size_t t = lane; t < s.T; t += WARP) {
            d[t] = head_dot(from_o, s.v + (t * s.B + b) * s.d, s.d);
            row_dot += row[t] * d[t];
        }
        row_dot = warp_sum(row_dot);
        for (size_t t = lane; t < s.T; t += WARP)
            d[t] = softmax_d_z(row[t], d[t], row_dot) * s.scale;
        __syncwarp();
        for (size_t i = lane; i < s.d; i += WARP) {
            float sum = 0;

            for (size_t t = 0; t < s.T; t++)
                sum += d[t] * s.k[(t * s.B + b) * H + h * s.d + i];
            d_q[(n * s.B + b) * H + h * s.d + i] = sum;
        }
    }
}

/* A thread an element of k. */
struct keys_backward {
    shape s;
    const float *d_a;
    float *d_k;

    __device__ void operator()(size_t i) const
    {
        const size_t H = s.heads * s.d, column = i % H, b = i / H % s.B, t = i / H / s.B, h = column / s.d;
        float sum = 0;

        for (size_t n = 0; n < s.N; n++)
            sum += d_a[((b * s.heads + h) * s.N + n) * s.T + t] * s.q[(n * s.B + b) * H + column];
        d_k[i] = sum;
    }
};

/* A thread an element of v, which all heads share. */
struct values_backward {
    shape s;
    const float *d_o;
    float *d_v;

    __device__ void operator()(size_t i) const
    {
        const size_t column = i % s.d, b = i / s.d % s.B, t = i / s.d / s.B;
        float sum = 0;

        for (size_t hn = 0; hn < s.heads * s.N; hn++) {
            const size_t at = b * s.heads * s.N + hn;

            sum += s.a[at * s.T + t] * d_o[at * s.d + column];
        }
        d_v[i] = sum;
    }
};

static shape shape_of(const struct attention_run *run)
{
    return shape{
        run->B, run->T, run->N, run->heads, run->d,       static_cast<size_t>(run->strict != 0),   run->padding,
        run->q, run->k, run->v, run->a,     run->scratch, 1.0f / sqrtf(static_cast<float>(run->d))
    };
}

} // namespace attention_kernels

using namespace attention_kernels;

void cuda_attention(struct queue *queue, const struct attention_run *run, real *mean)
{
    const shape s = shape_of(run);

    cuda_note(queue, cuda_launch(attend_forward, run->B * run->heads, WARP * QUERY_WARPS, 0, queue->stream, s));
    if (run->dropout.threshold)
        cuda_draw_heads(queue, run);
    run_each(queue, mean_of_heads{ *run, s.o, mean }, run->N * run->B * run->d);
}

void cuda_attention_backward(struct queue *queue, const struct attention_run *run, const struct attention_gradient *to)
{
    const shape s = shape_of(run);
    const size_t n = run->B * run->heads * run->N;
    float *d_o = run->scratch, *d_a = d_o + n * run->d;

    run_each(queue, spread_mean{ *run, to->d_mean, d_o }, n * run->d);
    cuda_note(queue, cuda_launch(attend_backward, run->B * run->heads, WARP * QUERY_WARPS, 0, queue->stream, s, d_o,
                                 d_a, to->d_q));
    run_each(queue, keys_backward{ s, d_a, to->d_k }, run->T * run->B * run->heads * run->d);
    run_each(queue, values_backward{ s, d_o, to->d_v }, run->T * run->B * run->d);
}

size_t cuda_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d)
{
    return B * heads * N * (d + T);
}
