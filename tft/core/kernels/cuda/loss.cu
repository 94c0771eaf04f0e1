/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses (tft/core/kernels/cpu_loss.c): one block, since a granule has some thousand targets; its sum is made in
 * double, in the same shape each time. Likelihoods are the processor's, compiled for the device.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/likelihood.c"

namespace loss_kernels
{

enum { QUANTILES_MOST = 16 };

/* A call, with the quantiles: those of the call are the host's. */
struct loss_run {
    struct outputs_run of;
    double quantiles[QUANTILES_MOST];
};

static __device__ double slope_of(double above, double quantile)
{
    if (above > 0)
        return -quantile;
    return above < 0 ? 1 - quantile : above;
}

static __global__ void __launch_bounds__(SUM_THREADS)
    quantile_loss(loss_run run, const struct pass_values *pass, double *loss, float *d_p)
{
    const double scale = pass ? pass->scale : run.of.scale;
    const size_t Q = run.of.P, O = run.of.O, B = run.of.B, D = run.of.D, n = D * B * Q * O;
    double sum = 0;

    for (size_t i = threadIdx.x; i < n; i += SUM_THREADS) {
        const size_t o = i % O, q = i / O % Q, b = i / O / Q % B, t = i / O / Q / B, target = (b * D + t) * O + o;
        const double weight = run.of.w[target];
        /* A masked target may hold anything, a NaN too. */
        const double above = weight == 0 ? 0 : static_cast<double>(run.of.y[target]) - run.of.p[i];
        const double slope = slope_of(above, run.quantiles[q]);

        sum -= weight == 0 ? 0 : weight * slope * above;
        if (d_p)
            d_p[i] = weight == 0 ? 0 : static_cast<float>(weight * slope * scale);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *loss = sum * scale;
}

static __device__ __attribute__((noinline)) double loss_of_target(const struct outputs_run &run, size_t target,
                                                                  size_t unit, const double *o, double *slopes)
{
    const double y = run.y[target];

    if (tft_loss_is_point(run.loss)) {
        *slopes = tft_loss_slope_of_point(run.loss, y - *o);
        return tft_loss_of_point(run.loss, y - *o);
    }
    const struct tft_distribution d = tft_distribution_of(run.loss, run.power, o, run.offsets[target], run.units[unit]);
    const double loss = tft_likelihood_loss(&d, y, slopes);
    for (size_t k = 0; k < run.P; k++)
        slopes[k] *= d.slopes[k];
    return loss;
}

/* Weight and scale are read where they are used: in registers meanwhile, they would make a likelihood spill. */
static __global__ void __launch_bounds__(SUM_THREADS)
    target_loss(struct outputs_run run, const struct pass_values *pass, double *loss, float *d_p)
{
    __shared__ volatile double scale;
    const size_t n = run.D * run.B * run.O;
    double sum = 0;

    if (threadIdx.x == 0)
        scale = pass ? pass->scale : run.scale;
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += SUM_THREADS) {
        const size_t o = i % run.O, b = i / run.O % run.B, t = i / run.O / run.B, target = (b * run.D + t) * run.O + o;
        const size_t at = (t * run.B + b) * run.P * run.O + o;
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
        *loss = sum * scale;
}

} // namespace loss_kernels

using namespace loss_kernels;

void cuda_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p)
{
    loss_run given = { *run, {} };

    if (run->loss != TFT_LOSS_QUANTILES) {
        cuda_note(queue, cuda_launch(target_loss, 1, SUM_THREADS, 0, queue->stream, *run, queue->current, loss, d_p));
        return;
    }
    for (size_t q = 0; q < run->P && q < QUANTILES_MOST; q++)
        given.quantiles[q] = run->quantiles[q];
    given.of.quantiles = NULL;
    cuda_note(queue, cuda_launch(quantile_loss, 1, SUM_THREADS, 0, queue->stream, given, queue->current, loss, d_p));
}
