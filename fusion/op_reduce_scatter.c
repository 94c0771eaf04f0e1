/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter: each rank gets a part of the reduced rows; the first ranks get one more where they don't come out even.
 *
 *     7 rows, 3 ranks: 3, 2, 2
 *
 * prescale needs a copy of the rows: what is given is only read.
 */
#include "fusion/bucket.h"
#include "fusion/rows.h"
#include "collectives/scale.h"

enum halay_status halay_reduce_scatter_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    const struct halay_signature *s = &r->signature;
    enum halay_dtype dtype = (enum halay_dtype)s->dtype;
    size_t row = halay_signature_row(s), rows = (size_t)s->shape[0];
    const void *in = r->in;
    void *out;

    enum halay_status status = halay_rows_place(r, halay_scatter_rows(rows, b->set->size, b->set->rank, NULL), &out);
    if (status != HALAY_OK || !r->bytes)
        return status;
    if (s->prescale != 1) {
        status = halay_bucket_scratch(ctx, b, r->bytes);
        if (status != HALAY_OK)
            return status;
        halay_scale(b->scratch, r->in, r->count, dtype, s->prescale);
        in = b->scratch;
    }
    for (int i = 0; i < b->set->size; i++)
        ctx->counts[i] = halay_scatter_rows(rows, b->set->size, i, NULL) * row;
    return halay_group_reduce_scatterv_start(b->set->group, in, out, ctx->counts, dtype, (enum halay_op)s->op, &b->coll);
}

void halay_reduce_scatter_finish(struct halay_request *r)
{
    const struct halay_signature *s = &r->signature;
    enum halay_dtype dtype = (enum halay_dtype)s->dtype;
    void *out = r->held ? r->held : r->out;

    if (s->postscale != 1)
        halay_scale(out, out, r->result_bytes / halay_dtype_size(dtype), dtype, s->postscale);
}
