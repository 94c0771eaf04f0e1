/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: what is to be done next in an elastic job. Pure: it is told what happens and when, and says what follows;
 * job_elastic.c does it. base/store/elastic_words.h has the words between halayrun and the processes.
 *
 * A host has slots; a process that runs, or starts, sits on a seat and takes a slot. The ranks of the newest epoch are
 * its *members*.
 *
 *     seat    FREE -- START --> STARTING -- FORM, as it is ready --> MEMBER
 *             it has ended: FREE           its host is not listed any more: LEAVING, until it has ended
 *
 *     an epoch ends when a member is lost, or when all have been called (CHANGE) since others are ready to join or
 *     seats are to go. The next is formed when all members that live are ready, and, within JOIN_US of that, those that
 *     are starting; at least `least` of them. Members come first, in the order that they had, then the new ones. If
 *     none of them has the job's state, and there was one, the job ends: it would begin anew, and write over what it
 *     has done. So one member stays, though its host is not listed any more, until others have got the state.
 *
 * A host on which a process has failed is used again at once the first time; from the second time on it is left out for
 * a time that doubles. So is one that is lost, from the first time. It is forgiven when nothing has failed there for
 * the longest such time.
 */
#ifndef HALAY_LAUNCHER_ELASTIC_H
#define HALAY_LAUNCHER_ELASTIC_H

#include "base/store/elastic_words.h"
#include "launcher/where/hosts.h"
#include <stdint.h>

enum seat_state { SEAT_FREE, SEAT_STARTING, SEAT_MEMBER, SEAT_LEAVING };

struct elastic_seat {
    enum seat_state state;
    int host;      /* index */
    int rank;      /* in the newest epoch, of a member */
    int is_ready;  /* it waits for a place */
    int has_state; /* with that: it can give the job's state to others */
    int accuses;   /* with that: its seat is to blame for the end of the epoch, -1: nobody's */
    int is_killed; /* it was asked for */
    int is_accused;
    int is_dismissed; /* it was told to leave */
    int is_outside;   /* it leaves, and has had no part in the job yet: nobody waits for it */
    int64_t since_us; /* when it was started, accused, or chosen or told to leave */
};

struct elastic_host {
    char *name; /* owned */
    int slots;  /* 0: not listed now */
    int failures, failed_epoch;
    int64_t failed_us, until_us; /* left out until then */
};

struct elastic_setting {
    int least, most;    /* ranks */
    int64_t timeout_us; /* of the wait for enough of them, and for members that do not come */
    int64_t start_us;   /* how long the first epoch waits for processes that are starting */
    int64_t cooldown_us, cooldown_most_us;
    int reset_limit; /* how often the job may be re-formed; 0: no limit */
};

struct elastic {
    struct elastic_setting setting;
    struct elastic_seat *seats; /* owned: setting.most */
    struct elastic_host *hosts; /* owned */
    size_t host_count;
    int members;                   /* when the newest epoch was formed */
    unsigned epoch;                /* 0: none yet */
    int has_state;                 /* some process has said that it has one */
    int is_broken;                 /* a member of it is lost */
    int has_said_over, has_called; /* of this epoch */
    int is_ending;                 /* a rank has ended with 0, or the job is being ended: no more places */
    int64_t settled_us;            /* since when all members that live are ready; 0: not */
    int64_t gathering_us;          /* since when its members are to come: one is lost, or ready; 0: not */
    char why[256];                 /* of ELASTIC_END, ELASTIC_KILL */
};

enum elastic_act {
    ELASTIC_WAIT,    /* nothing, until something happens or wake_us */
    ELASTIC_START,   /* start a process on `seat` on `host` */
    ELASTIC_OVER,    /* say that the epoch is over */
    ELASTIC_CALL,    /* call for a change of the epoch */
    ELASTIC_KILL,    /* end the process on `seat`, why says why; it is reported as ended later */
    ELASTIC_DISMISS, /* tell the process on `seat`, which is ready, to leave */
    ELASTIC_REFUSE,  /* tell it that there are no places any more */
    ELASTIC_FORM,    /* tell all members their place: seats[].rank of `members` in `epoch` */
    ELASTIC_END,     /* end the job; why says why */
};

struct elastic_next {
    enum elastic_act act;
    int seat, host;
    int64_t wake_us; /* with WAIT; INT64_MAX: not by itself */
};

/* 0: no memory. setting is copied. */
int elastic_init(struct elastic *elastic, const struct elastic_setting *setting);
void elastic_fini(struct elastic *elastic); /* zeroed or made */

/* These are the hosts from now on. 0: no memory. */
int elastic_list(struct elastic *elastic, const struct host_list *hosts, int64_t now_us);
int elastic_find_host(const struct elastic *elastic, const char *name); /* -1: it was never listed */

/* A process was started at the beginning of the job, before anything was asked of next. */
void elastic_seat_taken(struct elastic *elastic, int seat, int host, int64_t now_us);
/* It waits for a place. */
void elastic_ready(struct elastic *elastic, int seat, const struct halay_ready *ready, int64_t now_us);
/* It has ended. Nonzero if the job goes on; zero: it ends, or nobody needs to go on. */
enum elastic_end { ELASTIC_ENDED_WELL, ELASTIC_FAILED, ELASTIC_HOST_LOST };
int elastic_ended(struct elastic *elastic, int seat, enum elastic_end how, int64_t now_us);

/* What is to be done now; called again when it is done, until it is ELASTIC_WAIT. */
struct elastic_next elastic_next(struct elastic *elastic, int64_t now_us);

#endif
