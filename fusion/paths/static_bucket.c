/* SPDX-License-Identifier: Apache-2.0
 *
 * Static buckets: registered tensors in order of registration, neighbours of one kind up to the threshold. The first
 * submission of a member seals its bucket; what is registered later opens another.
 */
#include "fusion/paths/static_bucket.h"
#include "fusion/protocol/bucket_plan.h"
#include "fusion/requests/tensor.h"
#include "fusion/state/entry.h"
#include <stdlib.h>
#include <string.h>

static void static_bucket_free(struct halay_static_bucket *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->names[i]);
    free(b->names);
    free(b->position);
    free(b);
}

void halay_static_bucket_remove_locked(struct halay_context *ctx, struct halay_static_bucket *bucket)
{
    struct halay_static_bucket **at = &ctx->static_first, *last = NULL;

    for (; *at && *at != bucket; at = &(*at)->next)
        last = *at;
    if (!*at)
        return;
    *at = bucket->next;
    if (ctx->static_last == bucket)
        ctx->static_last = last;
    static_bucket_free(bucket);
}

static enum halay_status static_bucket_reserve(struct halay_static_bucket *b)
{
    if (b->count < b->capacity)
        return HALAY_OK;
    size_t capacity = b->capacity ? b->capacity * 2 : 16;
    char **names = realloc(b->names, capacity * sizeof *names);
    if (!names)
        return HALAY_ERR_NO_MEMORY;
    b->names = names;
    b->capacity = capacity;
    return HALAY_OK;
}

enum halay_status halay_static_bucket_join_locked(struct halay_context *ctx, struct halay_tensor *tensor)
{
    uint64_t kind = halay_signature_kind(&tensor->signature);
    struct halay_static_bucket *b = ctx->static_last, *fresh = NULL;

    if (!halay_signature_fuses(&tensor->signature))
        return HALAY_OK;
    if (!b || b->is_sealed ||
        !halay_plan_joins(b->kind, b->bytes, b->count, kind, tensor->bytes, ctx->world->config.fusion_threshold)) {
        b = fresh = calloc(1, sizeof *fresh);
        if (!b)
            return HALAY_ERR_NO_MEMORY;
        b->kind = kind;
    }
    char *name = strdup(tensor->entry->node.name);
    if (!name || static_bucket_reserve(b) != HALAY_OK) {
        free(name);
        if (fresh)
            static_bucket_free(fresh);
        return HALAY_ERR_NO_MEMORY;
    }
    tensor->static_bucket = b;
    tensor->member = b->count;
    b->names[b->count++] = name;
    b->alive++;
    b->bytes += tensor->bytes;
    if (fresh) {
        *(ctx->static_last ? &ctx->static_last->next : &ctx->static_first) = fresh;
        ctx->static_last = fresh;
    }
    return HALAY_OK;
}

enum halay_status halay_static_bucket_leave_locked(struct halay_context *ctx, struct halay_tensor *tensor)
{
    struct halay_static_bucket *b = tensor->static_bucket;

    if (!b)
        return HALAY_OK;
    if (b->is_sealed) /* the coordinator knows the bucket, or will before it hears of this */
        return halay_queue_push_locked(
            &ctx->queue,
            &(struct halay_event){ .kind = HALAY_EVENT_UNREGISTERED, .static_bucket = b, .member = tensor->member });
    free(b->names[tensor->member]);
    b->names[tensor->member] = NULL;
    b->bytes -= tensor->bytes;
    if (--b->alive == 0)
        halay_static_bucket_remove_locked(ctx, b);
    return HALAY_OK;
}

void halay_static_buckets_free_all(struct halay_context *ctx)
{
    for (struct halay_static_bucket *b = ctx->static_first, *next; b; b = next) {
        next = b->next;
        static_bucket_free(b);
    }
    ctx->static_first = ctx->static_last = NULL;
}
