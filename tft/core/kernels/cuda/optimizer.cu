/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer (the formulas: tft/core/kernels/cpu_optimizer.c). Sums in double are made by one block, or by blocks
 * whose sums one block adds up, always in the same shape.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include <cfloat>

namespace optimizer_kernels
{

struct average_of {
    float share;
    const float *x;
    float *y;

    __device__ void operator()(size_t i) const
    {
        y[i] += share * (x[i] - y[i]);
    }
};

/* A block a chunk, then a thread for each tensor, which adds its chunks up in turn. */
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

struct adam_factors {
    float beta1, beta2, one_minus_beta1, one_minus_beta2, rate, decay, epsilon;
    double clip;
    const double *squares; /* (count), or NULL: no clipping */
    size_t count;
};

static __device__ float normal_or_zero(float x)
{
    return fabsf(x) < FLT_MIN ? 0 : x;
}

/* What the gradient is multiplied by: every block finds it for itself. */
static __device__ float clip_scale(const adam_factors &f)
{
    static_assert(EACH_THREADS == SUM_THREADS, "a block adds up");
    __shared__ float scale;
    double sum = 0;

    for (size_t i = threadIdx.x; f.squares && i < f.count; i += SUM_THREADS)
        sum += f.squares[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        const double norm = sqrt(sum);
        scale = f.squares && norm > f.clip ? static_cast<float>(f.clip / norm) : 1; /* NaN: as it is */
    }
    __syncthreads();
    return scale;
}

static __device__ void adam_update(const adam_factors &f, float g, float *m, float *v, float *p)
{
    *m = normal_or_zero(f.beta1 * *m + f.one_minus_beta1 * g);
    *v = normal_or_zero(f.beta2 * *v + f.one_minus_beta2 * g * g);
    *p -= f.rate * *m / (sqrtf(*v) + f.epsilon) + f.decay * *p;
}

static __global__ void __launch_bounds__(EACH_THREADS)
    adam_of_chunks(adam_factors f, chunks list, const float *gradient, float *m, float *v, float *p)
{
    const chunk part = list.all[blockIdx.x];

    if (f.squares && f.count == 1)
        f.squares += part.tensor;
    f.decay = part.decays ? f.decay : 0;
    const float scale = clip_scale(f);
    gradient += part.at;
    p += part.at;
    m += part.at;
    v += part.at;
    for (unsigned i = threadIdx.x; i < part.n; i += EACH_THREADS)
        adam_update(f, gradient[i] * scale, m + i, v + i, p + i);
}

static adam_factors factors_of(const struct adam_run *run)
{
    return adam_factors{ static_cast<float>(run->beta1),
                         static_cast<float>(run->beta2),
                         static_cast<float>(1 - run->beta1),
                         static_cast<float>(1 - run->beta2),
                         static_cast<float>(run->rate),
                         static_cast<float>(run->decay),
                         static_cast<float>(run->epsilon),
                         run->clip,
                         run->squares,
                         run->count };
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
    sparse_adam(adam_factors f, const float *gradient, struct sparse shape, float *m, float *v, float *p)
{
    const sparse_parts g = sparse_parts_of(gradient, shape);
    const size_t n = static_cast<size_t>(*g.count) * shape.W;
    const float scale = clip_scale(f);

    for (size_t i = static_cast<size_t>(blockIdx.x) * EACH_THREADS + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * EACH_THREADS) {
        const size_t at = static_cast<size_t>(g.codes[i / shape.W]) * shape.W + i % shape.W;

        adam_update(f, g.rows[i] * scale, m + at, v + at, p + at);
    }
}

} // namespace optimizer_kernels

using namespace optimizer_kernels;

void cuda_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    run_each(queue, average_of{ static_cast<float>(share), x, y }, n);
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
                                 factors_of(run), *chunks, gradient, m, v, p));
}

void cuda_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum)
{
    cuda_note(queue, cuda_launch(sparse_sum, 1, SUM_THREADS, 0, queue->stream, x, shape, sum));
}

void cuda_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient, struct sparse shape,
                      real *m, real *v, real *p)
{
    cuda_note(queue, cuda_launch(sparse_adam, blocks_for(shape.most * shape.W, EACH_THREADS), EACH_THREADS, 0,
                                 queue->stream, factors_of(run), gradient, shape, m, v, p));
}
