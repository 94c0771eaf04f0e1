/* SPDX-License-Identifier: Apache-2.0
 *
 * Real CUDA, for nvcc and the emulation: vector accesses, shuffles, static and dynamic shared memory, a fence and a
 * count, a barrier of the grid, atomics of the whole system that ranks meet by, bfloat16, and a warp's product.
 */
#include "proof.h"
#include "tft/core/kernels/cuda/mma.cuh"
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

extern __shared__ unsigned char dynamic_shared[];

static __global__ void __launch_bounds__(128)
    add(const float4 *__restrict__ a, const float4 *__restrict__ b, float4 *__restrict__ c, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 x = a[i], y = b[i];
        c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
}

template <class T> static __device__ T block_sum(T v)
{
    __shared__ T of_warp[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int o = 16; o; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    if (lane == 0)
        of_warp[warp] = v;
    __syncthreads();
    v = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++)
        v += of_warp[w];
    __syncthreads();
    return v;
}

static __global__ void sum_all(const float *x, size_t n, float *parts, unsigned *count, float *sum)
{
    __shared__ bool is_last;
    float v = 0;

    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        v += x[i];
    v = block_sum(v);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = v;
        __threadfence();
        is_last = atomicAdd(count, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    v = block_sum(threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0.f);
    if (threadIdx.x == 0)
        *sum = v;
}

static __global__ void scale(float *x, size_t n, float *parts)
{
    float *most = reinterpret_cast<float *>(dynamic_shared), m = 0;
    size_t first = blockIdx.x * blockDim.x + threadIdx.x;

    for (size_t i = first; i < n; i += gridDim.x * blockDim.x)
        m = fmaxf(m, fabsf(x[i]));
    most[threadIdx.x] = m;
    for (unsigned o = blockDim.x / 2; o; o /= 2) {
        __syncthreads();
        if (threadIdx.x < o)
            most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + o]);
    }
    if (threadIdx.x == 0)
        parts[blockIdx.x] = most[0];
    cg::this_grid().sync();
    m = 0;
    for (unsigned b = 0; b < gridDim.x; b++)
        m = fmaxf(m, parts[b]);
    for (size_t i = first; i < n; i += gridDim.x * blockDim.x)
        x[i] /= m;
}

/* A block meets its twins of the other ranks; false: somebody wants that all give up. */
static __device__ bool meet(const struct proof_ranks &p, uint32_t turn)
{
    bool gone_on = true;

    __syncthreads();
    if ((int)threadIdx.x < p.size) {
        cuda::atomic_ref<uint32_t> theirs(p.words[threadIdx.x][blockIdx.x * PROOF_RANKS + p.rank]);
        cuda::atomic_ref<uint32_t> ours(p.words[p.rank][blockIdx.x * PROOF_RANKS + threadIdx.x]);
        cuda::atomic_ref<uint32_t> abort(*p.abort);
        theirs.store(turn, cuda::memory_order_release);
        while (gone_on && (int32_t)(ours.load(cuda::memory_order_acquire) - turn) < 0)
            gone_on = !abort.load(cuda::memory_order_relaxed);
    }
    return __syncthreads_and(gone_on);
}

static __global__ void all_reduce(struct proof_ranks p, float *out, size_t n, uint32_t turn)
{
    if (!meet(p, 2 * turn - 1))
        return;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float s = 0;
        for (int r = 0; r < p.size; r++)
            s += p.data[r][i];
        out[i] = s;
    }
    meet(p, 2 * turn);
}

static __global__ void transpose(const __nv_bfloat16 *from, unsigned R, unsigned W, __nv_bfloat16 *to)
{
    __shared__ __nv_bfloat16 tile[16][17];
    unsigned r = blockIdx.y * 16 + threadIdx.y, w = blockIdx.x * 16 + threadIdx.x;

    if (r < R && w < W)
        tile[threadIdx.y][threadIdx.x] = from[(size_t)r * W + w];
    __syncthreads();
    r = blockIdx.y * 16 + threadIdx.x, w = blockIdx.x * 16 + threadIdx.y;
    if (r < R && w < W)
        to[(size_t)w * R + r] = tile[threadIdx.x][threadIdx.y];
}

/* Two numbers that bf16 has, as a word. */
static __device__ unsigned word_of(float x, float y)
{
    return __float_as_uint(x) >> 16 | (__float_as_uint(y) & 0xffff0000u);
}

/* d (16, 8) += a (16, 16) b (16, 8), by the lanes' fragments. */
static __global__ void multiply(const float *a, const float *b, float *d)
{
    const unsigned g = threadIdx.x / 4, p = threadIdx.x % 4 * 2;
    const float *up = a + g * 16 + p, *low = up + 8 * 16, *right = b + p * 8 + g;
    const uint4 left = make_uint4(word_of(up[0], up[1]), word_of(low[0], low[1]), word_of(up[8], up[9]),
                                  word_of(low[8], low[9]));
    float sums[4] = { d[g * 8 + p], d[g * 8 + p + 1], d[(g + 8) * 8 + p], d[(g + 8) * 8 + p + 1] };

    mma_bf16(sums, left, uint2{ word_of(right[0], right[8]), word_of(right[8 * 8], right[9 * 8]) });
    for (unsigned i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + p + i % 2] = sums[i];
}

static __global__ void one(float *x)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *x = (float)threadIdx.x;
}

static cudaLaunchConfig_t shape(dim3 blocks, dim3 threads, size_t shared, cudaStream_t stream)
{
    cudaLaunchConfig_t c = {};

    c.gridDim = blocks, c.blockDim = threads, c.dynamicSmemBytes = shared, c.stream = stream;
    return c;
}

/* All blocks are there at once, so that they may wait for each other. */
static void together(cudaLaunchConfig_t *c, cudaLaunchAttribute *a)
{
    a->id = cudaLaunchAttributeCooperative;
    a->val.cooperative = 1;
    c->attrs = a;
    c->numAttrs = 1;
}

cudaError_t proof_add(const float *a, const float *b, float *c, size_t n, cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(3, 128, 0, stream);

    if (n % 4)
        return cudaErrorInvalidValue;
    return cudaLaunchKernelEx(&s, add, (const float4 *)a, (const float4 *)b, (float4 *)c, n / 4);
}

cudaError_t proof_sum(const float *x, size_t n, float *parts, unsigned *count, float *sum, cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(4, 64, 0, stream);

    return cudaLaunchKernelEx(&s, sum_all, x, n, parts, count, sum);
}

cudaError_t proof_scale(float *x, size_t n, float *parts, cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(4, 64, 64 * sizeof(float), stream);
    cudaLaunchAttribute a;

    together(&s, &a);
    return cudaLaunchKernelEx(&s, scale, x, n, parts);
}

cudaError_t proof_all_reduce(const struct proof_ranks *ranks, float *out, size_t n, uint32_t turn, cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(PROOF_BLOCKS, 64, 0, stream);
    cudaLaunchAttribute a;

    together(&s, &a);
    return cudaLaunchKernelEx(&s, all_reduce, *ranks, out, n, turn);
}

cudaError_t proof_transpose(const void *from, size_t R, size_t W, void *to, cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(dim3((W + 15) / 16, (R + 15) / 16), dim3(16, 16), 0, stream);

    return cudaLaunchKernelEx(&s, transpose, (const __nv_bfloat16 *)from, (unsigned)R, (unsigned)W,
                              (__nv_bfloat16 *)to);
}

cudaError_t proof_multiply(const float *a, const float *b, float *d, cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(1, 32, 0, stream);

    return cudaLaunchKernelEx(&s, multiply, a, b, d);
}

cudaError_t proof_launch(unsigned blocks, unsigned threads, size_t dynamic, int cooperative, float *x,
                         cudaStream_t stream)
{
    cudaLaunchConfig_t s = shape(blocks, threads, dynamic, stream);
    cudaLaunchAttribute a;

    if (cooperative)
        together(&s, &a);
    return cudaLaunchKernelEx(&s, one, x);
}

cudaError_t proof_allow(int dynamic)
{
    return cudaFuncSetAttribute(one, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
}

cudaError_t proof_occupancy(int threads, size_t dynamic, int *blocks)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, one, threads, dynamic);
}
