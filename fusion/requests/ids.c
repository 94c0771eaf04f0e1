/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids: those that all ranks have agreed on. An id identifies a name, a signature and, where ranks may differ, the rows
 * that each announced; in a steady state ranks send ids only.
 *
 * The coordinator assigns ids (AGREE) and revokes them (FORGET). All ranks receive these messages in the same order, so
 * all hold the same ids. Entries are found by id in an array, and know their id.
 */
#include "fusion/requests/ids.h"
#include "fusion/protocol/set_change.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/context.h"
#include "fusion/requests/names.h"
#include "fusion/requests/request.h"
#include <stdlib.h>
#include <string.h>

static enum halay_status reserve_ids(struct halay_process_set *set, uint32_t id)
{
    size_t capacity = set->id_capacity ? set->id_capacity : 256;

    if (id < set->id_capacity)
        return HALAY_OK;
    while (capacity <= id)
        capacity *= 2;
    struct halay_entry **grown = realloc(set->by_id, capacity * sizeof *grown);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = set->id_capacity; i < capacity; i++)
        grown[i] = NULL;
    set->by_id = grown;
    set->id_capacity = capacity;
    return HALAY_OK;
}

/* Returns nonzero if the change of process sets does not concern this rank, because it is not a member. */
static int is_outside(const struct halay_process_set *set, const struct halay_item *item)
{
    size_t members, first = halay_set_change_members(item->payload, item->payload_count, &members);
    uint64_t rank;

    if (item->signature.collective != HALAY_CHANGE_SETS || !members)
        return 0;
    for (size_t i = first; i < first + members; i++) {
        memcpy(&rank, (const char *)item->payload + i * sizeof rank, sizeof rank);
        if (rank == (uint64_t)set->rank)
            return 0;
    }
    return 1;
}

/* Returns nonzero if the payload sent matches the one received: both have the rows that a rank keeps for itself. */
static int answers(const struct halay_entry *entry, const struct halay_item *item)
{
    const struct halay_process_set *set = entry->set;
    const struct halay_request *request = entry->request;
    uint64_t mine;

    if (item->payload_count != halay_signature_answer_count(&item->signature, set->size))
        return 0;
    if (!request && is_outside(set, item))
        return 1;
    if (!request) /* this rank has joined */
        return set->ctx->queue.is_joined &&
               (item->signature.collective == HALAY_ALLREDUCE || item->signature.collective == HALAY_BARRIER) &&
               halay_signature_fits(&item->signature, item->payload, item->payload_count);
    if (item->signature.collective == HALAY_JOIN)
        return 1;
    if (request->payload.count != halay_signature_sent_count(&item->signature, set->size))
        return 0;
    if (!item->payload_count)
        return 1;
    if (item->signature.payload_count)
        return halay_payload_equal(&request->payload, item->payload, item->payload_count) &&
               halay_signature_fits(&item->signature, item->payload, item->payload_count);
    memcpy(&mine, (const char *)item->payload + (size_t)set->rank * sizeof mine, sizeof mine);
    return mine == request->payload.at[request->payload.count > 1 ? set->rank : 0] &&
           halay_signature_fits(&item->signature, item->payload, item->payload_count);
}

enum halay_status halay_ids_agree(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    enum { ID_MAX = 1 << 24 }; /* far above the ids of a coordinator: a damaged message must not use all memory */
    uint64_t hash = halay_table_hash(item->name, item->name_length);

    if (item->id >= ID_MAX)
        return HALAY_ERR_FORMAT;
    if (reserve_ids(set, item->id) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    pthread_mutex_lock(&ctx->lock);
    int may_be_new = ctx->queue.is_joined || item->signature.collective == HALAY_CHANGE_SETS;
    struct halay_entry *entry =
        may_be_new ? halay_entry_get_locked(set, item->name, item->name_length, hash)
                   : (struct halay_entry *)halay_table_find(&set->names, item->name, item->name_length, hash);
    enum halay_status status = HALAY_OK;
    int ok = entry && answers(entry, item) && (!set->by_id[item->id] || set->by_id[item->id] == entry) &&
             (entry->id == (uint32_t)HALAY_NO_ID || entry->id == item->id);
    if (ok) {
        const struct halay_request *request = entry->request;
        status = halay_payload_set(&entry->sent, request ? request->payload.at : item->payload,
                                   request ? request->payload.count : item->payload_count);
        if (status == HALAY_OK)
            status = halay_payload_set(&entry->answer, item->payload, item->payload_count);
    }
    if (ok && status == HALAY_OK) {
        entry->id = item->id;
        entry->agreed = item->signature;
        set->by_id[item->id] = entry;
    }
    pthread_mutex_unlock(&ctx->lock);
    return ok ? status : HALAY_ERR_FORMAT; /* it is about a name that this rank never submitted */
}

enum halay_status halay_ids_forget(struct halay_process_set *set, uint32_t id)
{
    struct halay_context *ctx = set->ctx;
    struct halay_entry *entry = halay_entry_by_id(set, id);

    if (!entry)
        return HALAY_ERR_FORMAT;
    set->by_id[id] = NULL;
    pthread_mutex_lock(&ctx->lock);
    entry->id = (uint32_t)HALAY_NO_ID;
    halay_entry_release_locked(entry);
    pthread_mutex_unlock(&ctx->lock);
    return HALAY_OK;
}
