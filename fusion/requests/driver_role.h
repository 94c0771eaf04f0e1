/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's role: the thread that has it, sleeping threads, and deferred wakes (engine/driver.c). Guarded by the
 * context's lock unless stated otherwise.
 */
#ifndef HALAY_DRIVER_ROLE_H
#define HALAY_DRIVER_ROLE_H

#include "fusion/requests/role.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct halay_entry;
struct halay_request;

struct halay_driver_role {
    struct halay_role role;  /* the thread that has it, and threads to be woken */
    int64_t drove_us;        /* when a thread last released the role */
    int must_send;           /* messages are being sent although nothing is pending: must_send in engine/driver.c */
    _Atomic int is_stopping; /* the thread is to end; written under lock, the driver reads it (relaxed) */
    /* Threads that have unlocked and are waking another one: the context stays until they have finished. Added to under
     * lock (relaxed); subtracted with release, for the acquire in halay_driver_stop. */
    _Atomic int leaving;
    pthread_cond_t thread_wakes; /* the background thread: the role is free and there is work, or it is to end */
    pthread_t thread;            /* set once before start, as are these */
    long spin_thread_us, spin_waiter_us;

    /* Wakes deferred because another call is expected to follow at once. */
    int64_t deferred_us;          /* when the first of them was deferred */
    size_t deferred_bytes;        /* bytes of the submissions since then */
    _Atomic int is_wake_deferred; /* written under lock; relaxed: read by the thread that is expected to call */
    int has_left_some;            /* the last wait ended with requests in flight, and no call has followed */
    int waits_followed;           /* how often in succession another wait followed at once, up to a few */
    int calls_back;               /* a submission had a callback: the program may make no call after its last wait */
    _Atomic int64_t called_us;    /* when the last of these calls began, or returned if it took long; relaxed: a hint */
};

/* Written by waiting threads of the program for the driver, on a cache line of its own. */
struct halay_waiting {
    /* A request that a thread of the program waits for, for the stall report, or NULL; relaxed: dereferenced under lock
     * only, and a request in halay_wait is not freed. Of several waiting threads that of the last one to begin. */
    struct halay_request *_Atomic waited;
    _Atomic int is_ending; /* halay_fini: waits are over; stored under lock, waiters read it (relaxed) */
    /* Blocking calls of the program's threads: the context stays until they have returned. Subtracted with release, for
     * the acquire in halay_calls_end. */
    _Atomic int calls;
    _Atomic int flush_wanted; /* a waiter waits for a tensor that is not running; relaxed: the wake orders it */
    _Atomic int waiters; /* threads in halay_wait that don't drive; written under lock, the driver reads it to hand over
                            (relaxed: a new waiter sets has_news) */
};

#endif
