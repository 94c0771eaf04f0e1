/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring an all-reduce so that the figure is not flattered:
 *
 *     fill   barriers  [ all-reduce ]      check    halay
 *     fill   barriers  [ MPI_Allreduce ]   check    MPI, on private memory: it has no other
 *     fill   barriers  [ read and write ]           the memory alone
 *     ... and again, for as many iterations
 *
 * Each rank rewrites its buffer before each iteration, as a program would, so the data lie in its own cache and must
 * come from there; without that small sizes look three times as fast. Before each measurement all meet in MPI's
 * barrier, if there is MPI, and then in halay's: the same for all three, so that each library has just run and none
 * starts cold. Nothing is sent between an iteration's end and the next one's fill: times are gathered when the size is
 * done. Taking turns in one run matters on machines whose speed changes from run to run: only the ratio then means
 * anything.
 *
 * The times of all ranks are compared iteration by iteration: the slowest rank's counts, and the median over
 * iterations.
 */
#include "perf/measure.h"
#include "base/memory.h"
#include "perf/stats.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALAY_ROW, MPI_ROW, MEMORY_ROW, ROWS };

/* As many as give a steady median in about the same time for each size. */
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

enum halay_status perf_bench_init(struct perf_bench *bench, size_t bytes_max)
{
    size_t row = (size_t)iterations_for(bench, 0) + 1, ranks = (size_t)halay_group_size(bench->group), bytes;
    enum halay_status status =
        perf_pattern_init(&bench->pattern, bench->dtype, bench->op, halay_group_rank(bench->group), (int)ranks);

    if (status != HALAY_OK)
        return status;
    if (halay_mul_overflows(row, ROWS * sizeof *bench->times, &bytes) || !(bench->times = malloc(bytes)))
        return HALAY_ERR_NO_MEMORY;
    if (halay_mul_overflows(bytes, ranks, &bytes) || !(bench->all = malloc(bytes)))
        return HALAY_ERR_NO_MEMORY;
    if (bench->is_shared) {
        status = halay_group_alloc(bench->group, bytes_max, &bench->buffer);
        if (status != HALAY_OK)
            return status;
    } else if (!(bench->buffer = halay_aligned_alloc(HALAY_PAGE, bytes_max))) {
        return HALAY_ERR_NO_MEMORY;
    }
    if (bench->mpi && !(bench->mpi_buffer = halay_aligned_alloc(HALAY_PAGE, bytes_max)))
        return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

void perf_bench_fini(struct perf_bench *bench)
{
    if (bench->is_shared)
        halay_group_free(bench->group, bench->buffer);
    else
        free(bench->buffer);
    free(bench->mpi_buffer);
    free(bench->times);
    free(bench->all);
    bench->buffer = bench->mpi_buffer = NULL;
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
    char text[512];

    if (bench->mpi && bench->mpi->barrier(text, sizeof text) && complain(text))
        return HALAY_ERR_SYSTEM;
    return halay_group_barrier(bench->group);
}

static enum halay_status time_halay(struct perf_bench *bench, size_t count, double *seconds, double *wrong)
{
    perf_pattern_fill(&bench->pattern, bench->buffer, count);
    enum halay_status status = meet(bench);
    if (status != HALAY_OK)
        return status;
    double start = perf_now();
    status = halay_group_allreduce(bench->group, bench->buffer, bench->buffer, count, bench->dtype, bench->op);
    *seconds = perf_now() - start;
    if (status == HALAY_OK)
        *wrong += (double)perf_pattern_wrong(&bench->pattern, bench->buffer, count);
    return status;
}

static enum halay_status time_mpi(struct perf_bench *bench, size_t count, double *seconds, double *wrong)
{
    char text[512];

    perf_pattern_fill(&bench->pattern, bench->mpi_buffer, count);
    enum halay_status status = meet(bench);
    if (status != HALAY_OK)
        return status;
    double start = perf_now();
    int failed = bench->mpi->allreduce(bench->mpi_buffer, count, bench->dtype, bench->op, text, sizeof text);
    *seconds = perf_now() - start;
    if (failed && complain(text))
        return HALAY_ERR_SYSTEM;
    *wrong += (double)perf_pattern_wrong(&bench->pattern, bench->mpi_buffer, count);
    return HALAY_OK;
}

/* Every byte of the buffer read and written once: what an in-place all-reduce of shared memory costs each rank at the
 * least, whatever it adds up. Integers, so that no value is special. */
static void read_and_write(void *buffer, size_t bytes)
{
    unsigned *words = buffer;

    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] += 1;
}

static enum halay_status time_memory(struct perf_bench *bench, size_t count, double *seconds)
{
    perf_pattern_fill(&bench->pattern, bench->buffer, count);
    enum halay_status status = meet(bench);
    if (status != HALAY_OK)
        return status;
    double start = perf_now();
    read_and_write(bench->buffer, count * halay_dtype_size(bench->dtype));
    *seconds = perf_now() - start;
    return HALAY_OK;
}

/* ---- all iterations of one size ---------------------------------------------------------------------------------- */

/* The median over `iterations` of the slowest rank, from row `which` of everybody's times; *wrong: all ranks'
 * together. */
static double judge(struct perf_bench *bench, int which, size_t iterations, double *wrong)
{
    size_t ranks = (size_t)halay_group_size(bench->group), row = iterations + 1;
    double *own = bench->times; /* gathered by now: free to be used */

    *wrong = 0;
    for (size_t i = 0; i < iterations; i++) {
        own[i] = 0;
        for (size_t r = 0; r < ranks; r++) {
            double t = bench->all[(r * ROWS + (size_t)which) * row + i];
            own[i] = t > own[i] ? t : own[i];
        }
    }
    for (size_t r = 0; r < ranks; r++)
        *wrong += bench->all[(r * ROWS + (size_t)which) * row + iterations];
    return perf_median(own, iterations);
}

enum halay_status perf_bench_run(struct perf_bench *bench, size_t count, struct perf_result *result)
{
    size_t bytes = count * halay_dtype_size(bench->dtype);
    long iterations = iterations_for(bench, bytes), warmup = warmup_for(bench, iterations);
    size_t row = (size_t)iterations + 1;
    double *times = bench->times, ignored;
    enum halay_status status = HALAY_OK;
    char text[8];

    memset(times, 0, ROWS * row * sizeof *times);
    for (long i = -warmup; i < iterations && status == HALAY_OK; i++) {
        size_t slot = i < 0 ? 0 : (size_t)i; /* of the warm-up only the wrong elements stay */
        status = time_halay(bench, count, &times[HALAY_ROW * row + slot], &times[HALAY_ROW * row + row - 1]);
        if (status == HALAY_OK && bench->mpi)
            status = time_mpi(bench, count, &times[MPI_ROW * row + slot], &times[MPI_ROW * row + row - 1]);
        if (status == HALAY_OK)
            status = time_memory(bench, count, &times[MEMORY_ROW * row + slot]);
        if (bench->progress)
            perf_progress_show(bench->progress, "%zu bytes: %ld of %ld", bytes, i < 0 ? 0 : i, iterations);
    }
    if (status == HALAY_OK)
        status = halay_group_allgather(bench->group, times, bench->all, ROWS * row, HALAY_F64);
    if (status != HALAY_OK)
        return status;
    *result = (struct perf_result){ .bytes = bytes };
    result->seconds = judge(bench, HALAY_ROW, (size_t)iterations, &result->wrong);
    result->mpi_seconds = judge(bench, MPI_ROW, (size_t)iterations, &result->mpi_wrong);
    result->roofline_seconds = judge(bench, MEMORY_ROW, (size_t)iterations, &ignored);
    result->algorithm =
        halay_group_explain(bench->group, "allreduce", count, bench->dtype, bench->is_shared, text, sizeof text);
    return HALAY_OK;
}
