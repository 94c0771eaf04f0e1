/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of collectives through segments: pieces of the program's memory into this rank's segment, sums over all
 * ranks' segments, and back.
 *
 * Pieces are cut into chunks, dealt out to the blocks: small pieces beside a large one cost no empty blocks. Pieces
 * begin at multiples of 16 bytes in the segment, so that 16 bytes are taken at a time where the program's memory is
 * aligned, too. A thread has four to eight such words under way, of several places or several ranks: in 256 blocks 4 to
 * 8 MiB, more than memory and links need to be busy (formula, H100: bandwidth times latency, 2.3 and .7 MB). Ranks
 * are reduced in their order, f16 and bf16 in f32 and rounded once: an element has the same bits, whichever rank
 * computes it. Sums and averages of f32, f16 and bf16 have kernels for 2, 4 and 8 ranks; all else has one a type,
 * which looks at the reduction for each element.
 *
 * Only exchange_segments waits for other ranks, each block for theirs of its number, which have the same chunks.
 */
#include "collectives/transport/cuda/cuda_reduce.h"
#include <cmath>
#include <cuda/atomic>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <type_traits>

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
    halay_reduction reduction;
    float divisor;
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

struct f64 {
    using type = unsigned long long;
    static __device__ double load(type x)
    {
        return __longlong_as_double((long long)x);
    }
    static __device__ type store(double x)
    {
        return x == x ? (type)__double_as_longlong(x) : 0x7ff8000000000000ull;
    }
};
template <class W> struct whole {
    using type = std::make_unsigned_t<W>;
    static __device__ W load(type x)
    {
        return (W)x;
    }
    static __device__ type store(W x)
    {
        return (type)x;
    }
};
struct boolean {
    using type = unsigned char;
    static __device__ type load(type x)
    {
        return x != 0;
    }
    static __device__ type store(type x)
    {
        return x != 0;
    }
};

/* A word is a uint4 throughout: of a union nvcc makes stores of 4 bytes. Element k of it: */
template <class T> __device__ T element_of(const uint4 &w, int k)
{
    constexpr int BITS = 8 * sizeof(T), PER = 32 / BITS ? 32 / BITS : 1;

    if constexpr (sizeof(T) == 8)
        return k ? (T)w.w << 32 | w.z : (T)w.y << 32 | w.x;
    else
        return (T)((k / PER == 0 ? w.x : k / PER == 1 ? w.y : k / PER == 2 ? w.z : w.w) >> BITS * (k % PER));
}

/* Part i of the word of the elements whose bits bits(k) returns. */
template <class T, class F> __device__ unsigned part_of(F bits, int i)
{
    if constexpr (sizeof(T) == 8) {
        return (unsigned)(bits(i / 2) >> 32 * (i % 2));
    } else {
        constexpr int PER = 4 / sizeof(T);
        unsigned part = 0;

        for (int k = 0; k < PER; k++)
            part |= (unsigned)bits(PER * i + k) << 8 * sizeof(T) * k;
        return part;
    }
}
template <class T, class F> __device__ uint4 word_of(F bits)
{
    return make_uint4(part_of<T>(bits, 0), part_of<T>(bits, 1), part_of<T>(bits, 2), part_of<T>(bits, 3));
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
#pragma unroll
        for (unsigned u = 0; u < U; u++)
            if (i + u * THREADS < words)
                got[u] = get(begin + (i + u * THREADS) * V);
#pragma unroll
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

/* A sum as it is stored. */
template <class K> __device__ typename K::type stored(float all, const segments &s, const halay_device_piece &p)
{
    return (typename K::type)K::store((s.divisor > 1 ? all / s.divisor : all) * p.postscale);
}

template <class K> struct sum_of_one {
    using T = typename K::type;
    static __device__ T one(const segments &s, size_t at, const halay_device_piece &p)
    {
        float all = p.prescale * K::load(static_cast<const T *>(s.at[0])[at]);

        for (int r = 1; r < s.ranks; r++)
            all += p.prescale * K::load(static_cast<const T *>(s.at[r])[at]);
        return stored<K>(all, s, p);
    }
};

/* The ranks' elements at one place: R words, or their sums for another number of ranks. */
template <class K, int R> struct column {
    using T = typename K::type;
    using of_one = sum_of_one<K>;
    static constexpr int WORDS_AT_ONCE = R < WORDS ? WORDS / R : 1;
    uint4 of[R];

    __device__ void load_at(const segments &s, size_t at, const halay_device_piece &)
    {
        for (int r = 0; r < R; r++)
            of[r] = load(static_cast<const T *>(s.at[r]) + at);
    }
    __device__ T result(int k, const segments &s, const halay_device_piece &p) const
    {
        float all = p.prescale * K::load(element_of<T>(of[0], k));

        for (int r = 1; r < R; r++)
            all += p.prescale * K::load(element_of<T>(of[r], k));
        return stored<K>(all, s, p);
    }
};
template <class K> struct column<K, ANY> {
    using T = typename K::type;
    using of_one = sum_of_one<K>;
    static constexpr int V = WORD / sizeof(T), WORDS_AT_ONCE = 2;
    float of[V];

    __device__ void load_at(const segments &s, size_t at, const halay_device_piece &p)
    {
        for (int k = 0; k < V; k++)
            of[k] = -0.0f; /* the one to which any number can be added without a change: +0 loses the sign of -0 */
#pragma unroll 2
        for (int r = 0; r < s.ranks; r++) {
            const uint4 w = load(static_cast<const T *>(s.at[r]) + at);
            for (int k = 0; k < V; k++)
                of[k] += p.prescale * K::load(element_of<T>(w, k));
        }
    }
    __device__ T result(int k, const segments &s, const halay_device_piece &p) const
    {
        return stored<K>(of[k], s, p);
    }
};

/* Reduces two elements, by the rules of collectives/reduce/reduce.h. */
template <class W> __device__ W combine(W a, W b, halay_reduction reduction)
{
    constexpr bool IS_WHOLE = std::is_integral_v<W>;
    using M = std::conditional_t<!IS_WHOLE, W, std::conditional_t<sizeof(W) == 8, unsigned long long, unsigned>>;

    switch (reduction) {
    case HALAY_MIN:
        if constexpr (!IS_WHOLE)
            return a != a || b != b ? a + b : a < b || (a == b && std::signbit(a)) ? a : b;
        return b < a ? b : a;
    case HALAY_MAX:
        if constexpr (!IS_WHOLE)
            return a != a || b != b ? a + b : a > b || (a == b && !std::signbit(a)) ? a : b;
        return a < b ? b : a;
    case HALAY_PRODUCT:
        return (W)((M)a * (M)b);
    case HALAY_BIT_AND:
        if constexpr (IS_WHOLE)
            return a & b;
        return a;
    case HALAY_BIT_OR:
        if constexpr (IS_WHOLE)
            return a | b;
        return a;
    default:
        return (W)((M)a + (M)b);
    }
}

/* The same of any type and reduction, without factors. */
template <class K> struct any {
    using T = typename K::type;
    using W = decltype(K::load(T()));
    using of_one = any;
    static constexpr int V = WORD / sizeof(T), WORDS_AT_ONCE = sizeof(T) < 4 ? 1 : 2;
    W of[V];

    __device__ void load_at(const segments &s, size_t at, const halay_device_piece &)
    {
        for (int r = 0; r < s.ranks; r++) {
            const uint4 w = load(static_cast<const T *>(s.at[r]) + at);
            for (int k = 0; k < V; k++)
                of[k] = r ? combine(of[k], K::load(element_of<T>(w, k)), s.reduction) : K::load(element_of<T>(w, k));
        }
    }
    static __device__ T store(W all, const segments &s)
    {
        if constexpr (!std::is_integral_v<W>)
            all = s.divisor > 1 ? all / s.divisor : all;
        return K::store(all);
    }
    __device__ T result(int k, const segments &s, const halay_device_piece &) const
    {
        return store(of[k], s);
    }
    static __device__ T one(const segments &s, size_t at, const halay_device_piece &)
    {
        W all = K::load(static_cast<const T *>(s.at[0])[at]);

        for (int r = 1; r < s.ranks; r++)
            all = combine(all, K::load(static_cast<const T *>(s.at[r])[at]), s.reduction);
        return store(all, s);
    }
};

/* Reduces a chunk of a piece; C: a column. */
template <class C, int U>
__device__ void reduce_chunk(const halay_device_piece &p, size_t begin, size_t end, const segments &s)
{
    using T = typename C::T;
    T *out = static_cast<T *>(p.out);

    each<U, T>(
        begin, end, s.is_shared || is_aligned(out),
        [&](size_t i) {
            C got;
            got.load_at(s, p.at + i, p);
            return got;
        },
        [&](size_t i, const C &got) {
            const uint4 result = word_of<T>([&](int k) { return got.result(k, s, p); });

            if (!s.is_shared)
                store(out + i, result);
            for (int r = 0; s.is_shared && r < s.ranks; r++)
                store(static_cast<T *>(s.at[r]) + p.at + i, result);
        },
        [&](size_t i) {
            T result = C::of_one::one(s, p.at + i, p);

            if (!s.is_shared)
                out[i] = result;
            for (int r = 0; s.is_shared && r < s.ranks; r++)
                static_cast<T *>(s.at[r])[p.at + i] = result;
        });
}

/* Reduces the pieces of all ranks' segments: into the program's memory or, where each rank has a share, into all ranks'
 * segments, in place of what was there. */
template <class C> __global__ void __launch_bounds__(THREADS) reduce_segments(const pieces list, const segments s)
{
    each_chunk<typename C::T>(list, [&](const halay_device_piece &p, size_t begin, size_t end) {
        reduce_chunk<C, C::WORDS_AT_ONCE>(p, begin, end, s);
    });
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

template <class C>
__global__ void __launch_bounds__(THREADS, 4) exchange_segments(const pieces list, const segments s, const flags f)
{
    using T = typename C::T;

    each_chunk<T, SMALL_CHUNK>(list, [&](const halay_device_piece &p, size_t begin, size_t end) {
        pack_chunk<T, 1>(p, begin, end, static_cast<T *>(s.at[f.rank]));
    });
    if (!meet_ranks(f, s.ranks)) /* a rank's data are missing: the program keeps its own */
        return;
    each_chunk<T, SMALL_CHUNK>(
        list, [&](const halay_device_piece &p, size_t begin, size_t end) { reduce_chunk<C, 1>(p, begin, end, s); });
}

template <class T> __global__ void __launch_bounds__(THREADS) unpack_segments(const pieces list, const segments s)
{
    each_chunk<T>(list, [&](const halay_device_piece &p, size_t begin, size_t end) {
        const T *from = static_cast<const T *>(s.at[p.rank]) + p.at;
        T *to = static_cast<T *>(p.out);

        each<WORDS, T>(
            begin, end, is_aligned(to), [&](size_t i) { return load(from + i); },
            [&](size_t i, const uint4 &w) { store(to + i, w); }, [&](size_t i) { to[i] = from[i]; });
    });
}

/* Launches the kernel for as many pieces at a time as one launch takes, in chunks of that many elements. Work without
 * pieces: loads it. */
template <class... A>
static cudaError_t launch_list(const halay_device_work *work, size_t elements, unsigned blocks_max, cudaStream_t stream,
                               cudaLaunchAttribute *attribute, void (*kernel)(const pieces, A...), A... arguments)
{
    if (!work->pieces) {
        cudaFuncAttributes of_kernel;
        return cudaFuncGetAttributes(&of_kernel, kernel);
    }
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
        config.stream = stream;
        config.attrs = attribute;
        config.numAttrs = attribute != NULL;
        cudaError_t error = cudaLaunchKernelEx(&config, kernel, list, arguments...);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

template <class T> struct packs {
    static cudaError_t of(const halay_device_work *work, cudaStream_t stream)
    {
        return launch_list(work, CHUNK / sizeof(T), BLOCKS_MAX, stream, NULL, pack_segment<T>,
                           static_cast<T *>(work->segments[work->rank]));
    }
};

static segments segments_of(const halay_device_work *work)
{
    segments s = {};

    for (int r = 0; r < work->ranks; r++)
        s.at[r] = work->segments[r];
    s.ranks = work->ranks, s.is_shared = work->is_shared, s.reduction = work->reduction,
    s.divisor = (float)work->divisor;
    return s;
}

template <class C> struct reduces {
    static cudaError_t of(const halay_device_work *work, cudaStream_t stream)
    {
        return launch_list<segments>(work, CHUNK / sizeof(typename C::T), BLOCKS_MAX, stream, NULL, reduce_segments<C>,
                                     segments_of(work));
    }
};

template <class C> struct exchanges {
    static cudaError_t of(const halay_device_work *work, cudaStream_t stream)
    {
        flags f = {};
        cudaLaunchAttribute together = {};

        for (int r = 0; r < work->ranks && work->flags; r++)
            f.at[r] = static_cast<unsigned *>(work->flags[r]);
        f.turn = work->turn, f.rank = work->rank, f.failed = const_cast<unsigned *>(work->failed);
        together.id = cudaLaunchAttributeCooperative;
        together.val.cooperative = 1;
        return launch_list<segments, flags>(work, SMALL_CHUNK / sizeof(typename C::T), HALAY_DEVICE_BLOCKS, stream,
                                            &together, exchange_segments<C>, segments_of(work), f);
    }
};

template <template <class> class F, class K>
static cudaError_t by_ranks(const halay_device_work *work, cudaStream_t stream)
{
    switch (work->ranks) {
    case 2:
        return F<column<K, 2>>::of(work, stream);
    case 4:
        return F<column<K, 4>>::of(work, stream);
    case 8:
        return F<column<K, 8>>::of(work, stream);
    default:
        return F<column<K, ANY>>::of(work, stream);
    }
}

/* A sum or average of f32, f16 or bf16. */
template <template <class> class F> static cudaError_t by_type(const halay_device_work *work, cudaStream_t stream)
{
    if (work->dtype == HALAY_F32)
        return by_ranks<F, f32>(work, stream);
    return work->dtype == HALAY_F16 ? by_ranks<F, f16>(work, stream) : by_ranks<F, bf16>(work, stream);
}

static cudaError_t reduce_any(const halay_device_work *work, cudaStream_t stream)
{
    static constexpr cudaError_t (*calls[HALAY_DTYPE_COUNT])(const halay_device_work *, cudaStream_t) = {
        reduces<any<f32>>::of,
        reduces<any<f64>>::of,
        reduces<any<f16>>::of,
        reduces<any<bf16>>::of,
        reduces<any<whole<int>>>::of,
        reduces<any<whole<long long>>>::of,
        reduces<any<whole<unsigned char>>>::of,
        reduces<any<whole<signed char>>>::of,
        reduces<any<whole<unsigned short>>>::of,
        reduces<any<whole<short>>>::of,
        reduces<any<boolean>>::of,
    };

    return calls[work->dtype](work, stream);
}

template <class T> struct unpacks {
    static cudaError_t of(const halay_device_work *work, cudaStream_t stream)
    {
        return launch_list<segments>(work, CHUNK / sizeof(T), BLOCKS_MAX, stream, NULL, unpack_segments<T>,
                                     segments_of(work));
    }
};

template <template <class> class F> static cudaError_t by_size(const halay_device_work *work, cudaStream_t stream)
{
    switch (work->element) {
    case 1:
        return F<unsigned char>::of(work, stream);
    case 2:
        return F<unsigned short>::of(work, stream);
    case 4:
        return F<unsigned>::of(work, stream);
    default:
        return F<unsigned long long>::of(work, stream);
    }
}
} // namespace through_segments

cudaError_t halay_cuda_pack(const struct halay_device_work *work, cudaStream_t stream)
{
    return through_segments::by_size<through_segments::packs>(work, stream);
}

cudaError_t halay_cuda_reduce(const struct halay_device_work *work, cudaStream_t stream)
{
    bool is_sum = work->reduction == HALAY_SUM || work->reduction == HALAY_AVERAGE;

    if (is_sum && (work->dtype == HALAY_F32 || work->dtype == HALAY_F16 || work->dtype == HALAY_BF16))
        return through_segments::by_type<through_segments::reduces>(work, stream);
    return through_segments::reduce_any(work, stream);
}

cudaError_t halay_cuda_exchange(const struct halay_device_work *work, cudaStream_t stream)
{
    return through_segments::by_type<through_segments::exchanges>(work, stream);
}

cudaError_t halay_cuda_unpack(const struct halay_device_work *work, cudaStream_t stream)
{
    return through_segments::by_size<through_segments::unpacks>(work, stream);
}

cudaError_t halay_cuda_load(void)
{
    void *none[HALAY_DEVICE_RANKS] = {};
    struct halay_device_work work = {};
    cudaError_t error = cudaSuccess;

    work.segments = none;
    for (work.element = 1; work.element <= 8 && error == cudaSuccess; work.element *= 2) {
        error = halay_cuda_pack(&work, NULL);
        error = error == cudaSuccess ? halay_cuda_unpack(&work, NULL) : error;
    }
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT && error == cudaSuccess; dtype++) {
        work.dtype = (enum halay_dtype)dtype, work.reduction = HALAY_MAX, work.ranks = 1;
        error = halay_cuda_reduce(&work, NULL);
        work.reduction = HALAY_SUM;
        for (work.ranks = 1; work.ranks <= 8 && error == cudaSuccess; work.ranks *= 2) {
            error = halay_cuda_reduce(&work, NULL);
            if (error == cudaSuccess && (dtype == HALAY_F32 || dtype == HALAY_F16 || dtype == HALAY_BF16))
                error = halay_cuda_exchange(&work, NULL);
        }
    }
    return error;
}
