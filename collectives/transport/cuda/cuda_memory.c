/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements device_ops.h for CUDA. Nothing here waits for a device, except freeing.
 *
 * Each call works in the primary context of its device, pushed for the call by the driver interface: cudaSetDevice
 * would make a context on the device that it goes back to, and the runtime makes one on the thread's current device,
 * which is 0 on a thread of the engine. Queries that usually return "not ready" use the driver interface, too, as the
 * runtime would keep that as the thread's last error. Graphs that the program records are left alone: calls that a
 * capture elsewhere would forbid, or that would spoil it, are made in the mode that affects none.
 */
#include "collectives/transport/cuda/cuda_memory.h"
#include "collectives/transport/cuda/cuda_reduce.h"
#include "collectives/transport/module.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVER_VERSION = 12000 }; /* of the functions below, as cuda.h has them */

/* Functions of the driver interface, which nothing links. */
struct driver {
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*release)(CUdevice device);
    CUresult (*push)(CUcontext context);
    CUresult (*pop)(CUcontext *context);
    CUresult (*event_query)(CUevent event);
    CUresult (*attributes)(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer);
};

struct cuda_state {
    struct driver driver;
    int devices;
    CUcontext _Atomic contexts[]; /* [devices]: the primary one, kept from its first use on; NULL: not used */
};

static const struct cuda_state *state_of(const struct halay_device_host *host)
{
    return host->state;
}

/* Returns the status after that call. The error is taken off the thread, whose program asks for its own. */
static enum halay_status status_of(const struct halay_device_host *host, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return HALAY_OK;
    cudaGetLastError();
    return halay_host_fail(host, error == cudaErrorMemoryAllocation ? HALAY_ERR_NO_MEMORY : HALAY_ERR_SYSTEM,
                           "%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

/* Does the same for the driver interface, whose numbers are the runtime's. */
static enum halay_status driver_status_of(const struct halay_device_host *host, CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return HALAY_OK;
    return halay_host_fail(
        host, (cudaError_t)result == cudaErrorMemoryAllocation ? HALAY_ERR_NO_MEMORY : HALAY_ERR_SYSTEM, "%s: %s (%s)",
        call, cudaGetErrorString((cudaError_t)result), cudaGetErrorName((cudaError_t)result));
}

static enum halay_status check_driver(const struct halay_device_host *host, int *count)
{
    int driver = 0, runtime = 0;

    *count = 0;
    cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaSuccess && *count > 0)
        return HALAY_OK;
    cudaDriverGetVersion(&driver); /* 0: no driver */
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    error = error == cudaSuccess ? cudaErrorNoDevice : error;
    return halay_host_fail(host, HALAY_ERR_UNSUPPORTED,
                           "no CUDA device can be used: %s (%s); the driver is for CUDA %d.%d, this halay for %d.%d",
                           cudaGetErrorName(error), cudaGetErrorString(error), driver / 1000, driver % 1000 / 10,
                           runtime / 1000, runtime % 1000 / 10);
}

static cudaError_t find_function(const char *name, void **function)
{
    enum cudaDriverEntryPointQueryResult found;

#if CUDART_VERSION >= 12050
    return cudaGetDriverEntryPointByVersion(name, function, DRIVER_VERSION, cudaEnableDefault, &found);
#else
    return cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found);
#endif
}

static enum halay_status find_driver(const struct halay_device_host *host, struct driver *driver)
{
    const struct {
        const char *name;
        void **at;
    } functions[] = {
        { "cuDevicePrimaryCtxRetain", (void **)&driver->retain },
        { "cuDevicePrimaryCtxRelease", (void **)&driver->release },
        { "cuCtxPushCurrent", (void **)&driver->push },
        { "cuCtxPopCurrent", (void **)&driver->pop },
        { "cuEventQuery", (void **)&driver->event_query },
        { "cuPointerGetAttributes", (void **)&driver->attributes },
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (find_function(functions[i].name, functions[i].at) == cudaSuccess && *functions[i].at)
            continue;
        cudaGetLastError();
        return halay_host_fail(host, HALAY_ERR_UNSUPPORTED, "the CUDA driver lacks %s: it is too old for this halay",
                               functions[i].name);
    }
    return HALAY_OK;
}

static enum halay_status cuda_open(struct halay_device_host *host)
{
    int count;

    enum halay_status status = check_driver(host, &count);
    if (status != HALAY_OK)
        return status;
    struct cuda_state *state = calloc(1, sizeof *state + (size_t)count * sizeof *state->contexts);
    if (!state)
        return HALAY_ERR_NO_MEMORY;
    state->devices = count;
    status = find_driver(host, &state->driver);
    if (status == HALAY_OK)
        host->state = state;
    else
        free(state);
    return status;
}

static void cuda_close(struct halay_device_host *host)
{
    struct cuda_state *state = host->state;

    for (int i = 0; i < state->devices; i++)
        if (atomic_load_explicit(&state->contexts[i], memory_order_relaxed))
            driver_status_of(host, state->driver.release(i), "cuDevicePrimaryCtxRelease");
    free(state);
    host->state = NULL;
}

/* Finds the device's context; there is such a device. */
static enum halay_status context_of(const struct halay_device_host *host, int device, CUcontext *out)
{
    struct cuda_state *state = host->state;
    CUcontext none = NULL, context = atomic_load_explicit(&state->contexts[device], memory_order_acquire);

    if (!context) {
        enum halay_status status =
            driver_status_of(host, state->driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
        if (status != HALAY_OK)
            return status;
        if (!atomic_compare_exchange_strong(&state->contexts[device], &none, context))
            state->driver.release(device); /* another thread was first: it is the same context */
    }
    *out = context;
    return HALAY_OK;
}

/* A device's context while it is the thread's. A program may record a graph meanwhile, on this thread or another: that
 * forbids calls which our own streams need, and which it would not contain. */
struct context {
    const struct halay_device_host *host;
    enum halay_status status; /* not HALAY_OK: nothing is to be called */
    int is_entered;
    enum cudaStreamCaptureMode mode; /* to go back to */
};

static struct context context_enter(const struct halay_device_host *host, int device)
{
    const struct cuda_state *state = state_of(host);
    struct context c = { .host = host, .mode = cudaStreamCaptureModeRelaxed };
    CUcontext primary;

    if (device < 0 || device >= state->devices) {
        halay_host_error(host, "device %d: there are %d, from 0 on", device, state->devices);
        c.status = HALAY_ERR_ARGUMENT;
        return c;
    }
    c.status = context_of(host, device, &primary);
    if (c.status == HALAY_OK)
        c.status = driver_status_of(host, state->driver.push(primary), "cuCtxPushCurrent");
    c.is_entered = c.status == HALAY_OK;
    if (c.is_entered)
        cudaThreadExchangeStreamCaptureMode(&c.mode);
    return c;
}

/* A call of the runtime in a context, if that was entered. */
#define CALL(context, call) ((context)->status == HALAY_OK ? (call) : cudaSuccess)

/* Returns the status of entering it, or of a call there. */
static enum halay_status context_leave(struct context *c, cudaError_t error, const char *call)
{
    CUcontext primary;

    if (c->status == HALAY_OK)
        c->status = status_of(c->host, error, call);
    if (c->is_entered) {
        cudaThreadExchangeStreamCaptureMode(&c->mode);
        driver_status_of(c->host, state_of(c->host)->driver.pop(&primary), "cuCtxPopCurrent");
    }
    return c->status;
}

/* Work must not be submitted while the program records a graph of the stream: it would become part of the graph. */
static void check_stream(struct context *c, void *stream)
{
    enum cudaStreamCaptureStatus is = cudaStreamCaptureStatusNone;

    if (c->status == HALAY_OK)
        c->status = status_of(c->host, cudaStreamIsCapturing(stream, &is), "cudaStreamIsCapturing");
    if (c->status != HALAY_OK || is == cudaStreamCaptureStatusNone)
        return;
    halay_host_error(
        c->host,
        "the stream records a graph: submit before or after that, or after the stream or an event of the graph");
    c->status = HALAY_ERR_UNSUPPORTED;
}

static int memory_owner(const struct halay_device_host *host, const void *ptr)
{
    CUpointer_attribute asked[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
    unsigned type = 0, is_managed = 0;
    int device = -1;
    void *answers[] = { &type, &is_managed, &device };

    if (state_of(host)->driver.attributes(3, asked, answers, (CUdeviceptr)(uintptr_t)ptr) != CUDA_SUCCESS)
        return -1;
    return type == CU_MEMORYTYPE_DEVICE || is_managed ? device : -1;
}

static int current_device(const struct halay_device_host *host)
{
    int device = 0;

    return status_of(host, cudaGetDevice(&device), "cudaGetDevice") == HALAY_OK ? device : 0;
}

static enum halay_status device_alloc(const struct halay_device_host *host, int device, size_t bytes, void **ptr)
{
    size_t free = 0, total = 0;
    struct context c = context_enter(host, device);

    cudaError_t error = CALL(&c, cudaMalloc(ptr, bytes));
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free, &total); /* 0 of 0 if it fails, too */
        halay_host_error(host, "device %d has no %zu bytes: %zu of %zu are free", device, bytes, free, total);
        c.status = HALAY_ERR_NO_MEMORY;
    }
    return context_leave(&c, error, "cudaMalloc");
}

/* NAME(host, device, parameters): a call of the runtime in the device's context. */
#define DEFINE_CALL(name, call, arguments, ...)                                                  \
    static enum halay_status name(const struct halay_device_host *host, int device, __VA_ARGS__) \
    {                                                                                            \
        struct context c = context_enter(host, device);                                          \
                                                                                                 \
        return context_leave(&c, CALL(&c, call arguments), #call);                               \
    }
/* The same of what gives something back: a failure is logged, and that is all. */
#define DEFINE_RELEASE(name, call)                                                 \
    static void name(const struct halay_device_host *host, int device, void *what) \
    {                                                                              \
        struct context c = context_enter(host, device);                            \
                                                                                   \
        (void)context_leave(&c, CALL(&c, call(what)), #call);                      \
    }

DEFINE_RELEASE(device_free, cudaFree)
DEFINE_CALL(pin, cudaHostRegister, (ptr, bytes, cudaHostRegisterPortable), void *ptr, size_t bytes)
DEFINE_RELEASE(unpin, cudaHostUnregister)
DEFINE_CALL(stream_create, cudaStreamCreateWithFlags, ((cudaStream_t *)stream, cudaStreamNonBlocking), void **stream)
DEFINE_RELEASE(stream_destroy, cudaStreamDestroy)
DEFINE_CALL(event_create, cudaEventCreateWithFlags, ((cudaEvent_t *)event, cudaEventDisableTiming), void **event)
DEFINE_RELEASE(event_destroy, cudaEventDestroy)
DEFINE_CALL(copy_start, cudaMemcpyAsync, (to, from, bytes, cudaMemcpyDefault, stream), void *to, const void *from,
            size_t bytes, void *stream)
DEFINE_CALL(pack_start, halay_cuda_pack, (work, stream), const struct halay_device_work *work, void *stream)
DEFINE_CALL(reduce_start, halay_cuda_reduce, (work, stream), const struct halay_device_work *work, void *stream)
DEFINE_CALL(unpack_start, halay_cuda_unpack, (work, stream), const struct halay_device_work *work, void *stream)

static enum halay_status event_record(const struct halay_device_host *host, int device, void *event, void *stream)
{
    struct context c = context_enter(host, device);

    check_stream(&c, stream);
    return context_leave(&c, CALL(&c, cudaEventRecord(event, stream)), "cudaEventRecord");
}

static enum halay_status event_done(const struct halay_device_host *host, int device, void *event)
{
    struct context c = context_enter(host, device);
    CUresult result = c.status == HALAY_OK ? state_of(host)->driver.event_query(event) : CUDA_SUCCESS;
    enum halay_status status = context_leave(&c, cudaSuccess, "cuEventQuery");

    if (result == CUDA_ERROR_NOT_READY)
        return HALAY_IN_PROGRESS;
    return status == HALAY_OK ? driver_status_of(host, result, "work of a device") : status;
}

static enum halay_status stream_wait(const struct halay_device_host *host, int device, void *stream, void *event)
{
    struct context c = context_enter(host, device);

    check_stream(&c, stream);
    return context_leave(&c, CALL(&c, cudaStreamWaitEvent(stream, event, 0)), "cudaStreamWaitEvent");
}

/* ---- segments ---- */

static enum halay_status memory_share(const struct halay_device_host *host, int device, void *ptr, size_t bytes,
                                      struct halay_device_share *share)
{
    cudaIpcMemHandle_t handle;
    struct context c = context_enter(host, device);

    enum halay_status status = context_leave(&c, CALL(&c, cudaIpcGetMemHandle(&handle, ptr)), "cudaIpcGetMemHandle");
    if (status != HALAY_OK)
        return status;
    *share = (struct halay_device_share){
        .process = getpid(), .device = device, .is_there = 1, .bytes = bytes, .address = (uintptr_t)ptr
    };
    _Static_assert(sizeof handle == sizeof share->handle, "a handle's size");
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
    struct context c = context_enter(host, device);

    memcpy(&handle, share->handle, sizeof handle);
    cudaError_t error =
        CALL(&c, share->process == getpid() ? reach_here(device, share, ptr)
                                            : cudaIpcOpenMemHandle(ptr, handle, cudaIpcMemLazyEnablePeerAccess));
    enum halay_status status = context_leave(&c, cudaSuccess, "cudaIpcOpenMemHandle");
    if (status != HALAY_OK || error == cudaSuccess)
        return status;
    cudaGetLastError();
    host->log_write(host->log, HALAY_LOG_DEBUG, "device %d does not reach memory of device %d of process %lld: %s",
                    device, (int)share->device, (long long)share->process, cudaGetErrorName(error));
    return HALAY_ERR_UNSUPPORTED;
}

static void memory_unreach(const struct halay_device_host *host, int device, const struct halay_device_share *share,
                           void *ptr)
{
    if (share->process == getpid())
        return;
    struct context c = context_enter(host, device);

    (void)context_leave(&c, CALL(&c, cudaIpcCloseMemHandle(ptr)), "cudaIpcCloseMemHandle");
}

const struct halay_device_ops halay_cuda_ops = {
    .struct_size = sizeof halay_cuda_ops,
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .owner = memory_owner,
    .current = current_device,
    .alloc = device_alloc,
    .free = device_free,
    .pin = pin,
    .unpin = unpin,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_done = event_done,
    .stream_wait = stream_wait,
    .copy_start = copy_start,
    .share = memory_share,
    .reach = memory_reach,
    .unreach = memory_unreach,
    .pack = pack_start,
    .reduce = reduce_start,
    .unpack = unpack_start,
};
