/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving: a rank whose program has ended submits no more. A tensor that lacks it never runs, which ends the job.
 */
#include "fusion/coordinator/leave.h"
#include <stdio.h>

static enum halay_status fail_left(struct halay_coordinator *c, int rank)
{
    struct halay_coordinator *parent = halay_coordinator_parent(c); /* the failure is all sets' */
    char text[64];
    int left = halay_coordinator_rank(c, rank), length = snprintf(text, sizeof text, "rank %d has left", left);

    if (parent->has_failed)
        return HALAY_OK;
    parent->has_failed = 1;
    return halay_coordinator_emit(parent, -1,
                                  &(struct halay_item){ .kind = HALAY_ITEM_FAIL,
                                                        .status = HALAY_ERR_PEER,
                                                        .rank = left,
                                                        .text = text,
                                                        .text_length = (size_t)length });
}

enum halay_status halay_coordinator_check_left(struct halay_coordinator *c, const struct halay_tensor_entry *entry)
{
    for (int r = 0; c->left_count && r < c->options.size; r++)
        if (c->left[r] && halay_tensor_entry_lacks(entry, r) && !c->joined[r])
            return fail_left(c, r);
    return HALAY_OK;
}

/* Marks the rank as left in one set: tensors that wait for it never run. */
static enum halay_status leave_one(struct halay_coordinator *c, int rank)
{
    c->left[rank] = 1;
    c->left_count++;
    if (c->joined_count && !c->joined[rank])
        return fail_left(c, rank); /* the others wait for it */
    for (struct halay_tensor_entry *entry = c->waiting.first; entry; entry = entry->next)
        if (halay_tensor_entry_lacks(entry, rank) && !c->joined[rank])
            return fail_left(c, rank);
    return HALAY_OK;
}

enum halay_status halay_coordinator_leave(struct halay_coordinator *c, int rank)
{
    if (c->options.parent || c->left[rank])
        return HALAY_ERR_FORMAT;
    enum halay_status status =
        halay_coordinator_emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_LEFT, .rank = rank });
    if (status == HALAY_OK)
        status = leave_one(c, rank);
    for (struct halay_coordinator *child = c->children; child && status == HALAY_OK; child = child->next)
        for (int r = 0; r < child->options.size && status == HALAY_OK; r++)
            if (child->options.ranks[r] == rank)
                status = leave_one(child, r);
    return status;
}
