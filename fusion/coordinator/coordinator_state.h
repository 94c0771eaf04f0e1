/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: its state, for the files of this folder.
 */
#ifndef HALAY_COORDINATOR_STATE_H
#define HALAY_COORDINATOR_STATE_H

#include "fusion/coordinator/capture.h"
#include "fusion/coordinator/coordinator_options.h"
#include "fusion/coordinator/tensor_entry.h"
#include "fusion/protocol/answers.h"
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

struct halay_coordinator {
    struct halay_coordinator_options options;
    struct halay_coordinator *children, *next; /* borrowed: those of process sets; the parent's next child */
    int has_failed, is_done;

    /* Parents only: children that have something to decide, oldest first, so that a step does not check each of
     * hundreds of process sets; borrowed. */
    struct halay_coordinator *news, *news_last;
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

    /* The ranks that have joined, and those that have left; the parent's only (leave.c). */
    unsigned char *joined; /* owned: [rank of the job], has no more data */
    int joined_count;
    uint64_t last_joined;
    struct halay_tensor_entry *join; /* all have joined: to be dispatched after all else; borrowed, or NULL */
    unsigned char *left;             /* owned: [rank of the job] */
    int left_count;

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

    /* The ranks' arrivals; the parent's only (stragglers.c, stalls.c). */
    struct halay_arrivals *arrivals; /* owned: [rank of the job] */
    _Atomic uint64_t met;            /* tensors that all ranks submitted; as in arrivals */
    int64_t asked_us, reported_us;   /* stalls: when ranks were asked, 0: not asked; the last report */
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
    c->next_news = NULL;
    *(parent->news ? &parent->news_last->next_news : &parent->news) = c;
    parent->news_last = c;
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

    return parent->joined_count && parent->joined[halay_coordinator_rank(c, rank)];
}
static inline int halay_coordinator_has_left(const struct halay_coordinator *c, int rank)
{
    const struct halay_coordinator *parent = halay_coordinator_parent(c);

    return parent->left_count && parent->left[halay_coordinator_rank(c, rank)];
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

#endif
