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

    if (c->is_list)
        halay_vector_pack(&c->in, &s->in, s->at, s->count, slot);
    else
        oneshot_put_array(c, slot);
}

/* Reads this rank's own elements from its slot, too: out's pieces may overwrite in's in another order. Not inline, for
 * the sake of arrays: the bounce buffer takes time even where it is not used. */
static __attribute__((noinline)) void take_lists(struct halay_coll *c)
{
    struct oneshot *s = c->state;
    _Alignas(HALAY_CACHE_LINE) unsigned char bounce[HALAY_BOUNCE_BYTES];

    for (size_t done = 0, run; done < s->count; done += run) {
        size_t left = s->count - done, most = coll_elements(c, sizeof bounce);
        void *dst = bounce;
        if (!c->out.is_converted)
            dst = halay_vector_run(&c->out, &s->out, s->at + done, left, &run);
        else
            run = left < most ? left : most;
        for (int r = 0; r < c->size; r++)
            s->src[r] = oneshot_slot(c, r)->data + done * c->element;
        c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, c->size, run, c->divisor);
        if (c->out.is_converted)
            halay_vector_unpack(&c->out, &s->out, s->at + done, run, bounce);
    }
}

static void take(struct halay_coll *c)
{
    if (c->is_list)
        take_lists(c);
    else
        oneshot_reduce_arrays(c);
}

static const struct oneshot_operation operation = {
    .gives = oneshot_every_rank, .takes = oneshot_every_rank, .all_give = 1, .put = put, .take = take
};

ONESHOT_ALGORITHM(halay_allreduce_oneshot, c->out.count, 1);
