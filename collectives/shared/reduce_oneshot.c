/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot reduction over shared memory: all but the root write their data, the root adds all along the tree
 * (oneshot.h).
 *
 *     A (root)   waits for b and c, adds a b c
 *     B          writes b, returns
 *     C          writes c, returns
 *
 * Cost: one exchange; the root reads N S bytes. Any number of ranks, any count, in and out of place; f16 and bf16 are
 * rounded once.
 */
#include "collectives/shared/oneshot.h"

static void put(struct halay_coll *c, unsigned char *slot)
{
    const struct oneshot *s = c->state;

    halay_copy(slot, coll_in(c) + s->at * c->element, s->count * c->element);
}

static void take(struct halay_coll *c)
{
    struct oneshot *s = c->state;
    void *out = coll_out(c) + s->at * c->element;

    for (int r = 0; r < c->size; r++)
        s->src[r] = oneshot_slot(c, r)->data;
    s->src[c->rank] = coll_in(c) + s->at * c->element;
    c->reducer->reduce[c->dtype][c->op](&out, 1, s->src, c->size, s->count, c->divisor);
}

static const struct oneshot_operation operation = {
    .gives = oneshot_not_root, .takes = oneshot_root, .put = put, .take = take
};

ONESHOT_ALGORITHM(halay_reduce_oneshot, c->in.count, 1);
