/* SPDX-License-Identifier: Apache-2.0
 *
 * Random steps with replay (random_steps.h): over the fake transport, and by the engine's scripts (test_shm.sh,
 * test_nodes.sh, test_mpi.sh) over the others.
 * usage: test_random_steps [--spawn N [--nodes LAYOUT] | --rank | --fake N] [--count COUNT] [--seed SEED]
 *                          [--first FIRST] [--devices]
 *
 * --spawn N: N ranks as children, on the nodes that LAYOUT names by a character each (all on one without it), with the
 * transport that HALAY_TRANSPORT names. --rank: this is one rank, which the environment defines (mpirun, halayrun).
 * --fake N: N ranks as threads over the fake transport. Otherwise fake with 2 to 4 ranks. COUNT schedules in all, in
 * contexts of 50 each, with random settings. The same seed gives the same schedules; FIRST is the number of the first
 * one. --devices: every other tensor is on a device, emulated, by tests/cuda/devices.sh.
 */
#include "tests/fusion/random.h"
#include "tests/fusion/random_steps.h"
#include "tests/fusion/ranks.h"
#include "tests/spawn.h"
#include <inttypes.h>

enum { SKIP = 77, A_CONTEXT = 50 };

struct options {
    int spawned, is_rank, fake;
    const char *layout;
    uint64_t count, seed, first;
};

/* The random settings of a context. */
struct setting {
    uint64_t seed, first, count;
    enum halay_deterministic mode;
    size_t threshold;
    int degree;
    uint64_t delay;
    struct random_steps_tally tally; /* of rank 0 */
};

static struct setting draw_setting(const struct options *o, uint64_t first)
{
    static const size_t thresholds[] = { 1, 1000, 20000, 64 << 20 };
    struct random random = { o->seed * 77 + first };

    return (struct setting){ .seed = o->seed,
                             .first = first,
                             .count = o->first + o->count - first < A_CONTEXT ? o->first + o->count - first : A_CONTEXT,
                             .mode = (enum halay_deterministic)random_below(&random, 3),
                             .threshold = thresholds[random_below(&random, 4)],
                             .degree = 2 + (int)random_below(&random, 3),
                             .delay = random_below(&random, 2) ? random_next(&random) : 0 };
}

static void add_tally(struct random_steps_tally *sum, const struct random_steps_tally *t)
{
    sum->schedules += t->schedules;
    sum->steps += t->steps;
    sum->submissions += t->submissions;
    sum->planned += t->planned;
    sum->left += t->left;
    sum->errors += t->errors;
}

static void run_context(struct halay_context *ctx, struct setting *s)
{
    struct random_steps_tally tally = { 0 };

    ctx->degree = s->degree; /* no plan begins before all have submitted */
    CHECK(random_steps_run(ctx, s->seed, s->first, s->count, &tally) == 0);
    if (halay_rank(ctx) == 0)
        s->tally = tally;
}

static void print_tally(const char *over, int size, const struct random_steps_tally *t)
{
    printf("%s, %d ranks: %" PRIu64 " schedules, %" PRIu64 " steps (%" PRIu64 " planned), %" PRIu64
           " submissions (%" PRIu64 " errors), %" PRIu64 " plans left by a deviation\n",
           over, size, t->schedules, t->steps, t->planned, t->submissions, t->errors, t->left);
    CHECK(t->schedules < A_CONTEXT || (t->planned && t->left), "no plan was made, or left");
}

/* ---- ranks as threads ---- */

static void configure(struct halay_config *config, void *arg)
{
    const struct setting *s = arg;

    config->replay = 1;
    config->deterministic = s->mode;
    config->fusion_threshold = s->threshold;
}

static void body(struct rank_run *run)
{
    run_context(run->ctx, run->arg);
}

static void ignore_line(struct rank_run *run, const char *line)
{
    (void)run;
    if (!strstr(line, "tensor '") && !strstr(line, "process set"))
        fprintf(stderr, "%s\n", line);
}

static void run_fake(const struct options *o, int size)
{
    struct random_steps_tally sum = { 0 };

    for (uint64_t first = o->first; first < o->first + o->count && !test_failed; first += A_CONTEXT) {
        struct setting s = draw_setting(o, first);
        ranks_run(size, s.delay,
                  &(struct rank_run){ .body = body, .arg = &s, .configure = configure, .sink = ignore_line }, NULL,
                  NULL);
        add_tally(&sum, &s.tally);
    }
    print_tally("fake", size, &sum);
}

/* ---- ranks as processes ---- */

static void ignore_log(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level;
    if (!strstr(line, "tensor '") && !strstr(line, "process set"))
        printf("%s\n", line);
}

static enum halay_status open_context(const struct setting *s, struct halay_context **ctx)
{
    static const char *const modes[] = { "HALAY_DETERMINISTIC=off", "HALAY_DETERMINISTIC=run",
                                         "HALAY_DETERMINISTIC=ranks" };
    char threshold[60];
    const char *settings[] = { "HALAY_REPLAY=1", modes[s->mode], threshold, NULL };
    struct halay_options options = { .struct_size = sizeof options, .log = ignore_log, .settings = settings };

    snprintf(threshold, sizeof threshold, "HALAY_FUSION_THRESHOLD=%zu", s->threshold);
    return halay_init(&options, ctx);
}

static int be_rank(const struct options *o)
{
    struct random_steps_tally sum = { 0 };
    int size = 0, rank = 0;

    for (uint64_t first = o->first; first < o->first + o->count && !test_failed; first += A_CONTEXT) {
        struct setting s = draw_setting(o, first);
        struct halay_context *ctx;
        enum halay_status status = open_context(&s, &ctx);
        if (status == HALAY_ERR_UNSUPPORTED) {
            printf("skipped: this transport is not built in, or not possible here\n");
            return SKIP;
        }
        if (!CHECK(status == HALAY_OK, "%s", halay_status_string(status)))
            return 1;
        size = halay_size(ctx);
        rank = halay_rank(ctx);
        run_context(ctx, &s);
        halay_fini(ctx);
        add_tally(&sum, &s.tally);
    }
    if (!rank && !test_failed)
        print_tally(getenv("HALAY_TRANSPORT") ? getenv("HALAY_TRANSPORT") : "auto", size, &sum);
    return test_failed != 0;
}

static int spawn(const struct options *o)
{
    int result = 0, status, rank;
    struct spawn s;

    spawn_begin(&s, o->spawned);
    for (int r = 0; r < o->spawned; r++)
        if (!spawn_rank(&s, r)) {
            char node[2] = { 0 };
            if (o->layout) {
                node[0] = o->layout[r];
                REQUIRE(!setenv("HALAY_NODE", node, 1));
            }
            exit(be_rank(o));
        }
    while ((rank = spawn_wait(&s, &status)) >= 0) {
        int failed = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        if (failed && (!result || result == SKIP))
            result = failed;
    }
    spawn_end(&s);
    return result;
}

static int usage(void)
{
    fprintf(stderr, "usage: test_random_steps [--spawn N [--nodes LAYOUT] | --rank | --fake N] [--count COUNT] "
                    "[--seed SEED] [--first FIRST] [--devices]\n");
    return 99;
}

static int parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--devices")) {
            random_devices = 1;
            continue;
        }
        if (!strcmp(argv[i], "--rank")) {
            o->is_rank = 1;
            continue;
        }
        if (!value)
            return 0;
        if (!strcmp(argv[i], "--spawn"))
            o->spawned = atoi(value);
        else if (!strcmp(argv[i], "--fake"))
            o->fake = atoi(value);
        else if (!strcmp(argv[i], "--nodes"))
            o->layout = value;
        else if (!strcmp(argv[i], "--count"))
            o->count = strtoull(value, NULL, 0);
        else if (!strcmp(argv[i], "--first"))
            o->first = strtoull(value, NULL, 0);
        else if (!strcmp(argv[i], "--seed"))
            o->seed = strtoull(value, NULL, 0);
        else
            return 0;
        i++;
    }
    return o->fake <= RANKS_MAX && (!o->layout || strlen(o->layout) == (size_t)o->spawned);
}

int main(int argc, char **argv)
{
    struct options o = { .count = 0 };

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse(argc, argv, &o))
        return usage();
    if (!o.seed && !o.is_rank)
        o.seed = random_seed(1, argv);
    if (o.spawned || o.is_rank) {
        o.count = o.count ? o.count : 100;
        return o.spawned ? spawn(&o) : be_rank(&o);
    }
    for (int size = o.fake ? o.fake : 2; size <= (o.fake ? o.fake : 4); size++) {
        struct options some = o;
        some.count = o.count ? o.count : test_is_brief() ? 50 : 100;
        run_fake(&some, size);
    }
    return test_end();
}
