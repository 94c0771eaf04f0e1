/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring: blocks are summed once around the ring. An all-reduce then passes the sums once around it, a reduce-scatter
 * leaves each with its owner, and an all-gather only passes blocks on.
 *
 *     all-reduce of three ranks, blocks A B C; + is where what arrived is added
 *
 *             sum around the ring        pass the sums on
 *          step 0         step 1         step 2        step 3
 *     A   0 ----> 1+     1 ----> 2+     2 ----> 0     0 ----> 1
 *     B   1 ----> 2+     2 ----> 0+     0 ----> 1     1 ----> 2
 *     C   2 ----> 0+     0 ----> 1+     1 ----> 2     2 ----> 0
 *
 * In step s rank r sends block r - s and receives block r - s - 1, modulo N. A reduce-scatter is the first half of
 * that, one block further back, so that rank r ends with block r, its own; an all-gather is the second half, from
 * block r on. Blocks may differ in length.
 *
 * The same chunk of every block is a lane's. Three receive buffers a lane: one is sent from, two are received into.
 *
 * Cost: all-reduce 2 (N - 1) steps, 2 S (N - 1) / N bytes sent and received by each rank, whatever N; reduce-scatter
 * and all-gather half of both (uneven blocks take as long as if all were as long as the longest). Memory: 12 chunks,
 * none for an all-gather. Neighbours only. Any number of ranks, any counts, zero included, in and out of place. A block
 * is summed in ring order: the same bits everywhere, but other bits when the count or the number of ranks changes, and
 * f16 and bf16 are rounded at every hop.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
 */
#include "collectives/messages/steps.h"

enum { BUFFERS = 3 };

static int buffer(const struct halay_place *at, int index)
{
    return at->operation != HALAY_COLL_ALLGATHER && index < BUFFERS;
}

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    int n = at->ranks, sums = n - 1, step = index / 2, gives = !(index % 2);
    int last = (at->operation == HALAY_COLL_ALLREDUCE ? 2 : 1) * (n - 1);
    int back = step % n + !gives + (at->operation == HALAY_COLL_REDUCE_SCATTER);

    if (step >= last)
        return 0;
    if (at->operation == HALAY_COLL_ALLGATHER)
        sums = 0;
    out->tag = (unsigned char)(step % HALAY_STEP_TAGS);
    out->peer = (at->rank + (gives ? 1 : n - 1)) % n;
    out->block = (at->rank + 2 * n - back) % n;
    out->blocks = 1;
    out->what = gives ? HALAY_GIVE : HALAY_PLACE;
    out->buffer = HALAY_STEP_OUT;
    if (step < sums) {
        out->what = gives ? HALAY_GIVE : HALAY_ADD_LEFT;
        out->buffer = (signed char)((step + BUFFERS - gives) % BUFFERS);
        out->is_last = !gives && step == sums - 1;
    }
    if (gives && !step && sums)
        out->buffer = HALAY_STEP_IN;
    return 1;
}

const struct halay_algorithm_ops halay_ring = HALAY_STEPS_OPS(.steps = steps, .buffer = buffer, .cut = HALAY_CUT_BLOCKS,
                                                              .lanes = 4, .least = HALAY_STEP_LEAST, .multiple = 1);
