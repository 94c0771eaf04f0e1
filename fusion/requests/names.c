/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: entries in the table of a process set, freed when nothing needs them any more.
 */
#include "fusion/requests/names.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/context.h"
#include "fusion/requests/requests.h"
#include <stdio.h>
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
    halay_payload_fini(&entry->sent);
    halay_payload_fini(&entry->answer);
    free(entry);
}

void halay_entry_release_locked(struct halay_entry *entry)
{
    struct halay_context *ctx = entry->set->ctx;

    struct halay_request *steady = atomic_load_explicit(&entry->steady, memory_order_relaxed);

    if (entry->tensor || entry->request || entry->id != (uint32_t)HALAY_NO_ID)
        return;
    if (steady) { /* in no plan, as the name has no id */
        steady->entry = NULL;
        halay_request_put_locked(steady);
    }
    if (ctx->queue.followed == &entry->followed)
        ctx->queue.followed = NULL;
    halay_table_remove(&entry->set->names, &entry->node);
    halay_entry_free(entry);
}

void halay_request_detach_locked(struct halay_request *r)
{
    if (!r->entry)
        return;
    if (r->entry->request == r) /* else a steady one follows it */
        r->entry->request = NULL;
    halay_entry_release_locked(r->entry);
    r->entry = NULL;
}

void halay_unnamed_print(int collective, char *name)
{
    snprintf(name, HALAY_NAME_MAX + 1, "unnamed %s", halay_collective_name(collective));
}

size_t halay_unnamed_print_next_locked(const struct halay_process_set *set, int collective, char *name)
{
    return (size_t)snprintf(name, HALAY_NAME_MAX + 1, "unnamed %s %u", halay_collective_name(collective),
                            set->unnamed[collective]);
}

void halay_unnamed_count_locked(struct halay_process_set *set, int collective)
{
    set->unnamed[collective] = (set->unnamed[collective] + 1) % HALAY_UNNAMED_MAX;
}

/* Restarts alternately in the first and second half of the numbers: names submitted before the join may still be in
 * flight in some set. */
void halay_unnamed_restart_locked(struct halay_context *ctx)
{
    ctx->unnamed_first = HALAY_UNNAMED_MAX / 2 - ctx->unnamed_first;
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        for (int c = 0; c < HALAY_COLLECTIVE_COUNT; c++)
            set->unnamed[c] = ctx->unnamed_first;
}
