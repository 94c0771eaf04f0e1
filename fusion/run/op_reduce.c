/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce: the root gets every element reduced over all ranks. Reduce-scatter: each rank gets a block of the reduced
 * rows: by the splits, which were agreed on with the name, otherwise as even as possible, the first ranks one more.
 *
 *     7 rows, 3 ranks: 3, 2, 2      with splits 0, 6, 1: 0, 6, 1
 */
#include "collectives/reduce/scale.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/run/operations.h"
#include "fusion/run/result.h"

/* Returns the request's input in *in: with a prescale a copy, because the input is only read. */
static enum halay_status scale_input(struct halay_context *ctx, struct halay_bucket *b, const void **in)
{
    const struct halay_request *r = b->requests[0];

    *in = r->in;
    if (r->signature.prescale == 1)
        return HALAY_OK;
    enum halay_status status = halay_bucket_scratch(ctx, b, r->bytes);
    if (status != HALAY_OK)
        return status;
    halay_scale(b->scratch, r->in, r->count, (enum halay_dtype)r->signature.dtype, r->signature.prescale);
    *in = b->scratch;
    return HALAY_OK;
}

enum halay_status halay_reduce_run(struct halay_context *ctx, struct halay_bucket *b)
{
    const struct halay_request *r = b->requests[0];
    const struct halay_signature *s = &r->signature;
    const void *in;

    if (!r->bytes)
        return HALAY_OK;
    enum halay_status status = scale_input(ctx, b, &in);
    if (status != HALAY_OK)
        return status;
    return halay_group_reduce_start(b->set->group, in, r->out, r->count, (enum halay_dtype)s->dtype,
                                    (enum halay_reduction)s->reduction, halay_process_set_rank_of(b->set, s->root),
                                    &b->coll);
}

size_t halay_scattered_rows(const struct halay_bucket *b, int rank)
{
    const struct halay_request *r = b->requests[0];

    return r->signature.payload_count ? (size_t)r->entry->answer.at[rank]
                                      : halay_scatter_rows((size_t)r->signature.shape[0], b->set->size, rank, NULL);
}

enum halay_status halay_reduce_scatter_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    const struct halay_signature *s = &r->signature;
    enum halay_dtype dtype = (enum halay_dtype)s->dtype;
    size_t row = halay_signature_row(s);
    const void *in;
    void *out;

    enum halay_status status = halay_result_place(r, halay_scattered_rows(b, b->set->rank), &out);
    if (status != HALAY_OK || !r->bytes)
        return status;
    status = scale_input(ctx, b, &in);
    if (status != HALAY_OK)
        return status;
    for (int i = 0; i < b->set->size; i++)
        ctx->execution->counts[i] = halay_scattered_rows(b, i) * row;
    return halay_group_reduce_scatterv_start(b->set->group, in, out, ctx->execution->counts, dtype,
                                             (enum halay_reduction)s->reduction, &b->coll);
}

void halay_reduce_finish(struct halay_request *r)
{
    const struct halay_signature *s = &r->signature;
    enum halay_dtype dtype = (enum halay_dtype)s->dtype;
    size_t count = s->collective == HALAY_REDUCE ? r->count : r->result_bytes / halay_dtype_size(dtype);
    void *out = r->held ? r->held : r->out;

    if (s->postscale != 1 && out && !(r->cargo && r->cargo->is_direct))
        halay_scale(out, out, count, dtype, s->postscale);
}
