/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on rows, of which each rank may have a different number, in order of rank.
 *
 *     all-gather             rank 0: a a     rank 1: b     rank 2: c c c     every rank: a a b c c c
 *     gather to rank 1       rank 0: a a     rank 1: b                       rank 1: a a b
 *     scatter from rank 1    rank 1: a | b b                                 rank 0: a, rank 1: b b
 *     all-to-all             rank 0: a a | b      splits 2, 1                gets 2, 1 rows: a a c
 *                            rank 1: c | d d d    splits 1, 3                gets 1, 3 rows: b d d d
 *
 * Gather and scatter are an all-to-all with one receiver, or one sender: empty blocks move nothing.
 *
 * The numbers of rows were agreed on with the name; nothing is exchanged now. A rank without rows to exchange cannot
 * know whether others have some: all take part unless a row is empty. A rank's own rows stay if they are in their place
 * in out. Elsewhere in out they would be overwritten by others', so they are copied first.
 */
#include "fusion/requests/entry.h"
#include "fusion/run/operations.h"
#include "fusion/run/result.h"
#include <string.h>

/* Returns in *in the source of this rank's rows, whose place is after `first` elements of out: a copy, or the rows
 * themselves. */
static enum halay_status take_own_rows(struct halay_context *ctx, struct halay_bucket *b, size_t first, const char *out,
                                       const void **in)
{
    const struct halay_request *r = b->requests[0];
    const char *rows = r->in, *place = out + first * halay_dtype_size((enum halay_dtype)r->signature.dtype);

    *in = rows;
    if (!r->bytes || rows == place || rows >= out + r->result_bytes || rows + r->bytes <= out)
        return HALAY_OK;
    enum halay_status status = halay_bucket_scratch(ctx, b, r->bytes);
    if (status != HALAY_OK)
        return status;
    memcpy(b->scratch, rows, r->bytes);
    b->has_copy = 1;
    *in = b->scratch;
    return HALAY_OK;
}

enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature), first = 0;
    const void *in;
    void *out;

    enum halay_status status = halay_result_place_answered(ctx, r, &out);
    if (status != HALAY_OK || !r->result_bytes)
        return status;
    for (int i = 0; i < b->set->size; i++)
        ctx->execution->counts[i] = r->rows[i] * row;
    for (int i = 0; i < b->set->rank; i++)
        first += ctx->execution->counts[i];
    status = take_own_rows(ctx, b, first, out, &in);
    if (status != HALAY_OK)
        return status;
    return halay_group_allgatherv_start(b->set->group, in, out, ctx->execution->counts,
                                        (enum halay_dtype)r->signature.dtype, &b->coll);
}

/* Starts the exchange; the counts in the context's scratch memory are set. in or out may be NULL without elements. */
static enum halay_status exchange(struct halay_context *ctx, struct halay_bucket *b, const void *in, void *out)
{
    const size_t *counts = ctx->execution->counts;

    return halay_group_alltoallv_start(b->set->group, in, counts, out, counts + b->set->size,
                                       (enum halay_dtype)b->requests[0]->signature.dtype, &b->coll);
}

enum halay_status halay_gather_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature), first = 0, size = (size_t)b->set->size,
           *counts = ctx->execution->counts;
    const void *in = r->in;
    void *out;

    enum halay_status status = halay_result_place_answered(ctx, r, &out);
    if (status != HALAY_OK || !row)
        return status;
    memset(counts, 0, 2 * size * sizeof *counts);
    counts[halay_process_set_rank_of(b->set, r->signature.root)] = r->count;
    if (r->signature.root != ctx->rank)
        return exchange(ctx, b, in, NULL);
    for (size_t i = 0; i < size; i++)
        counts[size + i] = r->rows[i] * row;
    for (int i = 0; i < b->set->rank; i++)
        first += r->rows[i] * row;
    status = take_own_rows(ctx, b, first, out, &in);
    if (status != HALAY_OK)
        return status;
    if (in == (char *)out + first * halay_dtype_size((enum halay_dtype)r->signature.dtype)) {
        counts[b->set->rank] = 0; /* the rows are in place */
        in = NULL;
    }
    return exchange(ctx, b, in, out);
}

/* Counts the elements for each rank, and from each: as sent and as answered. */
static void count_all(struct halay_context *ctx, const struct halay_bucket *b, size_t row)
{
    const struct halay_request *r = b->requests[0];
    size_t *counts = ctx->execution->counts;

    for (int i = 0; i < b->set->size; i++) {
        counts[i] = (size_t)r->payload.at[i] * row;
        counts[b->set->size + i] = r->rows[i] * row;
    }
}

enum halay_status halay_alltoall_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature), first = 0, *counts = ctx->execution->counts;
    void *out;

    enum halay_status status = halay_result_place_answered(ctx, r, &out);
    if (status != HALAY_OK || !row)
        return status;
    count_all(ctx, b, row);
    for (int i = 0; i < b->set->rank; i++)
        first += counts[i];
    if (r->signature.collective == HALAY_SCATTER && r->in &&
        out == (const char *)r->in + first * halay_dtype_size((enum halay_dtype)r->signature.dtype)) {
        counts[b->set->size + b->set->rank] = 0; /* the rows are in place */
        out = NULL;
    }
    return exchange(ctx, b, r->in, out);
}
