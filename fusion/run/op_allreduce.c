/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce of a bucket: one tensor, several that were fused, or the members of one type of a group. Broadcast of one.
 *
 *     the inputs are one list, the results another one, with factors and wire type; the collective packs, converts and
 *     unpacks in one pass over the data (collectives/group/group.h).
 *
 * Empty tensors have no piece; that depends on shapes only, so either all ranks pass lists or none does. Tensors that
 * are adjacent in memory are one piece: the places of tensors may differ between ranks.
 */
#include "collectives/api/calls.h"
#include "collectives/schedule/vector.h"
#include "fusion/requests/entry.h"
#include "fusion/run/operations.h"

static void add_tensor(struct halay_bucket *b, const struct halay_signature *s, const struct halay_buffers *buffers)
{
    if (buffers->count && buffers->dtype == b->dtype)
        b->tensors[b->tensor_count++] = (struct halay_bucket_tensor){ *buffers, s->prescale, s->postscale };
}

enum halay_status halay_allreduce_collect(struct halay_bucket *b)
{
    size_t most = 0;

    for (size_t i = 0; i < b->count; i++)
        most += b->requests[i]->signature.members ? b->requests[i]->signature.members : 1;
    enum halay_status status = halay_bucket_reserve_tensors(b, most);
    b->tensor_count = 0;
    for (size_t i = 0; i < b->count && status == HALAY_OK; i++) {
        const struct halay_request *r = b->requests[i];
        for (size_t m = 0; m < r->signature.members; m++)
            add_tensor(b, &r->signature, &r->buffers[m]);
        if (!r->signature.members)
            add_tensor(b, &r->signature, &(struct halay_buffers){ r->in, r->out, r->count, b->dtype });
    }
    return status;
}

/* Lists all tensors' inputs and results: as one list if that serves as both. */
static void list_tensors(struct halay_bucket *b, enum halay_reduction reduction)
{
    size_t element = halay_dtype_size(b->dtype);

    b->is_in_place = !b->requests[0]->signature.wire;
    for (size_t i = 0; i < b->tensor_count; i++) {
        const struct halay_bucket_tensor *p = &b->tensors[i];
        b->pieces[i] =
            (struct halay_piece){ .data = (void *)p->buffers.in, .count = p->buffers.count, .factor = p->prescale };
        b->results[i] =
            (struct halay_piece){ .data = p->buffers.out, .count = p->buffers.count, .factor = p->postscale };
        b->is_in_place &= p->buffers.in == p->buffers.out && p->prescale == 1 && p->postscale == 1;
    }
    b->piece_count = b->result_count = b->tensor_count;
    if (reduction == HALAY_ADASUM) /* of each tensor by itself */
        return;
    b->piece_count = b->result_count = halay_pieces_join(b->pieces, b->tensor_count, element);
    if (!b->is_in_place)
        b->result_count = halay_pieces_join(b->results, b->tensor_count, element);
}

static enum halay_status start_lists(struct halay_bucket *b, enum halay_reduction reduction)
{
    enum halay_wire wire = (enum halay_wire)b->requests[0]->signature.wire;
    enum halay_dtype dtype = b->dtype;

    if (!b->is_same)
        list_tensors(b, reduction);
    struct halay_lists lists = { .in = b->pieces,
                                 .out = b->is_in_place ? b->pieces : b->results,
                                 .in_count = b->piece_count,
                                 .out_count = b->result_count,
                                 .dtype = b->dtype };
    if (wire != HALAY_WIRE_AS_IS)
        dtype = wire == HALAY_WIRE_F16 ? HALAY_F16 : HALAY_BF16;
    return halay_group_allreduce_lists_start(b->set->group, &lists, dtype, reduction, &b->coll);
}

enum halay_status halay_allreduce_run(struct halay_bucket *b)
{
    enum halay_reduction reduction = (enum halay_reduction)b->requests[0]->signature.reduction;
    enum halay_status status = b->is_same ? HALAY_OK : halay_allreduce_collect(b);

    if (status != HALAY_OK || !b->tensor_count)
        return status;
    halay_group_set_absent(b->set->group, b->absent);
    const struct halay_buffers *only = &b->tensors[0].buffers;
    if (b->tensor_count == 1 && b->is_plain)
        status =
            halay_group_allreduce_start(b->set->group, only->in, only->out, only->count, b->dtype, reduction, &b->coll);
    else
        status = start_lists(b, reduction);
    halay_group_set_absent(b->set->group, 0);
    return status;
}

enum halay_status halay_broadcast_run(struct halay_bucket *b)
{
    const struct halay_request *first = b->requests[0];
    int root = halay_process_set_rank_of(b->set, first->signature.root);
    size_t pieces = 0;

    if (b->count == 1 && first->bytes)
        return halay_group_broadcast_start(b->set->group, first->out, first->count,
                                           (enum halay_dtype)first->signature.dtype, root, &b->coll);
    if (halay_bucket_reserve_tensors(b, b->count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < b->count; i++)
        if (b->requests[i]->bytes)
            b->pieces[pieces++] = (struct halay_piece){ .data = b->requests[i]->out, .count = b->requests[i]->bytes };
    if (!pieces)
        return HALAY_OK;
    pieces = halay_pieces_join(b->pieces, pieces, 1);
    return halay_group_broadcast_pieces_start(b->set->group, b->pieces, pieces, root, &b->coll);
}
