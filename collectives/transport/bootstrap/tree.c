/* SPDX-License-Identifier: Apache-2.0
 *
 * Tree: see tree.h.
 */
#include "collectives/transport/bootstrap/tree.h"
#include <stdint.h>

/* The power of the degree that is the place of the lowest digit that isn't zero. number > 0. */
static int64_t lowest_place(const struct halay_tree *tree, int number)
{
    int64_t place = 1;

    while (number % (place * tree->degree) == 0)
        place *= tree->degree;
    return place;
}

int halay_tree_parent(const struct halay_tree *tree, int rank)
{
    int inside = rank % tree->block, number = rank / tree->block;

    if (!rank)
        return -1;
    if (inside)
        return rank - (int)(inside % (lowest_place(tree, inside) * tree->degree));
    return rank - (int)(number % (lowest_place(tree, number) * tree->degree)) * tree->block;
}

int halay_tree_span(const struct halay_tree *tree, int rank)
{
    int inside = rank % tree->block, number = rank / tree->block;
    int64_t span = tree->size, left = tree->size - rank;

    if (inside) {
        span = lowest_place(tree, inside);
        if (span > tree->block - inside)
            span = tree->block - inside;
    } else if (number) {
        span = lowest_place(tree, number) * tree->block;
    }
    return (int)(span < left ? span : left);
}

int halay_tree_next_child(const struct halay_tree *tree, int rank, int child)
{
    int next = child == rank ? rank + 1 : child + halay_tree_span(tree, child);

    return next < rank + halay_tree_span(tree, rank) ? next : -1;
}
