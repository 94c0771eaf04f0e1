/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot all-reduce over shared memory: every rank writes its data, every rank adds all along the tree (oneshot.h).
 *
 * Cost: one exchange; each rank reads N S bytes. Any number of ranks, any count, in and out of place, lists of
 * pieces. Every rank adds the same along the same tree: the same bits on all ranks; f16 and bf16 are rounded once.
 */
#include "collectives/shared/oneshot.h"

static void put(struct halay_coll *c, unsigned char *slot)
{
    struct oneshot *s = c->state;

    halay_vector_pack(&c->in, &s->in, s->at, s->count, slot);
}

/* This rank's own elements are read where the caller has them. Its slot has the same, but has just been written: a load
 * of another width than those stores waits until they have left the store buffer, after the line that the peer reads.
 * Of a list's pieces, out's may overwrite in's in another order. */
static const void *own_elements(const struct halay_coll *c, size_t at)
{
    const struct oneshot *s = c->state;

    if (c->is_list)
        return oneshot_slot(c, c->rank)->data + at * c->element;
    return coll_in(c) + (s->at + at) * c->element;
}

static void take(struct halay_coll *c)
{
    struct oneshot *s = c->state;
    _Alignas(HALAY_CACHE_LINE) unsigned char block[HALAY_BLOCK_BYTES];
    int n = c->size;

    for (size_t done = 0, run; done < s->count; done += run) {
        size_t left = s->count - done, most = coll_elements(c, sizeof block);
        void *dst = block;
        if (!c->out.is_converted)
            dst = halay_vector_run(&c->out, &s->out, s->at + done, left, &run);
        else
            run = left < most ? left : most;
        for (int r = 0; r < n; r++)
            s->src[r] = oneshot_slot(c, r)->data + done * c->element;
        s->src[c->rank] = own_elements(c, done);
        c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, n, run, c->divisor);
        if (c->out.is_converted)
            halay_vector_unpack(&c->out, &s->out, s->at + done, run, block);
    }
}

static const struct oneshot_operation operation = {
    .gives = oneshot_every_rank, .takes = oneshot_every_rank, .all_give = 1, .put = put, .take = take
};

ONESHOT_ALGORITHM(halay_allreduce_oneshot, c->out.count, 1);
