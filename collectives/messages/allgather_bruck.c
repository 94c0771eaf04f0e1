/* SPDX-License-Identifier: Apache-2.0
 *
 * All-gather in log2(N) steps, even and ragged: every rank sends all that it has to the rank at distance 1, 2, 4, ...
 *
 *     five ranks: whose blocks a rank has, and what it gets from the rank 1, 2, 4 places further on
 *
 *          start   step 0 (+1)    step 1 (+2)    step 2 (+4, only what is missing)
 *     A    A       A B            A B C D        A B C D E
 *     B    B         B C            B C D E      A B C D E
 *     C    C           C D        A   C D E      A B C D E
 *     D    D             D E      A B   D E      A B C D E
 *     E    E       A       E      A B C   E      A B C D E
 *
 * After step k a rank has the blocks of itself and the 2^(k+1) - 1 ranks after it. They are side by side in the output,
 * except where the ranks begin again: there a message is cut in two, so that everything is sent from and received into
 * its place.
 *
 * Cost: ceil(log2 N) steps, S (N - 1) / N bytes sent and received by each rank; no memory but the output. Nothing is
 * cut in chunks: for small data. Any number of ranks, any counts, zero included; in and out of place.
 *
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8 (1997), without its rotation.
 */
#include "collectives/messages/steps.h"

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    enum { HALVES = 2 }; /* of a message: up to the last rank's block, and from the first one's on */
    int n = at->ranks, round = index / (2 * HALVES), half = index % HALVES, takes = index / HALVES % 2;

    if (1L << round >= n)
        return 0;
    int distance = 1 << round, blocks = n - distance < distance ? n - distance : distance;
    int first = takes ? (at->rank + distance) % n : at->rank;
    int wrapped = first + blocks > n ? first + blocks - n : 0;
    int peer = takes ? first : (at->rank + n - distance) % n, tag = HALVES * round + half;

    if (half)
        first = 0;
    blocks = half ? wrapped : blocks - wrapped;
    if (takes)
        return halay_step_take(out, HALAY_PLACE, peer, tag, HALAY_STEP_OUT, first, blocks);
    return halay_step_give(out, peer, tag, HALAY_STEP_OUT, first, blocks);
}

const struct halay_algorithm_ops halay_allgather_bruck =
    HALAY_STEPS_OPS(.steps = steps, .cut = HALAY_CUT_WHOLE, .lanes = 1);
