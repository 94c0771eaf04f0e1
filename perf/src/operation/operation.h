/* SPDX-License-Identifier: Apache-2.0
 *
 * Operation: what halay-perf has to know of each collective to measure and check it. One table, in operation.c.
 *
 * Sizes count as nccl-tests counts them: where every rank has a block, the bytes are those of all blocks together.
 */
#ifndef HALAY_PERF_OPERATION_H
#define HALAY_PERF_OPERATION_H

#include "halay_coll.h"
#include "perf/src/operation/pattern.h"
#include "perf/src/versus/call.h"

/* Where this rank's data lie. */
struct perf_place {
    struct perf_call call;
    size_t total; /* elements counted by bytes: call.count, times size where there are blocks */
    int rank, size;
    void *buffer, *spare; /* total elements each, of the same kind of memory; spare: see has_spare */
};

struct perf_operation {
    const char *command; /* "all-gather": halay-perf's, and "op" of the JSON */
    const char *name;    /* "allgather": halay_coll.h's */
    const char *mpi;     /* "MPI_Allgather" */
    const char *summary; /* of the command, one line */
    enum perf_collective collective;
    unsigned reduces : 1;
    unsigned is_rooted : 1;
    unsigned has_data : 1;
    unsigned has_blocks : 1; /* one a rank */
    unsigned has_spare : 1;  /* out of place, or to copy from when memory alone is measured */

    /* busbw = algbw times this: what every link carries of the bytes */
    double (*bus_factor)(int size);
    /* Set the call's in and out; the rest of the place is set. */
    void (*lay_out)(struct perf_place *place);
    /* This rank's elements as input, zeros where those of others will arrive. */
    void (*fill)(const struct perf_pattern *pattern, const struct perf_place *place);
    enum halay_status (*call)(struct halay_group *group, const struct perf_call *call);
    /* How many of this rank's elements are wrong. */
    size_t (*wrong)(const struct perf_pattern *pattern, const struct perf_place *place);
    /* The least that this rank must read and write, in its own memory (roofline.h). NULL: nothing. */
    void (*touch)(const struct perf_place *place);
};

extern const struct perf_operation perf_operations[]; /* ends with a row whose command is NULL */

const struct perf_operation *perf_operation_find(const char *command); /* NULL if there is none */

/* The elements of a call whose bytes come to about `bytes`: rounded down, but to one element of a rank at the least. */
size_t perf_operation_count(const struct perf_operation *operation, size_t bytes, enum halay_dtype dtype, int size);
/* And the bytes that such a call counts. */
size_t perf_operation_bytes(const struct perf_operation *operation, size_t count, enum halay_dtype dtype, int size);

#endif
