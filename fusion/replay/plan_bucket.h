/* SPDX-License-Identifier: Apache-2.0
 *
 * Bucket of a plan.
 */
#ifndef HALAY_PLAN_BUCKET_H
#define HALAY_PLAN_BUCKET_H

#include "fusion/requests/context.h"
#include "fusion/requests/request.h"

struct halay_bucket;
struct halay_replay;

enum halay_plan_bucket_state { HALAY_PLAN_FILLING, HALAY_PLAN_READY, HALAY_PLAN_RUNNING };

/* Never freed or used for anything else before the context ends, because a thread that submits may read it at any time.
 * */
struct halay_plan_bucket {
    /* The program's threads and the driver: steady.h. */
    _Atomic size_t missing;    /* tensors not yet submitted in this turn */
    _Atomic int has_callbacks; /* a submission of this turn has a callback; relaxed: stored before missing */
    /* Numbers of turns; stored by the driver (release). Tensors may be submitted for the turn after `released`; turns
     * up to `completed` are complete. */
    _Alignas(64) _Atomic uint64_t released, completed;

    /* Driver only, unless stated otherwise. */
    _Alignas(64) struct halay_replay *plan; /* borrowed; set once */
    struct halay_entry **entries;           /* borrowed: part of the plan's array; guarded by lock */
    size_t count;                           /* of tensors */
    int has_vote;                           /* it begins with a barrier */
    int is_on_devices;                      /* the ranks' devices reduce it */
    int is_open;                            /* it accepts steady submissions; guarded by lock */
    uint64_t number;                        /* of this turn's collective */
    enum halay_plan_bucket_state state;
    struct halay_plan_bucket *next_ready;
    size_t ordinary;             /* tensors submitted in this turn by ordinary requests */
    struct halay_bucket *bucket; /* borrowed: runs it in each turn; NULL before the first one */
    _Atomic int is_changed;      /* the requests of `bucket` are not the steady ones; relaxed: see attach */
    size_t seen_missing;         /* `missing` at the last check */
    int64_t since_us;            /* when the state, or seen_missing, last changed */
};

#endif
