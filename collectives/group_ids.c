/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of groups. group_ids.h says when one may be used again.
 */
#include "collectives/group_ids.h"
#include "collectives/shared.h"
#include <stdlib.h>

_Static_assert(HALAY_GROUPS_MAX <= 32, "a bit for each id");

enum halay_status halay_group_ids_take(struct halay_group_ids *ids, struct halay_log *log, int *id)
{
    if (ids->made == HALAY_WORLD_GROUPS) {
        halay_error(log, "no more groups of all ranks: a job has %d, ended ones counted", HALAY_WORLD_GROUPS);
        return HALAY_ERR_UNSUPPORTED;
    }
    *id = ids->made++;
    return HALAY_OK;
}

int halay_group_ids_choose(uint32_t taken, int last)
{
    enum { COUNT = HALAY_GROUPS_MAX - HALAY_SUBSET_FIRST };
    int after = last < HALAY_SUBSET_FIRST ? 0 : last - HALAY_SUBSET_FIRST + 1;

    for (int i = 0; i < COUNT; i++) {
        int id = HALAY_SUBSET_FIRST + (after + i) % COUNT;
        if (!(taken >> id & 1))
            return id;
    }
    return -1;
}

void halay_group_ids_close(struct halay_group_ids *ids, struct halay_group_end *end)
{
    end->next = ids->ends;
    ids->ends = end;
}

/* Pairs with the stores of publish_end (coll.c) and of give_up here. */
static int has_closed(const struct halay_group_witness *w)
{
    return atomic_load_explicit(&w->area->closed, memory_order_acquire) ||
           atomic_load_explicit(&w->area->generation, memory_order_acquire) != w->generation;
}

static int is_quiet(const struct halay_group_end *end)
{
    for (int i = 0; i < end->count; i++)
        if (!has_closed(&end->witness[i]))
            return 0;
    return 1;
}

static void give_up(struct halay_group_ids *ids, struct halay_transport *shared, int id)
{
    ids->generation[id]++;
    if (shared) {
        struct halay_area *area = shared->ops->area(shared, shared->rank, id * HALAY_CHANNELS);
        shared->ops->clear(shared, id * HALAY_CHANNELS, HALAY_CHANNELS);
        atomic_store_explicit(&area->generation, ids->generation[id], memory_order_release);
    }
    ids->taken &= ~(1u << id);
}

void halay_group_ids_sweep(struct halay_group_ids *ids, struct halay_transport *shared)
{
    struct halay_group_end **link = &ids->ends, *end;

    while ((end = *link)) {
        if (!is_quiet(end)) {
            link = &end->next;
            continue;
        }
        *link = end->next;
        give_up(ids, shared, end->id);
        free(end);
    }
}

void halay_group_ids_fini(struct halay_group_ids *ids)
{
    while (ids->ends) {
        struct halay_group_end *end = ids->ends;
        ids->ends = end->next;
        free(end);
    }
}
