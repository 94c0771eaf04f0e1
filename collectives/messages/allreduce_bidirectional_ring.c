/* SPDX-License-Identifier: Apache-2.0
 *
 * Bidirectional ring all-reduce: two rings in opposite directions, each with half of the data.
 *
 *     four ranks             first half                second half
 *                         A ---> B ---> C ---> D    A <--- B <--- C <--- D
 *                         ^------------------<-|    |->------------------^
 *
 * Each half is what allreduce_ring.c does with the whole; the second one goes to the previous rank and comes from the
 * next. Every rank so uses two connections in both directions where the simple ring uses one in each.
 *
 * Cost: 2 (N - 1) steps; 2 S (N - 1) / N bytes sent and received by each rank, half of them with each neighbour; 16
 * segments of memory. It pays where two links lead to two neighbours, or where one connection cannot fill the link that
 * both share. Any number of ranks, any count, in and out of place; bits as with the simple ring, but other ones.
 *
 * Source: the ring of allreduce_ring.c twice; as on rings and tori with links in both directions in Jain and Sabharwal,
 * "Optimal bucket algorithms for large MPI collectives on torus interconnects", ICS 2010.
 */
#include "collectives/messages/ring.h"

enum { RINGS = 2 };

static size_t state_bytes(int size)
{
    (void)size;
    return RINGS * sizeof(struct halay_ring);
}

static size_t ring_scratch(const struct halay_coll *c, int ring)
{
    return halay_ring_scratch(c, halay_block_span(c->out.count, RINGS, ring).length);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return ring_scratch(c, 0) + ring_scratch(c, 1);
}

static void start(struct halay_coll *c)
{
    struct halay_ring *rings = c->state;

    for (int i = 0; i < RINGS; i++) {
        rings[i].part = halay_block_span(c->out.count, RINGS, i);
        rings[i].direction = i ? -1 : 1;
        rings[i].tag = (uint32_t)i * HALAY_RING_LANES;
        halay_ring_start(c, &rings[i], c->scratch + (i ? ring_scratch(c, 0) : 0));
    }
}

static enum halay_status progress(struct halay_coll *c)
{
    struct halay_ring *rings = c->state;
    int busy = 0;

    for (int i = 0; i < RINGS; i++)
        busy |= halay_ring_progress(c, &rings[i]);
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct halay_ring *rings = c->state;

    for (int i = 0; i < RINGS; i++)
        halay_ring_cancel(c, &rings[i]);
}

const struct halay_algorithm_ops halay_allreduce_bidirectional_ring = {
    .tags = RINGS * HALAY_RING_LANES,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
