/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels share: elements four at a time, sums of a warp, of a block, of columns.
 *
 * An *operation* is a struct of pointers and sizes with a device function. `each` runs one for every element or pack of
 * elements, `cells` for every row and column of a matrix, `columns` adds up over the rows of each column:
 *
 *     rows      slab 0 | slab 1 | ...        a block a slab: lanes of rows, two rows a turn, then pairs of lanes
 *     partial   one row a slab               the same again, all of them one slab
 */
#ifndef HALAY_TFT_CUDA_DEVICE_CUH
#define HALAY_TFT_CUDA_DEVICE_CUH

#include "tft/core/kernels/cuda/cuda.h"
#include "tft/core/kernels/cuda/launch.cuh"
#include <cfloat>
#include <cuda_bf16.h>
#include <type_traits>

constexpr size_t EXACT_ROWS = 2; /* products of f32 factors of no more rows, or terms, do not round to bf16 */
constexpr int WARP = 32, EACH_THREADS = 256, SUM_THREADS = 256, ROW_WARPS = 4;

/* The elements of arrays: float, or narrow, which is bf16 in memory (tft/core/kernels/narrow.h). Addresses are those of
 * floats for both; what is loaded is floats, and rounded when it is stored. */
struct narrow {
};

/* Calls call(T()) with the element of x's array. */
template <class Call> static void with_element(const real *x, Call call)
{
    if (tft_is_narrow(x))
        call(narrow());
    else
        call(float());
}

/* Neighbours that are loaded and stored as one. */
template <int V> struct alignas(V * sizeof(float)) pack {
    float v[V];
};

static __device__ __forceinline__ unsigned two_bf16(float x, float y)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);

    return static_cast<unsigned>(__bfloat16_as_ushort(both.y)) << 16 | __bfloat16_as_ushort(both.x);
}

/* The word that V narrow neighbours are. */
template <int V> struct narrow_word;
template <> struct narrow_word<1> {
    using type = unsigned short;
    static __device__ __forceinline__ pack<1> open(type w)
    {
        return { { __uint_as_float(static_cast<unsigned>(w) << 16) } };
    }
    static __device__ __forceinline__ type close(const pack<1> &p)
    {
        return __bfloat16_as_ushort(__float2bfloat16(p.v[0]));
    }
};
template <> struct narrow_word<2> {
    using type = unsigned;
    static __device__ __forceinline__ pack<2> open(type w)
    {
        return { { __uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u) } };
    }
    static __device__ __forceinline__ type close(const pack<2> &p)
    {
        return two_bf16(p.v[0], p.v[1]);
    }
};
template <> struct narrow_word<4> {
    using type = uint2;
    static __device__ __forceinline__ pack<4> open(type w)
    {
        return { { __uint_as_float(w.x << 16), __uint_as_float(w.x & 0xffff0000u), __uint_as_float(w.y << 16),
                   __uint_as_float(w.y & 0xffff0000u) } };
    }
    static __device__ __forceinline__ type close(const pack<4> &p)
    {
        return make_uint2(two_bf16(p.v[0], p.v[1]), two_bf16(p.v[2], p.v[3]));
    }
};

/* Returns where a narrow array is. The compiler does not know the memory of an address that is computed from a number:
 * as one of global memory it is accessed by LDG and STG, which do not wait for shared memory. */
static __device__ __forceinline__ void *narrow_place(const float *x)
{
    return __cvta_global_to_generic(reinterpret_cast<size_t>(tft_narrow_place(x)));
}

template <int V, class T = float> static __device__ __forceinline__ pack<V> load(const float *x)
{
    using word = narrow_word<V>;

    if constexpr (std::is_same_v<T, narrow>)
        return word::open(*static_cast<const typename word::type *>(narrow_place(x)));
    else
        return *reinterpret_cast<const pack<V> *>(x);
}

template <int V, class T = float> static __device__ __forceinline__ void store(const pack<V> &p, float *x)
{
    using word = narrow_word<V>;

    if constexpr (std::is_same_v<T, narrow>)
        *static_cast<typename word::type *>(narrow_place(x)) = word::close(p);
    else
        *reinterpret_cast<pack<V> *>(x) = p;
}

/* To global memory. The compiler takes packs apart, and does not always find that what it stores then is one. */
template <int V, class T = float> static __device__ __forceinline__ void store_global(const pack<V> &p, float *x)
{
    if constexpr (V == 4 && std::is_same_v<T, float>)
        __stwb(reinterpret_cast<float4 *>(x), make_float4(p.v[0], p.v[1], p.v[2], p.v[3]));
    else
        store<V, T>(p, x);
}

/* One number. */
template <class T> static __device__ __forceinline__ float get(const float *x)
{
    return load<1, T>(x).v[0];
}

template <class T> static __device__ __forceinline__ void put(float value, float *x)
{
    store<1, T>(pack<1>{ { value } }, x);
}

/* The numbers from one on, for a kernel that takes many of them: the place is found once. */
template <class T> struct view {
    using word = std::conditional_t<std::is_same_v<T, narrow>, unsigned short, float>;
    word *at;

    __device__ __forceinline__ explicit view(const float *x)
        : at(static_cast<word *>(std::is_same_v<T, narrow> ? narrow_place(x) : const_cast<float *>(x)))
    {
    }
    __device__ __forceinline__ float get(size_t i) const
    {
        if constexpr (std::is_same_v<T, narrow>)
            return narrow_word<1>::open(at[i]).v[0];
        else
            return at[i];
    }
    __device__ __forceinline__ void put(float value, size_t i) const
    {
        if constexpr (std::is_same_v<T, narrow>)
            at[i] = narrow_word<1>::close({ { value } });
        else
            at[i] = value;
    }
};

/* Neighbours of an array whose element the kernel does not know. */
template <int V> static __device__ __forceinline__ pack<V> load_any(const float *x)
{
    return tft_is_narrow(x) ? load<V, narrow>(x) : load<V>(x);
}

template <int V> static __device__ __forceinline__ void store_any(const pack<V> &p, float *x)
{
    if (tft_is_narrow(x))
        store<V, narrow>(p, x);
    else
        store_global<V>(p, x);
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

template <int V> static __device__ __forceinline__ pack<V> operator+(pack<V> a, pack<V> b)
{
    for (int k = 0; k < V; k++)
        a.v[k] += b.v[k];
    return a;
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

/* ---- every row and column ---- */

/* The threads of a block: neighbours in columns, at most `most`, then in rows, so that the cells of a warp are
 * neighbours whatever the width. */
static inline dim3 cell_threads(size_t columns, unsigned most)
{
    const unsigned x = columns < most ? static_cast<unsigned>(columns) : most;

    return dim3(x, EACH_THREADS / x);
}

template <class Operation>
static __global__ void __launch_bounds__(EACH_THREADS) cells(Operation operation, size_t R, size_t columns)
{
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;

    for (size_t r = static_cast<size_t>(blockIdx.y) * blockDim.y + threadIdx.y; i < columns && r < R;
         r += static_cast<size_t>(gridDim.y) * blockDim.y)
        operation(r, i);
}

/* Columns may be packs. */
template <class Operation>
static void run_cells(struct queue *queue, const Operation &operation, size_t R, size_t columns)
{
    const dim3 threads = cell_threads(columns, EACH_THREADS);

    cuda_note(queue,
              cuda_launch(cells<Operation>, dim3((columns + threads.x - 1) / threads.x, blocks_for(R, threads.y)),
                          threads, 0, queue->stream, operation, R, columns));
}

/* ---- sums over rows ---- */

/* Destinations of sums; those of a slab are `step` after those of the one before. */
template <int SUMS> struct sums_to {
    float *to[SUMS];
    size_t step;
    int add;
};

/*
 * An operation has `static constexpr int SUMS`, and for V columns of a row, of which i is the first:
 *     read<V>(r, i)                 returns what is there: of two rows before either is used
 *     operator()(r, i, in, sums)    adds to the sums; may write what it has read
 */
template <int V, class Operation>
static __global__ void __launch_bounds__(EACH_THREADS)
    columns(Operation operation, size_t R, size_t W, size_t slab, sums_to<Operation::SUMS> place)
{
    __shared__ pack<V> lanes[Operation::SUMS][EACH_THREADS];
    const size_t i = V * (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x);
    const size_t from = blockIdx.y * slab, end = from + slab < R ? from + slab : R;
    pack<V> sums[Operation::SUMS] = {};

    for (size_t r = from + threadIdx.y; i < W && r < end; r += 2 * blockDim.y) {
        const size_t other = r + blockDim.y;
        const auto in = operation.template read<V>(r, i);
        const auto next = operation.template read<V>(other < end ? other : r, i);

        operation(r, i, in, sums);
        if (other < end)
            operation(other, i, next, sums);
    }
    const unsigned mine = threadIdx.y * blockDim.x + threadIdx.x;
    for (int s = 0; s < Operation::SUMS; s++)
        lanes[s][mine] = sums[s];
    for (unsigned left = blockDim.y; left > 1; left = (left + 1) / 2) {
        const unsigned half = (left + 1) / 2;

        __syncthreads();
        for (int s = 0; s < Operation::SUMS && threadIdx.y + half < left; s++)
            lanes[s][mine] = lanes[s][mine] + lanes[s][mine + half * blockDim.x];
    }
    for (int s = 0; s < Operation::SUMS && threadIdx.y == 0 && i < W; s++) {
        float *const to = place.to[s] + blockIdx.y * place.step + i;

        store<V>(place.add ? load<V>(to) + lanes[s][mine] : lanes[s][mine], to);
    }
}

/* Sums of slabs. */
template <int COUNT> struct sum_slabs {
    static constexpr int SUMS = COUNT;
    const float *partial; /* (slabs, SUMS, W) */
    size_t W;

    template <int V> struct input {
        pack<V> sums[SUMS];
    };
    template <int V> __device__ input<V> read(size_t slab, size_t i) const
    {
        input<V> in;

        for (int s = 0; s < SUMS; s++)
            in.sums[s] = load<V>(partial + (slab * SUMS + s) * W + i);
        return in;
    }
    template <int V> __device__ void operator()(size_t, size_t, const input<V> &in, pack<V> *sums) const
    {
        for (int s = 0; s < SUMS; s++)
            sums[s] = sums[s] + in.sums[s];
    }
};

template <int V, class Operation>
static void launch_columns(struct queue *queue, const Operation &operation, size_t R, size_t W, size_t slabs,
                           const sums_to<Operation::SUMS> &to)
{
    constexpr unsigned FEW = 8; /* columns where rows are few: more lanes */
    const dim3 threads = cell_threads(W / V, slabs > 1 ? EACH_THREADS : FEW);
    const size_t slab = (R + slabs - 1) / slabs;

    cuda_note(queue, cuda_launch(columns<V, Operation>, dim3((W / V + threads.x - 1) / threads.x, slabs), threads, 0,
                                 queue->stream, operation, R, W, slab, to));
}

template <int V, class Operation>
static void run_packs(struct queue *queue, const Operation &operation, size_t R, size_t W,
                      const sums_to<Operation::SUMS> &to)
{
    constexpr int SUMS = Operation::SUMS;
    sums_to<SUMS> partial = { {}, SUMS * W, 0 };
    size_t slabs = CUDA_PARTIAL / (SUMS * W), slab;

    slabs = slabs < CUDA_SLABS ? slabs : static_cast<size_t>(CUDA_SLABS);
    if (R <= CUDA_SLAB_ALONE || slabs < 2) {
        launch_columns<V>(queue, operation, R, W, 1, to);
        return;
    }
    slab = (R + slabs - 1) / slabs;
    slabs = (R + slab - 1) / slab;
    for (int s = 0; s < SUMS; s++)
        partial.to[s] = queue->partial + s * W;
    launch_columns<V>(queue, operation, R, W, slabs, partial);
    launch_columns<V>(queue, sum_slabs<SUMS>{ queue->partial, W }, slabs, W, 1, to);
}

/* four: whether all that the operation reads and writes can be taken so. */
template <class Operation, class... P>
static void run_columns(struct queue *queue, const Operation &operation, bool four, size_t R, size_t W, int add,
                        P... to)
{
    const sums_to<Operation::SUMS> places = { { to... }, 0, add };

    static_assert(sizeof...(to) == Operation::SUMS, "a place for each sum");
    if (four && takes_four(W, to...))
        run_packs<4>(queue, operation, R, W, places);
    else
        run_packs<1>(queue, operation, R, W, places);
}

#endif
