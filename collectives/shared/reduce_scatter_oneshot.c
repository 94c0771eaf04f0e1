/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot reduce-scatter over shared memory, even and ragged: every rank writes what the others need, every rank adds
 * its own block of all along the tree (oneshot.h).
 *
 *     slot of A   | number | 1A | 2A |        B adds 1A, its own 1B and 1C
 *     slot of B   | number | 0B | 2B |
 *     slot of C   | number | 0C | 1C |
 *
 * Cost: one exchange; each rank writes and reads S (N - 1)/N bytes. Any number of ranks, any counts; f16 and bf16 are
 * rounded once.
 */
#include "collectives/shared/oneshot.h"

static void put(struct halay_coll *c, unsigned char *slot)
{
    const struct oneshot *s = c->state;

    (void)slot;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            halay_copy(oneshot_row(c, c->rank, r), coll_in(c) + (c->starts[r] + s->at) * c->element,
                       oneshot_count(c, coll_block_length(c, r)) * c->element);
}

static void take(struct halay_coll *c)
{
    struct oneshot *s = c->state;
    int me = c->rank;
    size_t count = oneshot_count(c, coll_block_length(c, me));
    void *out = coll_out(c) + s->at * c->element;

    if (!count)
        return;
    for (int r = 0; r < c->size; r++)
        if (r != me)
            s->src[r] = oneshot_row(c, r, me);
    s->src[me] = coll_in(c) + (c->starts[me] + s->at) * c->element;
    c->reducer->reduce[c->dtype][c->op](&out, 1, s->src, c->size, count, c->divisor);
}

static const struct oneshot_operation operation = {
    .gives = oneshot_every_rank, .takes = oneshot_every_rank, .all_give = 1, .put = put, .take = take
};

ONESHOT_ALGORITHM(halay_reduce_scatter_oneshot, coll_longest_block(c), c->size - 1);
