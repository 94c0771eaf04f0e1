/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring reduce-scatter, even and uneven: every part is summed once around the ring and stays with its owner.
 *
 *     three ranks, parts A B C of ranks 0 1 2; + is where what arrived is added
 *
 *          step 0         step 1
 *     A   1 ----> 2+     2 ----> 0+
 *     B   2 ----> 0+     0 ----> 1+
 *     C   0 ----> 1+     1 ----> 2+
 *
 * In step s rank r sends part r - s - 1 and receives part r - s - 2 (modulo N). It is the first half of the ring
 * all-reduce (allreduce_ring.c), one part further on; the parts go in segments, several of which are under way: ring.c.
 *
 * Cost: N - 1 steps; S (N - 1) / N bytes sent and received by each rank, neighbours only; 12 segments of memory. Any
 * number of ranks, any counts, zero included (uneven parts take as long as if all were as long as the longest); in and
 * out of place. A part is summed in ring order from its owner's successor on: other bits when the number of ranks
 * changes, and f16 and bf16 are rounded at every hop.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
 */
#include "collectives/messages/ring.h"

static void start(struct halay_coll *c)
{
    struct halay_ring *ring = c->state;

    ring->scatters = 1;
    ring->direction = 1;
    halay_ring_start(c, ring, c->scratch);
}

const struct halay_algorithm_ops halay_reduce_scatter_ring = {
    .tags = HALAY_RING_LANES,
    .state_bytes = halay_ring_alone_bytes,
    .scratch_bytes = halay_ring_scatter_scratch,
    .start = start,
    .progress = halay_ring_alone_progress,
    .cancel = halay_ring_alone_cancel,
};
