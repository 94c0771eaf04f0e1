/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes: all descendants of this process.
 *
 * A subreaper inherits the orphans below it, so that they stay descendants when their parents have ended. Neither a new
 * session nor a new process group puts them out of reach.
 */
#ifndef HALAY_LAUNCHER_PROCESSES_H
#define HALAY_LAUNCHER_PROCESSES_H

#include <signal.h>

#define STACKS_SIGNAL (SIGRTMAX - 2) /* HALAY_STACKS_SIGNAL of halay_tools.h */

/* Inherits orphans from now on; returns 0 if the kernel refuses. */
int processes_become_subreaper(void);

/* Sends the signal (0: none) to all descendants; returns how many have not ended. */
int processes_signal_descendants(int signal);

/* Sends STACKS_SIGNAL to those that have a handler of it, as Python programs with halay do. Returns their number. */
int processes_show_stacks(void);

/* SIGKILL and reap them until none is left; returns how many could not be ended within ten seconds (stuck in the
 * kernel). */
int processes_end_descendants(void);

#endif
