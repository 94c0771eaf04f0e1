/* SPDX-License-Identifier: Apache-2.0
 *
 * All-gather from the farthest ranks to the nearest, even and ragged: at distance ..., 4, 2, 1 every rank sends all
 * that it has. The few blocks of the beginning travel far, the many of the end to the neighbour.
 *
 *     five ranks: whose blocks a rank has
 *
 *          start   step 0 (+4)    step 1 (+2)    step 2 (+1)
 *     A    A       A       E      A   C   E      A B C D E
 *     B    B       A B            A B   D        A B C D E
 *     C    C         B C            B C   E      A B C D E
 *     D    D           C D        A   C D        A B C D E
 *     E    E             D E        B   D E      A B C D E
 *
 * Before the step of distance d a rank has the blocks at distance 0, 2d, 4d, ... from its own, modulo N; from the rank
 * d places further on it gets those at d, 3d, 5d, ... Each block is a message of its own, sent from and received into
 * its place. Where the ranks of a host follow each other, a block arrives at a host once for each of the host's ranks
 * that hands it on there, not, as with Bruck's order, once for each rank.
 *
 * Cost: ceil(log2 N) steps of together N - 1 messages, S (N - 1) / N bytes sent and received by each rank, and between
 * hosts as few as a ring; no memory but the output. Blocks go in chunks. Any number of ranks, any counts, zero
 * included; in and out of place.
 *
 * Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv:2506.20252
 * (2025), without its aggregation of messages.
 */
#include "collectives/messages/steps.h"

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    int n = at->ranks, takes = index % 2, message = index / 2, distance = 1;

    while (distance < n - distance)
        distance *= 2;
    for (; distance; distance /= 2) {
        int messages = (n - distance + 2 * distance - 1) / (2 * distance);
        if (message < messages)
            break;
        message -= messages;
    }
    if (!distance)
        return 0;
    int back = (int)(2L * distance * message % n), peer = (at->rank + (takes ? distance : n - distance)) % n;
    if (takes)
        return halay_step_take(out, HALAY_PLACE, peer, message, HALAY_STEP_OUT, (peer + back) % n, 1);
    return halay_step_give(out, peer, message, HALAY_STEP_OUT, (at->rank + back) % n, 1);
}

const struct halay_algorithm_ops halay_allgather_far_first =
    HALAY_STEPS_OPS(.steps = steps, .cut = HALAY_CUT_BLOCKS, .lanes = 4, .least = HALAY_STEP_LEAST, .multiple = 1);
