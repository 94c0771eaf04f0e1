/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive doubling all-reduce: partners at distance 1, 2, 4, ... exchange their sums; the fewest steps.
 *
 *     four ranks         round 0              round 1
 *     A   a              A <-> B   a+b        A <-> C   (a+b)+(c+d)
 *     B   b                        a+b        B <-> D   (a+b)+(c+d)
 *     C   c              C <-> D   c+d                  ...
 *     D   d                        c+d
 *
 * After round k a rank holds the sum of its aligned 2^(k+1) neighbours: a subtree of the binary tree over ranks. Any
 * other number of ranks is cut into subtrees of falling powers of two, one for each one bit: 7 = 4 + 2 + 1. Each
 * subtree doubles by itself; then what is to the right of a subtree is handed to it, smallest first, and the total is
 * handed back:
 *
 *     seven ranks        subtrees doubled     fold to the left               total back
 *     A B C D            abcd = (a+b)+(c+d)   abcd + efg    <- from E F      E F G <- from A B C
 *     E F                ef = e+f             efg = ef + g  <- from G
 *     G                  g
 *
 * That is the same tree as everywhere (cut at the largest power of two below n): ((a+b)+(c+d))+((e+f)+g). In the fold,
 * rank j of a subtree sends to the ranks of the next larger subtree whose number in it is j modulo the members of the
 * smaller one.
 *
 * Wide: f16 and bf16 travel as they are in the first round, then as f32 partial sums, and are rounded once.
 *
 * Cost: log2(N) (a + S b); for other N one step more for each one bit of N, and one. log2(N) + 1 chunks of memory. Any
 * number of ranks, any count, in and out of place.
 *
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19
 * (2005).
 */
#include "collectives/messages/steps.h"
#include "collectives/schedule/tree.h"

enum { FOLD = HALAY_STEP_TAGS - 2, TOTAL };

static int buffer(const struct halay_place *at, int index)
{
    struct halay_subtree tree = halay_subtree_of(at->ranks, at->rank);

    return index < tree.rounds + (tree.right_members > 0);
}

static int after_doubling(const struct halay_place *at, const struct halay_subtree *tree, int index,
                          struct halay_step *out)
{
    int is_first = !tree->left_members, lefts = is_first ? 0 : tree->left_members / tree->members;
    int number = at->rank - tree->first, sum = halay_step_sum(tree->rounds + (tree->right_members > 0));

    if (tree->right_members && !index--) {
        halay_step_add(out, HALAY_ADD_RIGHT, tree->right_first + number % tree->right_members, FOLD, tree->rounds, 0,
                       1);
        out->is_raw = tree->right_members == 1;
        out->is_last = (unsigned char)is_first;
        return 1;
    }
    if (is_first)
        return !index && at->rank + tree->members < at->ranks &&
               halay_step_give(out, at->rank + tree->members, TOTAL, HALAY_STEP_OUT, 0, 1);
    if (index < lefts)
        return halay_step_give(out, tree->left_first + number + index * tree->members, FOLD, sum, 0, 1);
    halay_step_take(out, HALAY_PLACE, at->rank - halay_largest_power(at->ranks), TOTAL, HALAY_STEP_OUT, 0, 1);
    return index == lefts;
}

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    struct halay_subtree tree = halay_subtree_of(at->ranks, at->rank);
    int round = index / 2;

    if (round >= tree.rounds)
        return after_doubling(at, &tree, index - 2 * tree.rounds, out);
    int partner = tree.first + ((at->rank - tree.first) ^ (1 << round));
    if (!(index % 2))
        return halay_step_give(out, partner, round, halay_step_sum(round), 0, 1);
    halay_step_add(out, partner < at->rank ? HALAY_ADD_LEFT : HALAY_ADD_RIGHT, partner, round, round, 0, 1);
    out->is_raw = !round;
    out->is_last = round + 1 == tree.rounds && tree.members == at->ranks;
    return 1;
}

const struct halay_algorithm_ops halay_allreduce_recursive_doubling =
    HALAY_STEPS_OPS(.steps = steps, .buffer = buffer, .blocks = halay_one_block, .cut = HALAY_CUT_CHUNKS, .lanes = 1,
                    .multiple = 1);
