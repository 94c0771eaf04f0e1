/* SPDX-License-Identifier: Apache-2.0
 *
 * Cost of a start by its structure, where more ranks are wanted than there are processors for: the rounds of a start
 * times one round of the tree (collectives/transport/bootstrap/tree.h), with a constant time for each message, one at a
 * time on each rank. Starting the programs, and the store's work for each host's connection, are not in it.
 */
#ifndef HALAY_TEST_START_MODEL_H
#define HALAY_TEST_START_MODEL_H

#include "collectives/transport/bootstrap/tree.h"

enum { START_MODEL_MESSAGE_US = 50 };

/* Rounds of halay_init without a tuning file. tests/transport/test_world.c counts them in starts.
 *
 *     the records, the segments, who has mapped them, [ports, who is connected,] the engine
 */
enum { START_ROUNDS_ONE_HOST = 4, START_ROUNDS_HOSTS = 6, START_ROUNDS_ENGINE = 1 };

struct start_cost {
    int messages_max; /* sent and received by one rank, in a round */
    double round_us;  /* until the last rank has the table */
};

/* When the messages of a subtree have been gathered; ranks begin at 0. */
static inline double start_model_gathered(const struct halay_tree *tree, int rank, int *count)
{
    double at = 0;
    int children = 0;

    for (int c = halay_tree_next_child(tree, rank, rank); c >= 0; c = halay_tree_next_child(tree, rank, c)) {
        double its = start_model_gathered(tree, c, count) + START_MODEL_MESSAGE_US;
        at = its > at + START_MODEL_MESSAGE_US ? its : at + START_MODEL_MESSAGE_US;
        children++;
    }
    *count = children + (rank > 0) > *count ? children + (rank > 0) : *count;
    return at;
}

static inline double start_model_spread(const struct halay_tree *tree, int rank, double at)
{
    double last = at;

    for (int c = halay_tree_next_child(tree, rank, rank); c >= 0; c = halay_tree_next_child(tree, rank, c)) {
        at += START_MODEL_MESSAGE_US;
        double its = start_model_spread(tree, c, at);
        last = its > last ? its : last;
    }
    return last;
}

/* One round of `size` ranks, `block` a host. */
static inline struct start_cost start_model_round(int size, int block)
{
    const struct halay_tree tree = { .size = size, .block = block, .degree = HALAY_TREE_DEGREE };
    struct start_cost cost = { 0 };
    int connections = 0;

    double at = start_model_gathered(&tree, 0, &connections);
    cost.round_us = start_model_spread(&tree, 0, at);
    cost.messages_max = 2 * connections;
    return cost;
}

static inline int start_model_rounds(int size, int block)
{
    return size > block ? START_ROUNDS_HOSTS : START_ROUNDS_ONE_HOST;
}

/* Requests of the store in a start over hosts that the launcher has described: where its parent is, for each host but
 * the first; where it is itself, for those that are a parent; and each leaves. */
static inline int start_model_requests(int size, int block)
{
    const struct halay_tree tree = { .size = size, .block = block, .degree = HALAY_TREE_DEGREE };
    int requests = 0;

    if (size <= block)
        return 0;
    for (int r = 0; r < size; r += block) {
        int child = halay_tree_next_child(&tree, r, r);
        while (child >= 0 && child < r + block)
            child = halay_tree_next_child(&tree, r, child);
        requests += (r > 0) + (child >= 0) + 1;
    }
    return requests;
}

#endif
