/* SPDX-License-Identifier: Apache-2.0
 *
 * The subtree that a rank is in, of the binary tree over ranks, for algorithms that exchange with partners. Pure
 * arithmetic.
 *
 * The tree is cut at the largest power of two below the number of ranks. So the ranks fall into full subtrees of
 * falling powers of two, one for each one bit of their number, and the total is subtree + (all to its right):
 *
 *     7 ranks    0 1 2 3 | 4 5 | 6       ((0+1)+(2+3)) + ((4+5)+6)
 *
 * In a subtree partners are at distance 1, 2, 4, ... When subtrees are folded, number j of one belongs to those numbers
 * of the next larger one that are j modulo its members.
 */
#ifndef HALAY_TREE_H
#define HALAY_TREE_H

/* A rank's subtree [first, first + members), the next smaller one, to its right, and the next larger one, to its
 * left. */
struct halay_subtree {
    int first, members, rounds;     /* members = 2^rounds */
    int right_first, right_members; /* 0 members: none */
    int left_first, left_members;
};

static inline int halay_largest_power(int n)
{
    return 1 << (31 - __builtin_clz((unsigned)n));
}

static inline struct halay_subtree halay_subtree_of(int size, int rank)
{
    struct halay_subtree p = { 0 };

    for (int bit = 31 - __builtin_clz((unsigned)size); bit >= 0; bit--) {
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

/* Returns the rows of the grid that a number of ranks makes: its largest divisor up to its root. */
static inline int halay_grid_rows(int ranks)
{
    int rows = 1;

    while ((rows + 1L) * (rows + 1) <= ranks)
        rows++;
    while (ranks % rows)
        rows--;
    return rows;
}

#endif
