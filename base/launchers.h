/* SPDX-License-Identifier: Apache-2.0
 *
 * Launchers: what started this process, by the variables that launchers set.
 */
#ifndef HALAY_BASE_LAUNCHERS_H
#define HALAY_BASE_LAUNCHERS_H

#include "halay_types.h"

struct halay_launchers {
    int mpi_size;        /* number of ranks by an MPI launcher (Open MPI, MPICH, Intel MPI, PMIx); -1: none */
    int mpi_is_mpich;    /* it speaks MPICH's protocol (PMI) and is not Open MPI's */
    int mpi_is_open_mpi; /* it is Open MPI's own, not just one that speaks PMIx */
    /* The job of several processes that another launcher's variables describe; size 0: no such job. */
    struct {
        int size;             /* 2 at least; a lower bound where a launcher only numbers its processes */
        const char *launcher; /* static: "srun" */
        char variables[200];  /* "SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=0" */
        int is_srun;          /* a step of SLURM's (slurm_step.h) */
        int is_list;          /* a list of hosts, on each of which the platform starts one process */
    } other_job;
};

void halay_launchers_find(struct halay_launchers *found);

/*
 * One installation can carry modules for two MPIs: libhalay-mpi.so for the one that configure found first (Open MPI, as
 * a rule) and libhalay-mpi-mpich.so for MPICH and its relatives, which share an ABI of their own. A process can hold
 * one MPI only.
 *
 * Returns what a module's name gets for an MPI, "-mpich" or ""; a module without it is looked for next. The MPI that
 * the program is linked with decides, and without one the launcher. Static storage; any thread.
 */
const char *halay_mpi_variant(const struct halay_launchers *launchers);
/* Returns the same for an MPI that is known. */
const char *halay_mpi_abi_variant(enum halay_mpi_abi abi);

#endif
