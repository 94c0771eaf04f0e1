/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining, the coordinator's side: ranks that have no more data until all have none.
 *
 *     rank 1 joins           names that lack rank 1 only are complete; so are names without it from now on
 *     complete               rank 1 counts as agreeing with the first rank that arrived; an operation that needs its
 *                            data is refused on every rank
 *     the last rank joins    the join itself is complete, after all earlier tensors: then no rank has joined
 */
#include "fusion/coordinator/joining.h"
#include "fusion/coordinator/complete.h"
#include "fusion/coordinator/withdraw.h"

/* Marks the rank as joined in one set. */
static enum halay_status join_one(struct halay_coordinator *c, int rank)
{
    enum halay_status status = HALAY_OK;

    c->joined[rank] = 1;
    c->joined_count++;
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
    enum halay_status status = join_one(c, rank);
    for (struct halay_coordinator *child = c->children; child && status == HALAY_OK; child = child->next)
        for (int r = 0; r < child->options.size && status == HALAY_OK; r++)
            if (child->options.ranks[r] == rank)
                status = join_one(child, r);
    return status;
}
