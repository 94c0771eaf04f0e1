/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: its state, and what the files of this folder call of each other.
 */
#ifndef HALAY_COORDINATOR_STATE_H
#define HALAY_COORDINATOR_STATE_H

#include "fusion/coordinator/capture.h"
#include "fusion/coordinator/coordinator_options.h"
#include "fusion/coordinator/tensor_entry.h"
#include "fusion/protocol/replay.h"
#include <stdatomic.h>

enum halay_replay_root_state {
    HALAY_ROOT_NEGOTIATES,
    HALAY_ROOT_PLANNED,  /* a plan is in force */
    HALAY_ROOT_BROKEN,   /* a rank has to leave it; not all ranks have answered PLAN */
    HALAY_ROOT_FREEZING, /* FREEZE was sent; not all ranks have answered ENTERED */
    HALAY_ROOT_SETTLING, /* COMPLETE was sent; not all ranks have answered SETTLED */
};

/* Zero-initialised: no plan. */
struct halay_replay_root {
    enum halay_replay_root_state state;
    uint32_t epoch;               /* of the last plan */
    int planned;                  /* ranks that have answered PLAN */
    struct halay_answers answers; /* of the ranks that have answered in this state */
    struct halay_capture capture;
};

/* A rank of the job: its arrivals, and whether it joins or leaves. */
struct halay_arrivals {
    struct halay_tensor_entry *last; /* borrowed: its last submission; NULL: none yet, or the name is forgotten */
    int64_t last_us;                 /* its time; 0: never */
    int has_joined, has_left;        /* it has no more data; it submits no more */
    int is_asked, has_answered;      /* for the stall report in progress */
    enum halay_doing doing;          /* the answer */
    char waited[HALAY_NAME_MAX + 1];
    int waited_set; /* the number of its process set */
    /* As struct halay_straggler; written by the driver, relaxed, read by any thread. */
    _Atomic uint64_t times_last, late_ns, latest_ns;
};

struct halay_coordinator {
    struct halay_coordinator_options options;
    struct halay_coordinator *next; /* borrowed: the list of all sets, from the parent on */
    int has_failed, is_done;

    /* The parent's: children that have something to decide, so that a step does not check each of hundreds of process
     * sets; borrowed. */
    struct halay_coordinator *news;
    struct halay_coordinator *next_news; /* children: the next in that list */
    int has_news;                        /* it is in the list */

    /* The names (tensor_table.c). */
    struct halay_table names;
    struct halay_tensor_entry_list waiting, resting;
    struct halay_withdrawal *withdrawals; /* owned: list (withdraw.c) */

    /* Their ids (id_pool.c). */
    struct halay_tensor_entry **by_id; /* owned array: [id], NULL: free */
    uint32_t *free_ids;                /* owned; as long as by_id */
    size_t ids, id_capacity, free_count, ids_forgetting;

    /* Ranks that have joined, and that have left; the parent's only (leave.c). */
    int joined_count, left_count;
    uint64_t last_joined;
    struct halay_tensor_entry *join; /* all have joined: to be dispatched after all else; borrowed, or NULL */

    /* Agreed tensors, until they are dispatched (decide.c, dispatch.c). */
    struct halay_tensor_entry_vector fresh;    /* agreed, not yet sent to the ranks */
    struct halay_tensor_entry_vector runnable; /* agreed, to be fused */
    struct halay_tensor_entry_vector chosen;   /* to be dispatched */
    size_t runnable_bytes;
    uint64_t buckets_chosen;
    int flush;
    struct halay_payload column;   /* owned: scratch */
    struct halay_id_range *ranges; /* owned: scratch */
    size_t range_capacity;

    struct halay_replay_root replay;
    uint64_t last_number; /* the parent's: the last group number that a set was given when it left a plan */

    /* The ranks; the parent's only (stragglers.c, stalls.c, leave.c). */
    struct halay_arrivals *arrivals; /* owned: [rank of the job] */
    _Atomic uint64_t met;            /* tensors that all ranks submitted; as in arrivals */
    int64_t asked_us, reported_us;   /* stalls: when ranks were asked, 0: not asked; the last report */
    int asked;                       /* the ranks of the report in progress */
    int is_rank0_asked;              /* rank 0 is one of them, and does not know it yet */
};

static inline struct halay_coordinator *halay_coordinator_parent(const struct halay_coordinator *c)
{
    return c->options.parent ? c->options.parent : (struct halay_coordinator *)c;
}

/* Notes that the input of decide has changed. */
static inline void halay_coordinator_note(struct halay_coordinator *c)
{
    struct halay_coordinator *parent = c->options.parent;

    if (!parent || c->has_news)
        return;
    c->has_news = 1;
    c->next_news = parent->news;
    parent->news = c;
}

/* Returns the rank in the job of a rank of the set. */
static inline int halay_coordinator_rank(const struct halay_coordinator *c, int rank)
{
    return c->options.ranks ? c->options.ranks[rank] : rank;
}

/* Return nonzero if a rank of the set has joined, and if it has left. */
static inline int halay_coordinator_has_joined(const struct halay_coordinator *c, int rank)
{
    const struct halay_coordinator *parent = halay_coordinator_parent(c);

    return parent->joined_count && parent->arrivals[halay_coordinator_rank(c, rank)].has_joined;
}
static inline int halay_coordinator_has_left(const struct halay_coordinator *c, int rank)
{
    const struct halay_coordinator *parent = halay_coordinator_parent(c);

    return parent->left_count && parent->arrivals[halay_coordinator_rank(c, rank)].has_left;
}

/* Returns nonzero if the tensor waits for the rank. */
static inline int halay_coordinator_awaits(const struct halay_coordinator *c, const struct halay_tensor_entry *entry,
                                           int rank)
{
    return halay_tensor_entry_lacks(entry, rank) && !halay_coordinator_has_joined(c, rank);
}

/* Emits an item for one rank, or for all (-1). */
static inline enum halay_status halay_coordinator_emit(struct halay_coordinator *c, int rank,
                                                       const struct halay_item *item)
{
    return c->options.emit(c->options.arg, rank, item);
}

/* Emits an ERROR about a tensor for one rank, or for all (-1). */
enum halay_status halay_coordinator_emit_error(struct halay_coordinator *c, int rank,
                                               const struct halay_tensor_entry *entry, enum halay_status why,
                                               const char *text);
/* Emits FAIL for all ranks of the job, once. rank: of the job, which is to blame, or -1. */
enum halay_status halay_coordinator_fail(struct halay_coordinator *c, int rank, const char *text);

/* ---- tensor_table.c ---- */

/* Returns the entry of a name, which is created if necessary; NULL: no memory. */
struct halay_tensor_entry *halay_coordinator_entry(struct halay_coordinator *c, const char *name, size_t length);
/* Resets an entry that was dispatched or refused: no rank has arrived. It may have been freed. */
void halay_coordinator_reset_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Frees the entry unless it still has a state. */
void halay_coordinator_release_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry);
void halay_coordinator_free_entries(struct halay_coordinator *c);

/* Prints "tensor 'x'", with the process set if it is not that of all ranks; "process sets [0,1]" for a change. */
enum { HALAY_SUBJECT_MAX = HALAY_NAME_MAX + 40 };
void halay_coordinator_subject(const struct halay_coordinator *c, const struct halay_tensor_entry *entry, char *text,
                               size_t size);

/* Ranks as "rank 1", "ranks 1, 3", or "ranks 1, 3, ..." where the text has no room for more. Zero-initialised. */
struct halay_rank_text {
    char text[256];
    int count;
};
void halay_rank_text_add(struct halay_rank_text *list, int rank);

/* ---- arrive.c: HALAY_ERR_FORMAT: no correct engine sends this ---- */

/* Takes ANNOUNCE: the rank's signature of the name. */
enum halay_status halay_coordinator_announce(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                             int64_t now_us);
/* Takes READY: the rank submitted what is agreed. */
enum halay_status halay_coordinator_ready(struct halay_coordinator *c, int rank, const struct halay_id_range *range,
                                          int64_t now_us);

/* ---- withdraw.c ---- */

/* Takes WITHDRAW from a rank: does nothing if it has not arrived, or all have. */
enum halay_status halay_coordinator_withdraw(struct halay_coordinator *c, int rank, const struct halay_item *item);

/* Returns nonzero if the rank's next submission has already been withdrawn. */
int halay_coordinator_owes(const struct halay_tensor_entry *entry, int rank);
/* Sends the answer to a rank that has submitted it. The entry may have been freed. */
enum halay_status halay_coordinator_settle(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank);
/* Clears the debts of a rank that joins: its data are not needed. */
void halay_coordinator_forgive(struct halay_coordinator *c, int rank);
/* Frees all withdrawals, at the end of the coordinator. */
void halay_coordinator_free_withdrawals(struct halay_coordinator *c);

/* ---- leave.c ---- */

/* Takes the join of a rank; tensors that waited for it alone can run, in all sets. */
enum halay_status halay_coordinator_join(struct halay_coordinator *c, int rank);
/* Takes BYE: the rank leaves all sets. */
enum halay_status halay_coordinator_leave(struct halay_coordinator *c, int rank);
/* Ends the job if the name, at which a rank has arrived, lacks a rank that has left. */
enum halay_status halay_coordinator_check_left(struct halay_coordinator *c, const struct halay_tensor_entry *entry);

/* ---- complete.c ---- */

/* Returns nonzero if all ranks that have not joined have arrived. */
int halay_coordinator_is_complete(const struct halay_coordinator *c, const struct halay_tensor_entry *entry);
/* Completes the entry, at which they have: runs the tensor if they agree, otherwise refuses it. The entry may have been
 * freed. */
enum halay_status halay_coordinator_complete(struct halay_coordinator *c, struct halay_tensor_entry *entry);

/* ---- agree.c ---- */

/* Compares the announcements; all ranks have sent theirs. *agreed: they are equal; otherwise all ranks have been sent
 * an error, and the entry may have been freed. */
enum halay_status halay_coordinator_agree(struct halay_coordinator *c, struct halay_tensor_entry *entry, int *agreed);

/* Refuses a tensor at which all ranks have arrived: sends an ERROR to all, and resets the entry, which may have been
 * freed. */
enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                           enum halay_status why, const char *text);

/* ---- id_pool.c ---- */

/* Assigns an id to the entry's name. May revoke another name's. */
enum halay_status halay_coordinator_assign_id(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Takes a rank's answer to FORGET. HALAY_ERR_FORMAT: it was not asked. */
enum halay_status halay_coordinator_id_forgotten(struct halay_coordinator *c, uint32_t id);

/* ---- dispatch.c ---- */

/* Chooses a tensor that runs alone, after all that were chosen before. */
enum halay_status halay_coordinator_choose(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Sends the chosen tensors as BUCKETs; averages with other divisors go into a BUCKET of their own. */
enum halay_status halay_coordinator_dispatch(struct halay_coordinator *c);

/* Adds an id to c->ranges, which has room and this number of them. Returns the new number of them. */
size_t halay_coordinator_add_range(struct halay_coordinator *c, size_t ranges, uint32_t id);

/* ---- replay_root.c ---- */

/* Starts a plan if the turn that has just been dispatched is due for one. *emitted: it did. */
enum halay_status halay_replay_root_start(struct halay_coordinator *c, int *emitted);
/* Returns nonzero if an item of this kind from a rank is to be ignored now, because the rank will send it again. */
int halay_replay_root_ignores(const struct halay_coordinator *c, enum halay_item_kind kind);
/* Takes an answer to PLAN, BREAK, ENTERED or SETTLED from a rank; HALAY_ERR_FORMAT if the rank cannot send that now. */
enum halay_status halay_replay_root_receive(struct halay_coordinator *c, const struct halay_item *item);
void halay_replay_root_fini(struct halay_coordinator *c);

/* ---- stalls.c ---- */

/* Takes a rank's answer about what its program is doing. */
void halay_stalls_answer(struct halay_coordinator *c, int rank, const struct halay_item *item);

/* ---- stragglers.c ---- */

/* Returns the arrivals of one of the coordinator's ranks. */
static inline struct halay_arrivals *halay_arrivals_of(struct halay_coordinator *c, int rank)
{
    return &halay_coordinator_parent(c)->arrivals[halay_coordinator_rank(c, rank)];
}

/* Counts an arrival; the entry counts it already. */
void halay_arrivals_note(struct halay_coordinator *c, int rank, struct halay_tensor_entry *entry, int64_t now_us);
/* Forgets an entry that is about to be freed. */
void halay_arrivals_forget(struct halay_coordinator *c, const struct halay_tensor_entry *entry);

#endif
