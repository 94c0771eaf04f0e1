/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library that halay is compared with offers: MPI's collectives (libhalay-perf-mpi.so), NCCL's all-reduce
 * (libhalay-perf-nccl.so). Modules of their own, so that halay-perf runs on machines without them and starts without
 * them.
 */
#ifndef HALAY_PERF_PEER_H
#define HALAY_PERF_PEER_H

#include "perf/src/versus/call.h"
#include <stddef.h>

enum { PERF_PEER_ID = 128 }; /* bytes */

struct perf_peer_ops {
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

    /* All ranks together; blocks, unless there is `finish`. 0, or nonzero and why in text. */
    int (*call)(const struct perf_call *call, char *text, size_t text_size);
    /* Blocks until the calls have been done; likewise. NULL: they have. */
    int (*finish)(char *text, size_t text_size);

    /* Of a library that does not know its ranks: rank 0 makes an id (PERF_PEER_ID), all come with it. Both NULL
     * otherwise. 0, or nonzero and why in text. */
    int (*identify)(unsigned char *id, char *text, size_t text_size);
    int (*join)(const unsigned char *id, int rank, int ranks, char *text, size_t text_size);
};

/* The one symbol that each module exports. */
extern __attribute__((visibility("default"))) const struct perf_peer_ops halay_perf_mpi_ops, halay_perf_nccl_ops;

#endif
