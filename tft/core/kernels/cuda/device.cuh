/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels share: elements four at a time, sums of a warp, of a block, of columns.
 *
 * An *operation* is a struct of pointers and sizes with a device function. `each` runs one for every element or pack of
 * elements, `columns` sums what it returns over the rows of each column:
 *
 *     rows      slab 0 | slab 1 | ...        a block: 32 columns of a slab, 8 rows at a time, then the 8 in order
 *     partial   one row a slab               columns_end: the slabs in order
 */
#ifndef HALAY_TFT_CUDA_DEVICE_CUH
#define HALAY_TFT_CUDA_DEVICE_CUH

#include "tft/core/kernels/cuda/cuda.h"
#include "tft/core/kernels/cuda/launch.cuh"
#include <cfloat>

constexpr size_t EXACT_ROWS = 2; /* products of no more rows, or terms, do not round to bf16 */
constexpr int WARP = 32, EACH_THREADS = 256, SUM_THREADS = 256, COLUMN_LANES = 8, ROW_WARPS = 4;

/* Neighbours that are loaded and stored as one. */
template <int V> struct alignas(V * sizeof(float)) pack {
    float v[V];
};

template <int V> static __device__ __forceinline__ pack<V> load(const float *x)
{
    return *reinterpret_cast<const pack<V> *>(x);
}

template <int V> static __device__ __forceinline__ void store(const pack<V> &p, float *x)
{
    *reinterpret_cast<pack<V> *>(x) = p;
}

/* Returns true if rows of W floats can be read four at a time, at all these places. */
template <class... P> static bool takes_four(size_t W, P... places)
{
    const void *const list[] = { places... };

    for (const void *at : list)
        if (reinterpret_cast<uintptr_t>(at) % (4 * sizeof(float)))
            return false;
    return W % 4 == 0;
}

static __device__ __forceinline__ float warp_sum(float x)
{
    for (int distance = WARP / 2; distance; distance /= 2)
        x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
    for (int distance = WARP / 2; distance; distance /= 2) {
        float other = __shfl_xor_sync(~0u, x, distance);

        x = other > x ? other : x;
    }
    return x;
}

TFT_FORMULA float real_sqrt(float x)
{
    return sqrtf(x);
}

TFT_FORMULA float real_tanh(float x)
{
    return tanhf(x);
}

TFT_FORMULA float real_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The sum of a block of SUM_THREADS, for its first thread; 0 for the others. Once in a kernel. */
static __device__ __forceinline__ double block_sum(double x)
{
    __shared__ double sums[SUM_THREADS];

    sums[threadIdx.x] = x;
    for (unsigned half = SUM_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    return threadIdx.x == 0 ? sums[0] : 0;
}

static inline unsigned blocks_for(size_t n, size_t each)
{
    size_t blocks = (n + each - 1) / each;
    const size_t most = 4096; /* the kernels stride over the rest */

    return static_cast<unsigned>(blocks < most ? blocks : most);
}

/* ---- every element ---- */

template <class Operation> static __global__ void __launch_bounds__(EACH_THREADS) each(Operation operation, size_t n)
{
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;

    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        operation(i);
}

template <class Operation> static void run_each(struct queue *queue, const Operation &operation, size_t n)
{
    if (n)
        cuda_note(queue, cuda_launch(each<Operation>, blocks_for(n, EACH_THREADS), EACH_THREADS, 0, queue->stream,
                                     operation, n));
}

/* ---- every row, a warp each ---- */

template <class Operation> static __global__ void __launch_bounds__(WARP *ROW_WARPS) rows(Operation operation, size_t R)
{
    const size_t stride = static_cast<size_t>(gridDim.x) * ROW_WARPS;
    const unsigned lane = threadIdx.x % WARP;

    for (size_t r = static_cast<size_t>(blockIdx.x) * ROW_WARPS + threadIdx.x / WARP; r < R; r += stride)
        operation(r, lane);
}

template <class Operation> static void run_rows(struct queue *queue, const Operation &operation, size_t R)
{
    if (R)
        cuda_note(queue, cuda_launch(rows<Operation>, blocks_for(R, ROW_WARPS), WARP * ROW_WARPS, 0, queue->stream,
                                     operation, R));
}

/* ---- sums over rows ---- */

/* An operation has `static constexpr int SUMS` and void operator()(r, i, sums): adds what row r has in column i. */
template <class Operation>
static __global__ void __launch_bounds__(WARP *COLUMN_LANES)
    columns(Operation operation, size_t R, size_t W, size_t slab, float *partial)
{
    __shared__ float lanes[Operation::SUMS][COLUMN_LANES][WARP];
    const size_t i = static_cast<size_t>(blockIdx.x) * WARP + threadIdx.x;
    const size_t from = blockIdx.y * slab, to = from + slab < R ? from + slab : R;
    float sums[Operation::SUMS] = {};

    for (size_t r = from + threadIdx.y; i < W && r < to; r += COLUMN_LANES)
        operation(r, i, sums);
    for (int s = 0; s < Operation::SUMS; s++)
        lanes[s][threadIdx.y][threadIdx.x] = sums[s];
    __syncthreads();
    if (threadIdx.y < Operation::SUMS && i < W) {
        float sum = 0;

        for (int lane = 0; lane < COLUMN_LANES; lane++)
            sum += lanes[threadIdx.y][lane][threadIdx.x];
        partial[(static_cast<size_t>(blockIdx.y) * Operation::SUMS + threadIdx.y) * W + i] = sum;
    }
}

/* Destinations of an operation's sums. */
template <int SUMS> struct columns_to {
    const float *partial;
    size_t W, slabs;
    int add;
    float *to[SUMS];

    __device__ void operator()(size_t i) const
    {
        for (int s = 0; s < SUMS; s++) {
            float sum = add ? to[s][i] : 0;

            for (size_t slab = 0; slab < slabs; slab++)
                sum += partial[(slab * SUMS + s) * W + i];
            to[s][i] = sum;
        }
    }
};

template <class Operation, class... P>
static void run_columns(struct queue *queue, const Operation &operation, size_t R, size_t W, int add, P... to)
{
    static_assert(sizeof...(to) == Operation::SUMS && Operation::SUMS <= COLUMN_LANES, "a place for each sum");
    size_t slabs = CUDA_PARTIAL / (Operation::SUMS * W), slab;

    slabs = slabs < CUDA_SLABS ? slabs : static_cast<size_t>(CUDA_SLABS);
    slab = (R + slabs - 1) / slabs;
    slab = (slab + COLUMN_LANES - 1) / COLUMN_LANES * COLUMN_LANES;
    slabs = (R + slab - 1) / slab;
    cuda_note(queue, cuda_launch(columns<Operation>, dim3((W + WARP - 1) / WARP, slabs), dim3(WARP, COLUMN_LANES), 0,
                                 queue->stream, operation, R, W, slab, queue->partial));
    run_each(queue, columns_to<Operation::SUMS>{ queue->partial, W, slabs, add, { to... } }, W);
}

#endif
