/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer (the formulas: tft/core/kernels/cpu_optimizer.c). Sums in double are made by one block, or by blocks
 * whose sums one block adds up, always in the same shape.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"

namespace optimizer_kernels
{

struct move_average {
    float share;
    const float *x;
    float *y;

    __device__ void operator()(size_t i) const
    {
        y[i] = average_of(share, x[i], y[i]);
    }
};

/* A block adds up a chunk; then a thread for each tensor adds up its chunks in order. */
static __global__ void __launch_bounds__(SUM_THREADS) squares_of_chunks(chunks list, const float *x)
{
    const chunk part = list.all[blockIdx.x];
    double sum = 0;

    for (size_t i = threadIdx.x; i < part.n; i += SUM_THREADS)
        sum += static_cast<double>(x[part.at + i]) * x[part.at + i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        list.partial[blockIdx.x] = sum;
}

struct squares_of_tensor {
    chunks list;
    double *sums;

    __device__ void operator()(size_t i) const
    {
        const chunk first = list.all[i];
        double sum = 0;

        for (size_t k = 0; k < first.chunks; k++)
            sum += list.partial[i + k];
        if (first.chunks)
            sums[first.tensor] = sum;
    }
};

/* A call, with what it clips by. */
struct adam_pass {
    adam_factors factors;
    double clip;
    const double *squares; /* (count), or NULL: no clipping */
    size_t count;
};

/* Returns the factor of the gradient. Every block computes it for itself. */
static __device__ float clip_scale(const adam_pass &f)
{
    static_assert(EACH_THREADS == SUM_THREADS, "a block adds up");
    __shared__ float scale;
    double sum = 0;

    for (size_t i = threadIdx.x; f.squares && i < f.count; i += SUM_THREADS)
        sum += f.squares[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        scale = f.squares ? clip_factor(f.clip, sum) : 1;
    __syncthreads();
    return scale;
}

static __global__ void __launch_bounds__(EACH_THREADS)
    adam_of_chunks(adam_pass f, chunks list, const float *gradient, float *m, float *v, float *p)
{
    const chunk part = list.all[blockIdx.x];

    if (f.squares && f.count == 1)
        f.squares += part.tensor;
    f.factors.decay = part.decays ? f.factors.decay : 0;
    const float scale = clip_scale(f);
    gradient += part.at;
    p += part.at;
    m += part.at;
    v += part.at;
    for (unsigned i = threadIdx.x; i < part.n; i += EACH_THREADS)
        adam_update(f.factors, gradient[i] * scale, m + i, v + i, p + i);
}

static adam_pass pass_of(const struct adam_run *run)
{
    return adam_pass{ adam_factors_of(run), run->clip, run->squares, run->count };
}

static __global__ void __launch_bounds__(SUM_THREADS) sparse_sum(const float *x, struct sparse shape, double *sum)
{
    const sparse_parts p = sparse_parts_of(x, shape);
    const size_t n = static_cast<size_t>(*p.count) * shape.W;
    double all = 0;

    for (size_t i = threadIdx.x; i < n; i += SUM_THREADS)
        all += static_cast<double>(p.rows[i]) * p.rows[i];
    all = block_sum(all);
    if (threadIdx.x == 0)
        *sum = all;
}

static __global__ void __launch_bounds__(EACH_THREADS)
    sparse_adam(adam_pass f, const float *gradient, struct sparse shape, float *m, float *v, float *p)
{
    const sparse_parts g = sparse_parts_of(gradient, shape);
    const size_t n = static_cast<size_t>(*g.count) * shape.W;
    const float scale = clip_scale(f);

    for (size_t i = static_cast<size_t>(blockIdx.x) * EACH_THREADS + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * EACH_THREADS) {
        const size_t at = static_cast<size_t>(g.codes[i / shape.W]) * shape.W + i % shape.W;

        adam_update(f.factors, g.rows[i] * scale, m + at, v + at, p + at);
    }
}

} // namespace optimizer_kernels

using namespace optimizer_kernels;

void cuda_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    run_each(queue, move_average{ static_cast<float>(share), x, y }, n);
}

void cuda_squares_all(struct queue *queue, const struct chunks *chunks, const real *x, double *sums)
{
    cuda_note(queue, cuda_launch(squares_of_chunks, static_cast<unsigned>(chunks->count), SUM_THREADS, 0, queue->stream,
                                 *chunks, x));
    run_each(queue, squares_of_tensor{ *chunks, sums }, chunks->count);
}

void cuda_adam_all(struct queue *queue, const struct adam_run *run, const struct chunks *chunks, const real *gradient,
                   real *m, real *v, real *p)
{
    cuda_note(queue, cuda_launch(adam_of_chunks, static_cast<unsigned>(chunks->count), EACH_THREADS, 0, queue->stream,
                                 pass_of(run), *chunks, gradient, m, v, p));
}

void cuda_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum)
{
    cuda_note(queue, cuda_launch(sparse_sum, 1, SUM_THREADS, 0, queue->stream, x, shape, sum));
}

void cuda_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient, struct sparse shape,
                      real *m, real *v, real *p)
{
    cuda_note(queue, cuda_launch(sparse_adam, blocks_for(shape.most * shape.W, EACH_THREADS), EACH_THREADS, 0,
                                 queue->stream, pass_of(run), gradient, shape, m, v, p));
}
