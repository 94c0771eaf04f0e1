/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan: its buckets and their turns. Driver only, unless stated otherwise.
 */
#ifndef HALAY_REPLAY_PLAN_H
#define HALAY_REPLAY_PLAN_H

#include "fusion/protocol/replay.h"
#include "fusion/replay/plan_bucket.h"

enum plan_state { PLAN_OFF, PLAN_PLANNED, PLAN_BROKEN, PLAN_FROZEN, PLAN_SETTLING };

struct plan_callback {
    halay_callback callback;
    void *arg;
};

struct halay_replay {
    struct halay_process_set *set;   /* borrowed */
    struct halay_replay *next_ended; /* in the list of plans whose sets have ended */
    enum plan_state state;
    uint32_t epoch;
    struct halay_plan_bucket **buckets; /* owned array of owned buckets, those of earlier plans included */
    size_t count, made, capacity;       /* buckets of this plan; all buckets; room for buckets */
    struct halay_entry **entries;       /* owned array: the plan's tensors; guarded by lock */
    size_t entry_count, entry_capacity;
    struct halay_plan_bucket *ready;      /* borrowed list, in the order in which they became ready */
    struct halay_plan_bucket **ready_end; /* where the next one is added */
    uint64_t turn;                        /* all turns of earlier plans have lower numbers */
    int is_active;                        /* the buckets dispatched before the plan have been started: base is known */
    uint64_t base;                        /* number of the plan's first collective in the group */
    uint64_t collectives_base;            /* the set's collectives before the plan */
    int is_answer_due;                    /* the answer to PLAN is to be sent */
    uint32_t broken_epoch;                /* the last plan for which this rank has sent or forwarded BREAK */
    enum halay_break_reason reason;
    int has_answered;                /* `answers` contains this rank's ENTERED or SETTLED */
    int answered;                    /* `answers` has been sent */
    struct halay_answers answers;    /* ENTERED or SETTLED of this rank and those below it in the tree */
    uint64_t first[HALAY_CHANNELS];  /* settling: of each channel the first bucket to be taken back */
    unsigned busy;                   /* bit k: a bucket is running on channel k */
    uint64_t next[HALAY_CHANNELS];   /* of each channel the collective that this rank enters next */
    struct halay_items early;        /* owned: items from the coordinator between SETTLED and RESUME */
    uint64_t submissions;            /* counted in the plan so far, for halay_request.sequence */
    int64_t looked_us;               /* time of the last check in reasons.c */
    struct halay_events kept;        /* owned: submissions deferred until the plan has ended */
    struct plan_callback *callbacks; /* owned: scratch */
    size_t callback_room;
};

/* Adds a bucket to the next plan. HALAY_ERR_FORMAT: a tensor is unknown, or cannot be replayed. */
enum halay_status halay_plan_add(struct halay_process_set *set, const struct halay_item *item);
/* Puts the plan of these buckets in force. */
void halay_plan_begin(struct halay_replay *p);
/* Ends steady submissions: from now on the program's submissions arrive as events. */
void halay_plan_leave(struct halay_replay *p);
/* Forgets the plan. */
void halay_plan_clear(struct halay_replay *p);
/* Marks a bucket as ready: all its tensors have been submitted. */
void halay_plan_set_ready(struct halay_plan_bucket *b);

/* ---- for the engine; driver only ---- */

/* Returns nonzero if a plan is in force, and the numbers of its collectives are not known yet. */
int halay_replay_is_inactive(const struct halay_process_set *set);
/* Returns nonzero if a plan is in force whose buckets can be entered. */
static inline int halay_replay_is_steady(const struct halay_process_set *set)
{
    return set->replay && set->replay->state == PLAN_PLANNED && set->replay->is_active;
}
/* Numbers the plan's collectives as the next ones of the group. Called once the buckets dispatched before the plan have
 * been started. */
void halay_replay_activate(struct halay_process_set *set);
/* Takes the next bucket to be entered, or NULL. The next collective started in the group must be the bucket's. */
struct halay_plan_bucket *halay_replay_next(struct halay_process_set *set);
/* Returns nonzero if b->bucket has the requests of this turn: steady ones, like those of the last turn. Called once a
 * turn. */
int halay_replay_is_same(struct halay_plan_bucket *b);
/* Notes the completion of a turn. Returns nonzero if halay_replay_deliver ends the steady requests, so that the caller
 * ends only the ordinary ones. */
int halay_replay_ended(struct halay_plan_bucket *b);
/* Returns the request in flight of the bucket's tensor i. */
struct halay_request *halay_replay_request(const struct halay_plan_bucket *b, size_t i);
/* Ends the steady requests of a turn: first they may be submitted again, then their callbacks are called, then they are
 * complete. No lock held. Returns the number of these requests. */
size_t halay_replay_deliver(struct halay_plan_bucket *b, struct halay_request *const *requests,
                            void (*call)(struct halay_context *ctx, halay_callback callback, void *arg));
/* Returns the next running bucket that is to be taken back, or NULL. */
struct halay_bucket *halay_replay_take_back(struct halay_process_set *set);
/* Returns nonzero if a bucket of the set is ready to be entered. */
int halay_replay_has_ready(const struct halay_process_set *set);

/* Forgets all plans, because the engine has failed. The caller ends the requests. */
void halay_replay_drop(struct halay_context *ctx);
void halay_replay_end(struct halay_process_set *set);  /* the set ends */
void halay_replay_free_all(struct halay_context *ctx); /* the context ends */

#endif
