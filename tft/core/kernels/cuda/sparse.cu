/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse gradients (tft/core/kernels/cpu_sparse.c) from rows with codes:
 *
 *     order    rows by code, then by number, in the place of the codes; each code's first place, in its row of sums
 *     sums     a block a code: its rows in their order
 *     codes    the code of each first place, in the place of the order
 */
#include "tft/core/kernels/cuda/device.cuh"

namespace sparse_kernels
{

constexpr unsigned SPARSE_THREADS = 256;

static __device__ bool is_before(const int32_t *codes, int32_t a, int32_t b)
{
    return codes[a] < codes[b] || (codes[a] == codes[b] && a < b);
}

/* A bitonic sort by one block. All comparisons put the smaller one first (the first step of a length compares with the
 * mirrored place), so that places after the last row need not exist. */
static __device__ void sort_rows(const int32_t *codes, size_t R, int32_t *order)
{
    for (size_t r = threadIdx.x; r < R; r += SPARSE_THREADS)
        order[r] = static_cast<int32_t>(r);
    for (size_t length = 2; length / 2 < R; length *= 2)
        for (size_t half = length / 2; half; half /= 2) {
            __syncthreads();
            for (size_t pair = threadIdx.x, i; (i = pair / half * 2 * half + pair % half) < R; pair += SPARSE_THREADS) {
                const size_t k = i ^ (half == length / 2 ? length - 1 : half);

                if (k < R && is_before(codes, order[k], order[i])) {
                    const int32_t other = order[i];

                    order[i] = order[k];
                    order[k] = other;
                }
            }
        }
    __syncthreads();
}

/* Calls found(n, place, code) for the n-th code and its first place in the order, and returns the number of codes. One
 * block; found may write places of the order up to the n-th. */
template <class Found>
static __device__ size_t each_code(const int32_t *codes, size_t R, const int32_t *order, Found found)
{
    __shared__ int32_t tile[SPARSE_THREADS];
    __shared__ unsigned ranks[SPARSE_THREADS]; /* first places up to this one */
    size_t count = 0;
    int32_t last = 0; /* code before the tile */

    for (size_t from = 0; from < R; from += SPARSE_THREADS) {
        const size_t place = from + threadIdx.x;
        const int32_t code = place < R ? codes[order[place]] : 0;

        tile[threadIdx.x] = code;
        __syncthreads();
        const bool is_first = place < R && (place == 0 || (threadIdx.x ? tile[threadIdx.x - 1] : last) != code);
        last = tile[SPARSE_THREADS - 1];
        ranks[threadIdx.x] = is_first;
        for (unsigned distance = 1; distance < SPARSE_THREADS; distance *= 2) {
            __syncthreads();
            const unsigned before = threadIdx.x >= distance ? ranks[threadIdx.x - distance] : 0;
            __syncthreads();
            ranks[threadIdx.x] += before;
        }
        __syncthreads();
        if (is_first)
            found(count + ranks[threadIdx.x] - 1, place, code);
        count += ranks[SPARSE_THREADS - 1];
        __syncthreads();
    }
    return count;
}

static __global__ void __launch_bounds__(SPARSE_THREADS)
    sparse_order(const int32_t *codes, size_t R, struct sparse shape, float *to)
{
    const sparse_parts p = sparse_parts_of(to, shape);

    sort_rows(codes, R, p.codes);
    const size_t count = each_code(codes, R, p.codes, [=](size_t n, size_t place, int32_t) {
        p.rows[n * shape.W] = __uint_as_float(static_cast<unsigned>(place));
    });
    if (threadIdx.x == 0)
        *p.count = static_cast<int32_t>(count);
}

static __global__ void __launch_bounds__(SPARSE_THREADS)
    sparse_sums(const float *x, const int32_t *codes, size_t R, struct sparse shape, float *to)
{
    const sparse_parts p = sparse_parts_of(to, shape);
    const size_t W = shape.W;

    for (size_t n = blockIdx.x; n < static_cast<size_t>(*p.count); n += gridDim.x) {
        const size_t first = __float_as_uint(p.rows[n * W]);
        const int32_t code = codes[p.codes[first]];

        __syncthreads(); /* all have read the first place */
        for (size_t i = threadIdx.x; i < W; i += SPARSE_THREADS) {
            float sum = 0;

            for (size_t place = first; place < R && codes[p.codes[place]] == code; place++)
                sum += x[static_cast<size_t>(p.codes[place]) * W + i];
            p.rows[n * W + i] = sum;
        }
    }
}

static __global__ void __launch_bounds__(SPARSE_THREADS)
    sparse_codes(const int32_t *codes, size_t R, struct sparse shape, float *to)
{
    const sparse_parts p = sparse_parts_of(to, shape);

    each_code(codes, R, p.codes, [=](size_t n, size_t, int32_t code) { p.codes[n] = code; });
}

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

void cuda_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to)
{
    cuda_note(queue, cuda_launch(sparse_order, 1, SPARSE_THREADS, 0, queue->stream, codes, R, shape, to));
    if (!R)
        return;
    cuda_note(queue,
              cuda_launch(sparse_sums, blocks_for(R, 1), SPARSE_THREADS, 0, queue->stream, x, codes, R, shape, to));
    cuda_note(queue, cuda_launch(sparse_codes, 1, SPARSE_THREADS, 0, queue->stream, codes, R, shape, to));
}

void cuda_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to)
{
    cuda_note(queue, cuda_launch(sparse_merge, 1, SPARSE_THREADS, 0, queue->stream, x, shape, to));
}
