/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles that cannot cross, and the optimizer (the formulas: tft/core/kernels/cpu_outputs.c). Sums that are wanted
 * in double are made by one block, or by blocks whose sums one block adds up, always in the same shape.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include <cfloat>

namespace outputs_kernels
{

/* ---- quantiles ---- */

static __device__ float softplus(float x)
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
            at[q * O] = at[(q - 1) * O] + softplus(at[q * O]);
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

/* ---- the optimizer ---- */

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
    float beta1, beta2, rest1, rest2, rate, decay, epsilon;
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
    *m = normal_or_zero(f.beta1 * *m + f.rest1 * g);
    *v = normal_or_zero(f.beta2 * *v + f.rest2 * g * g);
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

/* ---- sparse gradients ---- */

/* Where what lies, as in tft/core/kernels/cpu_sparse.c: their number, the codes, the rows. */
template <class T> struct sparse_parts {
    int32_t *count, *codes;
    T *rows;

    __host__ __device__ sparse_parts(T *x, size_t most, size_t W)
        : count(reinterpret_cast<int32_t *>(const_cast<float *>(x))), codes(count + 16),
          rows(x + sparse_reals(most, W) - most * W)
    {
    }
};

/* The first place whose code is not below this one. */
static __device__ size_t place_of(const int32_t *codes, size_t n, int32_t code)
{
    size_t from = 0;

    while (from < n) {
        const size_t middle = from + (n - from) / 2;

        if (codes[middle] < code)
            from = middle + 1;
        else
            n = middle;
    }
    return from;
}

constexpr int SPARSE_THREADS = 256;

/* The distinct codes, ascending: a code's place is how many distinct smaller ones there are. One block. */
static __global__ void __launch_bounds__(SPARSE_THREADS)
    sparse_codes(const int32_t *codes, size_t R, size_t most, size_t W, float *to)
{
    const sparse_parts<float> p(to, most, W);
    __shared__ int found;

    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    for (size_t r = threadIdx.x; r < R; r += SPARSE_THREADS) {
        bool is_first = true;
        size_t smaller = 0;

        for (size_t i = 0; i < R; i++) {
            bool repeats = false;

            if (i < r && codes[i] == codes[r])
                is_first = false;
            if (codes[i] >= codes[r])
                continue;
            for (size_t k = 0; k < i && !repeats; k++)
                repeats = codes[k] == codes[i];
            smaller += !repeats;
        }
        if (is_first) {
            p.codes[smaller] = codes[r];
            atomicAdd(&found, 1); /* a count: the order does not matter */
        }
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *p.count = found;
}

/* A block a distinct code: the sum of its rows, in their order. */
static __global__ void __launch_bounds__(SPARSE_THREADS)
    sparse_rows(const float *x, const int32_t *codes, size_t R, size_t most, size_t W, float *to)
{
    const sparse_parts<float> p(to, most, W);

    for (size_t at = blockIdx.x; at < static_cast<size_t>(*p.count); at += gridDim.x)
        for (size_t i = threadIdx.x; i < W; i += SPARSE_THREADS) {
            float sum = 0;

            for (size_t r = 0; r < R; r++)
                if (codes[r] == p.codes[at])
                    sum += x[r * W + i];
            p.rows[at * W + i] = sum;
        }
}

/* One block, from the end, as on the processor: a row is not overwritten before it has been moved. */
static __global__ void __launch_bounds__(SPARSE_THREADS) sparse_merge(const float *x, size_t most, size_t W, float *to)
{
    const sparse_parts<const float> right(x, most, W);
    const sparse_parts<float> left(to, most, W);
    size_t i = *left.count, k = *right.count, n = i;

    for (size_t r = 0; r < k; r++) {
        const size_t at = place_of(left.codes, i, right.codes[r]);

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
        for (size_t c = threadIdx.x; c < W; c += SPARSE_THREADS) {
            float value = from_left ? left.rows[i * W + c] : right.rows[k * W + c];

            if (from_left && from_right)
                value += right.rows[k * W + c];
            left.rows[n * W + c] = value;
        }
        __syncthreads(); /* all have read the code that is overwritten now */
        if (threadIdx.x == 0)
            left.codes[n] = from_left ? mine : code;
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(SUM_THREADS) sparse_sum(const float *x, size_t most, size_t W, double *sum)
{
    const sparse_parts<const float> p(x, most, W);
    const size_t n = static_cast<size_t>(*p.count) * W;
    double all = 0;

    for (size_t i = threadIdx.x; i < n; i += SUM_THREADS)
        all += static_cast<double>(p.rows[i]) * p.rows[i];
    all = block_sum(all);
    if (threadIdx.x == 0)
        *sum = all;
}

static __global__ void __launch_bounds__(EACH_THREADS)
    sparse_adam(adam_factors f, const float *gradient, size_t most, size_t W, float *m, float *v, float *p)
{
    const sparse_parts<const float> g(gradient, most, W);
    const size_t n = static_cast<size_t>(*g.count) * W;
    const float scale = clip_scale(f);

    for (size_t i = static_cast<size_t>(blockIdx.x) * EACH_THREADS + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * EACH_THREADS) {
        const size_t at = static_cast<size_t>(g.codes[i / W]) * W + i % W;

        adam_update(f, g.rows[i] * scale, m + at, v + at, p + at);
    }
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

void cuda_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to)
{
    cuda_note(queue, cuda_launch(sparse_codes, 1, SPARSE_THREADS, 0, queue->stream, codes, R, shape.most, shape.W, to));
    if (R)
        cuda_note(queue, cuda_launch(sparse_rows, blocks_for(R, 1), SPARSE_THREADS, 0, queue->stream, x, codes, R,
                                     shape.most, shape.W, to));
}

void cuda_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to)
{
    cuda_note(queue, cuda_launch(sparse_merge, 1, SPARSE_THREADS, 0, queue->stream, x, shape.most, shape.W, to));
}

void cuda_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum)
{
    cuda_note(queue, cuda_launch(sparse_sum, 1, SUM_THREADS, 0, queue->stream, x, shape.most, shape.W, sum));
}

void cuda_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient, struct sparse shape,
                      real *m, real *v, real *p)
{
    cuda_note(queue, cuda_launch(sparse_adam, blocks_for(shape.most * shape.W, EACH_THREADS), EACH_THREADS, 0,
                                 queue->stream, factors_of(run), gradient, shape.most, shape.W, m, v, p));
}
