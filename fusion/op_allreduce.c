/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce of a bucket: one tensor, several that were fused, or the members of one type of a group.
 *
 *     as they are     in -> out (copied or scaled, if it is not in place and alone) -> reduced in out -> out scaled
 *     compressed      in -> scaled, rounded, one behind the other in scratch -> reduced there -> widened, scaled -> out
 *
 * Scratch is memory that local ranks share: there the compressed data are reduced in place. Empty tensors have no piece; that
 * depends on shapes only, so all ranks give a list of pieces or none does. Neighbours in memory are one piece: where a rank's
 * tensors lie is its own affair.
 */
#include "fusion/bucket.h"
#include "collectives/vector.h"
#include "fusion/scale.h"
#include "fusion/wire.h"
#include <string.h>

static void add_part(struct halay_bucket *b, const struct halay_signature *s, const struct halay_part *part)
{
    if (part->count && part->dtype == b->dtype)
        b->parts[b->part_count++] = (struct halay_bucket_part){ *part, s->prescale, s->postscale };
}

/* What the bucket's requests have to be reduced. */
static enum halay_status collect(struct halay_bucket *b)
{
    size_t most = 0;

    for (size_t i = 0; i < b->count; i++)
        most += b->requests[i]->signature.members ? b->requests[i]->signature.members : 1;
    enum halay_status status = halay_bucket_reserve_parts(b, most);
    b->part_count = 0;
    for (size_t i = 0; i < b->count && status == HALAY_OK; i++) {
        const struct halay_request *r = b->requests[i];
        for (size_t m = 0; m < r->signature.members; m++)
            add_part(b, &r->signature, &r->parts[m]);
        if (!r->signature.members)
            add_part(b, &r->signature, &(struct halay_part){ r->in, r->out, r->count, b->dtype });
    }
    return status;
}

static void prepare(struct halay_bucket *b, size_t i)
{
    const struct halay_bucket_part *p = &b->parts[i];

    if (p->prescale != 1)
        halay_scale(p->part.out, p->part.in, p->part.count, b->dtype, p->prescale);
    else if (p->part.in != p->part.out)
        memcpy(p->part.out, p->part.in, p->part.count * halay_dtype_size(b->dtype));
    b->pieces[i] = (struct halay_piece){ p->part.out, p->part.count };
}

static enum halay_status start_as_is(struct halay_bucket *b, enum halay_op op)
{
    const struct halay_part *only = &b->parts[0].part;

    if (b->part_count == 1 && b->parts[0].prescale == 1)
        return halay_group_allreduce_start(b->set->group, only->in, only->out, only->count, b->dtype, op, &b->coll);
    size_t pieces = b->part_count;
    for (size_t i = 0; i < pieces; i++)
        prepare(b, i);
    if (op != HALAY_ADASUM) /* of each tensor by itself */
        pieces = halay_pieces_join(b->pieces, pieces, halay_dtype_size(b->dtype));
    return halay_group_allreduce_pieces_start(b->set->group, b->pieces, pieces, b->dtype, op, &b->coll);
}

static enum halay_status start_compressed(struct halay_context *ctx, struct halay_bucket *b, enum halay_op op)
{
    enum halay_wire wire = (enum halay_wire)b->requests[0]->signature.wire;
    enum halay_dtype dtype = halay_wire_dtype(wire);
    size_t total = 0;

    for (size_t i = 0; i < b->part_count; i++)
        total += b->parts[i].part.count;
    enum halay_status status = halay_bucket_scratch(ctx, b, total * halay_dtype_size(dtype));
    if (status != HALAY_OK)
        return status;
    char *at = b->scratch;
    for (size_t i = 0; i < b->part_count; i++) {
        const struct halay_bucket_part *p = &b->parts[i];
        halay_wire_narrow(at, p->part.in, p->part.count, wire, p->prescale);
        b->pieces[i] = (struct halay_piece){ at, p->part.count };
        at += p->part.count * halay_dtype_size(dtype);
    }
    if (op == HALAY_ADASUM) /* of each tensor by itself */
        return halay_group_allreduce_pieces_start(b->set->group, b->pieces, b->part_count, dtype, op, &b->coll);
    return halay_group_allreduce_start(b->set->group, b->scratch, b->scratch, total, dtype, op, &b->coll);
}

enum halay_status halay_allreduce_run(struct halay_context *ctx, struct halay_bucket *b)
{
    const struct halay_signature *s = &b->requests[0]->signature;
    enum halay_status status = collect(b);

    if (status != HALAY_OK || !b->part_count)
        return status;
    halay_group_set_absent(b->set->group, b->absent);
    status = s->wire ? start_compressed(ctx, b, (enum halay_op)s->op) : start_as_is(b, (enum halay_op)s->op);
    halay_group_set_absent(b->set->group, 0);
    return status;
}

void halay_allreduce_finish(struct halay_bucket *b)
{
    enum halay_wire wire = (enum halay_wire)b->requests[0]->signature.wire;

    for (size_t i = 0; i < b->part_count; i++) {
        const struct halay_bucket_part *p = &b->parts[i];
        if (wire)
            halay_wire_widen(p->part.out, b->pieces[i].data, p->part.count, wire, p->postscale);
        else if (p->postscale != 1)
            halay_scale(p->part.out, p->part.out, p->part.count, b->dtype, p->postscale);
    }
}
