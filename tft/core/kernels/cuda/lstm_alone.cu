/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps with bf16 products. A block keeps all of U in shared memory and makes every step of its samples, so
 * blocks never wait for each other:
 *
 *     a block   8 samples a group, one group or two     a warp   16 units, their four gates, all samples of the block
 *     a lane    2 units of 2 samples a group: sums of the four gates, cell and h stay in its registers
 *
 * U^T is the product's left factor, so that samples are the 8 columns of mma_bf16 (mma.cuh) and a group may be small.
 * Everything in shared memory is in the order in which lanes take it: a lane's part of a tile of U is 16 bytes, of h 8.
 * Row g of a warp's tile is its unit 2 g, row g + 8 its unit 2 g + 1, so that a lane has neighbours, which are loaded
 * together and which make a word of bf16. What a step needs from memory is asked for before the product of
 * the one in front of it.
 *
 * Backward the same, with U as the left factor and the gates' gradients, bf16, as the right one.
 */
#include "tft/core/kernels/cuda/lstm.cuh"
#include "tft/core/kernels/cuda/mma.cuh"
#include "tft/core/kernels/formulas.h"

__align__(16) extern __shared__ unsigned char dynamic_shared[];

namespace lstm_alone_kernels
{

constexpr unsigned UNITS = 16, SAMPLES = 8; /* of a tile: rows, and columns */
constexpr unsigned TILES_MOST = 10;         /* warps; U of 11 has more bytes than any device's shared memory */
constexpr int THREADS_MOST = WARP * static_cast<int>(TILES_MOST);

/* Two neighbouring units of a sample. */
using pair = pack<2>;

/* A thread's place. Places in a step's rows have 32 bits, so that they take few registers. */
template <int GROUPS> struct lane_place {
    unsigned B, H, tiles, warp, g, p, unit, sample;

    __device__ explicit lane_place(const lstm_run &run)
        : B(static_cast<unsigned>(run.B)), H(static_cast<unsigned>(run.H)), tiles(blockDim.x / WARP),
          warp(threadIdx.x / WARP), g(threadIdx.x % WARP / 4), p(threadIdx.x % 4), unit(warp * UNITS + 2 * g),
          sample(blockIdx.x * GROUPS * SAMPLES + 2 * p)
    {
    }
    __device__ unsigned lane() const
    {
        return 4 * g + p;
    }
    /* The first or second sample of a group. */
    __device__ unsigned at(unsigned group, unsigned second) const
    {
        return sample + group * SAMPLES + second;
    }
};

/* Units k and k + 1 of a row of H, whose place is `at`; 0 beyond the row's end. V = 2: H is even, and places are
 * aligned to 8 bytes. */
template <int V, class T = float>
static __device__ __forceinline__ pair load_pair(const float *at, unsigned k, unsigned H)
{
    if (V == 2)
        return k < H ? load<2, T>(at) : pair{ { 0, 0 } };
    return pair{ { k < H ? get<T>(at) : 0, k + 1 < H ? get<T>(at + 1) : 0 } };
}

template <int V, class T>
static __device__ __forceinline__ void store_pair(const pair &x, float *at, unsigned k, unsigned H)
{
    if (V == 2 && k < H)
        store<2, T>(x, at);
    for (unsigned i = 0; V == 1 && i < 2; i++)
        if (k + i < H)
            put<T>(x.v[i], at + i);
}

/* A pair of every sample of a lane, as mma_bf16 orders its sums: [2 i + second] of unit i. */
template <int GROUPS> struct lane_cells {
    float v[GROUPS][4];

    template <int V, class T>
    __device__ __forceinline__ void take(const lane_place<GROUPS> &at, const float *rows, unsigned W)
    {
        for (int n = 0; n < GROUPS; n++)
            for (int s = 0; s < 2; s++) {
                const unsigned b = at.at(n, s);
                const pair x = b < at.B ? load_pair<V, T>(rows + (b * W + at.unit), at.unit, at.H) : pair{ { 0, 0 } };

                v[n][s] = x.v[0];
                v[n][2 + s] = x.v[1];
            }
    }
    template <int V, class T>
    __device__ __forceinline__ void give(const lane_place<GROUPS> &at, float *rows, unsigned W) const
    {
        for (int n = 0; n < GROUPS; n++)
            for (int s = 0; s < 2; s++)
                if (at.at(n, s) < at.B)
                    store_pair<V, T>(pair{ { v[n][s], v[n][2 + s] } }, rows + (at.at(n, s) * W + at.unit), at.unit,
                                     at.H);
    }
    /* To the tile of the right factor whose rows these units are: (GROUPS, WARP). */
    __device__ __forceinline__ void put_tile(const lane_place<GROUPS> &at, uint2 *tile) const
    {
        for (int n = 0; n < GROUPS; n++)
            for (int s = 0; s < 2; s++) {
                const unsigned lane = (2 * at.p + s) * 4 + at.g % 4; /* who takes it: .x, or .y, which is 8 rows on */

                reinterpret_cast<unsigned *>(tile + n * WARP + lane)[at.g / 4] = two_bf16(v[n][s], v[n][2 + s]);
            }
    }
};

/* Returns a bit for each of a lane's samples whose step t does not exist: [2 group + second]. */
template <int GROUPS> static __device__ __forceinline__ unsigned padded(const unsigned (&padding)[GROUPS][2], size_t t)
{
    unsigned bits = 0;

    for (int n = 0; n < GROUPS; n++)
        for (int s = 0; s < 2; s++)
            bits |= static_cast<unsigned>(t < padding[n][s]) << (2 * n + s);
    return bits;
}

template <int GROUPS>
static __device__ __forceinline__ void take_padding(const lane_place<GROUPS> &at, const size_t *padding,
                                                    unsigned (&to)[GROUPS][2])
{
    for (int n = 0; n < GROUPS; n++)
        for (int s = 0; s < 2; s++)
            to[n][s] = padding && at.at(n, s) < at.B ? static_cast<unsigned>(padding[at.at(n, s)]) : 0;
}

/* U in bf16 as the left factor, (tiles, tiles, GATES, WARP): of a warp, of 16 terms, of a gate. Forward rows are the
 * gate's units, and terms units; backward rows are units, and terms the gate's. */
template <int V> static __device__ void take_weights(const float *u, unsigned H, bool is_backward, uint4 *to)
{
    const unsigned tiles = blockDim.x / WARP;

    for (unsigned i = threadIdx.x; i < tiles * tiles * GATES * WARP; i += blockDim.x) {
        const unsigned g = i % WARP / 4, p = i % 4, gate = i / WARP % GATES, terms = i / WARP / GATES % tiles * UNITS,
                       row = i / WARP / GATES / tiles * UNITS + 2 * g;
        pair x[4]; /* rows (row, row + 1) of two terms, then of the two that are 8 on */

        for (unsigned part = 0; part < 2; part++) {
            const unsigned term = terms + 2 * p + 8 * part, first = is_backward ? term : row;

            for (unsigned e = 0; e < 2; e++) {
                const unsigned from = (is_backward ? row : term) + e;

                x[2 * part + e] =
                    from < H ? load_pair<V>(u + (from * GATES + gate) * H + first, first, H) : pair{ { 0, 0 } };
            }
        }
        if (is_backward)
            to[i] = make_uint4(two_bf16(x[0].v[0], x[0].v[1]), two_bf16(x[1].v[0], x[1].v[1]),
                               two_bf16(x[2].v[0], x[2].v[1]), two_bf16(x[3].v[0], x[3].v[1]));
        else
            to[i] = make_uint4(two_bf16(x[0].v[0], x[1].v[0]), two_bf16(x[0].v[1], x[1].v[1]),
                               two_bf16(x[2].v[0], x[3].v[0]), two_bf16(x[2].v[1], x[3].v[1]));
    }
}

/* ---- forward ---- */

/* Off by about 1e-7, however small x is: far less than what h is rounded by. */
static __device__ __forceinline__ float quick_tanh(float x)
{
    return 1 - __fdividef(2, 1 + __expf(2 * x));
}

/* The step's element-wise part: sums become activations. */
template <int GROUPS>
static __device__ __forceinline__ void cells_step(lane_cells<GROUPS> (&gates)[GATES], unsigned passes,
                                                  lane_cells<GROUPS> &c, lane_cells<GROUPS> &h)
{
    for (int n = 0; n < GROUPS; n++)
        for (int i = 0; i < 4; i++) {
            const float in = quick_sigmoid(gates[0].v[n][i]), forget = quick_sigmoid(gates[1].v[n][i]),
                        value = quick_tanh(gates[2].v[n][i]), out = quick_sigmoid(gates[3].v[n][i]);
            const float cell = lstm_c(in, forget, value, c.v[n][i]);
            const bool is_passed = passes >> (2 * n + i % 2) & 1;

            gates[0].v[n][i] = in;
            gates[1].v[n][i] = forget;
            gates[2].v[n][i] = value;
            gates[3].v[n][i] = out;
            h.v[n][i] = is_passed ? h.v[n][i] : out * quick_tanh(cell);
            c.v[n][i] = is_passed ? c.v[n][i] : cell;
        }
}

template <int GROUPS, int V, class T>
static __global__ void __launch_bounds__(THREADS_MOST, 1) alone_forward(lstm_steps s)
{
    const lstm_run &run = s.run;
    const lane_place<GROUPS> at(run);
    const size_t tiles = at.tiles, state = run.B * run.H;
    uint4 *const u = reinterpret_cast<uint4 *>(dynamic_shared);
    uint2 *const right = reinterpret_cast<uint2 *>(u + tiles * tiles * GATES * WARP); /* (2, tiles, GROUPS, WARP) */
    const uint4 *const left = u + at.warp * tiles * GATES * WARP + at.lane();
    lane_cells<GROUPS> h, c, next[GATES];
    unsigned padding[GROUPS][2];

    take_weights<V>(run.u, run.H, false, u);
    take_padding(at, run.padding, padding);
    c.template take<V, float>(at, run.c, run.H);
    h.template take<V, T>(at, run.h, run.H);
    h.put_tile(at, right + at.warp * GROUPS * WARP);
    for (size_t gate = 0; gate < GATES; gate++)
        next[gate].template take<V, T>(at, run.gates + gate * run.H, GATES * run.H);
    __syncthreads();
    for (size_t t = 0; t < run.S; t++) {
        const uint2 *const now = right + t % 2 * tiles * GROUPS * WARP + at.lane();
        float *const rows = run.gates + GATES * t * state;
        lane_cells<GROUPS> gates[GATES];

        for (size_t gate = 0; gate < GATES; gate++)
            gates[gate] = next[gate];
        for (size_t gate = 0; gate < GATES && t + 1 < run.S; gate++)
            next[gate].template take<V, T>(at, rows + GATES * state + gate * run.H, GATES * run.H);
        for (size_t k = 0; k < tiles; k++)
            for (size_t gate = 0; gate < GATES; gate++)
                for (int n = 0; n < GROUPS; n++)
                    mma_bf16(gates[gate].v[n], left[(k * GATES + gate) * WARP], now[(k * GROUPS + n) * WARP]);
        cells_step(gates, padded(padding, run.first + t), c, h);
        h.put_tile(at, right + ((t + 1) % 2 * tiles + at.warp) * GROUPS * WARP);
        for (size_t gate = 0; gate < GATES; gate++)
            gates[gate].template give<V, T>(at, rows + gate * run.H, GATES * run.H);
        c.template give<V, float>(at, run.c + (t + 1) * state, run.H);
        h.template give<V, T>(at, run.h + (t + 1) * state, run.H);
        __syncthreads();
    }
}

/* ---- backward ---- */

/* The inputs of a step. */
template <int GROUPS> struct step_inputs {
    lane_cells<GROUPS> gates[GATES], c_before, d_out;

    template <int V, class T>
    __device__ __forceinline__ void take(const lane_place<GROUPS> &at, const lstm_steps &s, size_t t)
    {
        const size_t before = t * at.B * at.H;

        for (size_t gate = 0; gate < GATES; gate++)
            gates[gate].template take<V, T>(at, s.run.gates + GATES * before + gate * at.H, GATES * at.H);
        c_before.template take<V, float>(at, s.run.c + before, at.H);
        d_out.template take<V, T>(at, s.d_out + before, at.H);
    }
};

/* Activations become the gradients of their sums. d_h, out: what of it passes to the step before. */
template <int GROUPS>
static __device__ __forceinline__ void cells_step_backward(step_inputs<GROUPS> &x, unsigned passes,
                                                           const lane_cells<GROUPS> &c, lane_cells<GROUPS> &d_h,
                                                           lane_cells<GROUPS> &d_c)
{
    for (int n = 0; n < GROUPS; n++)
        for (int i = 0; i < 4; i++) {
            const bool is_passed = passes >> (2 * n + i % 2) & 1;
            const lstm_unit_gradient d =
                lstm_unit_backward(x.gates[0].v[n][i], x.gates[1].v[n][i], x.gates[2].v[n][i], x.gates[3].v[n][i],
                                   c.v[n][i], x.c_before.v[n][i], d_h.v[n][i] + x.d_out.v[n][i], d_c.v[n][i]);

            x.gates[0].v[n][i] = is_passed ? 0 : d.i;
            x.gates[1].v[n][i] = is_passed ? 0 : d.f;
            x.gates[2].v[n][i] = is_passed ? 0 : d.g;
            x.gates[3].v[n][i] = is_passed ? 0 : d.o;
            d_h.v[n][i] = is_passed ? d_h.v[n][i] : 0;
            d_c.v[n][i] = is_passed ? d_c.v[n][i] : d.c;
        }
}

template <int GROUPS, int V, class T>
static __global__ void __launch_bounds__(THREADS_MOST, 1) alone_backward(lstm_steps s)
{
    const lstm_run &run = s.run;
    const lane_place<GROUPS> at(run);
    const size_t tiles = at.tiles, state = run.B * run.H;
    uint4 *const u = reinterpret_cast<uint4 *>(dynamic_shared);
    uint2 *const right = reinterpret_cast<uint2 *>(u + tiles * tiles * GATES * WARP); /* (tiles, GATES, GROUPS, WARP) */
    const uint4 *const left = u + at.warp * tiles * GATES * WARP + at.lane();
    lane_cells<GROUPS> d_h, d_c, c;
    step_inputs<GROUPS> x;
    unsigned padding[GROUPS][2];

    take_weights<V>(run.u, run.H, true, u);
    take_padding(at, run.padding, padding);
    d_h.template take<V, T>(at, s.d_h, run.H);
    d_c.template take<V, T>(at, s.d_c, run.H);
    c.template take<V, float>(at, run.c + run.S * state, run.H);
    x.template take<V, T>(at, s, run.S - 1);
    for (size_t t = run.S; t-- > 0;) {
        lane_cells<GROUPS> sums[GATES / GROUPS] = {}; /* four independent chains of products */

        cells_step_backward(x, padded(padding, run.first + t), c, d_h, d_c);
        c = x.c_before;
        for (size_t gate = 0; gate < GATES; gate++) {
            x.gates[gate].put_tile(at, right + (at.warp * GATES + gate) * GROUPS * WARP);
            x.gates[gate].template give<V, T>(at, run.gates + GATES * t * state + gate * run.H, GATES * run.H);
        }
        if (t)
            x.template take<V, T>(at, s, t - 1); /* the product does not wait for it */
        __syncthreads();
        for (size_t k = 0; k < tiles; k++)
            for (size_t gate = 0; gate < GATES; gate++)
                for (int n = 0; n < GROUPS; n++)
                    mma_bf16(sums[gate / GROUPS].v[n], left[(k * GATES + gate) * WARP],
                             right[((k * GATES + gate) * GROUPS + n) * WARP + at.lane()]);
        for (size_t part = 0; part < GATES / GROUPS; part++)
            for (int n = 0; n < GROUPS; n++)
                for (int i = 0; i < 4; i++)
                    d_h.v[n][i] += sums[part].v[n][i];
        __syncthreads();
    }
    d_h.template give<V, T>(at, s.d_h, run.H);
    d_c.template give<V, T>(at, s.d_c, run.H);
}

template <int GROUPS, int V, class T>
static bool alone_launch(struct queue *queue, const lstm_steps &s, size_t tiles, size_t left, size_t right)
{
    const size_t each = GROUPS * SAMPLES, tile = GROUPS * WARP * sizeof(uint2);
    void (*const kernel)(lstm_steps) = s.d_out ? alone_backward<GROUPS, V, T> : alone_forward<GROUPS, V, T>;
    const size_t shared = left + right * tile;

    if (shared > queue->shared_most)
        return false;
    cuda_note(queue,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
    cuda_note(queue, cuda_launch(kernel, static_cast<unsigned>((s.run.B + each - 1) / each),
                                 static_cast<unsigned>(tiles * WARP), shared, queue->stream, s));
    return true;
}

} // namespace lstm_alone_kernels

using namespace lstm_alone_kernels;

bool cuda_lstm_alone(struct queue *queue, const lstm_steps &s)
{
    const size_t tiles = (s.run.H + UNITS - 1) / UNITS, left = tiles * tiles * GATES * WARP * sizeof(uint4);
    const size_t right = (s.d_out ? GATES : 2) * tiles; /* tiles of the right factor */
    const bool is_one = (s.run.B + SAMPLES - 1) / SAMPLES <= static_cast<size_t>(queue->multiprocessors);
    const void *const rows[] = { s.run.u, s.run.gates, s.run.h, s.run.c, s.d_out, s.d_h, s.d_c };
    bool by_two = s.run.H % 2 == 0, launched = false;

    if (tiles > TILES_MOST || GATES * s.run.B * s.run.H > UINT32_MAX)
        return false;
    for (const void *at : rows)
        by_two = by_two && reinterpret_cast<uintptr_t>(at) % sizeof(pair) == 0;
    with_element(s.run.gates, [&](auto element) {
        using T = decltype(element);

        if (is_one)
            launched = by_two ? alone_launch<1, 2, T>(queue, s, tiles, left, right)
                              : alone_launch<1, 1, T>(queue, s, tiles, left, right);
        else
            launched = by_two ? alone_launch<2, 2, T>(queue, s, tiles, left, right)
                              : alone_launch<2, 1, T>(queue, s, tiles, left, right);
    });
    return launched;
}
