/* SPDX-License-Identifier: Apache-2.0
 *
 * Measure: one size of an all-reduce, alone or in turn with MPI's.
 */
#ifndef HALAY_PERF_MEASURE_H
#define HALAY_PERF_MEASURE_H

#include "halay_coll.h"
#include "perf/output.h"
#include "perf/pattern.h"
#include "perf/perf_mpi.h"

/* What does not change from size to size. Zero-initialised, then set by the caller and perf_bench_init. */
struct perf_bench {
    struct halay_group *group;            /* borrowed */
    const struct halay_perf_mpi_ops *mpi; /* borrowed; NULL: not compared */
    enum halay_dtype dtype;
    enum halay_op op;
    int is_shared;                  /* buffers from halay_group_alloc */
    long iterations;                /* 0: by size */
    long warmup;                    /* -1: by the iterations */
    struct perf_progress *progress; /* borrowed; NULL on ranks that don't show any */

    struct perf_pattern pattern; /* owned from here on */
    void *buffer;
    void *mpi_buffer;
    double *times; /* 3 rows of iterations_max + 1: halay, MPI, memory alone; each row's last element: wrong elements */
    double *all;   /* everybody's times */
};

struct perf_result {
    size_t bytes;
    const char *algorithm;   /* static storage */
    double seconds;          /* median over the iterations of the slowest rank */
    double roofline_seconds; /* the same for each rank reading and writing as many bytes of its own, all at once */
    double mpi_seconds;      /* 0 if not compared */
    double wrong;            /* elements, over all ranks and iterations */
    double mpi_wrong;
};

/* Memory for sizes up to bytes_max. Every rank calls it; fini takes any state from all zeros on, while the group
 * lives. */
enum halay_status perf_bench_init(struct perf_bench *bench, size_t bytes_max);
void perf_bench_fini(struct perf_bench *bench);

/* Measure count elements; every rank calls it with the same count, and every rank gets the result. */
enum halay_status perf_bench_run(struct perf_bench *bench, size_t count, struct perf_result *result);

#endif
