/* SPDX-License-Identifier: Apache-2.0
 *
 * Express: a one-shot exchange (allreduce_oneshot.c) in a pair of slots that belongs to one tensor.
 *
 *     slot of A   | 7 | a a a a ...      7: the round, stored last, in the line of the first data
 *     slot of B   | 6 | b b b b ...      there are two of each: round k uses number k mod 2
 *
 * A rank puts k + 2 after its round k + 1 is over, for which every rank had put k + 1, which no rank does before its
 * round k is over: so no rank reads data that are overwritten. A round may also end without a take, if all ranks are
 * ordered to end it: then no rank reads it either.
 *
 * Only the last rank to put wakes the others, which have nothing to do before:
 *
 *     A   store own number; full fence; look at all numbers      Of two that put at the same time at least one sees the
 *     B   the same                                                other's (store and load, in one order by the fences).
 *
 * A sleeper arms its bell, then looks at the numbers, then sleeps (transport/bell.h): it sees the last
 * number, or the rank that stored it sees the sleeper.
 */
#include "collectives/shared/express_slots.h"
#include "base/sync.h"
#include "collectives/shared/shared.h"

static struct halay_express_slot *slot_of(const struct halay_group *group, int rank, size_t pair, uint64_t round)
{
    struct halay_area *area = group->channels[pair / SHARED_EXPRESS].areas[rank];

    return &area->express[pair % SHARED_EXPRESS][round & 1];
}

size_t halay_express_pairs(const struct halay_group *group)
{
    if (group->size < 2 || group->size > HALAY_EXPRESS_RANKS || group->sharing != HALAY_SHARES_ALL ||
        group->hosts != 1 || group->is_checked || group->forced[HALAY_COLL_ALLREDUCE])
        return 0;
    return HALAY_EXPRESS_PAIRS;
}

static int have_all_put(const struct halay_group *group, size_t pair, uint64_t round)
{
    for (int r = 0; r < group->size; r++)
        if (!shared_has_reached(&slot_of(group, r, pair, round)->number, round))
            return 0;
    return 1;
}

void halay_express_put(struct halay_group *group, size_t pair, uint64_t round, const void *data, size_t bytes)
{
    struct halay_express_slot *slot = slot_of(group, group->rank, pair, round);

    halay_copy(slot->data, data, bytes);
    atomic_store_explicit(&slot->number, round, memory_order_release);
    halay_full_fence();
    if (!have_all_put(group, pair, round))
        return;
    for (int r = 0; r < group->size; r++)
        if (r != group->rank)
            halay_group_notify(group, r);
}

int halay_express_take(struct halay_group *group, size_t pair, uint64_t round, void *out, size_t count,
                       enum halay_dtype dtype, enum halay_reduction op)
{
    const void *src[HALAY_EXPRESS_RANKS];
    int n = group->size;

    if (!have_all_put(group, pair, round))
        return 0;
    for (int r = 0; r < n; r++)
        src[r] = slot_of(group, r, pair, round)->data;
    group->reducer->reduce[dtype][op](&out, 1, src, n, count, op == HALAY_AVERAGE ? n : 1);
    return 1;
}
