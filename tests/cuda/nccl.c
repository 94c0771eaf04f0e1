/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for NCCL, for the emulation: what perf/src/versus/perf_nccl.c and collectives/transport/cuda/cuda_nccl.c
 * call. Ranks are processes that meet in a file; sums are made on the host. In a communicator that blocks a call
 * returns when they are there. In one that does not the stream makes them, and waits for the other ranks; a group is
 * given to the stream at once or by a later look, as EMU_SEED has it. An abort waits for those of all ranks that live.
 *
 * NCCL_DUPLICATE=1: it finds two ranks on one GPU, which it cannot see here. NCCL_VERSION: what it says it is.
 * NCCL_FAILS=N: the N-th sum of a communicator that does not block is an error, which is reported later.
 * NCCL_NAMELESS=1: it makes no id.
 * NCCL_LATE=N: its N-th sum runs until a rank aborts; its result then is garbage, and no rank reports an error.
 * NCCL_SLOW=N: an abort takes N seconds.
 * NCCL_STUCK=N: its N-th group is given to the stream by the abort only.
 */
#include "base/half.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STAND_IN __attribute__((visibility("default")))

enum { FLOATS_MOST = 1 << 18, RANKS_MOST = 8, AVERAGE = 4, FLOAT16 = 6, FLOAT32 = 7, BFLOAT16 = 9 };
enum { LATE_US = 20000 };
enum { SYSTEM_ERROR = 2, INVALID = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };

typedef struct {
    char internal[128];
} ncclUniqueId;

struct meeting {
    atomic_int came;    /* ranks, over all calls */
    atomic_int is_over; /* a rank has aborted */
    atomic_int has_aborted[RANKS_MOST];
    atomic_int is_late_over; /* NCCL_LATE */
    atomic_int process[RANKS_MOST];
    float data[RANKS_MOST][FLOATS_MOST];
};
struct ncclComm {
    struct meeting *meeting;
    int rank, ranks, calls;
    struct ncclComm **out;     /* does not block, and has not been looked at: where the caller keeps it */
    struct ncclComm **kept;    /* the same; an abort writes it before all ranks have come, as the real one's thread */
    int is_async, sums, fails; /* does not block: the sums so far, the number of the one that fails */
    int late;                  /* the number of the sum that runs until an abort */
    int groups, looks;         /* so far; until the last one's sums are given to the stream */
    struct call *first, **last;
    atomic_int is_aborted, is_lost;
};

/* A sum of a group. */
struct call {
    const void *in;
    void *out;
    size_t count;
    int dtype, op;
    cudaStream_t stream;
    struct call *next;
};

/* A sum that a stream makes. */
struct job {
    struct ncclComm *comm;
    void *data; /* pinned */
    size_t count;
    int dtype, op;
};

static __thread struct ncclComm *grouped; /* has calls in the thread's group */
static atomic_int ended_groups;           /* of this process */

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

STAND_IN int ncclGetVersion(int *version);
STAND_IN const char *ncclGetErrorString(int result);
STAND_IN const char *ncclGetLastError(struct ncclComm *comm);
STAND_IN int ncclGetUniqueId(ncclUniqueId *id);
STAND_IN int ncclCommInitRank(struct ncclComm **out, int ranks, ncclUniqueId id, int rank);
STAND_IN int ncclCommInitRankConfig(struct ncclComm **out, int ranks, ncclUniqueId id, int rank,
                                    const struct config *config);
STAND_IN int ncclCommGetAsyncError(struct ncclComm *comm, int *error);
STAND_IN int ncclCommAbort(struct ncclComm *comm);
STAND_IN int ncclGroupStart(void);
STAND_IN int ncclGroupEnd(void);
STAND_IN int stand_in_groups(void);
STAND_IN int ncclCommDestroy(struct ncclComm *comm);
STAND_IN int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int op, struct ncclComm *comm,
                           cudaStream_t stream);

STAND_IN int ncclGetVersion(int *version)
{
    const char *named = getenv("NCCL_VERSION");

    *version = named ? atoi(named) : 22800;
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
    int fd = getenv("NCCL_NAMELESS") ? -1 : mkstemp(id->internal);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)))
        return SYSTEM_ERROR;
    close(fd);
    return 0;
}

static int number_of_variable(const char *name)
{
    const char *text = getenv(name);

    return text ? atoi(text) : 0;
}

static int have_all_come(const struct ncclComm *comm)
{
    return atomic_load(&comm->meeting->came) >= comm->calls * comm->ranks;
}

static int is_dead(const struct ncclComm *comm, int rank)
{
    int process = atomic_load(&comm->meeting->process[rank]);

    return process && kill(process, 0) && errno == ESRCH;
}

/* Returns nonzero if a rank will come no more. */
static int is_missing(const struct ncclComm *comm)
{
    int missing = atomic_load(&comm->meeting->is_over);

    for (int r = 0; r < comm->ranks; r++)
        missing |= is_dead(comm, r);
    return missing;
}

/* All have come as often as this one. A device of the emulation waits here for its process, whose calls wait for it: so
 * the wait for a rank that is missing ends by itself. */
static void meet(struct ncclComm *comm)
{
    atomic_fetch_add(&comm->meeting->came, 1);
    comm->calls++;
    while (!have_all_come(comm) && !atomic_load(&comm->is_aborted) && !atomic_load(&comm->is_lost)) {
        if (comm->is_async && is_missing(comm))
            atomic_store(&comm->is_lost, 1);
        sched_yield();
    }
}

/* Comes, and does not wait. */
static int comm_open(struct ncclComm **out, int ranks, const ncclUniqueId *id, int rank)
{
    int fd = open(id->internal, O_RDWR | O_CLOEXEC);
    struct ncclComm *comm = calloc(1, sizeof *comm);

    if (fd < 0 || !comm || ranks > RANKS_MOST)
        return SYSTEM_ERROR;
    comm->meeting = mmap(NULL, sizeof *comm->meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (comm->meeting == MAP_FAILED)
        return SYSTEM_ERROR;
    comm->rank = rank;
    comm->ranks = ranks;
    atomic_store(&comm->meeting->process[rank], getpid());
    *out = comm;
    return 0;
}

STAND_IN int ncclCommInitRank(struct ncclComm **out, int ranks, ncclUniqueId id, int rank)
{
    int result = comm_open(out, ranks, &id, rank);

    if (result)
        return result;
    meet(*out);
    if (rank == 0)
        unlink(id.internal);
    return getenv("NCCL_DUPLICATE") ? INVALID_USAGE : 0;
}

STAND_IN int ncclCommInitRankConfig(struct ncclComm **out, int ranks, ncclUniqueId id, int rank,
                                    const struct config *config)
{
    if (config->size != sizeof *config || config->magic != 0xcafebeef || config->version != 21400 || config->blocking)
        return INVALID;
    int result = comm_open(out, ranks, &id, rank);
    if (result)
        return result;
    (*out)->out = (*out)->kept = out;
    (*out)->is_async = 1;
    (*out)->fails = number_of_variable("NCCL_FAILS");
    (*out)->late = number_of_variable("NCCL_LATE");
    (*out)->calls = 1;
    if (atomic_fetch_add(&(*out)->meeting->came, 1) + 1 == ranks) /* the last one: all have opened the file */
        unlink(id.internal);
    return IN_PROGRESS;
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

static float number_of(const struct job *job, size_t i)
{
    if (job->dtype == FLOAT32)
        return ((const float *)job->data)[i];
    uint16_t half = ((const uint16_t *)job->data)[i];
    return job->dtype == FLOAT16 ? halay_f16_to_f32(half) : halay_bf16_to_f32(half);
}

static void number_put(const struct job *job, size_t i, float x)
{
    if (job->dtype == FLOAT32)
        ((float *)job->data)[i] = x;
    else
        ((uint16_t *)job->data)[i] = job->dtype == FLOAT16 ? halay_f32_to_f16(x) : halay_f32_to_bf16(x);
}

static void sum_part(const struct job *job, size_t at, size_t count)
{
    struct ncclComm *comm = job->comm;

    for (size_t i = 0; i < count; i++)
        comm->meeting->data[comm->rank][i] = number_of(job, at + i);
    meet(comm);
    for (size_t i = 0; i < count; i++) {
        float total = 0;
        for (int r = 0; r < comm->ranks; r++)
            total += comm->meeting->data[r][i];
        number_put(job, at + i, job->op == AVERAGE ? total / (float)comm->ranks : total);
    }
    meet(comm);
}

static void run_job(void *arg)
{
    const struct job *job = arg;

    for (size_t done = 0, part;
         done < job->count && !atomic_load(&job->comm->is_aborted) && !atomic_load(&job->comm->is_lost); done += part) {
        part = job->count - done < FLOATS_MOST ? job->count - done : FLOATS_MOST;
        sum_part(job, done, part);
    }
}

/* Ends the wait of a late sum's stream. */
static void *await_abort(void *arg)
{
    const struct job *job = arg;

    while (!atomic_load(&job->comm->meeting->is_late_over))
        usleep(1000);
    *(_Atomic uint32_t *)job->data = 1;
    return NULL;
}

/* The stream waits for an abort, and takes for the sum what it finds then. */
static int give_late(struct job *job, void *out, size_t bytes, cudaStream_t stream)
{
    CUresult (*wait_value)(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
    enum cudaDriverEntryPointQueryResult found;
    pthread_t thread;

    if (cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, 0, &found) !=
            cudaSuccess ||
        cudaHostAlloc(&job->data, bytes + sizeof(uint32_t), cudaHostAllocDefault) != cudaSuccess)
        return SYSTEM_ERROR;
    memset(job->data, 0, bytes + sizeof(uint32_t));
    if (wait_value(stream, (CUdeviceptr)(uintptr_t)job->data, 1, CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS ||
        cudaMemcpyAsync(out, job->data, bytes, cudaMemcpyHostToDevice, stream) != cudaSuccess ||
        pthread_create(&thread, NULL, await_abort, job))
        return SYSTEM_ERROR;
    pthread_detach(thread);
    return 0;
}

/* Gives a sum to its stream. */
static int give_job(struct ncclComm *comm, const struct call *call)
{
    struct job *job = calloc(1, sizeof *job); /* stays, as does its memory */
    size_t bytes = call->count * (call->dtype == FLOAT32 ? 4 : 2);

    if (!job)
        return SYSTEM_ERROR;
    *job = (struct job){ .comm = comm, .count = call->count, .dtype = call->dtype, .op = call->op };
    if (++comm->sums == comm->late)
        return give_late(job, call->out, bytes, call->stream);
    if (cudaHostAlloc(&job->data, bytes + 1, cudaHostAllocDefault) != cudaSuccess ||
        cudaMemcpyAsync(job->data, call->in, bytes, cudaMemcpyDeviceToHost, call->stream) != cudaSuccess ||
        cudaLaunchHostFunc(call->stream, run_job, job) != cudaSuccess ||
        cudaMemcpyAsync(call->out, job->data, bytes, cudaMemcpyHostToDevice, call->stream) != cudaSuccess)
        return SYSTEM_ERROR;
    return 0;
}

/* Gives the last group's sums to their streams. */
static int give_calls(struct ncclComm *comm)
{
    int result = 0;

    for (struct call *call = comm->first, *next; call; call = next) {
        next = call->next;
        result = result ? result : give_job(comm, call);
        free(call);
    }
    comm->first = NULL;
    return result;
}

/* Before the group before it has been given, it is an error. */
static int group_add(struct ncclComm *comm, const struct call *call)
{
    struct call *kept = malloc(sizeof *kept);

    if (!kept || (comm->first && grouped != comm) ||
        (call->dtype != FLOAT16 && call->dtype != FLOAT32 && call->dtype != BFLOAT16) ||
        (call->op && call->op != AVERAGE))
        return INVALID;
    *kept = *call;
    if (!comm->first)
        comm->last = &comm->first;
    *comm->last = kept;
    comm->last = &kept->next;
    grouped = comm;
    return 0;
}

/* The first look moves it, as the real one may write the caller's communicator until it has been made. */
static struct ncclComm *comm_moved(struct ncclComm *comm)
{
    struct ncclComm *moved = malloc(sizeof *moved);

    if (!moved)
        return NULL;
    memcpy(moved, comm, sizeof *moved);
    *comm->out = moved;
    moved->out = NULL;
    comm->is_async = 0; /* of no use any more */
    return moved;
}

STAND_IN int ncclCommGetAsyncError(struct ncclComm *comm, int *error)
{
    if (!comm->is_async || (comm->out && !(comm = comm_moved(comm))))
        return INVALID;
    int result = comm->first && comm->looks > 0 && !--comm->looks ? give_calls(comm) : 0;
    if (result)
        return result;
    *error = comm->fails && comm->sums >= comm->fails ? SYSTEM_ERROR : atomic_load(&comm->is_lost) ? REMOTE_ERROR : 0;
    if (!*error && (comm->first || (!comm->sums && !have_all_come(comm))))
        *error = IN_PROGRESS;
    return 0;
}

/* What the stream has of it may still look at it, so it stays. A rank that has not come is not waited for. */
STAND_IN int ncclCommAbort(struct ncclComm *comm)
{
    if (comm->kept && atomic_load(&comm->meeting->came) < comm->ranks) {
        usleep(LATE_US); /* the caller has returned */
        *comm->kept = comm;
    }
    atomic_store(comm->late ? &comm->meeting->is_late_over : &comm->meeting->is_over, 1);
    atomic_store(&comm->is_aborted, 1);
    int result = give_calls(comm);
    atomic_store(&comm->meeting->has_aborted[comm->rank], 1);
    for (int r = 0; r < comm->ranks; r++)
        while (atomic_load(&comm->meeting->process[r]) && !atomic_load(&comm->meeting->has_aborted[r]) &&
               !is_dead(comm, r))
            sched_yield();
    sleep((unsigned)number_of_variable("NCCL_SLOW"));
    return result;
}

STAND_IN int ncclGroupStart(void)
{
    return 0;
}

/* For tests: how many groups have ended. */
STAND_IN int stand_in_groups(void)
{
    return atomic_load(&ended_groups);
}

STAND_IN int ncclGroupEnd(void)
{
    struct ncclComm *comm = grouped;

    grouped = NULL;
    if (!comm)
        return 0;
    comm->groups++;
    atomic_fetch_add(&ended_groups, 1);
    comm->looks =
        comm->groups == number_of_variable("NCCL_STUCK") ? -1 : (number_of_variable("EMU_SEED") + comm->groups) % 3;
    return comm->looks ? IN_PROGRESS : give_calls(comm);
}

STAND_IN int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int op, struct ncclComm *comm,
                           cudaStream_t stream)
{
    if (comm->is_async)
        return group_add(comm, &(struct call){ in, out, count, dtype, op, stream, NULL });
    int result = dtype != FLOAT32 || op != 0 || !stream ? INVALID : 0;

    if (!result && cudaStreamSynchronize(stream) != cudaSuccess)
        result = SYSTEM_ERROR;
    for (size_t done = 0, part; done < count && !result; done += part) {
        part = count - done < FLOATS_MOST ? count - done : FLOATS_MOST;
        result = sum((const float *)in + done, (float *)out + done, part, comm);
    }
    return result;
}
