/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor entry: its lists, and the ranks' announcements.
 */
#include "fusion/coordinator/tensor_entry.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct halay_tensor_entry *halay_tensor_entry_create(const char *name, size_t length, uint64_t hash, int size)
{
    struct halay_tensor_entry *entry = calloc(1, sizeof *entry + length + 1 + (size_t)size);

    if (!entry)
        return NULL;
    entry->state = (unsigned char *)(entry + 1);
    char *copy = (char *)entry->state + size;
    memcpy(copy, name, length);
    entry->node = (struct halay_table_node){ .name = copy, .length = length, .hash = hash };
    entry->id = (uint32_t)HALAY_NO_ID;
    return entry;
}

void halay_tensor_entry_free_announced(struct halay_tensor_entry *entry, int size)
{
    for (int r = 0; entry->announced && r < size; r++)
        halay_payload_fini(&entry->announced[r].payload);
    free(entry->announced);
    entry->announced = NULL;
}

void halay_tensor_entry_free(struct halay_tensor_entry *entry, int size)
{
    halay_tensor_entry_free_announced(entry, size);
    halay_payload_fini(&entry->payload);
    free(entry->outside);
    free(entry);
}

enum halay_status halay_tensor_entry_announce(struct halay_tensor_entry *entry, int size, int rank,
                                              const struct halay_signature *signature, const void *payload,
                                              size_t count)
{
    if (!entry->announced)
        entry->announced = calloc((size_t)size, sizeof *entry->announced);
    if (!entry->announced || halay_payload_set(&entry->announced[rank].payload, payload, count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    entry->announced[rank].signature = *signature;
    entry->state[rank] = HALAY_ENTRY_ANNOUNCED;
    entry->different++;
    return HALAY_OK;
}

enum halay_status halay_tensor_entry_ask_only(struct halay_tensor_entry *entry, int size, const uint64_t *ranks,
                                              size_t count)
{
    if (!entry->outside)
        entry->outside = malloc((size_t)size);
    if (!entry->outside)
        return HALAY_ERR_NO_MEMORY;
    memset(entry->outside, 1, (size_t)size);
    entry->outsiders = size;
    for (size_t i = 0; i < count; i++)
        if (ranks[i] < (uint64_t)size && entry->outside[ranks[i]]) {
            entry->outside[ranks[i]] = 0;
            entry->outsiders--;
        }
    return HALAY_OK;
}

void halay_tensor_entry_list_remove(struct halay_tensor_entry *entry)
{
    if (!entry->list)
        return;
    *(entry->previous ? &entry->previous->next : &entry->list->first) = entry->next;
    *(entry->next ? &entry->next->previous : &entry->list->last) = entry->previous;
    entry->list->count--;
    entry->list = NULL;
    entry->previous = entry->next = NULL;
}

void halay_tensor_entry_list_append(struct halay_tensor_entry_list *list, struct halay_tensor_entry *entry)
{
    halay_tensor_entry_list_remove(entry);
    entry->list = list;
    entry->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = entry;
    list->last = entry;
    list->count++;
}

enum halay_status halay_tensor_entry_push(struct halay_tensor_entry_vector *v, struct halay_tensor_entry *entry)
{
    if (halay_list_grow(&v->entries, v->count, &v->capacity, sizeof(struct halay_tensor_entry *)) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    v->entries[v->count++] = entry;
    return HALAY_OK;
}
