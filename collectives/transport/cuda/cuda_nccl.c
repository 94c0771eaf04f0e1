/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL (device_ops.h: struct halay_device_nccl). It is loaded by name and called by its own prototypes, which are a
 * few: nothing links it, and no header of it is needed. Its communicators do not block: each call returns at once, and
 * ncclCommGetAsyncError reports when it has been done, so that a rank that fails keeps no other one inside a call.
 */
#include "collectives/transport/cuda/cuda_nccl.h"
#include "collectives/transport/cuda/cuda_context.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Declared as in nccl.h. */
typedef struct {
    char internal[HALAY_NCCL_ID];
} ncclUniqueId;
typedef struct ncclComm *ncclComm_t;
enum {
    NCCL_SUM = 0,
    NCCL_AVERAGE = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_BFLOAT16 = 9,
    NCCL_CUDA_ERROR = 1,
    NCCL_REMOTE = 6,
    NCCL_IN_PROGRESS = 7,
    NCCL_CONFIG_VERSION = 21400
};
/* ncclConfig_t of 2.14, the oldest that has `blocking`; later ones take it by its size and version. Those from 2.17 on
 * have a field where this one has padding, so the version is not a later one. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

/* One a process; set once, under `lock`. */
static struct {
    int (*GetVersion)(int *version);
    int (*GetUniqueId)(ncclUniqueId *id);
    int (*CommInitRankConfig)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, struct nccl_config *config);
    int (*CommGetAsyncError)(ncclComm_t comm, int *error);
    int (*CommAbort)(ncclComm_t comm);
    int (*GroupStart)(void);
    int (*GroupEnd)(void);
    int (*AllReduce)(const void *in, void *out, size_t count, int dtype, int op, ncclComm_t comm, cudaStream_t stream);
    const char *(*GetErrorString)(int result);
    const char *(*GetLastError)(ncclComm_t comm);
    int version;
    char why[512]; /* it is not there */
} nccl;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void find_functions(void *library)
{
    const struct {
        const char *name;
        void **at;
    } functions[] = {
        { "ncclGetVersion", (void **)&nccl.GetVersion },
        { "ncclGetUniqueId", (void **)&nccl.GetUniqueId },
        { "ncclCommInitRankConfig", (void **)&nccl.CommInitRankConfig },
        { "ncclCommGetAsyncError", (void **)&nccl.CommGetAsyncError },
        { "ncclCommAbort", (void **)&nccl.CommAbort },
        { "ncclGroupStart", (void **)&nccl.GroupStart },
        { "ncclGroupEnd", (void **)&nccl.GroupEnd },
        { "ncclAllReduce", (void **)&nccl.AllReduce },
        { "ncclGetErrorString", (void **)&nccl.GetErrorString },
        { "ncclGetLastError", (void **)&nccl.GetLastError },
    };
    int version = 0;

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].at = dlsym(library, functions[i].name))) {
            snprintf(nccl.why, sizeof nccl.why, "libnccl.so.2 lacks %s; expected 2.18 or later", functions[i].name);
            return;
        }
    if (nccl.GetVersion(&version) || version < HALAY_NCCL_OLDEST)
        snprintf(nccl.why, sizeof nccl.why, "libnccl.so.2 has version %d; expected %d or later", version,
                 HALAY_NCCL_OLDEST);
    else
        nccl.version = version;
}

static int nccl_load(const struct halay_device_host *host, int device, int *version, unsigned char *uuid, char *text,
                     size_t size)
{
    CUuuid own = { { 0 } };

    halay_cuda_state_of(host)->driver.uuid(&own, device); /* 0 if it fails */
    memcpy(uuid, &own, sizeof own);
    pthread_mutex_lock(&lock);
    if (!nccl.version && !*nccl.why) {
        void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
        if (library)
            find_functions(library);
        else
            snprintf(nccl.why, sizeof nccl.why, "cannot load NCCL (LD_LIBRARY_PATH should name its folder): %.300s",
                     dlerror());
    }
    pthread_mutex_unlock(&lock);
    *version = nccl.version;
    snprintf(text, size, "%s", nccl.why);
    return nccl.version != 0;
}

/* Returns the status of a call of NCCL's, whose error is logged. */
static enum halay_status nccl_status(const struct halay_device_host *host, ncclComm_t comm, int result,
                                     const char *call)
{
    if (!result)
        return HALAY_OK;
    if (result == NCCL_IN_PROGRESS)
        return HALAY_IN_PROGRESS;
    if (result == NCCL_REMOTE) /* the engine finds out which rank */
        return HALAY_ERR_PEER;
    halay_host_error(host, "%s: %s: %s", call, nccl.GetErrorString(result), nccl.GetLastError(comm));
    return HALAY_ERR_SYSTEM;
}

static enum halay_status nccl_identify(const struct halay_device_host *host, unsigned char *id)
{
    ncclUniqueId made;

    enum halay_status status = nccl_status(host, NULL, nccl.GetUniqueId(&made), "ncclGetUniqueId");
    if (status == HALAY_OK)
        memcpy(id, &made, sizeof made);
    return status;
}

/* A communicator. A thread of NCCL's writes `comm` when it has made it or failed to, the latest during an abort. */
struct handle {
    ncclComm_t comm;
    int device, result;   /* of the abort, as the next */
    atomic_int has_ended; /* stored (release) by the thread, loaded (acquire) by has_left: the result is there */
};

static enum halay_status nccl_join(const struct halay_device_host *host, int device, const unsigned char *id, int ranks,
                                   int rank, void **comm)
{
    struct nccl_config config = { sizeof config, 0xcafebeef, NCCL_CONFIG_VERSION, 0 };
    struct handle *handle = calloc(1, sizeof *handle);
    ncclUniqueId of;

    *comm = NULL;
    if (!handle)
        return HALAY_ERR_NO_MEMORY;
    struct halay_cuda_context c = halay_cuda_enter(host, device);
    memcpy(&of, id, sizeof of);
    handle->device = device;
    if (c.status == HALAY_OK)
        c.status = nccl_status(host, NULL, nccl.CommInitRankConfig(&handle->comm, ranks, of, rank, &config),
                               "ncclCommInitRankConfig");
    enum halay_status status = c.status;
    c.status = status == HALAY_IN_PROGRESS ? HALAY_OK : status;
    enum halay_status left = halay_cuda_leave(&c, cudaSuccess, "ncclCommInitRankConfig");
    if (handle->comm)
        *comm = handle;
    else
        free(handle);
    return left == HALAY_OK ? status : left;
}

static enum halay_status nccl_look(const struct halay_device_host *host, void *comm)
{
    ncclComm_t at = ((struct handle *)comm)->comm;
    int error = 0;

    enum halay_status status = nccl_status(host, at, nccl.CommGetAsyncError(at, &error), "ncclCommGetAsyncError");
    return status == HALAY_OK ? nccl_status(host, at, error, "NCCL") : status;
}

static const char *nccl_last_error(const struct halay_device_host *host, void *comm)
{
    (void)host;
    return nccl.GetLastError(((struct handle *)comm)->comm);
}

/* Gives the stream all pieces, as one group. In a context. */
static enum halay_status reduce_pieces(const struct halay_device_host *host, ncclComm_t comm,
                                       const struct halay_device_work *work, int op, void *stream)
{
    int dtype = work->dtype == HALAY_F32 ? NCCL_FLOAT32 : work->dtype == HALAY_F16 ? NCCL_FLOAT16 : NCCL_BFLOAT16;
    int result = nccl.GroupStart();

    for (size_t i = 0; i < work->piece_count && (!result || result == NCCL_IN_PROGRESS); i++) {
        const struct halay_device_piece *p = &work->pieces[i];
        result = nccl.AllReduce(p->in, p->out, p->count, dtype, op, comm, stream);
    }
    enum halay_status status = nccl_status(host, comm, result, "ncclAllReduce");
    enum halay_status ended = nccl_status(host, comm, nccl.GroupEnd(), "ncclGroupEnd");
    return status == HALAY_OK || status == HALAY_IN_PROGRESS ? ended : status;
}

static enum halay_status nccl_reduce(const struct halay_device_host *host, int device, void *comm,
                                     const struct halay_device_work *work, int is_average, void *stream)
{
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    enum halay_status status = c.status == HALAY_OK ? reduce_pieces(host, ((struct handle *)comm)->comm, work,
                                                                    is_average ? NCCL_AVERAGE : NCCL_SUM, stream)
                                                    : c.status;
    enum halay_status left = halay_cuda_leave(&c, cudaSuccess, "ncclAllReduce");
    return left == HALAY_OK ? status : left;
}

/* ---- the end ---- */

/* The thread may outlive the context, so it uses nothing of it. */
static void *run_abort(void *arg)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* a program may record a graph meanwhile */
    struct handle *handle = arg;

    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t error = cudaSetDevice(handle->device);
    handle->result = nccl.CommAbort(handle->comm);
    if (!handle->result && error != cudaSuccess)
        handle->result = NCCL_CUDA_ERROR;
    atomic_store_explicit(&handle->has_ended, 1, memory_order_release);
    return NULL;
}

/* Takes no signal: those are the program's. Returns an errno. */
static int start_thread(struct handle *handle)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, run_abort, handle);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_detach(thread);
    return error;
}

static void *nccl_leave(const struct halay_device_host *host, int device, void *comm)
{
    struct handle *handle = comm;

    if (!start_thread(handle))
        return handle;
    struct halay_cuda_context c = halay_cuda_enter(host, device);
    if (c.status == HALAY_OK) {
        (void)nccl_status(host, NULL, nccl.CommAbort(handle->comm), "ncclCommAbort");
        free(handle); /* otherwise NCCL may still write it */
    }
    (void)halay_cuda_leave(&c, cudaSuccess, "ncclCommAbort");
    return NULL;
}

static int nccl_has_left(const struct halay_device_host *host, void *leaving)
{
    struct handle *handle = leaving;

    if (!atomic_load_explicit(&handle->has_ended, memory_order_acquire))
        return 0;
    (void)nccl_status(host, NULL, handle->result, "ncclCommAbort");
    free(handle);
    return 1;
}

const struct halay_device_nccl halay_cuda_nccl = {
    .load = nccl_load,
    .identify = nccl_identify,
    .join = nccl_join,
    .look = nccl_look,
    .last_error = nccl_last_error,
    .reduce = nccl_reduce,
    .leave = nccl_leave,
    .has_left = nccl_has_left,
};
