/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf allreduce, broadcast, all-gather, ...: time and bandwidth of a blocking collective of a group over a range
 * of sizes, as a table and as JSON; with --versus beside MPI's and a plain loop in the same run. And halay-perf
 * roofline: the memory alone, with no collective at all. How it is measured: measure.c; what the operations are:
 * operation.c.
 *
 * A struct run is zero-initialised and operation_run_fini takes any state. All ranks take the same decisions, from the
 * same command line and from what the group told all of them; rank 0 alone prints.
 */
#include "base/memory.h"
#include "base/transports.h"
#include "halay_coll.h"
#include "halay_tools.h"
#include "perf/src/cli/perf.h"
#include "perf/src/cli/report.h"
#include "perf/src/operation/measure.h"
#include "perf/src/versus/versus.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED, PRIVATE };
static const char *const buffers_names[] = { "shared", "private", NULL };
enum { NOTHING, MPI, NAIVE, BOTH };
static const char *const versus_names[] = { "none", "mpi", "naive", "both", NULL };

enum { OPERATIONS_MAX = 16 };

struct options {
    size_t begin, end;
    long factor, iterations, warmup, root;
    enum halay_dtype dtype;
    enum halay_reduction op;
    int buffers;
    const char *algorithm, *transport, *json;
    int versus;
    int of; /* the roofline's operation: a place in roof_names */
};

struct run {
    const struct perf_command *command;
    const struct perf_operation *operation;
    int is_roofline;
    struct options options;
    struct perf_environment environment;
    int has_environment;
    struct halay_group *group; /* owned */
    int rank, size, hosts;
    struct perf_versus versus; /* owned */
    int is_orderly;            /* all ranks reach the end: MPI may wait for them */
    struct perf_bench bench;   /* owned */
    struct perf_progress progress;
    struct halay_output json; /* owned; of rank 0 */
    json_t *results;          /* owned; of rank 0 with --json */
};

/* ---- the command line -------------------------------------------------------------------------------------------- */

#define SETS(member) HALAY_OPTION_SETS(options, member)

/* All operations' options, each with the kind of operation that has it. */
enum { ANY = 0, DATA = 1, CALL = 2, REDUCES = 4, ROOTED = 8, ROOFLINE = 16 };
static const char *dtype_names[HALAY_DTYPE_COUNT + 1], *op_names[HALAY_REDUCTION_COUNT + 1];
static const char *roof_names[OPERATIONS_MAX]; /* the operations that read and write memory */
static const struct {
    unsigned needs;
    struct halay_option option;
} rows[] = {
    { ANY, { .name = "Sizes and repetitions" } },
    { DATA, { "--begin", "-b", "SIZE", "first size in bytes (4)", HALAY_OPTION_SIZE, SETS(begin) } },
    { DATA, { "--end", "-e", "SIZE", "last size in bytes (64M)", HALAY_OPTION_SIZE, SETS(end) } },
    { DATA,
      { "--factor", "-f", "N", "from one size to the next (4)", HALAY_OPTION_NUMBER, SETS(factor), .min = 2,
        .max = 1024 } },
    { ANY,
      { "--iterations", "-n", "N", "iterations of each size (2000 to 20, by size)", HALAY_OPTION_NUMBER,
        SETS(iterations), .min = 1, .max = 10000000 } },
    { ANY,
      { "--warmup", "-w", "N", "iterations before, not timed (a twentieth, and 2)", HALAY_OPTION_NUMBER, SETS(warmup),
        .max = 10000000 } },
    { ANY, { .name = "What is measured" } },
    { ROOFLINE,
      { "--of", NULL, NULL, "the operation (allreduce)", HALAY_OPTION_CHOICE, SETS(of), .choices = roof_names } },
    { DATA,
      { "--dtype", "-d", NULL, "type of the elements (f32)", HALAY_OPTION_CHOICE, SETS(dtype),
        .choices = dtype_names } },
    { CALL | REDUCES,
      { "--op", "-o", NULL, "reduction; adasum is not measured (sum)", HALAY_OPTION_CHOICE, SETS(op),
        .choices = op_names } },
    { CALL | ROOTED,
      { "--root", NULL, "RANK", "source of the broadcast, destination of the reduce (0)", HALAY_OPTION_NUMBER,
        SETS(root), .max = INT32_MAX } },
    { DATA,
      { "--buffers", NULL, NULL, "memory that ranks of a host share, or the program's own (shared)",
        HALAY_OPTION_CHOICE, SETS(buffers), .choices = buffers_names } },
    { CALL, { "--algorithm", NULL, "NAME", "force an algorithm", HALAY_OPTION_TEXT, SETS(algorithm) } },
    { ANY, { "--transport", NULL, "NAME", halay_transport_help, HALAY_OPTION_TEXT, SETS(transport) } },
    { CALL,
      { "--versus", NULL, NULL, "also measure MPI (under mpirun) or a plain loop (none)", HALAY_OPTION_CHOICE,
        SETS(versus), .choices = versus_names } },
    { ANY, { .name = "Output" } },
    { ANY,
      { "--json", NULL, "FILE", "write the results as JSON ('-': to standard output, instead of the table)",
        HALAY_OPTION_TEXT, SETS(json) } },
};

static void list_names(void)
{
    int count = 0;

    for (int i = 0; i < HALAY_DTYPE_COUNT; i++)
        dtype_names[i] = halay_dtype_name((enum halay_dtype)i);
    for (int i = 0; i < HALAY_REDUCTION_COUNT; i++)
        op_names[i] = halay_reduction_name((enum halay_reduction)i);
    for (const struct perf_operation *o = perf_operations; o->command && count + 1 < OPERATIONS_MAX; o++)
        if (o->touch)
            roof_names[count++] = o->command;
}

static int parse(struct run *run, char **argv, int *exit_status)
{
    const struct perf_operation *operation = run->operation;
    const unsigned is = (run->is_roofline ? ROOFLINE : CALL) | (run->is_roofline || operation->has_data ? DATA : 0) |
                        (operation->reduces ? REDUCES : 0) | (operation->is_rooted ? ROOTED : 0);
    struct halay_option table[sizeof rows / sizeof *rows + 1] = { { .name = NULL } };
    struct perf_command command = *run->command;
    int count = 0;

    list_names();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((rows[i].needs & is) == rows[i].needs)
            table[count++] = rows[i].option;
    command.table = table;
    run->options = (struct options){ .begin = 4, .end = (size_t)64 << 20, .factor = 4, .warmup = -1 };
    if (perf_parse(&run->environment, &command, argv, &run->options, exit_status))
        return 1;
    if (run->is_roofline)
        run->operation = perf_operation_find(roof_names[run->options.of]);
    return 0;
}

static int compares_mpi(const struct options *o)
{
    return o->versus == MPI || o->versus == BOTH;
}

static int compares_naive(const struct options *o)
{
    return o->versus == NAIVE || o->versus == BOTH;
}

/* Checks that the table of options cannot express. Zero, or nonzero and a message. */
static int check_operation_options(const struct run *run, char *text, size_t size)
{
    const struct options *o = &run->options;
    size_t element = halay_dtype_size(o->dtype);

    if (run->operation->has_data && o->begin < element)
        snprintf(text, size, "the first size, %zu, is less than one element of %s", o->begin,
                 halay_dtype_name(o->dtype));
    else if (o->end < o->begin)
        snprintf(text, size, "the last size, %zu, is less than the first, %zu", o->end, o->begin);
    else if (run->operation->reduces && !halay_reduction_takes(o->op, o->dtype))
        snprintf(text, size, "there is no %s of %s", halay_reduction_name(o->op), halay_dtype_name(o->dtype));
    else if (run->operation->reduces && o->op == HALAY_ADASUM)
        snprintf(text, size, "adasum cannot be measured: its result cannot be checked element by element");
    else if (compares_mpi(o) &&
             (run->environment.config.launchers.mpi_size < 1 || run->environment.config.store_address))
        snprintf(text, size,
                 "--versus %s compares with %s, which needs ranks that MPI started: "
                 "start it with 'mpirun -np 2 halay-perf %s --versus %s'",
                 versus_names[o->versus], run->operation->mpi, run->operation->command, versus_names[o->versus]);
    else
        return 0;
    return 1;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

/* Each host's first rank counts for it. */
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

static enum halay_status cannot_compare(const struct run *run, const char *what, const char *text)
{
    perf_say(run->command->name, "cannot compare with %s: %s", what, text);
    return HALAY_ERR_UNSUPPORTED;
}

static enum halay_status open_group(struct run *run)
{
    const struct options *o = &run->options;
    const struct halay_options group_options = { .struct_size = sizeof group_options, .transport = o->transport };

    enum halay_status status = halay_group_open(&group_options, &run->group);
    if (status != HALAY_OK)
        return status;
    run->rank = halay_group_rank(run->group);
    run->size = halay_group_size(run->group);
    if (o->root >= run->size) {
        perf_say(run->command->name, "root %ld is no rank: there are %d, from 0 on", o->root, run->size);
        return HALAY_ERR_ARGUMENT;
    }
    if ((status = count_hosts(run)) != HALAY_OK || !o->algorithm)
        return status;
    return halay_group_set_algorithm(run->group, run->operation->name, o->algorithm);
}

/* The elements of a call of the largest size. */
static size_t greatest_count(const struct run *run)
{
    return perf_operation_count(run->operation, run->options.end, run->options.dtype, run->size);
}

static void set_bench(struct run *run)
{
    const struct options *o = &run->options;
    struct perf_bench *bench = &run->bench;

    bench->group = run->group;
    bench->operation = run->operation;
    bench->peer = run->versus.peer;
    bench->measures[PERF_HALAY] = !run->is_roofline;
    bench->measures[PERF_MPI] = run->versus.peer != NULL;
    bench->measures[PERF_NAIVE] = compares_naive(o);
    bench->measures[PERF_MEMORY] = run->operation->touch && (run->is_roofline || run->size > 1);
    bench->dtype = o->dtype;
    bench->op = o->op;
    bench->root = (int)o->root;
    bench->is_shared = o->buffers == SHARED;
    bench->iterations = o->iterations;
    bench->warmup = o->warmup;
    if (run->rank == 0) {
        perf_progress_init(&run->progress);
        bench->progress = &run->progress;
    }
}

static enum halay_status start_operation(struct run *run)
{
    const struct options *o = &run->options;
    const char *transport = o->transport ? o->transport : run->environment.config.transport;
    char text[8192] = "";
    int failed = 0;

    if (compares_mpi(o) &&
        perf_versus_start(&run->versus, &run->environment.config, "mpi", transport, text, sizeof text))
        return cannot_compare(run, "MPI", text);
    enum halay_status status = open_group(run);
    if (status != HALAY_OK)
        return status;
    const struct perf_call greatest = {
        .collective = run->operation->collective, .count = greatest_count(run), .dtype = o->dtype, .op = o->op
    };
    /* All ranks find the same. */
    if (compares_mpi(o) && perf_versus_check(&run->versus, run->rank, run->size, &greatest, text, sizeof text))
        return cannot_compare(run, "MPI", text);
    if (compares_naive(o) &&
        !perf_naive_takes(run->operation, o->dtype, o->op, run->size, run->hosts, text, sizeof text))
        return cannot_compare(run, "the naive loop", text);
    if (o->json && run->rank == 0)
        failed = perf_json_open(o->json, &run->json) || !(run->results = json_array());
    if ((status = perf_agree(run->group, failed)) != HALAY_OK)
        return status;
    set_bench(run);
    size_t bytes = perf_operation_bytes(run->operation, greatest.count, o->dtype, run->size);
    return perf_agree(run->group, perf_bench_init(&run->bench, bytes) != HALAY_OK);
}

static void operation_run_fini(struct run *run)
{
    if (run->bench.group)
        perf_bench_fini(&run->bench);
    json_decref(run->results);
    halay_output_abort(&run->json);
    halay_group_close(run->group);
    perf_progress_fini(&run->progress);
    perf_versus_end(&run->versus, run->is_orderly);
    if (run->has_environment)
        perf_environment_fini(&run->environment);
}

/* ---- the sizes --------------------------------------------------------------------------------------------------- */

/* The next size, 0 after the last one. */
static size_t next_size(const struct run *run, size_t bytes)
{
    size_t next;

    if (!run->operation->has_data || halay_mul_overflows(bytes, (size_t)run->options.factor, &next) ||
        next > run->options.end)
        return 0;
    return next;
}

static struct perf_report make_report(const struct run *run)
{
    return (struct perf_report){
        .command = run->command->name,
        .bench = &run->bench,
        .hosts = run->hosts,
        .buffers = buffers_names[run->options.buffers],
        .mpi = run->versus.name,
        .library = run->versus.library,
    };
}

static enum halay_status measure_all_sizes(struct run *run, double *wrong)
{
    const struct options *o = &run->options;
    const struct perf_report report = make_report(run);
    const int prints = run->rank == 0 && !(o->json && !strcmp(o->json, "-"));
    size_t last = 0;

    if (prints)
        perf_report_header(&report);
    for (size_t bytes = o->begin; bytes; bytes = next_size(run, bytes)) {
        struct perf_result result;
        size_t count = perf_operation_count(run->operation, bytes, o->dtype, run->size);
        if (last && count == last) /* sizes below an element a rank are the same */
            continue;
        last = count;
        enum halay_status status = perf_bench_run(&run->bench, count, &result);
        if (run->rank == 0)
            perf_progress_clear(&run->progress);
        if (status != HALAY_OK)
            return status;
        *wrong += result.wrong[PERF_HALAY] + result.wrong[PERF_MPI] + result.wrong[PERF_NAIVE];
        if (prints)
            perf_report_row(&report, &result);
        if (run->results && json_array_append_new(run->results, perf_report_result(&report, &result)))
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Every rank has the same `wrong`; once one closes the group, all leave it. */
static int finish_operation(struct run *run, double wrong)
{
    const struct perf_report report = make_report(run);
    int failed = 0;

    if (wrong > 0 && run->rank == 0)
        perf_say(run->command->name, "%.0f elements were wrong", wrong);
    if (run->results)
        failed = perf_json_finish(run->options.json, &run->json, perf_report_object(&report, run->results));
    run->is_orderly = halay_group_barrier(run->group) == HALAY_OK;
    failed |= !run->is_orderly;
    return failed || wrong > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_operation(struct run *run, char **argv)
{
    char text[512];
    double wrong = 0;
    int exit_status;

    if (perf_environment_init(&run->environment) != HALAY_OK)
        return EXIT_USAGE;
    run->has_environment = 1;
    if (!parse(run, argv, &exit_status)) {
        enum halay_status status;
        if (check_operation_options(run, text, sizeof text)) {
            perf_say(run->command->name, "%s", text);
            exit_status = EXIT_USAGE;
        } else if ((status = start_operation(run)) != HALAY_OK ||
                   (status = measure_all_sizes(run, &wrong)) != HALAY_OK) {
            perf_say(run->command->name, "failed: %s", halay_status_string(status));
            exit_status = perf_exit_status(status);
        } else {
            exit_status = finish_operation(run, wrong);
        }
    }
    operation_run_fini(run);
    return exit_status;
}

static const char notes[] =
    "Start it with halayrun or mpirun. Each rank rewrites its buffers before each iteration; the time is "
    "the slowest rank's, the median over the iterations. Sizes count as in nccl-tests: where each rank "
    "has a block, all blocks together. --versus mpi lets MPI do the same work in turn, in the same run; it "
    "needs mpirun. --versus naive does it with a plain loop over shared memory between two barriers "
    "(f32 sums, one host).";

int perf_run_operation(char **argv)
{
    struct perf_command command = { .name = argv[0], .synopsis = "[OPTION]...", .notes = notes };
    struct run run = { .command = &command, .operation = perf_operation_find(argv[0]) };

    command.summary = run.operation->summary;
    return run_operation(&run, argv);
}

static int run_roofline(char **argv)
{
    struct run run = { .command = &perf_roofline_command, .is_roofline = 1, .operation = perf_operations };

    return run_operation(&run, argv);
}

const struct perf_command perf_roofline_command = {
    .name = "roofline",
    .summary = "time of memory alone for an operation's reads and writes, size by size",
    .synopsis = "[OPTION]...",
    .notes = "Start it with halayrun or mpirun. All ranks at once read and write as many bytes of their own memory "
             "as the operation needs at the least, with no exchange. The other commands measure it in the same "
             "run: roof%.",
    .run = run_roofline,
};
