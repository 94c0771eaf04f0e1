/* SPDX-License-Identifier: Apache-2.0
 *
 * What a .cu file sees when tests/cuda/compile makes it a program for the processor: qualifiers, built-in variables,
 * operations of warps, atomics, launches. Each calls the emulation (emu/), which knows which CUDA thread is running.
 */
#ifndef EMU_CUDA_RUNTIME_H
#define EMU_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __constant__ const
/* A module's variables of this kind are a block's own: emu/grid.cc exchanges them. What is
 * `extern __shared__ unsigned char dynamic_shared[]` in the sources is defined there. */
#define __shared__ thread_local

using std::max;
using std::min;

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
inline float2 make_float2(float x, float y)
{
    return { x, y };
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return { x, y, z, w };
}
inline void __stwb(uint4 *p, uint4 w)
{
    *p = w;
}
inline uint2 make_uint2(unsigned x, unsigned y)
{
    return { x, y };
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return { x, y, z, w };
}

/* Constant as far as a CUDA thread sees, and so not a place that accesses are checked at. */
extern const uint3 threadIdx, blockIdx;
extern const uint3 emu_block_dim, emu_grid_dim;
#define blockDim emu_block_dim
#define gridDim emu_grid_dim
enum { warpSize = 32 };

/* ---- synchronisation of a block and its warps: emu/block.cc ---- */
enum emu_warp_op { EMU_SYNC, EMU_SHUFFLE, EMU_BALLOT, EMU_MMA };
/* What a lane brings to EMU_MMA, by its address: two bf16 a word; d gets its part of the sums. */
struct emu_fragments {
    unsigned a[4], b[2];
    float *d;
};
uint64_t emu_warp(emu_warp_op op, unsigned mask, uint64_t value, unsigned source);
int emu_barrier(int value = 0); /* how many threads brought a value that is not 0 */
void emu_grid_barrier();

inline void __syncthreads()
{
    emu_barrier();
}
inline int __syncthreads_and(int p)
{
    return emu_barrier(!p) == 0;
}
inline int __syncthreads_or(int p)
{
    return emu_barrier(p) != 0;
}
inline int __syncthreads_count(int p)
{
    return emu_barrier(p);
}
inline void __syncwarp(unsigned mask = ~0u)
{
    emu_warp(EMU_SYNC, mask, 0, 0);
}
inline unsigned __ballot_sync(unsigned mask, int p)
{
    return (unsigned)emu_warp(EMU_BALLOT, mask, p != 0, 0);
}
inline int __any_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) != 0;
}
inline int __all_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, !p) == 0;
}
inline unsigned emu_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize;
}

template <class T> T __shfl_sync(unsigned mask, T v, unsigned source, unsigned width = warpSize)
{
    static_assert(sizeof v <= 8 && std::is_trivially_copyable_v<T>);
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = emu_warp(EMU_SHUFFLE, mask, bits, (emu_lane() & ~(width - 1)) | (source & (width - 1)));
    memcpy(&v, &bits, sizeof v);
    return v;
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, unsigned x, unsigned width = warpSize)
{
    return __shfl_sync(mask, v, emu_lane() ^ x, width);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned d, unsigned width = warpSize)
{
    unsigned lane = emu_lane() & (width - 1);
    return __shfl_sync(mask, v, lane + d < width ? lane + d : lane, width);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned d, unsigned width = warpSize)
{
    unsigned lane = emu_lane() & (width - 1);
    return __shfl_sync(mask, v, lane >= d ? lane - d : lane, width);
}

/* ---- atomics and fences: emu/atomics.cc; cuda/atomic has those with orders ---- */
enum emu_order { EMU_RELAXED, EMU_ACQUIRE, EMU_RELEASE, EMU_BOTH };
enum emu_scope { EMU_BLOCK, EMU_DEVICE, EMU_SYSTEM };
uint64_t emu_load(const void *p, unsigned bytes, emu_order order, emu_scope scope);
void emu_store(void *p, unsigned bytes, uint64_t v, emu_order order, emu_scope scope);
/* Whether *p was as expected, which is told otherwise, and is v now. */
bool emu_exchange_if(void *p, unsigned bytes, uint64_t *expected, uint64_t v, emu_order order, emu_scope scope);
uint64_t emu_peek(const void *p, unsigned bytes);
void emu_fence(emu_order order, emu_scope scope);

template <class T, class F> T emu_update(T *p, F made_of, emu_order order, emu_scope scope)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are of 4 or 8 bytes");
    uint64_t old = emu_peek(p, sizeof(T)), now;
    T was, is;
    do {
        memcpy(&was, &old, sizeof was);
        is = made_of(was);
        now = 0;
        memcpy(&now, &is, sizeof is);
    } while (!emu_exchange_if(p, sizeof(T), &old, now, order, scope));
    return was;
}
#define EMU_ATOMIC(name, expression)                                             \
    template <class T> T name(T *p, std::common_type_t<T> v)                     \
    {                                                                            \
        return emu_update(                                                       \
            p, [v](T old) { return (T)(expression); }, EMU_RELAXED, EMU_DEVICE); \
    }                                                                            \
    template <class T> T name##_system(T *p, std::common_type_t<T> v)            \
    {                                                                            \
        return emu_update(                                                       \
            p, [v](T old) { return (T)(expression); }, EMU_RELAXED, EMU_SYSTEM); \
    }
EMU_ATOMIC(atomicAdd, old + v)
EMU_ATOMIC(atomicMax, old < v ? v : old)
EMU_ATOMIC(atomicMin, v < old ? v : old)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicExch, ((void)old, v))
template <class T> T atomicCAS(T *p, std::common_type_t<T> expected, std::common_type_t<T> v)
{
    return emu_update(
        p, [=](T old) { return old == expected ? v : old; }, EMU_RELAXED, EMU_DEVICE);
}
inline void __threadfence_block()
{
    emu_fence(EMU_BOTH, EMU_BLOCK);
}
inline void __threadfence()
{
    emu_fence(EMU_BOTH, EMU_DEVICE);
}
inline void __threadfence_system()
{
    emu_fence(EMU_BOTH, EMU_SYSTEM);
}
template <class T> T __ldg(const T *p)
{
    return *p;
}
template <class T> void __stwb(T *p, T v)
{
    *p = v;
}
inline void *__cvta_global_to_generic(size_t address)
{
    return reinterpret_cast<void *>(address);
}
inline void __nanosleep(unsigned)
{
}

/* ---- arithmetic: the processor's, so that bits may differ from a GPU's ---- */
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float __fdividef(float x, float y)
{
    return x / y;
}
inline float __saturatef(float x)
{
    return x < 0 || x != x ? 0 : x > 1 ? 1 : x;
}
inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}
inline float __fadd_rn(float x, float y)
{
    return x + y;
}
inline float __fmul_rn(float x, float y)
{
    return x * y;
}
inline double __longlong_as_double(long long u)
{
    double f;
    memcpy(&f, &u, 8);
    return f;
}
inline long long __double_as_longlong(double f)
{
    long long u;
    memcpy(&u, &f, 8);
    return u;
}
inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}

/* ---- launches: emu/grid.cc. <<<>>> is not C++: write cudaLaunchKernelEx ---- */
enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2 };
union cudaLaunchAttributeValue {
    int cooperative;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
struct emu_kernel {
    const void *function;
    void (*call)(const void *function, void *arguments); /* once in each CUDA thread, which has its own arguments */
    const void *arguments;
    size_t bytes;
};
cudaError_t emu_launch(const cudaLaunchConfig_t *config, const emu_kernel &kernel);
cudaError_t emu_load(const void *function);
cudaError_t emu_set_dynamic(const void *function, cudaFuncAttribute attribute, int value);
cudaError_t emu_occupancy(int *blocks, const void *function, int threads, size_t dynamic);

template <class... P> void emu_call(const void *function, void *arguments)
{
    std::apply(reinterpret_cast<void (*)(P...)>(const_cast<void *>(function)),
               *static_cast<std::tuple<std::decay_t<P>...> *>(arguments));
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...a)
{
    static_assert((std::is_trivially_copyable_v<std::decay_t<P>> && ...), "arguments of a kernel are copied as bytes");
    std::tuple<std::decay_t<P>...> arguments(static_cast<P>(a)...);
    return emu_launch(config, { reinterpret_cast<const void *>(kernel), emu_call<P...>, &arguments, sizeof arguments });
}
template <class... P> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(P...))
{
    *attributes = {};
    return emu_load(reinterpret_cast<const void *>(kernel));
}
template <class... P> cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value)
{
    return emu_set_dynamic(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int threads,
                                                          size_t dynamic)
{
    return emu_occupancy(blocks, reinterpret_cast<const void *>(kernel), threads, dynamic);
}
#endif

#endif
