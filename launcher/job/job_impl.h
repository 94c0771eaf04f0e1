/* SPDX-License-Identifier: Apache-2.0
 *
 * Job, inside view: shared by job.c, which runs it, job_start.c, which starts it, job_restart.c, which starts it again,
 * and job_elastic.c.
 */
#ifndef HALAY_LAUNCHER_JOB_IMPL_H
#define HALAY_LAUNCHER_JOB_IMPL_H

#include "base/loop.h"
#include "base/net/address.h"
#include "base/store/host_ranks.h"
#include "base/store/store.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/job.h"
#include "launcher/local/local_ranks.h"
#include "launcher/local/master.h"
#include "launcher/local/output.h"
#include "launcher/remote/host_link.h"
#include "launcher/where/binding.h"

enum job_stage { JOB_RUNNING, JOB_STOPPING, JOB_KILLING, JOB_LEAVING };

/* Why all ranks may be started again. */
enum job_again { JOB_IS_OVER, JOB_HAS_FAILED, JOB_GROWS };

struct job_elastic; /* job_elastic.c */
struct job_watch;   /* job_watch.c */

/* A rank; in an elastic job, a worker. */
struct rank {
    struct host_link *link; /* borrowed from job; NULL: it runs here */
    pid_t pid;              /* on its host; 0: not known yet */
    int is_running;
    int start;                /* HALAY_ELASTIC of its process */
    int local;                /* its number among the ranks of its host; -1: nothing was started on it */
    int was_used;             /* a process was started on it before */
    int is_lost;              /* it has not ended, but its host is lost */
    int status;               /* from waitpid, once it has ended */
    struct stream streams[2]; /* standard output, standard error */
};

struct job {
    const struct job_setting *setting; /* borrowed */
    int restarts;                      /* how often the ranks were started before */
    int size, running;                 /* size: ranks, or workers */
    struct rank *ranks;                /* owned */
    struct local_ranks local_ranks;    /* the ranks that run here */
    struct host_link *links;           /* owned */
    size_t link_count, link_room;
    struct job_elastic *elastic; /* owned; NULL: the job is not elastic */
    struct binding_map unbound;  /* for what is started beyond the ranks that setting->map is for */
    struct link_events events;
    struct halay_loop loop;
    size_t turns;   /* of the loop */
    int has_output; /* a rank of this host has written */
    struct output output;
    struct halay_store_server *store;                    /* owned */
    char store_address[HALAY_ADDRESS_TEXT];              /* for the ranks of this host */
    struct halay_address addresses[HALAY_ADDRESSES_MAX]; /* of the store, for other hosts */
    int address_count;
    struct master master; /* without a port until rank 0's host has found one */
    unsigned char secret[HALAY_SECRET_BYTES];
    int secret_fd, signal_fd;
    struct halay_host_ranks host_ranks; /* empty: none here, or the job is elastic */
    int input_fd;                       /* what rank 0 on another host reads; -1: no more */
    enum job_stage stage;
    int64_t deadline_us;    /* HALAY_NEVER while JOB_RUNNING */
    int stop_signal;        /* the signal by which halayrun is to stop; 0: none */
    pid_t stop_sender;      /* the process that sent it */
    int64_t stop_us;        /* when it arrived */
    struct join_door *door; /* borrowed: where more nodes may come; NULL: none may */
    int is_growing;         /* nodes have come, and the ranks are ended to be started again with them */
    int exit_code;
    int suspect; /* a rank that failed, unless the end of another explains it by suspect_us; -1: none */
    int64_t suspect_us;
    struct job_watch *watch; /* borrowed; NULL: neither --metrics nor --events */
    int is_orphaned;         /* the supervisor has died */
    int has_given_up;        /* a system call failed, or a killed rank is stuck in the kernel */
};

/* job_start.c, in this order. 0, or an exit code (reported). */
int job_make_links(struct job *job); /* one for each place on another host, with its ranks */
int job_open_store(struct job *job);
int job_open_call(struct job *job);   /* job_call.c: where --call is given */
int job_call_others(struct job *job); /* blocks until the other hosts have answered */
int job_start_all(struct job *job);
/* Rank 0's host has found the master: the others may start. 0, or an exit code (reported). */
int job_take_master(struct job *job, const char *address, int port);

/* Elastic jobs: start a process as a free worker on that host, borrowed. 0 or an exit code (reported). A process
 * elsewhere is only requested here, and counts as running. */
int job_start_worker(struct job *job, int r, const char *host);
/* The host of a worker has answered: send it what to start. 0 or an exit code (reported). */
int job_send_plan(struct job *job, struct host_link *link);

/* job.c, for job_restart.c: start the ranks once, and run them to their end. Returns the exit code. *again:
 * JOB_HAS_FAILED if a rank has failed, and halayrun has no signal to stop. */
int job_run_once(const struct job_setting *setting, struct job_watch *watch, int restarts, enum job_again *again);

/* job.c, for job_elastic.c */
void job_signal_rank(struct job *job, int r, int signal);
void job_end_others(struct job *job); /* all that run: SIGTERM now, SIGKILL after the grace time */

/* job_elastic.c: carries out what elastic_policy.h decides, and reports events to it. job->elastic is NULL if the job
 * is not elastic; functions that need it are marked. */

/* Hosts and workers, before the first processes start. 0 or an exit code (reported). */
int job_elastic_init(struct job *job);
void job_elastic_fini(struct job *job);

/* The process of that worker has ended. Returns nonzero if the job continues. code: halayrun's exit code if it cannot
 * continue later. */
int job_elastic_takes_end(struct job *job, int worker, enum elastic_end how, int code);
/* Returns nonzero if it has the order to leave: its end is not a failure then. */
int job_elastic_is_leaving(const struct job *job, int worker);
/* Returns the number of slots of the host of that worker. Elastic only. */
int job_elastic_slots(const struct job *job, int worker);
/* A child has ended; nonzero if it is the discovery script. */
int job_elastic_reaped(struct job *job, pid_t pid, int status);
/* Does what is due. Elastic only. */
void job_elastic_progress(struct job *job);
/* When job_elastic_progress must be called at the latest; INT64_MAX: never. */
int64_t job_elastic_due(const struct job *job);
int job_elastic_continues(const struct job *job); /* even if nothing runs */
/* Readable when the discovery script has printed something; -1: none runs. Elastic only. */
int job_elastic_fd(const struct job *job);
/* Refuses processes that ask for a place, since the job ends. */
void job_elastic_stop(struct job *job);

/* job_watch.c: publishes the job's state while it runs (--metrics) and its events (--events). It outlives restarts. */

/* 0, or an exit code (reported). *watch is NULL if nothing is wanted; all other calls allow that. */
int job_watch_create(const struct job_setting *setting, struct job_watch **watch);
/* The next start has this number of ranks. 0, or an exit code (reported). */
int job_watch_resize(struct job_watch *watch, int ranks);
/* keeps: records that halayrun had the ranks write stay, since the job has failed. */
void job_watch_destroy(struct job_watch *watch, int keeps);

/* The job that runs now; NULL: none does. */
void job_watch_follow(struct job_watch *watch, const struct job *job);

/* Returns the descriptor to poll for input (-1: none), and for how long at most (below 0: no limit). A turn follows
 * each poll. */
int job_watch_fd(const struct job_watch *watch);
int job_watch_patience_ms(struct job_watch *watch);
void job_watch_turn(struct job_watch *watch);

/* The pattern of the ranks' records, "" if they are not sampled; nonzero: they stay. */
const char *job_watch_record(const struct job_watch *watch, int *keeps);
/* A sample of another host; as in struct link_events. */
void job_watch_take(struct job_watch *watch, const struct host_link *link, int rank, const void *bytes, size_t count);

/* Takes the record of a rank on another host; without bytes: it has no record. */
void job_watch_take_record(struct job_watch *watch, int rank, const void *bytes, size_t count);

/* Something has happened: a line for --events. format and what follows: as json_pack has it, an object. */
void job_watch_event(struct job_watch *watch, const char *event, const char *format, ...);
/* Returns the first event of a failure, borrowed; NULL: no rank has failed. */
struct json_t *job_watch_first_failure(const struct job_watch *watch);

#endif
