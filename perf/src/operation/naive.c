/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive: the loops, and how ranks come to share memory: rank 0 makes a nameless file, and the others open it by
 * rank 0's process and descriptor.
 */
#include "perf/src/operation/naive.h"
#include "base/memory.h"
#include "base/sync.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POLLS_TO_YIELD = 4096 }; /* for more ranks than processors */

struct counter {
    _Alignas(HALAY_CACHE_LINE) _Atomic unsigned generation;
};

int perf_naive_takes(const struct perf_operation *operation, enum halay_dtype dtype, enum halay_reduction op, int ranks,
                     int hosts, char *text, size_t size)
{
    if (hosts > 1)
        snprintf(text, size, "the naive loop needs memory that all ranks share, and they are on %d hosts", hosts);
    else if ((size_t)ranks > HALAY_PAGE / sizeof(struct counter))
        snprintf(text, size, "the naive loop has room for %zu ranks", HALAY_PAGE / sizeof(struct counter));
    else if (operation->reduces && (dtype != HALAY_F32 || op != HALAY_SUM))
        snprintf(text, size, "the naive loop adds only f32");
    else
        return 1;
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Rank 0's file: *fd of this process, or negative; it stays open until all ranks have mapped it. */
static enum halay_status open_shared_file(struct halay_group *group, size_t bytes, int *fd)
{
    int is_first = halay_group_rank(group) == 0;
    int64_t where[2] = { getpid(), -1 };
    char path[64];

    if (is_first) {
        *fd = memfd_create("halay-perf naive", MFD_CLOEXEC);
        if (*fd >= 0 && ftruncate(*fd, (off_t)bytes) == 0)
            where[1] = *fd;
    }
    enum halay_status status = halay_group_broadcast(group, where, 2, HALAY_I64, 0);
    if (status != HALAY_OK || is_first || where[1] < 0)
        return status;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)where[0], (long long)where[1]);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    return HALAY_OK;
}

enum halay_status perf_naive_init(struct perf_naive *naive, struct halay_group *group, size_t bytes)
{
    int fd = -1;
    int32_t failed;

    naive->rank = halay_group_rank(group);
    naive->size = halay_group_size(group);
    bytes = halay_round_up(bytes, HALAY_PAGE);
    naive->stride = 2 * bytes;
    naive->bytes = HALAY_PAGE + (size_t)naive->size * naive->stride;
    enum halay_status status = open_shared_file(group, naive->bytes, &fd);
    if (status == HALAY_OK && fd >= 0) {
        void *base = mmap(NULL, naive->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        naive->base = base == MAP_FAILED ? NULL : base;
    }
    failed = naive->base == NULL;
    if (failed)
        fprintf(stderr, "halay-perf: rank %d cannot map the memory of the naive loop: %s\n", naive->rank,
                strerror(errno));
    if (status == HALAY_OK)
        status = halay_group_allreduce(group, &failed, &failed, 1, HALAY_I32, HALAY_MAX);
    if (fd >= 0)
        close(fd);
    if (status != HALAY_OK || failed)
        return status != HALAY_OK ? status : HALAY_ERR_SYSTEM;
    naive->buffer = naive->base + HALAY_PAGE + (size_t)naive->rank * naive->stride;
    naive->spare = (unsigned char *)naive->buffer + bytes;
    return HALAY_OK;
}

void perf_naive_fini(struct perf_naive *naive)
{
    if (naive->base)
        munmap(naive->base, naive->bytes);
    *naive = (struct perf_naive){ .base = NULL };
}

/* ---- the loops --------------------------------------------------------------------------------------------------- */

void perf_naive_barrier(struct perf_naive *naive)
{
    struct counter *counters = (struct counter *)(void *)naive->base;
    unsigned generation = ++naive->generation, polls = 0;

    atomic_store_explicit(&counters[naive->rank].generation, generation, memory_order_release);
    for (int r = 0; r < naive->size; r++)
        while ((int)(atomic_load_explicit(&counters[r].generation, memory_order_acquire) - generation) < 0) {
            halay_relax();
            if (++polls % POLLS_TO_YIELD == 0)
                sched_yield();
        }
}

/* Rank r's memory that corresponds to this address of ours. */
static void *of_rank(const struct perf_naive *naive, int r, const void *own)
{
    return (unsigned char *)(uintptr_t)own + ((ptrdiff_t)r - naive->rank) * (ptrdiff_t)naive->stride;
}

/* This rank's part of the elements: from *first to the end that is returned. */
static size_t own_block(const struct perf_naive *naive, size_t count, size_t *first)
{
    *first = count * (size_t)naive->rank / (size_t)naive->size;
    return count * ((size_t)naive->rank + 1) / (size_t)naive->size;
}

/* The sum of every rank's `in` from one element to another. */
static void add_all(const struct perf_naive *naive, const float *in, size_t first, size_t end, float *to)
{
    const float *a = of_rank(naive, 0, in), *b = of_rank(naive, 1 % naive->size, in);

    if (naive->size == 2) {
        for (size_t i = first; i < end; i++)
            to[i] = a[i] + b[i];
        return;
    }
    for (size_t i = first; i < end; i++) {
        float sum = a[i];
        for (int r = 1; r < naive->size; r++)
            sum += ((const float *)of_rank(naive, r, in))[i];
        to[i] = sum;
    }
}

/* In place. */
static void naive_allreduce(const struct perf_naive *naive, const struct perf_call *call)
{
    float *a = of_rank(naive, 0, call->out), *b = of_rank(naive, 1 % naive->size, call->out);
    size_t first, end = own_block(naive, call->count, &first);

    if (naive->size == 2) {
        for (size_t i = first; i < end; i++) {
            float sum = a[i] + b[i];
            a[i] = sum;
            b[i] = sum;
        }
        return;
    }
    add_all(naive, call->in, first, end, call->out);
    for (int r = 0; r < naive->size; r++)
        if (r != naive->rank)
            memcpy((float *)of_rank(naive, r, call->out) + first, (float *)call->out + first,
                   (end - first) * sizeof(float));
}

/* In place at the root. */
static void naive_reduce(const struct perf_naive *naive, const struct perf_call *call)
{
    float *to = of_rank(naive, call->root, call->out);
    const float *from = of_rank(naive, !call->root, call->out);
    size_t first, end = own_block(naive, call->count, &first);

    if (naive->size == 2) {
        for (size_t i = first; i < end; i++)
            to[i] += from[i];
        return;
    }
    add_all(naive, call->in, first, end, to);
}

static void reduce_scatter(const struct perf_naive *naive, const struct perf_call *call)
{
    add_all(naive, (const float *)call->in + (size_t)naive->rank * call->count, 0, call->count, call->out);
}

/* Rank r's block `which` of that buffer becomes block r of ours. */
static void take_block(const struct perf_naive *naive, const struct perf_call *call, const void *from, int r, int which)
{
    size_t bytes = call->count * halay_dtype_size(call->dtype);
    unsigned char *to = (unsigned char *)call->out + (size_t)r * bytes;
    const unsigned char *block = (const unsigned char *)of_rank(naive, r, from) + (size_t)which * bytes;

    if (to != block)
        memcpy(to, block, bytes);
}

void perf_naive_call(struct perf_naive *naive, const struct perf_place *place)
{
    const struct perf_call *call = &place->call;

    perf_naive_barrier(naive);
    if (call->collective == PERF_BARRIER)
        return;
    switch (call->collective) {
    case PERF_ALLREDUCE:
        naive_allreduce(naive, call);
        break;
    case PERF_REDUCE:
        naive_reduce(naive, call);
        break;
    case PERF_REDUCE_SCATTER:
        reduce_scatter(naive, call);
        break;
    case PERF_BROADCAST:
        if (naive->rank != call->root)
            memcpy(call->out, of_rank(naive, call->root, call->out), call->count * halay_dtype_size(call->dtype));
        break;
    default:
        for (int r = 0; r < naive->size; r++)
            if (call->collective == PERF_ALLTOALL)
                take_block(naive, call, call->in, r, naive->rank);
            else
                take_block(naive, call, call->out, r, r);
    }
    perf_naive_barrier(naive);
}
