/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: filled, added, summed, taken from a table; a batch's columns; products of rank 1.
 */
#include "tft/core/kernels/cuda/device.cuh"

namespace rows_kernels
{

struct fill_with {
    float value, *y;

    __device__ void operator()(size_t i) const
    {
        y[i] = value;
    }
};

template <int V> struct add_to {
    const float *x;
    float *y;

    __device__ void operator()(size_t i) const
    {
        pack<V> sum = load<V>(y + V * i), more = load<V>(x + V * i);

        for (int k = 0; k < V; k++)
            sum.v[k] += more.v[k];
        store<V>(sum, y + V * i);
    }
};

/* y (R, W): row (W) is added or written. */
template <int V, bool ADD> struct row_to_all {
    const float *row;
    size_t W;
    float *y;

    __device__ void operator()(size_t i) const
    {
        pack<V> value = load<V>(row + V * i % W);

        if (ADD) {
            pack<V> before = load<V>(y + V * i);

            for (int k = 0; k < V; k++)
                value.v[k] += before.v[k];
        }
        store<V>(value, y + V * i);
    }
};

struct sum_rows {
    static constexpr int SUMS = 1;
    const float *x;
    size_t W;

    __device__ void operator()(size_t r, size_t i, float *sums) const
    {
        sums[0] += x[r * W + i];
    }
};

struct sum_outer {
    static constexpr int SUMS = 1;
    const float *d_y, *x;
    size_t W;

    __device__ void operator()(size_t r, size_t i, float *sums) const
    {
        sums[0] += x[r] * d_y[r * W + i];
    }
};

struct sum_samples {
    const float *x;
    size_t R, BW, B;
    float *sum;

    __device__ void operator()(size_t i) const
    {
        float all = sum[i];

        for (size_t r = 0; r < R / B; r++)
            all += x[r * BW + i];
        sum[i] = all;
    }
};

struct swap_rows {
    const float *x;
    size_t A, B, C;
    float *y;

    __device__ void operator()(size_t i) const
    {
        size_t c = i % C, a = i / C % A, b = i / C / A;

        y[i] = x[(a * B + b) * C + c];
    }
};

template <class T> struct take_column {
    struct column column;
    const T *x;
    T *y;

    __device__ void operator()(size_t i) const
    {
        size_t b = i % column.B, t = i / column.B;

        y[i] =
            column.padding && t < column.padding[b] ? T(0) : x[(b * column.steps + t) * column.columns + column.column];
    }
};

template <int V> struct take_rows {
    const float *table;
    const int32_t *codes;
    size_t W;
    float *y;

    __device__ void operator()(size_t i) const
    {
        size_t r = V * i / W, k = V * i % W;

        store<V>(load<V>(table + static_cast<size_t>(codes[r]) * W + k), y + V * i);
    }
};

struct outer_rows {
    const float *x, *w, *b; /* b NULL: added to y */
    size_t W;
    float *y;

    __device__ void operator()(size_t i) const
    {
        y[i] = x[i / W] * w[i % W] + (b ? b[i % W] : y[i]);
    }
};

constexpr int PUT_THREADS = 128;

/* A block a row. The first row of a code adds all rows of that code to the table, in their order; the others have
 * nothing to do. */
static __global__ void __launch_bounds__(PUT_THREADS)
    put_rows(const float *x, const int32_t *codes, size_t R, size_t W, float *table)
{
    for (size_t first = blockIdx.x; first < R; first += gridDim.x) {
        const int32_t code = codes[first];
        int is_later = 0;

        for (size_t r = threadIdx.x; r < first && !is_later; r += PUT_THREADS)
            is_later = codes[r] == code;
        if (__syncthreads_or(is_later))
            continue;
        for (size_t i = threadIdx.x; i < W; i += PUT_THREADS) {
            float sum = table[static_cast<size_t>(code) * W + i];

            for (size_t r = first; r < R; r++)
                if (codes[r] == code)
                    sum += x[r * W + i];
            table[static_cast<size_t>(code) * W + i] = sum;
        }
    }
}

} // namespace rows_kernels

using namespace rows_kernels;

void cuda_fill(struct queue *queue, double value, size_t n, real *y)
{
    run_each(queue, fill_with{ static_cast<float>(value), y }, n);
}

void cuda_add(struct queue *queue, const real *x, size_t n, real *y)
{
    if (takes_four(n, x, y))
        run_each(queue, add_to<4>{ x, y }, n / 4);
    else
        run_each(queue, add_to<1>{ x, y }, n);
}

void cuda_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    if (takes_four(W, b, y))
        run_each(queue, row_to_all<4, true>{ b, W, y }, R * W / 4);
    else
        run_each(queue, row_to_all<1, true>{ b, W, y }, R * W);
}

void cuda_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    if (takes_four(W, row, y))
        run_each(queue, row_to_all<4, false>{ row, W, y }, R * W / 4);
    else
        run_each(queue, row_to_all<1, false>{ row, W, y }, R * W);
}

void cuda_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum)
{
    run_columns(queue, sum_rows{ x, W }, R, W, add, sum);
}

void cuda_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum)
{
    run_each(queue, sum_samples{ x, R, B * W, B, sum }, B * W);
}

void cuda_swap(struct queue *queue, const real *x, size_t A, size_t B, size_t C, real *y)
{
    run_each(queue, swap_rows{ x, A, B, C, y }, A * B * C);
}

void cuda_take_reals(struct queue *queue, const struct column *column, const real *x, real *y)
{
    run_each(queue, take_column<float>{ *column, x, y }, column->B * column->steps);
}

void cuda_take_codes(struct queue *queue, const struct column *column, const int32_t *x, int32_t *y)
{
    run_each(queue, take_column<int32_t>{ *column, x, y }, column->B * column->steps);
}

void cuda_rows_take(struct queue *queue, const real *table, const int32_t *codes, size_t R, size_t W, real *y)
{
    if (takes_four(W, table, y))
        run_each(queue, take_rows<4>{ table, codes, W, y }, R * W / 4);
    else
        run_each(queue, take_rows<1>{ table, codes, W, y }, R * W);
}

void cuda_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table)
{
    cuda_note(queue, cuda_launch(put_rows, blocks_for(R, 1), PUT_THREADS, 0, queue->stream, x, codes, R, W, table));
}

void cuda_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y)
{
    run_each(queue, outer_rows{ x, wb, wb + W, W, y }, R * W);
}

void cuda_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y)
{
    run_each(queue, outer_rows{ x, w, nullptr, W, y }, R * W);
}

void cuda_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w)
{
    run_columns(queue, sum_outer{ d_y, x, W }, R, W, 1, d_w);
}
