/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the all-reduce through segments: pieces of the program's memory into this rank's segment, sums over all
 * ranks' segments, and back.
 *
 * Pieces are cut into chunks, dealt out to the blocks: small pieces beside a large one cost no empty blocks. Pieces
 * begin at multiples of 16 bytes in the segment, so that 16 bytes are taken at a time where the program's memory is
 * aligned, too. A thread has four to eight such words under way, of several places or several ranks: in 256 blocks 4 to
 * 8 MiB, more than memory and links need to be busy (formula, H100: bandwidth times latency, 2.3 and .7 MB). Sums are
 * made in f32 in the order of the ranks and rounded once: an element has the same bits, whichever rank computes it.
 *
 * Only exchange_segments waits for other ranks, each block for theirs of its number, which have the same chunks.
 */
#include "collectives/transport/cuda/cuda_reduce.h"
#include <cuda/atomic>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace through_segments
{
constexpr int THREADS = 256, BLOCKS_MAX = 256, PIECES = HALAY_DEVICE_PIECES, RANKS = HALAY_DEVICE_RANKS, ANY = 0;
constexpr int WORDS = 8;                                    /* that a thread loads before it stores */
constexpr size_t WORD = 16, CHUNK = THREADS * WORDS * WORD; /* bytes */
constexpr size_t SMALL_CHUNK = THREADS * WORD;

struct pieces {
    halay_device_piece at[PIECES];
    unsigned first[PIECES + 1]; /* the number of a piece's first chunk; of the one after the last */
    int count;
};
struct segments {
    void *at[RANKS];
    int ranks;
    bool is_shared; /* each rank sums a share, and gives it to all */
};

/* Types of their own, as two of them are 16 bits: from and to the bits of an element. */
struct f32 {
    using type = unsigned;
    static __device__ float load(unsigned x)
    {
        return __uint_as_float(x);
    }
    static __device__ unsigned store(float x)
    {
        return x == x ? __float_as_uint(x) : 0x7fc00000u;
    }
};
struct f16 {
    using type = unsigned short;
    static __device__ float load(unsigned x)
    {
        return __half2float(__ushort_as_half((unsigned short)x));
    }
    static __device__ unsigned store(float x)
    {
        return x == x ? __half_as_ushort(__float2half_rn(x)) : 0x7e00u;
    }
};
struct bf16 {
    using type = unsigned short;
    static __device__ float load(unsigned x)
    {
        return __uint_as_float(x << 16);
    }
    static __device__ unsigned store(float x)
    {
        unsigned u = __float_as_uint(x);

        return x == x ? (u + 0x7fffu + (u >> 16 & 1)) >> 16 : 0x7fc0u;
    }
};

/* A word is a uint4 throughout: of a union nvcc makes stores of 4 bytes. Element k of it, in its low bits: */
template <class T> __device__ unsigned element_of(const uint4 &w, int k)
{
    constexpr int PER = 4 / sizeof(T);
    unsigned part = k / PER == 0 ? w.x : k / PER == 1 ? w.y : k / PER == 2 ? w.z : w.w;

    return PER == 1 ? part : part >> 16 * (k % PER) & 0xffffu;
}

/* The word of the elements whose bits part(k) returns. */
template <class T, class F> __device__ uint4 word_of(F bits)
{
    if constexpr (sizeof(T) == 4)
        return make_uint4(bits(0), bits(1), bits(2), bits(3));
    else
        return make_uint4(bits(0) | bits(1) << 16, bits(2) | bits(3) << 16, bits(4) | bits(5) << 16,
                          bits(6) | bits(7) << 16);
}

template <class T> __device__ bool is_aligned(const T *p)
{
    return reinterpret_cast<size_t>(p) % WORD == 0;
}

template <class T> __device__ uint4 load(const T *p)
{
    return *reinterpret_cast<const uint4 *>(p);
}

template <class T> __device__ void store(T *p, const uint4 &w)
{
    __stwb(reinterpret_cast<uint4 *>(p), w);
}

/* Elements begin to end of a piece, of a chunk: whole words where both sides allow, U at a time, all of them loaded
 * before the first is stored; the rest one by one. get(i), put(i, got), one(i). */
template <int U, class T, class G, class P, class O>
__device__ void each(size_t begin, size_t end, bool by_words, G get, P put, O one)
{
    constexpr unsigned V = WORD / sizeof(T);
    unsigned count = (unsigned)(end - begin), words = by_words ? count / V : 0;

    for (unsigned i = threadIdx.x; i < words; i += U * THREADS) {
        decltype(get(begin)) got[U];
        for (unsigned u = 0; u < U; u++)
            if (i + u * THREADS < words)
                got[u] = get(begin + (i + u * THREADS) * V);
        for (unsigned u = 0; u < U; u++)
            if (i + u * THREADS < words)
                put(begin + (i + u * THREADS) * V, got[u]);
    }
    for (unsigned i = words * V + threadIdx.x; i < count; i += THREADS)
        one(begin + i);
}

/* Calls work(piece, begin, end) for each chunk that is this block's. */
template <class T, size_t BYTES = CHUNK, class W> __device__ void each_chunk(const pieces &list, W work)
{
    constexpr size_t ELEMENTS = BYTES / sizeof(T);
    int k = 0;

    for (unsigned chunk = blockIdx.x; chunk < list.first[list.count]; chunk += gridDim.x) {
        while (chunk >= list.first[k + 1])
            k++;
        const halay_device_piece &p = list.at[k];
        size_t begin = (chunk - list.first[k]) * ELEMENTS;
        work(p, begin, begin + ELEMENTS < p.count ? begin + ELEMENTS : p.count);
    }
}

/* Copies a chunk of a piece to the segment. */
template <class T, int U> __device__ void pack_chunk(const halay_device_piece &p, size_t begin, size_t end, T *segment)
{
    const T *from = static_cast<const T *>(p.in);
    T *to = segment + p.at;

    each<U, T>(
        begin, end, is_aligned(from), [&](size_t i) { return load(from + i); },
        [&](size_t i, const uint4 &w) { store(to + i, w); }, [&](size_t i) { to[i] = from[i]; });
}

template <class T> __global__ void __launch_bounds__(THREADS) pack_segment(const pieces list, T *segment)
{
    each_chunk<T>(list, [&](const halay_device_piece &p, size_t begin, size_t end) {
        pack_chunk<T, WORDS>(p, begin, end, segment);
    });
}

/* The ranks' elements at one place: R words, or their sums for another number of ranks. */
template <class K, int R> struct column {
    using T = typename K::type;
    uint4 of[R];

    __device__ void load_at(const segments &s, size_t at, const halay_device_piece &)
    {
        for (int r = 0; r < R; r++)
            of[r] = load(static_cast<const T *>(s.at[r]) + at);
    }
    __device__ float sum(int k, const halay_device_piece &p) const
    {
        float all = p.prescale * K::load(element_of<T>(of[0], k));

        for (int r = 1; r < R; r++)
            all += p.prescale * K::load(element_of<T>(of[r], k));
        return all;
    }
};
template <class K> struct column<K, ANY> {
    using T = typename K::type;
    static constexpr int V = WORD / sizeof(T);
    float of[V];

    __device__ void load_at(const segments &s, size_t at, const halay_device_piece &p)
    {
        for (int r = 0; r < s.ranks; r++) {
            const uint4 w = load(static_cast<const T *>(s.at[r]) + at);
            for (int k = 0; k < V; k++)
                of[k] = (r ? of[k] : 0) + p.prescale * K::load(element_of<T>(w, k));
        }
    }
    __device__ float sum(int k, const halay_device_piece &) const
    {
        return of[k];
    }
};

template <class K> __device__ typename K::type sum_of(const segments &s, size_t at, const halay_device_piece &p)
{
    using T = typename K::type;
    float all = p.prescale * K::load(static_cast<const T *>(s.at[0])[at]);

    for (int r = 1; r < s.ranks; r++)
        all += p.prescale * K::load(static_cast<const T *>(s.at[r])[at]);
    return (T)K::store(all * p.postscale);
}

/* Sums a chunk of a piece. */
template <class K, int R, int U>
__device__ void reduce_chunk(const halay_device_piece &p, size_t begin, size_t end, const segments &s)
{
    using T = typename K::type;
    T *out = static_cast<T *>(p.out);

    each<U, T>(
        begin, end, s.is_shared || is_aligned(out),
        [&](size_t i) {
            column<K, R> got;
            got.load_at(s, p.at + i, p);
            return got;
        },
        [&](size_t i, const column<K, R> &got) {
            const uint4 result = word_of<T>([&](int k) { return K::store(got.sum(k, p) * p.postscale); });

            if (!s.is_shared)
                store(out + i, result);
            for (int r = 0; s.is_shared && r < s.ranks; r++)
                store(static_cast<T *>(s.at[r]) + p.at + i, result);
        },
        [&](size_t i) {
            T result = sum_of<K>(s, p.at + i, p);

            if (!s.is_shared)
                out[i] = result;
            for (int r = 0; s.is_shared && r < s.ranks; r++)
                static_cast<T *>(s.at[r])[p.at + i] = result;
        });
}

/* Sums the pieces of all ranks' segments: into the program's memory or, where each rank has a share, into all ranks'
 * segments, in place of what was summed. */
template <class K, int R>
__global__ void __launch_bounds__(THREADS) reduce_segments(const pieces list, const segments s)
{
    constexpr int U = R ? (R < WORDS ? WORDS / R : 1) : 2;

    each_chunk<typename K::type>(
        list, [&](const halay_device_piece &p, size_t begin, size_t end) { reduce_chunk<K, R, U>(p, begin, end, s); });
}

struct flags {
    unsigned *at[RANKS]; /* of each rank: [block][rank] */
    unsigned turn;
    unsigned *failed;
    int rank;
};
using flag = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;

/* Waits until the other ranks' blocks of this number have reached this place, too. What they wrote before is seen after
 * it: the release covers what the block's threads wrote before the barrier. Returns false if the job has failed. */
static __device__ bool meet_ranks(const flags &f, int ranks)
{
    int is_lost = 0;

    __syncthreads();
    if ((int)threadIdx.x < ranks) {
        unsigned *own = f.at[f.rank] + blockIdx.x * RANKS + threadIdx.x;

        flag(f.at[threadIdx.x][blockIdx.x * RANKS + f.rank]).store(f.turn, cuda::memory_order_release);
        for (unsigned looks = 1; (int)(flag(*own).load(cuda::memory_order_acquire) - f.turn) < 0; looks++)
            if (looks % 64 == 0 && flag(*f.failed).load(cuda::memory_order_relaxed)) {
                is_lost = 1;
                break;
            }
    }
    return !__syncthreads_or(is_lost);
}

template <class K, int R>
__global__ void __launch_bounds__(THREADS, 4) exchange_segments(const pieces list, const segments s, const flags f)
{
    using T = typename K::type;

    each_chunk<T, SMALL_CHUNK>(list, [&](const halay_device_piece &p, size_t begin, size_t end) {
        pack_chunk<T, 1>(p, begin, end, static_cast<T *>(s.at[f.rank]));
    });
    if (!meet_ranks(f, s.ranks)) /* a rank's data are missing: the program keeps its own */
        return;
    each_chunk<T, SMALL_CHUNK>(
        list, [&](const halay_device_piece &p, size_t begin, size_t end) { reduce_chunk<K, R, 1>(p, begin, end, s); });
}

template <class T> __global__ void __launch_bounds__(THREADS) unpack_segment(const pieces list, const T *segment)
{
    each_chunk<T>(list, [&](const halay_device_piece &p, size_t begin, size_t end) {
        const T *from = segment + p.at;
        T *to = static_cast<T *>(p.out);

        each<WORDS, T>(
            begin, end, is_aligned(to), [&](size_t i) { return load(from + i); },
            [&](size_t i, const uint4 &w) { store(to + i, w); }, [&](size_t i) { to[i] = from[i]; });
    });
}

/* Launches the kernel for as many pieces at a time as one launch takes, in chunks of that many elements. */
template <class L>
static cudaError_t launch_list(const halay_device_work *work, size_t elements, unsigned blocks_max, L with)
{
    for (size_t done = 0; done < work->piece_count; done += PIECES) {
        pieces list = {};

        for (; list.count < PIECES && done + (size_t)list.count < work->piece_count; list.count++) {
            list.at[list.count] = work->pieces[done + (size_t)list.count];
            list.first[list.count + 1] =
                list.first[list.count] + (unsigned)((list.at[list.count].count + elements - 1) / elements);
        }
        unsigned chunks = list.first[list.count];
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(chunks < blocks_max ? chunks : blocks_max);
        config.blockDim = dim3(THREADS);
        cudaError_t error = with(&config, list);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

template <class T> static cudaError_t pack(const halay_device_work *work, cudaStream_t stream)
{
    T *segment = static_cast<T *>(work->segments[work->rank]);

    return launch_list(work, CHUNK / sizeof(T), BLOCKS_MAX, [&](cudaLaunchConfig_t *config, const pieces &list) {
        config->stream = stream;
        return cudaLaunchKernelEx(config, pack_segment<T>, list, segment);
    });
}

static segments segments_of(const halay_device_work *work)
{
    segments s = {};

    for (int r = 0; r < work->ranks; r++)
        s.at[r] = work->segments[r];
    s.ranks = work->ranks, s.is_shared = work->is_shared;
    return s;
}

template <class K> struct reduces {
    template <int R> static cudaError_t of(const halay_device_work *work, cudaStream_t stream)
    {
        const segments s = segments_of(work);

        return launch_list(work, CHUNK / sizeof(typename K::type), BLOCKS_MAX,
                           [&](cudaLaunchConfig_t *config, const pieces &list) {
                               config->stream = stream;
                               return cudaLaunchKernelEx(config, reduce_segments<K, R>, list, s);
                           });
    }
};

template <class K> struct exchanges {
    template <int R> static cudaError_t of(const halay_device_work *work, cudaStream_t stream)
    {
        const segments s = segments_of(work);
        flags f = {};
        cudaLaunchAttribute together = {};

        for (int r = 0; r < work->ranks; r++)
            f.at[r] = static_cast<unsigned *>(work->flags[r]);
        f.turn = work->turn, f.rank = work->rank, f.failed = const_cast<unsigned *>(work->failed);
        together.id = cudaLaunchAttributeCooperative;
        together.val.cooperative = 1;
        return launch_list(work, SMALL_CHUNK / sizeof(typename K::type), HALAY_DEVICE_BLOCKS,
                           [&](cudaLaunchConfig_t *config, const pieces &list) {
                               config->stream = stream;
                               config->attrs = &together;
                               config->numAttrs = 1;
                               return cudaLaunchKernelEx(config, exchange_segments<K, R>, list, s, f);
                           });
    }
};

template <class F> static cudaError_t by_ranks(const halay_device_work *work, cudaStream_t stream)
{
    switch (work->ranks) {
    case 2:
        return F::template of<2>(work, stream);
    case 4:
        return F::template of<4>(work, stream);
    case 8:
        return F::template of<8>(work, stream);
    default:
        return F::template of<ANY>(work, stream);
    }
}

template <template <class> class F> static cudaError_t by_type(const halay_device_work *work, cudaStream_t stream)
{
    if (work->dtype == HALAY_F32)
        return by_ranks<F<f32>>(work, stream);
    return work->dtype == HALAY_F16 ? by_ranks<F<f16>>(work, stream) : by_ranks<F<bf16>>(work, stream);
}

template <class T> static cudaError_t unpack(const halay_device_work *work, cudaStream_t stream)
{
    const T *segment = static_cast<const T *>(work->segments[work->rank]);

    return launch_list(work, CHUNK / sizeof(T), BLOCKS_MAX, [&](cudaLaunchConfig_t *config, const pieces &list) {
        config->stream = stream;
        return cudaLaunchKernelEx(config, unpack_segment<T>, list, segment);
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
    return through_segments::by_type<through_segments::reduces>(work, stream);
}

cudaError_t halay_cuda_exchange(const struct halay_device_work *work, cudaStream_t stream)
{
    return through_segments::by_type<through_segments::exchanges>(work, stream);
}

cudaError_t halay_cuda_unpack(const struct halay_device_work *work, cudaStream_t stream)
{
    return work->dtype == HALAY_F32 ? through_segments::unpack<unsigned>(work, stream)
                                    : through_segments::unpack<unsigned short>(work, stream);
}
