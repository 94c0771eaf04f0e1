/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets: the tensors that run as one collective, from the coordinator's word to the requests' end.
 *
 *     add        ids -> requests; waits in line: every rank starts the same buckets in the same order
 *     start      when the group has a free channel; several run at a time, each on its own
 *     progress   until the collective has ended
 *
 * A bucket of one tensor runs on its own buffers. Several run as lists of pieces; whether these are reduced where they
 * lie or go through scratch memory is the group's business: it knows who can reach them. A group of tensors runs as one
 * bucket a type. The storage of a bucket is kept and grows to the largest it has seen.
 */
#include "fusion/rank/bucket.h"
#include "base/memory.h"
#include "collectives/schedule/vector.h"
#include "fusion/values/rows.h"
#include <stdlib.h>
#include <string.h>

static void bucket_free(struct halay_context *ctx, struct halay_bucket *b)
{
    halay_group_free(ctx->all.group, b->scratch);
    free(b->requests);
    free(b->results);
    free(b->pieces);
    free(b->parts);
    free(b);
}

static enum halay_status reserve(struct halay_bucket *b, size_t count)
{
    if (count <= b->capacity)
        return HALAY_OK;
    struct halay_request **requests = realloc(b->requests, count * sizeof *requests);
    if (!requests)
        return HALAY_ERR_NO_MEMORY;
    b->requests = requests;
    b->capacity = count;
    return HALAY_OK;
}

enum halay_status halay_bucket_reserve_parts(struct halay_bucket *b, size_t count)
{
    if (count <= b->part_capacity)
        return HALAY_OK;
    struct halay_bucket_part *parts = realloc(b->parts, count * sizeof *parts);
    if (parts)
        b->parts = parts;
    struct halay_piece *pieces = realloc(b->pieces, count * sizeof *pieces);
    if (pieces)
        b->pieces = pieces;
    struct halay_piece *results = realloc(b->results, count * sizeof *results);
    if (results)
        b->results = results;
    if (!parts || !pieces || !results)
        return HALAY_ERR_NO_MEMORY;
    b->part_capacity = count;
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

static struct halay_bucket *bucket_get(struct halay_process_set *set, size_t count)
{
    struct halay_context *ctx = set->ctx;
    struct halay_bucket *b = ctx->free_buckets;

    if (b)
        ctx->free_buckets = b->next;
    else
        b = calloc(1, sizeof *b);
    if (b && reserve(b, count) != HALAY_OK) {
        bucket_free(ctx, b);
        return NULL;
    }
    if (b) {
        b->next = NULL;
        b->set = set;
        b->count = b->part_count = 0;
        b->absent = b->chunk_shift = 0;
        b->is_plain = 1;
        b->coll = NULL;
        b->record.kind = 0;
    }
    return b;
}

static void bucket_put(struct halay_context *ctx, struct halay_bucket *b)
{
    b->next = ctx->free_buckets;
    ctx->free_buckets = b;
}

/* It runs no further. Its requests are ended elsewhere, but what this rank gave as it has joined belongs to nobody
 * else. */
static void bucket_drop(struct halay_context *ctx, struct halay_bucket *b)
{
    if (b->coll)
        halay_coll_end(b->coll);
    b->coll = NULL;
    for (size_t i = 0; i < b->count; i++)
        if (!--b->requests[i]->buckets_left && b->requests[i]->is_part)
            halay_join_part_end(b->requests[i]);
    bucket_put(ctx, b);
}

static void line_up(struct halay_bucket *b)
{
    struct halay_process_set *set = b->set;

    b->number = ++set->collectives;
    *set->waiting_last = b;
    set->waiting_last = &b->next;
}

/* A group runs as one bucket a type, in order of type. b is the first. */
static enum halay_status line_up_group(struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    int is_there[HALAY_DTYPE_COUNT] = { 0 };

    r->buckets_left = 0;
    for (size_t i = 0; i < r->signature.members; i++)
        is_there[r->parts[i].dtype] = 1;
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++) {
        if (!is_there[dtype])
            continue;
        if (r->buckets_left) {
            const struct halay_bucket *first = b;
            b = bucket_get(b->set, 1);
            if (!b)
                return HALAY_ERR_NO_MEMORY;
            b->absent = first->absent;
            b->chunk_shift = first->chunk_shift;
            b->is_plain = first->is_plain;
            b->requests[b->count++] = r;
        }
        b->dtype = (enum halay_dtype)dtype;
        r->buckets_left++;
        line_up(b);
    }
    return HALAY_OK;
}

enum halay_status halay_bucket_add(struct halay_process_set *set, const struct halay_item *item)
{
    const struct halay_id_range *ranges = item->ranges;
    struct halay_context *ctx = set->ctx;
    size_t tensors = 0;

    if (item->absent >= set->size)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < item->range_count; i++)
        tensors += ranges[i].count;
    struct halay_bucket *b = bucket_get(set, tensors);
    if (!b)
        return HALAY_ERR_NO_MEMORY;
    b->absent = item->absent;
    b->chunk_shift = item->chunk_shift;
    size_t bytes = 0;
    for (size_t i = 0; i < item->range_count; i++)
        for (uint32_t k = 0; k < ranges[i].count; k++) {
            struct halay_entry *entry = halay_cache_find(set, ranges[i].first + k);
            struct halay_request *request = entry ? entry->request : NULL;
            if (request && request->is_over)
                request = NULL; /* by express; this rank has joined since */
            int is_mine = request && halay_signature_equal(&request->signature, &entry->agreed);
            if (entry && !request)
                request = halay_join_part(ctx, entry);
            if (!request || request->is_running || !(is_mine || request->is_part)) {
                bucket_drop(ctx, b);
                return HALAY_ERR_FORMAT; /* not what this rank has said */
            }
            halay_enrolment_count(&entry->enrolment, &entry->agreed, tensors, &ctx->express.enrolled,
                                  set == &ctx->all ? ctx->express.places : 0);
            b->is_plain &= halay_signature_is_plain(&entry->agreed);
            request->is_running = 1;
            request->buckets_left = 1;
            b->requests[b->count++] = request;
            bytes += request->bytes;
        }
    halay_count(&ctx->tally.bytes, bytes);
    halay_count(&ctx->tally.fused_tensors, tensors > 1 ? tensors : 0);
    b->dtype = (enum halay_dtype)b->requests[0]->signature.dtype;
    if (b->requests[0]->signature.operation == HALAY_CHANGE_SETS) {
        enum halay_status status = halay_process_sets_prepare(ctx, b->requests[0]);
        if (status != HALAY_OK) {
            bucket_drop(ctx, b);
            return status;
        }
    }
    if (b->requests[0]->signature.members)
        return line_up_group(b);
    line_up(b);
    return HALAY_OK;
}

/* ---- running ---- */

static enum halay_status start_broadcast(struct halay_bucket *b)
{
    const struct halay_request *first = b->requests[0];
    int root = halay_process_set_rank_of(b->set, first->signature.root);
    size_t pieces = 0;

    if (b->count == 1 && first->bytes)
        return halay_group_broadcast_start(b->set->group, first->out, first->count,
                                           (enum halay_dtype)first->signature.dtype, root, &b->coll);
    if (halay_bucket_reserve_parts(b, b->count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < b->count; i++)
        if (b->requests[i]->bytes)
            b->pieces[pieces++] = (struct halay_piece){ .data = b->requests[i]->out, .count = b->requests[i]->bytes };
    if (!pieces)
        return HALAY_OK;
    pieces = halay_pieces_join(b->pieces, pieces, 1);
    return halay_group_broadcast_pieces_start(b->set->group, b->pieces, pieces, root, &b->coll);
}

static enum halay_status start(struct halay_context *ctx, struct halay_bucket *b)
{
    switch ((enum halay_operation)b->requests[0]->signature.operation) {
    case HALAY_BROADCAST:
        return start_broadcast(b);
    case HALAY_ALLGATHER:
        return halay_allgather_run(ctx, b);
    case HALAY_REDUCE_SCATTER:
        return halay_reduce_scatter_run(ctx, b);
    case HALAY_ALLTOALL:
        return halay_alltoall_run(ctx, b);
    case HALAY_BARRIER:
        return HALAY_OK; /* that all ranks have agreed to it is all there is to it */
    case HALAY_CHANGE_SETS:
        return halay_process_sets_change(ctx, b->requests[0]);
    case HALAY_JOIN:
        b->requests[0]->last_joined = (int)b->requests[0]->entry->heard.at[0];
        return HALAY_OK;
    default:
        return halay_allreduce_run(b);
    }
}

static void bucket_end(struct halay_context *ctx, struct halay_bucket *b)
{
    const struct halay_signature *s = &b->requests[0]->signature;

    if (b->coll)
        halay_coll_end(b->coll);
    b->coll = NULL;
    if (b->record.kind)
        halay_record_finished(ctx, &b->record, HALAY_OK);
    if (s->operation == HALAY_REDUCE_SCATTER)
        halay_reduce_scatter_finish(b->requests[0]);
    for (size_t i = 0; i < b->count; i++)
        if (--b->requests[i]->buckets_left)
            continue;
        else if (b->requests[i]->is_part)
            halay_join_part_end(b->requests[i]);
        else
            halay_rows_end(b->requests[i]);
    bucket_put(ctx, b);
}

/* The group is closed, or out of step with the others': so is the engine. */
static void fail_group(struct halay_process_set *set, enum halay_status status)
{
    struct halay_context *ctx = set->ctx;
    int rank = -1;

    if (status == HALAY_ERR_PEER) {
        halay_group_fail(set->group, status, -1); /* if it is not closed yet: nothing moves until the cause is known */
        halay_group_status(set->group, &rank);
        rank = rank >= 0 && set->ranks ? set->ranks[rank] : rank;
        if (rank < 0)
            halay_world_check_peers(ctx->world, &rank);
        halay_engine_peer_is_gone(ctx, rank);
        return;
    }
    halay_engine_fail(ctx, status, ctx->rank, "a collective failed on rank %d: %s", ctx->rank,
                      halay_status_string(status));
}

/* Start the bucket that is first in line. */
static void start_first(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    struct halay_bucket *b = set->waiting;
    enum halay_status status;

    set->waiting = b->next;
    if (!set->waiting)
        set->waiting_last = &set->waiting;
    b->next = NULL;
    halay_count(&ctx->tally.collectives, 1);
    if (halay_recording(&ctx->recorder))
        halay_record_started(ctx, b->requests, b->count, b->number, b->dtype, &b->record);
    if (!ctx->running_count)
        halay_tally_busy(&ctx->tally);
    halay_group_set_chunks(set->group, b->chunk_shift);
    status = start(ctx, b);
    halay_group_set_chunks(set->group, 0);
    if (b->coll || status == HALAY_IN_PROGRESS) {
        b->next = set->running;
        set->running = b;
        ctx->running_count++;
    } else if (status == HALAY_OK) {
        bucket_end(ctx, b); /* nothing to move */
    } else {
        /* Whatever was refused, other ranks may have started: going on, the next collectives would meet the wrong
         * ones. */
        bucket_drop(ctx, b);
        fail_group(set, status);
    }
    if (!ctx->running_count)
        halay_tally_idle(&ctx->tally);
}

static int can_start(struct halay_process_set *set)
{
    const struct halay_request *first = set->waiting->requests[0];

    return halay_group_can_start(set->group) &&
           (first->signature.operation != HALAY_CHANGE_SETS || halay_process_sets_may_change(set->ctx, first));
}

/* The buckets of one set. Nonzero if anything got further. */
static size_t progress(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    size_t did = 0;
    unsigned long work = halay_group_work(set->group); /* a collective may get further without ending */

    for (; set->waiting && can_start(set); did++)
        start_first(set);
    for (struct halay_bucket **at = &set->running; *at;) {
        struct halay_bucket *b = *at;
        enum halay_status status =
            b->coll ? halay_coll_progress(b->coll) : halay_process_sets_progress(ctx, b->requests[0]);
        if (status == HALAY_IN_PROGRESS) {
            at = &b->next;
            continue;
        }
        did++;
        if (status != HALAY_OK) {
            fail_group(set, status); /* may empty the list */
            return did;
        }
        *at = b->next;
        if (!--ctx->running_count)
            halay_tally_idle(&ctx->tally);
        bucket_end(ctx, b);
    }
    return did + (halay_group_work(set->group) != work);
}

int halay_buckets_are_pending(const struct halay_context *ctx)
{
    for (const struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->running || set->waiting)
            return 1;
    return 0;
}

size_t halay_buckets_progress(struct halay_context *ctx)
{
    size_t did = 0;

    /* What is given out in a set whose group is still being made here waits for it. */
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->group && (set->running || set->waiting))
            did += progress(set);
    if (ctx->is_draining && !halay_buckets_are_pending(ctx))
        halay_engine_drained(ctx);
    return did;
}

static void abandon(struct halay_process_set *set)
{
    for (struct halay_bucket *b = set->running, *next; b; b = next) {
        next = b->next;
        bucket_drop(set->ctx, b);
    }
    for (struct halay_bucket *b = set->waiting, *next; b; b = next) {
        next = b->next;
        bucket_drop(set->ctx, b);
    }
    set->running = set->waiting = NULL;
    set->waiting_last = &set->waiting;
}

void halay_buckets_abandon(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        abandon(set);
    halay_process_sets_abandon(ctx);
    ctx->running_count = 0;
    halay_tally_idle(&ctx->tally);
}

void halay_buckets_free_all(struct halay_context *ctx)
{
    for (struct halay_bucket *b = ctx->free_buckets, *next; b; b = next) {
        next = b->next;
        bucket_free(ctx, b);
    }
    ctx->free_buckets = NULL;
}
