/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic policy: what to do next in an elastic job. Pure: it takes what happens and when, and returns what follows;
 * job_elastic.c carries it out. base/store/elastic_keys.h defines the messages between halayrun and the processes.
 *
 * A host has slots. A worker takes a slot while its process starts or runs. The ranks of the newest generation
 * are its *members*.
 *
 *     worker    FREE -- START --> STARTING -- FORM, once it is ready --> MEMBER
 *             its process has ended: FREE     its host is not listed any more: LEAVING, until the process has ended
 *
 * A generation ends when a member is lost, or when all are called (CHANGE) because others are ready to join or some
 * have to leave. The next one is formed once all live members are ready; it waits up to JOIN_US more for those that are
 * starting, and needs at least `least` ranks. Members come first, in their old order, then the new ones. If none of
 * them has the job's state, though there was one, the job ends: it would start over and overwrite its own results.
 * Therefore one member stays until others have the state, even if its host is not listed any more.
 *
 * After its first failure a host is used again at once; from the second on it is left out for a time that doubles. A
 * lost host is left out from the first time. Failures are forgotten when nothing has failed there for the longest such
 * time. Before the first generation a lost process is tried again after 1, 2 and 4 s, if another one is ready; after
 * that, or if none is, its end is the job's.
 */
#ifndef HALAY_LAUNCHER_ELASTIC_POLICY_H
#define HALAY_LAUNCHER_ELASTIC_POLICY_H

#include "base/store/elastic_keys.h"
#include "launcher/where/hosts.h"
#include <stdint.h>

enum worker_state { WORKER_FREE, WORKER_STARTING, WORKER_MEMBER, WORKER_LEAVING };

struct elastic_worker {
    enum worker_state state;
    int host;      /* index */
    int rank;      /* of a member, in the newest generation */
    int is_ready;  /* it waits for a place */
    int has_state; /* valid if ready: it can give the job's state to others */
    int accuses;   /* valid if ready: the worker it blames for the end of the generation, -1: none */
    int is_killed; /* ELASTIC_KILL was returned for it */
    int is_accused;
    int is_dismissed; /* it has the order to leave */
    int is_outside;   /* it leaves without having been part of the job: no rank waits for it */
    int64_t since_us; /* when it was started, accused, chosen, or ordered to leave */
};

struct elastic_host {
    char *name; /* owned */
    int slots;  /* 0: not listed now */
    int failures, failed_generation;
    int64_t failed_us, until_us; /* not used until then */
};

struct elastic_setting {
    int least, most;    /* ranks */
    int64_t timeout_us; /* of the wait for enough ranks, and for members that do not come */
    int64_t start_us;   /* how long the first generation waits for processes that are starting */
    int64_t cooldown_us, cooldown_max_us;
    int reset_limit; /* how often the job may be re-formed; 0: no limit */
};

struct elastic {
    struct elastic_setting setting;
    struct elastic_worker *workers; /* owned: setting.most */
    struct elastic_host *hosts;     /* owned */
    size_t host_count;
    int members;                       /* when the newest generation was formed */
    unsigned generation;               /* 0: none yet */
    int early_failures;                /* processes that were lost before the first generation, and tried again */
    int has_state;                     /* some process has reported that it has one */
    int is_broken;                     /* a member of the generation is lost */
    int has_announced_end, has_called; /* of this generation */
    int is_ending;                     /* a rank has ended with 0, or the job is ending: no more places */
    int64_t settled_us;                /* since when all live members are ready; 0: they are not */
    int64_t gathering_us;              /* since when members are expected: one is lost, or ready; 0: not */
    char why[256];                     /* of ELASTIC_END, ELASTIC_KILL */
};

enum elastic_act {
    ELASTIC_WAIT,    /* nothing, until something happens or wake_us */
    ELASTIC_START,   /* start a process as `worker` on `host` */
    ELASTIC_OVER,    /* announce that the generation is over */
    ELASTIC_CALL,    /* call for a change of the generation */
    ELASTIC_KILL,    /* end the process of `worker`, for the reason in why; its end is reported later */
    ELASTIC_DISMISS, /* tell `worker`, which is ready, to leave */
    ELASTIC_REFUSE,  /* refuse `worker`: all places are taken */
    ELASTIC_FORM,    /* tell all members their place: workers[].rank of `members` in `generation` */
    ELASTIC_END,     /* end the job, for the reason in why */
};

struct elastic_next {
    enum elastic_act act;
    int worker, host;
    int64_t wake_us; /* with WAIT; INT64_MAX: no time limit */
};

/* 0: no memory. setting is copied. */
int elastic_init(struct elastic *elastic, const struct elastic_setting *setting);
void elastic_fini(struct elastic *elastic); /* zeroed or made */

/* The hosts from now on. 0: no memory. */
int elastic_list(struct elastic *elastic, const struct host_list *hosts, int64_t now_us);
int elastic_find_host(const struct elastic *elastic, const char *name); /* -1: it was never listed */

/* A process was started at the beginning of the job, before the first call of elastic_next. */
void elastic_worker_taken(struct elastic *elastic, int worker, int host, int64_t now_us);
/* The process waits for a place. */
void elastic_ready(struct elastic *elastic, int worker, const struct halay_ready *ready, int64_t now_us);
/* The process has ended. Returns nonzero if the job continues; zero if it ends, or is done. */
enum elastic_end { ELASTIC_ENDED_WELL, ELASTIC_FAILED, ELASTIC_HOST_LOST };
int elastic_ended(struct elastic *elastic, int worker, enum elastic_end how, int64_t now_us);

/* Returns what to do now. The caller does it and calls again, until the answer is ELASTIC_WAIT. */
struct elastic_next elastic_next(struct elastic *elastic, int64_t now_us);

#endif
