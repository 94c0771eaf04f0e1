/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf allreduce: time and bandwidth of the blocking all-reduce of a group over a range of sizes, as a table and
 * as JSON; with --versus mpi beside MPI_Allreduce in the same run. How it is measured: measure.c.
 *
 * Sizes are counted as nccl-tests counts them: bytes of one rank's buffer; algbw = bytes / time, busbw = algbw 2
 * (N-1)/N. A struct run is zero-initialised and run_fini takes any state. All ranks take the same decisions, from the
 * same command line and from what the group told all of them; rank 0 alone prints.
 */
#include "base/memory.h"
#include "halay_coll.h"
#include "perf/measure.h"
#include "perf/module.h"
#include "perf/perf.h"
#include "perf/stats.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { SHARED, PRIVATE };
static const char *const buffers_words[] = { "shared", "private", NULL };
static const char *const versus_words[] = { "none", "mpi", NULL };

struct options {
    size_t begin, end;
    long factor, iterations, warmup;
    enum halay_dtype dtype;
    enum halay_op op;
    int buffers;
    const char *algorithm, *transport, *json;
    int versus;
};

struct run {
    struct options options;
    struct perf_environment environment;
    int has_environment;
    struct halay_group *group; /* owned */
    int rank, size, hosts;
    void *mpi_module; /* owned: dlopen's handle */
    int mpi_is_ours;  /* we initialised MPI */
    int is_orderly;   /* all ranks come to the end: MPI may wait for them */
    const char *mpi_name;
    char mpi_library[256];
    struct perf_bench bench; /* owned */
    struct perf_progress progress;
    struct perf_json json; /* owned; of rank 0 */
    json_t *results;       /* owned; of rank 0 with --json */
};

/* ---- start ------------------------------------------------------------------------------------------------------- */

static int parse(struct run *run, int argc, char **argv, int *exit_status)
{
    struct options *o = &run->options;
    const struct perf_option table[] = {
        { 'b', "begin", PERF_SIZE, &o->begin, "first size in bytes (4)", "SIZE", 0, 0, NULL },
        { 'e', "end", PERF_SIZE, &o->end, "last size in bytes (64M)", "SIZE", 0, 0, NULL },
        { 'f', "factor", PERF_LONG, &o->factor, "from one size to the next (4)", "N", 2, 1024, NULL },
        { 'n', "iterations", PERF_LONG, &o->iterations, "iterations of each size (2000 to 20, by size)", "N", 1,
          10000000, NULL },
        { 'w', "warmup", PERF_LONG, &o->warmup, "iterations before that are not counted", "N", 0, 10000000, NULL },
        { 'd', "dtype", PERF_DTYPE, &o->dtype, "type of the elements (f32)", "TYPE", 0, 0, NULL },
        { 'o', "op", PERF_OP, &o->op, "reduction (sum)", "OP", 0, 0, NULL },
        { 0, "buffers", PERF_WORD, &o->buffers, "memory that ranks of a host share, or the program's own (shared)",
          "KIND", 0, 0, buffers_words },
        { 0, "algorithm", PERF_TEXT, &o->algorithm, "force an algorithm by its name", "NAME", 0, 0, NULL },
        { 0, "transport", PERF_TEXT, &o->transport, "force a transport: shm, mpi, ucx", "NAME", 0, 0, NULL },
        { 0, "versus", PERF_WORD, &o->versus, "measure another library in turn, under mpirun", "WHAT", 0, 0,
          versus_words },
        { 0, "json", PERF_TEXT, &o->json, "write the results there ('-': standard output, instead of the table)",
          "FILE", 0, 0, NULL },
        { 0, NULL, PERF_FLAG, NULL, NULL, NULL, 0, 0, NULL },
    };

    *o = (struct options){ .begin = 4, .end = (size_t)64 << 20, .factor = 4, .warmup = -1 };
    return perf_parse(&run->environment, &perf_allreduce_command, table, argc, argv, exit_status);
}

/* What the table cannot say about the options; zero or a message. */
static int contradicts(const struct run *run, char *text, size_t size)
{
    const struct options *o = &run->options;
    size_t element = halay_dtype_size(o->dtype);

    if (o->begin < element)
        snprintf(text, size, "the first size, %zu, is less than one element of %s", o->begin,
                 halay_dtype_name(o->dtype));
    else if (o->end < o->begin)
        snprintf(text, size, "the last size, %zu, is less than the first, %zu", o->end, o->begin);
    else if (!halay_op_takes(o->op, o->dtype))
        snprintf(text, size, "there is no %s of %s", halay_op_name(o->op), halay_dtype_name(o->dtype));
    else if (o->versus && (run->environment.config.mpi_launcher_size < 1 || run->environment.config.store_address))
        snprintf(
            text, size,
            "--versus mpi compares with MPI_Allreduce among ranks that MPI started; this is not a job of mpirun's: "
            "start it with 'mpirun -np 2 halay-perf allreduce --versus mpi'");
    else
        return 0;
    return 1;
}

/* Hosts are counted by the ranks that are their first. */
static enum halay_status count_hosts(struct run *run)
{
    int32_t is_first = halay_group_local_rank(run->group) == 0, *all = malloc((size_t)run->size * sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = halay_group_allgather(run->group, &is_first, all, 1, HALAY_I32);
    run->hosts = 0;
    for (int r = 0; r < run->size && status == HALAY_OK; r++)
        run->hosts += all[r];
    free(all);
    return status;
}

/* Did all ranks manage what each tried for itself? So that none waits for one that gave up. */
static enum halay_status agree(struct run *run, int failed)
{
    int32_t worst = failed;
    enum halay_status status = halay_group_allreduce(run->group, &worst, &worst, 1, HALAY_I32, HALAY_MAX);

    if (status != HALAY_OK)
        return status;
    return worst ? HALAY_ERR_SYSTEM : HALAY_OK;
}

/* Before the group is opened: see perf_mpi.h. Over MPI itself halay needs the threads that it asks for, and MPI is left
 * to it. */
static int start_mpi(struct run *run, char *text, size_t size)
{
    const char *transport = run->options.transport ? run->options.transport : run->environment.config.transport;

    run->mpi_module = perf_module_open(&run->environment.config, "perf-mpi", text, size);
    if (!run->mpi_module)
        return 1;
    const struct halay_perf_mpi_ops *ops = dlsym(run->mpi_module, "halay_perf_mpi_ops");
    if (!ops || strcmp(ops->version, halay_version())) {
        snprintf(text, size, "libhalay-perf-mpi.so is of another version than this program, %s", halay_version());
        return 1;
    }
    if (strcmp(transport, "mpi")) {
        if (ops->start(text, size))
            return 1;
        run->mpi_is_ours = 1;
    }
    run->bench.mpi = ops;
    return 0;
}

/* With the group open: the ranks must be the same ones. */
static int check_mpi(struct run *run, char *text, size_t size)
{
    const struct halay_perf_mpi_ops *ops = run->bench.mpi;
    size_t most = run->options.end / halay_dtype_size(run->options.dtype);
    int rank, ranks;

    if (ops->place(&rank, &ranks, &run->mpi_name, run->mpi_library, sizeof run->mpi_library, text, size) ||
        !ops->takes(most, run->options.dtype, run->options.op, text, size))
        return 1;
    if (rank != run->rank || ranks != run->size) {
        snprintf(text, size, "MPI calls this rank %d of %d, halay calls it %d of %d", rank, ranks, run->rank,
                 run->size);
        return 1;
    }
    return 0;
}

static enum halay_status cannot_compare(const char *text)
{
    fprintf(stderr, "halay-perf allreduce: cannot compare with MPI: %s\n", text);
    return HALAY_ERR_UNSUPPORTED;
}

static enum halay_status open_group(struct run *run)
{
    const struct options *o = &run->options;
    const struct halay_group_options group_options = { .struct_size = sizeof group_options, .transport = o->transport };

    enum halay_status status = halay_group_open(&group_options, &run->group);
    if (status != HALAY_OK)
        return status;
    run->rank = halay_group_rank(run->group);
    run->size = halay_group_size(run->group);
    if ((status = count_hosts(run)) != HALAY_OK || !o->algorithm)
        return status;
    return halay_group_set_algorithm(run->group, "allreduce", o->algorithm);
}

static enum halay_status start(struct run *run)
{
    const struct options *o = &run->options;
    char text[8192] = "";
    int failed = 0;

    if (o->versus && start_mpi(run, text, sizeof text))
        return cannot_compare(text);
    enum halay_status status = open_group(run);
    if (status != HALAY_OK)
        return status;
    if (run->bench.mpi && check_mpi(run, text, sizeof text))
        return cannot_compare(text); /* all ranks find the same */
    if (o->json && run->rank == 0)
        failed = perf_json_open(o->json, &run->json) || !(run->results = json_array());
    if ((status = agree(run, failed)) != HALAY_OK)
        return status;
    if (run->rank == 0) {
        perf_progress_init(&run->progress);
        run->bench.progress = &run->progress;
    }
    run->bench.group = run->group;
    run->bench.dtype = o->dtype;
    run->bench.op = o->op;
    run->bench.is_shared = o->buffers == SHARED;
    run->bench.iterations = o->iterations;
    run->bench.warmup = o->warmup;
    return agree(run, perf_bench_init(&run->bench, o->end) != HALAY_OK);
}

static void run_fini(struct run *run)
{
    if (run->group)
        perf_bench_fini(&run->bench);
    json_decref(run->results);
    perf_json_abandon(&run->json);
    halay_group_close(run->group);
    if (run->mpi_is_ours && run->is_orderly)
        run->bench.mpi->stop();
    if (run->mpi_module)
        dlclose(run->mpi_module);
    if (run->has_environment)
        perf_environment_fini(&run->environment);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int prints_table(const struct run *run)
{
    return run->rank == 0 && !(run->options.json && !strcmp(run->options.json, "-"));
}

static double roofline_percent(const struct perf_result *result)
{
    return result->seconds > 0 ? 100 * result->roofline_seconds / result->seconds : 0;
}

static double ratio(const struct perf_result *result)
{
    return result->seconds > 0 ? result->mpi_seconds / result->seconds : 0;
}

static void print_header(const struct run *run)
{
    char ranks[32], hosts[32];

    printf("# all-reduce %s %s, in place, %s, %s, %s buffers, transport %s\n", halay_dtype_name(run->options.dtype),
           halay_op_name(run->options.op), perf_plural(ranks, sizeof ranks, run->size, "rank"),
           perf_plural(hosts, sizeof hosts, run->hosts, "host"), buffers_words[run->options.buffers],
           halay_group_transport(run->group));
    printf(
        "# time of the slowest rank, median; bandwidths in 10^9 bytes/s; mem%%: time of the memory alone in percent\n");
    if (run->bench.mpi)
        printf("# %s in turn on private buffers; ratio: its time / halay's\n", run->mpi_library);
    printf("#%10s  %-20s %12s %9s %9s %6s %7s", "bytes", "algorithm", "time_us", "algbw", "busbw", "mem%", "wrong");
    if (run->bench.mpi)
        printf(" %12s %7s", run->mpi_name, "ratio");
    printf("\n");
    fflush(stdout);
}

static void print_row(const struct run *run, const struct perf_result *r)
{
    printf("%11zu  %-20s %12.2f %9.3f %9.3f %6.1f %7.0f", r->bytes, r->algorithm, r->seconds * 1e6,
           perf_bandwidth_gbs(r->bytes, r->seconds), perf_bus_bandwidth_gbs(r->bytes, r->seconds, run->size),
           roofline_percent(r), r->wrong);
    if (run->bench.mpi)
        printf(" %12.2f %7.2f", r->mpi_seconds * 1e6, ratio(r));
    printf("\n");
    fflush(stdout);
}

static int add_result(struct run *run, const struct perf_result *r)
{
    json_t *row = json_pack("{s:I, s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:f}", "bytes", (json_int_t)r->bytes, "dtype",
                            halay_dtype_name(run->options.dtype), "algorithm", r->algorithm, "transport",
                            halay_group_transport(run->group), "time_us", r->seconds * 1e6, "algbw_gbs",
                            perf_bandwidth_gbs(r->bytes, r->seconds), "busbw_gbs",
                            perf_bus_bandwidth_gbs(r->bytes, r->seconds, run->size), "wrong", (json_int_t)r->wrong,
                            "roofline_percent", roofline_percent(r));

    if (row && run->bench.mpi)
        json_object_set_new(row, "versus",
                            json_pack("[{s:s, s:f, s:f, s:I}]", "name", run->mpi_name, "time_us", r->mpi_seconds * 1e6,
                                      "ratio", ratio(r), "wrong", (json_int_t)r->mpi_wrong));
    return !row || json_array_append_new(run->results, row);
}

static json_t *report(const struct run *run)
{
    struct utsname system = { .release = "" };
    json_t *versions = json_pack("{s:s}", "halay", halay_version());

    if (versions && run->bench.mpi)
        json_object_set_new(versions, run->mpi_name, json_string(run->mpi_library));
    if (versions && !uname(&system))
        json_object_set_new(versions, "kernel", json_string(system.release));
    return json_pack("{s:s, s:s, s:i, s:i, s:s, s:o, s:O}", "op", "allreduce", "reduction",
                     halay_op_name(run->options.op), "ranks", run->size, "hosts", run->hosts, "buffers",
                     buffers_words[run->options.buffers], "versions", versions, "results", run->results);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* The next size, 0 after the last one. Sizes are whole elements. */
static size_t next_size(const struct options *o, size_t bytes)
{
    size_t next;

    if (halay_mul_overflows(bytes, (size_t)o->factor, &next) || next > o->end)
        return 0;
    return next;
}

static enum halay_status measure_all(struct run *run, double *wrong)
{
    const struct options *o = &run->options;
    size_t element = halay_dtype_size(o->dtype);

    if (prints_table(run))
        print_header(run);
    for (size_t bytes = o->begin; bytes; bytes = next_size(o, bytes)) {
        struct perf_result result;
        enum halay_status status = perf_bench_run(&run->bench, bytes / element, &result);
        if (run->rank == 0)
            perf_progress_clear(&run->progress);
        if (status != HALAY_OK)
            return status;
        *wrong += result.wrong + result.mpi_wrong;
        if (prints_table(run))
            print_row(run, &result);
        if (run->results && add_result(run, &result))
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

/* Every rank comes here with the same wrong; a group that is closed by one is left by all. */
static int finish(struct run *run, double wrong)
{
    int failed = 0;

    if (wrong > 0 && run->rank == 0)
        fprintf(stderr, "halay-perf allreduce: %.0f elements were wrong\n", wrong);
    if (run->results)
        failed = perf_json_finish(&run->json, report(run));
    run->is_orderly = halay_group_barrier(run->group) == HALAY_OK;
    failed |= !run->is_orderly;
    return failed || wrong > 0 ? PERF_EXIT_FAILED : PERF_EXIT_OK;
}

/* Wrong use that only the library could find. */
static int exit_status_of(enum halay_status status)
{
    return status == HALAY_ERR_ARGUMENT || status == HALAY_ERR_CONFIG || status == HALAY_ERR_UNSUPPORTED
               ? PERF_EXIT_USAGE
               : PERF_EXIT_FAILED;
}

static int run_allreduce(int argc, char **argv)
{
    struct run run = { .group = NULL };
    char text[512];
    double wrong = 0;
    int exit_status;

    if (perf_environment_init(&run.environment) != HALAY_OK)
        return PERF_EXIT_USAGE;
    run.has_environment = 1;
    if (!parse(&run, argc, argv, &exit_status)) {
        enum halay_status status;
        if (contradicts(&run, text, sizeof text)) {
            fprintf(stderr, "halay-perf allreduce: %s\n", text);
            exit_status = PERF_EXIT_USAGE;
        } else if ((status = start(&run)) != HALAY_OK || (status = measure_all(&run, &wrong)) != HALAY_OK) {
            fprintf(stderr, "halay-perf allreduce: failed: %s\n", halay_status_string(status));
            exit_status = exit_status_of(status);
        } else {
            exit_status = finish(&run, wrong);
        }
    }
    run_fini(&run);
    return exit_status;
}

const struct perf_command perf_allreduce_command = {
    .name = "allreduce",
    .summary = "time and bandwidth of the all-reduce, size by size",
    .synopsis = "[OPTION]...",
    .notes = "Start it with halayrun or mpirun. Each rank rewrites its buffer before each iteration; the time is the\n"
             "slowest rank's, the median over the iterations. With --versus mpi the same work is done by\n"
             "MPI_Allreduce, in turn, in the same run: only under mpirun, elsewhere it is refused.\n",
    .run = run_allreduce,
};
