/* SPDX-License-Identifier: Apache-2.0
 *
 * Call: one call of a collective, the same for halay and MPI.
 */
#ifndef HALAY_PERF_CALL_H
#define HALAY_PERF_CALL_H

#include "halay_types.h"
#include <stddef.h>

enum perf_collective {
    PERF_ALLREDUCE,
    PERF_REDUCE,
    PERF_REDUCE_SCATTER,
    PERF_BROADCAST,
    PERF_ALLGATHER,
    PERF_ALLTOALL,
    PERF_BARRIER,
};

/* In place, so that both do the same work: all-reduce and reduce (in == out), all-gather (in is this rank's block of
 * out), broadcast (its buffer is out). Reduce-scatter and all-to-all are out of place. */
struct perf_call {
    enum perf_collective collective;
    const void *in; /* borrowed, like out, for the duration of the call */
    void *out;
    size_t count; /* elements of the buffer; where each rank has a block of it, of one block */
    enum halay_dtype dtype;
    enum halay_reduction op; /* of those that reduce */
    int root;                /* of those that have one */
};

#endif
