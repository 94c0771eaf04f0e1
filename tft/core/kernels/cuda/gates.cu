/* SPDX-License-Identifier: Apache-2.0
 *
 * The element-wise parts between the products of a layer: ELU, dropout.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"
#include "tft/core/kernels/philox.h"

namespace gates_kernels
{

/* ---- ELU ---- */

template <int V, class T> struct elu_of {
    float *x;

    __device__ void operator()(size_t i) const
    {
        pack<V> p = load<V, T>(x + V * i);

        for (int k = 0; k < V; k++)
            p.v[k] = p.v[k] > 0 ? p.v[k] : expm1f(p.v[k]);
        store<V, T>(p, x + V * i);
    }
};

template <class T> struct elu_backward {
    static constexpr int SUMS = 1;
    const float *e;
    size_t W;
    float *d_e;

    template <int V> struct input {
        pack<V> y, d;
    };
    template <int V> __device__ input<V> read(size_t r, size_t i) const
    {
        return { load<V, T>(e + r * W + i), load<V, T>(d_e + r * W + i) };
    }
    template <int V> __device__ void operator()(size_t r, size_t i, const input<V> &in, pack<V> *sums) const
    {
        pack<V> d;

        for (int k = 0; k < V; k++) {
            d.v[k] = in.d.v[k] * elu_slope(in.y.v[k]);
            sums[0].v[k] += d.v[k];
        }
        store<V, T>(d, d_e + r * W + i);
    }
};

/* ---- dropout ---- */

/* The draws of a Philox counter (tft/core/kernels/philox.c), for four elements. */
struct draws {
    uint32_t of[4];
};

/* The counters of a row. */
struct row_draws {
    uint64_t element; /* the row's first */
    uint32_t seed, site, step, sample;

    __device__ draws at(size_t counter) const
    {
        const uint64_t block = element / 4 + counter;
        uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = step, c3 = sample;
        uint32_t k0 = seed, k1 = site;

        for (int round = 0; round < PHILOX_ROUNDS; round++) {
            const uint64_t p0 = static_cast<uint64_t>(PHILOX_M0) * c0, p1 = static_cast<uint64_t>(PHILOX_M1) * c2;

            c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
            c1 = static_cast<uint32_t>(p1);
            c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
            c3 = static_cast<uint32_t>(p0);
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        return { { c0, c1, c2, c3 } };
    }
};

/* pass: whose values are the device's, NULL: those of the call. */
static __device__ row_draws draws_of(const struct dropout &dropout, const struct pass_values *pass, uint32_t site,
                                     uint64_t element, size_t sample)
{
    const uint64_t position = pass ? pass->position : dropout.position;

    return { element, pass ? pass->seed : dropout.seed, site, pass ? pass->step : dropout.step,
             static_cast<uint32_t>(position + sample) };
}

/* Counters of a row of W elements that begins anywhere, at most. */
static size_t counters_of(size_t W)
{
    return (W + 6) / 4;
}

/* The elements of a counter among a row's W: calls visit(column, draw). */
template <class Visit>
static __device__ __forceinline__ void each_draw(const row_draws &row, size_t counter, size_t W, Visit visit)
{
    const draws drawn = row.at(counter);
    const size_t skip = row.element % 4;

    for (size_t k = 0; k < 4; k++)
        if (4 * counter + k >= skip && 4 * counter + k - skip < W)
            visit(4 * counter + k - skip, drawn.of[k]);
}

/* Four elements, and the flags of their bytes. */
static __device__ __forceinline__ pack<4> drop_four(uint32_t keep, pack<4> x, float scale)
{
    for (int k = 0; k < 4; k++)
        x.v[k] = dropout_value(keep >> 8 * k & 1, x.v[k], scale);
    return x;
}

/* A thread a counter. WHOLE: rows begin and end with one, and four elements can be taken at a time. */
template <bool WHOLE, class T> struct drop {
    struct masked_rows rows;
    const struct pass_values *pass;
    const float *x, *bias; /* bias may be NULL */
    uint8_t *keep;
    float *u;

    __device__ void operator()(size_t r, size_t counter) const
    {
        const unsigned row = static_cast<unsigned>(rows.row + r), B = static_cast<unsigned>(rows.B);
        const size_t first = r * rows.W;
        const row_draws of_row =
            draws_of(rows.dropout, pass, rows.site.name, row / B * rows.site.stride + rows.site.first, row % B);

        if (WHOLE) {
            const size_t at = first + 4 * counter;
            const draws drawn = of_row.at(counter);
            pack<4> value = load<4, T>(x + at);
            uint32_t kept = 0;

            for (int k = 0; k < 4; k++)
                kept |= static_cast<uint32_t>(drawn.of[k] >= rows.dropout.threshold) << 8 * k;
            if (bias)
                value = value + load<4>(bias + 4 * counter);
            *reinterpret_cast<uint32_t *>(keep + at) = kept;
            store<4, T>(drop_four(kept, value, rows.dropout.scale), u + at);
        } else {
            each_draw(of_row, counter, rows.W, [&](size_t column, uint32_t draw) {
                const bool is_in = draw >= rows.dropout.threshold;

                keep[first + column] = is_in;
                put<T>(dropout_value(is_in, get<T>(x + first + column) + (bias ? bias[column] : 0), rows.dropout.scale),
                       u + first + column);
            });
        }
    }
};

/* The mask of attention, (B, heads, N, d). */
struct draw_heads {
    struct attention_run run;
    const struct pass_values *pass;

    __device__ void operator()(size_t r, size_t counter) const
    {
        const size_t n = r % run.N, h = r / run.N % run.heads, b = r / run.N / run.heads;
        const row_draws of_row =
            draws_of(run.dropout, pass, run.site.name, (run.T - run.N + n) * run.site.stride + h * run.d, b);

        each_draw(of_row, counter, run.d,
                  [&](size_t column, uint32_t draw) { run.keep[r * run.d + column] = draw >= run.dropout.threshold; });
    }
};

template <int V, class T> struct add_bias {
    const float *x, *bias;
    size_t W;
    float *u;

    __device__ void operator()(size_t r, size_t i) const
    {
        store<V, T>(load<V, T>(x + r * W + V * i) + load<V>(bias + V * i), u + r * W + V * i);
    }
};

template <bool WHOLE, class T> struct drop_backward {
    const uint8_t *keep;
    float scale, *d;

    __device__ void operator()(size_t i) const
    {
        if (WHOLE)
            store<4, T>(drop_four(reinterpret_cast<const uint32_t *>(keep)[i], load<4, T>(d + 4 * i), scale),
                        d + 4 * i);
        else
            put<T>(dropout_value(keep[i], get<T>(d + i), scale), d + i);
    }
};

/* The same, and the sum of the rows. */
template <class T> struct drop_sum {
    static constexpr int SUMS = 1;
    const uint8_t *keep;
    float scale;
    size_t W;
    float *d;

    template <int V> struct input {
        uint32_t keep; /* a byte each */
        pack<V> d;
    };
    template <int V> __device__ input<V> read(size_t r, size_t i) const
    {
        const uint8_t *const flags = keep + r * W + i;

        return { V == 4 ? *reinterpret_cast<const uint32_t *>(flags) : *flags, load<V, T>(d + r * W + i) };
    }
    template <int V> __device__ void operator()(size_t r, size_t i, const input<V> &in, pack<V> *sums) const
    {
        pack<V> x;

        for (int k = 0; k < V; k++) {
            x.v[k] = dropout_value(in.keep >> 8 * k & 1, in.d.v[k], scale);
            sums[0].v[k] += x.v[k];
        }
        store<V, T>(x, d + r * W + i);
    }
};

} // namespace gates_kernels

using namespace gates_kernels;

void cuda_elu(struct queue *queue, size_t n, real *x)
{
    with_element(x, [&](auto element) {
        using T = decltype(element);

        if (takes_four(n, x))
            run_each(queue, elu_of<4, T>{ x }, n / 4);
        else
            run_each(queue, elu_of<1, T>{ x }, n);
    });
}

void cuda_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum)
{
    with_element(e, [&](auto element) {
        run_columns(queue, elu_backward<decltype(element)>{ e, W, d_e }, takes_four(W, e, d_e), R, W, add, sum);
    });
}

/* Returns true if flags can be taken four at a time, too. */
static bool takes_flags(const uint8_t *keep)
{
    return reinterpret_cast<uintptr_t>(keep) % sizeof(uint32_t) == 0;
}

template <class T>
static void run_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias,
                        uint8_t *keep, real *u)
{
    const size_t R = rows->R, W = rows->W;
    const bool four = takes_four(W, x, bias, u);

    if (rows->dropout.threshold && four && takes_flags(keep) && rows->site.stride % 4 == 0 && rows->site.first % 4 == 0)
        run_cells(queue, drop<true, T>{ *rows, queue->current, x, bias, keep, u }, R, W / 4);
    else if (rows->dropout.threshold)
        run_cells(queue, drop<false, T>{ *rows, queue->current, x, bias, keep, u }, R, counters_of(W));
    else if (bias && four)
        run_cells(queue, add_bias<4, T>{ x, bias, W, u }, R, W / 4);
    else if (bias)
        run_cells(queue, add_bias<1, T>{ x, bias, W, u }, R, W);
    else if (u != x)
        cuda_copy(queue, x, R * W, u);
}

void cuda_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias, uint8_t *keep,
                  real *u)
{
    with_element(x, [&](auto element) { run_dropout<decltype(element)>(queue, rows, x, bias, keep, u); });
}

void cuda_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t R, size_t W,
                           int add, real *d, real *sum)
{
    const size_t n = R * W;
    const float scale = dropout->scale;

    with_element(d, [&](auto element) {
        using T = decltype(element);

        if (!dropout->threshold && sum)
            cuda_rows_sum(queue, d, R, W, add, sum);
        else if (sum)
            run_columns(queue, drop_sum<T>{ keep, scale, W, d }, takes_four(W, d) && takes_flags(keep), R, W, add, sum);
        else if (dropout->threshold && takes_four(n, d) && takes_flags(keep))
            run_each(queue, drop_backward<true, T>{ keep, scale, d }, n / 4);
        else if (dropout->threshold)
            run_each(queue, drop_backward<false, T>{ keep, scale, d }, n);
    });
}

void cuda_draw_heads(struct queue *queue, const struct attention_run *run)
{
    run_cells(queue, draw_heads{ *run, queue->current }, run->B * run->heads * run->N, counters_of(run->d));
}
