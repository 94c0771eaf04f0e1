/* SPDX-License-Identifier: Apache-2.0
 *
 * As rank: a process that mpirun, srun or the like has started as one of several sets the variables that torchrun sets,
 * and becomes the program (halayrun --as-rank).
 */
#ifndef HALAY_LAUNCHER_AS_RANK_H
#define HALAY_LAUNCHER_AS_RANK_H

/* Variables that start a rank, -1 where the launcher does not give them. */
struct rank_variables {
    const char *launcher; /* static */
    int rank, size, local_rank, local_size, node, nodes;
};

/* Reads those of the launcher that started this process. Returns zero if none has. */
int rank_variables_read(struct rank_variables *variables);

/* Returns the number of tasks on a node of a step, by SLURM's list like "2(x3),1"; -1: the list does not have it. */
int slurm_tasks_of_node(const char *list, int node);

/* Sets the variables and executes the command, NULL at the end. Returns only if that fails: an exit code (reported). */
int as_rank_run(char **command);

/* Returns a port for MASTER_PORT, the same for the same text on all hosts. */
int master_port_of(const char *text);

#endif
