/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor table: finds, creates and frees entries.
 */
#include "fusion/coordinator/coordinator_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct halay_tensor_entry *halay_coordinator_entry(struct halay_coordinator *c, const char *name, size_t length)
{
    uint64_t hash = halay_table_hash(name, length);
    struct halay_tensor_entry *entry = (struct halay_tensor_entry *)halay_table_find(&c->names, name, length, hash);

    if (entry)
        return entry;
    entry = halay_tensor_entry_create(name, length, hash, c->options.size);
    if (entry && halay_table_add(&c->names, &entry->node) != HALAY_OK) {
        halay_tensor_entry_free(entry, c->options.size);
        return NULL;
    }
    return entry;
}

void halay_coordinator_release_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    if (entry->present || entry->id != (uint32_t)HALAY_NO_ID || entry->withdrawal)
        return;
    halay_tensor_entry_list_remove(entry);
    halay_table_remove(&c->names, &entry->node);
    halay_arrivals_forget(c, entry);
    halay_tensor_entry_free(entry, c->options.size);
}

void halay_coordinator_reset_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    memset(entry->state, 0, (size_t)c->options.size);
    entry->present = entry->different = entry->absent = entry->has_parts = entry->is_change = 0;
    entry->since_us = entry->latest_us = 0;
    free(entry->outside);
    entry->outside = NULL;
    entry->outsiders = 0;
    if (entry->id != (uint32_t)HALAY_NO_ID && !entry->forgetting && !entry->withdrawal)
        halay_tensor_entry_list_append(&c->resting, entry);
    else
        halay_tensor_entry_list_remove(entry);
    halay_coordinator_release_entry(c, entry);
}

void halay_coordinator_free_entries(struct halay_coordinator *c)
{
    struct halay_table_node *node;

    while ((node = halay_table_take(&c->names))) {
        struct halay_tensor_entry *entry = (struct halay_tensor_entry *)node;
        if (c->options.parent)
            halay_arrivals_forget(c, entry);
        halay_tensor_entry_free(entry, c->options.size);
    }
    halay_table_fini(&c->names);
}

void halay_coordinator_subject(const struct halay_coordinator *c, const struct halay_tensor_entry *entry, char *text,
                               size_t size)
{
    if (entry->is_change)
        snprintf(text, size, "%.*s", (int)entry->node.length, entry->node.name);
    else if (c->options.number)
        snprintf(text, size, "tensor '%.*s' of process set %d", (int)entry->node.length, entry->node.name,
                 c->options.number);
    else
        snprintf(text, size, "tensor '%.*s'", (int)entry->node.length, entry->node.name);
}

void halay_rank_text_add(struct halay_rank_text *list, int rank)
{
    if (list->count++ == 0) {
        snprintf(list->text, sizeof list->text, "rank %d", rank);
        return;
    }
    if (list->count == 2) {
        memmove(list->text + 5, list->text + 4, strlen(list->text + 4) + 1);
        list->text[4] = 's';
    }
    size_t used = strlen(list->text);
    if (used + 24 < sizeof list->text)
        snprintf(list->text + used, sizeof list->text - used, ", %d", rank);
    else if (list->text[used - 1] != '.')
        snprintf(list->text + used, sizeof list->text - used, ", ...");
}
