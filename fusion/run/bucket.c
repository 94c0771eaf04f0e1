/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets: the tensors that run as one collective, from the coordinator's BUCKET to the requests' end.
 *
 *     add        ids -> requests; queued: every rank starts the same buckets in the same order (here)
 *     start      when the group has a free channel; several run at a time, each on its own (run.c)
 *     progress   until the collective has ended (run.c)
 *
 * A bucket of one tensor runs on the tensor's buffers, a bucket of several on lists of pieces. The group decides
 * whether these are reduced in place or through scratch memory, as it knows which ranks can access them. A group of
 * tensors runs as one bucket a type. The storage of a bucket is kept and grows to its largest use.
 */
#include "fusion/run/bucket.h"
#include "base/memory.h"
#include "collectives/schedule/vector.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/ids.h"
#include "fusion/requests/join.h"
#include "fusion/run/result.h"
#include "fusion/run/sets.h"
#include <stdlib.h>
#include <string.h>

static void bucket_free(struct halay_context *ctx, struct halay_bucket *b)
{
    halay_group_free(ctx->all.group, b->scratch);
    free(b->requests);
    free(b->results);
    free(b->pieces);
    free(b->tensors);
    free(b);
}

static enum halay_status reserve_requests(struct halay_bucket *b, size_t count)
{
    return halay_list_reserve(&b->requests, count, &b->capacity, sizeof(struct halay_request *));
}

enum halay_status halay_bucket_reserve_tensors(struct halay_bucket *b, size_t count)
{
    if (count <= b->tensor_capacity)
        return HALAY_OK;
    size_t sizes[] = { b->tensor_capacity, b->tensor_capacity, b->tensor_capacity };
    if (halay_list_reserve(&b->tensors, count, &sizes[0], sizeof *b->tensors) != HALAY_OK ||
        halay_list_reserve(&b->pieces, count, &sizes[1], sizeof *b->pieces) != HALAY_OK ||
        halay_list_reserve(&b->results, count, &sizes[2], sizeof *b->results) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    b->tensor_capacity = count;
    return HALAY_OK;
}

enum halay_status halay_bucket_scratch(struct halay_context *ctx, struct halay_bucket *b, size_t bytes)
{
    if (bytes <= b->scratch_bytes)
        return HALAY_OK;
    halay_group_free(ctx->all.group, b->scratch);
    b->scratch = NULL;
    b->scratch_bytes = 0;
    enum halay_status status = halay_group_alloc(ctx->all.group, bytes, &b->scratch);
    if (status == HALAY_OK)
        b->scratch_bytes = bytes;
    return status;
}

static struct halay_bucket *bucket_new(struct halay_context *ctx)
{
    struct halay_bucket *b = calloc(1, sizeof *b);

    if (b) {
        b->next_made = ctx->execution->made_buckets;
        ctx->execution->made_buckets = b;
    }
    return b;
}

static void bucket_init(struct halay_bucket *b, struct halay_process_set *set)
{
    b->next = NULL;
    b->set = set;
    b->count = b->tensor_count = 0;
    b->absent = b->has_parts = b->is_steady = b->is_same = 0;
    b->is_plain = 1;
    b->coll = NULL;
    b->planned = NULL;
    b->has_copy = b->is_voting = b->is_due = 0;
    b->types = 0;
    b->record.kind = 0;
}

static struct halay_bucket *bucket_get(struct halay_process_set *set, size_t count)
{
    struct halay_context *ctx = set->ctx;
    struct halay_bucket *b = ctx->execution->free_buckets;

    if (b)
        ctx->execution->free_buckets = b->next;
    else
        b = bucket_new(ctx);
    if (!b)
        return NULL;
    bucket_init(b, set);
    if (reserve_requests(b, count) == HALAY_OK)
        return b;
    halay_bucket_put(ctx, b);
    return NULL;
}

void halay_bucket_put(struct halay_context *ctx, struct halay_bucket *b)
{
    if (b->planned) /* it keeps the bucket for its next turn */
        return;
    b->next = ctx->execution->free_buckets;
    ctx->execution->free_buckets = b;
}

void halay_bucket_drop(struct halay_context *ctx, struct halay_bucket *b)
{
    if (b->coll)
        halay_coll_end(b->coll);
    b->coll = NULL;
    if (b->count && b->requests[0]->signature.is_on_devices)
        ctx->carrier->ops->drop_bucket(b);
    for (size_t i = 0; i < b->count; i++)
        if (!--b->requests[i]->buckets_left && b->requests[i]->is_part)
            halay_join_part_end(b->requests[i]);
    halay_bucket_put(ctx, b);
}

void halay_bucket_revert(struct halay_bucket *b)
{
    struct halay_request *first = b->requests[0];

    if (b->has_copy)
        memcpy((void *)first->in, b->scratch, first->bytes);
    for (size_t i = 0; i < b->count; i++)
        halay_result_forget(b->requests[i]);
}

static void line_up(struct halay_bucket *b)
{
    struct halay_process_set *set = b->set;

    b->number = ++set->collectives;
    *set->waiting_last = b;
    set->waiting_last = &b->next;
    set->ctx->execution->waiting_count++;
}

/* A group runs as one bucket a type, in order of type. b is the first. */
static enum halay_status line_up_group(struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    int is_there[HALAY_DTYPE_COUNT] = { 0 };

    r->buckets_left = 0;
    for (size_t i = 0; i < r->signature.members; i++)
        is_there[r->buffers[i].dtype] = 1;
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++) {
        if (!is_there[dtype])
            continue;
        if (r->buckets_left) {
            const struct halay_bucket *first = b;
            b = bucket_get(b->set, 1);
            if (!b)
                return HALAY_ERR_NO_MEMORY;
            b->absent = first->absent;
            b->has_parts = first->has_parts;
            b->is_plain = first->is_plain;
            b->requests[b->count++] = r;
        }
        b->dtype = (enum halay_dtype)dtype;
        r->buckets_left++;
        line_up(b);
    }
    return HALAY_OK;
}

/* Returns this rank's request of an agreed name, or its part if it has joined since. NULL: it submitted another
 * signature, or no memory. */
static struct halay_request *take_request(struct halay_context *ctx, struct halay_entry *entry)
{
    struct halay_request *request = entry->request;

    if (!request || request->life >= HALAY_LIFE_RUNNING) /* of an earlier bucket: the others are ahead */
        return halay_join_part(ctx, entry);
    return halay_signature_equal(&request->signature, &entry->agreed) ? request : NULL;
}

/* Returns nonzero if a request can share a bucket that begins with `first`: data of another type would be read out of
 * bounds. */
static int can_join(const struct halay_signature *s, const struct halay_signature *first)
{
    return halay_signature_fuses(s) && halay_signature_fuses(first) &&
           halay_signature_kind(s) == halay_signature_kind(first);
}

/* Finds the bucket's requests, in the coordinator's order. */
static enum halay_status collect_requests(struct halay_bucket *b, const struct halay_item *item, size_t tensors)
{
    struct halay_process_set *set = b->set;
    struct halay_context *ctx = set->ctx;
    size_t bytes = 0;

    for (size_t i = 0; i < item->range_count; i++)
        for (uint32_t k = 0; k < item->ranges[i].count; k++) {
            struct halay_entry *entry = halay_entry_by_id(set, item->ranges[i].first + k);
            struct halay_request *request = entry ? take_request(ctx, entry) : NULL;
            if (!request || (b->count && !can_join(&request->signature, &b->requests[0]->signature)))
                return HALAY_ERR_FORMAT;
            b->is_plain &= halay_signature_is_plain(&entry->agreed);
            halay_request_move(request, HALAY_LIFE_RUNNING);
            request->buckets_left = 1;
            b->requests[b->count++] = request;
            bytes += request->bytes;
        }
    halay_count(&ctx->meters->tally.bytes, bytes);
    halay_count(&ctx->meters->tally.fused_tensors, tensors > 1 ? tensors : 0);
    return HALAY_OK;
}

/* A group of a plan is one bucket, too: its types are reduced one after the other. */
static void list_types(struct halay_bucket *b)
{
    const struct halay_request *r = b->requests[0];

    for (size_t i = 0; i < r->signature.members; i++)
        if (r->buffers[i].count)
            b->types |= 1u << r->buffers[i].dtype;
    if (b->types)
        b->dtype = (enum halay_dtype)__builtin_ctz(b->types);
}

int halay_bucket_continue(struct halay_bucket *b)
{
    int was_voting = b->is_voting;

    b->is_voting = 0;
    if (!was_voting && b->types)
        b->types &= b->types - 1;
    if (b->types)
        b->dtype = (enum halay_dtype)__builtin_ctz(b->types);
    return was_voting || b->types;
}

void halay_bucket_number_next(const struct halay_bucket *b)
{
    if (b->planned)
        halay_group_start_at(b->set->group, b->planned->number);
}

/* Takes the requests that are in flight for a plan's bucket. */
static void set_requests(struct halay_bucket *b, const struct halay_plan_bucket *planned)
{
    b->bytes = 0;
    for (size_t i = 0; i < planned->count; i++) {
        struct halay_request *request = halay_replay_request(planned, i);
        b->is_plain &= halay_signature_is_plain(&request->signature);
        request->buckets_left = 1;
        b->requests[b->count++] = request;
        b->bytes += request->bytes;
    }
    b->dtype = (enum halay_dtype)b->requests[0]->signature.dtype;
}

struct halay_bucket *halay_bucket_make(struct halay_process_set *set, struct halay_plan_bucket *planned)
{
    struct halay_tally *tally = &set->ctx->meters->tally;
    const struct halay_replay *plan = planned->plan;
    struct halay_bucket *b = planned->bucket;
    size_t count = planned->count;
    int is_same = halay_replay_is_same(planned);

    if (b && !is_same)
        bucket_init(b, set);
    if (b && reserve_requests(b, count) != HALAY_OK)
        return NULL; /* the engine fails */
    if (!b && !(b = bucket_get(set, count)))
        return NULL;
    if (!is_same)
        set_requests(b, planned);
    planned->bucket = b;
    b->planned = planned;
    b->number = plan->collectives_base + (planned->number - plan->base) + 1;
    b->is_voting = planned->has_vote;
    b->has_copy = b->is_due = 0;
    list_types(b);
    b->is_steady = !planned->ordinary;
    b->is_same = is_same && !b->types;
    halay_count(&tally->bytes, b->bytes);
    halay_count(&tally->fused_tensors, count > 1 ? count : 0);
    halay_count(&tally->cache_hits, count);
    return b;
}

enum halay_status halay_bucket_add(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    size_t tensors = 0;

    if (item->absent >= set->size)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < item->range_count; i++)
        tensors += item->ranges[i].count;
    if (!tensors || tensors > set->id_capacity)
        return HALAY_ERR_FORMAT;
    struct halay_bucket *b = bucket_get(set, tensors);
    if (!b)
        return HALAY_ERR_NO_MEMORY;
    b->absent = item->absent;
    b->has_parts = item->has_parts;
    enum halay_status status = collect_requests(b, item, tensors);
    const struct halay_request *first = b->count ? b->requests[0] : NULL;
    if (status == HALAY_OK && first->signature.collective == HALAY_CHANGE_SETS)
        status = halay_process_sets_prepare(ctx, b->requests[0]);
    if (status != HALAY_OK) {
        halay_bucket_drop(ctx, b);
        return status;
    }
    b->dtype = (enum halay_dtype)first->signature.dtype;
    if (first->signature.members)
        return line_up_group(b);
    line_up(b);
    return HALAY_OK;
}

int halay_buckets_are_pending(const struct halay_context *ctx)
{
    return ctx->execution->running_count || ctx->execution->waiting_count;
}

static void abandon_set(struct halay_process_set *set)
{
    for (struct halay_bucket *b = set->running, *next; b; b = next) {
        next = b->next;
        halay_bucket_drop(set->ctx, b);
    }
    for (struct halay_bucket *b = set->waiting, *next; b; b = next) {
        next = b->next;
        halay_bucket_drop(set->ctx, b);
    }
    set->running = set->waiting = NULL;
    set->waiting_last = &set->waiting;
}

void halay_buckets_abandon(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        abandon_set(set);
    halay_process_sets_abandon(ctx);
    ctx->execution->running_count = ctx->execution->waiting_count = 0;
    halay_tally_idle(&ctx->meters->tally);
}

void halay_buckets_free_all(struct halay_context *ctx)
{
    for (struct halay_bucket *b = ctx->execution->made_buckets, *next; b; b = next) {
        next = b->next_made;
        bucket_free(ctx, b);
    }
    ctx->execution->made_buckets = ctx->execution->free_buckets = NULL;
}
