/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: filled, added, summed, taken from a table; a batch's columns; products of rank 1.
 */
#include "tft/core/kernels/cuda/device.cuh"

namespace rows_kernels
{

template <int V, class T> struct fill_with {
    float value, *y;

    __device__ void operator()(size_t i) const
    {
        pack<V> p;

        for (int k = 0; k < V; k++)
            p.v[k] = value;
        store<V, T>(p, y + V * i);
    }
};

/* Between a narrow array and one of reals. */
template <int V> struct convert {
    const float *from;
    float *to;

    __device__ void operator()(size_t i) const
    {
        store_any<V>(load_any<V>(from + V * i), to + V * i);
    }
};

template <int V, class T> struct add_to {
    const float *x;
    float *y;

    __device__ void operator()(size_t i) const
    {
        store<V, T>(load<V, T>(y + V * i) + load<V, T>(x + V * i), y + V * i);
    }
};

/* y (R, W): row (W) is added or written. */
template <int V, bool ADD, class T> struct row_to_all {
    const float *row;
    size_t W;
    float *y;

    __device__ void operator()(size_t r, size_t i) const
    {
        float *const to = y + r * W + V * i;
        const pack<V> value = load_any<V>(row + V * i);

        store<V, T>(ADD ? load<V, T>(to) + value : value, to);
    }
};

template <class T> struct sum_rows {
    static constexpr int SUMS = 1;
    const float *x;
    size_t W;

    template <int V> __device__ pack<V> read(size_t r, size_t i) const
    {
        return load<V, T>(x + r * W + i);
    }
    template <int V> __device__ void operator()(size_t, size_t, const pack<V> &in, pack<V> *sums) const
    {
        sums[0] = sums[0] + in;
    }
};

template <class T> struct sum_outer {
    static constexpr int SUMS = 1;
    const float *d_y, *x;
    size_t W;

    template <int V> struct input {
        pack<V> d;
        float x;
    };
    template <int V> __device__ input<V> read(size_t r, size_t i) const
    {
        return { load<V, T>(d_y + r * W + i), x[r] };
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

        store_any<1>(load_any<1>(x + (a * B + b) * C + c), y + i);
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

template <int V, class T> struct take_rows {
    const float *table;
    const int32_t *codes;
    size_t W;
    float *y;

    __device__ void operator()(size_t r, size_t i) const
    {
        store<V, T>(load<V>(table + static_cast<size_t>(codes[r]) * W + V * i), y + r * W + V * i);
    }
};

template <int V, class T> struct outer_rows {
    const float *x, *w, *b; /* b NULL: added to y */
    size_t W;
    float *y;

    __device__ void operator()(size_t r, size_t i) const
    {
        float *const to = y + r * W + V * i;
        const pack<V> factor = load<V>(w + V * i);
        pack<V> value = b ? load<V>(b + V * i) : load<V, T>(to);

        for (int k = 0; k < V; k++)
            value.v[k] = x[r] * factor.v[k] + value.v[k];
        store<V, T>(value, to);
    }
};

} // namespace rows_kernels

using namespace rows_kernels;

void cuda_copy(struct queue *queue, const real *from, size_t n, real *to)
{
    if (tft_is_narrow(from) == tft_is_narrow(to))
        cuda_note(queue, cudaMemcpyAsync(tft_place_of(to), tft_place_of(from), n * tft_bytes_of(to),
                                         cudaMemcpyDeviceToDevice, queue->stream));
    else if (takes_four(n, from, to))
        run_each(queue, convert<4>{ from, to }, n / 4);
    else
        run_each(queue, convert<1>{ from, to }, n);
}

void cuda_fill(struct queue *queue, double value, size_t n, real *y)
{
    const float with = static_cast<float>(value);

    with_element(y, [&](auto element) {
        using T = decltype(element);

        if (takes_four(n, y))
            run_each(queue, fill_with<4, T>{ with, y }, n / 4);
        else
            run_each(queue, fill_with<1, T>{ with, y }, n);
    });
}

void cuda_add(struct queue *queue, const real *x, size_t n, real *y)
{
    with_element(y, [&](auto element) {
        using T = decltype(element);

        if (takes_four(n, x, y))
            run_each(queue, add_to<4, T>{ x, y }, n / 4);
        else
            run_each(queue, add_to<1, T>{ x, y }, n);
    });
}

template <bool ADD> static void run_row(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    with_element(y, [&](auto element) {
        using T = decltype(element);

        if (takes_four(W, row, y))
            run_cells(queue, row_to_all<4, ADD, T>{ row, W, y }, R, W / 4);
        else
            run_cells(queue, row_to_all<1, ADD, T>{ row, W, y }, R, W);
    });
}

void cuda_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    run_row<true>(queue, b, R, W, y);
}

void cuda_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    run_row<false>(queue, row, R, W, y);
}

void cuda_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum)
{
    with_element(x, [&](auto element) {
        run_columns(queue, sum_rows<decltype(element)>{ x, W }, takes_four(W, x), R, W, add, sum);
    });
}

void cuda_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum)
{
    with_element(x, [&](auto element) {
        run_columns(queue, sum_rows<decltype(element)>{ x, B * W }, takes_four(B * W, x), R / B, B * W, 1, sum);
    });
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
    with_element(y, [&](auto element) {
        using T = decltype(element);

        if (takes_four(W, table, y))
            run_cells(queue, take_rows<4, T>{ table, codes, W, y }, R, W / 4);
        else
            run_cells(queue, take_rows<1, T>{ table, codes, W, y }, R, W);
    });
}

/* b NULL: added. */
static void run_outer(struct queue *queue, const real *x, const real *w, const real *b, size_t R, size_t W, real *y)
{
    with_element(y, [&](auto element) {
        using T = decltype(element);

        if (takes_four(W, w, b, y))
            run_cells(queue, outer_rows<4, T>{ x, w, b, W, y }, R, W / 4);
        else
            run_cells(queue, outer_rows<1, T>{ x, w, b, W, y }, R, W);
    });
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
    with_element(d_y, [&](auto element) {
        run_columns(queue, sum_outer<decltype(element)>{ d_y, x, W }, takes_four(W, d_y), R, W, 1, d_w);
    });
}
