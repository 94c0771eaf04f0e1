/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a bucket; direct_parts.h.
 */
#include "fusion/paths/device/direct_parts.h"
#include "base/memory.h"
#include "fusion/paths/device/segments.h"
#include "fusion/requests/entry.h"
#include "fusion/run/operations.h"
#include "fusion/run/result.h"
#include <stdlib.h>

static void add_part(struct halay_direct *d, const struct halay_direct_part *part)
{
    d->parts[d->part_count++] = *part;
}

static void list_tensors(struct halay_bucket *b)
{
    for (size_t i = 0; i < b->tensor_count; i++) {
        const struct halay_bucket_tensor *t = &b->tensors[i];
        add_part(halay_direct_of(b), &(struct halay_direct_part){ .in = t->buffers.in,
                                                                  .out = t->buffers.out,
                                                                  .count = t->buffers.count,
                                                                  .rank = halay_direct_of(b)->hosts.local,
                                                                  .prescale = (float)t->prescale,
                                                                  .postscale = (float)t->postscale });
    }
}

static void list_broadcast(struct halay_bucket *b)
{
    int root = halay_process_set_rank_of(b->set, b->requests[0]->signature.root), is_root = root == b->set->rank;

    for (size_t i = 0; i < b->count; i++)
        add_part(halay_direct_of(b), &(struct halay_direct_part){ .in = is_root ? b->requests[i]->out : NULL,
                                                                  .out = is_root ? NULL : b->requests[i]->out,
                                                                  .count = b->requests[i]->count,
                                                                  .rank = root });
}

static enum halay_status list_scattered(struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    const struct halay_signature *s = &r->signature;
    size_t row = halay_signature_row(s), at = 0;
    void *out;

    enum halay_status status = halay_result_place(r, halay_scattered_rows(b, b->set->rank), &out);
    for (int i = 0; i < b->set->size && status == HALAY_OK; i++) {
        struct halay_direct_part part = { .in = (const char *)r->in + at * halay_dtype_size(b->dtype),
                                          .out = i == b->set->rank ? out : NULL,
                                          .count = halay_scattered_rows(b, i) * row,
                                          .rank = i,
                                          .prescale = (float)s->prescale,
                                          .postscale = (float)s->postscale };
        add_part(halay_direct_of(b), &part);
        at += part.count;
    }
    return status;
}

/* Enlarges the memory for rows. The old memory is kept until the end: freeing it could wait for the program's
 * streams, which may wait for other ranks. */
static enum halay_status copy_grow(struct halay_context *ctx, size_t bytes)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    size_t least = bytes;
    void *copy;

    bytes = least > 2 * d->copy_bytes ? least : 2 * d->copy_bytes;
    enum halay_status status =
        halay_list_reserve(&d->outgrown, d->outgrown_count + 1, &d->outgrown_capacity, sizeof *d->outgrown);
    if (status == HALAY_OK)
        status = ops->alloc(host, d->device->number, bytes, &copy);
    if (status == HALAY_ERR_NO_MEMORY && bytes > least)
        status = ops->alloc(host, d->device->number, bytes = least, &copy);
    if (status != HALAY_OK)
        return status;
    if (d->copy)
        d->outgrown[d->outgrown_count++] = d->copy;
    d->copy = copy;
    d->copy_bytes = bytes;
    return HALAY_OK;
}

/* Copies this rank's rows if they lie in out, and not in their place there: other ranks' would overwrite them. */
static enum halay_status copy_rows(struct halay_context *ctx, const struct halay_request *r, const char *out,
                                   const char **in)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    enum halay_status status = HALAY_OK;

    if (!r->bytes || *in >= out + r->result_bytes || *in + r->bytes <= out)
        return HALAY_OK;
    if (d->copy_bytes < r->bytes)
        status = copy_grow(ctx, r->bytes);
    if (status == HALAY_OK)
        status = ops->copy_start(host, d->device->number, d->copy, *in, r->bytes, d->stream);
    if (status == HALAY_OK) { /* the request waits for this copy: the job may fail before turn 0 */
        status = ops->event_record(host, d->device->number, d->stream, &d->done);
        d->is_lost |= status != HALAY_OK;
    }
    *in = d->copy;
    return status;
}

/* Begins with the next rank, so that not all ranks read the same segment first. */
static enum halay_status list_gathered(struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature), element = halay_dtype_size(b->dtype);
    const char *in = r->in;
    void *out;

    enum halay_status status = halay_result_place_answered(b->set->ctx, r, &out);
    size_t count = status == HALAY_OK ? r->rows[0] * row : 0; /* of each rank: is_ragged */
    for (int k = 1; k <= b->set->size && status == HALAY_OK; k++) {
        int i = (b->set->rank + k) % b->set->size, is_own = i == b->set->rank;
        char *place = out ? (char *)out + (size_t)i * count * element : NULL;
        if (is_own && place && in != place)
            status = copy_rows(b->set->ctx, r, out, &in);
        struct halay_direct_part part = {
            .in = is_own ? in : NULL, .out = is_own && in == place ? NULL : place, .count = count, .rank = i
        };
        add_part(halay_direct_of(b), &part);
    }
    return status;
}

enum halay_status halay_direct_parts_list(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);
    size_t most = b->count > (size_t)b->set->size ? b->count : (size_t)b->set->size;
    int is_allreduce = halay_bucket_collective(b) == HALAY_ALLREDUCE;
    enum halay_status status = is_allreduce ? halay_allreduce_collect(b) : HALAY_OK;

    most = is_allreduce && b->tensor_count > most ? b->tensor_count : most; /* of a group */
    d->part_count = 0;
    if (status == HALAY_OK && (halay_list_reserve(&d->parts, most, &d->part_capacity, sizeof *d->parts) != HALAY_OK ||
                               halay_list_reserve(&d->pieces, most, &d->piece_capacity, sizeof *d->pieces) != HALAY_OK))
        return HALAY_ERR_NO_MEMORY;
    if (status != HALAY_OK)
        return status;
    switch (halay_bucket_collective(b)) {
    case HALAY_BROADCAST:
        list_broadcast(b);
        return HALAY_OK;
    case HALAY_REDUCE_SCATTER:
        return list_scattered(b);
    case HALAY_ALLGATHER:
        return list_gathered(b);
    default:
        list_tensors(b);
        return HALAY_OK;
    }
}

void halay_direct_parts_free(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (d->copy)
        ops->free(host, d->device->number, d->copy);
    while (d->outgrown_count)
        ops->free(host, d->device->number, d->outgrown[--d->outgrown_count]);
    free(d->outgrown);
    free(d->parts);
    free(d->pieces);
    d->copy = NULL;
    d->outgrown = NULL;
    d->copy_bytes = d->outgrown_capacity = d->part_capacity = d->piece_capacity = 0;
    d->parts = NULL;
    d->pieces = NULL;
}
