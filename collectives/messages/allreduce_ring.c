/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring all-reduce: the blocks are summed once around the ring, then the sums are passed once around it.
 *
 *     three ranks, blocks A B C; + is where what arrived is added
 *
 *             sum around the ring        pass the sums on
 *          step 0         step 1         step 2        step 3
 *     A   0 ----> 1+     1 ----> 2+     2 ----> 0     0 ----> 1
 *     B   1 ----> 2+     2 ----> 0+     0 ----> 1     1 ----> 2
 *     C   2 ----> 0+     0 ----> 1+     1 ----> 2     2 ----> 0
 *
 * In step s rank r sends block r - s and receives block r - s - 1 (modulo N). The blocks go in segments, several of
 * which are under way: ring.c.
 *
 * Cost: 2 (N - 1) steps; 2 S (N - 1) / N bytes sent and received by each rank, whatever N; 8 segments of memory.
 * Any number of ranks, any count, in and out of place. A block is summed in ring order from its own rank on: the same
 * bits everywhere, but other bits when the count or the number of ranks changes, and f16 and bf16 are rounded at every
 * hop.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
 */
#include "collectives/messages/ring.h"

static size_t scratch_bytes(const struct halay_coll *c)
{
    return halay_ring_scratch(c, c->out.count);
}

static void start(struct halay_coll *c)
{
    struct halay_ring *ring = c->state;

    ring->part = (struct halay_span){ .start = 0, .length = c->out.count };
    ring->direction = 1;
    halay_ring_start(c, ring, c->scratch);
}

const struct halay_algorithm_ops halay_allreduce_ring = {
    .tags = HALAY_RING_LANES,
    .state_bytes = halay_ring_alone_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = halay_ring_alone_progress,
    .cancel = halay_ring_alone_cancel,
};
