/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive: each operation as one would write it for the ranks of one host without a library: buffers in a mapping that
 * all share, a barrier of a counter a rank, one loop, the barrier again. Such a program's speed is the yardstick for
 * the cost of a call. Sums of f32 only, blocks of equal size; no rank sleeps, and none may die.
 */
#ifndef HALAY_PERF_NAIVE_H
#define HALAY_PERF_NAIVE_H

#include "halay_coll.h"
#include "perf/src/operation/operation.h"

/* Zero-initialised, then init; fini takes any state. */
struct perf_naive {
    unsigned char *base; /* owned: the mapping: a page with the counters, then each rank's two buffers */
    size_t bytes;        /* of the mapping */
    size_t stride;       /* from one rank's buffers to the next one's */
    int rank, size;
    unsigned generation;  /* barriers so far */
    void *buffer, *spare; /* this rank's, in the mapping */
};

/* Nonzero if the loops can do it, else why not in text: all ranks find the same. */
int perf_naive_takes(const struct perf_operation *operation, enum halay_dtype dtype, enum halay_reduction op, int ranks,
                     int hosts, char *text, size_t size);

/* Buffers of so many bytes. Every rank calls it; HALAY_ERR_SYSTEM where a rank cannot map another's memory. */
enum halay_status perf_naive_init(struct perf_naive *naive, struct halay_group *group, size_t bytes);
void perf_naive_fini(struct perf_naive *naive);

void perf_naive_barrier(struct perf_naive *naive);
/* The operation; place is laid out over the buffers above. Blocks. */
void perf_naive_call(struct perf_naive *naive, const struct perf_place *place);

#endif
