/* SPDX-License-Identifier: Apache-2.0
 *
 * Tree: which rank exchanges with which while a job starts, and while an engine leaves a plan
 * (fusion/protocol/replay.h). A function of rank, size, block and degree alone.
 *
 * A block is a run of ranks that are likely to share a host. Inside a block, and among the first ranks of the blocks,
 * a rank's parent is its number with the lowest digit that isn't zero cleared, to base `degree`. Block 32, 80 ranks,
 * degree 16:
 *
 *     0 -+- 1 ... 15           each subtree is a run of ranks, so that what it has gathered is one piece of the table;
 *        +- 16 - 17 ... 31     at most one rank of a block has a parent in another
 *        +- 32 -+- 33 ... 47
 *        |      +- 48 - 49 ... 63
 *        +- 64 - 65 ... 79
 */
#ifndef HALAY_BOOTSTRAP_TREE_H
#define HALAY_BOOTSTRAP_TREE_H

enum { HALAY_TREE_DEGREE = 16 }; /* while a job starts */

struct halay_tree {
    int size;   /* ranks, at least 1 */
    int block;  /* ranks of a block, at least 1 */
    int degree; /* at least 2 */
};

int halay_tree_parent(const struct halay_tree *tree, int rank); /* -1: rank 0 has none */
/* Ranks of the subtree, which are rank, rank + 1, ... */
int halay_tree_span(const struct halay_tree *tree, int rank);
/* The child of rank after this one; the first after rank itself; -1 after the last. */
int halay_tree_next_child(const struct halay_tree *tree, int rank, int child);

#endif
