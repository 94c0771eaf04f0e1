/* SPDX-License-Identifier: Apache-2.0
 *
 * Choice of an algorithm. The table is read from the top; the first row that fits is taken. What a row says must follow
 * from what all ranks know alike: never from where a buffer of this rank lies.
 *
 * Where the limits come from: docs/perf.md.
 */
#include "collectives/select.h"
#include <stdint.h>
#include <string.h>

#define KB ((size_t)1 << 10)

enum { ANY_SIZE = INT32_MAX, NODES = HALAY_TRANSPORT_NODES };

static const struct rule {
    enum halay_operation operation;
    const char *transport; /* NULL: any */
    unsigned caps;         /* what it needs: 1 (shared memory), NODES, or 0 */
    int tree;              /* 1: also under HALAY_DETERMINISTIC=ranks */
    int ranks_most;
    size_t bytes_most;
    const char *algorithm;
    const char *why;
} rules[] = {
    { HALAY_ALLREDUCE, NULL, 1, 1, 2, KB / 2, "one-shot", "small, in shared memory: one exchange beats two" },
    { HALAY_ALLREDUCE, NULL, 1, 1, 2, SIZE_MAX, "two-shot", "in shared memory: every byte is read and written once" },
    { HALAY_ALLREDUCE, NULL, 1, 1, 8, 2 * KB, "one-shot", "small, in shared memory: one exchange beats two" },
    { HALAY_ALLREDUCE, NULL, 1, 1, ANY_SIZE, KB / 2, "one-shot", "small, in shared memory: one exchange beats two" },
    { HALAY_ALLREDUCE, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "two-shot",
      "in shared memory: every byte is read and written once" },
    { HALAY_ALLREDUCE, NULL, NODES, 0, ANY_SIZE, SIZE_MAX, "hierarchical", "several nodes: the least bytes between them" },
    { HALAY_ALLREDUCE, NULL, 0, 1, ANY_SIZE, 16 * KB, "recursive-doubling",
      "small: the fewest messages one after another" },
    { HALAY_ALLREDUCE, NULL, 0, 1, 16, 1024 * KB, "direct", "of middling size, few ranks: two steps, one rounding" },
    { HALAY_ALLREDUCE, NULL, 0, 0, ANY_SIZE, SIZE_MAX, "ring", "large: the least bytes a rank, neighbours only" },
    { HALAY_ALLREDUCE, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "direct", "large, and sums must follow the tree over ranks" },
    { HALAY_ALLREDUCE_ADASUM, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "direct", "the only one" },
    { HALAY_REDUCE, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "shared", "in shared memory: everybody adds a slice for the root" },
    { HALAY_REDUCE, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "binomial", "the only one by messages" },
    { HALAY_REDUCE_SCATTER, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "shared", "in shared memory: nothing is copied" },
    { HALAY_REDUCE_SCATTER, NULL, 0, 1, 2, SIZE_MAX, "direct", "two ranks: one step, one rounding" },
    { HALAY_REDUCE_SCATTER, NULL, 0, 1, ANY_SIZE, 256 * KB, "direct", "small: one step, one rounding" },
    { HALAY_REDUCE_SCATTER, NULL, 0, 0, ANY_SIZE, SIZE_MAX, "ring", "large: neighbours only" },
    { HALAY_REDUCE_SCATTER, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "direct", "large, and sums must follow the tree over ranks" },
    { HALAY_BROADCAST, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "shared", "in shared memory: one copy" },
    { HALAY_BROADCAST, NULL, 0, 1, ANY_SIZE, KB * KB, "binomial", "small: the fewest messages one after another" },
    { HALAY_BROADCAST, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "chain", "large: every byte is sent once by each rank" },
    { HALAY_ALLGATHER, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "shared", "in shared memory: one copy" },
    { HALAY_ALLGATHER, NULL, 0, 1, ANY_SIZE, 16 * KB, "bruck", "small: the fewest messages one after another" },
    { HALAY_ALLGATHER, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "ring", "large: in segments, to one neighbour only" },
    { HALAY_ALLTOALL, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "shared", "in shared memory: one copy" },
    { HALAY_ALLTOALL, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "pairwise", "the only one by messages" },
    { HALAY_BARRIER, NULL, 1, 1, ANY_SIZE, SIZE_MAX, "shared", "in shared memory: one exchange" },
    { HALAY_BARRIER, NULL, 0, 1, ANY_SIZE, SIZE_MAX, "dissemination", "the only one by messages" },
};

static int rule_fits(const struct rule *rule, const struct halay_select_query *q)
{
    return rule->operation == q->operation && (!rule->transport || !strcmp(rule->transport, q->transport)) &&
           (rule->caps & q->caps) == rule->caps &&
           (rule->tree || q->deterministic != HALAY_DETERMINISTIC_RANKS) && q->size <= rule->ranks_most &&
           q->bytes <= rule->bytes_most;
}

const struct halay_algorithm *halay_select(const struct halay_select_query *query, const char **why)
{
    if (query->forced) {
        *why = "it was asked for";
        return query->forced;
    }
    const struct rule *rule = rules;
    while (!rule_fits(rule, query)) /* the last row of each operation fits everything */
        rule++;
    *why = rule->why;
    return halay_algorithm_find(rule->operation, rule->algorithm);
}

static int adds(enum halay_operation operation)
{
    return operation == HALAY_ALLREDUCE || operation == HALAY_REDUCE || operation == HALAY_REDUCE_SCATTER;
}

enum halay_status halay_select_allows(const struct halay_algorithm *algorithm, unsigned caps,
                                      enum halay_deterministic deterministic, const char **why)
{
    if (algorithm->flags & HALAY_ALGORITHM_SHARED && !(caps & HALAY_TRANSPORT_SHARED)) {
        *why = "the transport shares no memory";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (algorithm->flags & HALAY_ALGORITHM_NODES && !(caps & HALAY_TRANSPORT_NODES)) {
        *why = "it takes several nodes, and shared memory inside one of several ranks";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (adds(algorithm->operation) && deterministic == HALAY_DETERMINISTIC_RANKS &&
        !(algorithm->flags & HALAY_ALGORITHM_TREE)) {
        *why = "it does not sum along the tree over ranks, which HALAY_DETERMINISTIC=ranks asks for";
        return HALAY_ERR_UNSUPPORTED;
    }
    return HALAY_OK;
}
