/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot all-gather over shared memory, even and ragged: every rank writes its block into a slot, every rank copies
 * all from there (oneshot.h).
 *
 * Cost: one exchange; each rank writes its block and reads those of the others. Any number of ranks, any counts, zero
 * included; in and out of place.
 */
#include "collectives/shared/oneshot.h"

static void put(struct halay_coll *c, unsigned char *slot)
{
    const struct oneshot *s = c->state;
    size_t count = oneshot_count(c, coll_block_length(c, c->rank));

    if (count)
        halay_copy(slot, coll_in(c) + s->at * c->element, count * c->element);
}

static void take(struct halay_coll *c)
{
    const struct oneshot *s = c->state;

    for (int r = 0; r < c->size; r++) {
        size_t count = oneshot_count(c, coll_block_length(c, r));
        unsigned char *to = coll_out(c) + (c->starts[r] + s->at) * c->element;
        const unsigned char *from = oneshot_slot(c, r)->data;
        if (r == c->rank)
            from = coll_in(c) + s->at * c->element;
        if (count && to != from)
            halay_copy(to, from, count * c->element);
    }
}

static const struct oneshot_operation operation = {
    .gives = oneshot_every_rank, .takes = oneshot_every_rank, .all_give = 1, .put = put, .take = take
};

ONESHOT_ALGORITHM(halay_allgather_oneshot, coll_longest_block(c), 1);
