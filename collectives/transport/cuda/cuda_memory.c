/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's answers to device_ops.h. Nothing here waits for a device, but for freeing.
 *
 * Streams, events and memory belong to the device that is current when they are made, so that is set for the moment. A
 * copy and a record go by their stream, whatever is current.
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

static int owner(const struct halay_device_host *host, const void *ptr)
{
    struct cudaPointerAttributes is;

    (void)host;
    if (cudaPointerGetAttributes(&is, ptr) != cudaSuccess) {
        cudaGetLastError();
        return -1;
    }
    return is.type == cudaMemoryTypeUnregistered || is.type == cudaMemoryTypeHost ? -1 : is.device;
}

static int current(const struct halay_device_host *host)
{
    int device = 0;

    return status_of(host, cudaGetDevice(&device), "cudaGetDevice") == HALAY_OK ? device : 0;
}

/* The thread's device for a moment; *was is the one to go back to. */
static enum halay_status enter(const struct halay_device_host *host, int device, int *was)
{
    int count = 0;

    enum halay_status status = status_of(host, cudaGetDevice(was), "cudaGetDevice");
    if (status != HALAY_OK || *was == device)
        return status;
    status = status_of(host, cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (status == HALAY_OK && (device < 0 || device >= count)) {
        complain(host, "device %d: there are %d, from 0 on", device, count);
        return HALAY_ERR_ARGUMENT;
    }
    return status == HALAY_OK ? status_of(host, cudaSetDevice(device), "cudaSetDevice") : status;
}

static void leave(const struct halay_device_host *host, int device, int was)
{
    if (was != device)
        status_of(host, cudaSetDevice(was), "cudaSetDevice");
}

static enum halay_status device_alloc(const struct halay_device_host *host, int device, size_t bytes, void **ptr)
{
    size_t free = 0, total = 0;
    int was;

    enum halay_status status = enter(host, device, &was);
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
    leave(host, device, was);
    return status;
}

static void device_free(const struct halay_device_host *host, void *ptr)
{
    status_of(host, cudaFree(ptr), "cudaFree");
}

static enum halay_status pin(const struct halay_device_host *host, int device, void *ptr, size_t bytes)
{
    int was;

    enum halay_status status = enter(host, device, &was);
    if (status != HALAY_OK)
        return status;
    status = status_of(host, cudaHostRegister(ptr, bytes, cudaHostRegisterPortable), "cudaHostRegister");
    leave(host, device, was);
    return status;
}

static void unpin(const struct halay_device_host *host, void *ptr)
{
    status_of(host, cudaHostUnregister(ptr), "cudaHostUnregister");
}

static enum halay_status stream_create(const struct halay_device_host *host, int device, void **stream)
{
    int was;

    enum halay_status status = enter(host, device, &was);
    if (status != HALAY_OK)
        return status;
    status = status_of(host, cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
    leave(host, device, was);
    return status;
}

static void stream_destroy(const struct halay_device_host *host, void *stream)
{
    status_of(host, cudaStreamDestroy(stream), "cudaStreamDestroy");
}

static enum halay_status event_create(const struct halay_device_host *host, int device, void **event)
{
    int was;

    enum halay_status status = enter(host, device, &was);
    if (status != HALAY_OK)
        return status;
    status = status_of(host, cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDisableTiming),
                       "cudaEventCreateWithFlags");
    leave(host, device, was);
    return status;
}

static void event_destroy(const struct halay_device_host *host, void *event)
{
    status_of(host, cudaEventDestroy(event), "cudaEventDestroy");
}

static enum halay_status event_record(const struct halay_device_host *host, void *event, void *stream)
{
    return status_of(host, cudaEventRecord(event, stream), "cudaEventRecord");
}

static enum halay_status event_done(const struct halay_device_host *host, void *event)
{
    cudaError_t error = cudaEventQuery(event);

    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return HALAY_IN_PROGRESS;
    }
    return status_of(host, error, "a copy between the host and a device");
}

static enum halay_status stream_wait(const struct halay_device_host *host, void *stream, void *event)
{
    return status_of(host, cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
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
