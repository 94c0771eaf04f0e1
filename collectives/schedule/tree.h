/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a rank stands in the binary tree over ranks, for algorithms that exchange with partners. Pure arithmetic.
 *
 * The tree is cut at the largest power of two below the number of ranks. So the ranks fall into groups of falling
 * powers of two, one for each one bit of their number, and the total is group + (all to its right):
 *
 *     7 ranks    0 1 2 3 | 4 5 | 6       ((0+1)+(2+3)) + ((4+5)+6)
 *
 * A group is a full tree: partners at distance 1, 2, 4, ... Place j of a group and those places of the next larger
 * group that are j modulo its members belong together when the groups are folded.
 */
#ifndef HALAY_TREE_H
#define HALAY_TREE_H

/* A rank's group [first, first + members), the next smaller group, to its right, and the next larger one, to its
 * left. */
struct halay_tree_place {
    int first, members, rounds;     /* members = 2^rounds */
    int right_first, right_members; /* 0 members: none */
    int left_first, left_members;
};

static inline int halay_largest_power(int n)
{
    return 1 << (31 - __builtin_clz((unsigned)n));
}

static inline struct halay_tree_place halay_tree_place_of(int size, int rank)
{
    struct halay_tree_place p = { 0 };

    for (int bit = 30; bit >= 0; bit--) {
        if (!(size >> bit & 1))
            continue;
        p.left_first = p.first;
        p.left_members = p.members;
        p.first += p.members;
        p.members = 1 << bit;
        p.rounds = bit;
        if (rank < p.first + p.members)
            break;
    }
    int rest = size - p.first - p.members;
    p.right_first = p.first + p.members;
    p.right_members = rest ? halay_largest_power(rest) : 0;
    return p;
}

#endif
