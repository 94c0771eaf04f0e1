/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts of CUDA, and the status of its calls.
 */
#ifndef HALAY_CUDA_CONTEXT_H
#define HALAY_CUDA_CONTEXT_H

#include "collectives/transport/device_ops.h"
#include "collectives/transport/module.h"
#include <cuda.h>
#include <cuda_runtime_api.h>

enum { HALAY_CUDA_DEVICES = 64 };

/* Functions of the driver interface, which nothing links. */
struct halay_cuda_driver {
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*release)(CUdevice device);
    CUresult (*push)(CUcontext context);
    CUresult (*pop)(CUcontext *context);
    CUresult (*event_query)(CUevent event);
    CUresult (*attributes)(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer);
    CUresult (*uuid)(CUuuid *uuid, CUdevice device);
    CUresult (*write_value)(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
};

/* host->state, from open to close. */
struct halay_cuda_state {
    struct halay_cuda_driver driver;
    int devices;
};

static inline const struct halay_cuda_state *halay_cuda_state_of(const struct halay_device_host *host)
{
    return (const struct halay_cuda_state *)host->state;
}

/* Returns the status after that call. The error is taken off the thread, whose program asks for its own. Silent
 * HALAY_ERR_CLOSED: the process is ending, and CUDA is gone. */
enum halay_status halay_cuda_status(const struct halay_device_host *host, cudaError_t error, const char *call);
/* Does the same for the driver interface, whose numbers are the runtime's. */
enum halay_status halay_cuda_driver_status(const struct halay_device_host *host, CUresult result, const char *call);

/* device_ops.h */
enum halay_status halay_cuda_open(struct halay_device_host *host);
void halay_cuda_close(struct halay_device_host *host);

/* A device's context while it is the thread's. A program may record a graph meanwhile, on this thread or another: that
 * forbids calls which our own streams need, and which it would not contain. */
struct halay_cuda_context {
    const struct halay_device_host *host;
    enum halay_status status; /* not HALAY_OK: nothing is to be called */
    int is_entered;
    enum cudaStreamCaptureMode mode; /* to go back to */
};

struct halay_cuda_context halay_cuda_enter(const struct halay_device_host *host, int device);
/* Returns the status of entering it, or of a call there. */
enum halay_status halay_cuda_leave(struct halay_cuda_context *c, cudaError_t error, const char *call);
/* Does the same for a call that starts work: HALAY_OK also if the process is ending, when no work is done any more. */
enum halay_status halay_cuda_leave_started(struct halay_cuda_context *c, cudaError_t error, const char *call);

/* A call of the runtime in a context, if that was entered. */
#define HALAY_CUDA_CALL(context, call) ((context)->status == HALAY_OK ? (call) : cudaSuccess)

/* Fails while the program records a graph of the stream: work submitted then would become part of the graph. */
void halay_cuda_check_stream(struct halay_cuda_context *c, void *stream);

#endif
