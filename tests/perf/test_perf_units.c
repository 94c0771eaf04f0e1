/* SPDX-License-Identifier: Apache-2.0
 *
 * The pure parts of halay-perf: statistics, the pattern that is moved and reduced, the table of operations.
 */
#include "halay_tools.h"
#include "perf/src/engine/models.h"
#include "perf/src/operation/operation.h"
#include "perf/src/operation/pattern.h"
#include "perf/src/operation/roofline.h"
#include "perf/src/operation/tune.h"
#include "perf/src/stats.h"
#include "tests/test.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void statistics(void)
{
    double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 }, many[101];

    CHECK(perf_median(odd, 3) == 3);
    CHECK(perf_median(even, 4) == 2.5);
    CHECK(perf_median(one, 1) == 7 && perf_percentile(one, 1, 99) == 7);
    CHECK(perf_median(NULL, 0) == 0);
    for (int i = 0; i <= 100; i++)
        many[i] = 100 - i;
    CHECK(perf_percentile(many, 101, 99) == 99 && perf_percentile(many, 101, 0) == 0 &&
          perf_percentile(many, 101, 100) == 100);
    CHECK(perf_bandwidth_gbs(2000000000, 0.5) == 4 && perf_bandwidth_gbs(1, 0) == 0);
    double before = perf_now();
    CHECK(perf_now() >= before);
}

/* ---- pattern ----------------------------------------------------------------------------------------------------- */

/* Filling and checking at each phase, length and type: what was put in is right, one element changed is one wrong, and
 * nothing is written behind the end. */
static void pattern_of(enum halay_dtype dtype, size_t phase, size_t count)
{
    size_t bytes = halay_dtype_size(dtype);
    unsigned char *data = malloc((count + 1) * bytes);
    struct perf_pattern pattern;

    REQUIRE(data && perf_pattern_init(&pattern, dtype) == HALAY_OK);
    memset(data, 0x5a, (count + 1) * bytes);
    perf_pattern_fill(&pattern, phase, data, count);
    CHECK(data[count * bytes] == 0x5a, "wrote behind %zu elements", count);
    CHECK(perf_pattern_wrong(&pattern, phase, data, count) == 0, "%s, phase %zu, %zu elements", halay_dtype_name(dtype),
          phase, count);
    CHECK(perf_pattern_wrong(&pattern, phase + 1, data, count) == count || dtype == HALAY_BOOL,
          "a neighbour passes for an element");
    if (count > 7)
        CHECK(perf_pattern_wrong(&pattern, phase + 7, data + 7 * bytes, count - 7) == 0);
    if (count)
        memset(data + (count - 1) * bytes, 0x55, bytes);
    CHECK(perf_pattern_wrong(&pattern, phase, data, count) == (count > 0), "%zu elements", count);
    perf_pattern_clear(&pattern, data, count);
    CHECK(perf_pattern_wrong(&pattern, phase, data, count) == count || dtype == HALAY_BOOL);
    CHECK(data[count * bytes] == 0x5a);
    perf_pattern_fini(&pattern);
    free(data);
}

static void patterns(void)
{
    static const size_t counts[] = { 0, 1, 4, 5, 2559, 2560, 2561, 10007 };

    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++)
        for (size_t phase = 0; phase < 7; phase++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                pattern_of((enum halay_dtype)dtype, phase, counts[c]);
}

/* ---- operations: by hand, over ranks that are places in one process
 * ------------------------------------------------- */

enum { RANKS_MAX = 8 };

struct ranks {
    struct perf_place place[RANKS_MAX];
    struct perf_pattern pattern[RANKS_MAX];
    int size;
};

/* count: elements of a call. */
static void ranks_init(struct ranks *ranks, const struct perf_operation *operation, enum halay_reduction op, int size,
                       size_t count, int root)
{
    ranks->size = size;
    for (int r = 0; r < size; r++) {
        struct perf_place *place = &ranks->place[r];
        size_t bytes = perf_operation_bytes(operation, count, HALAY_F32, size);
        *place = (struct perf_place){ .rank = r, .size = size, .total = bytes / sizeof(float) };
        place->call = (struct perf_call){ .count = count, .op = op, .dtype = HALAY_F32, .root = root };
        place->buffer = malloc(bytes + 1);
        place->spare = operation->has_spare ? malloc(bytes + 1) : NULL;
        REQUIRE(place->buffer && (place->spare || !operation->has_spare));
        REQUIRE(perf_pattern_init(&ranks->pattern[r], HALAY_F32) == HALAY_OK);
        REQUIRE(!operation->reduces || perf_pattern_reduce(&ranks->pattern[r], op, size) == HALAY_OK);
        operation->lay_out(place);
        operation->fill(&ranks->pattern[r], place);
    }
}

static void ranks_fini(struct ranks *ranks)
{
    for (int r = 0; r < ranks->size; r++) {
        free(ranks->place[r].buffer);
        free(ranks->place[r].spare);
        perf_pattern_fini(&ranks->pattern[r]);
    }
}

static size_t ranks_wrong(const struct ranks *ranks, const struct perf_operation *operation)
{
    size_t wrong = 0;

    for (int r = 0; r < ranks->size; r++)
        wrong += operation->wrong(&ranks->pattern[r], &ranks->place[r]);
    return wrong;
}

static const float *in_of(const struct ranks *ranks, int r)
{
    return ranks->place[r].call.in;
}

static float *out_of(const struct ranks *ranks, int r)
{
    return ranks->place[r].call.out;
}

/* Element i of everybody's in, one rank after the other. */
static float reduce_element(const struct ranks *ranks, enum halay_reduction op, size_t i)
{
    float x = in_of(ranks, 0)[i];

    for (int r = 1; r < ranks->size; r++) {
        float y = in_of(ranks, r)[i];
        x = op == HALAY_MIN ? fminf(x, y) : op == HALAY_MAX ? fmaxf(x, y) : op == HALAY_PRODUCT ? x * y : x + y;
    }
    return op == HALAY_AVERAGE ? x * (1 / (float)ranks->size) : x; /* not quite the quotient: both count as right */
}

static void perform(const struct ranks *ranks, enum perf_collective collective)
{
    const struct perf_call *call = &ranks->place[0].call;
    size_t count = call->count, size = (size_t)ranks->size;

    switch (collective) {
    case PERF_ALLREDUCE:
        for (size_t i = 0; i < count; i++) {
            float x = reduce_element(ranks, call->op, i);
            for (int r = 0; r < ranks->size; r++)
                out_of(ranks, r)[i] = x;
        }
        break;
    case PERF_REDUCE:
        for (size_t i = 0; i < count; i++)
            out_of(ranks, call->root)[i] = reduce_element(ranks, call->op, i);
        break;
    case PERF_REDUCE_SCATTER:
        for (size_t i = 0; i < size * count; i++)
            out_of(ranks, (int)(i / count))[i % count] = reduce_element(ranks, call->op, i);
        break;
    case PERF_BROADCAST:
        for (int r = 0; r < ranks->size; r++)
            memmove(out_of(ranks, r), out_of(ranks, call->root), count * sizeof(float));
        break;
    case PERF_ALLGATHER:
    case PERF_ALLTOALL:
        for (size_t from = 0; from < size; from++)
            for (size_t to = 0; to < size; to++)
                memmove(out_of(ranks, (int)to) + from * count,
                        in_of(ranks, (int)from) + (collective == PERF_ALLTOALL ? to * count : 0),
                        count * sizeof(float));
        break;
    case PERF_BARRIER:
        break;
    }
}

/* The check accepts the right result only: not the earlier contents, not one changed element. */
static void operation_of(const struct perf_operation *operation, enum halay_reduction op, int size, size_t count,
                         int root)
{
    struct ranks ranks;

    ranks_init(&ranks, operation, op, size, count, root);
    const int last = operation->is_rooted && operation->reduces ? root : size - 1;
    if (operation->has_data && size > 1 && op == HALAY_SUM)
        CHECK(ranks_wrong(&ranks, operation) > 0, "%s: what was put in passes for what must come out",
              operation->command);
    perform(&ranks, operation->collective);
    CHECK(ranks_wrong(&ranks, operation) == 0, "%s %s: %d ranks, %zu elements, root %d", operation->command,
          halay_reduction_name(op), size, count, root);
    if (operation->has_data) {
        out_of(&ranks, last)[0] = NAN;
        CHECK(ranks_wrong(&ranks, operation) == 1, "%s: %d ranks, %zu elements", operation->command, size, count);
    }
    /* The loops of the roofline stay within the buffers, as the sanitizer checks. */
    for (int r = 0; r < size && operation->touch; r++)
        operation->touch(&ranks.place[r]);
    ranks_fini(&ranks);
}

static void operations(void)
{
    static const int sizes[] = { 1, 2, 3, 5, 8 };
    static const size_t counts[] = { 1, 3, 17, 2561 };
    static const enum halay_reduction ops[] = { HALAY_SUM, HALAY_AVERAGE, HALAY_MIN, HALAY_MAX, HALAY_PRODUCT };

    for (const struct perf_operation *o = perf_operations; o->command; o++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (size_t k = 0; k < (o->reduces ? sizeof ops / sizeof *ops : 1); k++) {
                    operation_of(o, ops[k], sizes[s], o->has_data ? counts[c] : 0, 0);
                    operation_of(o, ops[k], sizes[s], o->has_data ? counts[c] : 0, sizes[s] - 1);
                }
}

/* Sizes and factors are those of nccl-tests. */
static void table(void)
{
    static const struct {
        const char *command;
        size_t count; /* of 4 KB of f32 on 4 ranks */
        double factor;
    } rows[] = {
        { "allreduce", 1024, 1.5 }, { "reduce", 1024, 1 },       { "reduce-scatter", 256, 0.75 },
        { "broadcast", 1024, 1 },   { "all-gather", 256, 0.75 }, { "alltoall", 256, 0.75 },
        { "barrier", 0, 0 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct perf_operation *o = perf_operation_find(rows[i].command);
        REQUIRE(o);
        CHECK(perf_operation_count(o, 4096, HALAY_F32, 4) == rows[i].count, "%s", o->command);
        CHECK(perf_operation_bytes(o, rows[i].count, HALAY_F32, 4) == (o->has_data ? 4096 : 0), "%s", o->command);
        CHECK(perf_operation_count(o, 4, HALAY_F32, 4) == o->has_data, "%s: less than an element", o->command);
        CHECK(o->bus_factor(4) == rows[i].factor, "%s", o->command);
        CHECK(o->is_rooted == (o->bus_factor(1) == 1 && o->has_data), "%s", o->command);
    }
    CHECK(!perf_operation_find("no-such") && !perf_operation_find(""));
}

/* ---- roofline
 * ------------------------------------------------------------------------------------------------------ */

static void roofline(void)
{
    static const size_t lengths[] = { 0, 1, 63, 64, 65, 4095, 4096, 4097, 10000 };
    enum { PARTS = 3, MOST = 10000 };
    unsigned char *from = malloc(PARTS * MOST), *to = malloc(MOST + 1);

    REQUIRE(from && to);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t parts = 1; parts <= PARTS; parts++) {
            size_t n = lengths[l], wrong = 0;
            memset(from, 2, PARTS * MOST);
            memset(to, 0xff, MOST + 1);
            perf_roofline_combine(to, from, parts, n);
            for (size_t i = 0; i < n; i++)
                wrong += to[i] != 2 * parts;
            perf_roofline_update(to, n);
            perf_roofline_copy(from, to, n);
            for (size_t i = 0; i < n; i++)
                wrong += from[i] == 2; /* every byte of a word may be changed, the lowest is */
            CHECK(to[n] == 0xff && wrong <= n / 4 * 3, "%zu parts of %zu bytes: %zu wrong", parts, n, wrong);
        }
    free(from);
    free(to);
}

/* ---- tune
 * ---------------------------------------------------------------------------------------------------------- */

static void get_text(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
}

/* Three algorithms, the second one not of the tree: limits between sizes, noise, and the rows of the tree. */
static void tune_rules(void)
{
    const struct perf_tune_operation o = {
        .name = "allreduce",
        .algorithm_count = 3,
        .size_count = 4,
        .algorithms = { "direct", "ring", "halving-doubling" },
        .is_tree = { 1, 0, 1 },
        .bytes = { 4, 64, 1024, 16384 },
        .seconds = { { 1, 2, 30, 400 }, { 2, 1.95, 20, 300 }, { 3, 4, 25, 350 } },
    };
    const struct perf_tune_operation slots = {
        .name = "reduce",
        .algorithm_count = 2,
        .size_count = 2,
        .algorithms = { "16K", "1M" },
        .bytes = { 64, 1024 },
        .seconds = { { 1, 30 }, { 2, 20 } },
    };
    const struct perf_tune_scope scope = { .transport = "ucx", .place = "local", .ranks = 4 };
    char text[1024];
    FILE *file = tmpfile();

    REQUIRE(file);
    perf_tune_write_rules(&scope, &o, file);
    get_text(file, text, sizeof text);
    CHECK(!strcmp(text, "use     ucx local allreduce 4 256 direct\n"
                        "use     ucx local allreduce 4 * ring\n"
                        "use     ucx local allreduce 4 256 direct\n"
                        "use     ucx local allreduce 4 * halving-doubling\n"),
          "%s", text);
    fclose(file);
    REQUIRE(file = tmpfile());
    perf_tune_write_slots(&scope, &slots, file);
    get_text(file, text, sizeof text);
    CHECK(!strcmp(text, "slot    ucx local reduce 4 256 16K\nslot    ucx local reduce 4 * 1M\n"), "%s", text);
    fclose(file);
}

/* From times that the formulas give, the costs behind them are found again. */
static void tune_costs(void)
{
    const double n = 4, a = 10e-6, o = 3e-6, b = 0.5e-9, g = 0.25e-9, s = 1e6, segment = 65536;
    struct perf_tune_operation operations[2] = {
        { .name = "allreduce",
          .algorithm_count = 3,
          .size_count = 2,
          .bytes = { 4, 1000000 },
          .algorithms = { "recursive-doubling", "ring", "direct" } },
        { .name = "broadcast",
          .algorithm_count = 1,
          .size_count = 2,
          .bytes = { 4, 1000000 },
          .algorithms = { "chain" } },
    };

    operations[0].seconds[0][0] = 2 * a;
    operations[0].seconds[1][1] = 2 * (n - 1) * a + 2 * s * (n - 1) / n * b + s * (n - 1) / n * g;
    operations[0].seconds[2][0] = 2 * (a + (n - 2) * o);
    operations[1].seconds[0][1] = (n - 1) * a + (s + (n - 2) * segment) * b;
    struct perf_tune_costs c = perf_tune_fit(operations, 2, 4, (size_t)segment);
    CHECK(fabs(c.latency - a) < 1e-12 && fabs(c.message - o) < 1e-12 && fabs(c.byte - b) < 1e-15 &&
              fabs(c.add - g) < 1e-15 && c.exchange < 0 && c.memory < 0,
          "%g %g %g %g", c.latency, c.message, c.byte, c.add);
    c = perf_tune_fit(operations, 0, 2, 1);
    CHECK(c.latency < 0 && c.byte < 0);
}

static void tune_copy(void)
{
    static const char old[] = "halay-tuning 1\n"
                              "use * * allreduce * * ring # mine\n"
                              "#tune   ucx local 4 ranks on a\n"
                              "use     ucx local allreduce 4 * ring\n"
                              "use ucx local barrier 4 * dissemination\n"
                              "use ucx local allreduce 2-4 * ring\n"
                              "use ucx remote allreduce 4 * ring\n"
                              "cost    ucx local latency=1us byte=1ns\n"
                              "segment ucx local 4K\n"
                              "slot ucx local allreduce 4 * 4K\n"
                              "slot ucx local broadcast 4 * 4K\n"
                              "slot ucx local allreduce 2-4 * 4K\n"
                              "cost mpi local latency=1us byte=1ns";
    static const char want[] = "halay-tuning 1\n"
                               "use * * allreduce * * ring # mine\n"
                               "use ucx local barrier 4 * dissemination\n"
                               "use ucx local allreduce 2-4 * ring\n"
                               "use ucx remote allreduce 4 * ring\n"
                               "slot ucx local broadcast 4 * 4K\n"
                               "slot ucx local allreduce 2-4 * 4K\n"
                               "cost mpi local latency=1us byte=1ns\n";
    const struct perf_tune_operation o = { .name = "allreduce", .algorithm_count = 1 };
    const struct perf_tune_news news = { .operations = &o, .slots = &o, .count = 1, .has_costs = 1, .has_segment = 1 };
    const struct perf_tune_scope scope = { .transport = "ucx", .place = "local", .ranks = 4 };
    FILE *in = tmpfile(), *out = tmpfile();
    char text[1024];

    REQUIRE(in && out && fputs(old, in) != EOF);
    rewind(in);
    perf_tune_copy_others(&scope, &news, in, out);
    get_text(out, text, sizeof text);
    CHECK(!strcmp(text, want), "%s", text);
    fclose(in);
    fclose(out);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static void models(void)
{
    static const size_t expected[] = { 7, 5, 5, 1, 2, 2, 1, 2, 2, 9 };
    static const struct {
        size_t tensors, elements;
    } known[] = { { 1000, 1024000 }, { 212, 2452358 }, { 161, 25557032 }, { 391, 335141888 } };
    size_t counts[1000], two[2] = { 0, 77 };

    CHECK(perf_model_expand("7 2*5 2*(1 2*2) 9", counts, 1000) == 10 && !memcmp(counts, expected, sizeof expected));
    CHECK(perf_model_expand("7 2*5", two, 1) == 3 && two[0] == 7 && two[1] == 77);
    CHECK(perf_model_expand("", NULL, 0) == 0);
    for (size_t m = 0; perf_models[m].name; m++) {
        size_t n = perf_model_expand(perf_models[m].pattern, counts, 1000), elements = 0;
        for (size_t i = 0; i < n && i < 1000; i++)
            elements += counts[i];
        CHECK(n == known[m].tensors && elements == known[m].elements, "%s: %zu tensors, %zu elements",
              perf_models[m].name, n, elements);
        CHECK(!strcmp(perf_model_names[m + 1], perf_models[m].name) && perf_models[m].steps > 0);
    }
}

int main(void)
{
    tune_rules();
    tune_costs();
    tune_copy();
    statistics();
    patterns();
    table();
    operations();
    roofline();
    models();
    return test_end();
}
