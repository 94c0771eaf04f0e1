/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrival: a rank's submission of a name is received. The last rank's completes it.
 */
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/protocol/set_change.h"
#include "fusion/protocol/signature.h"
#include <stdlib.h>
#include <string.h>

/* Returns nonzero if the rank can send this now. */
static int may_arrive(const struct halay_coordinator *c, int rank, const struct halay_tensor_entry *entry,
                      const struct halay_item *item)
{
    if (entry->state[rank])
        return 0;
    if (!item)
        return 1;
    if (item->signature.collective >= HALAY_JOIN && c->options.parent)
        return 0; /* the parent handles joins and sets */
    if (item->payload_count != halay_signature_sent_count(&item->signature, c->options.size))
        return 0;
    return !item->signature.members || halay_signature_fits(&item->signature, item->payload, item->payload_count);
}

static int says_what_was_agreed(const struct halay_tensor_entry *entry, int rank, const struct halay_item *item)
{
    return !entry->is_join && halay_signature_equal(&item->signature, &entry->agreed) &&
           (!item->payload_count || !memcmp(item->payload, halay_tensor_entry_payload(entry, rank, item->payload_count),
                                            item->payload_count * sizeof *entry->payload.at));
}

/* Records the arrival of a rank; keeps its announcement if it differs from the agreement. */
static enum halay_status record_arrival(struct halay_coordinator *c, int rank, struct halay_tensor_entry *entry,
                                        const struct halay_item *item)
{
    int has_id = entry->id != (uint32_t)HALAY_NO_ID && (!entry->forgetting || entry->is_revived);

    entry->state[rank] = HALAY_ENTRY_READY;
    if (item && (!has_id || !says_what_was_agreed(entry, rank, item)))
        return halay_tensor_entry_announce(entry, c->options.size, rank, &item->signature, item->payload,
                                           item->payload_count);
    if (item || has_id)
        return HALAY_OK;
    /* The rank had not yet received that the id is to be forgotten. */
    size_t says = halay_signature_sent_count(&entry->agreed, c->options.size);
    return halay_tensor_entry_announce(entry, c->options.size, rank, &entry->agreed,
                                       says ? halay_tensor_entry_payload(entry, rank, says) : NULL, says);
}

/* Begins a change of process sets, which may concern only some ranks. */
static enum halay_status ask_members(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank)
{
    const struct halay_signature *s = halay_tensor_entry_signature(entry, rank);
    const uint64_t *payload = halay_tensor_entry_payload(entry, rank, s->payload_count);
    size_t members, first = halay_set_change_members(payload, s->payload_count, &members);

    entry->is_change = 1;
    return members ? halay_tensor_entry_ask_only(entry, c->options.size, payload + first, members) : HALAY_OK;
}

/* Handles the arrival of a rank at an entry. item: its announcement; NULL: it is ready for what is agreed. */
static enum halay_status arrive_at_entry(struct halay_coordinator *c, int rank, struct halay_tensor_entry *entry,
                                         const struct halay_item *item, int64_t now_us)
{
    enum halay_status status = HALAY_OK;

    if (!may_arrive(c, rank, entry, item))
        return HALAY_ERR_FORMAT;
    if (halay_coordinator_owes(entry, rank))
        return halay_coordinator_settle(c, entry, rank);
    if (item && item->signature.collective == HALAY_JOIN) {
        entry->is_join = 1;
        status = halay_coordinator_has_joined(c, rank) ? HALAY_ERR_FORMAT : halay_coordinator_join(c, rank);
        if (status != HALAY_OK)
            return status;
    }
    status = record_arrival(c, rank, entry, item);
    if (status == HALAY_OK && !entry->is_change &&
        halay_tensor_entry_signature(entry, rank)->collective == HALAY_CHANGE_SETS)
        status = ask_members(c, entry, rank);
    if (status == HALAY_OK && entry->outside && entry->outside[rank])
        status = HALAY_ERR_FORMAT;
    if (status != HALAY_OK)
        return status;
    if (++entry->present == 1) {
        entry->since_us = now_us;
        if (!entry->is_join) /* a join may wait for long without being a stall */
            halay_tensor_entry_list_append(&c->waiting, entry);
    }
    halay_arrivals_note(c, rank, entry, now_us);
    return halay_coordinator_is_complete(c, entry) ? halay_coordinator_complete(c, entry)
                                                   : halay_coordinator_check_left(c, entry);
}

enum halay_status halay_coordinator_announce(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                             int64_t now_us)
{
    struct halay_tensor_entry *entry = halay_coordinator_entry(c, item->name, item->name_length);

    if (!entry)
        return HALAY_ERR_NO_MEMORY;
    if (rank == 0)
        entry->order = item->order;
    return arrive_at_entry(c, rank, entry, item, now_us);
}

enum halay_status halay_coordinator_ready(struct halay_coordinator *c, int rank, const struct halay_id_range *range,
                                          int64_t now_us)
{
    for (uint32_t id = range->first; id < range->first + range->count; id++) {
        if (id >= c->ids || !c->by_id[id])
            return HALAY_ERR_FORMAT;
        enum halay_status status = arrive_at_entry(c, rank, c->by_id[id], NULL, now_us);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}
