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
        store<V>(load<V>(y + V * i) + load<V>(x + V * i), y + V * i);
    }
};

/* y (R, W): row (W) is added or written. */
template <int V, bool ADD> struct row_to_all {
    const float *row;
    size_t W;
    float *y;

    __device__ void operator()(size_t r, size_t i) const
    {
        float *const to = y + r * W + V * i;
        const pack<V> value = load<V>(row + V * i);

        store<V>(ADD ? load<V>(to) + value : value, to);
    }
};

struct sum_rows {
    static constexpr int SUMS = 1;
    const float *x;
    size_t W;

    template <int V> __device__ pack<V> read(size_t r, size_t i) const
    {
        return load<V>(x + r * W + i);
    }
    template <int V> __device__ void operator()(size_t, size_t, const pack<V> &in, pack<V> *sums) const
    {
        sums[0] = sums[0] + in;
    }
};

struct sum_outer {
    static constexpr int SUMS = 1;
    const float *d_y, *x;
    size_t W;

    template <int V> struct input {
        pack<V> d;
        float x;
    };
    template <int V> __device__ input<V> read(size_t r, size_t i) const
    {
        return { load<V>(d_y + r * W + i), x[r] };
    }
    template <int V> __device__ void operator()(size_t, size_t, const input<V> &in, pack<V> *sums) const
    {
        for (int k = 0; k < V; k++)
            sums[0].v[k] += in.x * in.d.v[k];
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

    __device__ void operator()(size_t r, size_t i) const
    {
        store<V>(load<V>(table + static_cast<size_t>(codes[r]) * W + V * i), y + r * W + V * i);
    }
};

template <int V> struct outer_rows {
    const float *x, *w, *b; /* b NULL: added to y */
    size_t W;
    float *y;

    __device__ void operator()(size_t r, size_t i) const
    {
        float *const to = y + r * W + V * i;
        const pack<V> factor = load<V>(w + V * i);
        pack<V> value = load<V>(b ? b + V * i : to);

        for (int k = 0; k < V; k++)
            value.v[k] = x[r] * factor.v[k] + value.v[k];
        store<V>(value, to);
    }
};

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
        run_cells(queue, row_to_all<4, true>{ b, W, y }, R, W / 4);
    else
        run_cells(queue, row_to_all<1, true>{ b, W, y }, R, W);
}

void cuda_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    if (takes_four(W, row, y))
        run_cells(queue, row_to_all<4, false>{ row, W, y }, R, W / 4);
    else
        run_cells(queue, row_to_all<1, false>{ row, W, y }, R, W);
}

void cuda_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum)
{
    run_columns(queue, sum_rows{ x, W }, takes_four(W, x), R, W, add, sum);
}

void cuda_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum)
{
    run_columns(queue, sum_rows{ x, B * W }, takes_four(B * W, x), R / B, B * W, 1, sum);
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
        run_cells(queue, take_rows<4>{ table, codes, W, y }, R, W / 4);
    else
        run_cells(queue, take_rows<1>{ table, codes, W, y }, R, W);
}

/* b NULL: added. */
static void run_outer(struct queue *queue, const real *x, const real *w, const real *b, size_t R, size_t W, real *y)
{
    if (takes_four(W, w, b, y))
        run_cells(queue, outer_rows<4>{ x, w, b, W, y }, R, W / 4);
    else
        run_cells(queue, outer_rows<1>{ x, w, b, W, y }, R, W);
}

void cuda_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y)
{
    run_outer(queue, x, wb, wb + W, R, W, y);
}

void cuda_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y)
{
    run_outer(queue, x, w, nullptr, R, W, y);
}

void cuda_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w)
{
    run_columns(queue, sum_outer{ d_y, x, W }, takes_four(W, d_y), R, W, 1, d_w);
}
