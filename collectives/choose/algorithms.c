/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of algorithms, made from algorithms.def.
 */
#include "collectives/choose/algorithms.h"
#include <string.h>

#define HALAY_ALGORITHM(operation, name, file, shared, tree, wide, pieces, what, cost) \
    extern const struct halay_algorithm_ops halay_##file;
#include "collectives/choose/algorithms.def"
#undef HALAY_ALGORITHM

/* A function for each formula, whose variables are called there as in algorithms.def. */
#define TERM(name) const double name __attribute__((unused)) = t->name;
#define HALAY_ALGORITHM(operation, name, file, shared, tree, wide, pieces, what, cost) \
    static double cost_##operation##_##file(const struct halay_cost_terms *t)          \
    {                                                                                  \
        HALAY_COST_TERMS(TERM)                                                         \
        return cost;                                                                   \
    }
#include "collectives/choose/algorithms.def"
#undef HALAY_ALGORITHM

const struct halay_algorithm halay_algorithms[] = {
#define HALAY_ALGORITHM(operation, name, file, shared, tree, wide, pieces, what, cost)           \
    { HALAY_COLL_##operation,                                                                    \
      name,                                                                                      \
      #file,                                                                                     \
      &halay_##file,                                                                             \
      (shared == 1 ? HALAY_ALGORITHM_SHARED : 0u) | (shared == 2 ? HALAY_ALGORITHM_NODES : 0u) | \
          (tree ? HALAY_ALGORITHM_TREE : 0u) | (wide ? HALAY_ALGORITHM_WIDE : 0u) |              \
          (pieces ? HALAY_ALGORITHM_PIECES : 0u),                                                \
      what,                                                                                      \
      #cost,                                                                                     \
      cost_##operation##_##file },
#include "collectives/choose/algorithms.def"
#undef HALAY_ALGORITHM
};

const size_t halay_algorithm_count = sizeof halay_algorithms / sizeof *halay_algorithms;

static const char *const operation_names[HALAY_COLL_COUNT] = {
    [HALAY_COLL_ALLREDUCE] = "allreduce", [HALAY_COLL_ALLREDUCE_ADASUM] = "adasum",
    [HALAY_COLL_REDUCE] = "reduce",       [HALAY_COLL_REDUCE_SCATTER] = "reduce-scatter",
    [HALAY_COLL_BROADCAST] = "broadcast", [HALAY_COLL_ALLGATHER] = "allgather",
    [HALAY_COLL_ALLTOALL] = "alltoall",   [HALAY_COLL_BARRIER] = "barrier",
};

const char *halay_coll_kind_name(enum halay_coll_kind operation)
{
    return operation_names[operation];
}

enum halay_status halay_coll_kind_parse(const char *name, enum halay_coll_kind *operation)
{
    for (int i = 0; i < HALAY_COLL_COUNT; i++)
        if (name && !strcmp(name, operation_names[i])) {
            *operation = (enum halay_coll_kind)i;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

const struct halay_algorithm *halay_algorithm_find(enum halay_coll_kind operation, const char *name)
{
    for (size_t i = 0; i < halay_algorithm_count; i++)
        if (halay_algorithms[i].operation == operation && !strcmp(halay_algorithms[i].name, name))
            return &halay_algorithms[i];
    return NULL;
}

uint32_t halay_algorithm_tags_max(const struct halay_algorithm *algorithm)
{
    int may_be_inner = algorithm->operation == HALAY_COLL_ALLREDUCE &&
                       !(algorithm->flags & (HALAY_ALGORITHM_SHARED | HALAY_ALGORITHM_NODES));

    return may_be_inner ? HALAY_COLL_INNER_TAGS : HALAY_COLL_OWN_TAGS;
}

size_t halay_algorithm_state_max(int size, enum halay_sharing sharing)
{
    size_t most = 0;

    for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++) {
        int is_shared = a->flags & HALAY_ALGORITHM_SHARED && sharing != HALAY_SHARES_ALL;
        size_t bytes = is_shared ? 0 : a->ops->state_bytes(size);
        most = bytes > most ? bytes : most;
    }
    return most;
}
