/* SPDX-License-Identifier: Apache-2.0
 *
 * Job, inside view: what job.c, which runs it, and job_start.c, which starts it, share.
 */
#ifndef HALAY_LAUNCHER_JOB_IMPL_H
#define HALAY_LAUNCHER_JOB_IMPL_H

#include "base/net/address.h"
#include "base/store/store.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/job.h"
#include "launcher/local/crew.h"
#include "launcher/local/output.h"
#include "launcher/remote/host_link.h"
#include <poll.h>

enum stage { RUNNING, STOPPING, KILLING, LEAVING };

struct job_elastic; /* job_elastic.c */

/* A rank; in an elastic job a seat. */
struct rank {
    struct host_link *link; /* borrowed from job; NULL: it is here */
    pid_t pid;              /* on its host; 0 as long as it is not known */
    int is_running;
    int start;                /* HALAY_ELASTIC of its process */
    int local;                /* its number among those of this host; -1: it is elsewhere */
    int was_used;             /* there has been a process */
    int is_lost;              /* it has not ended: its host does not answer any more */
    int status;               /* of waitpid, once it has ended */
    struct stream streams[2]; /* standard output, standard error */
};

struct job {
    const struct job_setting *setting; /* borrowed */
    int size, running;                 /* size: ranks, or seats */
    struct rank *ranks;                /* owned */
    struct crew crew;                  /* those that are here */
    struct host_link *links;           /* owned */
    size_t link_count, link_room;
    struct job_elastic *elastic; /* owned; NULL: the job is not elastic */
    struct link_events events;
    struct pollfd *fds; /* owned: FIXED_FDS + sinks + streams + links */
    struct output output;
    struct halay_store_server *store;                    /* owned */
    char store_address[HALAY_ADDRESS_TEXT];              /* for the ranks of this host */
    struct halay_address addresses[HALAY_ADDRESSES_MAX]; /* of the store, for other hosts */
    int address_count;
    unsigned char secret[HALAY_SECRET_BYTES];
    int secret_fd, signal_fd;
    int input_fd; /* what rank 0 on another host is to read; -1: nothing more */
    enum stage stage;
    int64_t deadline_us; /* HALAY_NEVER while RUNNING */
    int stop_signal;     /* halayrun was told to stop by it; 0: not */
    pid_t stop_sender;   /* who has told us of it */
    int64_t stop_us;     /* when */
    int exit_code;
    int suspect; /* a rank that failed, unless another one's end explains it until suspect_us; -1: none */
    int64_t suspect_us;
    int is_orphaned;  /* the front has died */
    int has_given_up; /* the system has let us down, or a killed rank is stuck in the kernel */
};

/* job_start.c: in this order. 0, or an exit code (said). */
size_t job_later_links(const struct job *job); /* for how many more there has to be room */
int job_make_links(struct job *job);           /* one for each place that is elsewhere, and which ranks are its */
int job_open_store(struct job *job);
int job_call_others(struct job *job); /* blocks until the other hosts have answered */
int job_start_all(struct job *job);

/* Of an elastic job: a process for a free seat, on that host, borrowed. 0 or an exit code (said); elsewhere it is only
 * called, and counts as running. */
int job_start_seat(struct job *job, int r, const char *host);
/* The host of a seat has answered: what it shall do. 0 or an exit code (said). */
int job_send_plan(struct job *job, struct host_link *link);

/* job.c, for job_elastic.c */
void job_signal_rank(struct job *job, int r, int signal);
void job_end_others(struct job *job); /* all that run: SIGTERM now, SIGKILL after the grace time */

/* job_elastic.c: does what elastic_policy.h decides, and tells it what happens. job->elastic is NULL in a job that is
 * not elastic; what needs one says so. */

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
/* Do what is due. Elastic only. */
void job_elastic_progress(struct job *job);
/* When progress wants to be called, if nothing happens; INT64_MAX: never. */
int64_t job_elastic_due(const struct job *job);
int job_elastic_goes_on(const struct job *job); /* even if nothing runs */
/* What becomes readable when the discovery script has said something; -1: nothing runs. Elastic only. */
int job_elastic_watched(const struct job *job);
/* The job ends: nobody gets a place any more. */
void job_elastic_stop(struct job *job);

#endif
