/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes: where the ranks of a group are, as far as an algorithm over several nodes needs it; set once with the group.
 *
 * Each node cuts a row of data into as many blocks as it has ranks, and each of its ranks owns one. Nodes may have
 * different numbers of ranks, so their cuts differ; all cuts together make the *strips*. Every strip is part of
 * one block of each node, so it has one owner on each: these sum it among themselves.
 *
 *     node A, 2 ranks    |        0        |        1        |
 *     node B, 3 ranks    |     0     |     1     |     2     |
 *     strips             |     0     |  1  |  2  |     3     |        owners: A0 B0, A0 B1, A1 B1, A1 B2
 *
 * Cuts are fractions of the row, so that they serve rows of any length.
 */
#ifndef HALAY_NODES_H
#define HALAY_NODES_H

#include "base/memory.h"
#include "collectives/group/channel.h"

enum { HALAY_STRIPS_MAX = 256 };

/* The place of a cut of a row: num / den of its length. */
struct halay_cut {
    int num, den;
};

/* A strip that this rank owns. */
struct halay_strip {
    struct halay_cut from, to;
    int index;   /* among all strips of the row */
    int *owners; /* owned: its owner on each node, in their order, as the job's ranks */
};

struct halay_nodes {
    int count;                 /* nodes with members of the group */
    int node;                  /* this rank's among them */
    int local;                 /* this rank's number among the members of its node */
    int locals;                /* how many these are */
    int *rank;                 /* owned: [locals], their numbers in the group */
    int strips;                /* in this rank's block: at least 1 */
    struct halay_strip *strip; /* owned */
};

/* For a group with its transport and members. *out is NULL where there is nothing to gain: one node, one rank on each,
 * no shared memory, or more than HALAY_STRIPS_MAX strips; the same on all ranks. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_nodes_create(const struct halay_group *group, struct halay_nodes **out);
void halay_nodes_destroy(struct halay_nodes *nodes); /* NULL is allowed */

/* Returns where a cut falls in a row of count elements, at a multiple of unit elements. Equal cuts fall together. */
static inline size_t halay_cut_at(struct halay_cut cut, size_t count, size_t unit)
{
    size_t units = count / unit + (count % unit != 0), at = units * (size_t)cut.num / (size_t)cut.den * unit;

    return at < count ? at : count;
}

/* Returns the block of rank number `local`. */
static inline struct halay_span halay_node_block_span(int local, int locals, size_t count, size_t unit)
{
    size_t from = halay_cut_at((struct halay_cut){ local, locals }, count, unit);

    return (struct halay_span){ from, halay_cut_at((struct halay_cut){ local + 1, locals }, count, unit) - from };
}

#endif
