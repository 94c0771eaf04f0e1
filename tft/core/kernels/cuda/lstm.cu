/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps (the formulas: tft/core/kernels/cpu_lstm.c). One launch makes all of them where its blocks find room
 * on the device at once:
 *
 *     block (x, y)    units 4 x .. 4 x + 3 of the samples of group y; its part of U stays in shared memory
 *     a thread        one unit of one sample after the other: its four gates, its cell
 *     a step          h of the step before from all blocks of the group, h of this one to them, the grid's barrier
 *
 * Backward a block has the rows of U of its units, and the barrier is between a step's gates and the product of them.
 * Elsewhere: the recurrent product of each step, then one kernel for its element-wise part.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"
#include <cooperative_groups.h>

extern __shared__ unsigned char dynamic_shared[];

namespace lstm_kernels
{

constexpr size_t UNITS = 4, GATES = 4, THREADS = 256, LANES = THREADS / UNITS;
constexpr size_t PART_MOST = 48 << 10; /* bytes of a block's part of U, which need not be asked for */
constexpr size_t SAMPLES_MOST = 256;   /* of more, products are better: tensor cores, sums that share what they load */

/* An element of the state. */
struct lstm_cell {
    size_t B, H, t;
    const size_t *padding; /* NULL: every step exists */
    float *gates;          /* (B, 4 H) of this step */
    const float *h_before, *c_before;
    float *h, *c;

    __device__ void operator()(size_t i) const
    {
        const size_t b = i / H, k = i % H;
        float *g = gates + b * 4 * H + k;
        const float in = real_sigmoid(g[0]), forget = real_sigmoid(g[H]), value = real_tanh(g[2 * H]),
                    out = real_sigmoid(g[3 * H]);
        const float cell = lstm_c(in, forget, value, c_before[i]);
        const bool passes = padding && t < padding[b];

        g[0] = in;
        g[H] = forget;
        g[2 * H] = value;
        g[3 * H] = out;
        c[i] = passes ? c_before[i] : cell;
        h[i] = passes ? h_before[i] : out * real_tanh(cell);
    }
};

/* d_c: in of c_t, out of c_(t-1). The gradient of h_t is the sum of those from step t + 1 and from above; for a step
 * that does not exist it passes on to h_(t-1) (`passed`), after the product of gates that are 0. */
struct lstm_cell_backward {
    size_t B, H, t;
    const size_t *padding;
    float *gates;
    const float *c_before, *c, *d_h, *d_out;
    float *d_c, *passed;

    __device__ void operator()(size_t i) const
    {
        const size_t b = i / H, k = i % H;
        float *at = gates + b * 4 * H + k;

        if (padding && t < padding[b]) {
            at[0] = at[H] = at[2 * H] = at[3 * H] = 0;
            passed[i] = d_h[i];
            return;
        }
        const lstm_unit_gradient d =
            lstm_unit_backward(at[0], at[H], at[2 * H], at[3 * H], c[i], c_before[i], d_h[i] + d_out[i], d_c[i]);

        at[0] = d.i;
        at[H] = d.f;
        at[2 * H] = d.g;
        at[3 * H] = d.o;
        d_c[i] = d.c;
        passed[i] = 0;
    }
};

/* Rounds to bf16 and back, to nearest, ties to even; NaN stays NaN. */
static __device__ __forceinline__ float round_bf16(float x, int rounds)
{
    const unsigned bits = __float_as_uint(x);

    return rounds && x == x ? __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u) : x;
}

/* Arguments of both directions. */
struct lstm_steps {
    struct lstm_run run;
    int rounds;         /* factors of the products */
    size_t group_rows;  /* samples of a group */
    const float *d_out; /* the rest: backward */
    float *d_h, *d_c, *passed;

    /* The samples of this block, from this thread's first one on, LANES apart. */
    __device__ size_t first_row() const
    {
        return blockIdx.y * group_rows + threadIdx.x / UNITS;
    }
    __device__ size_t end_row() const
    {
        const size_t end = (blockIdx.y + 1) * group_rows;

        return end < run.B ? end : run.B;
    }
    /* This thread's unit; H or more: none. */
    __device__ size_t unit() const
    {
        return blockIdx.x * UNITS + threadIdx.x % UNITS;
    }
};

static __global__ void __launch_bounds__(THREADS) lstm_forward(lstm_steps s)
{
    const lstm_run &run = s.run;
    const size_t B = run.B, H = run.H, j = s.unit(), end = s.end_row();
    float *const part = reinterpret_cast<float *>(dynamic_shared); /* (H, UNITS, GATES) */

    for (size_t i = threadIdx.x; i < H * UNITS * GATES; i += THREADS) {
        const size_t unit = blockIdx.x * UNITS + i / GATES % UNITS;

        part[i] = unit < H ? round_bf16(run.u[i / (UNITS * GATES) * 4 * H + i % GATES * H + unit], s.rounds) : 0;
    }
    __syncthreads();
    for (size_t t = 0; t < run.S; t++) {
        const size_t before = t * B * H;

        for (size_t b = s.first_row(); j < H && b < end; b += LANES) {
            float *const g = run.gates + 4 * (before + b * H) + j;
            const float *const h = run.h + before + b * H;
            float sums[GATES] = { g[0], g[H], g[2 * H], g[3 * H] };

            for (size_t k = 0; k < H; k++) {
                const pack<GATES> u = load<GATES>(part + (k * UNITS + threadIdx.x % UNITS) * GATES);
                const float x = round_bf16(h[k], s.rounds);

                for (size_t gate = 0; gate < GATES; gate++)
                    sums[gate] += x * u.v[gate];
            }
            for (size_t gate = 0; gate < GATES; gate++)
                g[gate * H] = sums[gate];
            lstm_cell{ B,
                       H,
                       run.first + t,
                       run.padding,
                       run.gates + 4 * before,
                       run.h + before,
                       run.c + before,
                       run.h + before + B * H,
                       run.c + before + B * H }(b * H + j);
        }
        if (t + 1 < run.S)
            cooperative_groups::this_grid().sync();
    }
}

static __global__ void __launch_bounds__(THREADS) lstm_backward(lstm_steps s)
{
    const lstm_run &run = s.run;
    const size_t B = run.B, H = run.H, j = s.unit(), end = s.end_row();
    float *const part = reinterpret_cast<float *>(dynamic_shared); /* (4 H, UNITS) */

    for (size_t i = threadIdx.x; i < 4 * H * UNITS; i += THREADS) {
        const size_t unit = blockIdx.x * UNITS + i % UNITS;

        part[i] = unit < H ? round_bf16(run.u[unit * 4 * H + i / UNITS], s.rounds) : 0;
    }
    __syncthreads();
    for (size_t t = run.S; t-- > 0;) {
        const size_t before = t * B * H;
        float *const gates = run.gates + 4 * before;

        for (size_t b = s.first_row(); j < H && b < end; b += LANES)
            lstm_cell_backward{ B,
                                H,
                                run.first + t,
                                run.padding,
                                gates,
                                run.c + before,
                                run.c + before + B * H,
                                s.d_h,
                                s.d_out + before,
                                s.d_c,
                                s.passed }(b * H + j);
        cooperative_groups::this_grid().sync();
        for (size_t b = s.first_row(); j < H && b < end; b += LANES) {
            const float *const g = gates + b * 4 * H;
            float sum = s.passed[b * H + j];

            for (size_t k = 0; k < 4 * H; k++)
                sum += round_bf16(g[k], s.rounds) * part[k * UNITS + threadIdx.x % UNITS];
            s.d_h[b * H + j] = sum;
        }
    }
}

/* Runs all steps in one launch. Returns false, with nothing launched, if the device has too little room for all blocks
 * at once. */
static bool run_together(struct queue *queue, void (*kernel)(lstm_steps), lstm_steps s)
{
    const size_t H = s.run.H, B = s.run.B, shared = H * UNITS * GATES * sizeof(float), across = (H + UNITS - 1) / UNITS;
    int each = 0;

    if (B > SAMPLES_MOST || shared > PART_MOST ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, THREADS, shared) != cudaSuccess)
        return false;
    const size_t room = static_cast<size_t>(each) * static_cast<size_t>(queue->multiprocessors);
    const size_t wanted = (B + LANES - 1) / LANES, most = room / across;
    if (!most)
        return false;
    s.rounds = queue->needs.bf16 && B > EXACT_ROWS && H > EXACT_ROWS;
    s.group_rows = (B + (wanted < most ? wanted : most) - 1) / (wanted < most ? wanted : most);
    const size_t groups = (B + s.group_rows - 1) / s.group_rows;
    cuda_note(queue, cuda_launch_together(kernel, dim3(static_cast<unsigned>(across), static_cast<unsigned>(groups)),
                                          THREADS, shared, queue->stream, s));
    return true;
}

} // namespace lstm_kernels

using namespace lstm_kernels;

void cuda_lstm(struct queue *queue, const struct lstm_run *run)
{
    const size_t H = run->H, B = run->B;

    if (run_together(queue, lstm_forward, { *run, 0, 0, NULL, NULL, NULL, NULL }))
        return;
    for (size_t t = 0; t < run->S; t++) {
        const size_t before = t * B * H, after = before + B * H;
        float *gates = run->gates + 4 * before;

        cuda_multiply(queue, matrix_of(run->h + before, H), matrix_of(run->u, 4 * H), B, 4 * H, H, added(gates, 4 * H));
        run_each(queue,
                 lstm_cell{ B, H, run->first + t, run->padding, gates, run->h + before, run->c + before, run->h + after,
                            run->c + after },
                 B * H);
    }
}

/* scratch: `passed`, (B, H), to which the product adds when it becomes d_h. */
void cuda_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *d)
{
    const size_t H = run->H, B = run->B;

    if (run_together(queue, lstm_backward, { *run, 0, 0, d->d_out, d->d_h, d->d_c, d->scratch }))
        return;
    for (size_t t = run->S; t-- > 0;) {
        const size_t before = t * B * H, after = before + B * H;
        float *gates = run->gates + 4 * before;

        run_each(queue,
                 lstm_cell_backward{ B, H, run->first + t, run->padding, gates, run->c + before, run->c + after, d->d_h,
                                     d->d_out + before, d->d_c, d->scratch },
                 B * H);
        cuda_multiply(queue, matrix_of(gates, 4 * H), matrix_t(run->u, 4 * H), B, H, 4 * H, added(d->scratch, H));
        cuda_note(queue,
                  cudaMemcpyAsync(d->d_h, d->scratch, B * H * sizeof(float), cudaMemcpyDeviceToDevice, queue->stream));
    }
}

size_t cuda_lstm_scratch(size_t S, size_t B, size_t H)
{
    (void)S;
    return B * H;
}
