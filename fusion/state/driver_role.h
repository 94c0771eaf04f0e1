/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's role: who has it, who sleeps, and which wakes are owed (engine/driver.c). Guarded by the context's lock
 * where not said otherwise.
 */
#ifndef HALAY_DRIVER_ROLE_H
#define HALAY_DRIVER_ROLE_H

#include "fusion/state/role.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct halay_entry;
struct halay_request;

struct halay_driver_role {
    struct halay_role role;  /* who has it, and who has to be woken */
    int64_t drove_us;        /* when somebody gave the role up last */
    int listens;             /* somebody listens to peers at all times: rank 0 serves ranks in which it takes no part */
    int owes_word;           /* the engine has failed, and the messages that say so are on their way */
    _Atomic int is_stopping; /* the thread is to end; written under lock, the driver reads it (relaxed) */
    /* Threads that have unlocked and wake somebody: the context stays until they are through. Added to under lock
     * (relaxed); subtracted with release, for the acquire in halay_driver_stop. */
    _Atomic int leaving;
    pthread_cond_t thread_wakes; /* the background thread: the role is free and there is work, or it is to end */
    pthread_cond_t waiter_wakes; /* waiters: something ended, or the role is free */
    pthread_t thread;            /* set once before start, as are these */
    long spin_thread_us, spin_waiter_us;

    /* Wakes that are owed, because a call is expected to follow at once. */
    int64_t owed_us;            /* since when */
    size_t owed_bytes;          /* of what was submitted since */
    _Atomic int is_owed;        /* written under lock; relaxed: read by the thread that is expected to call */
    struct halay_entry *latest; /* submitted last, and nothing was submitted or waited for since; or NULL */
    int has_left_some;          /* the same of a wait that ended with more in flight */
    int waits_followed;         /* how often in succession another wait followed such a one at once, up to a few */
    _Atomic int64_t called_us;  /* when the last of these calls came, or returned if it took long; relaxed: a hint */
};

/* What the program's threads that wait write for the driver, on a cache line of its own. */
struct halay_waiting {
    /* What a program's thread waits for, for the stall report, or NULL; relaxed: it is looked into under lock only, and
     * a request in halay_wait stays where it is. Of several waiting threads the last one to begin. */
    struct halay_request *_Atomic waited;
    _Atomic int is_ending; /* halay_fini: waits are over; stored under lock, waiters read it (relaxed) */
    /* Calls that wait, of the program's threads: the context stays until they have returned. Subtracted with release,
     * for the acquire in halay_calls_end. */
    _Atomic int calls;
    _Atomic int flush_wanted; /* a waiter waits for something not running; relaxed: the wake orders it */
    _Atomic int waiters; /* threads in halay_wait that don't drive; written under lock, the driver reads it to hand over
                            (relaxed: whoever becomes a waiter leaves news) */
};

#endif
