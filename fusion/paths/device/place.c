/* SPDX-License-Identifier: Apache-2.0
 *
 * Place: the extents of `in` and `out` that each collective reads and writes on this rank.
 */
#include "fusion/paths/device/place.h"
#include "fusion/paths/device/direct.h"
#include "fusion/paths/device/staging.h"
#include <stdlib.h>

static struct halay_extent span_of(const struct halay_context *ctx, const struct halay_submission *s)
{
    int collective = s->signature->collective, is_root = s->signature->root == ctx->rank;
    struct halay_extent span = { .in = s->in, .in_bytes = s->bytes, .out = s->out, .out_bytes = s->out_bytes };

    span.is_in_place = collective == HALAY_ALLREDUCE || collective == HALAY_REDUCE || collective == HALAY_BROADCAST;
    if (halay_collective_is_empty(collective))
        span.in_bytes = span.out_bytes = 0;
    if (collective == HALAY_BROADCAST)
        *(is_root ? &span.out_bytes : &span.in_bytes) = 0;
    if (collective == HALAY_SEND)
        span.out_bytes = 0;
    if (collective == HALAY_RECEIVE)
        span.in_bytes = 0;
    return span;
}

static enum halay_status prepare(struct halay_context *ctx, const char *name, struct halay_submission *s,
                                 struct halay_extent *spans, size_t count)
{
    struct halay_staging *staging;

    enum halay_status status = halay_staging_prepare(ctx, name, s->placing, spans, count, &staging);
    s->cargo = status == HALAY_OK && staging ? &staging->cargo : NULL;
    return status;
}

static enum halay_status place_group(struct halay_context *ctx, const char *name, const struct halay_buffers *buffers,
                                     struct halay_submission *s)
{
    size_t count = s->signature->members;
    struct halay_extent *spans = calloc(count, sizeof *spans);
    struct halay_buffers *own = buffers ? NULL : calloc(count, sizeof *own);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (spans && (buffers || own)) {
        if (own)
            halay_members_buffers(s->info, own);
        for (size_t i = 0; i < count; i++) {
            const struct halay_buffers *b = own ? &own[i] : &buffers[i];
            size_t bytes = b->count * halay_dtype_size(b->dtype);
            spans[i] = (struct halay_extent){
                .in = b->in, .in_bytes = bytes, .out = b->out, .out_bytes = bytes, .is_in_place = 1
            };
        }
        status = prepare(ctx, name, s, spans, count);
    }
    free(own);
    free(spans);
    return status;
}

enum halay_status halay_place(struct halay_context *ctx, const char *name, const struct halay_buffers *buffers,
                              struct halay_submission *s)
{
    if (s->signature->members)
        return place_group(ctx, name, buffers, s);
    struct halay_extent span = span_of(ctx, s);
    span.is_direct = s->signature->is_on_devices && s->set == &ctx->all && halay_direct_may_be(ctx);
    return prepare(ctx, name, s, &span, 1);
}
