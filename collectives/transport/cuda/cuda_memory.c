/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements device_ops.h for CUDA. Nothing here waits for a device, except freeing. Graphs that the program records
 * are left alone: calls that a capture elsewhere would forbid, or that would spoil it, are made in the mode that
 * affects none.
 */
#include "collectives/transport/cuda/cuda_memory.h"
#include "base/clock.h"
#include "collectives/transport/cuda/cuda_context.h"
#include "collectives/transport/cuda/cuda_events.h"
#include "collectives/transport/cuda/cuda_nccl.h"
#include "collectives/transport/cuda/cuda_reduce.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int memory_owner(const struct halay_device_host *host, const void *ptr)
{
    CUpointer_attribute asked[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
    unsigned type = 0, is_managed = 0;
    int device = -1;
    void *answers[] = { &type, &is_managed, &device };

    if (halay_cuda_state_of(host)->driver.attributes(3, asked, answers, (CUdeviceptr)(uintptr_t)ptr) != CUDA_SUCCESS)
        return -1;
    return type == CU_MEMORYTYPE_DEVICE || is_managed ? device : -1;
}

static int current_device(const struct halay_device_host *host)
{
    int device = 0;

    return halay_cuda_status(host, cudaGetDevice(&device), "cudaGetDevice") == HALAY_OK ? device : 0;
}

static enum halay_status device_alloc(const struct halay_device_host *host, int device, size_t bytes, void **ptr)
{
    size_t free = 0, total = 0;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    cudaError_t error = HALAY_CUDA_CALL(&c, cudaMalloc(ptr, bytes));
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free, &total); /* 0 of 0 if it fails, too */
        halay_host_error(host, "device %d has no %zu bytes: %zu of %zu are free", device, bytes, free, total);
        c.status = HALAY_ERR_NO_MEMORY;
    }
    return halay_cuda_leave(&c, error, "cudaMalloc");
}

/* NAME(host, device, parameters): a call of the runtime in the device's context; `leave` makes the status. */
#define DEFINE(name, leave, call, arguments, ...)                                                \
    static enum halay_status name(const struct halay_device_host *host, int device, __VA_ARGS__) \
    {                                                                                            \
        struct halay_cuda_context c = halay_cuda_enter(host, device);                            \
                                                                                                 \
        return leave(&c, HALAY_CUDA_CALL(&c, call arguments), #call);                            \
    }
#define DEFINE_CALL(name, call, arguments, ...) DEFINE(name, halay_cuda_leave, call, arguments, __VA_ARGS__)
/* The same of a call that starts work. */
#define DEFINE_START(name, call, arguments, ...) DEFINE(name, halay_cuda_leave_started, call, arguments, __VA_ARGS__)
/* The same of what gives something back: a failure is logged, and that is all. */
#define DEFINE_RELEASE(name, call)                                                 \
    static void name(const struct halay_device_host *host, int device, void *what) \
    {                                                                              \
        struct halay_cuda_context c = halay_cuda_enter(host, device);              \
                                                                                   \
        (void)halay_cuda_leave(&c, HALAY_CUDA_CALL(&c, call(what)), #call);        \
    }

DEFINE_RELEASE(device_free, cudaFree)
DEFINE_CALL(pin, cudaHostRegister, (ptr, bytes, cudaHostRegisterPortable), void *ptr, size_t bytes)
DEFINE_RELEASE(unpin, cudaHostUnregister)
DEFINE_RELEASE(stream_destroy, cudaStreamDestroy)
DEFINE_START(copy_start, cudaMemcpyAsync, (to, from, bytes, cudaMemcpyDefault, stream), void *to, const void *from,
             size_t bytes, void *stream)
DEFINE_START(pack_start, halay_cuda_pack, (work, stream), const struct halay_device_work *work, void *stream)
DEFINE_START(reduce_start, halay_cuda_reduce, (work, stream), const struct halay_device_work *work, void *stream)
DEFINE_START(unpack_start, halay_cuda_unpack, (work, stream), const struct halay_device_work *work, void *stream)
DEFINE_START(exchange_start, halay_cuda_exchange, (work, stream), const struct halay_device_work *work, void *stream)
DEFINE_START(zero_start, cudaMemsetAsync, (ptr, 0, bytes, stream), void *ptr, size_t bytes, void *stream)

static enum halay_status kernels_load(const struct halay_device_host *host, int device)
{
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    return halay_cuda_leave(&c, HALAY_CUDA_CALL(&c, halay_cuda_load()), "cudaFuncGetAttributes");
}

/* Creates it with the highest priority: else our small kernels may wait for all blocks of the program's kernels. */
static enum halay_status stream_create(const struct halay_device_host *host, int device, void **stream)
{
    int least = 0, greatest = 0;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    cudaError_t error = HALAY_CUDA_CALL(&c, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (error == cudaSuccess)
        error =
            HALAY_CUDA_CALL(&c, cudaStreamCreateWithPriority((cudaStream_t *)stream, cudaStreamNonBlocking, greatest));
    return halay_cuda_leave(&c, error, "cudaStreamCreateWithPriority");
}

static enum halay_status stream_wait(const struct halay_device_host *host, int device, void *stream, void *event)
{
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    halay_cuda_check_stream(&c, stream);
    return halay_cuda_leave_started(&c, HALAY_CUDA_CALL(&c, cudaStreamWaitEvent(stream, event, 0)),
                                    "cudaStreamWaitEvent");
}

static enum halay_status stream_join(const struct halay_device_host *host, int device, void *stream, void *other)
{
    cudaEvent_t event = NULL;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    halay_cuda_check_stream(&c, other);
    cudaError_t error = HALAY_CUDA_CALL(&c, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (event)
        error = cudaEventRecord(event, other);
    if (event && error == cudaSuccess)
        error = cudaStreamWaitEvent(stream, event, 0);
    if (event)
        cudaEventDestroy(event); /* once it has completed */
    return halay_cuda_leave_started(&c, error, "cudaStreamWaitEvent");
}

/* ---- segments ---- */

static uint64_t nonce;

static void draw_nonce(void)
{
    if (getentropy(&nonce, sizeof nonce))
        nonce = (uint64_t)halay_now_ns();
}

/* Returns this process's number. Processes in containers may have one number of process and share memory all the same.
 */
static uint64_t own_nonce(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, draw_nonce);
    return nonce;
}

static int is_own(const struct halay_device_share *share)
{
    return share->process == getpid() && share->nonce == own_nonce();
}

/* Logs why memory is not shared. */
static enum halay_status is_private(const struct halay_device_host *host, int device, cudaError_t error,
                                    const char *what)
{
    cudaGetLastError();
    host->log_write(host->log, HALAY_LOG_DEBUG, "device %d does not %s: %s", device, what, cudaGetErrorName(error));
    return HALAY_ERR_UNSUPPORTED;
}

static enum halay_status memory_share(const struct halay_device_host *host, int device, void *ptr, size_t bytes,
                                      struct halay_device_share *share)
{
    cudaIpcMemHandle_t handle;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    cudaError_t error = HALAY_CUDA_CALL(&c, cudaIpcGetMemHandle(&handle, ptr));
    enum halay_status status = halay_cuda_leave(&c, cudaSuccess, "cudaIpcGetMemHandle");
    if (status != HALAY_OK)
        return status;
    if (error != cudaSuccess)
        return is_private(host, device, error, "share its memory");
    *share = (struct halay_device_share){ .process = getpid(),
                                          .nonce = own_nonce(),
                                          .device = device,
                                          .is_there = 1,
                                          .bytes = bytes,
                                          .address = (uintptr_t)ptr };
    _Static_assert(sizeof handle == sizeof share->handle, "a handle's size");
    CUuuid uuid = { { 0 } };
    halay_cuda_state_of(host)->driver.uuid(&uuid, device); /* 0 if it fails */
    memcpy(share->uuid, &uuid, sizeof uuid);
    memcpy(share->handle, &handle, sizeof handle);
    return HALAY_OK;
}

/* Reaches memory of this process: of another thread's rank. */
static cudaError_t reach_here(int device, const struct halay_device_share *share, void **ptr)
{
    int can = 1;

    if (share->device != device) {
        cudaError_t error = cudaDeviceCanAccessPeer(&can, device, share->device);
        if (error != cudaSuccess)
            return error;
        error = can ? cudaDeviceEnablePeerAccess(share->device, 0) : cudaErrorPeerAccessUnsupported;
        if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
            return error;
        cudaGetLastError();
    }
    *ptr = (void *)(uintptr_t)share->address;
    return cudaSuccess;
}

static enum halay_status memory_reach(const struct halay_device_host *host, int device,
                                      const struct halay_device_share *share, void **ptr)
{
    cudaIpcMemHandle_t handle;
    char what[100];
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    memcpy(&handle, share->handle, sizeof handle);
    cudaError_t error =
        HALAY_CUDA_CALL(&c, is_own(share) ? reach_here(device, share, ptr)
                                          : cudaIpcOpenMemHandle(ptr, handle, cudaIpcMemLazyEnablePeerAccess));
    enum halay_status status = halay_cuda_leave(&c, cudaSuccess, "cudaIpcOpenMemHandle");
    if (status != HALAY_OK || error == cudaSuccess)
        return status;
    snprintf(what, sizeof what, "reach memory of device %d of process %lld", (int)share->device,
             (long long)share->process);
    return is_private(host, device, error, what);
}

static void memory_unreach(const struct halay_device_host *host, int device, const struct halay_device_share *share,
                           void *ptr)
{
    if (is_own(share))
        return;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    (void)halay_cuda_leave(&c, HALAY_CUDA_CALL(&c, cudaIpcCloseMemHandle(ptr)), "cudaIpcCloseMemHandle");
}

const struct halay_device_ops halay_cuda_ops = {
    .struct_size = sizeof halay_cuda_ops,
    .name = "cuda",
    .open = halay_cuda_open,
    .close = halay_cuda_close,
    .owner = memory_owner,
    .current = current_device,
    .alloc = device_alloc,
    .free = device_free,
    .pin = pin,
    .unpin = unpin,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = halay_cuda_event_create,
    .event_destroy = halay_cuda_event_destroy,
    .event_record = halay_cuda_event_record,
    .event_done = halay_cuda_event_done,
    .event_wait = halay_cuda_event_wait,
    .stream_join = stream_join,
    .stream_wait = stream_wait,
    .copy_start = copy_start,
    .share = memory_share,
    .reach = memory_reach,
    .unreach = memory_unreach,
    .pack = pack_start,
    .reduce = reduce_start,
    .unpack = unpack_start,
    .exchange = exchange_start,
    .zero = zero_start,
    .word_get = halay_cuda_word_get,
    .nccl = &halay_cuda_nccl,
    .load = kernels_load,
};
