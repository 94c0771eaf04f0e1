/* SPDX-License-Identifier: Apache-2.0
 *
 * Start: one rank's process.
 */
#ifndef HALAY_LAUNCHER_START_H
#define HALAY_LAUNCHER_START_H

#include "launcher/where/binding.h"
#include <signal.h>
#include <sys/types.h>

struct start {
    int rank, size, local_rank, local_size;
    int elastic;        /* HALAY_ELASTIC; -1: it is not set here */
    char **command;     /* NULL at the end */
    const char *folder; /* that it begins in; NULL: this one */
    const struct binding_map *map;
    const char *store_address;
    int secret_fd;
    int stdin_fd;            /* -1: nothing to read */
    const sigset_t *signals; /* the mask that it begins with */
};

/* Fork and execute. 0 and *pid, the read ends of its standard output and error in streams; or an exit code (said): 127
 * no such program, 126 it cannot be executed, 1 the system refuses. Returns when the program runs. */
int start_rank(const struct start *start, pid_t *pid, int streams[2]);

/* Is there such a folder (NULL: it is this one), and there such a program? 0, or 127 or 126 or, for the folder, 1
 * (said). */
int start_check_program(const char *folder, const char *program);

/* Where PATH has it, in place; 0 if it has not. */
int start_find_program(const char *program, char *place, size_t size);

#endif
