/* SPDX-License-Identifier: Apache-2.0
 *
 * Agent: halayrun on another host. It starts that host's ranks, sends their output and their ends to the halayrun that
 * called it, and leaves no process when that halayrun, or the connection with it, is gone.
 */
#ifndef HALAY_LAUNCHER_AGENT_H
#define HALAY_LAUNCHER_AGENT_H

#include "launcher/local/supervisor.h"

/* Exchanges frames (frame.h) on standard input and output; errors go to standard error. Takes job_run's place on this
 * host, in a process of its own. Of the setting it needs log, lifeline, rank_signals and stopped_ms. Returns 0 when all
 * ranks have ended, however they did, or the exit code of a failed start (reported). */
int agent_run(const struct job_setting *setting);

#endif
