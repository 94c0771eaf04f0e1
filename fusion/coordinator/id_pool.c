/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids: numbers for agreed names, so that ranks need not send names.
 *
 * An id whose name is not waiting may be revoked: FORGET to all; when all have answered it is free again. Items that a
 * rank sends with the id before it receives FORGET still count: the entry keeps its signature until then. If all ranks
 * agree on the name once more meanwhile, the id is revived: AGREE follows FORGET.
 */
#include "base/memory.h"
#include "fusion/coordinator/coordinator_state.h"

static void id_free(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    c->by_id[entry->id] = NULL;
    c->free_ids[c->free_count++] = entry->id; /* there is room: reserve_id made it */
    entry->id = (uint32_t)HALAY_NO_ID;
    if (!entry->list)
        halay_coordinator_release_entry(c, entry);
}

/* Revokes the least recently used id. This rank forgets it at once, the others answer. */
static enum halay_status forget_oldest(struct halay_coordinator *c)
{
    struct halay_tensor_entry *entry = c->resting.first;

    if (!entry)
        return HALAY_OK;
    uint32_t id = entry->id;
    halay_capture_reset(&c->replay.capture);
    halay_tensor_entry_list_remove(entry);
    entry->forgetting = c->options.size - 1;
    if (entry->forgetting)
        c->ids_forgetting++;
    else
        id_free(c, entry);
    return halay_coordinator_emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_FORGET, .id = id });
}

enum halay_status halay_coordinator_id_forgotten(struct halay_coordinator *c, uint32_t id)
{
    struct halay_tensor_entry *entry = id < c->ids ? c->by_id[id] : NULL;

    if (!entry || !entry->forgetting)
        return HALAY_ERR_FORMAT;
    if (--entry->forgetting)
        return HALAY_OK;
    c->ids_forgetting--;
    if (!entry->is_revived) {
        id_free(c, entry); /* may free the entry */
        return HALAY_OK;
    }
    entry->is_revived = 0;
    if (!entry->present)
        halay_tensor_entry_list_append(&c->resting, entry);
    return HALAY_OK;
}

/* Makes room for one more in by_id and free_ids. */
static enum halay_status reserve_id(struct halay_coordinator *c)
{
    size_t capacity = c->id_capacity;
    enum halay_status status = halay_list_grow(&c->free_ids, c->ids, &capacity, sizeof *c->free_ids);
    return status == HALAY_OK ? halay_list_grow(&c->by_id, c->ids, &c->id_capacity, sizeof *c->by_id) : status;
}

enum halay_status halay_coordinator_assign_id(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    if (c->ids - c->free_count - c->ids_forgetting >= c->options.ids_max) {
        enum halay_status status = forget_oldest(c);
        if (status != HALAY_OK)
            return status;
    }
    if (c->free_count) {
        entry->id = c->free_ids[--c->free_count];
    } else {
        if (reserve_id(c) != HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
        entry->id = (uint32_t)c->ids++;
    }
    c->by_id[entry->id] = entry;
    return HALAY_OK;
}
