/* SPDX-License-Identifier: Apache-2.0
 *
 * A group's choices. Looking through tables and formulas takes about as long as a small all-reduce over shared memory,
 * so what was chosen is kept in a small table, by operation, size and type; sizes that fall on the same entry take
 * turns.
 */
#include "collectives/group/choice.h"
#include "collectives/choose/algorithms.h"
#include <string.h>

struct halay_select_query halay_choice_query(const struct halay_group *group, enum halay_coll_kind operation,
                                             size_t bytes, enum halay_dtype dtype)
{
    return (struct halay_select_query){
        .operation = operation,
        .bytes = bytes,
        .is_half = group->reducer->widen[dtype] != NULL,
        .size = group->size,
        .is_local = group->hosts == 1,
        .hosts = group->hosts,
        .transport = group->transport,
        .sharing = group->sharing,
        .chunk = group->world->config.chunk_bytes,
        .slot = group->world->config.slot_bytes,
        .deterministic = group->deterministic,
        .forced = group->forced[operation],
        .tuning = group->world->tuning,
    };
}

static struct halay_choice *entry_of(struct halay_group *group, enum halay_coll_kind operation, size_t bytes,
                                     int is_half)
{
    size_t hash = (bytes ^ bytes >> 17) * 0x9e3779b97f4a7c15u + (size_t)operation * 7 + (size_t)is_half;

    return &group->choices[(hash ^ hash >> 40) % HALAY_CHOICES];
}

/* Apart from halay_choice_make, whose usual way needs no room for a text. */
static __attribute__((noinline)) void choose(struct halay_group *group, enum halay_coll_kind operation, size_t bytes,
                                             enum halay_dtype dtype, struct halay_choice *choice)
{
    struct halay_select_query query = halay_choice_query(group, operation, bytes, dtype);
    int is_told = group->world->log->level >= HALAY_LOG_DEBUG;
    char why[512];

    choice->algorithm = halay_select(&query, is_told ? why : NULL, sizeof why);
    choice->slot = halay_select_slot(&query);
    choice->bytes = bytes;
    choice->is_half = query.is_half;
    if (is_told)
        halay_debug(group->world->log, "%s of %zu bytes over %s, %d ranks: %s, because: %s",
                    halay_coll_kind_name(operation), bytes, query.transport, query.size, choice->algorithm->name, why);
}

const struct halay_choice *halay_choice_make(struct halay_group *group, enum halay_coll_kind operation, size_t bytes,
                                             enum halay_dtype dtype)
{
    int is_half = group->reducer->widen[dtype] != NULL;
    struct halay_choice *choice = entry_of(group, operation, bytes, is_half);

    if (!choice->algorithm || choice->algorithm->operation != operation || choice->bytes != bytes ||
        choice->is_half != is_half)
        choose(group, operation, bytes, dtype, choice);
    return choice;
}

void halay_choice_forget(struct halay_group *group)
{
    memset(group->choices, 0, sizeof group->choices);
}
