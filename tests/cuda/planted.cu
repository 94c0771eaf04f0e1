/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with one error each: test_planted.c runs them. Each is real CUDA, and most would often pass on a GPU.
 */
#include "emu.h"
#include "planted.h"
#include "tft/core/kernels/cuda/mma.cuh"
#include <cooperative_groups.h>
#include <cublasLt.h>
#include <cuda.h>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern __shared__ unsigned char dynamic_shared[];

#define GOOD(call)                                                       \
    do {                                                                 \
        cudaError_t error = (call);                                      \
        if (error) {                                                     \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorName(error)); \
            exit(3);                                                     \
        }                                                                \
    } while (0)

template <class T = float> static T *device(size_t n = 64)
{
    void *p;

    GOOD(cudaMalloc(&p, n * sizeof(T)));
    return (T *)p;
}

template <class T = float> static T *zeros(size_t n = 64)
{
    T *p = device<T>(n);

    GOOD(cudaMemset(p, 0, n * sizeof(T)));
    GOOD(cudaDeviceSynchronize());
    return p;
}

static float *pinned(size_t n = 64)
{
    void *p;

    GOOD(cudaHostAlloc(&p, n * sizeof(float), 0));
    for (size_t i = 0; i < n; i++)
        ((float *)p)[i] = (float)i;
    return (float *)p;
}

static cudaStream_t stream()
{
    cudaStream_t s;

    GOOD(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t event()
{
    cudaEvent_t e;

    GOOD(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

template <class... P, class... A>
static void launch(dim3 blocks, dim3 threads, cudaStream_t s, void (*kernel)(P...), A... a)
{
    cudaLaunchConfig_t c = {};

    c.gridDim = blocks, c.blockDim = threads, c.stream = s, c.dynamicSmemBytes = 64 * sizeof(float);
    GOOD(cudaLaunchKernelEx(&c, kernel, a...));
}

/* One launch, to its end. */
template <class... P, class... A> static void run(dim3 blocks, dim3 threads, void (*kernel)(P...), A... a)
{
    launch(blocks, threads, stream(), kernel, a...);
    GOOD(cudaDeviceSynchronize());
}

/* ---- inside a launch ---- */

static __global__ void reverse(float *x)
{
    __shared__ float all[64];

    all[threadIdx.x] = 0;
    __syncthreads();
    all[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}
static void no_syncthreads()
{
    run(1, 64, reverse, zeros());
}
static void no_syncwarp()
{
    run(1, 32, reverse, zeros());
}
static __global__ void by_shuffle(float *x)
{
    __shared__ float all[32];

    all[threadIdx.x] = 0;
    __syncwarp();
    all[threadIdx.x] = x[threadIdx.x];
    float other = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
    x[threadIdx.x] = all[threadIdx.x ^ 1] + other;
}
static void shuffle_is_no_barrier()
{
    run(1, 32, by_shuffle, zeros());
}

static __global__ void one_sided(float *x)
{
    if (threadIdx.x < 32)
        __syncthreads();
    x[threadIdx.x] = 1;
    if (threadIdx.x < 32)
        __syncthreads();
}
static void barrier_in_a_branch()
{
    run(1, 64, one_sided, zeros());
}
static __global__ void some_end(float *x, unsigned n)
{
    if (threadIdx.x >= n)
        return;
    x[threadIdx.x] = 1;
    __syncthreads();
}
static void barrier_after_some_ended()
{
    run(1, 64, some_end, zeros(), 50u);
}

static __global__ void whole_grid(float *x)
{
    cooperative_groups::this_grid().sync();
    x[blockIdx.x] = 1;
}
static void grid_barrier_without_cooperation()
{
    run(2, 32, whole_grid, zeros());
}

static __global__ void neighbours(float *x)
{
    if (threadIdx.x == 0)
        x[blockIdx.x] = x[(blockIdx.x + 1) % gridDim.x] + 1;
}
static void blocks_without_order()
{
    run(4, 32, neighbours, zeros());
}

static __global__ void all_add(float *x)
{
    x[0] += 1;
}
static void no_atomic()
{
    run(2, 32, all_add, zeros());
}

/* One block tells the other by a flag, with a fence between or without. */
template <bool fences> static __global__ void flag(float *x, unsigned *flag)
{
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        x[1] = 1;
        if (fences)
            __threadfence();
        atomicExch(flag, 1u);
    } else if (atomicAdd(flag, 0u) == 1) {
        if (fences)
            __threadfence();
        x[2] = x[1];
    } else {
        x[1] = 2;
    }
}
static void no_fence()
{
    run(2, 32, flag<false>, zeros(), zeros<unsigned>());
}

template <cuda::thread_scope scope, cuda::memory_order order> static __global__ void send(float *x, unsigned *flag)
{
    x[0] = 1;
    cuda::atomic_ref<unsigned, scope>(*flag).store(1, order);
}
template <cuda::thread_scope scope> static __global__ void receive(float *x, unsigned *flag)
{
    while (!cuda::atomic_ref<unsigned, scope>(*flag).load(cuda::memory_order_acquire)) {
    }
    x[1] = x[0];
}
template <cuda::thread_scope scope, cuda::memory_order order> static void between_devices()
{
    float *x = zeros();
    unsigned *flag = zeros<unsigned>();

    launch(1, 1, stream(), send<scope, order>, x, flag);
    GOOD(cudaSetDevice(1));
    GOOD(cudaDeviceEnablePeerAccess(0, 0));
    launch(1, 1, stream(), receive<scope>, x, flag);
    GOOD(cudaDeviceSynchronize());
}
static void scope_too_narrow()
{
    between_devices<cuda::thread_scope_device, cuda::memory_order_release>();
}
static void relaxed_store()
{
    between_devices<cuda::thread_scope_system, cuda::memory_order_relaxed>();
}

static __global__ void half_mask(float *x)
{
    x[threadIdx.x] = __shfl_sync(0xffffu, 1.f, 0);
}
static void lane_outside_the_mask()
{
    run(1, 32, half_mask, zeros());
}
static __global__ void from_outside(float *x)
{
    if (threadIdx.x < 16)
        x[threadIdx.x] = __shfl_sync(0xffffu, 1.f, 20);
}
static void shuffle_from_outside_the_mask()
{
    run(1, 32, from_outside, zeros());
}
static __global__ void multiply_without_lane(float *x)
{
    float d[4] = {};

    if (threadIdx.x != 31)
        mma_bf16(d, uint4{ 1, 2, 3, 4 }, uint2{ 5, 6 });
    x[threadIdx.x] = d[0];
}
static void product_without_a_lane()
{
    run(1, 32, multiply_without_lane, zeros());
}
static __global__ void half_warp(float *x)
{
    if (threadIdx.x < 16)
        __syncwarp();
    x[threadIdx.x] = 1;
}
static void warp_that_is_not_whole()
{
    run(1, 32, half_warp, zeros());
}

static __global__ void write_at(float *x, size_t i)
{
    x[i] = 1;
}
static void one_too_many()
{
    run(1, 1, write_at, zeros(64), (size_t)64);
}
static void far_outside()
{
    run(1, 1, write_at, zeros(64), (size_t)1 << 34);
}
static void null_pointer()
{
    run(1, 1, write_at, (float *)nullptr, (size_t)3);
}
static void memory_of_the_host()
{
    run(1, 1, write_at, (float *)malloc(64), (size_t)3);
}
static __global__ void shared_at(float *x, unsigned i)
{
    __shared__ float some[32];

    some[i] = x[0];
    x[0] = some[i];
}
static void index_of_an_array()
{
    run(1, 1, shared_at, zeros(), 32u);
}
static __global__ void dynamic_at(unsigned i)
{
    reinterpret_cast<float *>(dynamic_shared)[i] = 1;
}
static void dynamic_too_small()
{
    run(1, 1, dynamic_at, 64u);
}
static __global__ void four_at(float *x, size_t i)
{
    *(float4 *)(x + i) = make_float4(1, 2, 3, 4);
}
static void not_aligned()
{
    run(1, 1, four_at, zeros(), (size_t)2);
}
static __global__ void copy_of(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}
static void never_written()
{
    run(1, 32, copy_of, device(), zeros());
}
static __global__ void shared_never_written(float *x)
{
    __shared__ float some[32];

    if (threadIdx.x < 16)
        some[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = some[threadIdx.x];
}
static void shared_not_all_written()
{
    run(1, 32, shared_never_written, zeros());
}
static void after_it_was_freed()
{
    float *x = zeros();

    GOOD(cudaFree(x));
    run(1, 1, write_at, x, (size_t)0);
}
static void other_device_without_access()
{
    float *x = zeros();

    GOOD(cudaSetDevice(1));
    run(1, 1, write_at, x, (size_t)0);
}
static __global__ void wait_for_all_blocks(unsigned *count)
{
    atomicAdd(count, 1u);
    while (atomicAdd(count, 0u) < gridDim.x) {
    }
}
static void blocks_that_are_not_all_there()
{
    run(64, 1, wait_for_all_blocks, zeros<unsigned>());
}

/* ---- the shape of a launch ---- */

/* Adds up rows (R, 64), a thread a column. */
static __global__ void add_rows(const float *x, size_t R, float *sum)
{
    float all = 0;

    for (size_t r = 0; r < R; r++)
        all += x[r * 64 + threadIdx.x];
    sum[threadIdx.x] = all;
}
static void serial_loop()
{
    const emu_limits limits = { 16, 0, 0 };

    emu_limit(&limits);
    run(1, 64, add_rows, zeros(16 * 64), (size_t)16, zeros());
}
static void few_threads()
{
    const emu_limits limits = { 0, 65, 0 };

    emu_limit(&limits);
    run(1, 64, add_rows, zeros(64 * 64), (size_t)64, zeros());
}
/* A lane a row. */
static __global__ void walk_rows(const float *x, float *sum)
{
    float all = 0;

    for (size_t i = 0; i < 16; i++)
        all += x[threadIdx.x * 16 + i];
    sum[threadIdx.x] = all;
}
static void lanes_apart()
{
    const emu_limits limits = { 0, 0, 31 };

    emu_limit(&limits);
    run(1, 32, walk_rows, zeros(32 * 16), zeros());
}

/* ---- between operations, and at the host ---- */

static volatile float seen;

static void host_reads_device_memory()
{
    seen = *zeros();
}
static void host_writes_freed_memory()
{
    float *x = zeros();

    GOOD(cudaFree(x));
    x[5] = 1;
}
static void copy_of_pageable_memory()
{
    static float some[64];

    GOOD(cudaMemcpyAsync(device(), some, sizeof some, cudaMemcpyHostToDevice, stream()));
}
static void copy_of_too_much()
{
    GOOD(cudaMemcpyAsync(device(64), pinned(100), 65 * sizeof(float), cudaMemcpyHostToDevice, stream()));
}
static void source_changed_too_early()
{
    float *h = pinned(), *x = zeros();

    GOOD(cudaMemcpyAsync(x, h, 64 * sizeof *h, cudaMemcpyHostToDevice, stream()));
    h[3] = 5;
    GOOD(cudaDeviceSynchronize());
}
static void result_read_too_early()
{
    float *h = pinned();

    h[3] = 0; /* as it will be: only because it is overwritten does this show */
    GOOD(cudaMemcpyAsync(h, zeros(), 64 * sizeof *h, cudaMemcpyDeviceToHost, stream()));
    if (h[3] != 0)
        fprintf(stderr, "emu: early-read: a wrong number\n");
}
static void no_event()
{
    float *x = zeros();

    GOOD(cudaMemcpyAsync(x, pinned(), 64 * sizeof *x, cudaMemcpyHostToDevice, stream()));
    run(1, 32, copy_of, x, x + 32);
}
static void event_too_early()
{
    float *x = zeros();
    cudaStream_t one = stream(), other = stream();
    cudaEvent_t e = event();

    GOOD(cudaEventRecord(e, one));
    GOOD(cudaMemcpyAsync(x, pinned(), 64 * sizeof *x, cudaMemcpyHostToDevice, one));
    GOOD(cudaStreamWaitEvent(other, e, 0));
    launch(1, 32, other, copy_of, x, x + 32);
    GOOD(cudaDeviceSynchronize());
}
static void default_stream_orders_nothing()
{
    float *x = device();

    GOOD(cudaMemset(x, 0, 64 * sizeof *x));
    run(1, 1, write_at, x, (size_t)0);
}
static void event_never_recorded()
{
    GOOD(cudaStreamWaitEvent(stream(), event(), 0));
}
static void freed_by_another_stream()
{
    float *x;
    cudaStream_t one = stream(), other = stream();

    GOOD(cudaMallocAsync((void **)&x, 64 * sizeof *x, one));
    launch(1, 1, one, write_at, x, (size_t)0);
    GOOD(cudaFreeAsync(x, other));
    GOOD(cudaDeviceSynchronize());
}
static void freed_twice()
{
    float *x = zeros();

    GOOD(cudaFree(x));
    GOOD(cudaFree(x));
}
static void unregistered_too_early()
{
    float *h = (float *)aligned_alloc(4096, 4096);

    GOOD(cudaHostRegister(h, 4096, cudaHostRegisterMapped));
    GOOD(cudaMemcpyAsync(h, zeros(), 64 * sizeof *h, cudaMemcpyDeviceToHost, stream()));
    GOOD(cudaHostUnregister(h));
}
static void stream_after_its_end()
{
    cudaStream_t s = stream();

    GOOD(cudaStreamDestroy(s));
    GOOD(cudaMemsetAsync(zeros(), 0, 4, s));
}
static void graph_lacks_an_edge()
{
    float *x = zeros();
    cudaStream_t one = stream(), other = stream();
    cudaEvent_t fork = event(), join = event();
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    GOOD(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaEventRecord(fork, one));
    GOOD(cudaStreamWaitEvent(other, fork, 0));
    GOOD(cudaMemsetAsync(x, 0, 64 * sizeof *x, one));
    launch(1, 1, other, write_at, x, (size_t)0);
    GOOD(cudaEventRecord(join, other));
    GOOD(cudaStreamWaitEvent(one, join, 0));
    GOOD(cudaStreamEndCapture(one, &graph));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphLaunch(exec, one));
    GOOD(cudaStreamSynchronize(one));
}
static void graph_destroyed_too_early()
{
    float *x = zeros();
    cudaStream_t s = stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    GOOD(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaMemsetAsync(x, 0, 64 * sizeof *x, s));
    GOOD(cudaStreamEndCapture(s, &graph));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphLaunch(exec, s));
    GOOD(cudaGraphExecDestroy(exec));
}
/* The wait is enqueued first: where both streams share a hardware queue, the write stays behind it. */
static void wait_before_the_write()
{
    unsigned *word = zeros<unsigned>();
    cudaStream_t one = stream(), other = stream();

    if (cuStreamWaitValue32(one, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_GEQ) ||
        cuStreamWriteValue32(other, (CUdeviceptr)word, 1, CU_STREAM_WRITE_VALUE_DEFAULT))
        exit(3);
    GOOD(cudaStreamSynchronize(one));
}
static void call_in_a_host_function()
{
    cudaStream_t s = stream();

    GOOD(cudaLaunchHostFunc(
        s, [](void *) { cudaGetLastError(), cudaSetDevice(0); }, nullptr));
    GOOD(cudaStreamSynchronize(s));
}
static void call_after_a_fork()
{
    int status;

    zeros();
    if (!fork())
        _exit(cudaSetDevice(0) != cudaSuccess);
    waitpid(-1, &status, 0);
}
static void opened_by_its_maker()
{
    cudaIpcMemHandle_t h;
    void *p;

    GOOD(cudaIpcGetMemHandle(&h, device()));
    cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess);
}
static void freed_while_another_process_has_it()
{
    struct board {
        volatile int stage; /* atomics of the host are not for a .cu */
        cudaIpcMemHandle_t h;
    } *b = (struct board *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();

    if (!child) {
        void *p;
        while (!b->stage)
            usleep(100);
        GOOD(cudaIpcOpenMemHandle(&p, b->h, cudaIpcMemLazyEnablePeerAccess));
        b->stage = 2;
        while (b->stage < 3 && getppid() != 1)
            usleep(100);
        _exit(0);
    }
    void *p = zeros();
    GOOD(cudaIpcGetMemHandle(&b->h, p));
    b->stage = 1;
    while (b->stage < 2)
        usleep(100);
    signal(SIGCHLD, SIG_IGN);
    alarm(5);
    GOOD(cudaFree(p));
    b->stage = 3;
}

static void context_after_its_release()
{
    CUcontext context;
    void *p;

    for (int i = 0; i < 2; i++) {
        if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context))
            exit(3);
        GOOD(cudaMalloc(&p, 4));
        GOOD(cudaFree(p));
        if (cuCtxPopCurrent(&context) || cuDevicePrimaryCtxRelease(0))
            exit(3);
    }
}

/* A product of 8x8 matrices; by_hand: without asking for an algorithm. */
static void multiply(float *x, size_t at, void *workspace, bool by_hand, cudaStream_t s)
{
    uint64_t bytes = workspace ? 1024 : 0;
    cublasLtMatrixLayout_t l;
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t chosen;
    cublasLtHandle_t handle;
    float one = 1, zero = 0;
    int count;

    if (cublasLtCreate(&handle) || cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, 8, 8, 8) || cublasLtMatmulPreferenceCreate(&preference) ||
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                             sizeof bytes) ||
        cublasLtMatmulAlgoGetHeuristic(handle, desc, l, l, l, l, preference, 1, &chosen, &count))
        exit(3);
    cublasLtMatmul(handle, desc, &one, x + at, l, x + 128, l, &zero, x + 64, l, x + 64, l,
                   by_hand ? nullptr : &chosen.algo, workspace, bytes, s);
    GOOD(cudaDeviceSynchronize());
}
static void product_without_an_algorithm()
{
    multiply(zeros(192), 0, nullptr, true, stream());
}
static void product_of_unaligned_memory()
{
    multiply(zeros(256), 4, nullptr, false, stream());
}
static void workspace_of_two_streams()
{
    float *workspace = zeros(256), *x = zeros(192);

    launch(1, 1, stream(), write_at, workspace, (size_t)0);
    multiply(x, 0, workspace, false, stream());
}

#define ROW(kind, function)          \
    {                                \
        kind, #function, function, 0 \
    }
#define LATE(kind, function)         \
    {                                \
        kind, #function, function, 1 \
    }
extern "C" const struct planted planted_errors[] = {
    ROW("race", no_syncthreads),
    ROW("race", no_syncwarp),
    ROW("race", shuffle_is_no_barrier),
    ROW("race", blocks_without_order),
    ROW("race", no_atomic),
    ROW("race", no_fence),
    ROW("race", scope_too_narrow),
    ROW("race", relaxed_store),
    ROW("race", no_event),
    ROW("race", event_too_early),
    ROW("race", default_stream_orders_nothing),
    ROW("race", graph_lacks_an_edge),
    ROW("race", freed_by_another_stream),
    ROW("race", workspace_of_two_streams),
    ROW("barrier", barrier_in_a_branch),
    ROW("barrier", barrier_after_some_ended),
    ROW("barrier", grid_barrier_without_cooperation),
    ROW("warp", lane_outside_the_mask),
    ROW("warp", shuffle_from_outside_the_mask),
    ROW("warp", warp_that_is_not_whole),
    ROW("warp", product_without_a_lane),
    ROW("bounds", one_too_many),
    ROW("bounds", far_outside),
    ROW("host-memory", null_pointer),
    ROW("bounds", index_of_an_array),
    ROW("bounds", dynamic_too_small),
    ROW("bounds", copy_of_too_much),
    ROW("host-memory", memory_of_the_host),
    ROW("alignment", not_aligned),
    ROW("uninitialised", never_written),
    ROW("uninitialised", shared_not_all_written),
    ROW("freed", after_it_was_freed),
    ROW("freed", freed_twice),
    ROW("span", serial_loop),
    ROW("width", few_threads),
    ROW("sectors", lanes_apart),
    LATE("freed", unregistered_too_early),
    ROW("freed", stream_after_its_end),
    LATE("freed", graph_destroyed_too_early),
    ROW("peer", other_device_without_access),
    ROW("host-touch", host_reads_device_memory),
    ROW("host-touch", host_writes_freed_memory),
    ROW("pageable", copy_of_pageable_memory),
    LATE("early-write", source_changed_too_early),
    LATE("early-read", result_read_too_early),
    ROW("event", event_never_recorded),
    ROW("hang", blocks_that_are_not_all_there),
    ROW("hang", wait_before_the_write),
    ROW("host-function", call_in_a_host_function),
    ROW("fork", call_after_a_fork),
    ROW("cublas", product_without_an_algorithm),
    ROW("cublas", product_of_unaligned_memory),
    ROW("context", context_after_its_release),
    ROW("ipc", opened_by_its_maker),
    ROW("ipc", freed_while_another_process_has_it),
    { nullptr, nullptr, nullptr, 0 },
};
