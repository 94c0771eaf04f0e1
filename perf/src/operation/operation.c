/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations: a row each, and what a row needs. In place where halay and MPI both can.
 */
#include "perf/src/operation/operation.h"
#include "perf/src/operation/roofline.h"
#include <string.h>

static void *at(const struct perf_place *place, void *base, size_t elements)
{
    return (unsigned char *)base + elements * halay_dtype_size(place->call.dtype);
}

static size_t bytes_of(const struct perf_place *place, size_t elements)
{
    return elements * halay_dtype_size(place->call.dtype);
}

static double carried_twice(int size)
{
    return 2.0 * (size - 1) / size;
}

static double carried_once(int size)
{
    return (double)(size - 1) / size;
}

static double carried_whole(int size)
{
    (void)size;
    return 1;
}

/* One buffer, all of it both input and output. */
static void lay_out_in_place(struct perf_place *place)
{
    place->call.in = place->call.out = place->buffer;
}

static void fill_all(const struct perf_pattern *pattern, const struct perf_place *place)
{
    perf_pattern_fill(pattern, (size_t)place->rank, place->call.out, place->total);
}

/* ---- all-reduce -------------------------------------------------------------------------------------------------- */

static enum halay_status call_allreduce(struct halay_group *group, const struct perf_call *c)
{
    return halay_group_allreduce(group, c->in, c->out, c->count, c->dtype, c->op);
}

static size_t wrong_reduced(const struct perf_pattern *pattern, const struct perf_place *place)
{
    return perf_pattern_wrong_reduced(pattern, 0, place->call.out, place->total);
}

static void touch_all(const struct perf_place *place)
{
    perf_roofline_update(place->call.out, bytes_of(place, place->total));
}

/* ---- reduce, reduce-scatter -------------------------------------------------------------------------------------- */

static enum halay_status call_reduce(struct halay_group *group, const struct perf_call *c)
{
    return halay_group_reduce(group, c->in, c->out, c->count, c->dtype, c->op, c->root);
}

static size_t wrong_at_root(const struct perf_pattern *pattern, const struct perf_place *place)
{
    return place->rank == place->call.root ? wrong_reduced(pattern, place) : 0;
}

/* A block of every rank's buffer, into the root's. */
static void touch_blocks(const struct perf_place *place)
{
    size_t block = bytes_of(place, place->total / (size_t)place->size);

    perf_roofline_combine(place->buffer, place->buffer, (size_t)place->size, block);
}

static void lay_out_apart(struct perf_place *place)
{
    place->call.in = place->buffer;
    place->call.out = place->spare;
}

static void fill_to_scatter(const struct perf_pattern *pattern, const struct perf_place *place)
{
    perf_pattern_clear(pattern, place->call.out, place->call.count);
    perf_pattern_fill(pattern, (size_t)place->rank, place->buffer, place->total);
}

static enum halay_status call_reduce_scatter(struct halay_group *group, const struct perf_call *c)
{
    return halay_group_reduce_scatter(group, c->in, c->out, c->count, c->dtype, c->op);
}

static size_t wrong_reduced_block(const struct perf_pattern *pattern, const struct perf_place *place)
{
    size_t count = place->call.count;

    return perf_pattern_wrong_reduced(pattern, (size_t)place->rank * count, place->call.out, count);
}

static void touch_parts(const struct perf_place *place)
{
    perf_roofline_combine(place->call.out, place->call.in, (size_t)place->size, bytes_of(place, place->call.count));
}

/* ---- broadcast --------------------------------------------------------------------------------------------------- */

static void fill_at_root(const struct perf_pattern *pattern, const struct perf_place *place)
{
    if (place->rank == place->call.root)
        perf_pattern_fill(pattern, (size_t)place->rank, place->call.out, place->total);
    else
        perf_pattern_clear(pattern, place->call.out, place->total);
}

static enum halay_status call_broadcast(struct halay_group *group, const struct perf_call *c)
{
    return halay_group_broadcast(group, c->out, c->count, c->dtype, c->root);
}

static size_t wrong_copy(const struct perf_pattern *pattern, const struct perf_place *place)
{
    return perf_pattern_wrong(pattern, (size_t)place->call.root, place->call.out, place->total);
}

static void touch_copy(const struct perf_place *place)
{
    if (place->rank != place->call.root)
        perf_roofline_copy(place->call.out, place->spare, bytes_of(place, place->total));
}

/* ---- all-gather -------------------------------------------------------------------------------------------------- */

/* This rank's block already lies in its place. */
static void lay_out_own_block(struct perf_place *place)
{
    place->call.out = place->buffer;
    place->call.in = at(place, place->buffer, (size_t)place->rank * place->call.count);
}

static void fill_own_block(const struct perf_pattern *pattern, const struct perf_place *place)
{
    size_t count = place->call.count, first = (size_t)place->rank * count;

    perf_pattern_clear(pattern, place->call.out, place->total);
    perf_pattern_fill(pattern, (size_t)place->rank, at(place, place->call.out, first), count);
}

static enum halay_status call_allgather(struct halay_group *group, const struct perf_call *c)
{
    return halay_group_allgather(group, c->in, c->out, c->count, c->dtype);
}

static size_t wrong_blocks(const struct perf_pattern *pattern, const struct perf_place *place)
{
    size_t count = place->call.count, wrong = 0;

    for (size_t r = 0; r < (size_t)place->size; r++)
        wrong += perf_pattern_wrong(pattern, r, at(place, place->call.out, r * count), count);
    return wrong;
}

static void touch_others_blocks(const struct perf_place *place)
{
    perf_roofline_copy(place->call.out, place->spare, bytes_of(place, place->total - place->call.count));
}

/* ---- all-to-all -------------------------------------------------------------------------------------------------- */

static void fill_to_exchange(const struct perf_pattern *pattern, const struct perf_place *place)
{
    perf_pattern_clear(pattern, place->call.out, place->total);
    perf_pattern_fill(pattern, (size_t)place->rank, place->buffer, place->total);
}

static enum halay_status call_alltoall(struct halay_group *group, const struct perf_call *c)
{
    return halay_group_alltoall(group, c->in, c->out, c->count, c->dtype);
}

/* Block r comes from rank r: there it lies behind the blocks for lower ranks. */
static size_t wrong_exchanged(const struct perf_pattern *pattern, const struct perf_place *place)
{
    size_t count = place->call.count, first = (size_t)place->rank * count, wrong = 0;

    for (size_t r = 0; r < (size_t)place->size; r++)
        wrong += perf_pattern_wrong(pattern, r + first, at(place, place->call.out, r * count), count);
    return wrong;
}

static void touch_exchange(const struct perf_place *place)
{
    perf_roofline_copy(place->call.out, place->call.in, bytes_of(place, place->total));
}

/* ---- barrier ----------------------------------------------------------------------------------------------------- */

static double carries_nothing(int size)
{
    (void)size;
    return 0;
}

static void fill_nothing(const struct perf_pattern *pattern, const struct perf_place *place)
{
    (void)pattern, (void)place;
}

static enum halay_status call_barrier(struct halay_group *group, const struct perf_call *c)
{
    (void)c;
    return halay_group_barrier(group);
}

static size_t wrong_never(const struct perf_pattern *pattern, const struct perf_place *place)
{
    (void)pattern, (void)place;
    return 0;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const struct perf_operation perf_operations[] = {
    {
        .command = "allreduce",
        .name = "allreduce",
        .mpi = "MPI_Allreduce",
        .summary = "time and bandwidth of the all-reduce, size by size",
        .collective = PERF_ALLREDUCE,
        .reduces = 1,
        .has_data = 1,
        .bus_factor = carried_twice,
        .lay_out = lay_out_in_place,
        .fill = fill_all,
        .call = call_allreduce,
        .wrong = wrong_reduced,
        .touch = touch_all,
    },
    {
        .command = "reduce",
        .name = "reduce",
        .mpi = "MPI_Reduce",
        .summary = "the same for the reduction to one rank",
        .collective = PERF_REDUCE,
        .reduces = 1,
        .is_rooted = 1,
        .has_data = 1,
        .bus_factor = carried_whole,
        .lay_out = lay_out_in_place,
        .fill = fill_all,
        .call = call_reduce,
        .wrong = wrong_at_root,
        .touch = touch_blocks,
    },
    {
        .command = "reduce-scatter",
        .name = "reduce-scatter",
        .mpi = "MPI_Reduce_scatter_block",
        .summary = "the same for the reduce-scatter",
        .collective = PERF_REDUCE_SCATTER,
        .reduces = 1,
        .has_data = 1,
        .has_blocks = 1,
        .has_spare = 1,
        .bus_factor = carried_once,
        .lay_out = lay_out_apart,
        .fill = fill_to_scatter,
        .call = call_reduce_scatter,
        .wrong = wrong_reduced_block,
        .touch = touch_parts,
    },
    {
        .command = "broadcast",
        .name = "broadcast",
        .mpi = "MPI_Bcast",
        .summary = "the same for the broadcast",
        .collective = PERF_BROADCAST,
        .is_rooted = 1,
        .has_data = 1,
        .has_spare = 1,
        .bus_factor = carried_whole,
        .lay_out = lay_out_in_place,
        .fill = fill_at_root,
        .call = call_broadcast,
        .wrong = wrong_copy,
        .touch = touch_copy,
    },
    {
        .command = "all-gather",
        .name = "allgather",
        .mpi = "MPI_Allgather",
        .summary = "the same for the all-gather",
        .collective = PERF_ALLGATHER,
        .has_data = 1,
        .has_blocks = 1,
        .has_spare = 1,
        .bus_factor = carried_once,
        .lay_out = lay_out_own_block,
        .fill = fill_own_block,
        .call = call_allgather,
        .wrong = wrong_blocks,
        .touch = touch_others_blocks,
    },
    {
        .command = "alltoall",
        .name = "alltoall",
        .mpi = "MPI_Alltoall",
        .summary = "the same for the all-to-all",
        .collective = PERF_ALLTOALL,
        .has_data = 1,
        .has_blocks = 1,
        .has_spare = 1,
        .bus_factor = carried_once,
        .lay_out = lay_out_apart,
        .fill = fill_to_exchange,
        .call = call_alltoall,
        .wrong = wrong_exchanged,
        .touch = touch_exchange,
    },
    {
        .command = "barrier",
        .name = "barrier",
        .mpi = "MPI_Barrier",
        .summary = "time of the barrier",
        .collective = PERF_BARRIER,
        .bus_factor = carries_nothing,
        .lay_out = lay_out_in_place,
        .fill = fill_nothing,
        .call = call_barrier,
        .wrong = wrong_never,
    },
    { .command = NULL },
};

const struct perf_operation *perf_operation_find(const char *command)
{
    for (const struct perf_operation *o = perf_operations; o->command; o++)
        if (!strcmp(o->command, command))
            return o;
    return NULL;
}

static size_t blocks(const struct perf_operation *operation, int size)
{
    return operation->has_blocks ? (size_t)size : 1;
}

size_t perf_operation_count(const struct perf_operation *operation, size_t bytes, enum halay_dtype dtype, int size)
{
    size_t count = bytes / halay_dtype_size(dtype) / blocks(operation, size);

    if (!operation->has_data)
        return 0;
    return count ? count : 1;
}

size_t perf_operation_bytes(const struct perf_operation *operation, size_t count, enum halay_dtype dtype, int size)
{
    return count * blocks(operation, size) * halay_dtype_size(dtype);
}
