/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line by which an MPI's own launcher starts the ranks: what `halayrun --mpi` prints or becomes. Pure.
 *
 * Ranks under mpirun meet through MPI: without a store or a secret, and the line has nothing of the engine's but
 * names of variables. It does not say how MPI moves data, so that UCX stays the default where it is.
 */
#ifndef HALAY_LAUNCHER_MPI_LINE_H
#define HALAY_LAUNCHER_MPI_LINE_H

#include "launcher/common/command_line.h"
#include "launcher/where/hosts.h"

enum mpi_flavour { MPI_NONE, MPI_OPEN_4, MPI_OPEN_5, MPI_MPICH, MPI_INTEL, MPI_SRUN };

/* "openmpi4", "openmpi5", "mpich", "intel", "srun"; MPI_NONE for any other word. */
enum mpi_flavour mpi_flavour_parse(const char *word);
const char *mpi_flavour_name(enum mpi_flavour flavour);    /* "Open MPI 4"; static storage */
const char *mpi_flavour_program(enum mpi_flavour flavour); /* "mpirun", "mpiexec.hydra", "srun" */

/* Identifies the launcher by the output of `mpirun --version` or `srun --version`; MPI_NONE if it is unknown. */
enum mpi_flavour mpi_flavour_of_version(const char *text);

/* The batch system in which an Intel MPI finds its hosts by itself. */
enum mpi_batch { MPI_BATCH_NONE, MPI_BATCH_SLURM, MPI_BATCH_LSF, MPI_BATCH_PBS };

struct mpi_job {
    enum mpi_flavour flavour;
    int ranks;
    const struct host_list *hosts; /* borrowed; NULL: MPI's launcher knows them, or all ranks run here */
    int oversubscribe;             /* more ranks than slots are intended */
    int cores;                     /* for each rank; 0: not bound */
    int is_root;                   /* root starts it */
    int prefix, timestamp;         /* prepended to each line of output */
    enum mpi_batch batch;          /* Intel MPI: MPI_BATCH_NONE if its variables decide */
    const char *installed;         /* Open MPI: the folder of its bin/ on all hosts; NULL: where a login finds it */
    const char *plugin;            /* srun: its plugin for MPI, "pmix"; NULL: its default */
    const char *interface;         /* network interface between the hosts; NULL: MPI finds it */
    const char *ssh;               /* program in place of ssh; NULL: none */
    const char *ssh_args;          /* its arguments, separated by blanks; NULL: none */
    const char *output_folder;     /* NULL: none */
    const char *folder;            /* where ranks start */
    char *const *variables;        /* names of those that ranks need from here; NULL at the end */
    char *const *more;             /* more words for the launcher, NULL at the end; NULL: none */
    const char *as_rank;           /* path of the halayrun that sets ranks' variables (as_rank.h); NULL: none */
    char *const *command;          /* NULL at the end */
};

/* *line, zeroed, becomes the line. HALAY_ERR_ARGUMENT: impossible, why has the reason (one line); HALAY_ERR_NO_MEMORY.
 * Call args_fini on line in any case. */
enum halay_status mpi_line_make(const struct mpi_job *job, struct args *line, char *why, size_t size);

/* Returns what was asked for and this launcher cannot do, though the ranks run without it: a line for each, from 0 on;
 * NULL past the last. Static storage. */
const char *mpi_line_lacks(const struct mpi_job *job, size_t index);

#endif
