/* SPDX-License-Identifier: Apache-2.0
 *
 * The line by which an MPI's own launcher starts the ranks: what `halayrun --mpi` prints or becomes. Pure.
 *
 * Ranks under mpirun meet through MPI: no store, no secret, and nothing of the engine's on the line but the names of
 * variables. Nothing is said about how MPI moves data, so that UCX stays on where it is the default.
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

/* What `mpirun --version` or `srun --version` has written says which it is; MPI_NONE if it is none of these. */
enum mpi_flavour mpi_flavour_of_version(const char *text);

/* The batch system whose hosts an Intel MPI is to find by itself. */
enum mpi_batch { MPI_BATCH_NONE, MPI_BATCH_SLURM, MPI_BATCH_LSF, MPI_BATCH_PBS };

struct mpi_job {
    enum mpi_flavour flavour;
    int ranks;
    const struct host_list *hosts; /* borrowed; NULL: MPI's launcher knows them, or all are here */
    int oversubscribe;             /* more ranks than slots are meant */
    int cores;                     /* for each rank alone; 0: not bound */
    int is_root;                   /* it is root who starts it */
    int prefix, timestamp;         /* of each line of output */
    enum mpi_batch batch;          /* Intel MPI: MPI_BATCH_NONE if its variables say what it is to do */
    const char *installed;         /* Open MPI: the folder with its bin on all hosts; NULL: where a login finds it */
    const char *plugin;            /* srun: which of its own for MPI, "pmix"; NULL: the one it takes by itself */
    const char *interface;         /* of the network between the hosts; NULL: MPI finds it */
    const char *ssh;               /* program in place of ssh; NULL: none */
    const char *ssh_args;          /* words for it, blanks between; NULL: none */
    const char *output_folder;     /* NULL: none */
    const char *folder;            /* that ranks begin in */
    char *const *variables;        /* names of those that ranks need from here; NULL at the end */
    char *const *more;             /* words for the launcher, NULL at the end; NULL: none */
    char *const *command;          /* NULL at the end */
};

/* *line, zeroed, becomes the line. HALAY_ERR_ARGUMENT: it cannot be had, why says what (one line); HALAY_ERR_NO_MEMORY.
 * line can be given to words_fini in any case. */
enum halay_status mpi_line_make(const struct mpi_job *job, struct words *line, char *why, size_t size);

/* What is asked for and this launcher cannot do, though the ranks run without it: one line for each, in turn from index
 * 0; NULL behind the last. Static storage. */
const char *mpi_line_lacks(const struct mpi_job *job, size_t index);

#endif
