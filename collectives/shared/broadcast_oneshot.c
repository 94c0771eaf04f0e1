/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot broadcast over shared memory: the root writes its data into a slot and returns, every rank copies them from
 * there (oneshot.h).
 *
 *     A (root)   writes a, returns
 *     B          waits for a, copies it
 *     C          waits for a, copies it
 *
 * Cost: one exchange; the root copies S bytes, then the others. Any number of ranks, any count, lists of pieces.
 */
#include "collectives/shared/oneshot.h"

static void put(struct halay_coll *c, unsigned char *slot)
{
    struct oneshot *s = c->state;

    halay_vector_pack(&c->in, &s->in, s->at, s->count, slot);
}

static void take(struct halay_coll *c)
{
    struct oneshot *s = c->state;

    halay_vector_unpack(&c->out, &s->out, s->at, s->count, oneshot_slot(c, c->root)->data);
}

static const struct oneshot_operation operation = {
    .gives = oneshot_root, .takes = oneshot_not_root, .put = put, .take = take
};

ONESHOT_ALGORITHM(halay_broadcast_oneshot, c->in.count, 1);
