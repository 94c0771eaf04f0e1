/* SPDX-License-Identifier: Apache-2.0
 *
 * libhalay-perf-nccl.so: NCCL's all-reduce behind peer.h. NCCL is loaded when it is asked for (libnccl.so.2), and
 * called by its own prototypes, which are a few: nothing links it. Calls are given to a stream, and `finish` waits for
 * it.
 */
#include "perf/src/versus/peer.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Of nccl.h. */
typedef struct {
    char internal[PERF_PEER_ID];
} ncclUniqueId;
typedef struct ncclComm *ncclComm_t;
enum { NCCL_SUM = 0, NCCL_FLOAT32 = 7, NCCL_INVALID_USAGE = 5 };

/* One a process, as MPI's world is. */
static struct {
    int (*GetVersion)(int *version);
    int (*GetUniqueId)(ncclUniqueId *id);
    int (*CommInitRank)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
    int (*CommDestroy)(ncclComm_t comm);
    int (*AllReduce)(const void *in, void *out, size_t count, int dtype, int op, ncclComm_t comm, cudaStream_t stream);
    const char *(*GetErrorString)(int result);
    const char *(*GetLastError)(ncclComm_t comm); /* NULL: before 2.13 */
    void *library;
    ncclComm_t comm;
    cudaStream_t stream;
    int rank, ranks;
} nccl;

static int check(int result, const char *call, char *text, size_t text_size)
{
    if (result)
        snprintf(text, text_size, "nccl%s failed: %s", call, nccl.GetErrorString(result));
    return result != 0;
}

static int check_cuda(cudaError_t error, const char *call, char *text, size_t text_size)
{
    if (error != cudaSuccess)
        snprintf(text, text_size, "%s failed: %s", call, cudaGetErrorString(error));
    return error != cudaSuccess;
}

static int perf_nccl_start(char *text, size_t text_size)
{
    const struct {
        const char *name;
        void **at;
    } functions[] = {
        { "ncclGetVersion", (void **)&nccl.GetVersion },     { "ncclGetUniqueId", (void **)&nccl.GetUniqueId },
        { "ncclCommInitRank", (void **)&nccl.CommInitRank }, { "ncclCommDestroy", (void **)&nccl.CommDestroy },
        { "ncclAllReduce", (void **)&nccl.AllReduce },       { "ncclGetErrorString", (void **)&nccl.GetErrorString },
    };

    nccl.library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!nccl.library) {
        snprintf(text, text_size, "no NCCL (LD_LIBRARY_PATH names its folder): %s", dlerror());
        return 1;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].at = dlsym(nccl.library, functions[i].name))) {
            snprintf(text, text_size, "%s", dlerror());
            return 1;
        }
    *(void **)&nccl.GetLastError = dlsym(nccl.library, "ncclGetLastError");
    return 0;
}

static void perf_nccl_stop(void)
{
    if (nccl.comm)
        nccl.CommDestroy(nccl.comm);
    if (nccl.stream)
        cudaStreamDestroy(nccl.stream);
    nccl.comm = NULL;
    nccl.stream = NULL;
}

static int perf_nccl_identify(unsigned char *id, char *text, size_t text_size)
{
    ncclUniqueId made;

    if (check(nccl.GetUniqueId(&made), "GetUniqueId", text, text_size))
        return 1;
    memcpy(id, &made, sizeof made);
    return 0;
}

static int perf_nccl_join(const unsigned char *id, int rank, int ranks, char *text, size_t text_size)
{
    ncclUniqueId made;

    memcpy(&made, id, sizeof made);
    nccl.rank = rank;
    nccl.ranks = ranks;
    if (check_cuda(cudaStreamCreateWithFlags(&nccl.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", text,
                   text_size))
        return 1;
    int result = nccl.CommInitRank(&nccl.comm, ranks, made, rank);
    if (result == NCCL_INVALID_USAGE) { /* above all: "Duplicate GPU detected" */
        nccl.comm = NULL;
        snprintf(text, text_size, "ncclCommInitRank failed: %s; NCCL takes one rank a GPU ('halayrun --gpus auto')",
                 nccl.GetLastError ? nccl.GetLastError(NULL) : nccl.GetErrorString(result));
    }
    return result == NCCL_INVALID_USAGE || check(result, "CommInitRank", text, text_size);
}

static int perf_nccl_place(int *rank, int *ranks, const char **name, char *library, size_t library_size, char *text,
                           size_t text_size)
{
    int version;

    if (check(nccl.GetVersion(&version), "GetVersion", text, text_size))
        return 1;
    *rank = nccl.rank;
    *ranks = nccl.ranks;
    *name = "nccl";
    snprintf(library, library_size, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return 0;
}

static int perf_nccl_takes(const struct perf_call *call, char *text, size_t text_size)
{
    if (call->collective == PERF_ALLREDUCE && call->dtype == HALAY_F32 && call->op == HALAY_SUM)
        return 1;
    snprintf(text, text_size, "sums of f32 are what is compared with NCCL");
    return 0;
}

static int perf_nccl_call(const struct perf_call *call, char *text, size_t text_size)
{
    return check(nccl.AllReduce(call->in, call->out, call->count, NCCL_FLOAT32, NCCL_SUM, nccl.comm, nccl.stream),
                 "AllReduce", text, text_size);
}

static int perf_nccl_finish(char *text, size_t text_size)
{
    return check_cuda(cudaStreamSynchronize(nccl.stream), "an all-reduce of NCCL's", text, text_size);
}

const struct perf_peer_ops halay_perf_nccl_ops = {
    .version = HALAY_VERSION,
    .start = perf_nccl_start,
    .stop = perf_nccl_stop,
    .place = perf_nccl_place,
    .takes = perf_nccl_takes,
    .call = perf_nccl_call,
    .finish = perf_nccl_finish,
    .identify = perf_nccl_identify,
    .join = perf_nccl_join,
};
