/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of tables of rows, whole or sparse (tft/core/kernels/cpu_sparse.c), from rows with codes:
 *
 *     sort      keys, a code and a row each: tiles by themselves, then pairs of runs until there is one
 *     number    sparse alone: a code becomes its turn among the codes
 *     sums      32 keys one after the other add up. What begins and ends among them is complete; the first and the last
 *               sum of each 32 are rows with keys again, of which there are a 16th, and so on until all is complete
 *
 * Nothing grows with the rows of one code but the number of launches, by its logarithm; sums have the same shape each
 * time.
 */
#include "tft/core/kernels/cuda/device.cuh"

namespace sparse_kernels
{

constexpr unsigned SPARSE_THREADS = 256;
constexpr size_t TILE = CUDA_SORT_TILE, CHUNK = CUDA_SUM_CHUNK, TURN = 3;

/* ---- sort ---- */

/* A code or its turn, and a row. */
static __device__ __forceinline__ uint64_t key_of(size_t code, size_t row)
{
    return static_cast<uint64_t>(code) << 32 | row;
}

static __device__ __forceinline__ size_t code_of(uint64_t key)
{
    return key >> 32;
}

static __device__ __forceinline__ size_t row_of(uint64_t key)
{
    return static_cast<uint32_t>(key);
}

/* A bitonic sort of a tile. All comparisons put the smaller one first (the first step of a length compares with the
 * mirrored place), so that places after the last row need not exist. */
static __global__ void __launch_bounds__(SPARSE_THREADS) sort_tiles(const int32_t *codes, size_t R, uint64_t *keys)
{
    __shared__ uint64_t tile[TILE];
    const size_t first = blockIdx.x * TILE;
    const unsigned n = R - first < TILE ? R - first : TILE;

    for (unsigned i = threadIdx.x; i < n; i += SPARSE_THREADS)
        tile[i] = key_of(codes[first + i], first + i);
    for (unsigned length = 2; length / 2 < n; length *= 2)
        for (unsigned half = length / 2; half; half /= 2) {
            __syncthreads();
            for (unsigned pair = threadIdx.x, i; (i = pair / half * 2 * half + pair % half) < n;
                 pair += SPARSE_THREADS) {
                const unsigned k = i ^ (half == length / 2 ? length - 1 : half);
                const uint64_t mine = tile[i], other = k < n ? tile[k] : mine;

                if (other < mine) {
                    tile[i] = other;
                    tile[k] = mine;
                }
            }
        }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += SPARSE_THREADS)
        keys[first + i] = tile[i];
}

/* Merges each pair of runs: a key's place is what it has before it in its own run and in the other one. */
struct merge_runs {
    const uint64_t *keys;
    size_t R, run;
    uint64_t *merged;

    __device__ void operator()(size_t i) const
    {
        const size_t pair = i / (2 * run) * (2 * run), middle = pair + run;
        const size_t other = i < middle ? middle : pair;
        const uint64_t key = keys[i];
        size_t from = other < R ? other : R, to = other + run < R ? other + run : R;

        while (from < to) {
            const size_t between = from + (to - from) / 2;

            if (keys[between] < key)
                from = between + 1;
            else
                to = between;
        }
        merged[pair + (i < middle ? i - pair : i - middle) + (from - (other < R ? other : R))] = key;
    }
};

/* Returns the sorted keys, in one of two places with room for R each. */
static uint64_t *sort_keys(struct queue *queue, const int32_t *codes, size_t R, uint64_t *keys, uint64_t *others)
{
    cuda_note(queue, cuda_launch(sort_tiles, (R + TILE - 1) / TILE, SPARSE_THREADS, 0, queue->stream, codes, R, keys));
    for (size_t run = TILE; run < R; run *= 2) {
        uint64_t *const merged = others;

        run_each(queue, merge_runs{ keys, R, run, merged }, R);
        others = keys;
        keys = merged;
    }
    return keys;
}

/* ---- number ---- */

static __device__ __forceinline__ bool is_first(const uint64_t *keys, size_t i)
{
    return i == 0 || code_of(keys[i - 1]) != code_of(keys[i]);
}

/* Adds up over the block, for all of its threads. */
static __device__ unsigned sum_to_all(unsigned x)
{
    __shared__ unsigned sums[SPARSE_THREADS];

    __syncthreads();
    sums[threadIdx.x] = x;
    for (unsigned half = SPARSE_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

/* The codes that begin in each tile. */
static __global__ void __launch_bounds__(SPARSE_THREADS) count_codes(const uint64_t *keys, size_t R, uint32_t *counts)
{
    const size_t first = blockIdx.x * TILE;
    unsigned count = 0;

    for (size_t i = first + threadIdx.x; i < first + TILE && i < R; i += SPARSE_THREADS)
        count += is_first(keys, i);
    count = sum_to_all(count);
    if (threadIdx.x == 0)
        counts[blockIdx.x] = count;
}

/* A tile a block: numbers its codes, from those of the tiles before. numbered may not be keys. */
static __global__ void __launch_bounds__(SPARSE_THREADS)
    number_codes(const uint64_t *keys, size_t R, const uint32_t *counts, struct sparse shape, uint64_t *numbered,
                 float *to)
{
    __shared__ unsigned ranks[SPARSE_THREADS]; /* codes that began up to this thread's last key */
    const sparse_parts p = sparse_parts_of(to, shape);
    const size_t each = TILE / SPARSE_THREADS, first = blockIdx.x * TILE + threadIdx.x * each;
    const size_t end = first + each < R ? first + each : R;
    unsigned before = 0, mine = 0;

    for (unsigned tile = threadIdx.x; tile < blockIdx.x; tile += SPARSE_THREADS)
        before += counts[tile];
    before = sum_to_all(before);
    for (size_t i = first; i < end; i++)
        mine += is_first(keys, i);
    ranks[threadIdx.x] = mine;
    for (unsigned distance = 1; distance < SPARSE_THREADS; distance *= 2) {
        __syncthreads();
        const unsigned more = threadIdx.x >= distance ? ranks[threadIdx.x - distance] : 0;
        __syncthreads();
        ranks[threadIdx.x] += more;
    }
    unsigned n = before + ranks[threadIdx.x] - mine;
    for (size_t i = first; i < end; i++) {
        if (is_first(keys, i))
            p.codes[n++] = static_cast<int32_t>(code_of(keys[i]));
        numbered[i] = key_of(n - 1, row_of(keys[i]));
    }
    if (first < R && end == R)
        *p.count = static_cast<int32_t>(n);
}

/* ---- sums ---- */

/* Rows to add up, and where the sums go: complete ones to the table, the others to rows with keys. */
struct sums_run {
    const uint64_t *keys;
    const float *x;
    size_t n, W;
    int adds; /* to what the table has */
    float *table;
    uint64_t *rest_keys; /* NULL: all sums are complete */
    float *rest;
};

template <int V> static __device__ void put_sum(const sums_run &run, size_t code, size_t i, const pack<V> &sum)
{
    float *const to = run.table + code * run.W + i;

    store<V>(run.adds ? load<V>(to) + sum : sum, to);
}

template <int V>
static __device__ void put_rest(const sums_run &run, size_t code, size_t at, size_t i, const pack<V> &sum)
{
    store<V>(sum, run.rest + at * run.W + i);
    if (i == 0)
        run.rest_keys[at] = key_of(code, at);
}

/* A chunk a row of threads; a pack of columns a thread. */
template <int V> struct sum_chunks {
    sums_run run;

    __device__ void operator()(size_t chunk, size_t column) const
    {
        const size_t i = V * column, first = chunk * CHUNK, end = first + CHUNK < run.n ? first + CHUNK : run.n;
        size_t code = code_of(run.keys[first]);
        bool is_later = false;
        pack<V> sum = {};

        for (size_t at = first; at < end; at += TURN) {
            uint64_t keys[TURN];
            pack<V> x[TURN];

            for (size_t k = 0; k < TURN; k++)
                keys[k] = run.keys[at + k < end ? at + k : end - 1];
            for (size_t k = 0; k < TURN; k++)
                x[k] = load_any<V>(run.x + row_of(keys[k]) * run.W + i);
            for (size_t k = 0; k < TURN && at + k < end; k++) {
                if (code_of(keys[k]) != code) {
                    if (run.rest && !is_later)
                        put_rest<V>(run, code, 2 * chunk, i, sum);
                    else
                        put_sum<V>(run, code, i, sum);
                    is_later = true;
                    code = code_of(keys[k]);
                    sum = {};
                }
                sum = sum + x[k];
            }
        }
        if (!run.rest) {
            put_sum<V>(run, code, i, sum);
            return;
        }
        put_rest<V>(run, code, 2 * chunk + is_later, i, sum);
        if (!is_later)
            put_rest<V>(run, code, 2 * chunk + 1, i, pack<V>{});
    }
};

/* Scratch of R rows: keys twice, then two places for rows with keys. */
struct scratch {
    uint64_t *keys[2], *rest_keys[2];
    float *rest[2];
    size_t reals;
};

static size_t chunks_of(size_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static struct scratch scratch_of(size_t R, size_t W, float *from)
{
    struct scratch s = {};

    for (size_t k = 0, n = R; k < 2; k++) {
        s.keys[k] = reinterpret_cast<uint64_t *>(from + s.reals);
        s.reals += (2 * R + 15) / 16 * 16;
        n = 2 * chunks_of(n);
        s.rest_keys[k] = reinterpret_cast<uint64_t *>(from + s.reals);
        s.reals += (2 * n + 15) / 16 * 16;
        s.rest[k] = from + s.reals;
        s.reals += (n * W + 15) / 16 * 16;
    }
    return s;
}

template <int V> static void run_sums(struct queue *queue, sums_run run, const struct scratch &s)
{
    for (size_t level = 0;; level++) {
        const size_t chunks = chunks_of(run.n);

        run.rest_keys = chunks > 1 ? s.rest_keys[level % 2] : nullptr;
        run.rest = chunks > 1 ? s.rest[level % 2] : nullptr;
        run_cells(queue, sum_chunks<V>{ run }, chunks, run.W / V);
        if (chunks == 1)
            return;
        run.keys = run.rest_keys;
        run.x = run.rest;
        run.n = 2 * chunks;
    }
}

static void add_up(struct queue *queue, const sums_run &run, const struct scratch &s)
{
    if (takes_four(run.W, run.x, run.table, s.rest[0]))
        run_sums<4>(queue, run, s);
    else
        run_sums<1>(queue, run, s);
}

/* ---- sums of sparse gradients ---- */

/* One block, from the end, as on the processor: a row is not overwritten before it has been moved. */
static __global__ void __launch_bounds__(SPARSE_THREADS) sparse_merge(const float *x, struct sparse shape, float *to)
{
    const sparse_parts right = sparse_parts_of(x, shape), left = sparse_parts_of(to, shape);
    size_t i = *left.count, k = *right.count, n = i;

    for (size_t r = 0; r < k; r++) {
        const size_t at = sparse_place(left.codes, i, right.codes[r]);

        n += at == i || left.codes[at] != right.codes[r];
    }
    __syncthreads(); /* all have read the count and the codes */
    if (threadIdx.x == 0)
        *left.count = static_cast<int32_t>(n);
    while (k > 0) {
        const int32_t code = right.codes[k - 1], mine = i > 0 ? left.codes[i - 1] : -1;
        const bool from_left = i > 0 && mine >= code, from_right = !(i > 0 && mine > code);

        n--;
        i -= from_left;
        k -= from_right;
        for (size_t c = threadIdx.x; c < shape.W; c += SPARSE_THREADS) {
            float value = from_left ? left.rows[i * shape.W + c] : right.rows[k * shape.W + c];

            if (from_left && from_right)
                value += right.rows[k * shape.W + c];
            left.rows[n * shape.W + c] = value;
        }
        __syncthreads(); /* all have read the code that is overwritten now */
        if (threadIdx.x == 0)
            left.codes[n] = from_left ? mine : code;
        __syncthreads();
    }
}

} // namespace sparse_kernels

using namespace sparse_kernels;

size_t cuda_rows_scratch(size_t R, size_t W)
{
    return scratch_of(R, W, nullptr).reals;
}

void cuda_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table,
                   real *scratch)
{
    const struct scratch s = scratch_of(R, W, scratch);
    const uint64_t *keys = sort_keys(queue, codes, R, s.keys[0], s.keys[1]);

    add_up(queue, sums_run{ keys, x, R, W, 1, table }, s);
}

void cuda_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to,
                     real *scratch)
{
    if (!R) {
        cuda_note(queue, cudaMemsetAsync(sparse_parts_of(to, shape).count, 0, sizeof(int32_t), queue->stream));
        return;
    }
    const struct scratch s = scratch_of(R, shape.W, scratch);
    const uint64_t *keys = sort_keys(queue, codes, R, s.keys[0], s.keys[1]);
    uint64_t *const numbered = s.keys[keys == s.keys[0]];
    uint32_t *const counts = reinterpret_cast<uint32_t *>(s.rest[0]);
    const unsigned tiles = (R + TILE - 1) / TILE;

    cuda_note(queue, cuda_launch(count_codes, tiles, SPARSE_THREADS, 0, queue->stream, keys, R, counts));
    cuda_note(queue,
              cuda_launch(number_codes, tiles, SPARSE_THREADS, 0, queue->stream, keys, R, counts, shape, numbered, to));
    add_up(queue, sums_run{ numbered, x, R, shape.W, 0, sparse_parts_of(to, shape).rows }, s);
}

void cuda_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to)
{
    cuda_note(queue, cuda_launch(sparse_merge, 1, SPARSE_THREADS, 0, queue->stream, x, shape, to));
}
