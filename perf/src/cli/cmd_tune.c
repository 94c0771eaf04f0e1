/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf tune: measures every algorithm of every operation over a range of sizes, among the ranks and over the
 * transport of this job, and writes what is best into a tuning table (docs/reference/tuning.md), which later jobs
 * choose by.
 *
 *     size of a segment first, with the ring all-reduce  ->  each operation: each algorithm, each size
 *     ->  over shared memory, private buffers: each operation, each size of a slot  ->  the file
 *
 * The file is read before and keeps what this run says nothing about, so that runs with other numbers of ranks or other
 * transports add to it. It is written beside its name and then renamed. How is measured: measure.c; what is made of it:
 * tune.c. A struct run is zero-initialised and run_fini takes any state; all ranks get the same times and take the same
 * decisions, rank 0 alone prints and writes.
 */
#include "base/memory.h"
#include "halay_coll.h"
#include "perf/src/cli/perf.h"
#include "perf/src/operation/measure.h"
#include "perf/src/operation/tune.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { OPERATIONS_MAX = 16 };
static const char *const buffers_words[] = { "shared", "private", NULL };
static const size_t segments[] = { 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20 };
enum { SEGMENTS = sizeof segments / sizeof *segments };
static const struct {
    const char *text;
    size_t bytes;
} slots[] = { { "16K", 16 << 10 },   { "32K", 32 << 10 },   { "64K", 64 << 10 }, { "128K", 128 << 10 },
              { "256K", 256 << 10 }, { "512K", 512 << 10 }, { "1M", 1 << 20 } };
enum { SLOTS = sizeof slots / sizeof *slots, SLOTS_FROM = 64 << 10 }; /* below that size one slot is enough for all */

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
    size_t segment;                       /* chosen; 0: nothing to choose */
    struct perf_tune_operation *measured; /* owned, OPERATIONS_MAX of them; and as many behind them: */
    struct perf_tune_operation *slots;    /* of the same operations; zeros where there are none */
    int count;
    char path[4096], temporary[4200];
    FILE *file; /* owned; of rank 0: the temporary one, or standard output */
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list args;

    fputs("halay-perf tune: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static int is_first(const struct run *run)
{
    return halay_group_rank(run->group) == 0;
}

/* Did all ranks manage what each tried for itself? */
static enum halay_status agree(struct run *run, int failed)
{
    int32_t worst = failed;
    enum halay_status status = halay_group_allreduce(run->group, &worst, &worst, 1, HALAY_I32, HALAY_MAX);

    return status == HALAY_OK && worst ? HALAY_ERR_SYSTEM : status;
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
        say("no place for the table: name one with --output");
        return 1;
    }
    return 0;
}

/* Before anything is measured, so that what cannot be written is found at once. */
static int open_file(struct run *run)
{
    if (find_path(run))
        return 1;
    if (!strcmp(run->path, "-")) {
        run->file = stdout;
        return 0;
    }
    snprintf(run->temporary, sizeof run->temporary, "%s.%ld.tmp", run->path, (long)getpid());
    if (make_folders(run->path) || !(run->file = fopen(run->temporary, "w"))) {
        say("cannot write '%s': %s", run->path, strerror(errno));
        *run->temporary = 0;
        return 1;
    }
    return 0;
}

static void write_comment(const struct run *run)
{
    struct utsname system;

    if (uname(&system))
        snprintf(system.nodename, sizeof system.nodename, "?");
    fprintf(run->file, "#tune   %s %s %d ranks on %s, by halay-perf %s\n", run->scope.transport, run->scope.place,
            run->scope.ranks, system.nodename, halay_version());
}

static void write_table(struct run *run)
{
    struct perf_tune_costs costs = perf_tune_fit(run->measured, run->count, run->scope.ranks, run->segment);
    const struct perf_tune_news news = { .operations = run->measured,
                                         .slots = run->slots,
                                         .count = run->count,
                                         .has_costs = perf_tune_has_costs(&costs),
                                         .has_segment = run->segment != 0 };
    FILE *old = run->file == stdout ? NULL : fopen(run->path, "r");

    if (old) {
        perf_tune_copy_others(&run->scope, &news, old, run->file);
        (void)fclose(old); /* it was only read */
    } else {
        fputs("halay-tuning 1\n# Rows that stand above others win: put your own ones here. See "
              "docs/reference/tuning.md.\n",
              run->file);
    }
    write_comment(run);
    if (run->segment)
        fprintf(run->file, "segment %s %s %zu\n", run->scope.transport, run->scope.place, run->segment);
    for (int k = 0; k < run->count; k++)
        perf_tune_write_rules(&run->scope, &run->measured[k], run->file);
    for (int k = 0; k < run->count; k++)
        perf_tune_write_slots(&run->scope, &run->slots[k], run->file);
    if (perf_tune_has_costs(&costs))
        perf_tune_write_costs(&run->scope, &costs, run->file);
}

static int finish_file(struct run *run)
{
    int failed, is_file = run->file != stdout;

    write_table(run);
    failed = fflush(run->file) || ferror(run->file) || (is_file && fsync(fileno(run->file)));
    if (is_file) {
        failed |= fclose(run->file) != 0;
        run->file = NULL;
        failed = failed || rename(run->temporary, run->path);
    }
    if (failed) {
        say("cannot write '%s': %s", run->path, strerror(errno));
        return 1;
    }
    *run->temporary = 0;
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

    return agree(run, perf_bench_init(bench, bytes) != HALAY_OK);
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
            say("%s gave %.0f wrong elements", result.algorithm, result.wrong[PERF_HALAY]);
        return HALAY_ERR_SYSTEM;
    }
    *seconds = result.seconds[PERF_HALAY];
    *is = result.bytes;
    return HALAY_OK;
}

/* The size of a segment by which the ring is fastest; the default unless another one is clearly better. */
static enum halay_status measure_segments(struct run *run)
{
    const size_t usual = (size_t)256 << 10, most = run->options.end;
    struct perf_bench bench = make_bench(run, perf_operation_find("allreduce"));
    double times[SEGMENTS], best = 0;
    size_t ignored;

    if (!strcmp(run->scope.transport, "shm") || most < usual) /* segments are not used, or not seen */
        return HALAY_OK;
    enum halay_status status = halay_group_set_algorithm(run->group, "allreduce", "ring");
    if (status == HALAY_OK)
        status = open_bench(run, &bench, most);
    for (size_t i = 0; i < SEGMENTS && status == HALAY_OK; i++) {
        status = halay_group_set_segment(run->group, segments[i]);
        if (status == HALAY_OK)
            status = measure_size(run, &bench, most, &times[i], &ignored);
        if (status == HALAY_OK && segments[i] == usual) {
            run->segment = usual;
            best = times[i];
        }
    }
    perf_bench_fini(&bench);
    for (size_t i = 0; i < SEGMENTS && status == HALAY_OK; i++)
        if (times[i] * 1.05 < best) {
            run->segment = segments[i];
            best = times[i];
        }
    return status == HALAY_OK ? halay_group_set_segment(run->group, run->segment) : status;
}

/* One column: what is set now, for the sizes from `first` on. */
static enum halay_status measure_sizes(struct run *run, struct perf_bench *bench, size_t first,
                                       struct perf_tune_operation *o)
{
    const struct options *options = &run->options;
    int a = o->algorithm_count, sizes = 0;
    size_t last = 0;
    enum halay_status status = HALAY_OK;

    for (size_t bytes = first; status == HALAY_OK && bytes <= options->end && sizes < PERF_TUNE_SIZES;) {
        status = measure_size(run, bench, bytes, &o->seconds[a][sizes], &o->bytes[sizes]);
        if (!sizes || o->bytes[sizes] != last) /* sizes below an element of each rank come to the same */
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
    if (run->file == stdout)
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

/* The algorithm of an operation that passes private data through slots; NULL: there is none here. */
static const char *slotted_algorithm(const struct run *run, const char *operation)
{
    const char *name;

    for (size_t i = 0; (name = halay_group_algorithm(run->group, operation, i, NULL)); i++)
        if (!strcmp(name, "shared") || !strcmp(name, "two-shot"))
            return name;
    return NULL;
}

/* Private buffers, whatever the others are: shared ones need no slots. */
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
    const struct halay_group_options options = { .struct_size = sizeof options, .transport = run->options.transport };

    enum halay_status status = halay_group_open(&options, &run->group);
    if (status != HALAY_OK)
        return status;
    run->scope = (struct perf_tune_scope){
        .transport = halay_group_transport(run->group),
        .place = halay_group_local_size(run->group) == halay_group_size(run->group) ? "local" : "remote",
        .ranks = halay_group_size(run->group),
    };
    if (run->scope.ranks == 1) {
        say("one rank has nothing to choose: start it with 'halayrun -np 2 halay-perf tune' or mpirun");
        return HALAY_ERR_ARGUMENT;
    }
    perf_progress_init(&run->progress);
    run->measured = calloc(2 * OPERATIONS_MAX, sizeof *run->measured);
    run->slots = run->measured ? run->measured + OPERATIONS_MAX : NULL;
    return agree(run, !run->measured || (is_first(run) && open_file(run)));
}

static enum halay_status measure_all(struct run *run)
{
    enum halay_status status = measure_segments(run);

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
        status = measure_all(run);
    if (status == HALAY_OK)
        status = agree(run, is_first(run) && finish_file(run));
    if (status == HALAY_OK)
        status = halay_group_barrier(run->group);
    if (status == HALAY_OK)
        return PERF_EXIT_OK;
    say("failed: %s", halay_status_string(status));
    return status == HALAY_ERR_ARGUMENT || status == HALAY_ERR_CONFIG || status == HALAY_ERR_UNSUPPORTED
               ? PERF_EXIT_USAGE
               : PERF_EXIT_FAILED;
}

static void run_fini(struct run *run)
{
    if (run->file && run->file != stdout)
        (void)fclose(run->file); /* it is given up */
    if (*run->temporary)
        unlink(run->temporary);
    free(run->measured);
    halay_group_close(run->group);
    if (run->has_environment)
        perf_environment_fini(&run->environment);
}

/* Zero or a message. */
static int contradicts(const struct options *o, char *text, size_t size)
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

static int run_tune(int argc, char **argv)
{
    struct run run = { .options = { .begin = 4, .end = (size_t)16 << 20, .factor = 4 } };
    struct options *o = &run.options;
    const struct perf_option table[] = {
        { 'b', "begin", PERF_SIZE, &o->begin, "first size in bytes (4)", "SIZE", 0, 0, NULL },
        { 'e', "end", PERF_SIZE, &o->end, "last size in bytes (16M)", "SIZE", 0, 0, NULL },
        { 'f', "factor", PERF_LONG, &o->factor, "from one size to the next (4)", "N", 2, 1024, NULL },
        { 'n', "iterations", PERF_LONG, &o->iterations, "iterations of each size (2000 to 20, by size)", "N", 1,
          10000000, NULL },
        { 0, "only", PERF_TEXT, &o->only, "one operation (all)", "OPERATION", 0, 0, NULL },
        { 0, "buffers", PERF_WORD, &o->buffers, "memory that ranks of a host share, or the program's own (shared)",
          "KIND", 0, 0, buffers_words },
        { 0, "transport", PERF_TEXT, &o->transport, "force a transport: shm, mpi, ucx", "NAME", 0, 0, NULL },
        { 'o', "output", PERF_TEXT, &o->output, "the table to write ('-': standard output)", "FILE", 0, 0, NULL },
        { 0, NULL, PERF_FLAG, NULL, NULL, NULL, 0, 0, NULL },
    };
    char text[512];
    int exit_status;

    if (perf_environment_init(&run.environment) != HALAY_OK)
        return PERF_EXIT_USAGE;
    run.has_environment = 1;
    if (!perf_parse(&run.environment, &perf_tune_command, table, argc, argv, &exit_status)) {
        if (contradicts(o, text, sizeof text)) {
            say("%s", text);
            exit_status = PERF_EXIT_USAGE;
        } else {
            exit_status = tune(&run);
        }
    }
    run_fini(&run);
    return exit_status;
}

const struct perf_command perf_tune_command = {
    .name = "tune",
    .summary = "measure all algorithms and write the table that they are chosen by",
    .synopsis = "[OPTION]...",
    .notes =
        "Start it with halayrun or mpirun, with the numbers of ranks and over the transports that you use: each run\n"
        "replaces its own rows and keeps the others. Without --output the table is that of HALAY_TUNING, or\n"
        "$XDG_CONFIG_HOME/halay/tuning, or ~/.config/halay/tuning: where halay looks for it.\n",
    .run = run_tune,
};
