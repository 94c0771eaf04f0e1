/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts of CUDA. Each call works in the primary context of its device, pushed for the call by the driver interface:
 * cudaSetDevice would make a context on the device that it goes back to, and the runtime makes one on the thread's
 * current device, which is 0 on a thread of the engine.
 *
 * A process retains a device's primary context at its first use, and never releases it: this module stays loaded, and
 * with the context all would end that the runtime in it has made there, its kernels first.
 */
#include "collectives/transport/cuda/cuda_context.h"
#include "collectives/transport/cuda/cuda_driver.h"
#include <stdatomic.h>
#include <stdlib.h>

static CUcontext _Atomic contexts[HALAY_CUDA_DEVICES]; /* NULL: not used */

enum halay_status halay_cuda_status(const struct halay_device_host *host, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return HALAY_OK;
    cudaGetLastError();
    if (error == cudaErrorCudartUnloading)
        return HALAY_ERR_CLOSED;
    return halay_host_fail(host, error == cudaErrorMemoryAllocation ? HALAY_ERR_NO_MEMORY : HALAY_ERR_SYSTEM,
                           "%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

enum halay_status halay_cuda_driver_status(const struct halay_device_host *host, CUresult result, const char *call)
{
    return halay_cuda_status(host, (cudaError_t)result, call);
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

static enum halay_status find_driver(const struct halay_device_host *host, struct halay_cuda_driver *driver)
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
        { "cuDeviceGetUuid", (void **)&driver->uuid },
        { "cuStreamWriteValue32", (void **)&driver->write_value },
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (halay_cuda_find(functions[i].name, functions[i].at) == cudaSuccess)
            continue;
        cudaGetLastError();
        return halay_host_fail(host, HALAY_ERR_UNSUPPORTED, "the CUDA driver lacks %s: it is too old for this halay",
                               functions[i].name);
    }
    return HALAY_OK;
}

enum halay_status halay_cuda_open(struct halay_device_host *host)
{
    int count;

    enum halay_status status = check_driver(host, &count);
    if (status != HALAY_OK)
        return status;
    struct halay_cuda_state *state = calloc(1, sizeof *state);
    if (!state)
        return HALAY_ERR_NO_MEMORY;
    state->devices = count < HALAY_CUDA_DEVICES ? count : HALAY_CUDA_DEVICES;
    status = find_driver(host, &state->driver);
    if (status == HALAY_OK)
        host->state = state;
    else
        free(state);
    return status;
}

void halay_cuda_close(struct halay_device_host *host)
{
    free(host->state);
    host->state = NULL;
}

/* Finds the device's context; there is such a device. */
static enum halay_status context_of(const struct halay_device_host *host, int device, CUcontext *out)
{
    const struct halay_cuda_state *state = halay_cuda_state_of(host);
    CUcontext none = NULL, context = atomic_load_explicit(&contexts[device], memory_order_acquire);

    if (!context) {
        enum halay_status status =
            halay_cuda_driver_status(host, state->driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
        if (status != HALAY_OK)
            return status;
        if (!atomic_compare_exchange_strong(&contexts[device], &none, context))
            state->driver.release(device); /* another thread was first: it is the same context */
    }
    *out = context;
    return HALAY_OK;
}

struct halay_cuda_context halay_cuda_enter(const struct halay_device_host *host, int device)
{
    const struct halay_cuda_state *state = halay_cuda_state_of(host);
    struct halay_cuda_context c = { .host = host, .mode = cudaStreamCaptureModeRelaxed };
    CUcontext primary;

    if (device < 0 || device >= state->devices) {
        halay_host_error(host, "device %d: there are %d, from 0 on", device, state->devices);
        c.status = HALAY_ERR_ARGUMENT;
        return c;
    }
    c.status = context_of(host, device, &primary);
    if (c.status == HALAY_OK)
        c.status = halay_cuda_driver_status(host, state->driver.push(primary), "cuCtxPushCurrent");
    c.is_entered = c.status == HALAY_OK;
    if (c.is_entered)
        cudaThreadExchangeStreamCaptureMode(&c.mode);
    return c;
}

enum halay_status halay_cuda_leave(struct halay_cuda_context *c, cudaError_t error, const char *call)
{
    CUcontext primary;

    if (c->status == HALAY_OK)
        c->status = halay_cuda_status(c->host, error, call);
    if (c->is_entered) {
        cudaThreadExchangeStreamCaptureMode(&c->mode);
        halay_cuda_driver_status(c->host, halay_cuda_state_of(c->host)->driver.pop(&primary), "cuCtxPopCurrent");
    }
    return c->status;
}

enum halay_status halay_cuda_leave_started(struct halay_cuda_context *c, cudaError_t error, const char *call)
{
    enum halay_status status = halay_cuda_leave(c, error, call);

    return status == HALAY_ERR_CLOSED ? HALAY_OK : status;
}

void halay_cuda_check_stream(struct halay_cuda_context *c, void *stream)
{
    enum cudaStreamCaptureStatus is = cudaStreamCaptureStatusNone;

    if (c->status == HALAY_OK)
        c->status = halay_cuda_status(c->host, cudaStreamIsCapturing(stream, &is), "cudaStreamIsCapturing");
    if (c->status != HALAY_OK || is == cudaStreamCaptureStatusNone)
        return;
    halay_host_error(
        c->host,
        "the stream records a graph: submit before or after that, or after the stream or an event of the graph");
    c->status = HALAY_ERR_UNSUPPORTED;
}
