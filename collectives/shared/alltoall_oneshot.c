/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot all-to-all over shared memory: every rank writes its blocks for the others into a slot, every rank copies
 * its own from there (oneshot.h).
 *
 *     slot of A   | number | A's for B | A's for C |
 *     slot of B   | number | B's for A | B's for C |
 *     slot of C   | number | C's for A | C's for B |
 *
 * With splits no rank knows how long the longest block is: then it is alltoall_shared.c that runs.
 *
 * Cost: one exchange; each rank writes and reads S bytes. Any number of ranks, any count, in and out of place.
 */
#include "collectives/shared/oneshot.h"

extern const struct halay_algorithm_ops halay_alltoall_shared;

static size_t row(const struct halay_coll *c)
{
    return c->starts[1];
}

static void put(struct halay_coll *c, unsigned char *slot)
{
    const struct oneshot *s = c->state;

    (void)slot;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            halay_copy(oneshot_row(c, c->rank, r), coll_in(c) + ((size_t)r * row(c) + s->at) * c->element,
                       s->count * c->element);
}

static void take(struct halay_coll *c)
{
    const struct oneshot *s = c->state;

    for (int r = 0; r < c->size; r++) {
        size_t at = ((size_t)r * row(c) + s->at) * c->element;
        const unsigned char *from = r == c->rank ? coll_in(c) + at : oneshot_row(c, r, c->rank);
        if (coll_out(c) + at != from)
            halay_copy(coll_out(c) + at, from, s->count * c->element);
    }
}

static const struct oneshot_operation operation = {
    .gives = oneshot_every_rank, .takes = oneshot_every_rank, .all_give = 1, .put = put, .take = take
};

static size_t state_bytes(int size)
{
    size_t own = oneshot_state_bytes(size), other = halay_alltoall_shared.state_bytes(size);

    return own > other ? own : other;
}

static void start(struct halay_coll *c)
{
    if (c->has_counts || c->form != HALAY_FORM_PLAIN) {
        c->ops = &halay_alltoall_shared;
        c->ops->start(c);
    } else {
        oneshot_start(c, &operation, row(c), c->size - 1);
    }
}

static enum halay_status progress(struct halay_coll *c)
{
    return oneshot_progress(c, &operation);
}

const struct halay_algorithm_ops halay_alltoall_oneshot = {
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
};
