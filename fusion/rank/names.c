/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: entries in the table of a process set, freed when nothing needs them any more.
 */
#include "fusion/rank/names.h"
#include "fusion/state/context.h"
#include <stdlib.h>
#include <string.h>

struct halay_entry *halay_entry_get_locked(struct halay_process_set *set, const char *name, size_t length,
                                           uint64_t hash)
{
    struct halay_entry *entry = (struct halay_entry *)halay_table_find(&set->names, name, length, hash);

    if (entry)
        return entry;
    entry = calloc(1, sizeof *entry + length + 1);
    if (!entry)
        return NULL;
    memcpy(entry + 1, name, length);
    entry->node = (struct halay_table_node){ .name = (char *)(entry + 1), .length = length, .hash = hash };
    entry->set = set;
    entry->id = (uint32_t)HALAY_NO_ID;
    if (halay_table_add(&set->names, &entry->node) != HALAY_OK) {
        free(entry);
        return NULL;
    }
    return entry;
}

void halay_entry_free(struct halay_entry *entry)
{
    halay_words_fini(&entry->said);
    halay_words_fini(&entry->heard);
    free(entry);
}

void halay_entry_release_locked(struct halay_entry *entry)
{
    struct halay_context *ctx = entry->set->ctx;

    if (entry->tensor || entry->request || entry->id != (uint32_t)HALAY_NO_ID)
        return;
    if (ctx->driver.latest == entry)
        ctx->driver.latest = NULL;
    halay_table_remove(&entry->set->names, &entry->node);
    halay_entry_free(entry);
}
