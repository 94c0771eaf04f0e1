/* SPDX-License-Identifier: Apache-2.0
 *
 * Halving-doubling all-reduce: partners at distance 1, 2, 4, ... halve what they are responsible for while they add,
 * then double what they know on the way back. The fewest steps among those that send the fewest bytes.
 *
 *     four ranks, blocks 0 1 2 3: which of them a rank holds, and how many ranks' data are summed in them
 *
 *          start      distance 1       distance 2     |  distance 2     distance 1
 *     A    0123       01   (2 ranks)   0   (4 ranks)  |  01             0123
 *     B    0123         23               2            |    23           0123
 *     C    0123       01                1             |  01             0123
 *     D    0123         23                3           |    23           0123
 *              halving, adding: send the other half        doubling: send all that is complete
 *
 * The nearest partner is first, so what is added in step k are the sums of two neighbouring aligned blocks of 2^k
 * ranks: the binary tree over ranks. Any other number of ranks is cut into subtrees of falling powers of two (tree.h),
 * each of which halves by itself. Then every block of a subtree is handed once to the subtree on its left, smallest
 * first, and returns summed; what a rank of a subtree holds is held by the ranks of the larger subtree whose numbers
 * in it have the same low bits, in parts:
 *
 *     seven ranks      halved             fold to the left            and back
 *     A B C D          A..D: a quarter    A C <- E   B D <- F         A C -> E   B D -> F     quarters
 *     E F              E, F: a half       E F <- G                    E F -> G                halves
 *     G                all of it
 *
 * so that no rank sends or receives more than about 2 S bytes, whatever N, and no rank is idle meanwhile. The data go
 * in chunks.
 *
 * Wide: f16 and bf16 are given once as they are (step 0), then as f32 partial sums of a quarter and less, and rounded
 * once: their bits are those of the other tree algorithms, for 1.25 times the bytes.
 *
 * Cost: 2 log2(N) steps, for other N two more for each one bit of N beyond the first; 2 S (N - 1) / N bytes sent and
 * received by each rank, up to 2 S for other N. Memory: 4 chunks. Any number of ranks, any count, in and out of place.
 *
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19
 * (2005); subtrees of falling powers of two: Rabenseifner and Traeff, "More efficient reduction algorithms for
 * non-power-of-two number of processors in message-passing parallel systems", EuroPVM/MPI 2004.
 */
#include "collectives/messages/steps.h"
#include "collectives/schedule/tree.h"

enum { FOLD = HALAY_STEP_TAGS - 2, TOTAL };

/* The blocks that a number in a subtree holds after some rounds: of each half the first one if its bit of that round is
 * clear. */
struct held {
    int block, blocks;
};

static struct held held_by(const struct halay_place *at, int number, int rounds)
{
    struct held h = { 0, halay_largest_power(at->ranks) };

    for (int k = 0; k < rounds; k++) {
        h.blocks /= 2;
        h.block += number >> k & 1 ? h.blocks : 0;
    }
    return h;
}

static int buffer(const struct halay_place *at, int index)
{
    struct halay_subtree tree = halay_subtree_of(at->ranks, at->rank);
    int last = tree.rounds - !tree.right_members; /* one for what is folded */

    return index > last ? 0 : halay_largest_power(at->ranks) >> (index < tree.rounds ? index + 1 : tree.rounds);
}

static int halve(const struct halay_place *at, const struct halay_subtree *tree, int index, struct halay_step *out)
{
    int number = at->rank - tree->first, round = index / 2, other = number ^ (1 << round);
    struct held kept = held_by(at, number, round + 1), given = held_by(at, other, round + 1);

    if (!(index % 2))
        return halay_step_give(out, tree->first + other, round, halay_step_sum(round), given.block, given.blocks);
    halay_step_add(out, other < number ? HALAY_ADD_LEFT : HALAY_ADD_RIGHT, tree->first + other, round, round,
                   kept.block, kept.blocks);
    out->is_raw = !round;
    out->is_last = round + 1 == tree->rounds && tree->members == at->ranks;
    return 1;
}

/* Hands over to the left what the subtree on the right and this one have; then the total returns that way. */
static int fold(const struct halay_place *at, const struct halay_subtree *tree, int index, struct halay_step *out)
{
    int number = at->rank - tree->first, lefts = tree->left_members ? tree->left_members / tree->members : 0;
    int sum = halay_step_sum(tree->rounds + (tree->right_members > 0));
    int right = tree->right_members ? tree->right_first + number % tree->right_members : -1;
    struct held mine = held_by(at, number, tree->rounds);

    if (right >= 0 && !index--) {
        halay_step_add(out, HALAY_ADD_RIGHT, right, FOLD, tree->rounds, mine.block, mine.blocks);
        out->is_raw = tree->right_members == 1;
        out->is_last = !lefts;
        return 1;
    }
    if (index < 2 * lefts) {
        int left = number + index % lefts * tree->members;
        struct held theirs = held_by(at, left, 31 - __builtin_clz((unsigned)tree->left_members));
        if (index < lefts)
            return halay_step_give(out, tree->left_first + left, FOLD, sum, theirs.block, theirs.blocks);
        return halay_step_take(out, HALAY_PLACE, tree->left_first + left, TOTAL, HALAY_STEP_OUT, theirs.block,
                               theirs.blocks);
    }
    return halay_step_give(out, right, TOTAL, HALAY_STEP_OUT, mine.block, mine.blocks);
}

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    struct halay_subtree tree = halay_subtree_of(at->ranks, at->rank);
    int folds = 2 * (tree.right_members > 0);

    if (tree.left_members)
        folds += 2 * (tree.left_members / tree.members);
    if (index < 2 * tree.rounds)
        return halve(at, &tree, index, out);
    index -= 2 * tree.rounds;
    if (index < folds)
        return fold(at, &tree, index, out);
    index -= folds;
    int number = at->rank - tree.first, round = tree.rounds - 1 - index / 2;
    if (round < 0)
        return 0;
    int other = number ^ (1 << round);
    struct held h = held_by(at, index % 2 ? other : number, round + 1);
    if (index % 2)
        return halay_step_take(out, HALAY_PLACE, tree.first + other, round, HALAY_STEP_OUT, h.block, h.blocks);
    return halay_step_give(out, tree.first + other, round, HALAY_STEP_OUT, h.block, h.blocks);
}

const struct halay_algorithm_ops halay_allreduce_halving_doubling =
    HALAY_STEPS_OPS(.steps = steps, .buffer = buffer, .blocks = halay_largest_power, .cut = HALAY_CUT_CHUNKS,
                    .lanes = 4, .least = HALAY_STEP_LEAST, .multiple = 4);
