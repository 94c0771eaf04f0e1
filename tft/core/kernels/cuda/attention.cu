/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention (the formulas: tft/core/kernels/cpu_attention.c). Rows are time-major: the next step of a sample is B rows
 * on.
 *
 *     forward     a block a (sample, head): scores, softmax, product with v -> o of each head
 *                 then for each (query, sample, column) the mean of the heads
 *     backward    the same blocks: d_a, the scores' gradient, d_q, d_k; then a block some keys of a sample: d_v, a sum
 *                 over the heads and queries in order
 *
 * A block holds some queries with their rows of T weights, and passes over the keys in tiles of at most KEYS: how many
 * of each follows from the room in shared memory. All products are of rows there, four numbers at a time.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"

__align__(16) extern __shared__ unsigned char dynamic_shared[];

namespace attention_kernels
{

constexpr unsigned THREADS = 256, QUAD = 4, KEYS_LOG = 6, KEYS = 1 << KEYS_LOG, QUERIES_MOST = 32;

/* Floats from one row to the next: a multiple of four, as many fours as neighbouring lanes read without conflicts. */
static __host__ __device__ __forceinline__ unsigned row_stride(size_t n)
{
    return static_cast<unsigned>((n + QUAD - 1) / QUAD | 1) * QUAD;
}

/* Sizes and arrays of a call, for all kernels. */
struct shape {
    size_t B, T, N, heads, d;
    size_t strict;
    const size_t *padding; /* NULL: none */
    const float *q, *k, *v;
    float *a, *o; /* o: (B, heads, N, d) */
    float scale;
    unsigned queries, keys_log; /* of a block at a time: queries, and log2 of keys */
    unsigned rows;              /* of values_backward at a time */

    __device__ unsigned first(size_t b) const
    {
        return padding ? static_cast<unsigned>(padding[b]) : 0;
    }
    __device__ unsigned seen(size_t n) const
    {
        return static_cast<unsigned>(T - N + n + 1 - strict);
    }
};

/* A block's shared memory and place: rows of queries (queries, stride), a tile of keys or values (keys, stride), and
 * weights of the queries (queries, width). */
struct attend_block {
    float *queries, *tile, *weights;
    unsigned stride, width, quads, d, T, keys_log; /* quads: of columns */
    unsigned b, h, H;

    __device__ explicit attend_block(const shape &s)
        : stride(row_stride(s.d)), width(row_stride(s.T)), quads(static_cast<unsigned>(s.d + QUAD - 1) / QUAD),
          d(static_cast<unsigned>(s.d)), T(static_cast<unsigned>(s.T)), keys_log(s.keys_log),
          b(blockIdx.x / static_cast<unsigned>(s.heads)), h(blockIdx.x % static_cast<unsigned>(s.heads)),
          H(static_cast<unsigned>(s.heads * s.d))
    {
        queries = reinterpret_cast<float *>(dynamic_shared);
        tile = queries + (s.queries + QUAD - 1) / QUAD * QUAD * stride;
        weights = tile + keys() * stride;
    }
    __device__ __forceinline__ unsigned keys() const
    {
        return 1u << keys_log;
    }
    /* Keys of the tile from t0 on. */
    __device__ __forceinline__ unsigned present(unsigned t0) const
    {
        return T - t0 < keys() ? T - t0 : keys();
    }
};

/* `count` of `rows` rows of n numbers to shared memory, V at a time; zeros after them, and after a row up to its quads'
 * end. */
template <int V>
static __device__ __forceinline__ void tile_take(const float *from, size_t step, size_t n, unsigned count,
                                                 unsigned rows, unsigned stride, float *to)
{
    const unsigned packs = (static_cast<unsigned>(n) + QUAD - 1) / QUAD * QUAD / V;

    for (unsigned i = threadIdx.x; i < rows * packs; i += THREADS) {
        const unsigned row = i / packs, k = i % packs * V;

        store<V>(row < count && k < n ? load_any<V>(from + row * step + k) : pack<V>{}, to + row * stride + k);
    }
}

static __device__ __forceinline__ void add_dot(const pack<QUAD> &x, const pack<QUAD> &y, float *to)
{
    for (unsigned e = 0; e < QUAD; e++)
        *to += x.v[e] * y.v[e];
}

static __device__ __forceinline__ void add_scaled(float x, const pack<QUAD> &y, pack<QUAD> *to)
{
    for (unsigned e = 0; e < QUAD; e++)
        to->v[e] += x * y.v[e];
}

/* weights (count, from t0 on) = the queries' rows times those of the tile. A thread has a key and four queries. */
static __device__ __forceinline__ void tile_dots(const attend_block &at, unsigned count, unsigned t0)
{
    for (unsigned i = threadIdx.x; i < (count + QUAD - 1) / QUAD << at.keys_log; i += THREADS) {
        const unsigned key = i & (at.keys() - 1), first = (i >> at.keys_log) * QUAD;
        float sums[QUAD] = {};

        if (t0 + key >= at.width)
            continue;
#pragma unroll 1
        for (unsigned k = 0; k < at.quads * QUAD; k += QUAD) {
            const pack<QUAD> y = load<QUAD>(at.tile + key * at.stride + k);

            for (unsigned j = 0; j < QUAD; j++)
                add_dot(load<QUAD>(at.queries + (first + j) * at.stride + k), y, &sums[j]);
        }
        for (unsigned j = 0; j < QUAD && first + j < count; j++)
            at.weights[(first + j) * at.width + t0 + key] = sums[j];
    }
}

/* sum += the tile's rows, weighted: four columns of a query. */
static __device__ __forceinline__ void tile_sum(const attend_block &at, unsigned query, unsigned column, unsigned t0,
                                                pack<QUAD> *sum)
{
    const unsigned end = at.width - t0 < at.keys() ? at.width - t0 : at.keys();

#pragma unroll 1
    for (unsigned key = 0; key < end; key += QUAD) {
        const pack<QUAD> w = load<QUAD>(at.weights + query * at.width + t0 + key);

        for (unsigned e = 0; e < QUAD; e++)
            add_scaled(w.v[e], load<QUAD>(at.tile + (key + e) * at.stride + column), sum);
    }
}

/* sums of four keys += rows, weighted: four columns. */
static __device__ __forceinline__ void rows_sum(const float *weights, unsigned width, const float *rows,
                                                unsigned stride, unsigned count, pack<QUAD> (&sums)[QUAD])
{
#pragma unroll 2
    for (unsigned r = 0; r < count; r++) {
        const pack<QUAD> w = load<QUAD>(weights + r * width), x = load<QUAD>(rows + r * stride);

        for (unsigned e = 0; e < QUAD; e++)
            add_scaled(w.v[e], x, &sums[e]);
    }
}

/* Four columns of a row of n, or fewer at its end, added to reals at `sums`, if not NULL. */
template <int V>
static __device__ __forceinline__ void columns_put(pack<QUAD> x, unsigned column, unsigned n, const float *sums,
                                                   float *row)
{
    if (V == QUAD && sums)
        add_scaled(1, load<QUAD>(sums + column), &x);
    if (V == QUAD)
        store_any<QUAD>(x, row + column);
    for (unsigned e = 0; V == 1 && e < QUAD; e++)
        if (column + e < n)
            store_any<1>({ { (sums ? sums[column + e] : 0) + x.v[e] } }, row + column + e);
}

/* Scores of `count` queries: with the keys, or, backward, of d_o with the values. */
template <int V>
static __device__ void take_scores(const attend_block &at, const float *rows, size_t step, size_t d, unsigned count)
{
    for (unsigned t0 = 0; t0 < at.T; t0 += at.keys()) {
        tile_take<V>(rows + t0 * step, step, d, at.present(t0), at.keys(), at.stride, at.tile);
        __syncthreads();
        tile_dots(at, count, t0);
        __syncthreads();
    }
}

/* Rows (count, d), `to_step` apart = the weights times rows (T, d). */
template <int V>
static __device__ void put_products(const attend_block &at, const float *rows, size_t step, size_t d, unsigned count,
                                    float *to, size_t to_step)
{
    for (unsigned first = 0; first < count * at.quads; first += THREADS) {
        const unsigned i = first + threadIdx.x, query = i / at.quads, column = i % at.quads * QUAD;
        pack<QUAD> sum = {};

        for (unsigned t0 = 0; t0 < at.T; t0 += at.keys()) {
            tile_take<V>(rows + t0 * step, step, d, at.present(t0), at.keys(), at.stride, at.tile);
            __syncthreads();
            if (query < count)
                tile_sum(at, query, column, t0, &sum);
            __syncthreads();
        }
        if (query < count)
            columns_put<V>(sum, column, at.d, NULL, to + query * to_step);
    }
}

/* ---- forward ---- */

/* A query's scores become its weights, here and in memory. A warp calls it. */
static __device__ void scores_softmax(const attend_block &at, unsigned from, unsigned seen, float scale, float *row,
                                      float *to)
{
    const unsigned lane = threadIdx.x % WARP;
    float largest = -INFINITY, sum = 0;

    for (unsigned t = lane; t < at.T; t += WARP)
        if (t >= from && t < seen)
            largest = row[t] > largest ? row[t] : largest;
    largest = warp_max(largest);
    for (unsigned t = lane; t < at.T; t += WARP)
        if (t >= from && t < seen)
            sum += row[t] = expf((row[t] - largest) * scale);
    sum = warp_sum(sum);
    for (unsigned t = lane; t < at.T; t += WARP)
        to[t] = row[t] = t >= from && t < seen ? __fdividef(row[t], sum) : 0;
}

template <int V> static __global__ void __launch_bounds__(THREADS) attend_forward(shape s)
{
    const attend_block at(s);
    const unsigned from = s.first(at.b);

    for (size_t n = 0; n < s.N; n += s.queries) {
        const unsigned count = static_cast<unsigned>(s.N - n < s.queries ? s.N - n : s.queries);
        const size_t row = blockIdx.x * s.N + n;

        tile_take<V>(s.q + (n * s.B + at.b) * at.H + at.h * s.d, s.B * at.H, s.d, count,
                     (count + QUAD - 1) / QUAD * QUAD, at.stride, at.queries);
        take_scores<V>(at, s.k + at.b * at.H + at.h * s.d, s.B * at.H, s.d, count);
        for (unsigned i = threadIdx.x / WARP; i < count; i += THREADS / WARP) {
            scores_softmax(at, from, s.seen(n + i), s.scale, at.weights + i * at.width, s.a + (row + i) * s.T);
        }
        __syncthreads();
        put_products<V>(at, s.v + at.b * s.d, s.B * s.d, s.d, count, s.o + row * s.d, s.d);
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
        store_any<1>({ { sum / static_cast<float>(run.heads) } }, mean + i);
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
        const float part = load_any<1>(d_mean + (n * run.B + b) * d + column).v[0] / static_cast<float>(run.heads);

        if (!run.dropout.threshold)
            d_o[i] = part;
        else
            d_o[i] = dropout_value(run.keep[i], part, run.dropout.scale);
    }
};

/* ---- backward ---- */

/* Gradients of a query's weights, here, become those of its scores. A warp calls it, with W weights at a time. */
template <int W>
static __device__ void scores_backward(const attend_block &at, const float *weights, float scale, float *row)
{
    const unsigned first = threadIdx.x % WARP * W;
    float dot = 0;

#pragma unroll 1
    for (unsigned t = first; t < at.T; t += WARP * W) {
        const pack<W> a = load<W>(weights + t), d = load<W>(row + t);

        for (int e = 0; e < W; e++)
            dot += a.v[e] * d.v[e];
    }
    dot = warp_sum(dot);
#pragma unroll 1
    for (unsigned t = first; t < at.T; t += WARP * W) {
        const pack<W> a = load<W>(weights + t);
        pack<W> d = load<W>(row + t);

        for (int e = 0; e < W; e++)
            d.v[e] = softmax_d_z(a.v[e], d.v[e], dot) * scale;
        store<W>(d, row + t);
    }
}

/* d_k of the head, or its sum so far: that of the queries before, if not NULL, and of these. */
template <int V>
static __device__ void put_keys(const attend_block &at, const shape &s, unsigned count, const float *before, float *d_k)
{
    for (unsigned i = threadIdx.x; i < (at.T + QUAD - 1) / QUAD * at.quads; i += THREADS) {
        const unsigned t = i / at.quads * QUAD, column = i % at.quads * QUAD;
        pack<QUAD> sums[QUAD] = {};

        rows_sum(at.weights + t, at.width, at.queries + column, at.stride, count, sums);
        for (unsigned e = 0; e < QUAD && t + e < at.T; e++) {
            const size_t row = ((t + e) * s.B + at.b) * at.H + at.h * s.d;

            columns_put<V>(sums[e], column, at.d, before ? before + row : NULL, d_k + row);
        }
    }
}

/* sums: of d_k over the queries so far, reals. */
template <int V, int W>
static __global__ void __launch_bounds__(THREADS, V == QUAD ? 0 : 4)
    attend_backward(shape s, const float *d_o, float *d_q, float *sums, float *d_k)
{
    const attend_block at(s);

    for (size_t n = 0; n < s.N; n += s.queries) {
        const unsigned count = static_cast<unsigned>(s.N - n < s.queries ? s.N - n : s.queries);
        const size_t row = blockIdx.x * s.N + n, place = (n * s.B + at.b) * at.H + at.h * s.d;
        const unsigned rows = (count + QUAD - 1) / QUAD * QUAD;

        tile_take<V>(d_o + row * s.d, s.d, s.d, count, rows, at.stride, at.queries);
        take_scores<V>(at, s.v + at.b * s.d, s.B * s.d, s.d, count);
        for (unsigned i = threadIdx.x / WARP; i < count; i += THREADS / WARP)
            scores_backward<W>(at, s.a + (row + i) * s.T, s.scale, at.weights + i * at.width);
        tile_take<V>(s.q + place, s.B * at.H, s.d, count, rows, at.stride, at.queries);
        __syncthreads();
        put_products<V>(at, s.k + at.b * at.H + at.h * s.d, s.B * at.H, s.d, count, d_q + place, s.B * at.H);
        put_keys<V>(at, s, count, n > 0 ? sums : NULL, n + count < s.N ? sums : d_k);
        __syncthreads();
    }
}

/* d_v of some keys of a sample, which all heads share: a chunk of the heads' queries after the other. */
template <int V, int W>
static __global__ void __launch_bounds__(THREADS) values_backward(shape s, const float *d_o, float *d_v)
{
    __align__(16) __shared__ float weights[QUERIES_MOST][KEYS + QUAD];
    const unsigned stride = row_stride(s.d), quads = static_cast<unsigned>(s.d + QUAD - 1) / QUAD;
    const size_t b = blockIdx.x, first = blockIdx.y * KEYS, all = s.heads * s.N;
    const unsigned there = static_cast<unsigned>(s.T - first < KEYS ? s.T - first : KEYS);
    float *const rows = reinterpret_cast<float *>(dynamic_shared); /* (s.rows, stride) */

    for (unsigned begin = 0; begin < KEYS / QUAD * quads; begin += THREADS) {
        const unsigned i = begin + threadIdx.x, t = i / quads * QUAD, column = i % quads * QUAD;
        pack<QUAD> sums[QUAD] = {};

        for (size_t n = 0; n < all; n += s.rows) {
            const unsigned count = static_cast<unsigned>(all - n < s.rows ? all - n : s.rows);

            tile_take<V>(d_o + (b * all + n) * s.d, s.d, s.d, count, count, stride, rows);
            tile_take<W>(s.a + (b * all + n) * s.T + first, s.T, there, count, count, KEYS + QUAD, weights[0]);
            __syncthreads();
            if (t < there)
                rows_sum(weights[0] + t, KEYS + QUAD, rows + column, stride, count, sums);
            __syncthreads();
        }
        for (unsigned e = 0; e < QUAD && t + e < there; e++)
            columns_put<V>(sums[e], column, static_cast<unsigned>(s.d), NULL, d_v + ((first + t + e) * s.B + b) * s.d);
    }
}

/* ---- launches ---- */

static size_t shared_of(const shape &s)
{
    const size_t rows = (s.queries + QUAD - 1) / QUAD * QUAD + (1u << s.keys_log);

    return (rows * row_stride(s.d) + s.queries * static_cast<size_t>(row_stride(s.T))) * sizeof(float);
}

static size_t values_shared(const shape &s)
{
    return s.rows * static_cast<size_t>(row_stride(s.d)) * sizeof(float);
}

/* Chooses how many keys, then how many queries a block has at a time, so that a second block has room beside it. Fails
 * where not even one block has room. */
static void take_room(struct queue *queue, shape *s)
{
    constexpr size_t WEIGHTS = QUERIES_MOST * (KEYS + QUAD) * sizeof(float); /* of values_backward */
    const unsigned queries = s->queries;

    s->queries = queries < QUAD ? queries : QUAD;
    while ((1u << s->keys_log) > QUAD && 2 * shared_of(*s) > queue->shared_most)
        s->keys_log--;
    s->queries = queries;
    while (s->queries > 1 && 2 * shared_of(*s) > queue->shared_most)
        s->queries--;
    while (s->rows > 1 && values_shared(*s) + WEIGHTS > queue->shared_most)
        s->rows--;
    if (!queue->failure && (shared_of(*s) > queue->shared_most || values_shared(*s) + WEIGHTS > queue->shared_most))
        queue->failure = "a block's shared memory does not hold a row of attention; more 'heads' make it narrower, and "
                         "a shorter 'encoder' too";
}

static shape shape_of(struct queue *queue, const struct attention_run *run)
{
    shape s = { run->B,
                run->T,
                run->N,
                run->heads,
                run->d,
                static_cast<size_t>(run->strict != 0),
                run->padding,
                run->q,
                run->k,
                run->v,
                run->a,
                run->scratch,
                1.0f / sqrtf(static_cast<float>(run->d)),
                static_cast<unsigned>(run->N < QUERIES_MOST ? run->N : QUERIES_MOST),
                KEYS_LOG,
                QUERIES_MOST };

    take_room(queue, &s);
    return s;
}

template <class... P, class... A>
static void attend_launch(struct queue *queue, void (*kernel)(shape, P...), const shape &s, A... arguments)
{
    const size_t shared = shared_of(s);

    cuda_note(queue,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
    cuda_note(queue, cuda_launch(kernel, static_cast<unsigned>(s.B * s.heads), THREADS, shared, queue->stream, s,
                                 arguments...));
}

template <int V, int W>
static void attend_back(struct queue *queue, const shape &s, const float *d_o, float *sums,
                        const struct attention_gradient *to)
{
    const size_t shared = values_shared(s);
    const dim3 blocks(static_cast<unsigned>(s.B), static_cast<unsigned>((s.T + KEYS - 1) / KEYS));

    attend_launch(queue, attend_backward<V, W>, s, d_o, to->d_q, sums, to->d_k);
    cuda_note(queue, cudaFuncSetAttribute(values_backward<V, W>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(shared)));
    cuda_note(queue, cuda_launch(values_backward<V, W>, blocks, THREADS, shared, queue->stream, s, d_o, to->d_v));
}

} // namespace attention_kernels

using namespace attention_kernels;

void cuda_attention(struct queue *queue, const struct attention_run *run, real *mean)
{
    const shape s = shape_of(queue, run);

    attend_launch(queue, takes_four(s.d, s.q, s.k, s.v, s.o) ? attend_forward<4> : attend_forward<1>, s);
    if (run->dropout.threshold)
        cuda_draw_heads(queue, run);
    run_each(queue, mean_of_heads{ *run, s.o, mean }, run->N * run->B * run->d);
}

void cuda_attention_backward(struct queue *queue, const struct attention_run *run, const struct attention_gradient *to)
{
    const shape s = shape_of(queue, run);
    float *const d_o = run->scratch;
    float *const sums = tft_is_narrow(to->d_k) ? d_o + run->B * run->heads * run->N * run->d : to->d_k;
    const bool by_four = takes_four(s.d, s.q, s.k, s.v, s.o, to->d_q, to->d_k, to->d_v, sums);

    run_each(queue, spread_mean{ *run, to->d_mean, d_o }, run->B * run->heads * run->N * run->d);
    if (by_four && takes_four(s.T, s.a))
        attend_back<4, 4>(queue, s, d_o, sums, to);
    else if (by_four)
        attend_back<4, 1>(queue, s, d_o, sums, to);
    else
        attend_back<1, 1>(queue, s, d_o, sums, to);
}

size_t cuda_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d)
{
    const size_t keys = N > 1 ? T : 0; /* whose gradients are sums of several chunks of queries, in a narrow queue */

    return B * heads * (N + keys) * d;
}
