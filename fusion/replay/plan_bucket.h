/* SPDX-License-Identifier: Apache-2.0
 *
 * Bucket of a plan. For the files of this folder.
 */
#ifndef HALAY_PLAN_BUCKET_H
#define HALAY_PLAN_BUCKET_H

#include "fusion/state/context.h"
#include "fusion/state/request.h"

struct halay_bucket;
struct halay_replay;

enum halay_plan_bucket_state { HALAY_PLAN_FILLING, HALAY_PLAN_READY, HALAY_PLAN_RUNNING };

/* Its memory is a bucket's as long as the context lives: a thread that submits may look at it at any time. */
struct halay_plan_bucket {
    /* The program's threads and the driver: steady.h. */
    _Atomic size_t missing;     /* tensors that are not submitted in this turn */
    _Atomic uint64_t callbacks; /* submissions of this turn that have one */
    /* Stored by the driver (release): turns after which the tensors may be submitted again; that are complete. */
    _Alignas(64) _Atomic uint64_t released, completed;

    /* Driver only, where not said otherwise. */
    _Alignas(64) struct halay_replay *plan; /* borrowed; set once */
    struct halay_entry **entries;           /* borrowed: of the plan's; guarded by lock, as is the next */
    struct halay_request **steady;          /* borrowed: of the plan's array: each tensor's, or NULL */
    size_t count;                           /* of tensors */
    int has_vote;                           /* a barrier comes first */
    int is_on_devices;                      /* the devices of the ranks reduce it */
    int is_open;                            /* steady submissions are taken; guarded by lock */
    uint64_t number;                        /* the collective of this turn */
    enum halay_plan_bucket_state state;
    size_t ordinary;              /* tensors that were submitted in this turn by other requests */
    int is_counted;               /* its steady submissions count as in flight */
    struct halay_bucket *running; /* borrowed while it runs */
    struct halay_bucket *kept;    /* borrowed from its end to its next turn: what it ran as */
    _Atomic int is_changed;       /* kept has other requests than the steady ones; relaxed: see attach */
    size_t seen_missing;          /* at the last look, and since when that holds */
    int64_t since_us;             /* since when it is in this state, or lacks this many */
};

/* Returns nonzero if some of its tensors are submitted and others are not. */
static inline int halay_plan_is_partial(const struct halay_plan_bucket *b)
{
    size_t missing = atomic_load_explicit(&((struct halay_plan_bucket *)b)->missing, memory_order_relaxed);

    return b->state == HALAY_PLAN_FILLING && missing && missing < b->count;
}

#endif
