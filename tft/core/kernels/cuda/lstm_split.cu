/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps with U split over blocks, in f32, or with factors rounded to bf16:
 *
 *     block (x, y)   some units of the samples of group y; its part of U stays in shared memory
 *     a step         rows of the left factor, which all blocks of the group made, to shared memory; the product, its
 *                    terms in slices; a thread sums the slices of its cell; then the blocks of the group meet
 *     the product    (samples, K) x (K, columns): forward h and the units' gates, backward the gates' gradients and
 *                    the units; a thread has 4 samples, 4 columns and a slice of the terms
 *     a cell         1 or 4 neighbouring units of a sample: of one thread, in registers from step to step
 *
 * What a cell needs from memory for its next step is asked for before the product, which does not wait for it.
 */
#include "tft/core/kernels/cuda/lstm.cuh"
#include "tft/core/kernels/formulas.h"
#include <cuda/atomic>

__align__(16) extern __shared__ unsigned char dynamic_shared[];

namespace lstm_split_kernels
{

constexpr size_t THREADS = 256, QUAD = 4;
constexpr size_t SAMPLES_MOST = 16; /* of a group; of more, products by the library (by formula) */
constexpr size_t GROUPS_MOST = CUDA_MEETINGS;

struct split {
    lstm_steps steps;
    int rounds;
    size_t units, rows, terms; /* of a block: units, multiple of QUAD, and samples; of the product, multiple of QUAD */
    unsigned *meetings;        /* a word a group, CUDA_MEETING_STEP apart */

    __device__ size_t first_row() const
    {
        return blockIdx.y * rows;
    }
    /* Samples of this block. */
    __device__ size_t count() const
    {
        return steps.run.B - first_row() < rows ? steps.run.B - first_row() : rows;
    }
};

/* Rounds to bf16 and back, to nearest, ties to even; NaN stays NaN. */
static __device__ __forceinline__ float round_bf16(float x, int rounds)
{
    const unsigned bits = __float_as_uint(x);

    return rounds && x == x ? __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u) : x;
}

/* All blocks of the group have come, and see what the others wrote before. Each meeting adds 2^31 to the word, which is
 * never set back: the last to come changes its highest bit. */
static __device__ void group_meet(const split &s)
{
    __syncthreads();
    if (gridDim.x > 1 && threadIdx.x == 0) {
        const cuda::atomic_ref<unsigned, cuda::thread_scope_device> word(s.meetings[blockIdx.y * CUDA_MEETING_STEP]);
        const unsigned mine = blockIdx.x ? 1 : 0x80000000u - (gridDim.x - 1);
        const unsigned before = word.fetch_add(mine, cuda::memory_order_acq_rel);

        while (!((word.load(cuda::memory_order_acquire) ^ before) & 0x80000000u))
            ;
    }
    __syncthreads();
}

/* Rows of n numbers to shared memory, V at a time, each followed by zeros up to `to_n`; of more than `count` rows only
 * zeros. */
template <int V, class T>
static __device__ __forceinline__ void rows_stage(const float *from, size_t n, size_t count, size_t to_n, size_t rows,
                                                  int rounds, float *to)
{
    const unsigned packs = static_cast<unsigned>(to_n) / V;

    for (unsigned i = threadIdx.x; i < rows * packs; i += THREADS) {
        const unsigned row = i / packs, k = i % packs * V;
        pack<V> x = {};

        if (row < count && k < n)
            x = load<V, T>(from + row * n + k);
        for (int e = 0; e < V; e++)
            x.v[e] = round_bf16(x.v[e], rounds);
        store<V>(x, to + row * to_n + k);
    }
}

/* sums (slices, rows, columns) of x (rows, terms) and part (terms, columns). Returns the number of slices. */
static __device__ __forceinline__ size_t part_multiply(const split &s, size_t columns, const float *part,
                                                       const float *x, float *sums)
{
    const size_t across = columns / QUAD, tiles = across * (s.rows / QUAD), most = THREADS / tiles;
    const size_t slice = ((s.terms + most - 1) / most + QUAD - 1) / QUAD * QUAD, slices = (s.terms + slice - 1) / slice;
    const size_t column = threadIdx.x % across * QUAD, row = threadIdx.x / across % (s.rows / QUAD) * QUAD;
    const size_t mine = threadIdx.x / tiles, end = (mine + 1) * slice < s.terms ? (mine + 1) * slice : s.terms;
    pack<QUAD> sum[QUAD] = {};

    if (mine >= slices)
        return slices;
    for (size_t k = mine * slice; k < end; k += QUAD) {
        pack<QUAD> left[QUAD];

        for (size_t i = 0; i < QUAD; i++)
            left[i] = load<QUAD>(x + (row + i) * s.terms + k);
        for (size_t e = 0; e < QUAD; e++) {
            const pack<QUAD> right = load<QUAD>(part + (k + e) * columns + column);

            for (size_t i = 0; i < QUAD; i++)
                for (size_t j = 0; j < QUAD; j++)
                    sum[i].v[j] += left[i].v[e] * right.v[j];
        }
    }
    for (size_t i = 0; i < QUAD; i++)
        store<QUAD>(sum[i], sums + (mine * s.rows + row + i) * columns + column);
    return slices;
}

template <int V>
static __device__ __forceinline__ void add_sums(const float *sums, size_t slices, size_t step, pack<V> &to)
{
    for (size_t i = 0; i < slices; i++) {
        const pack<V> x = load<V>(sums + i * step);

        for (int e = 0; e < V; e++)
            to.v[e] += x.v[e];
    }
}

/* This thread's cell. */
template <int V> struct cell_place {
    size_t row, unit, sample, k; /* of the block; of the call */
    bool is_there;

    __device__ explicit cell_place(const split &s)
        : row(threadIdx.x / (s.units / V)), unit(threadIdx.x % (s.units / V) * V), sample(s.first_row() + row),
          k(blockIdx.x * s.units + unit), is_there(row < s.count() && k < s.steps.run.H)
    {
    }
};

/* ---- forward ---- */

/* The block's part of U: (terms, GATES, units). */
template <int V> static __device__ void take_gates(const split &s, float *part)
{
    const size_t H = s.steps.run.H, packs = s.units / V;

    for (size_t i = threadIdx.x; i < s.terms * GATES * packs; i += THREADS) {
        const size_t unit = blockIdx.x * s.units + i % packs * V, gate = i / packs % GATES, k = i / packs / GATES;
        pack<V> x = {};

        if (unit < H && k < H)
            x = load<V>(s.steps.run.u + (k * GATES + gate) * H + unit);
        for (int e = 0; e < V; e++)
            x.v[e] = round_bf16(x.v[e], s.rounds);
        store<V>(x, part + i * V);
    }
}

template <int V>
static __device__ __forceinline__ void cell_step(pack<V> (&gates)[GATES], bool passes, pack<V> &c, pack<V> &h)
{
    for (int e = 0; e < V; e++) {
        const float in = quick_sigmoid(gates[0].v[e]), forget = quick_sigmoid(gates[1].v[e]),
                    value = real_tanh(gates[2].v[e]), out = quick_sigmoid(gates[3].v[e]);
        const float cell = lstm_c(in, forget, value, c.v[e]);

        gates[0].v[e] = in;
        gates[1].v[e] = forget;
        gates[2].v[e] = value;
        gates[3].v[e] = out;
        h.v[e] = passes ? h.v[e] : out * real_tanh(cell);
        c.v[e] = passes ? c.v[e] : cell;
    }
}

template <int V, class T> static __global__ void __launch_bounds__(THREADS) split_forward(split s)
{
    const lstm_run &run = s.steps.run;
    const size_t B = run.B, H = run.H, columns = GATES * s.units;
    float *const part = reinterpret_cast<float *>(dynamic_shared), *const x = part + s.terms * columns;
    float *const sums = x + s.rows * s.terms;
    const cell_place<V> at(s);
    const size_t missing = at.is_there && run.padding ? run.padding[at.sample] : 0;
    pack<V> c = {}, h = {};

    take_gates<V>(s, part);
    if (at.is_there) {
        c = load<V>(run.c + at.sample * H + at.k);
        h = load<V, T>(run.h + at.sample * H + at.k);
    }
    for (size_t t = 0; t < run.S; t++) {
        float *const rows = run.gates + (t * B + at.sample) * GATES * H + at.k;
        const size_t after = ((t + 1) * B + at.sample) * H + at.k;
        pack<V> gates[GATES] = {};

        for (size_t gate = 0; gate < GATES && at.is_there; gate++)
            gates[gate] = load<V, T>(rows + gate * H);
        rows_stage<V, T>(run.h + (t * B + s.first_row()) * H, H, s.count(), s.terms, s.rows, s.rounds, x);
        __syncthreads();
        const size_t slices = part_multiply(s, columns, part, x, sums);
        __syncthreads();
        if (at.is_there) {
            for (size_t gate = 0; gate < GATES; gate++)
                add_sums<V>(sums + (at.row * GATES + gate) * s.units + at.unit, slices, s.rows * columns, gates[gate]);
            cell_step<V>(gates, run.first + t < missing, c, h);
            for (size_t gate = 0; gate < GATES; gate++)
                store_global<V, T>(gates[gate], rows + gate * H);
            store_global<V>(c, run.c + after);
            store_global<V, T>(h, run.h + after);
        }
        if (t + 1 < run.S)
            group_meet(s);
    }
}

/* ---- backward ---- */

/* The rows of U of the block's units, transposed: (terms, units). */
template <int V> static __device__ void take_units(const split &s, float *part)
{
    const size_t H = s.steps.run.H, packs = s.terms / V;

    for (size_t i = threadIdx.x; i < s.units * packs; i += THREADS) {
        const size_t unit = i % s.units, k = i / s.units * V, from = blockIdx.x * s.units + unit;
        pack<V> x = {};

        if (from < H)
            x = load<V>(s.steps.run.u + from * GATES * H + k);
        for (int e = 0; e < V; e++)
            part[(k + e) * s.units + unit] = round_bf16(x.v[e], s.rounds);
    }
}

/* The inputs of a cell's step. */
template <int V, class T> struct step_inputs {
    pack<V> gates[GATES], c_before, d_out;

    __device__ __forceinline__ void take(const split &s, const cell_place<V> &at, size_t t)
    {
        const lstm_run &run = s.steps.run;
        const size_t row = t * run.B + at.sample;

        for (size_t gate = 0; gate < GATES; gate++)
            gates[gate] = load<V, T>(run.gates + (row * GATES + gate) * run.H + at.k);
        c_before = load<V>(run.c + row * run.H + at.k);
        d_out = load<V, T>(s.steps.d_out + row * run.H + at.k);
    }
};

/* Activations become the gradients of their sums. d_h, out: what of it passes to the step before. */
template <int V, class T>
static __device__ __forceinline__ void cell_step_backward(step_inputs<V, T> &x, bool passes, const pack<V> &c,
                                                          pack<V> &d_h, pack<V> &d_c)
{
    for (int e = 0; e < V; e++) {
        const lstm_unit_gradient d =
            lstm_unit_backward(x.gates[0].v[e], x.gates[1].v[e], x.gates[2].v[e], x.gates[3].v[e], c.v[e],
                               x.c_before.v[e], d_h.v[e] + x.d_out.v[e], d_c.v[e]);

        x.gates[0].v[e] = passes ? 0 : d.i;
        x.gates[1].v[e] = passes ? 0 : d.f;
        x.gates[2].v[e] = passes ? 0 : d.g;
        x.gates[3].v[e] = passes ? 0 : d.o;
        d_h.v[e] = passes ? d_h.v[e] : 0;
        d_c.v[e] = passes ? d_c.v[e] : d.c;
    }
}

template <int V, class T> static __global__ void __launch_bounds__(THREADS) split_backward(split s)
{
    const lstm_run &run = s.steps.run;
    const size_t B = run.B, H = run.H;
    float *const part = reinterpret_cast<float *>(dynamic_shared), *const x = part + s.terms * s.units;
    float *const sums = x + s.rows * s.terms;
    const cell_place<V> at(s);
    const size_t missing = at.is_there && run.padding ? run.padding[at.sample] : 0, end = at.sample * H + at.k;
    pack<V> d_h = {}, d_c = {}, c = {};
    step_inputs<V, T> next = {};

    take_units<V>(s, part);
    if (at.is_there) {
        d_h = load<V, T>(s.steps.d_h + end);
        d_c = load<V, T>(s.steps.d_c + end);
        c = load<V>(run.c + run.S * B * H + end);
        next.take(s, at, run.S - 1);
    }
    for (size_t t = run.S; t-- > 0;) {
        step_inputs<V, T> now = next;

        cell_step_backward<V, T>(now, run.first + t < missing, c, d_h, d_c);
        c = now.c_before;
        for (size_t gate = 0; gate < GATES && at.is_there; gate++)
            store_global<V, T>(now.gates[gate], run.gates + ((t * B + at.sample) * GATES + gate) * H + at.k);
        group_meet(s);
        if (t && at.is_there)
            next.take(s, at, t - 1);
        rows_stage<V, T>(run.gates + (t * B + s.first_row()) * GATES * H, GATES * H, s.count(), s.terms, s.rows,
                         s.rounds, x);
        __syncthreads();
        const size_t slices = part_multiply(s, s.units, part, x, sums);
        __syncthreads();
        if (at.is_there)
            add_sums<V>(sums + at.row * s.units + at.unit, slices, s.rows * s.units, d_h);
    }
    if (at.is_there) {
        store_global<V, T>(d_h, s.steps.d_h + end);
        store_global<V, T>(d_c, s.steps.d_c + end);
    }
}

/* ---- the split ---- */

/* Finds the split with the least work for a block, of several that of the fewest blocks. Returns false if no
 * split fits. */
template <int V> static bool split_choose(const struct queue *queue, split *to, size_t *shared)
{
    const size_t B = to->steps.run.B, H = to->steps.run.H, gates = to->steps.d_out ? 1 : GATES;
    size_t least = SIZE_MAX;

    to->terms = to->steps.d_out ? GATES * H : (H + QUAD - 1) / QUAD * QUAD;
    for (size_t units = QUAD; units < H + QUAD; units += QUAD) {
        const size_t across = (H + units - 1) / units, room = static_cast<size_t>(queue->multiprocessors) / across;
        const size_t most = room < GROUPS_MOST ? room : GROUPS_MOST, wanted = (B + QUAD - 1) / QUAD;
        if (!most)
            continue;
        const size_t groups = most < wanted ? most : wanted,
                     rows = ((B + groups - 1) / groups + QUAD - 1) / QUAD * QUAD;
        const size_t reals = to->terms * gates * units + rows * to->terms + THREADS * QUAD * QUAD;

        if (rows > SAMPLES_MOST || rows * units > THREADS * V || rows / QUAD * (gates * units / QUAD) > THREADS ||
            reals * sizeof(float) > queue->shared_most || rows * units > least)
            continue;
        least = rows * units;
        to->units = units;
        to->rows = rows;
        *shared = reals * sizeof(float);
    }
    return least < SIZE_MAX;
}

template <int V, class T> static bool split_launch(struct queue *queue, split s)
{
    void (*const kernel)(split) = s.steps.d_out ? split_backward<V, T> : split_forward<V, T>;
    size_t shared;

    if (!split_choose<V>(queue, &s, &shared))
        return false;
    const dim3 blocks(static_cast<unsigned>((s.steps.run.H + s.units - 1) / s.units),
                      static_cast<unsigned>((s.steps.run.B + s.rows - 1) / s.rows));
    cuda_note(queue,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
    cuda_note(queue, cuda_launch_together(kernel, blocks, static_cast<unsigned>(THREADS), shared, queue->stream, s));
    return true;
}

} // namespace lstm_split_kernels

using namespace lstm_split_kernels;

bool cuda_lstm_split(struct queue *queue, const lstm_steps &steps, int rounds)
{
    const split s = { steps, rounds, 0, 0, 0, queue->meetings };

    const bool four = takes_four(steps.run.H, steps.run.u, steps.run.gates, steps.run.h, steps.run.c, steps.d_out,
                                 steps.d_h, steps.d_c);
    bool launched = false;

    with_element(steps.run.gates, [&](auto element) {
        using T = decltype(element);

        launched = four ? split_launch<4, T>(queue, s) : split_launch<1, T>(queue, s);
    });
    return launched;
}
