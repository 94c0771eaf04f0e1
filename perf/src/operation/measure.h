/* SPDX-License-Identifier: Apache-2.0
 *
 * Measure: one size of a collective, alone or in turn with MPI's and with a plain loop, beside what the memory alone
 * would take.
 */
#ifndef HALAY_PERF_MEASURE_H
#define HALAY_PERF_MEASURE_H

#include "halay_coll.h"
#include "perf/src/operation/naive.h"
#include "perf/src/operation/operation.h"
#include "perf/src/operation/pattern.h"
#include "perf/src/output.h"
#include "perf/src/versus/peer.h"

/* What is timed in each iteration. */
enum perf_row { PERF_HALAY, PERF_MPI, PERF_NAIVE, PERF_MEMORY, PERF_ROWS };

/* The same for all sizes. Zero-initialised, then set by the caller and perf_bench_init. */
struct perf_bench {
    struct halay_group *group; /* borrowed */
    const struct perf_operation *operation;
    const struct perf_peer_ops *peer; /* borrowed; NULL: there is none to meet with */
    int measures[PERF_ROWS];
    enum halay_dtype dtype;
    enum halay_reduction op;
    int root;
    int is_shared;                  /* buffers from halay_group_alloc */
    long iterations;                /* 0: by size */
    long warmup;                    /* -1: by the iterations */
    struct perf_progress *progress; /* borrowed; NULL on ranks that show none */

    struct perf_pattern pattern; /* owned from here on */
    void *buffer, *spare;
    void *mpi_buffer, *mpi_spare;
    struct perf_naive naive;
    double *times; /* PERF_ROWS rows of iterations_max + 1; each row's last element: wrong elements */
    double *all;   /* every rank's times */
};

struct perf_result {
    size_t bytes;
    const char *algorithm;     /* static storage */
    double seconds[PERF_ROWS]; /* median over the iterations of the slowest rank; 0 if not measured */
    double wrong[PERF_ROWS];   /* elements, over all ranks and iterations */
};

/* Memory for sizes up to bytes_max, as perf_operation_bytes counts them. Every rank calls it; fini takes any state from
 * all zeros on, while the group lives. */
enum halay_status perf_bench_init(struct perf_bench *bench, size_t bytes_max);
void perf_bench_fini(struct perf_bench *bench);

/* Measure calls of count elements; every rank calls it with the same count, and every rank gets the result. */
enum halay_status perf_bench_run(struct perf_bench *bench, size_t count, struct perf_result *result);

#endif
