/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the all-reduce through segments: pieces of the program's memory into this rank's segment, sums over all
 * ranks' segments, and back.
 *
 * A row of blocks works on each piece; pieces begin at multiples of 16 bytes in the segment, so that 16 bytes are taken
 * at a time where the program's memory is aligned, too. Sums are made in f32 in the order of the ranks and rounded
 * once: an element has the same bits, whichever rank computes it. No kernel waits for another one.
 */
#include "collectives/transport/cuda/cuda_reduce.h"
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace through_segments
{
constexpr int THREADS = 256, BLOCKS_MAX = 256, PIECES = 32, RANKS = HALAY_DEVICE_RANKS;
constexpr size_t WORD = 16; /* bytes that are loaded at once */

struct pieces {
    halay_device_piece at[PIECES];
};
struct segments {
    void *at[RANKS];
    int ranks, rank;
    size_t first, last, share; /* elements */
};

template <class T> struct alignas(WORD) word {
    T v[WORD / sizeof(T)];
};

/* Types of their own, as two of them are 16 bits. */
struct f32 {
    using type = float;
    static __device__ float load(float x)
    {
        return x;
    }
    static __device__ float store(float x)
    {
        return x == x ? x : __uint_as_float(0x7fc00000u);
    }
};
struct f16 {
    using type = unsigned short;
    static __device__ float load(unsigned short x)
    {
        return __half2float(__ushort_as_half(x));
    }
    static __device__ unsigned short store(float x)
    {
        return x == x ? __half_as_ushort(__float2half_rn(x)) : (unsigned short)0x7e00;
    }
};
struct bf16 {
    using type = unsigned short;
    static __device__ float load(unsigned short x)
    {
        return __uint_as_float((unsigned)x << 16);
    }
    static __device__ unsigned short store(float x)
    {
        unsigned u = __float_as_uint(x);

        return (unsigned short)(x == x ? (u + 0x7fffu + (u >> 16 & 1)) >> 16 : 0x7fc0u);
    }
};

template <class T> __device__ bool is_aligned(const T *p)
{
    return reinterpret_cast<size_t>(p) % WORD == 0;
}

/* One thread's elements of a piece: whole words where both sides allow, the rest one by one. */
template <class T, class W, class E> __device__ void each(size_t count, bool by_words, W whole, E one)
{
    constexpr size_t V = WORD / sizeof(T);
    size_t thread = (size_t)blockIdx.x * THREADS + threadIdx.x, threads = (size_t)gridDim.x * THREADS;
    size_t words = by_words ? count / V : 0;

    for (size_t i = thread; i < words; i += threads)
        whole(i * V);
    for (size_t i = words * V + thread; i < count; i += threads)
        one(i);
}

template <class T> __global__ void __launch_bounds__(THREADS) pack_segment(pieces list, T *segment)
{
    const halay_device_piece &p = list.at[blockIdx.y];
    const T *from = static_cast<const T *>(p.in);
    T *to = segment + p.at;

    each<T>(
        p.count, is_aligned(from),
        [&](size_t i) { *reinterpret_cast<word<T> *>(to + i) = *reinterpret_cast<const word<T> *>(from + i); },
        [&](size_t i) { to[i] = from[i]; });
}

/* The sum of the elements from `at` on, V of them. */
template <class K, int V> __device__ void sum_at(const segments &s, size_t at, float pre, float (&sum)[V])
{
    using T = typename K::type;

    for (int r = 0; r < s.ranks; r++) {
        const T *from = static_cast<const T *>(s.at[r]) + at;
        if constexpr (V == 1) {
            sum[0] = r ? sum[0] + pre * K::load(*from) : pre * K::load(*from);
        } else {
            const word<T> w = *reinterpret_cast<const word<T> *>(from);
            for (int k = 0; k < V; k++)
                sum[k] = r ? sum[k] + pre * K::load(w.v[k]) : pre * K::load(w.v[k]);
        }
    }
}

/* Sums the elements first to last of the segments that belong to the pieces: into the program's memory or, if each rank
 * sums a share, in place in this rank's segment. */
template <class K> __global__ void __launch_bounds__(THREADS) reduce_segments(pieces list, segments s)
{
    using T = typename K::type;
    constexpr int V = WORD / sizeof(T);
    const halay_device_piece &p = list.at[blockIdx.y];
    size_t begin = p.at > s.first ? p.at : s.first, end = p.at + p.count < s.last ? p.at + p.count : s.last;
    T *to = s.share ? static_cast<T *>(s.at[s.rank]) + begin : static_cast<T *>(p.out) + (begin - p.at);

    if (begin >= end)
        return;
    each<T>(
        end - begin, is_aligned(to),
        [&](size_t i) {
            float sum[V];
            word<T> result;

            sum_at<K, V>(s, begin + i, p.prescale, sum);
            for (int k = 0; k < V; k++)
                result.v[k] = K::store(sum[k] * p.postscale);
            *reinterpret_cast<word<T> *>(to + i) = result;
        },
        [&](size_t i) {
            float sum[1];

            sum_at<K, 1>(s, begin + i, p.prescale, sum);
            to[i] = K::store(sum[0] * p.postscale);
        });
}

/* Each element from the segment of the rank that has summed it. */
template <class T> __global__ void __launch_bounds__(THREADS) unpack_segments(pieces list, segments s)
{
    const halay_device_piece &p = list.at[blockIdx.y];
    T *to = static_cast<T *>(p.out);

    each<T>(
        p.count, is_aligned(to),
        [&](size_t i) {
            const T *from = static_cast<const T *>(s.at[(p.at + i) / s.share]) + p.at + i;
            *reinterpret_cast<word<T> *>(to + i) = *reinterpret_cast<const word<T> *>(from);
        },
        [&](size_t i) { to[i] = static_cast<const T *>(s.at[(p.at + i) / s.share])[p.at + i]; });
}

/* Launches the kernel for as many pieces at a time as one launch takes, with blocks for the largest of them. */
template <class L> static cudaError_t launch(const halay_device_work *work, size_t per_block, L with)
{
    for (size_t done = 0; done < work->piece_count; done += PIECES) {
        size_t count = work->piece_count - done < PIECES ? work->piece_count - done : PIECES, most = 1;
        pieces list = {};

        for (size_t i = 0; i < count; i++) {
            list.at[i] = work->pieces[done + i];
            most = list.at[i].count > most ? list.at[i].count : most;
        }
        size_t blocks = (most + per_block - 1) / per_block;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3((unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), (unsigned)count);
        config.blockDim = dim3(THREADS);
        cudaError_t error = with(&config, list);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

static segments segments_of(const halay_device_work *work)
{
    segments s = {};

    for (int r = 0; r < work->ranks; r++)
        s.at[r] = work->segments[r];
    s.ranks = work->ranks, s.rank = work->rank;
    s.first = work->first, s.last = work->last, s.share = work->share;
    return s;
}

static size_t per_block(size_t element)
{
    return THREADS * (WORD / element);
}

template <class T> static cudaError_t pack(const halay_device_work *work, cudaStream_t stream)
{
    T *segment = static_cast<T *>(work->segments[work->rank]);

    return launch(work, per_block(sizeof(T)), [&](cudaLaunchConfig_t *config, const pieces &list) {
        config->stream = stream;
        return cudaLaunchKernelEx(config, pack_segment<T>, list, segment);
    });
}

template <class K> static cudaError_t reduce(const halay_device_work *work, cudaStream_t stream)
{
    segments s = segments_of(work);

    return launch(work, per_block(sizeof(typename K::type)), [&](cudaLaunchConfig_t *config, const pieces &list) {
        config->stream = stream;
        return cudaLaunchKernelEx(config, reduce_segments<K>, list, s);
    });
}

template <class T> static cudaError_t unpack(const halay_device_work *work, cudaStream_t stream)
{
    segments s = segments_of(work);

    return launch(work, per_block(sizeof(T)), [&](cudaLaunchConfig_t *config, const pieces &list) {
        config->stream = stream;
        return cudaLaunchKernelEx(config, unpack_segments<T>, list, s);
    });
}
} // namespace through_segments

cudaError_t halay_cuda_pack(const struct halay_device_work *work, cudaStream_t stream)
{
    return work->dtype == HALAY_F32 ? through_segments::pack<unsigned>(work, stream)
                                    : through_segments::pack<unsigned short>(work, stream);
}

cudaError_t halay_cuda_reduce(const struct halay_device_work *work, cudaStream_t stream)
{
    if (work->dtype == HALAY_F32)
        return through_segments::reduce<through_segments::f32>(work, stream);
    return work->dtype == HALAY_F16 ? through_segments::reduce<through_segments::f16>(work, stream)
                                    : through_segments::reduce<through_segments::bf16>(work, stream);
}

cudaError_t halay_cuda_unpack(const struct halay_device_work *work, cudaStream_t stream)
{
    return work->dtype == HALAY_F32 ? through_segments::unpack<unsigned>(work, stream)
                                    : through_segments::unpack<unsigned short>(work, stream);
}
