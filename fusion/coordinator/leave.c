/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving: a rank whose program has ended submits no more. A tensor that lacks it never runs, which ends the job.
 *
 * Joining: ranks that have no more data until all have none.
 *
 *     rank 1 joins           names that lack rank 1 only are complete; so are names without it from now on
 *     complete               rank 1 counts as agreeing with the first rank that arrived; an operation that needs its
 *                            data is refused on every rank
 *     the last rank joins    the join itself is complete, after all earlier tensors: then no rank has joined
 */
#include "fusion/coordinator/coordinator_state.h"
#include <stdio.h>

/* Does something for a rank of the job in all sets that it is in. */
static enum halay_status do_in_sets(struct halay_coordinator *c, int rank,
                                    enum halay_status (*in_set)(struct halay_coordinator *set, int rank))
{
    enum halay_status status = HALAY_OK;

    for (struct halay_coordinator *set = c; set; set = set->next)
        for (int r = 0; r < set->options.size && status == HALAY_OK; r++)
            if (halay_coordinator_rank(set, r) == rank)
                status = in_set(set, r);
    return status;
}

static enum halay_status join_set(struct halay_coordinator *c, int rank)
{
    enum halay_status status = HALAY_OK;

    halay_coordinator_forgive(c, rank);
    for (struct halay_tensor_entry *entry = c->waiting.first, *next; entry && status == HALAY_OK; entry = next) {
        next = entry->next;
        if (halay_coordinator_is_complete(c, entry))
            status = halay_coordinator_complete(c, entry);
    }
    return status;
}

enum halay_status halay_coordinator_join(struct halay_coordinator *c, int rank)
{
    c->last_joined = (uint64_t)rank;
    c->arrivals[rank].has_joined = 1;
    c->joined_count++;
    return do_in_sets(c, rank, join_set);
}

static enum halay_status fail_left(struct halay_coordinator *c, int rank)
{
    char text[64];
    int left = halay_coordinator_rank(c, rank);

    snprintf(text, sizeof text, "rank %d has left", left);
    return halay_coordinator_fail(c, left, text);
}

enum halay_status halay_coordinator_check_left(struct halay_coordinator *c, const struct halay_tensor_entry *entry)
{
    if (!halay_coordinator_parent(c)->left_count)
        return HALAY_OK;
    for (int r = 0; r < c->options.size; r++)
        if (halay_coordinator_has_left(c, r) && halay_coordinator_awaits(c, entry, r))
            return fail_left(c, r);
    return HALAY_OK;
}

/* Looks at one set: tensors that wait for the rank never run. */
static enum halay_status leave_set(struct halay_coordinator *c, int rank)
{
    for (struct halay_tensor_entry *entry = c->waiting.first; entry; entry = entry->next)
        if (halay_coordinator_awaits(c, entry, rank))
            return fail_left(c, rank);
    return HALAY_OK;
}

enum halay_status halay_coordinator_leave(struct halay_coordinator *c, int rank)
{
    if (c->options.parent || c->arrivals[rank].has_left)
        return HALAY_ERR_FORMAT;
    c->arrivals[rank].has_left = 1;
    c->left_count++;
    enum halay_status status =
        halay_coordinator_emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_LEFT, .rank = rank });
    if (status == HALAY_OK && c->joined_count && !c->arrivals[rank].has_joined)
        return fail_left(c, rank); /* the others wait for it */
    return status == HALAY_OK ? do_in_sets(c, rank, leave_set) : status;
}
