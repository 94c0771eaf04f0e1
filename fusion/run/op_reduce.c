/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce: the root gets every element reduced over all ranks.
 */
#include "fusion/run/op_reduce.h"
#include "collectives/reduce/scale.h"

enum halay_status halay_reduce_input(struct halay_context *ctx, struct halay_bucket *b, const void **in)
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
    enum halay_status status = halay_reduce_input(ctx, b, &in);
    if (status != HALAY_OK)
        return status;
    return halay_group_reduce_start(b->set->group, in, r->out, r->count, (enum halay_dtype)s->dtype,
                                    (enum halay_reduction)s->reduction, halay_process_set_rank_of(b->set, s->root),
                                    &b->coll);
}

void halay_reduce_finish(struct halay_request *r)
{
    const struct halay_signature *s = &r->signature;

    if (s->postscale != 1 && r->out)
        halay_scale(r->out, r->out, r->count, (enum halay_dtype)s->dtype, s->postscale);
}
