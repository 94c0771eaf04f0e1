/* SPDX-License-Identifier: Apache-2.0
 *
 * Ragged all-gather: everybody gets everybody's rows, in order of rank.
 *
 *     rank 0: a a     rank 1: b     rank 2: c c c     every rank: a a b c c c
 *
 * How many rows each rank gives was agreed with the name; nothing has to be asked now.
 */
#include "fusion/bucket.h"
#include "fusion/rows.h"

enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature);
    void *out;

    enum halay_status status = halay_rows_heard(ctx, r, &out);
    if (status != HALAY_OK || !r->result_bytes)
        return status;
    for (int i = 0; i < b->set->size; i++)
        ctx->counts[i] = r->rows[i] * row;
    return halay_group_allgatherv_start(b->set->group, r->in, out, ctx->counts, (enum halay_dtype)r->signature.dtype,
                                        &b->coll);
}
