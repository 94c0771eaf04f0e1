/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI in this process: who initialised it, at which thread level, and how it ends. The only place with a static of the
 * module: MPI itself exists once a process.
 */
#ifndef HALAY_MPI_PROCESS_H
#define HALAY_MPI_PROCESS_H

#include "collectives/transport/module.h"
#include <mpi.h>

/* Initialise MPI unless the program has; MPI_THREAD_MULTIPLE is asked for. HALAY_ERR_UNSUPPORTED if it was finalised
 * already. Aborts of MPI during its own start can't be prevented. */
enum halay_status halay_mpi_start(const struct halay_host *host);

/* NULL if a thread of ours may drive transfers for as long as it likes; else why not. MPI that we initialised is ours
 * alone: one thread at a time is enough. MPI of the program's must take calls from any thread at any time. */
const char *halay_mpi_why_not_drive(void);
/* NULL if this thread may call MPI now, inside a call of the program's (the bootstrap); else why not. */
const char *halay_mpi_why_not_call(void);

/* HALAY_OK, or the error of an MPI call, logged ("what: text"). */
enum halay_status halay_mpi_check(const struct halay_host *host, int error, const char *what);

/* A communicator of the same processes, in which this one has that rank; its errors are returned. Every process of it
 * calls it. */
enum halay_status halay_mpi_split(const struct halay_host *host, MPI_Comm of, int rank, MPI_Comm *out);

/* Something of ours that uses MPI is open (+1) or closed (-1). While anything is, exit doesn't finalise: the peers may
 * be waiting for this process, and would forever. */
void halay_mpi_count_open(int change);
/* A peer failed: exit doesn't finalise, which would wait for it. */
void halay_mpi_count_failure(void);

/* A closed transport with requests that MPI still has. sweep looks again and returns nonzero when all have ended and
 * all is freed; last: MPI is about to be finalised, end those that can be ended. */
struct halay_mpi_remains {
    int (*sweep)(struct halay_mpi_remains *remains, int last);
    struct halay_mpi_remains *next;
};
/* Takes remains over and sweeps at once; it is swept again by each later call, and before MPI is finalised. */
void halay_mpi_leave_remains(struct halay_mpi_remains *remains);
void halay_mpi_sweep(void);

#endif
