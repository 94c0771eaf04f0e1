/* SPDX-License-Identifier: Apache-2.0
 *
 * Queue: events from user threads to the driver, in order, and the pool of requests. Guarded by the context's lock
 * unless stated otherwise.
 */
#ifndef HALAY_QUEUE_H
#define HALAY_QUEUE_H

#include "halay.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct halay_entry;
struct halay_plan_bucket;
struct halay_request;

enum { HALAY_REASON_MAX = 512 };

enum halay_event_kind {
    HALAY_EVENT_SUBMITTED,
    HALAY_EVENT_CANCELED,
    HALAY_EVENT_READY /* a bucket of a plan: all its tensors are submitted */
};

struct halay_event {
    enum halay_event_kind kind;
    struct halay_request *request;   /* SUBMITTED: borrowed, in flight; CANCELED: a reference */
    struct halay_plan_bucket *ready; /* READY */
};

struct halay_events {
    struct halay_event *events; /* owned */
    size_t count, capacity;
};

struct halay_queue {
    struct halay_events submitted;
    struct halay_events batch;       /* driver only, as are the next: events taken together */
    struct halay_events changes;     /* joins and changes of sets, which wait for the end of plans (replay/replay.h) */
    struct halay_events resubmitted; /* to be taken next: after a plan, or once their data have arrived */
    enum halay_status failed;        /* no memory for what waits for a plan: the engine has to fail */
    _Atomic int has_events; /* the driver has to take events; stored under lock, read by the driver without it */
    struct halay_request *free_requests; /* the pool: requests/requests.c */
    struct request_slab *slabs;          /* owned */
    _Atomic size_t
        in_flight; /* submitted and not ended; written under lock or by the driver, read anywhere (relaxed: a hint) */
    /* Grows when requests have ended; added to (release) by the driver after their statuses, for the acquire in
     * halay_wait_any. */
    _Atomic uint64_t deliveries;
    int *followed;  /* how often the last submission or wait was followed; NULL: that has been counted */
    int is_joined;  /* a join is in flight: no other submission is accepted */
    int is_aborted; /* halay_abort was called, for this reason: */
    char reason[HALAY_REASON_MAX];
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
