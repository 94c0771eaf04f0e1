/* SPDX-License-Identifier: Apache-2.0
 *
 * Place: the extents of `in` and `out` that each collective reads and writes on this rank.
 */
#include "fusion/paths/device/place.h"
#include "fusion/paths/device/direct.h"
#include "fusion/paths/device/staging.h"
#include "fusion/requests/path.h"
#include <stdlib.h>

static struct halay_extent span_of(const struct halay_tensor *t)
{
    int collective = t->signature.collective, is_root = t->signature.root == t->ctx->rank;
    struct halay_extent span = { .in = t->in, .in_bytes = t->bytes, .out = t->out, .out_bytes = t->out_bytes };

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

static enum halay_status prepare(const struct halay_tensor *t, struct halay_extent *spans, size_t count,
                                 struct halay_cargo **cargo)
{
    struct halay_staging *staging;

    enum halay_status status = halay_staging_prepare(t->ctx, t->name, &t->placing, spans, count, &staging);
    *cargo = status == HALAY_OK && staging ? &staging->cargo : NULL;
    return status;
}

static enum halay_status place_group(const struct halay_tensor *t, struct halay_cargo **cargo)
{
    size_t count = t->signature.members;
    struct halay_extent *spans = calloc(count, sizeof *spans);
    struct halay_buffers *own = t->buffers ? NULL : calloc(count, sizeof *own);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (spans && (t->buffers || own)) {
        if (own)
            halay_members_buffers(t->naming->info, own);
        for (size_t i = 0; i < count; i++) {
            const struct halay_buffers *b = own ? &own[i] : &t->buffers[i];
            size_t bytes = b->count * halay_dtype_size(b->dtype);
            spans[i] = (struct halay_extent){
                .in = b->in, .in_bytes = bytes, .out = b->out, .out_bytes = bytes, .is_in_place = 1
            };
        }
        status = prepare(t, spans, count, cargo);
    }
    free(own);
    free(spans);
    return status;
}

enum halay_status halay_place(const struct halay_tensor *t, struct halay_cargo **cargo)
{
    if (t->signature.members)
        return place_group(t, cargo);
    struct halay_extent span = span_of(t);
    span.is_direct = t->signature.is_on_devices && t->set == &t->ctx->all && halay_direct_may_be(t->ctx);
    return prepare(t, &span, 1, cargo);
}
