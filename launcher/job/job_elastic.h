/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's elastic side: does what elastic_policy.h decides, and tells it what happens. A rank of struct job is a seat
 * then, and keeps its number while processes come and go on it.
 *
 * job->elastic is NULL in a job that is not elastic: only takes_end and wait_us may be called then.
 */
#ifndef HALAY_LAUNCHER_JOB_ELASTIC_H
#define HALAY_LAUNCHER_JOB_ELASTIC_H

#include "base/elastic_words.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/job_impl.h"
#include "launcher/where/discover.h"

struct job_elastic {
    struct elastic logic;
    struct discover discover;
    struct halay_seat *waits; /* owned: [seat] as it is ready, and how often */
    int starts;               /* batches of processes started so far */
    int exit_code;            /* of the newest failure */
    int64_t due_us;           /* when there is something to be done; 0: now */
};

/* Hosts and seats of a job that is about to start its first processes. 0 or an exit code (said). */
int job_elastic_init(struct job *job);
void job_elastic_fini(struct job *job);

/* The process on that seat has ended. Nonzero: the job goes on all the same. code: halayrun's, if it does not in the
 * end. */
int job_elastic_takes_end(struct job *job, int seat, enum elastic_end how, int code);
/* Was it told to go? Then its end is no failure, however it ends. */
int job_elastic_is_leaving(const struct job *job, int seat);
/* A child has ended; nonzero if it was the discovery script. */
int job_elastic_reaped(struct job *job, pid_t pid, int status);
/* Do what is due. */
void job_elastic_progress(struct job *job);
int64_t
job_elastic_due(const struct job *job); /* when progress wants to be called, if nothing happens; INT64_MAX: never */
int job_elastic_goes_on(const struct job *job); /* even if nothing runs */
/* The job ends: nobody gets a place any more. */
void job_elastic_stop(struct job *job);

#endif
