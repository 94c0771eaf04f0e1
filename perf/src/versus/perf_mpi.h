/* SPDX-License-Identifier: Apache-2.0
 *
 * What libhalay-perf-mpi.so offers: MPI's collectives, to compare with. A module of its own, so that halay-perf runs on
 * machines without MPI and starts without it.
 */
#ifndef HALAY_PERF_MPI_H
#define HALAY_PERF_MPI_H

#include "perf/src/versus/call.h"
#include <stddef.h>

struct halay_perf_mpi_ops {
    const char *version; /* of halay; the program refuses another than its own */

    /* Initialise MPI as a program with one thread does, for MPI is faster then than with the level of threads that
     * halay would ask for: before the group is opened. 0, or nonzero and why (one line) in text. */
    int (*start)(char *text, size_t text_size);
    /* Finalise MPI, if start was called. Blocks until all ranks do. */
    void (*stop)(void);

    /* This process's place in MPI_COMM_WORLD; MPI must be up. name: "openmpi", "mpich", "intelmpi" or "mpi", static
     * storage; library (library_size): what the library calls itself, "Open MPI v4.1.4". 0, or nonzero and why in
     * text. */
    int (*place)(int *rank, int *size, const char **name, char *library, size_t library_size, char *text,
                 size_t text_size);

    /* Nonzero if MPI can do the same work, else why not in text: it has no 16-bit floating type and no average to
     * reduce, and counts in int. */
    int (*takes)(const struct perf_call *call, char *text, size_t text_size);

    /* All ranks together; blocks. 0, or nonzero and why in text. */
    int (*call)(const struct perf_call *call, char *text, size_t text_size);
};

/* The one symbol that the module exports. */
extern __attribute__((visibility("default"))) const struct halay_perf_mpi_ops halay_perf_mpi_ops;

#endif
