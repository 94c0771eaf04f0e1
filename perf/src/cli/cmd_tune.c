/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf tune: measures every algorithm of every operation over a range of sizes, with this job's ranks and
 * transport, and writes the best into a tuning table (docs/reference/tuning.md) for later jobs.
 *
 *     size of a chunk first, with the ring all-reduce  ->  each operation: each algorithm, each size
 *     ->  over shared memory, private buffers: each operation, each size of a slot  ->  the file
 *
 * Rows that this run did not measure stay, so that runs with other numbers of ranks or other transports add to the
 * file. It is written under another name and then renamed. measure.c measures, tune.c makes rows of the times. A struct
 * run is zero-initialised and tune_run_fini takes any state. All ranks get the same times and decide alike; rank 0
 * alone prints and writes.
 */
#include "base/memory.h"
#include "base/output_file.h"
#include "base/transports.h"
#include "halay_coll.h"
#include "halay_tools.h"
#include "perf/src/cli/perf.h"
#include "perf/src/operation/measure.h"
#include "perf/src/operation/tune.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { OPERATIONS_MAX = 16 };
static const char *const buffers_names[] = { "shared", "private", NULL };
static const size_t chunks[] = { 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20 };
enum { CHUNKS = sizeof chunks / sizeof *chunks };
static const struct {
    const char *text;
    size_t bytes;
} slots[] = { { "16K", 16 << 10 },   { "32K", 32 << 10 },   { "64K", 64 << 10 }, { "128K", 128 << 10 },
              { "256K", 256 << 10 }, { "512K", 512 << 10 }, { "1M", 1 << 20 } };
enum { SLOTS = sizeof slots / sizeof *slots, SLOTS_FROM = 64 << 10 }; /* below that size one slot holds everything */

struct options {
    size_t begin, end;
    long factor, iterations;
    int buffers;
    const char *transport, *output, *only;
};

struct run {
    struct options options;
    struct perf_environment environment;
    int has_environment;
    struct halay_group *group; /* owned */
    struct perf_tune_scope scope;
    struct perf_progress progress;
    size_t chunk;                         /* chosen; 0: nothing to choose */
    struct perf_tune_operation *measured; /* owned: OPERATIONS_MAX of them, then as many */
    struct perf_tune_operation *slots;    /* for the same operations' slots; zeros where there are none */
    int count;
    char path[4096];
    struct halay_output out; /* owned; of rank 0 */
};

static int is_first(const struct run *run)
{
    return halay_group_rank(run->group) == 0;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0777) && errno != EEXIST;
        *slash = '/';
        if (failed)
            return 1;
    }
    return 0;
}

/* --output, else HALAY_TUNING's, else where halay looks first. */
static int find_path(struct run *run)
{
    const char *xdg = halay_environment_get("XDG_CONFIG_HOME"), *home = halay_environment_get("HOME");
    const char *wanted = run->options.output ? run->options.output : run->environment.config.tuning;
    int length = -1;

    if (wanted && strcmp(wanted, "builtin"))
        length = snprintf(run->path, sizeof run->path, "%s", wanted);
    else if (xdg && *xdg)
        length = snprintf(run->path, sizeof run->path, "%s/halay/tuning", xdg);
    else if (home && *home)
        length = snprintf(run->path, sizeof run->path, "%s/.config/halay/tuning", home);
    if (length < 0 || (size_t)length >= sizeof run->path) {
        perf_say("tune", "there is no place for the table: name one with --output");
        return 1;
    }
    return 0;
}

/* Before anything is measured, so that a file that cannot be written fails at once. */
static int open_table(struct run *run)
{
    if (find_path(run))
        return 1;
    if (!make_folders(run->path) && !halay_output_open(NULL, run->path, &run->out))
        return 0;
    perf_say("tune", "cannot write '%s': %s", run->path, strerror(errno));
    return 1;
}

static void write_comment(const struct run *run)
{
    struct utsname system;

    if (uname(&system))
        snprintf(system.nodename, sizeof system.nodename, "?");
    fprintf(run->out.file, "#tune   %s %s %d ranks on %s, by halay-perf %s\n", run->scope.transport, run->scope.place,
            run->scope.ranks, system.nodename, halay_version());
}

static void write_table(struct run *run)
{
    struct perf_tune_costs costs = perf_tune_fit(run->measured, run->count, run->scope.ranks, run->chunk);
    const struct perf_tune_news news = { .operations = run->measured,
                                         .slots = run->slots,
                                         .count = run->count,
                                         .has_costs = perf_tune_has_costs(&costs),
                                         .has_segment = run->chunk != 0 };
    FILE *old = run->out.file == stdout ? NULL : fopen(run->path, "r");

    if (old) {
        perf_tune_copy_others(&run->scope, &news, old, run->out.file);
        (void)fclose(old); /* it was only read */
    } else {
        fputs("halay-tuning 1\n# The first row that matches wins: put your own rows here. See "
              "docs/reference/tuning.md.\n",
              run->out.file);
    }
    write_comment(run);
    if (run->chunk)
        fprintf(run->out.file, "segment %s %s %zu\n", run->scope.transport, run->scope.place, run->chunk);
    for (int k = 0; k < run->count; k++)
        perf_tune_write_rules(&run->scope, &run->measured[k], run->out.file);
    for (int k = 0; k < run->count; k++)
        perf_tune_write_slots(&run->scope, &run->slots[k], run->out.file);
    if (perf_tune_has_costs(&costs))
        perf_tune_write_costs(&run->scope, &costs, run->out.file);
}

static int finish_table(struct run *run)
{
    const int is_file = run->out.path != NULL;

    write_table(run);
    if (halay_output_commit(&run->out)) {
        perf_say("tune", "cannot write '%s': %s", run->path, strerror(errno));
        return 1;
    }
    if (is_file)
        printf("written: %s\n", run->path);
    return 0;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static struct perf_bench make_bench(struct run *run, const struct perf_operation *operation)
{
    struct perf_bench bench = { .group = run->group,
                                .operation = operation,
                                .dtype = HALAY_F32,
                                .op = HALAY_SUM,
                                .is_shared = run->options.buffers == 0,
                                .iterations = run->options.iterations,
                                .warmup = -1,
                                .progress = is_first(run) ? &run->progress : NULL };

    bench.measures[PERF_HALAY] = 1;
    return bench;
}

static enum halay_status open_bench(struct run *run, struct perf_bench *bench, size_t most)
{
    size_t count = perf_operation_count(bench->operation, most, bench->dtype, run->scope.ranks);
    size_t bytes = perf_operation_bytes(bench->operation, count, bench->dtype, run->scope.ranks);

    return perf_agree(run->group, perf_bench_init(bench, bytes) != HALAY_OK);
}

static enum halay_status measure_size(struct run *run, struct perf_bench *bench, size_t bytes, double *seconds,
                                      size_t *is)
{
    struct perf_result result;
    size_t count = perf_operation_count(bench->operation, bytes, bench->dtype, run->scope.ranks);

    enum halay_status status = perf_bench_run(bench, count, &result);
    if (status != HALAY_OK)
        return status;
    if (result.wrong[PERF_HALAY] > 0) {
        if (is_first(run))
            perf_say("tune", "%s gave %.0f wrong elements", result.algorithm, result.wrong[PERF_HALAY]);
        return HALAY_ERR_SYSTEM;
    }
    *seconds = result.seconds[PERF_HALAY];
    *is = result.bytes;
    return HALAY_OK;
}

/* The chunk size with the fastest ring; the default unless another is clearly better. */
static enum halay_status measure_chunks(struct run *run)
{
    const size_t usual = (size_t)256 << 10, most = run->options.end;
    struct perf_bench bench = make_bench(run, perf_operation_find("allreduce"));
    double times[CHUNKS], best = 0;
    size_t ignored;

    if (!strcmp(run->scope.transport, "shm") || most < usual) /* chunks are not used here */
        return HALAY_OK;
    enum halay_status status = halay_group_set_algorithm(run->group, "allreduce", "ring");
    if (status == HALAY_OK)
        status = open_bench(run, &bench, most);
    for (size_t i = 0; i < CHUNKS && status == HALAY_OK; i++) {
        status = halay_group_set_segment(run->group, chunks[i]);
        if (status == HALAY_OK)
            status = measure_size(run, &bench, most, &times[i], &ignored);
        if (status == HALAY_OK && chunks[i] == usual) {
            run->chunk = usual;
            best = times[i];
        }
    }
    perf_bench_fini(&bench);
    for (size_t i = 0; i < CHUNKS && status == HALAY_OK; i++)
        if (times[i] * 1.05 < best) {
            run->chunk = chunks[i];
            best = times[i];
        }
    return status == HALAY_OK ? halay_group_set_segment(run->group, run->chunk) : status;
}

/* One column, with the present settings, for the sizes from `first` on. */
static enum halay_status measure_sizes(struct run *run, struct perf_bench *bench, size_t first,
                                       struct perf_tune_operation *o)
{
    const struct options *options = &run->options;
    int a = o->algorithm_count, sizes = 0;
    size_t last = 0;
    enum halay_status status = HALAY_OK;

    for (size_t bytes = first; status == HALAY_OK && bytes <= options->end && sizes < PERF_TUNE_SIZES;) {
        status = measure_size(run, bench, bytes, &o->seconds[a][sizes], &o->bytes[sizes]);
        if (!sizes || o->bytes[sizes] != last) /* sizes below an element a rank are the same */
            last = o->bytes[sizes++];
        if (!bench->operation->has_data || halay_mul_overflows(bytes, (size_t)options->factor, &bytes))
            break;
    }
    o->size_count = sizes;
    o->algorithm_count++;
    return status;
}

static enum halay_status measure_algorithm(struct run *run, struct perf_bench *bench, struct perf_tune_operation *o)
{
    enum halay_status status = halay_group_set_algorithm(run->group, o->name, o->algorithms[o->algorithm_count]);

    return status == HALAY_OK ? measure_sizes(run, bench, run->options.begin, o) : status;
}

static void print_operation(struct run *run, const struct perf_tune_operation *o, const char *what)
{
    int choice[PERF_TUNE_SIZES];

    if (!is_first(run))
        return;
    perf_progress_clear(&run->progress);
    if (run->out.file == stdout)
        return;
    perf_tune_choose(o, 0, choice);
    printf("%s%s: microseconds, * what is chosen\n%12s", o->name, what, "bytes");
    for (int a = 0; a < o->algorithm_count; a++)
        printf(" %19s", o->algorithms[a]);
    putchar('\n');
    for (int i = 0; i < o->size_count; i++) {
        printf("%12zu", o->bytes[i]);
        for (int a = 0; a < o->algorithm_count; a++)
            printf(" %18.2f%c", o->seconds[a][i] * 1e6, choice[i] == a ? '*' : ' ');
        putchar('\n');
    }
    (void)fflush(stdout); /* only to be seen early */
}

static enum halay_status measure_operation(struct run *run, const struct perf_operation *operation)
{
    struct perf_tune_operation *o = &run->measured[run->count];
    struct perf_bench bench = make_bench(run, operation);
    const char *name;

    o->name = operation->name;
    enum halay_status status = open_bench(run, &bench, run->options.end);
    for (size_t i = 0; status == HALAY_OK && o->algorithm_count < PERF_TUNE_ALGORITHMS; i++) {
        name = halay_group_algorithm(run->group, o->name, i, &o->is_tree[o->algorithm_count]);
        if (!name)
            break;
        o->algorithms[o->algorithm_count] = name;
        status = measure_algorithm(run, &bench, o);
    }
    perf_bench_fini(&bench);
    if (status != HALAY_OK)
        return status;
    run->count++;
    print_operation(run, o, "");
    return halay_group_set_algorithm(run->group, o->name, "auto");
}

/* The operation's algorithm that copies private data through slots; NULL: it has none here. */
static const char *slotted_algorithm(const struct run *run, const char *operation)
{
    const char *name;

    for (size_t i = 0; (name = halay_group_algorithm(run->group, operation, i, NULL)); i++)
        if (!strcmp(name, "shared") || !strcmp(name, "two-shot"))
            return name;
    return NULL;
}

/* Always private buffers: shared ones need no slots. */
static enum halay_status measure_slots(struct run *run, const struct perf_operation *operation)
{
    struct perf_tune_operation *o = &run->slots[run->count - 1];
    struct perf_bench bench = make_bench(run, operation);
    const char *algorithm = slotted_algorithm(run, operation->name);
    size_t first = run->options.begin;

    while (first < SLOTS_FROM && !halay_mul_overflows(first, (size_t)run->options.factor, &first))
        ;
    if (!operation->has_data || !algorithm || first > run->options.end)
        return HALAY_OK;
    o->name = operation->name;
    bench.is_shared = 0;
    enum halay_status status = open_bench(run, &bench, run->options.end);
    if (status == HALAY_OK)
        status = halay_group_set_algorithm(run->group, o->name, algorithm);
    for (size_t i = 0; status == HALAY_OK && i < SLOTS; i++) {
        halay_group_set_slot(run->group, slots[i].bytes);
        o->algorithms[i] = slots[i].text;
        status = measure_sizes(run, &bench, first, o);
    }
    perf_bench_fini(&bench);
    halay_group_set_slot(run->group, run->environment.config.slot_bytes);
    if (status != HALAY_OK)
        return status;
    print_operation(run, o, ", private buffers, by the size of a slot");
    return halay_group_set_algorithm(run->group, o->name, "auto");
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum halay_status open_run(struct run *run)
{
    const struct halay_options options = { .struct_size = sizeof options, .transport = run->options.transport };

    enum halay_status status = halay_group_open(&options, &run->group);
    if (status != HALAY_OK)
        return status;
    run->scope = (struct perf_tune_scope){
        .transport = halay_group_transport(run->group),
        .place = halay_group_local_size(run->group) == halay_group_size(run->group) ? "local" : "remote",
        .ranks = halay_group_size(run->group),
    };
    if (run->scope.ranks == 1) {
        perf_say("tune", "one rank has nothing to choose: start it with 'halayrun -np 2 halay-perf tune' or mpirun");
        return HALAY_ERR_ARGUMENT;
    }
    perf_progress_init(&run->progress);
    run->measured = calloc(2 * OPERATIONS_MAX, sizeof *run->measured);
    run->slots = run->measured ? run->measured + OPERATIONS_MAX : NULL;
    return perf_agree(run->group, !run->measured || (is_first(run) && open_table(run)));
}

static enum halay_status measure_all_operations(struct run *run)
{
    enum halay_status status = measure_chunks(run);

    for (const struct perf_operation *o = perf_operations; o->command && status == HALAY_OK; o++)
        if (!run->options.only || !strcmp(run->options.only, o->command)) {
            status = measure_operation(run, o);
            if (status == HALAY_OK)
                status = measure_slots(run, o);
        }
    return status;
}

static int tune(struct run *run)
{
    enum halay_status status = open_run(run);

    if (status == HALAY_OK)
        status = measure_all_operations(run);
    if (status == HALAY_OK)
        status = perf_agree(run->group, is_first(run) && finish_table(run));
    if (status == HALAY_OK)
        status = halay_group_barrier(run->group);
    if (status == HALAY_OK)
        return EXIT_SUCCESS;
    perf_say("tune", "failed: %s", halay_status_string(status));
    return perf_exit_status(status);
}

static void tune_run_fini(struct run *run)
{
    halay_output_abort(&run->out);
    free(run->measured);
    halay_group_close(run->group);
    if (run->has_environment)
        perf_environment_fini(&run->environment);
}

/* Zero or a message. */
static int check_tune_options(const struct options *o, char *text, size_t size)
{
    if (o->begin < sizeof(float))
        snprintf(text, size, "the first size, %zu, is less than one element of f32", o->begin);
    else if (o->end < o->begin)
        snprintf(text, size, "the last size, %zu, is less than the first, %zu", o->end, o->begin);
    else if (o->only && !perf_operation_find(o->only))
        snprintf(text, size, "there is no operation '%s'", o->only);
    else
        return 0;
    return 1;
}

#define SETS(member) HALAY_OPTION_SETS(options, member)

static const struct halay_option table[] = {
    { "--begin", "-b", "SIZE", "first size in bytes (4)", HALAY_OPTION_SIZE, SETS(begin) },
    { "--end", "-e", "SIZE", "last size in bytes (16M)", HALAY_OPTION_SIZE, SETS(end) },
    { "--factor", "-f", "N", "factor from one size to the next (4)", HALAY_OPTION_NUMBER, SETS(factor), .min = 2,
      .max = 1024 },
    { "--iterations", "-n", "N", "iterations of each size (2000 to 20, by size)", HALAY_OPTION_NUMBER, SETS(iterations),
      .min = 1, .max = 10000000 },
    { "--only", NULL, "OPERATION", "only this operation (all)", HALAY_OPTION_TEXT, SETS(only) },
    { "--buffers", NULL, NULL, "memory that ranks of a host share, or the program's own (shared)", HALAY_OPTION_CHOICE,
      SETS(buffers), .choices = buffers_names },
    { "--transport", NULL, "NAME", halay_transport_help, HALAY_OPTION_TEXT, SETS(transport) },
    { "--output", "-o", "FILE", "the table to write ('-': standard output)", HALAY_OPTION_TEXT, SETS(output) },
    { .name = NULL },
};

static int run_tune(char **argv)
{
    struct run run = { .options = { .begin = 4, .end = (size_t)16 << 20, .factor = 4 } };
    struct options *o = &run.options;
    char text[512];
    int exit_status;

    if (perf_environment_init(&run.environment) != HALAY_OK)
        return EXIT_USAGE;
    run.has_environment = 1;
    if (!perf_parse(&run.environment, &perf_tune_command, argv, o, &exit_status)) {
        if (check_tune_options(o, text, sizeof text)) {
            perf_say("tune", "%s", text);
            exit_status = EXIT_USAGE;
        } else {
            exit_status = tune(&run);
        }
    }
    tune_run_fini(&run);
    return exit_status;
}

const struct perf_command perf_tune_command = {
    .name = "tune",
    .summary = "measure all algorithms and write the table that later jobs choose by",
    .synopsis = "[OPTION]...",
    .table = table,
    .notes = "Start it with halayrun or mpirun, once for each number of ranks and each transport that you use: a run "
             "replaces its own rows and keeps the others. Without --output the table is where halay looks for it: "
             "HALAY_TUNING, $XDG_CONFIG_HOME/halay/tuning or ~/.config/halay/tuning.",
    .run = run_tune,
};
