/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter by recursive halving: the ranks are cut in two halves, each rank gives a partner in the other half
 * what that half is responsible for, and each half continues by itself.
 *
 *     five ranks: which blocks' sums a rank holds, and what it adds; an odd rank gives and gets nothing
 *
 *          start    halves ABC DE          AB C  D E        A B
 *     A    01234    012  + D               01 + C           0 + B
 *     B    01234    012  + E               01               1 + A
 *     C    01234    012  (gives 34 to D)   2 + A + B
 *     D    01234    34   + A + C           3 + E
 *     E    01234    34   + B               4 + D
 *
 * Where a half has one rank more than the other, its last rank has no partner: it gives to the first one of the other
 * half. Blocks may differ in length. Nothing is cut in chunks: for small and medium data.
 *
 * Wide: f16 and bf16 travel as f32 partial sums, but as they are where nothing has been added, and are rounded once.
 *
 * Cost: ceil(log2 N) steps, S (N - 1) / N bytes sent and received by each rank, up to twice that if N is not a power of
 * two. Memory: as many bytes. Any number of ranks, any counts, zero included; in and out of place. The order of
 * additions depends on the number of ranks.
 *
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19
 * (2005), for powers of two.
 */
#include "collectives/messages/steps.h"

/* The ranks that hold the same blocks, which are their own. */
struct span {
    int first, ranks;
};

static int lower_of(struct span s)
{
    return (s.ranks + 1) / 2;
}

static struct span half_with(struct span s, int rank)
{
    int lower = lower_of(s);

    if (rank < s.first + lower)
        return (struct span){ s.first, lower };
    return (struct span){ s.first + lower, s.ranks - lower };
}

/* Returns from how many ranks this one takes there: 0 if it has no partner, 2 if it is that one's. */
static int takes_of(struct span s, int rank)
{
    int number = rank - s.first, lower = lower_of(s), upper = s.ranks - lower;

    if (number < lower)
        return number < upper;
    return number == lower && lower > upper ? 2 : 1;
}

/* Returns nonzero if nothing has been added to what a rank gives when it reaches that span. */
static int is_raw(const struct halay_place *at, struct span until, int rank)
{
    struct span s = { 0, at->ranks };

    for (; s.ranks > until.ranks || s.first != until.first; s = half_with(s, rank))
        if (takes_of(s, rank))
            return 0;
    return 1;
}

static int buffer(const struct halay_place *at, int index)
{
    struct span s = { 0, at->ranks };

    for (; s.ranks > 1; s = half_with(s, at->rank)) {
        int takes = takes_of(s, at->rank);
        if (index < takes)
            return half_with(s, at->rank).ranks;
        index -= takes;
    }
    return 0;
}

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    struct span s = { 0, at->ranks }, kept, given;
    int sums = 0, takes = 0;

    for (; s.ranks > 1; s = half_with(s, at->rank)) {
        takes = takes_of(s, at->rank);
        if (index <= takes)
            break;
        index -= takes + 1;
        sums += takes;
    }
    if (s.ranks <= 1)
        return 0;
    int number = at->rank - s.first, lower = lower_of(s), is_upper = number >= lower;
    int partner = s.first + (is_upper ? number - lower : number + lower), sum = sums ? sums - 1 : HALAY_STEP_IN;
    if (!takes)
        partner = s.first + lower;
    kept = half_with(s, at->rank);
    given = half_with(s, partner);
    if (!index)
        return halay_step_give(out, partner, 0, sum, given.first, given.ranks);
    if (index == 2)
        partner = s.first + lower - 1;
    halay_step_take(out, is_upper ? HALAY_ADD_LEFT : HALAY_ADD_RIGHT, partner, 0, sums + index - 1, kept.first,
                    kept.ranks);
    out->own = (signed char)(index == 2 ? sums : sum);
    out->is_raw = (unsigned char)is_raw(at, s, partner);
    out->is_last = kept.ranks == 1 && index == takes;
    return 1;
}

const struct halay_algorithm_ops halay_reduce_scatter_halving =
    HALAY_STEPS_OPS(.steps = steps, .buffer = buffer, .cut = HALAY_CUT_WHOLE, .lanes = 1);
