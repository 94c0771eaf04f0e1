/* SPDX-License-Identifier: Apache-2.0
 *
 * Versus: the library that halay is compared with in one run: the MPI that started the job, or NCCL.
 */
#ifndef HALAY_PERF_VERSUS_H
#define HALAY_PERF_VERSUS_H

#include "base/config.h"
#include "halay.h"
#include "perf/src/versus/peer.h"

struct perf_versus {
    void *module; /* owned: dlopen's handle */
    int is_ours;  /* we started it */
    const struct perf_peer_ops *peer;
    const char *name;  /* "openmpi", "nccl", ...; static storage */
    char library[256]; /* what it calls itself */
};

/* Before the group is opened: see peer.h. peer: "mpi", "nccl". With halay's data over MPI too (transport: "mpi") the
 * initialisation of MPI is left to halay, which needs the threads that it asks for. 0, or nonzero and why in text. */
int perf_versus_start(struct perf_versus *versus, const struct halay_config *config, const char *peer,
                      const char *transport, char *text, size_t size);

/* With the engine open: its ranks become those of a peer that does not know them. All ranks; 0, or nonzero and why in
 * text. */
int perf_versus_join(struct perf_versus *versus, struct halay_context *context, char *text, size_t size);

/* With the group open: its ranks must be the peer's, which must be able to do the greatest call. 0, or nonzero and why
 * in text; all ranks find the same. */
int perf_versus_check(struct perf_versus *versus, int rank, int ranks, const struct perf_call *greatest, char *text,
                      size_t size);

/* Zeroed or started. waits: all ranks come here, so the peer may wait for them. */
void perf_versus_end(struct perf_versus *versus, int waits);

#endif
