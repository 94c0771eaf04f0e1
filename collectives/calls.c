/* SPDX-License-Identifier: Apache-2.0
 *
 * The public calls of the collectives: they check their arguments, fill in a collective (coll.h) and launch it. What is
 * refused here is refused before anything has moved, and the group lives on.
 */
#include "base/memory.h"
#include "collectives/channel.h"
#include <stdint.h>
#include <stdlib.h>

/* ---- arguments ---- */

static enum halay_status refuse(struct halay_group *group, const char *what)
{
    halay_error(group->world->log, "%s", what);
    return HALAY_ERR_ARGUMENT;
}

/* One array of count elements. */
static enum halay_status set_array(struct halay_coll *c, void *data, size_t count, struct halay_vector *vector,
                                   struct halay_piece *piece)
{
    size_t bytes;

    if (halay_mul_overflows(count, c->element, &bytes))
        return refuse(c->group, "count is too large for the address space");
    if (count && (!data || (uintptr_t)data % c->element))
        return refuse(c->group, "a buffer is missing or not aligned to its element");
    *piece = (struct halay_piece){ .data = data, .count = count };
    *vector = (struct halay_vector){ .pieces = piece, .piece_count = 1, .count = count, .element = c->element };
    return HALAY_OK;
}

/* A list of pieces, in place. */
static enum halay_status set_pieces(struct halay_coll *c, const struct halay_piece *pieces, size_t piece_count)
{
    size_t total = 0, bytes;

    for (size_t i = 0; i < piece_count; i++) {
        if (pieces[i].count && (!pieces[i].data || (uintptr_t)pieces[i].data % c->element))
            return refuse(c->group, "a piece is missing or not aligned to its element");
        if (halay_add_overflows(total, pieces[i].count, &total))
            return refuse(c->group, "the pieces are too large for the address space");
    }
    if (halay_mul_overflows(total, c->element, &bytes))
        return refuse(c->group, "the pieces are too large for the address space");
    c->in = (struct halay_vector){
        .pieces = pieces, .piece_count = piece_count, .count = total, .element = c->element
    };
    c->out = c->in;
    return HALAY_OK;
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;

    return p < q + b_bytes && q < p + a_bytes;
}

static enum halay_status set_reduction(struct halay_coll *c, enum halay_dtype dtype, enum halay_op op)
{
    c->element = halay_dtype_size(dtype);
    c->dtype = dtype;
    c->op = op;
    if (!c->element || (unsigned)op >= HALAY_OP_COUNT)
        return refuse(c->group, "no such type or reduction");
    if (!halay_op_takes(op, dtype)) {
        halay_error(c->group->world->log, "reduction '%s' does not take type '%s'", halay_op_name(op),
                    halay_dtype_name(dtype));
        return HALAY_ERR_UNSUPPORTED;
    }
    c->divisor = op == HALAY_AVERAGE ? c->t->size : 1;
    return HALAY_OK;
}

static enum halay_status set_type(struct halay_coll *c, enum halay_dtype dtype)
{
    c->element = halay_dtype_size(dtype);
    c->dtype = dtype;
    return c->element ? HALAY_OK : refuse(c->group, "no such type");
}

static enum halay_status launch(struct halay_coll *c, struct halay_coll **out)
{
    enum halay_status status = halay_coll_launch(c);

    if (status == HALAY_OK)
        *out = c;
    return status;
}

/* ---- start ---- */

enum halay_status halay_group_allreduce_start(struct halay_group *group, const void *in, void *out, size_t count,
                                              enum halay_dtype dtype, enum halay_op op, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_ALLREDUCE, &c);

    if (status == HALAY_OK)
        status = set_reduction(c, dtype, op);
    if (status == HALAY_OK)
        status = set_array(c, (void *)in, count, &c->in, &c->in_piece);
    if (status == HALAY_OK)
        status = set_array(c, out, count, &c->out, &c->out_piece);
    if (status == HALAY_OK && in != out && overlap(in, count * c->element, out, count * c->element))
        status = refuse(group, "in and out overlap");
    return status == HALAY_OK ? launch(c, coll) : status;
}

enum halay_status halay_group_allreduce_pieces_start(struct halay_group *group, const struct halay_piece *pieces,
                                                     size_t piece_count, enum halay_dtype dtype, enum halay_op op,
                                                     struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_ALLREDUCE, &c);

    if (status == HALAY_OK)
        status = set_reduction(c, dtype, op);
    if (status == HALAY_OK)
        status = set_pieces(c, pieces, piece_count);
    return status == HALAY_OK ? launch(c, coll) : status;
}

static enum halay_status set_root(struct halay_coll *c, int root)
{
    c->root = root;
    return root >= 0 && root < c->t->size ? HALAY_OK : refuse(c->group, "no such root");
}

enum halay_status halay_group_broadcast_start(struct halay_group *group, void *buf, size_t count,
                                              enum halay_dtype dtype, int root, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_BROADCAST, &c);

    if (status == HALAY_OK)
        status = set_type(c, dtype);
    if (status == HALAY_OK)
        status = set_root(c, root);
    if (status == HALAY_OK)
        status = set_array(c, buf, count, &c->in, &c->in_piece);
    if (status != HALAY_OK)
        return status;
    c->out = c->in;
    return launch(c, coll);
}

enum halay_status halay_group_broadcast_pieces_start(struct halay_group *group, const struct halay_piece *pieces,
                                                     size_t piece_count, int root, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_BROADCAST, &c);

    if (status == HALAY_OK) {
        c->element = 1;
        status = set_root(c, root);
    }
    if (status == HALAY_OK)
        status = set_pieces(c, pieces, piece_count);
    return status == HALAY_OK ? launch(c, coll) : status;
}

/* Where each rank's part begins; counts NULL: `count` each. */
static enum halay_status set_starts(struct halay_coll *c, const size_t *counts, size_t count)
{
    size_t size = (size_t)c->t->size, *starts = c->channel->starts;

    if (!starts)
        starts = c->channel->starts = calloc(size + 1, sizeof *starts);
    if (!starts) {
        halay_error(c->group->world->log, "no memory for an all-gather of %zu ranks", size);
        return HALAY_ERR_NO_MEMORY;
    }
    starts[0] = 0;
    for (size_t r = 0; r < size; r++)
        if (halay_add_overflows(starts[r], counts ? counts[r] : count, &starts[r + 1]))
            return refuse(c->group, "the counts are too large for the address space");
    c->starts = starts;
    return HALAY_OK;
}

static enum halay_status allgather_start(struct halay_group *group, const void *in, void *out, const size_t *counts,
                                         size_t count, enum halay_dtype dtype, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_ALLGATHER, &c);

    if (status == HALAY_OK)
        status = set_type(c, dtype);
    if (status == HALAY_OK)
        status = set_starts(c, counts, count);
    if (status != HALAY_OK)
        return status;
    size_t mine = c->starts[c->t->rank + 1] - c->starts[c->t->rank], all = c->starts[c->t->size];
    status = set_array(c, out, all, &c->out, &c->out_piece);
    if (status == HALAY_OK)
        status = set_array(c, (void *)in, mine, &c->in, &c->in_piece);
    if (status == HALAY_OK && mine && in != (char *)out + c->starts[c->t->rank] * c->element &&
        overlap(in, mine * c->element, out, all * c->element))
        status = refuse(group, "in and out overlap, and in is not this rank's part of out");
    return status == HALAY_OK ? launch(c, coll) : status;
}

enum halay_status halay_group_allgather_start(struct halay_group *group, const void *in, void *out, size_t count,
                                              enum halay_dtype dtype, struct halay_coll **coll)
{
    return allgather_start(group, in, out, NULL, count, dtype, coll);
}

enum halay_status halay_group_allgatherv_start(struct halay_group *group, const void *in, void *out,
                                               const size_t *counts, enum halay_dtype dtype, struct halay_coll **coll)
{
    if (!counts)
        return refuse(group, "counts are missing");
    return allgather_start(group, in, out, counts, 0, dtype, coll);
}

enum halay_status halay_group_barrier_start(struct halay_group *group, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_BARRIER, &c);

    return status == HALAY_OK ? launch(c, coll) : status;
}

/* ---- blocking ---- */

enum halay_status halay_group_allreduce(struct halay_group *group, const void *in, void *out, size_t count,
                                        enum halay_dtype dtype, enum halay_op op)
{
    struct halay_coll *c;
    enum halay_status status = halay_group_allreduce_start(group, in, out, count, dtype, op, &c);

    return status == HALAY_OK ? halay_coll_finish(c) : status;
}

enum halay_status halay_group_broadcast(struct halay_group *group, void *buf, size_t count, enum halay_dtype dtype,
                                        int root)
{
    struct halay_coll *c;
    enum halay_status status = halay_group_broadcast_start(group, buf, count, dtype, root, &c);

    return status == HALAY_OK ? halay_coll_finish(c) : status;
}

enum halay_status halay_group_allgather(struct halay_group *group, const void *in, void *out, size_t count,
                                        enum halay_dtype dtype)
{
    struct halay_coll *c;
    enum halay_status status = halay_group_allgather_start(group, in, out, count, dtype, &c);

    return status == HALAY_OK ? halay_coll_finish(c) : status;
}

enum halay_status halay_group_allgatherv(struct halay_group *group, const void *in, void *out, const size_t *counts,
                                         enum halay_dtype dtype)
{
    struct halay_coll *c;
    enum halay_status status = halay_group_allgatherv_start(group, in, out, counts, dtype, &c);

    return status == HALAY_OK ? halay_coll_finish(c) : status;
}

enum halay_status halay_group_barrier(struct halay_group *group)
{
    struct halay_coll *c;
    enum halay_status status = halay_group_barrier_start(group, &c);

    return status == HALAY_OK ? halay_coll_finish(c) : status;
}
