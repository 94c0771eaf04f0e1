/* SPDX-License-Identifier: Apache-2.0
 *
 * Front: the process that the user started, in front of the one that runs the job.
 */
#ifndef HALAY_LAUNCHER_FRONT_H
#define HALAY_LAUNCHER_FRONT_H

#include "launcher/job/job.h"

/* Forks the job's process, which is run (job_run, agent_run), and stands in front of it until it ends.
 * setting->lifeline, rank0_stdin and rank_signals are filled in here. Returns the exit code. */
int front_run(struct job_setting *setting, int (*run)(const struct job_setting *));

#endif
