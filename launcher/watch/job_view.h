/* SPDX-License-Identifier: Apache-2.0
 *
 * Job view: what is published of a job: as metrics for Prometheus, and as JSON (docs/guides/observability.md).
 */
#ifndef HALAY_LAUNCHER_JOB_VIEW_H
#define HALAY_LAUNCHER_JOB_VIEW_H

#include "launcher/watch/sample.h"

/* The state of a rank's process. */
enum rank_end { RANK_RUNS, RANK_HAS_ENDED, RANK_IS_LOST, RANK_IS_NOT_STARTED, RANK_IS_NOT_HERE };

struct rank_view {
    const char *host;
    enum rank_end end;
    int exit_code; /* once it has ended: as a shell has it, 128 + n after signal n; -1: another program knows it */
    struct rank_sample sample;
    double age_s; /* of the sample */
};

struct host_view {
    const char *host;
    struct host_sample sample;
};

struct job_view {
    const char *stage;   /* "running", "stopping" */
    const char *pattern; /* of the ranks' records, on their hosts */
    double seconds;      /* since its start */
    int restarts;
    size_t rank_count, host_count;
    const struct rank_view *ranks;
    const struct host_view *hosts;
};

/* Prometheus' text, version 0.0.4. Freed with free(); NULL: no memory. */
char *job_view_metrics(const struct job_view *job);
/* {"job": {...}, "ranks": [...]}, as above; and the first part alone. */
char *job_view_ranks(const struct job_view *job);
char *job_view_health(const struct job_view *job);

#endif
