/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: the ranks, from their start to the end of the last of their descendants.
 */
#ifndef HALAY_LAUNCHER_JOB_H
#define HALAY_LAUNCHER_JOB_H

#include "launcher/local/front.h"

/* Runs in a process of its own, with all signals blocked. Starts the ranks again with --max-restarts, each time
 * with a store and a secret of its own. Returns halayrun's exit code, once nothing of the job is left. */
int job_run(const struct job_setting *setting);

struct job_watch;

/* Prints how to read the ranks' records, where there are some. watch: what is known of other hosts'; NULL: nothing. */
void job_watch_say_records(const struct job_setting *setting, const struct job_watch *watch);

#endif
