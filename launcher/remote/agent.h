/* SPDX-License-Identifier: Apache-2.0
 *
 * Agent: halayrun on another host. It starts that host's ranks, sends their output and their ends to the halayrun that
 * called it, and leaves nothing behind when that one, or the connection with it, has gone.
 */
#ifndef HALAY_LAUNCHER_AGENT_H
#define HALAY_LAUNCHER_AGENT_H

#include "launcher/local/front.h"

/* Speaks frames (frame.h) on standard input and output; what it has to complain about goes to standard error. Runs in a
 * process of its own like job_run, which is in place of it there; of the setting it needs log, lifeline, rank_signals
 * and stopped_ms. Returns 0 when all ranks have ended, whatever became of them, or the exit code of a start that failed
 * (said). */
int agent_run(const struct job_setting *setting);

#endif
