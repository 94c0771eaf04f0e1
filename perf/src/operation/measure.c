/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring a collective without flattering it:
 *
 *     fill   barriers  [ halay's call ]    barrier   check    halay
 *     fill   barriers  [ MPI's call ]      barrier   check    MPI, on private memory: it has no other
 *     fill   barriers  [ a plain loop ]    barrier   check    naive.h, on memory of its own that all share
 *     fill   barriers  [ read and write ]  barrier            the memory alone
 *     ... and again, for as many iterations
 *
 * Each rank rewrites its buffers before each iteration, as a program would, so that the data come from its own cache:
 * without that small sizes look three times as fast. Results are cleared, so that none is right because it was right
 * before. Before each measurement all meet in MPI's barrier and the naive one, if these are measured, then in halay's:
 * the same for all, so that none starts cold. After it they meet in halay's, in which ranks without a processor sleep;
 * with more ranks than processors, those that are done would otherwise check, fill and spin in MPI's barrier at the
 * cost of the others. Times are gathered after the last iteration. Turns in one run matter on machines whose speed
 * changes from run to run: there only the ratio means anything.
 *
 * Of each iteration the slowest rank's time counts, then the median over the iterations. So work that a rank leaves to
 * others is counted too, as they wait for it.
 */
#include "perf/src/operation/measure.h"
#include "base/memory.h"
#include "halay_tools.h"
#include "perf/src/stats.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough for a steady median, in about the same time for each size. */
static long iterations_for(const struct perf_bench *bench, size_t bytes)
{
    if (bench->iterations)
        return bench->iterations;
    if (bytes < (size_t)64 << 10)
        return 2000;
    return bytes < (size_t)4 << 20 ? 200 : 20;
}

static long warmup_for(const struct perf_bench *bench, long iterations)
{
    return bench->warmup >= 0 ? bench->warmup : iterations / 20 + 2;
}

static enum halay_status alloc_buffers(struct perf_bench *bench, size_t bytes)
{
    void **own[] = { &bench->buffer, bench->operation->has_spare ? &bench->spare : NULL };
    void **mpi[] = { &bench->mpi_buffer, bench->operation->has_spare ? &bench->mpi_spare : NULL };
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < 2 && status == HALAY_OK; i++) {
        if (own[i] && bench->is_shared)
            status = halay_group_alloc(bench->group, bytes, own[i]);
        else if (own[i] && !(*own[i] = halay_aligned_alloc(HALAY_PAGE, bytes)))
            status = HALAY_ERR_NO_MEMORY;
        if (mpi[i] && bench->measures[PERF_MPI] && !(*mpi[i] = halay_aligned_alloc(HALAY_PAGE, bytes)))
            status = HALAY_ERR_NO_MEMORY;
    }
    return status;
}

enum halay_status perf_bench_init(struct perf_bench *bench, size_t bytes_max)
{
    size_t row = (size_t)iterations_for(bench, 0) + 1, ranks = (size_t)halay_group_size(bench->group), bytes;
    enum halay_status status = perf_pattern_init(&bench->pattern, bench->dtype);

    if (status == HALAY_OK && bench->operation->reduces)
        status = perf_pattern_reduce(&bench->pattern, bench->op, (int)ranks);
    if (status != HALAY_OK)
        return status;
    if (halay_mul_overflows(row, PERF_ROWS * sizeof *bench->times, &bytes) || !(bench->times = malloc(bytes)))
        return HALAY_ERR_NO_MEMORY;
    if (halay_mul_overflows(bytes, ranks, &bytes) || !(bench->all = malloc(bytes)))
        return HALAY_ERR_NO_MEMORY;
    if (bench->measures[PERF_NAIVE] && (status = perf_naive_init(&bench->naive, bench->group, bytes_max)) != HALAY_OK)
        return status;
    return bench->operation->has_data ? alloc_buffers(bench, bytes_max) : HALAY_OK;
}

void perf_bench_fini(struct perf_bench *bench)
{
    void *own[] = { bench->buffer, bench->spare };

    for (int i = 0; i < 2; i++)
        if (bench->is_shared)
            halay_group_free(bench->group, own[i]);
        else
            free(own[i]);
    perf_naive_fini(&bench->naive);
    free(bench->mpi_buffer);
    free(bench->mpi_spare);
    free(bench->times);
    free(bench->all);
    bench->buffer = bench->spare = bench->mpi_buffer = bench->mpi_spare = NULL;
    bench->times = bench->all = NULL;
    perf_pattern_fini(&bench->pattern);
}

/* ---- one iteration of each kind: the seconds it took ------------------------------------------------------------- */

static int complain(const char *text)
{
    fprintf(stderr, "halay-perf: %s\n", text);
    return 1;
}

static enum halay_status meet(struct perf_bench *bench)
{
    const struct perf_call barrier = { .collective = PERF_BARRIER };
    char text[512];

    if (bench->peer && bench->peer->call(&barrier, text, sizeof text) && complain(text))
        return HALAY_ERR_SYSTEM;
    if (bench->measures[PERF_NAIVE])
        perf_naive_barrier(&bench->naive);
    return halay_group_barrier(bench->group);
}

/* What is timed. */
static enum halay_status perform(struct perf_bench *bench, enum perf_row which, const struct perf_place *place)
{
    char text[512];

    switch (which) {
    case PERF_HALAY:
        return bench->operation->call(bench->group, &place->call);
    case PERF_MPI:
        if (bench->peer->call(&place->call, text, sizeof text) && complain(text))
            return HALAY_ERR_SYSTEM;
        return HALAY_OK;
    case PERF_NAIVE:
        perf_naive_call(&bench->naive, place);
        return HALAY_OK;
    default:
        bench->operation->touch(place);
        return HALAY_OK;
    }
}

static enum halay_status time_row(struct perf_bench *bench, enum perf_row which, const struct perf_place *place,
                                  double *seconds, double *wrong)
{
    if (which == PERF_MEMORY && place->spare)
        perf_pattern_fill(&bench->pattern, 0, place->spare, place->total);
    bench->operation->fill(&bench->pattern, place);
    enum halay_status status = meet(bench);
    if (status != HALAY_OK)
        return status;
    double start = perf_now();
    status = perform(bench, which, place);
    *seconds = perf_now() - start;
    if (status == HALAY_OK)
        status = halay_group_barrier(bench->group);
    if (status == HALAY_OK && which != PERF_MEMORY)
        *wrong += (double)bench->operation->wrong(&bench->pattern, place);
    return status;
}

/* ---- all iterations of one size ---------------------------------------------------------------------------------- */

static struct perf_place lay_out(const struct perf_bench *bench, size_t count, void *buffer, void *spare)
{
    struct perf_place place = {
        .call = { .collective = bench->operation->collective,
                  .count = count,
                  .dtype = bench->dtype,
                  .op = bench->op,
                  .root = bench->root },
        .rank = halay_group_rank(bench->group),
        .size = halay_group_size(bench->group),
        .buffer = buffer,
        .spare = spare,
    };

    place.total =
        perf_operation_bytes(bench->operation, count, bench->dtype, place.size) / halay_dtype_size(bench->dtype);
    bench->operation->lay_out(&place);
    return place;
}

/* The median over `iterations` of the slowest rank, from row `which` of every rank's times; *wrong: all ranks'
 * together. */
static double judge(struct perf_bench *bench, enum perf_row which, size_t iterations, double *wrong)
{
    size_t ranks = (size_t)halay_group_size(bench->group), row = iterations + 1;
    double *own = bench->times; /* already gathered: free for reuse */

    *wrong = 0;
    for (size_t i = 0; i < iterations; i++) {
        own[i] = 0;
        for (size_t r = 0; r < ranks; r++) {
            double t = bench->all[(r * PERF_ROWS + which) * row + i];
            own[i] = t > own[i] ? t : own[i];
        }
    }
    for (size_t r = 0; r < ranks; r++)
        *wrong += bench->all[(r * PERF_ROWS + which) * row + iterations];
    return perf_median(own, iterations);
}

enum halay_status perf_bench_run(struct perf_bench *bench, size_t count, struct perf_result *result)
{
    const struct perf_operation *operation = bench->operation;
    const struct perf_place own = lay_out(bench, count, bench->buffer, bench->spare);
    const struct perf_place places[PERF_ROWS] = {
        [PERF_HALAY] = own,
        [PERF_MPI] = lay_out(bench, count, bench->mpi_buffer, bench->mpi_spare),
        [PERF_NAIVE] = lay_out(bench, count, bench->naive.buffer, bench->naive.spare),
        [PERF_MEMORY] = own,
    };
    size_t bytes = perf_operation_bytes(operation, count, bench->dtype, own.size);
    long iterations = iterations_for(bench, bytes), warmup = warmup_for(bench, iterations);
    size_t row = (size_t)iterations + 1;
    enum halay_status status = HALAY_OK;
    char text[8];

    memset(bench->times, 0, PERF_ROWS * row * sizeof *bench->times);
    for (long i = -warmup; i < iterations && status == HALAY_OK; i++) {
        size_t slot = i < 0 ? 0 : (size_t)i; /* of the warm-up only the wrong elements count */
        for (int which = 0; which < PERF_ROWS && status == HALAY_OK; which++) {
            double *times = bench->times + (size_t)which * row;
            if (bench->measures[which])
                status = time_row(bench, (enum perf_row)which, &places[which], &times[slot], &times[row - 1]);
        }
        if (bench->progress)
            perf_progress_show(bench->progress, "%s %zu bytes: %ld of %ld", operation->command, bytes, i < 0 ? 0 : i,
                               iterations);
    }
    if (status == HALAY_OK)
        status = halay_group_allgather(bench->group, bench->times, bench->all, PERF_ROWS * row, HALAY_F64);
    if (status != HALAY_OK)
        return status;
    *result = (struct perf_result){ .bytes = bytes };
    for (int which = 0; which < PERF_ROWS; which++)
        result->seconds[which] = judge(bench, (enum perf_row)which, (size_t)iterations, &result->wrong[which]);
    result->algorithm = halay_group_explain(bench->group, operation->name, own.total, bench->dtype, bench->is_shared,
                                            text, sizeof text);
    return HALAY_OK;
}
