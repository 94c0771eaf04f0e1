/* SPDX-License-Identifier: Apache-2.0
 *
 * Start: the process of one rank.
 */
#ifndef HALAY_LAUNCHER_START_H
#define HALAY_LAUNCHER_START_H

#include "launcher/local/master.h"
#include "launcher/where/binding.h"
#include <signal.h>
#include <sys/types.h>

struct start {
    int rank, size, local_rank, local_size;
    int world;       /* ranks of the job, as WORLD_SIZE; 0: RANK and WORLD_SIZE cannot be known yet */
    int node, nodes; /* its host's number, as GROUP_RANK, and how many hosts there are */
    const struct master *master;
    int elastic;        /* HALAY_ELASTIC; -1: not set here */
    char **command;     /* NULL at the end */
    const char *folder; /* the folder it starts in; NULL: this one */
    const struct binding_map *map;
    const char *store_address;
    int secret_fd;
    int host_ranks_fd;       /* -1: none */
    int stdin_fd;            /* -1: nothing to read */
    const sigset_t *signals; /* the signal mask it starts with */
};

/* Forks and executes. Returns 0, with *pid and the read ends of its standard output and error in streams; or an exit
 * code (reported): 127 no such program, 126 it cannot be executed, 1 a system call failed. Returns when the program
 * runs. */
int start_rank(const struct start *start, pid_t *pid, int streams[2]);

/* Does the folder exist (NULL: this one), and the program in it? 0, or 127, 126 or, for the folder, 1 (reported). */
int start_check_program(const char *folder, const char *program);

/* Searches PATH for it. Returns 0 if it is not there. */
int start_find_program(const char *program, char *place, size_t size);

#endif
