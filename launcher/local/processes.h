/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes: everything that descends from this process, wherever it has hidden itself.
 *
 * A process that has made itself subreaper inherits the orphans below it, so that descendants stay descendants when
 * what started them has ended; neither a new session nor a new process group takes them out of reach.
 */
#ifndef HALAY_LAUNCHER_PROCESSES_H
#define HALAY_LAUNCHER_PROCESSES_H

/* Inherit orphans from now on; 0 if the kernel refuses. */
int processes_become_subreaper(void);

/* Send the signal (0: none) to all descendants; how many there are that have not ended. */
int processes_signal_descendants(int signal);

/* SIGKILL them all and reap them, again and again until none is left; the number of those that could not be ended
 * within ten seconds (stuck in the kernel). */
int processes_end_descendants(void);

#endif
