/* SPDX-License-Identifier: Apache-2.0
 *
 * Barrier over shared memory: a counter a rank, read by all.
 *
 *     A   1 ----+--> sees B 1, C 1
 *     B   1 ----+--> sees A 1, C 1        each rank adds one to its own counter, then waits until all have as much
 *     C   1 ----+--> sees A 1, B 1
 *
 * Cost: one exchange; N - 1 lines read. Any number of ranks. Counters are never reset (shared.h), so a fast rank
 * in the next barrier does not disturb the others.
 */
#include "collectives/shared/shared.h"

struct state {
    uint64_t number;
    int rank; /* all below have arrived */
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->number = ++c->channel->numbers.barriers;
    shared_publish(c, &shared_mine(c)->barrier, s->number);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->rank < c->size; s->rank++)
        if (!shared_has_reached(&shared_area(c, s->rank)->barrier, s->number))
            return HALAY_IN_PROGRESS;
    return HALAY_OK;
}

const struct halay_algorithm_ops halay_barrier_shared = {
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
};
