/* SPDX-License-Identifier: Apache-2.0
 *
 * Ragged all-gather: every rank gets every rank's rows, in order of rank.
 *
 *     rank 0: a a     rank 1: b     rank 2: c c c     every rank: a a b c c c
 *
 * The number of rows of each rank was agreed on with the name; nothing is exchanged now. A rank's rows stay if they are
 * in their place in out. Elsewhere in out they would be overwritten by others', so they are copied first.
 */
#include "fusion/run/op_allgather.h"
#include "fusion/requests/entry.h"
#include "fusion/run/result.h"
#include <string.h>

enum halay_status halay_allgather_own_rows(struct halay_context *ctx, struct halay_bucket *b, size_t first,
                                           const char *out, const void **in)
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
    status = halay_allgather_own_rows(ctx, b, first, out, &in);
    if (status != HALAY_OK)
        return status;
    return halay_group_allgatherv_start(b->set->group, in, out, ctx->execution->counts,
                                        (enum halay_dtype)r->signature.dtype, &b->coll);
}
