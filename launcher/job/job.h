/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: the ranks, from their start to the end of the last of their descendants.
 */
#ifndef HALAY_LAUNCHER_JOB_H
#define HALAY_LAUNCHER_JOB_H

#include "launcher/local/supervisor.h"

/* Runs in a process of its own, with all signals blocked. Starts the ranks again with --max-restarts, each time
 * with a store and a secret of its own. Returns halayrun's exit code, once nothing of the job is left. */
int job_run(const struct job_setting *setting);

/* The first cause of a job's failure, as cause_fd of struct job_setting gets it. */
struct job_cause {
    char host[300];   /* "": this one, or none */
    int was_killed;   /* a rank, by a signal */
    const char *text; /* what was reported, "" if nothing was; borrowed from what was read */
};
void job_cause_read(const char *written, struct job_cause *cause);

struct job_watch;

/* Prints how to read the ranks' records, where there are some. watch: what is known of other hosts'; NULL: nothing. */
void job_watch_report_records(const struct job_setting *setting, const struct job_watch *watch);

#endif
