/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognise: which allocation this process is in, by what batch systems, container platforms and other launchers leave
 * in the environment and in files: their hosts, how many ranks each takes, and where that is said. Nothing is printed,
 * started or asked over a network, and no name is looked up.
 *
 * The first that fits counts, in the order of enum allocation_kind: who has started ranks already comes before who has
 * only given hosts, and what was made for one job before what a whole site sets.
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
    int ranks;              /* what -np is by default; 0: unknown */
    int is_started;         /* the ranks run already: halayrun would start that many for each of them */
    char *here;             /* owned: what the allocation calls this host; NULL: it does not say */
    char *interface;        /* owned: network interface that leads to the other hosts; NULL: it does not say */
    char *agent;            /* owned: called as AGENT HOST COMMAND in place of ssh (ssh.h); NULL: ssh is meant */
    int copies;             /* it has started so many of this process on purpose or not; 0: one, or it does not say */
    struct words remarks;   /* owned: a line for each thing that was found, "SLURM_NTASKS=6: 6 ranks", or noticed */
};

/* Where to look. Tests give their own. */
struct surroundings {
    const char *(*variable)(void *arg, const char *name); /* its value, borrowed; NULL if it is absent */
    void *arg;
    const char *root; /* in front of every path of a file; "" for the machine's own */
};

/* The environment and the files of this process. */
struct surroundings surroundings_here(void);

/* *allocation is filled in; ALLOCATION_NONE is no error. HALAY_ERR_FORMAT, HALAY_ERR_SYSTEM: something was recognised
 * and contradicts itself or cannot be read; why names the variable or file, the place in it, and what would be right
 * (one line); *allocation is empty but for its kind. HALAY_ERR_NO_MEMORY. */
enum halay_status recognise(const struct surroundings *surroundings, struct allocation *allocation, char *why,
                            size_t size);

void allocation_fini(struct allocation *allocation); /* zeroed or filled */

const char *allocation_name(enum allocation_kind kind); /* "SLURM"; static storage */

#endif
