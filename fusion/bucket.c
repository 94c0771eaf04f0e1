/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets: the tensors that run as one collective, from the coordinator's word to the requests' end.
 *
 *     add        ids -> requests; waits in line: every rank starts the same buckets in the same order
 *     start      when the group has a free channel; several run at a time, each on its own
 *     progress   until the collective has ended
 *
 * A bucket of one tensor runs on its own buffers. Several run as a list of pieces in place; a tensor whose result goes
 * elsewhere, or that is scaled first, is copied there first. Whether pieces are reduced where they lie or go through scratch memory is the group's
 * business: it knows who can reach them. The storage of a bucket is kept and grows to the largest it has seen.
 */
#include "fusion/bucket.h"
#include "base/memory.h"
#include "fusion/rows.h"
#include "fusion/scale.h"
#include <stdlib.h>
#include <string.h>

static void bucket_free(struct halay_context *ctx, struct halay_bucket *b)
{
    halay_group_free(ctx->group, b->scratch);
    free(b->requests);
    free(b->pieces);
    free(b);
}

static enum halay_status reserve(struct halay_bucket *b, size_t count)
{
    if (count <= b->capacity)
        return HALAY_OK;
    struct halay_request **requests = realloc(b->requests, count * sizeof *requests);
    if (requests)
        b->requests = requests;
    struct halay_piece *pieces = realloc(b->pieces, count * sizeof *pieces);
    if (pieces)
        b->pieces = pieces;
    if (!requests || !pieces)
        return HALAY_ERR_NO_MEMORY;
    b->capacity = count;
    return HALAY_OK;
}

enum halay_status halay_bucket_scratch(struct halay_context *ctx, struct halay_bucket *b, size_t bytes)
{
    if (bytes <= b->scratch_bytes)
        return HALAY_OK;
    halay_group_free(ctx->group, b->scratch);
    b->scratch = NULL;
    b->scratch_bytes = 0;
    enum halay_status status = halay_group_alloc(ctx->group, bytes, &b->scratch);
    if (status == HALAY_OK)
        b->scratch_bytes = bytes;
    return status;
}

static struct halay_bucket *bucket_get(struct halay_context *ctx, size_t count)
{
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
        b->count = 0;
        b->coll = NULL;
    }
    return b;
}

static void bucket_put(struct halay_context *ctx, struct halay_bucket *b)
{
    b->next = ctx->free_buckets;
    ctx->free_buckets = b;
}

enum halay_status halay_bucket_add(struct halay_context *ctx, const struct halay_id_range *ranges, size_t count)
{
    size_t tensors = 0;

    for (size_t i = 0; i < count; i++)
        tensors += ranges[i].count;
    struct halay_bucket *b = bucket_get(ctx, tensors);
    if (!b)
        return HALAY_ERR_NO_MEMORY;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < ranges[i].count; k++) {
            struct halay_entry *entry = halay_cache_find(ctx, ranges[i].first + k);
            struct halay_request *request = entry ? entry->request : NULL;
            if (!request || request->is_running || !halay_signature_equal(&request->signature, &entry->agreed)) {
                bucket_put(ctx, b);
                return HALAY_ERR_FORMAT; /* not what this rank has said */
            }
            request->is_running = 1;
            b->requests[b->count++] = request;
            bytes += request->bytes;
        }
    halay_count(&ctx->tally.bytes, bytes);
    halay_count(&ctx->tally.fused_tensors, tensors > 1 ? tensors : 0);
    *ctx->waiting_last = b;
    ctx->waiting_last = &b->next;
    return HALAY_OK;
}

/* ---- running ---- */

static void prescale(const struct halay_request *r)
{
    halay_scale(r->out, r->in, r->count, (enum halay_dtype)r->signature.dtype, r->signature.prescale);
}

static enum halay_status start_alone(struct halay_context *ctx, struct halay_bucket *b)
{
    const struct halay_request *r = b->requests[0];
    enum halay_dtype dtype = (enum halay_dtype)r->signature.dtype;
    const void *in = r->in;

    switch ((enum halay_operation)r->signature.operation) {
    case HALAY_ALLGATHER:
        return halay_allgather_run(ctx, b);
    case HALAY_REDUCE_SCATTER:
        return halay_reduce_scatter_run(ctx, b);
    case HALAY_ALLTOALL:
        return halay_alltoall_run(ctx, b);
    case HALAY_BARRIER:
        return HALAY_OK; /* that all ranks have agreed to it is all there is to it */
    default:
        break;
    }
    if (!r->count)
        return HALAY_OK;
    if (r->signature.prescale != 1) {
        prescale(r);
        in = r->out;
    }

    if (r->signature.operation == HALAY_BROADCAST)
        return halay_group_broadcast_start(ctx->group, r->out, r->count, dtype, r->signature.root, &b->coll);
    return halay_group_allreduce_start(ctx->group, in, r->out, r->count, dtype, (enum halay_op)r->signature.op,
                                       &b->coll);
}

/* Several tensors as pieces. Empty ones have none; that depends on the shape only, so all ranks give the same pieces. */
static enum halay_status start_fused(struct halay_context *ctx, struct halay_bucket *b, size_t pieces)
{
    const struct halay_signature *s = &b->requests[0]->signature;

    if (s->operation == HALAY_BROADCAST)
        return halay_group_broadcast_pieces_start(ctx->group, b->pieces, pieces, s->root, &b->coll);
    return halay_group_allreduce_pieces_start(ctx->group, b->pieces, pieces, (enum halay_dtype)s->dtype,
                                              (enum halay_op)s->op, &b->coll);
}

static size_t make_pieces(struct halay_bucket *b)
{
    size_t pieces = 0;

    for (size_t i = 0; i < b->count; i++) {
        const struct halay_request *r = b->requests[i];
        if (!r->count)
            continue;
        if (r->signature.prescale != 1)
            prescale(r);
        else if (r->in != r->out)
            memcpy(r->out, r->in, r->bytes);
        b->pieces[pieces++] =
            (struct halay_piece){ r->out, r->signature.operation == HALAY_BROADCAST ? r->bytes : r->count };
    }
    return pieces;
}

/* A request's collective is complete. */
static void finish(struct halay_request *r)
{
    const struct halay_signature *s = &r->signature;
    void *out = r->held ? r->held : r->out;
    size_t bytes = s->operation == HALAY_REDUCE_SCATTER ? r->result_bytes : r->bytes;
    enum halay_dtype dtype = (enum halay_dtype)s->dtype;

    if (s->postscale != 1)
        halay_scale(out, out, bytes / halay_dtype_size(dtype), dtype, s->postscale);
    halay_rows_end(r);
}

static void bucket_end(struct halay_context *ctx, struct halay_bucket *b)
{
    if (b->coll)
        halay_coll_end(b->coll);
    b->coll = NULL;
    for (size_t i = 0; i < b->count; i++)
        finish(b->requests[i]);
    bucket_put(ctx, b);
}

/* The group is closed, or out of step with the others': so is the engine. */
static void fail_group(struct halay_context *ctx, enum halay_status status)
{
    int rank = -1;

    halay_group_status(ctx->group, &rank);
    if (status == HALAY_ERR_PEER && rank >= 0)
        halay_engine_fail_peer(ctx, rank);
    else
        halay_engine_fail(ctx, status, ctx->rank, "a collective failed on rank %d: %s", ctx->rank,
                          halay_status_string(status));
}

/* Start the bucket that is first in line. */
static void start_first(struct halay_context *ctx)
{
    struct halay_bucket *b = ctx->waiting;
    enum halay_status status = HALAY_OK;

    ctx->waiting = b->next;
    if (!ctx->waiting)
        ctx->waiting_last = &ctx->waiting;
    b->next = NULL;
    halay_count(&ctx->tally.collectives, 1);
    if (!ctx->running_count)
        halay_tally_busy(&ctx->tally);
    if (b->count == 1) {
        status = start_alone(ctx, b);
    } else {
        size_t pieces = make_pieces(b);
        if (pieces)
            status = start_fused(ctx, b, pieces);
    }
    if (b->coll) {
        b->next = ctx->running;
        ctx->running = b;
        ctx->running_count++;
    } else if (status == HALAY_OK) {
        bucket_end(ctx, b); /* nothing to move */
    } else {
        /* Whatever was refused, other ranks may have started: going on, the next collectives would meet the wrong ones. */
        bucket_put(ctx, b);
        fail_group(ctx, status);
    }
    if (!ctx->running_count)
        halay_tally_idle(&ctx->tally);
}

size_t halay_buckets_progress(struct halay_context *ctx)
{
    size_t did = 0;
    unsigned long work = halay_group_work(ctx->group); /* a collective may get further without ending */

    for (; ctx->waiting && halay_group_can_start(ctx->group); did++)
        start_first(ctx);
    for (struct halay_bucket **at = &ctx->running; *at;) {
        struct halay_bucket *b = *at;
        enum halay_status status = halay_coll_progress(b->coll);
        if (status == HALAY_IN_PROGRESS) {
            at = &b->next;
            continue;
        }
        did++;
        if (status != HALAY_OK) {
            fail_group(ctx, status); /* empties the list */
            return did;
        }
        *at = b->next;
        if (!--ctx->running_count)
            halay_tally_idle(&ctx->tally);
        bucket_end(ctx, b);
    }
    if (ctx->is_draining && !ctx->running && !ctx->waiting)
        halay_engine_drained(ctx);
    return did + (halay_group_work(ctx->group) != work);
}

void halay_buckets_abandon(struct halay_context *ctx)
{
    for (struct halay_bucket *b = ctx->running, *next; b; b = next) {
        next = b->next;
        halay_coll_end(b->coll);
        b->coll = NULL;
        bucket_put(ctx, b);
    }
    for (struct halay_bucket *b = ctx->waiting, *next; b; b = next) {
        next = b->next;
        bucket_put(ctx, b);
    }
    ctx->running = ctx->waiting = NULL;
    ctx->waiting_last = &ctx->waiting;
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
