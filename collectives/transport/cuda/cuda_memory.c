/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's answers to device_ops.h. Nothing here waits for a device, but for freeing.
 *
 * Streams, events and memory belong to the device that is current when they are made, so that is set for the moment. A
 * copy and a record go by their stream, whatever is current. Graphs that the program records are left alone: calls that
 * a capture elsewhere would forbid, or that would spoil it, are made in the mode that affects none.
 */
#include "collectives/transport/cuda/cuda_memory.h"
#include <cuda_runtime_api.h>

#define complain(host, ...) (host)->log_write((host)->log, HALAY_LOG_ERROR, __VA_ARGS__)

/* After that call. The error is taken off the thread, whose program asks for its own. */
static enum halay_status status_of(const struct halay_device_host *host, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return HALAY_OK;
    cudaGetLastError();
    complain(host, "%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
    return error == cudaErrorMemoryAllocation ? HALAY_ERR_NO_MEMORY : HALAY_ERR_SYSTEM;
}

static enum halay_status check(const struct halay_device_host *host)
{
    int count = 0, driver = 0, runtime = 0;

    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        return HALAY_OK;
    cudaDriverGetVersion(&driver); /* 0: there is none */
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    error = error == cudaSuccess ? cudaErrorNoDevice : error;
    complain(host, "no CUDA device can be used: %s (%s); the driver is for CUDA %d.%d, this halay for %d.%d",
             cudaGetErrorName(error), cudaGetErrorString(error), driver / 1000, driver % 1000 / 10, runtime / 1000,
             runtime % 1000 / 10);
    return HALAY_ERR_UNSUPPORTED;
}

/* What to go back to. */
struct before {
    enum cudaStreamCaptureMode mode;
    int device, is_other;
};

/* A program may record a graph meanwhile, on this thread or another: that forbids calls which our own streams need, and
 * which it would not contain. */
static struct before relax(void)
{
    struct before before = { .mode = cudaStreamCaptureModeRelaxed };

    cudaThreadExchangeStreamCaptureMode(&before.mode);
    return before;
}

static void leave(struct before before)
{
    if (before.is_other)
        cudaSetDevice(before.device);
    cudaThreadExchangeStreamCaptureMode(&before.mode);
}

static enum halay_status set_device(const struct halay_device_host *host, int device, struct before *before)
{
    int count = 0;

    enum halay_status status = status_of(host, cudaGetDevice(&before->device), "cudaGetDevice");
    if (status != HALAY_OK || before->device == device)
        return status;
    status = status_of(host, cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (status == HALAY_OK && (device < 0 || device >= count)) {
        complain(host, "device %d: there are %d, from 0 on", device, count);
        return HALAY_ERR_ARGUMENT;
    }
    before->is_other = status == HALAY_OK;
    return status == HALAY_OK ? status_of(host, cudaSetDevice(device), "cudaSetDevice") : status;
}

/* On that device, until leave; after an error there is nothing to leave. */
static enum halay_status enter(const struct halay_device_host *host, int device, struct before *before)
{
    *before = relax();
    enum halay_status status = set_device(host, device, before);
    if (status != HALAY_OK)
        leave(*before);
    return status;
}

/* What a graph that the program records would take in is none of ours to give. */
static enum halay_status check_stream(const struct halay_device_host *host, void *stream)
{
    enum cudaStreamCaptureStatus is = cudaStreamCaptureStatusNone;

    enum halay_status status = status_of(host, cudaStreamIsCapturing(stream, &is), "cudaStreamIsCapturing");
    if (status != HALAY_OK || is == cudaStreamCaptureStatusNone)
        return status;
    complain(host,
             "the stream records a graph: submit before or after that, behind the stream or an event of the graph");
    return HALAY_ERR_UNSUPPORTED;
}

static int owner(const struct halay_device_host *host, const void *ptr)
{
    struct cudaPointerAttributes is = { .type = cudaMemoryTypeUnregistered };
    struct before before = relax();

    (void)host;
    if (cudaPointerGetAttributes(&is, ptr) != cudaSuccess)
        cudaGetLastError();
    leave(before);
    return is.type == cudaMemoryTypeUnregistered || is.type == cudaMemoryTypeHost ? -1 : is.device;
}

static int current(const struct halay_device_host *host)
{
    int device = 0;

    return status_of(host, cudaGetDevice(&device), "cudaGetDevice") == HALAY_OK ? device : 0;
}

static enum halay_status device_alloc(const struct halay_device_host *host, int device, size_t bytes, void **ptr)
{
    size_t free = 0, total = 0;
    struct before before;

    enum halay_status status = enter(host, device, &before);
    if (status != HALAY_OK)
        return status;
    cudaError_t error = cudaMalloc(ptr, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free, &total); /* 0 of 0 if it fails, too */
        complain(host, "device %d has no %zu bytes: %zu of %zu are free", device, bytes, free, total);
        status = HALAY_ERR_NO_MEMORY;
    } else {
        status = status_of(host, error, "cudaMalloc");
    }
    leave(before);
    return status;
}

static void device_free(const struct halay_device_host *host, void *ptr)
{
    struct before before = relax();

    status_of(host, cudaFree(ptr), "cudaFree");
    leave(before);
}

static enum halay_status pin(const struct halay_device_host *host, int device, void *ptr, size_t bytes)
{
    struct before before;

    enum halay_status status = enter(host, device, &before);
    if (status != HALAY_OK)
        return status;
    status = status_of(host, cudaHostRegister(ptr, bytes, cudaHostRegisterPortable), "cudaHostRegister");
    leave(before);
    return status;
}

static void unpin(const struct halay_device_host *host, void *ptr)
{
    struct before before = relax();

    status_of(host, cudaHostUnregister(ptr), "cudaHostUnregister");
    leave(before);
}

static enum halay_status stream_create(const struct halay_device_host *host, int device, void **stream)
{
    struct before before;

    enum halay_status status = enter(host, device, &before);
    if (status != HALAY_OK)
        return status;
    status = status_of(host, cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
    leave(before);
    return status;
}

static void stream_destroy(const struct halay_device_host *host, void *stream)
{
    status_of(host, cudaStreamDestroy(stream), "cudaStreamDestroy");
}

static enum halay_status event_create(const struct halay_device_host *host, int device, void **event)
{
    struct before before;

    enum halay_status status = enter(host, device, &before);
    if (status != HALAY_OK)
        return status;
    status = status_of(host, cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDisableTiming),
                       "cudaEventCreateWithFlags");
    leave(before);
    return status;
}

static void event_destroy(const struct halay_device_host *host, void *event)
{
    status_of(host, cudaEventDestroy(event), "cudaEventDestroy");
}

static enum halay_status event_record(const struct halay_device_host *host, void *event, void *stream)
{
    enum halay_status status = check_stream(host, stream);

    return status == HALAY_OK ? status_of(host, cudaEventRecord(event, stream), "cudaEventRecord") : status;
}

static enum halay_status event_done(const struct halay_device_host *host, void *event)
{
    struct before before = relax();
    cudaError_t error = cudaEventQuery(event);

    leave(before);
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return HALAY_IN_PROGRESS;
    }
    return status_of(host, error, "a copy between the host and a device");
}

static enum halay_status stream_wait(const struct halay_device_host *host, void *stream, void *event)
{
    enum halay_status status = check_stream(host, stream);

    return status == HALAY_OK ? status_of(host, cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent") : status;
}

static enum halay_status copy_start(const struct halay_device_host *host, void *to, const void *from, size_t bytes,
                                    void *stream)
{
    return status_of(host, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

const struct halay_device_ops halay_cuda_ops = {
    .struct_size = sizeof halay_cuda_ops,
    .name = "cuda",
    .check = check,
    .owner = owner,
    .current = current,
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
};
