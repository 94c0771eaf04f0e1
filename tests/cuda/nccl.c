/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for NCCL, for the emulation: what perf/src/versus/perf_nccl.c calls. Ranks are processes that meet in a
 * file; sums are made on the host, and a call returns when they are there. NCCL_DUPLICATE=1: it finds two ranks on one
 * GPU, which it cannot see here.
 */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STAND_IN __attribute__((visibility("default")))

enum { FLOATS_MOST = 1 << 18, RANKS_MOST = 8, SYSTEM_ERROR = 2, INVALID = 4, INVALID_USAGE = 5, FLOAT32 = 7 };

typedef struct {
    char internal[128];
} ncclUniqueId;

struct meeting {
    atomic_int came; /* ranks, over all calls */
    float data[RANKS_MOST][FLOATS_MOST];
};
struct ncclComm {
    struct meeting *meeting;
    int rank, ranks, calls;
};

STAND_IN int ncclGetVersion(int *version);
STAND_IN const char *ncclGetErrorString(int result);
STAND_IN const char *ncclGetLastError(struct ncclComm *comm);
STAND_IN int ncclGetUniqueId(ncclUniqueId *id);
STAND_IN int ncclCommInitRank(struct ncclComm **out, int ranks, ncclUniqueId id, int rank);
STAND_IN int ncclCommDestroy(struct ncclComm *comm);
STAND_IN int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int op, struct ncclComm *comm,
                           cudaStream_t stream);

STAND_IN int ncclGetVersion(int *version)
{
    *version = 22800;
    return 0;
}

STAND_IN const char *ncclGetErrorString(int result)
{
    return result == INVALID ? "invalid argument" : "unhandled system error";
}

STAND_IN const char *ncclGetLastError(struct ncclComm *comm)
{
    (void)comm;
    return "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000";
}

STAND_IN int ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/tmp/halay-nccl-XXXXXX");
    int fd = mkstemp(id->internal);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)))
        return SYSTEM_ERROR;
    close(fd);
    return 0;
}

/* All have come as often as this one. */
static void meet(struct ncclComm *comm)
{
    atomic_fetch_add(&comm->meeting->came, 1);
    comm->calls++;
    while (atomic_load(&comm->meeting->came) < comm->calls * comm->ranks)
        sched_yield();
}

STAND_IN int ncclCommInitRank(struct ncclComm **out, int ranks, ncclUniqueId id, int rank)
{
    int fd = open(id.internal, O_RDWR | O_CLOEXEC);
    struct ncclComm *comm = calloc(1, sizeof *comm);

    if (fd < 0 || !comm || ranks > RANKS_MOST)
        return SYSTEM_ERROR;
    comm->meeting = mmap(NULL, sizeof *comm->meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (comm->meeting == MAP_FAILED)
        return SYSTEM_ERROR;
    comm->rank = rank;
    comm->ranks = ranks;
    meet(comm);
    if (rank == 0)
        unlink(id.internal);
    *out = comm;
    return getenv("NCCL_DUPLICATE") ? INVALID_USAGE : 0;
}

STAND_IN int ncclCommDestroy(struct ncclComm *comm)
{
    munmap(comm->meeting, sizeof *comm->meeting);
    free(comm);
    return 0;
}

static int sum(const float *in, float *out, size_t count, struct ncclComm *comm)
{
    float *total = calloc(count, sizeof *total), *own = comm->meeting->data[comm->rank];

    if (!total || cudaMemcpy(own, in, count * sizeof *own, cudaMemcpyDeviceToHost) != cudaSuccess)
        return SYSTEM_ERROR;
    meet(comm);
    for (int r = 0; r < comm->ranks; r++)
        for (size_t i = 0; i < count; i++)
            total[i] += comm->meeting->data[r][i];
    int failed = cudaMemcpy(out, total, count * sizeof *total, cudaMemcpyHostToDevice) != cudaSuccess;
    meet(comm);
    free(total);
    return failed ? SYSTEM_ERROR : 0;
}

STAND_IN int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int op, struct ncclComm *comm,
                           cudaStream_t stream)
{
    int result = dtype != FLOAT32 || op != 0 || !stream ? INVALID : 0;

    if (!result && cudaStreamSynchronize(stream) != cudaSuccess)
        result = SYSTEM_ERROR;
    for (size_t done = 0, part; done < count && !result; done += part) {
        part = count - done < FLOATS_MOST ? count - done : FLOATS_MOST;
        result = sum((const float *)in + done, (float *)out + done, part, comm);
    }
    return result;
}
