/* SPDX-License-Identifier: Apache-2.0
 *
 * Context: a rank's engine, in its parts. docs/reference/threading.md describes the threads.
 *
 * User threads submit, wait and register under `lock`, briefly. One thread at a time is the *driver* (the
 * background thread, or one in halay_wait) and does everything else; members that only the driver uses have no lock.
 */
#ifndef HALAY_CONTEXT_H
#define HALAY_CONTEXT_H

#include "base/fork.h"
#include "base/meters.h"
#include "collectives/group/group.h"
#include "collectives/group/world.h"
#include "fusion/protocol/messages.h"
#include "fusion/requests/queue.h"
#include "fusion/requests/set.h"
#include "halay.h"
#include <pthread.h>
#include <stdatomic.h>

struct halay_carrier;
struct halay_driver;
struct halay_elastic;
struct halay_engine;
struct halay_execution;
struct halay_memories;
struct halay_messenger;
struct halay_path;
struct halay_recorder;

enum { HALAY_CONTEXT_ALIGNMENT = 64 }; /* a cache line */

/* The extent of recording (observe/recorder.h): the flight recorder alone, or all that a timeline shows. */
enum halay_recording { HALAY_RECORDS_NOTHING, HALAY_RECORDS_FLIGHT, HALAY_RECORDS_ALL };

struct halay_context {
    struct halay_world *world;       /* owned; left while the messenger is NULL */
    struct halay_elastic *elastic;   /* owned; NULL: neither an elastic job nor state */
    struct halay_memories *memories; /* api/memory.c; guarded by lock; NULL: no block was ever referenced */
    struct halay_process_set all;    /* of all ranks; the first in the list of existing sets */
    struct halay_path *paths;        /* owned: optional ways of a submission (requests/path.h); set once */
    struct halay_carrier *carrier;   /* owned: moves data on devices (requests/carrier.h); set once */
    struct halay_process_set **
        by_number; /* owned: [set_room], the existing ones, except that of all ranks; stored by the driver under lock */
    size_t set_room;
    struct halay_process_set *removed; /* owned: the removed ones; guarded by lock */
    struct halay_link *control;        /* borrowed from world; NULL in a job of one rank without one */
    struct halay_messenger *messenger; /* owned; NULL: the world has been left */
    struct halay_log *log;             /* borrowed from world */
    int rank, size;
    int degree;                             /* of the sets' trees (replay/branch.h); set once */
    unsigned char *is_parent;               /* owned: base/fork.h; set once before start */
    void *(*stream)(void *arg, int device); /* for its groups, as in struct halay_options; set once, as the next */
    void *stream_arg;
    struct halay_driver *driver;       /* engine/driver.h; as long as the context, as the next */
    struct halay_engine *engine;       /* engine/engine.h */
    struct halay_execution *execution; /* run/execution.h */
    struct halay_recorder *recorder;   /* observe/recorder.h */
    /* In the flight recorder's file if there is one, otherwise the recorder's. Set while no driver runs. */
    struct halay_meters *meters;
    _Atomic int recording; /* enum halay_recording; relaxed: the rings are checked again afterwards */

    _Alignas(HALAY_CONTEXT_ALIGNMENT) pthread_mutex_t lock;
    struct halay_queue queue;
    size_t registered;      /* registrations so far; guarded by lock */
    unsigned unnamed_first; /* the first number of `unnamed` in all sets; guarded by lock */
    /* halay_fini was called; stored (release) under lock after the last event, loaded by the driver. */
    _Atomic int is_closing;
    enum halay_status status;       /* of the first failure; guarded by lock, written by the driver */
    int lost;                       /* the rank that failed, -1: unknown; written by the driver */
    int has_lost_sums;              /* that rank has not done its part of what is in flight; driver only */
    char text[HALAY_TEXT_MAX];      /* of the first failure; guarded like status */
    _Atomic int has_left;           /* halay_fini need not wait any longer; stored by the driver (release) */
    _Atomic pthread_t calling_back; /* the thread in a callback, or 0; relaxed: a thread compares only itself */
    int completion_fd;              /* owned; guarded by lock; -1: not requested yet */
    pthread_cond_t waiter_wakes;    /* waiters: a request ended, or the driver's role is free */
    /* A thread listens to peers at all times: rank 0 coordinates sets of which it is not a member. Guarded by lock. */
    int listens;

    /* Each on cache lines of its own. */
    _Alignas(HALAY_CONTEXT_ALIGNMENT) struct halay_waiting waiting;
    /* Driver only. */
    _Alignas(HALAY_CONTEXT_ALIGNMENT) int64_t now_us; /* the clock at the beginning of this step */
    unsigned char *left;                              /* owned: [rank], nonzero after its BYE */
    struct halay_replay *ended_plans;                 /* owned: of sets that have ended (replay/plan.h) */
};

/* Returns nonzero in a forked child, which has neither the engine's thread nor a rank. */
static inline int halay_is_child(const struct halay_context *ctx)
{
    return halay_is_forked(ctx->is_parent);
}

/* Returns nonzero if actions are recorded (observe/recorder.h). */
static inline int halay_recording(const struct halay_context *ctx)
{
    return atomic_load_explicit(&((struct halay_context *)ctx)->recording, memory_order_relaxed);
}

/* Returns nonzero if each submission, wait and sleep is recorded: a timeline is on. */
static inline int halay_recording_all(const struct halay_context *ctx)
{
    return halay_recording(ctx) == HALAY_RECORDS_ALL;
}

#endif
