/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan: its buckets and their turns. Driver only, where not said otherwise.
 */
#ifndef HALAY_REPLAY_PLAN_H
#define HALAY_REPLAY_PLAN_H

#include "fusion/protocol/answers.h"
#include "fusion/replay/plan_bucket.h"

enum plan_state { PLAN_OFF, PLAN_PLANNED, PLAN_BROKEN, PLAN_FROZEN, PLAN_SETTLING };

struct plan_callback {
    halay_callback callback;
    void *arg;
};

struct halay_replay {
    struct halay_process_set *set;   /* borrowed */
    struct halay_replay *next_ended; /* of those whose set has ended */
    enum plan_state state;
    uint32_t epoch;
    struct halay_plan_bucket **buckets; /* owned array; each is owned and kept, those of earlier plans, too */
    size_t count, made, capacity;       /* of this plan; of all */
    struct halay_entry **entries;       /* owned array; guarded by lock, as is the next */
    struct halay_request **steady;      /* owned array, as long as entries */
    size_t entry_count, entry_capacity;
    struct halay_plan_bucket **ready; /* owned array, as long as buckets: in the order in which they became ready */
    size_t ready_count, running_count;
    uint64_t turn;             /* no bucket has had a turn with this number or a higher one */
    int is_active;             /* all that was given out before has been started: base is known */
    uint64_t base;             /* number of the plan's first collective */
    uint64_t collectives_base; /* the same in the set's own count */
    int is_answer_due;         /* PLAN is to be answered */
    int is_break_due;          /* BREAK is to be sent */
    uint32_t broken_epoch;     /* the last plan of which BREAK was sent, or passed on */
    enum halay_break_reason reason;
    int has_answered;                     /* in this state: ENTERED, SETTLED of this rank is among the answers */
    int answered;                         /* in this state they have been sent */
    struct halay_answers answers;         /* of this rank and those below it */
    int is_resumed;                       /* RESUME has come */
    uint64_t first[HALAY_CHANNELS];       /* settling: what is at or above these is taken back */
    unsigned busy;                        /* bit k: a bucket is under way on channel k */
    uint64_t next[HALAY_CHANNELS];        /* of each channel the collective that this rank enters next */
    uint64_t numbers[HALAY_EPOCH_VALUES]; /* of RESUME */
    struct halay_items early;             /* owned: what came from the coordinator between SETTLED and RESUME */
    enum halay_status failed;             /* no memory: the engine's end */
    uint64_t submissions;                 /* that count in the plan, so far: halay_request.planned */
    int64_t looked_us;                    /* reasons.c */
    struct halay_events kept;             /* owned: submissions that wait for the end of the plan */
    struct plan_callback *callbacks;      /* owned: scratch */
    size_t callback_room;
};

/* Adds a bucket of the plan that comes next. HALAY_ERR_FORMAT: a tensor is not known, or cannot be replayed. */
enum halay_status halay_plan_add(struct halay_process_set *set, const struct halay_item *item);
/* The plan of these buckets is in force. */
void halay_plan_begin(struct halay_replay *p);
/* Takes no steady submissions any more: what the program submits comes as events. */
void halay_plan_leave(struct halay_replay *p);
/* Forgets the plan. */
void halay_plan_clear(struct halay_replay *p);
/* All tensors of a bucket are submitted. */
void halay_plan_set_ready(struct halay_plan_bucket *b);

/* Returns nonzero if that holds for any of its buckets. */
static inline int halay_plan_has_partial(const struct halay_replay *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (halay_plan_is_partial(p->buckets[i]))
            return 1;
    return 0;
}

/* ---- for the engine; driver only ---- */

/* Returns nonzero if a plan is in force whose numbers are not known. */
int halay_replay_is_inactive(const struct halay_process_set *set);
/* Returns nonzero if a plan is in force whose buckets can be entered. */
static inline int halay_replay_is_steady(const struct halay_process_set *set)
{
    return set->replay && set->replay->state == PLAN_PLANNED && set->replay->is_active;
}
/* All that was given out before the plan has been started: its collectives are the next ones of the group. */
void halay_replay_activate(struct halay_process_set *set);
/* Takes the next bucket to be entered, or NULL: the next collective that is started in the group is this one. */
struct halay_plan_bucket *halay_replay_next(struct halay_process_set *set);
/* How many tensors it has, which are submitted, and its number among the set's collectives. */
void halay_replay_members(const struct halay_plan_bucket *b, size_t *count, uint64_t *number);
/* Returns nonzero if a barrier comes first. */
int halay_replay_has_vote(const struct halay_plan_bucket *b);
/* Its number among the group's collectives, until halay_replay_ended: all that it starts in the group has this one. */
uint64_t halay_replay_number(const struct halay_plan_bucket *b);
/* Takes what it ran as last time, NULL: nothing. *is_steady: all its tensors are submitted by their steady requests.
 * *is_same: these are kept's. */
struct halay_bucket *halay_replay_take_kept(struct halay_plan_bucket *b, int *is_steady, int *is_same);
/* Keeps what it has run as for its next turn. */
void halay_replay_keep(struct halay_plan_bucket *b, struct halay_bucket *ended);
/* It runs as this. */
void halay_replay_entered(struct halay_plan_bucket *b, struct halay_bucket *running);
/* It has completed. Returns nonzero if its steady requests end with halay_replay_deliver, and only the ordinary ones by
 * themselves. */
int halay_replay_ended(struct halay_plan_bucket *b);
/* The request of its tensor number i that is in flight. */
struct halay_request *halay_replay_request(const struct halay_plan_bucket *b, size_t i);
/* Of its requests the steady ones end: they may be submitted again, their callbacks are called, they are complete. No
 * lock held. Returns how many. */
size_t halay_replay_deliver(struct halay_plan_bucket *b, struct halay_request *const *requests,
                            void (*call)(struct halay_context *ctx, halay_callback callback, void *arg));
/* Takes the next bucket that runs and is to be taken back, or NULL. */
struct halay_bucket *halay_replay_take_back(struct halay_process_set *set);
/* Returns nonzero if a bucket of the set is ready to be entered. */
int halay_replay_has_ready(const struct halay_process_set *set);

/* The engine has failed: all plans are forgotten. Requests are the caller's business. */
void halay_replay_drop(struct halay_context *ctx);
void halay_replay_end(struct halay_process_set *set);  /* the set ends */
void halay_replay_free_all(struct halay_context *ctx); /* the context ends */

/* ---- steady submissions ---- */

/* Returns nonzero if the tensor is in a plan that takes steady submissions. */
int halay_replay_takes_steady_locked(const struct halay_entry *entry);
/* From now on this request serves the tensor in its plan. */
void halay_replay_attach_locked(struct halay_entry *entry, struct halay_request *request);
/* That request, which is not in flight, leaves the plan. */
void halay_replay_detach_locked(struct halay_entry *entry, struct halay_request *request);

#endif
