/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs (the formulas: tft/core/kernels/cpu_outputs.c). The sum of a loss is made in double, in the same shape each
 * time: blocks, then theirs by one block. Likelihoods are the processor's, compiled for the device.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/likelihood.c"

namespace outputs_kernels
{

/* ---- quantiles ---- */

static __device__ float softplus_of(float x)
{
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}

/* A thread a row and target. */
struct ascend {
    size_t Q, O;
    float *o;

    __device__ void operator()(size_t i) const
    {
        float *at = o + i / O * Q * O + i % O;

        for (size_t q = 1; q < Q; q++)
            at[q * O] = at[(q - 1) * O] + softplus_of(at[q * O]);
    }
};

struct ascend_backward {
    size_t Q, O;
    const float *p;
    float *d_p;

    __device__ void operator()(size_t i) const
    {
        const float *at = p + i / O * Q * O + i % O;
        float *d = d_p + i / O * Q * O + i % O;

        for (size_t q = Q; q-- > 1;) {
            d[(q - 1) * O] += d[q * O];
            d[q * O] *= -expm1f(at[(q - 1) * O] - at[q * O]);
        }
    }
};

/* ---- samples first ---- */

struct put_samples_first {
    size_t D, B, P, O;
    const float *p;
    float *y;

    __device__ void operator()(size_t i) const
    {
        const size_t k = i % P, o = i / P % O, t = i / P / O % D, b = i / P / O / D;

        y[i] = p[(t * B + b) * P * O + k * O + o];
    }
};

/* ---- losses ---- */

enum { QUANTILES_MOST = 16 };

/* A call, with the quantiles: those of the call are the host's. */
struct loss_run {
    struct outputs_run of;
    double quantiles[QUANTILES_MOST];
};

static __global__ void __launch_bounds__(SUM_THREADS)
    quantile_loss(loss_run run, size_t each, const struct pass_values *pass, double *loss, float *d_p)
{
    const double scale = pass ? pass->scale : run.of.scale;
    const size_t Q = run.of.P, O = run.of.O, B = run.of.B, D = run.of.D, n = D * B * Q * O,
                 end = (blockIdx.x + 1) * each < n ? (blockIdx.x + 1) * each : n;
    double sum = 0;

    for (size_t i = blockIdx.x * each + threadIdx.x; i < end; i += SUM_THREADS) {
        const size_t o = i % O, q = i / O % Q, b = i / O / Q % B, t = i / O / Q / B, target = (b * D + t) * O + o;
        const double weight = run.of.w[target];
        /* A masked target may hold anything, a NaN too. */
        const double above = weight == 0 ? 0 : static_cast<double>(run.of.y[target]) - run.of.p[i];
        const double slope = tft_quantile_slope(above, run.quantiles[q]);

        sum -= weight == 0 ? 0 : weight * slope * above;
        if (d_p)
            d_p[i] = weight == 0 ? 0 : static_cast<float>(weight * slope * scale);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = sum * scale;
}

static __device__ __attribute__((noinline)) double loss_of_target(const struct outputs_run &run, size_t target,
                                                                  size_t unit, const double *o, double *slopes)
{
    return tft_target_loss(&run, target, unit, o, slopes);
}

/* One block. */
static __global__ void __launch_bounds__(SUM_THREADS) sum_losses(const double *losses, size_t n, double *loss)
{
    const double sum = block_sum(threadIdx.x < n ? losses[threadIdx.x] : 0);

    if (threadIdx.x == 0)
        *loss = sum;
}

/* Weight and scale are read where they are used: in registers meanwhile, they would make a likelihood spill. */
static __global__ void __launch_bounds__(SUM_THREADS)
    target_loss(struct outputs_run run, unsigned each, const struct pass_values *pass, double *loss, float *d_p)
{
    __shared__ volatile double scale;
    const unsigned n = run.D * run.B * run.O, end = (blockIdx.x + 1) * each < n ? (blockIdx.x + 1) * each : n;
    double sum = 0;

    if (threadIdx.x == 0)
        scale = pass ? pass->scale : run.scale;
    __syncthreads();
    for (unsigned i = blockIdx.x * each + threadIdx.x; i < end; i += SUM_THREADS) {
        const unsigned o = i % run.O, b = i / run.O % run.B, t = i / run.O / run.B,
                       target = (b * run.D + t) * run.O + o;
        const unsigned at = (t * run.B + b) * run.P * run.O + o;
        double numbers[TFT_LOSS_PARAMETERS_MAX], slopes[TFT_LOSS_PARAMETERS_MAX] = {};

        for (size_t k = 0; k < run.P; k++)
            numbers[k] = run.p[at + k * run.O];
        if (run.w[target] != 0)
            sum += run.w[target] * loss_of_target(run, target, b * run.O + o, numbers, slopes);
        for (size_t k = 0; k < run.P && d_p; k++)
            d_p[at + k * run.O] = static_cast<float>(run.w[target] * slopes[k] * scale);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = sum * scale;
}

} // namespace outputs_kernels

using namespace outputs_kernels;

void cuda_ascending(struct queue *queue, size_t R, size_t Q, size_t O, real *o)
{
    run_each(queue, ascend{ Q, O, o }, R * O);
}

void cuda_ascending_backward(struct queue *queue, const real *p, size_t R, size_t Q, size_t O, real *d_p)
{
    run_each(queue, ascend_backward{ Q, O, p, d_p }, R * O);
}

void cuda_samples_first(struct queue *queue, const struct outputs_run *run, real *y)
{
    run_each(queue, put_samples_first{ run->D, run->B, run->P, run->O, run->p, y }, run->D * run->B * run->P * run->O);
}

void cuda_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p)
{
    const int is_quantiles = run->loss == TFT_LOSS_QUANTILES;
    const size_t n = run->D * run->B * run->O * (is_quantiles ? run->P : 1);
    const size_t each = (n + SUM_THREADS * SUM_THREADS - 1) / (SUM_THREADS * SUM_THREADS) * SUM_THREADS;
    const size_t blocks = (n + each - 1) / each; /* at most SUM_THREADS */
    double *const to = blocks > 1 ? reinterpret_cast<double *>(queue->partial) : loss;
    loss_run given = { *run, {} };

    for (size_t q = 0; is_quantiles && q < run->P && q < QUANTILES_MOST; q++)
        given.quantiles[q] = run->quantiles[q];
    given.of.quantiles = NULL;
    if (is_quantiles)
        cuda_note(queue, cuda_launch(quantile_loss, blocks, SUM_THREADS, 0, queue->stream, given, each, queue->current,
                                     to, d_p));
    else
        cuda_note(queue, cuda_launch(target_loss, blocks, SUM_THREADS, 0, queue->stream, given.of, each, queue->current,
                                     to, d_p));
    if (blocks > 1)
        cuda_note(queue, cuda_launch(sum_losses, 1, SUM_THREADS, 0, queue->stream, to, blocks, loss));
}
