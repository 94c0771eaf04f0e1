/* SPDX-License-Identifier: Apache-2.0
 *
 * Tree: see tree.h.
 */
#include "collectives/transport/bootstrap/tree.h"
#include <stdint.h>

/* The power of 16 that is the place of the lowest digit that isn't zero. number > 0. */
static int64_t lowest_place(int number)
{
    int64_t place = 1;

    while (number % (place * HALAY_TREE_DEGREE) == 0)
        place *= HALAY_TREE_DEGREE;
    return place;
}

int halay_tree_parent(const struct halay_tree *tree, int rank)
{
    int inside = rank % tree->block, number = rank / tree->block;

    if (!rank)
        return -1;
    if (inside)
        return rank - (int)(inside % (lowest_place(inside) * HALAY_TREE_DEGREE));
    return rank - (int)(number % (lowest_place(number) * HALAY_TREE_DEGREE)) * tree->block;
}

int halay_tree_span(const struct halay_tree *tree, int rank)
{
    int inside = rank % tree->block, number = rank / tree->block;
    int64_t span = tree->size, left = tree->size - rank;

    if (inside) {
        span = lowest_place(inside);
        if (span > tree->block - inside)
            span = tree->block - inside;
    } else if (number) {
        span = lowest_place(number) * tree->block;
    }
    return (int)(span < left ? span : left);
}

int halay_tree_next_child(const struct halay_tree *tree, int rank, int child)
{
    int next = child == rank ? rank + 1 : child + halay_tree_span(tree, child);

    return next < rank + halay_tree_span(tree, rank) ? next : -1;
}
