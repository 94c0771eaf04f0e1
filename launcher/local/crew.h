/* SPDX-License-Identifier: Apache-2.0
 *
 * Crew: the ranks that this process itself has started, each the leader of a process group: signalled, reaped, and what
 * they leave behind ended. Halayrun's job and the agent on another host have one each.
 *
 * One thread. A group is signalled only while its leader has not been reaped: its number cannot have been given away
 * then.
 */
#ifndef HALAY_LAUNCHER_CREW_H
#define HALAY_LAUNCHER_CREW_H

#include <sys/types.h>

struct crew {
    pid_t *leaders; /* owned: of each member that runs; 0: it does not */
    int count;
};

/* For so many members. 0 if there is no memory. */
int crew_init(struct crew *crew, int count);
void crew_fini(struct crew *crew); /* zeroed or made; ends nobody */

/* A descriptor that signals are read from, all of which are blocked already; -1: errno says why. The caller closes
 * it. */
int crew_open_signals(void);

void crew_add(struct crew *crew, int member, pid_t leader);
void crew_signal_one(const struct crew *crew, int member, int signal); /* nothing happens if it does not run */
void crew_signal(const struct crew *crew, int signal);

/* A child that has ended, without waiting for one: its pid, and its status of waitpid; *member is -1 if it was nobody
 * of the crew (an orphan that was ours to reap, an ssh). 0 if there is none. */
pid_t crew_reap(struct crew *crew, int *member, int *status);

/* When no member runs any more: SIGTERM to all that descends from this process; `turn` (a piece of the caller's loop)
 * is called until it returns 0 or nothing is left; then SIGKILL. turn may be NULL: SIGKILL at once. The number of those
 * that cannot be ended. */
int crew_end_leftovers(int (*turn)(void *context), void *context);

#endif
