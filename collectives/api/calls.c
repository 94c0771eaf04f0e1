/* SPDX-License-Identifier: Apache-2.0
 *
 * The public calls of the collectives: each checks its arguments, fills in a collective (coll.h) and launches it. A
 * call that is refused here has moved nothing, and its group stays open.
 */
#include "collectives/api/calls.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/group/p2p.h"
#include "halay_tools.h"
#include <stdint.h>
#include <stdlib.h>

/* ---- arguments ---- */

/* Logs the error. group may be NULL. */
static enum halay_status refuse_argument(struct halay_group *group, const char *what)
{
    return halay_returns(halay_fail_somewhere(group ? group->world->log : NULL, HALAY_ERR_ARGUMENT, "%s", what));
}

/* Sizes of elements are powers of two: no division, which takes longer than all other checks of a call. */
static int is_misaligned(const void *data, size_t element)
{
    return ((uintptr_t)data & (element - 1)) != 0;
}

/* Makes *vector one array of count elements. */
static enum halay_status set_array(struct halay_coll *c, void *data, size_t count, struct halay_vector *vector,
                                   struct halay_piece *piece)
{
    size_t bytes;

    if (halay_mul_overflows(count, c->element, &bytes))
        return refuse_argument(c->group, "count is too large for the address space");
    if (count && (!data || is_misaligned(data, c->element)))
        return refuse_argument(c->group, "a buffer is missing or not aligned to its element");
    *piece = (struct halay_piece){ .data = data, .count = count };
    *vector = (struct halay_vector){ .pieces = piece, .piece_count = 1, .count = count, .element = c->element };
    return HALAY_OK;
}

/* Makes *vector a list of pieces, whose elements have this size. */
static enum halay_status set_list(struct halay_coll *c, const struct halay_piece *pieces, size_t piece_count,
                                  size_t element, struct halay_vector *vector)
{
    size_t total = 0, bytes;

    for (size_t i = 0; i < piece_count; i++) {
        if (pieces[i].count && (!pieces[i].data || is_misaligned(pieces[i].data, element)))
            return refuse_argument(c->group, "a piece is missing or not aligned to its element");
        if (halay_add_overflows(total, pieces[i].count, &total))
            return refuse_argument(c->group, "the pieces are too large for the address space");
    }
    if (halay_mul_overflows(total, element, &bytes))
        return refuse_argument(c->group, "the pieces are too large for the address space");
    *vector = (struct halay_vector){ .pieces = pieces, .piece_count = piece_count, .count = total, .element = element };
    c->is_list = 1;
    return HALAY_OK;
}

static void set_conversion(const struct halay_coll *c, enum halay_dtype dtype, struct halay_vector *vector)
{
    vector->dtype = dtype;
    vector->packed = c->dtype;
    vector->is_converted = dtype != c->dtype;
    for (size_t i = 0; i < vector->piece_count && !vector->is_converted; i++)
        vector->is_converted = vector->pieces[i].factor != 0 && vector->pieces[i].factor != 1;
}

static int can_convert(enum halay_dtype memory, enum halay_dtype dtype)
{
    return memory == dtype || (memory == HALAY_F32 && (dtype == HALAY_F16 || dtype == HALAY_BF16));
}

static enum halay_status set_lists(struct halay_coll *c, const struct halay_lists *lists)
{
    size_t element = halay_dtype_size(lists->dtype);

    if (!can_convert(lists->dtype, c->dtype))
        return refuse_argument(c->group, "no conversion between these types");
    enum halay_status status = set_list(c, lists->in, lists->in_count, element, &c->in);
    if (status == HALAY_OK)
        status = set_list(c, lists->out, lists->out_count, element, &c->out);
    if (status == HALAY_OK && c->in.count != c->out.count)
        status = refuse_argument(c->group, "in and out have different numbers of elements");
    if (status != HALAY_OK)
        return status;
    set_conversion(c, lists->dtype, &c->in);
    set_conversion(c, lists->dtype, &c->out);
    if ((c->in.is_converted || c->out.is_converted) && c->dtype == HALAY_BOOL)
        return refuse_argument(c->group, "bool has no multiples");
    return HALAY_OK;
}

static int arrays_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;

    return a_bytes && b_bytes && p < q + b_bytes && q < p + a_bytes;
}

static enum halay_status set_reduction(struct halay_coll *c, enum halay_dtype dtype, enum halay_reduction op)
{
    c->element = halay_dtype_size(dtype);
    c->dtype = dtype;
    c->op = op;
    if (!c->element || (unsigned)op >= HALAY_REDUCTION_COUNT)
        return refuse_argument(c->group, "no such type or reduction");
    if (!halay_reduction_takes(op, dtype))
        return halay_fail(c->group->world->log, HALAY_ERR_UNSUPPORTED, "reduction '%s' does not take type '%s'",
                          halay_reduction_name(op), halay_dtype_name(dtype));
    if (op == HALAY_ADASUM && c->operation != HALAY_COLL_ALLREDUCE_ADASUM)
        return halay_fail(c->group->world->log, HALAY_ERR_UNSUPPORTED, "adasum is for all-reduce only");
    if (op == HALAY_ADASUM && c->group->deterministic == HALAY_DETERMINISTIC_RANKS)
        return halay_fail(c->group->world->log, HALAY_ERR_UNSUPPORTED,
                          "adasum is not possible under HALAY_DETERMINISTIC=ranks: its bits depend on counts");
    c->divisor = op == HALAY_AVERAGE ? c->size - c->group->absent : 1;
    return HALAY_OK;
}

static enum halay_status set_type(struct halay_coll *c, enum halay_dtype dtype)
{
    c->element = halay_dtype_size(dtype);
    c->dtype = dtype;
    return c->element ? HALAY_OK : refuse_argument(c->group, "no such type");
}

/* bytes: as in struct halay_coll. */
static enum halay_status launch_coll(struct halay_coll *c, size_t bytes, struct halay_coll **out)
{
    if (!out)
        return refuse_argument(c->group, "no place for the collective's handle");
    c->bytes = bytes;
    enum halay_status status = halay_coll_launch(c);

    if (status != HALAY_OK)
        return halay_returns(status);
    *out = c;
    return HALAY_OK;
}

/* ---- start ---- */

static enum halay_status take_allreduce(struct halay_group *group, enum halay_dtype dtype, enum halay_reduction op,
                                        struct halay_coll **c)
{
    enum halay_status status =
        halay_coll_take(group, op == HALAY_ADASUM ? HALAY_COLL_ALLREDUCE_ADASUM : HALAY_COLL_ALLREDUCE, c);

    return status == HALAY_OK ? set_reduction(*c, dtype, op) : status;
}

static enum halay_status launch_allreduce(struct halay_coll *c, const void *in, void *out, size_t count,
                                          struct halay_coll **coll)
{
    enum halay_status status = set_array(c, (void *)in, count, &c->in, &c->in_piece);

    if (status == HALAY_OK)
        status = set_array(c, out, count, &c->out, &c->out_piece);
    if (status == HALAY_OK && in != out && arrays_overlap(in, count * c->element, out, count * c->element))
        status = refuse_argument(c->group, "in and out overlap");
    return status == HALAY_OK ? launch_coll(c, count * c->element, coll) : status;
}

enum halay_status halay_group_allreduce_start(struct halay_group *group, const void *in, void *out, size_t count,
                                              enum halay_dtype dtype, enum halay_reduction op, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = take_allreduce(group, dtype, op, &c);

    return status == HALAY_OK ? launch_allreduce(c, in, out, count, coll) : status;
}

enum halay_status halay_group_allreduce_adasum_start(struct halay_group *group, const void *in, void *out,
                                                     const size_t *counts, size_t tensors, enum halay_dtype dtype,
                                                     struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = take_allreduce(group, dtype, HALAY_ADASUM, &c);
    size_t count = 0;

    if (status != HALAY_OK)
        return status;
    if (tensors && !counts)
        return refuse_argument(group, "counts are missing");
    for (size_t i = 0; i < tensors; i++)
        if (halay_add_overflows(count, counts[i], &count))
            return refuse_argument(group, "the counts are too large for the address space");
    c->counts = counts;
    c->tensors = tensors;
    c->has_counts = 1;
    return launch_allreduce(c, in, out, count, coll);
}

enum halay_status halay_group_allreduce_lists_start(struct halay_group *group, const struct halay_lists *lists,
                                                    enum halay_dtype dtype, enum halay_reduction op,
                                                    struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = take_allreduce(group, dtype, op, &c);

    if (status == HALAY_OK)
        status = set_lists(c, lists);
    return status == HALAY_OK ? launch_coll(c, c->out.count * c->element, coll) : status;
}

static enum halay_status set_root(struct halay_coll *c, int root)
{
    c->root = root;
    return root >= 0 && root < c->size ? HALAY_OK : refuse_argument(c->group, "no such root");
}

enum halay_status halay_group_broadcast_start(struct halay_group *group, void *buf, size_t count,
                                              enum halay_dtype dtype, int root, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_BROADCAST, &c);

    if (status == HALAY_OK)
        status = set_type(c, dtype);
    if (status == HALAY_OK)
        status = set_root(c, root);
    if (status == HALAY_OK)
        status = set_array(c, buf, count, &c->in, &c->in_piece);
    if (status != HALAY_OK)
        return status;
    c->out = c->in;
    return launch_coll(c, count * c->element, coll);
}

enum halay_status halay_group_broadcast_pieces_start(struct halay_group *group, const struct halay_piece *pieces,
                                                     size_t piece_count, int root, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_BROADCAST, &c);

    if (status == HALAY_OK) {
        c->element = 1;
        status = set_root(c, root);
    }
    if (status == HALAY_OK)
        status = set_list(c, pieces, piece_count, c->element, &c->in);
    c->out = c->in;
    return status == HALAY_OK ? launch_coll(c, c->out.count, coll) : status;
}

/* Computes where each rank's block of a long array begins, and where the last one ends; counts NULL: `count` elements
 * each. which: starts (0), in_starts (1) or rooted (2) of struct halay_coll. */
static enum halay_status set_starts(struct halay_coll *c, const size_t *counts, size_t count, size_t which,
                                    const size_t **out)
{
    size_t size = (size_t)c->size, bytes;

    if (!c->channel->starts)
        c->channel->starts = calloc(3 * (size + 1), sizeof *c->channel->starts);
    if (!c->channel->starts)
        return halay_fail(c->group->world->log, HALAY_ERR_NO_MEMORY, "no memory for the counts of %zu ranks", size);
    size_t *starts = c->channel->starts + which * (size + 1);
    starts[0] = 0;
    for (size_t r = 0; r < size; r++)
        if (halay_add_overflows(starts[r], counts ? counts[r] : count, &starts[r + 1]))
            return refuse_argument(c->group, "the counts are too large for the address space");
    if (halay_mul_overflows(starts[size], c->element, &bytes))
        return refuse_argument(c->group, "the counts are too large for the address space");
    *out = starts;
    return HALAY_OK;
}

/* Refuses a short array that overlaps the long one, unless it is this rank's block of it. */
static enum halay_status check_block(const struct halay_coll *c, const struct halay_vector *block,
                                     const struct halay_vector *all, const char *what)
{
    const char *mine = block->pieces[0].data, *data = all->pieces[0].data;

    if (!block->count || mine == data + c->starts[c->rank] * c->element ||
        !arrays_overlap(mine, block->count * c->element, data, all->count * c->element))
        return HALAY_OK;
    return refuse_argument(c->group, what);
}

/* Launches an all-gather or a reduce-scatter: one of in and out has this rank's block of the other. */
static enum halay_status launch_blocks(struct halay_coll *c, const void *in, void *out, const size_t *counts,
                                       size_t count, struct halay_coll **coll)
{
    enum halay_status status = set_starts(c, counts, count, 0, &c->starts);
    int gathers = c->operation == HALAY_COLL_ALLGATHER;

    if (status != HALAY_OK)
        return status;
    c->has_counts = counts != NULL;
    size_t mine = coll_block_length(c, c->rank), all = c->starts[c->size];
    status = set_array(c, (void *)in, gathers ? mine : all, &c->in, &c->in_piece);
    if (status == HALAY_OK)
        status = set_array(c, out, gathers ? all : mine, &c->out, &c->out_piece);
    if (status == HALAY_OK)
        status = gathers ? check_block(c, &c->in, &c->out, "in and out overlap, and in is not this rank's part of out")
                         : check_block(c, &c->out, &c->in, "in and out overlap, and out is not this rank's part of in");
    return status == HALAY_OK ? launch_coll(c, all * c->element, coll) : status;
}

static enum halay_status allgather_start(struct halay_group *group, const void *in, void *out, const size_t *counts,
                                         size_t count, enum halay_dtype dtype, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_ALLGATHER, &c);

    if (status == HALAY_OK)
        status = set_type(c, dtype);
    return status == HALAY_OK ? launch_blocks(c, in, out, counts, count, coll) : status;
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
        return refuse_argument(group, "counts are missing");
    return allgather_start(group, in, out, counts, 0, dtype, coll);
}

enum halay_status halay_group_reduce_start(struct halay_group *group, const void *in, void *out, size_t count,
                                           enum halay_dtype dtype, enum halay_reduction op, int root,
                                           struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_REDUCE, &c);

    if (status == HALAY_OK)
        status = set_reduction(c, dtype, op);
    if (status == HALAY_OK)
        status = set_root(c, root);
    if (status == HALAY_OK)
        status = set_array(c, (void *)in, count, &c->in, &c->in_piece);
    if (status != HALAY_OK)
        return status;
    int is_root = c->rank == root;
    status = set_array(c, is_root ? out : NULL, is_root ? count : 0, &c->out, &c->out_piece);
    if (status == HALAY_OK && is_root && in != out && arrays_overlap(in, count * c->element, out, count * c->element))
        status = refuse_argument(group, "in and out overlap");
    return status == HALAY_OK ? launch_coll(c, count * c->element, coll) : status;
}

static enum halay_status reduce_scatter_start(struct halay_group *group, const void *in, void *out,
                                              const size_t *counts, size_t count, enum halay_dtype dtype,
                                              enum halay_reduction op, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_REDUCE_SCATTER, &c);

    if (status == HALAY_OK)
        status = set_reduction(c, dtype, op);
    return status == HALAY_OK ? launch_blocks(c, in, out, counts, count, coll) : status;
}

enum halay_status halay_group_reduce_scatter_start(struct halay_group *group, const void *in, void *out, size_t count,
                                                   enum halay_dtype dtype, enum halay_reduction op,
                                                   struct halay_coll **coll)
{
    return reduce_scatter_start(group, in, out, NULL, count, dtype, op, coll);
}

enum halay_status halay_group_reduce_scatterv_start(struct halay_group *group, const void *in, void *out,
                                                    const size_t *counts, enum halay_dtype dtype,
                                                    enum halay_reduction op, struct halay_coll **coll)
{
    if (!counts)
        return refuse_argument(group, "counts are missing");
    return reduce_scatter_start(group, in, out, counts, 0, dtype, op, coll);
}

/* In place every block is replaced by one of the same length, so the counts must be equal. */
static enum halay_status check_exchange(const struct halay_coll *c, const void *in, const void *out)
{
    size_t rank = (size_t)c->rank;
    int is_even = 1;

    for (int r = 0; r <= c->size; r++)
        is_even &= c->in_starts[r] == c->starts[r];
    size_t gives = c->in_starts[rank + 1] - c->in_starts[rank], gets = coll_block_length(c, c->rank);
    if (gives != gets && gives && gets)
        return refuse_argument(c->group, "in_counts and out_counts disagree about what this rank keeps");
    if (in == out)
        return is_even ? HALAY_OK : refuse_argument(c->group, "in place in_counts and out_counts must be the same");
    if (arrays_overlap(in, c->in.count * c->element, out, c->out.count * c->element))
        return refuse_argument(c->group, "in and out overlap");
    return HALAY_OK;
}

static enum halay_status alltoall_start(struct halay_group *group, const void *in, const size_t *in_counts, void *out,
                                        const size_t *out_counts, size_t count, enum halay_dtype dtype,
                                        struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_ALLTOALL, &c);

    if (status == HALAY_OK)
        status = set_type(c, dtype);
    if (status == HALAY_OK)
        status = set_starts(c, out_counts, count, 0, &c->starts);
    if (status == HALAY_OK)
        status = set_starts(c, in_counts, count, 1, &c->in_starts);
    if (status == HALAY_OK)
        status = set_array(c, (void *)in, c->in_starts[c->size], &c->in, &c->in_piece);
    if (status == HALAY_OK)
        status = set_array(c, out, c->starts[c->size], &c->out, &c->out_piece);
    if (status == HALAY_OK)
        status = check_exchange(c, in, out);
    if (status != HALAY_OK)
        return status;
    c->has_counts = in_counts != NULL;
    return launch_coll(c, in_counts ? SIZE_MAX : c->out.count * c->element, coll);
}

enum halay_status halay_group_alltoall_start(struct halay_group *group, const void *in, void *out, size_t count,
                                             enum halay_dtype dtype, struct halay_coll **coll)
{
    return alltoall_start(group, in, NULL, out, NULL, count, dtype, coll);
}

enum halay_status halay_group_alltoallv_start(struct halay_group *group, const void *in, const size_t *in_counts,
                                              void *out, const size_t *out_counts, enum halay_dtype dtype,
                                              struct halay_coll **coll)
{
    if (!in_counts || !out_counts)
        return refuse_argument(group, "counts are missing");
    return alltoall_start(group, in, in_counts, out, out_counts, 0, dtype, coll);
}

/* ---- gather, scatter: an all-to-all of which most parts are empty ---- */

/* Sets starts or in_starts (which) to no blocks but that of one rank, of this length. */
static const size_t *set_one_block(struct halay_coll *c, size_t which, int rank, size_t length)
{
    size_t size = (size_t)c->size, *starts = c->channel->starts + which * (size + 1);

    for (size_t r = 0; r <= size; r++)
        starts[r] = r > (size_t)rank ? length : 0;
    return starts;
}

/* Takes a collective for it, with what all ranks know alike; *mine: the elements of this rank's block. */
static enum halay_status take_rooted(struct halay_group *group, enum halay_coll_form form, const size_t *counts,
                                     size_t count, enum halay_dtype dtype, int root, struct halay_coll **out,
                                     size_t *mine)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_ALLTOALL, &c);

    if (status == HALAY_OK)
        status = set_type(c, dtype);
    if (status == HALAY_OK)
        status = set_root(c, root);
    if (status == HALAY_OK)
        status = set_starts(c, counts, count, 2, &c->rooted);
    if (status != HALAY_OK)
        return status;
    c->form = form;
    c->has_counts = counts != NULL;
    *mine = c->rooted[c->rank + 1] - c->rooted[c->rank];
    *out = c;
    return HALAY_OK;
}

/* Returns nonzero if the root's block is where it belongs in the long array. */
static int is_in_its_place(const struct halay_coll *c, const void *block, const void *all)
{
    return c->rank == c->root && all && block == (const char *)all + c->rooted[c->rank] * c->element;
}

/* block: this rank's, of mine elements; all: the root's long array, ignored elsewhere. */
static enum halay_status launch_rooted(struct halay_coll *c, void *block, void *all, size_t mine,
                                       struct halay_coll **coll)
{
    enum { STARTS, IN_STARTS };
    int gathers = c->form == HALAY_FORM_GATHER, is_root = c->rank == c->root;
    size_t moved = is_in_its_place(c, block, all) ? 0 : mine;
    const size_t *of_all = is_root ? c->rooted : set_one_block(c, gathers ? STARTS : IN_STARTS, 0, 0);
    const size_t *of_block = set_one_block(c, gathers ? IN_STARTS : STARTS, c->root, moved);

    c->starts = gathers ? of_all : of_block;
    c->in_starts = gathers ? of_block : of_all;
    block = moved ? block : NULL;
    all = is_root ? all : NULL;
    void *in = gathers ? block : all, *out = gathers ? all : block;
    enum halay_status status = set_array(c, in, c->in_starts[c->size], &c->in, &c->in_piece);
    if (status == HALAY_OK)
        status = set_array(c, out, c->starts[c->size], &c->out, &c->out_piece);
    if (status == HALAY_OK && arrays_overlap(in, c->in.count * c->element, out, c->out.count * c->element))
        status = refuse_argument(c->group, "in and out overlap, and neither is the root's part of the other");
    return status == HALAY_OK ? launch_coll(c, SIZE_MAX, coll) : status;
}

enum halay_status halay_group_gatherv_start(struct halay_group *group, const void *in, void *out, const size_t *counts,
                                            size_t count, enum halay_dtype dtype, int root, struct halay_coll **coll)
{
    struct halay_coll *c;
    size_t mine;
    enum halay_status status = take_rooted(group, HALAY_FORM_GATHER, counts, count, dtype, root, &c, &mine);

    return status == HALAY_OK ? launch_rooted(c, (void *)in, out, mine, coll) : status;
}

enum halay_status halay_group_scatterv_start(struct halay_group *group, const void *in, void *out, const size_t *counts,
                                             size_t count, enum halay_dtype dtype, int root, struct halay_coll **coll)
{
    struct halay_coll *c;
    size_t mine;
    enum halay_status status = take_rooted(group, HALAY_FORM_SCATTER, counts, count, dtype, root, &c, &mine);

    return status == HALAY_OK ? launch_rooted(c, out, (void *)in, mine, coll) : status;
}

/* ---- send, receive ---- */

static enum halay_status p2p_start(struct halay_group *group, const struct halay_p2p_call *call, int tag,
                                   struct halay_coll **coll)
{
    size_t element = halay_dtype_size(call->dtype), bytes;
    enum halay_status status = halay_group_check_call(group, call->is_send ? "send" : "receive");

    if (status != HALAY_OK)
        return status;
    if (!coll)
        return refuse_argument(group, "no place for the collective's handle");
    if (!element)
        return refuse_argument(group, "no such type");
    if (call->peer < 0 || call->peer >= group->size || call->peer == group->rank)
        return refuse_argument(group, "the peer of a send or receive is another rank of the group");
    if (tag < 0 || tag > HALAY_TAG_MAX)
        return refuse_argument(group, "a tag is from 0 to HALAY_TAG_MAX");
    if (halay_mul_overflows(call->count, element, &bytes))
        return refuse_argument(group, "count is too large for the address space");
    if (call->count && (!call->data || is_misaligned(call->data, element)))
        return refuse_argument(group, "a buffer is missing or not aligned to its element");
    return halay_returns(halay_p2p_start(group, call, bytes, coll));
}

enum halay_status halay_group_send_start(struct halay_group *group, const void *buf, size_t count,
                                         enum halay_dtype dtype, int peer, int tag, struct halay_coll **coll)
{
    const struct halay_p2p_call call = { 1, (void *)buf, count, dtype, peer, (uint32_t)tag };

    return p2p_start(group, &call, tag, coll);
}

enum halay_status halay_group_receive_start(struct halay_group *group, void *buf, size_t count, enum halay_dtype dtype,
                                            int peer, int tag, struct halay_coll **coll)
{
    const struct halay_p2p_call call = { 0, buf, count, dtype, peer, (uint32_t)tag };

    return p2p_start(group, &call, tag, coll);
}

enum halay_status halay_group_barrier_start(struct halay_group *group, struct halay_coll **coll)
{
    struct halay_coll *c;
    enum halay_status status = halay_coll_take(group, HALAY_COLL_BARRIER, &c);

    return status == HALAY_OK ? launch_coll(c, 0, coll) : status;
}
