/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognise: the allocation that this process is in, by what batch systems, container platforms and other launchers
 * leave in the environment and in files: hosts, ranks of each, and where that was found. Nothing is printed, started,
 * or asked over a network, and no name is looked up.
 *
 * The first match counts, in the order of enum allocation_kind: whatever has started ranks already is before what
 * has only provided hosts, and what was set for one job before what a whole site sets.
 */
#ifndef HALAY_LAUNCHER_RECOGNISE_H
#define HALAY_LAUNCHER_RECOGNISE_H

#include "launcher/common/command_line.h"
#include "launcher/where/hosts.h"

enum allocation_kind {
    ALLOCATION_NONE,
    ALLOCATION_MPI,      /* ranks run already, each with mpirun's or srun's PMI variables */
    ALLOCATION_TORCHRUN, /* ranks run already, each with torchrun's variables */
    ALLOCATION_SAGEMAKER,
    ALLOCATION_KUBERNETES, /* MPI Operator */
    ALLOCATION_SLURM,
    ALLOCATION_LSF,
    ALLOCATION_PBS,
    ALLOCATION_TF_CONFIG,
};

struct allocation {
    enum allocation_kind kind;
    struct host_list hosts; /* owned, each with its slots; empty if the ranks run already */
    int ranks;              /* default of -np; 0: unknown */
    int is_started;         /* the ranks run already: halayrun would start as many for each of them */
    char *this_host;        /* owned: the allocation's name for this host; NULL: unknown */
    char *interface;        /* owned: network interface to the other hosts; NULL: unknown */
    char *remote_shell;     /* owned: run as REMOTE_SHELL HOST COMMAND in place of ssh (ssh.h); NULL: ssh */
    int copies;             /* how many of this process it has started, on purpose or not; 0: one, or unknown */
    struct args remarks;    /* owned: a line for each thing found or noticed, "SLURM_NTASKS=6: 6 ranks" */
};

/* The places to look at. Tests provide their own. */
struct environment {
    const char *(*variable)(void *arg, const char *name); /* its value, borrowed; NULL if it is absent */
    void *arg;
    const char *root; /* prepended to every path; "" for the real ones */
};

/* The environment and the files of this process. */
struct environment environment_here(void);

/* Fills in *allocation; ALLOCATION_NONE is not an error. HALAY_ERR_FORMAT, HALAY_ERR_SYSTEM: what was recognised
 * contradicts itself or cannot be read; why (one line) names the variable or file, the place in it, and what would be
 * right; *allocation is empty except for its kind. HALAY_ERR_NO_MEMORY. */
enum halay_status recognise(const struct environment *environment, struct allocation *allocation, char *why,
                            size_t size);

void allocation_fini(struct allocation *allocation); /* zeroed or filled */

const char *allocation_name(enum allocation_kind kind); /* "SLURM"; static storage */

#endif
