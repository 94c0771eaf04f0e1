/* SPDX-License-Identifier: Apache-2.0
 *
 * Local ranks: those that this process started itself, each the leader of a process group. Signals them, reaps them,
 * and ends the processes they leave. The job has one such table, and so has the agent on another host.
 *
 * One thread. A group is signalled only until its leader is reaped: after that its number may belong to others.
 */
#ifndef HALAY_LAUNCHER_LOCAL_RANKS_H
#define HALAY_LAUNCHER_LOCAL_RANKS_H

#include <sys/types.h>

struct local_ranks {
    pid_t *leaders; /* owned: [member] its process; 0: it does not run */
    int count;
};

/* Returns 0 without memory. */
int local_ranks_init(struct local_ranks *ranks, int count);
void local_ranks_fini(struct local_ranks *ranks); /* zeroed or made; ends no process */

/* Blocks all signals and returns a descriptor of them (base/loop.h), which the caller closes. -1: see errno. */
int local_ranks_open_signals(void);

void local_ranks_add(struct local_ranks *ranks, int member, pid_t leader);
/* Ignores a member that does not run. */
void local_ranks_signal_one(const struct local_ranks *ranks, int member, int signal);
void local_ranks_signal(const struct local_ranks *ranks, int signal);

/* Reaps a child that has ended: returns its pid, and its status from waitpid; *member is -1 if it is not a rank (an
 * orphan, an ssh). 0 if none has ended; never waits. */
pid_t local_ranks_reap(struct local_ranks *ranks, int *member, int *status);

/* After the last member has ended: SIGTERM to all descendants of this process; then `turn`, one turn of the caller's
 * loop, until it returns 0 or nothing is left; then SIGKILL. turn NULL: SIGKILL at once. Returns how many processes
 * could not be ended. */
int local_ranks_end_leftovers(int (*turn)(void *context), void *context);

#endif
