/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise all-to-all, even and with splits: in each step every rank exchanges blocks with one other.
 *
 *     five ranks; step s: rank r with rank s - r (modulo N), for which r is the partner, too; "." keeps its own block
 *
 *     step    0     1     2     3     4
 *     A       .     B     C     D     E
 *     B       E     A     .     C     D
 *     C       D     E     A     B     .
 *     D       C     .     E     A     B
 *     E       B     C     D     .     A
 *
 * In place what arrives is kept in buffers until what was sent from the same place is gone, and until every rank has
 * entered: tokens at distance 1, 2, 4, ... as in a dissemination barrier show that. All ranks send them, as another
 * rank may work in place.
 *
 * Cost: N - 1 steps, S (N - 1) / N bytes sent and received by each rank, and ceil(log2 N) tokens; in place 24 chunks
 * of memory and one more copy. Any number of ranks, any counts, zero included.
 */
#include "collectives/messages/steps.h"

enum { BUFFERS = 6 };

static int buffer(const struct halay_place *at, int index)
{
    return at->is_in_place && index < BUFFERS;
}

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    int n = at->ranks, takes = index % 2, step = index / 2;

    if (at->is_first) {
        int rounds = 32 - __builtin_clz((unsigned)n - 1);
        if (step < rounds)
            return halay_step_token(at, step, takes, out);
        step -= rounds;
    }
    int partner = (step + n - at->rank) % n, is_own = partner == at->rank;
    if (step >= n)
        return 0;
    if (!takes) /* of its own block nothing */
        return halay_step_give(out, partner, step, HALAY_STEP_IN, partner, !is_own);
    halay_step_take(out, HALAY_PLACE, partner, step, HALAY_STEP_OUT, partner, !is_own || !at->is_in_place);
    if (at->is_in_place && !is_own) {
        out->buffer = (signed char)(step % BUFFERS);
        out->is_last = 1;
    }
    return 1;
}

const struct halay_algorithm_ops halay_alltoall_pairwise =
    HALAY_STEPS_OPS(.steps = steps, .buffer = buffer, .cut = HALAY_CUT_BLOCKS, .lanes = 4,
                    .least = HALAY_STEP_WHOLE_CHUNKS, /* no rank knows the longest block of all */
                    .multiple = 1, .has_tokens = 1);
