/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache: the ids that all ranks have agreed on. An id stands for a name and a signature; a steady step speaks in ids only.
 *
 * The coordinator gives them out (AGREE) and takes them back (FORGET), so that all ranks hold the same ones, in the same
 * order of messages. An array by id here, a pointer from the name's entry back.
 */
#include "fusion/engine.h"
#include <stdlib.h>

struct halay_entry *halay_cache_find(const struct halay_context *ctx, uint32_t id)
{
    return id < ctx->id_capacity ? ctx->by_id[id] : NULL;
}

static enum halay_status reserve(struct halay_context *ctx, uint32_t id)
{
    size_t capacity = ctx->id_capacity ? ctx->id_capacity : 256;

    if (id < ctx->id_capacity)
        return HALAY_OK;
    while (capacity <= id)
        capacity *= 2;
    struct halay_entry **grown = realloc(ctx->by_id, capacity * sizeof *grown);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = ctx->id_capacity; i < capacity; i++)
        grown[i] = NULL;
    ctx->by_id = grown;
    ctx->id_capacity = capacity;
    return HALAY_OK;
}

enum halay_status halay_cache_agree(struct halay_context *ctx, const struct halay_item *item)
{
    enum { ID_MAX = 1 << 24 }; /* far above what a coordinator gives out: a damaged message must not take all memory */
    uint64_t hash = halay_table_hash(item->name, item->name_length);

    if (item->id >= ID_MAX)
        return HALAY_ERR_FORMAT;
    if (reserve(ctx, item->id) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    pthread_mutex_lock(&ctx->lock);
    struct halay_entry *entry = (struct halay_entry *)halay_table_find(&ctx->names, item->name, item->name_length, hash);
    int ok = entry && (!ctx->by_id[item->id] || ctx->by_id[item->id] == entry) &&
             (entry->id == (uint32_t)HALAY_NO_ID || entry->id == item->id);
    if (ok) {
        entry->id = item->id;
        entry->agreed = item->signature;
        ctx->by_id[item->id] = entry;
    }
    pthread_mutex_unlock(&ctx->lock);
    return ok ? HALAY_OK : HALAY_ERR_FORMAT; /* it speaks of what this rank never submitted */
}

enum halay_status halay_cache_forget(struct halay_context *ctx, uint32_t id)
{
    struct halay_entry *entry = halay_cache_find(ctx, id);

    if (!entry)
        return HALAY_ERR_FORMAT;
    ctx->by_id[id] = NULL;
    pthread_mutex_lock(&ctx->lock);
    entry->id = (uint32_t)HALAY_NO_ID;
    halay_entry_release_locked(ctx, entry);
    pthread_mutex_unlock(&ctx->lock);
    return HALAY_OK;
}
