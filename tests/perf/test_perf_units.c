/* SPDX-License-Identifier: Apache-2.0
 *
 * The pure parts of halay-perf: options, statistics, the pattern that is reduced and checked.
 */
#include "perf/options.h"
#include "perf/pattern.h"
#include "perf/stats.h"
#include "tests/test.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */

struct values {
    size_t size;
    long number;
    double real;
    const char *text;
    int word, flag;
    enum halay_dtype dtype;
    enum halay_op op;
};

static const char *const words[] = { "shared", "private", NULL };

/* Parse one to four arguments; says is what was written about an error. */
static enum perf_parsed parse(struct values *v, char *says, size_t size, const char *a, const char *b, const char *c)
{
    const struct perf_option table[] = {
        { 'b', "begin", PERF_SIZE, &v->size, "size", "SIZE", 0, 0, NULL },
        { 'n', NULL, PERF_LONG, &v->number, "number", "N", 1, 10, NULL },
        { 0, "real", PERF_REAL, &v->real, "real", "X", 0, 5, NULL },
        { 0, "json", PERF_TEXT, &v->text, "text", "FILE", 0, 0, NULL },
        { 0, "buffers", PERF_WORD, &v->word, "word", "KIND", 0, 0, words },
        { 0, "flag", PERF_FLAG, &v->flag, "flag", NULL, 0, 0, NULL },
        { 'd', "dtype", PERF_DTYPE, &v->dtype, "type", "TYPE", 0, 0, NULL },
        { 'o', "op", PERF_OP, &v->op, "op", "OP", 0, 0, NULL },
        { 0, NULL, PERF_FLAG, NULL, NULL, NULL, 0, 0, NULL },
    };
    char command[] = "test", first[64], second[64], third[64];
    char *argv[] = { command, first, second, third };
    int argc = 1 + !!a + !!b + !!c;
    FILE *errors = fmemopen(says, size, "w");

    REQUIRE(errors);
    snprintf(first, sizeof first, "%s", a ? a : "");
    snprintf(second, sizeof second, "%s", b ? b : "");
    snprintf(third, sizeof third, "%s", c ? c : "");
    *v = (struct values){ .word = -1 };
    enum perf_parsed parsed = perf_options_parse(table, command, argc, argv, errors);
    fclose(errors);
    v->text = v->text ? "given" : NULL; /* it pointed into this frame */
    return parsed;
}

static void accepts(void)
{
    struct values v;
    char says[512] = "";

    CHECK(parse(&v, says, sizeof says, NULL, NULL, NULL) == PERF_PARSED);
    CHECK(parse(&v, says, sizeof says, "-b", "64K", NULL) == PERF_PARSED && v.size == 65536);
    CHECK(parse(&v, says, sizeof says, "-b64K", NULL, NULL) == PERF_PARSED && v.size == 65536);
    CHECK(parse(&v, says, sizeof says, "--begin=1M", "-n", "10") == PERF_PARSED && v.size == 1 << 20 && v.number == 10);
    CHECK(parse(&v, says, sizeof says, "--begin", "4", "--flag") == PERF_PARSED && v.size == 4 && v.flag);
    CHECK(parse(&v, says, sizeof says, "--buffers", "private", NULL) == PERF_PARSED && v.word == 1);
    CHECK(parse(&v, says, sizeof says, "-dbf16", "-o", "max") == PERF_PARSED && v.dtype == HALAY_BF16 &&
          v.op == HALAY_MAX);
    CHECK(parse(&v, says, sizeof says, "--json", "-", NULL) == PERF_PARSED && v.text);
    CHECK(parse(&v, says, sizeof says, "--real", "2.5", NULL) == PERF_PARSED && v.real == 2.5);
    CHECK(parse(&v, says, sizeof says, "--help", NULL, NULL) == PERF_PARSED_HELP);
    CHECK(parse(&v, says, sizeof says, "-n", "1", "-h") == PERF_PARSED_HELP);
    CHECK(!*says, "said '%s'", says);
}

/* Refused, and the message has both texts. */
static void refuse(const char *a, const char *b, const char *expected, const char *also)
{
    struct values v;
    char says[512] = "";

    CHECK(parse(&v, says, sizeof says, a, b, NULL) == PERF_PARSED_WRONG, "'%s'", a);
    CHECK(strstr(says, expected) && strstr(says, also), "'%s': said '%s'", a, says);
    CHECK(strchr(says, '\n') == says + strlen(says) - 1, "more or less than one line: '%s'", says);
    CHECK(v.size == 0 && v.number == 0 && !v.flag && v.word == -1 && !v.text);
}

static void refuses(void)
{
    refuse("--bufers", "shared", "'--bufers'", "did you mean '--buffers'?");
    refuse("--begn=4", NULL, "'--begn=4'", "'--begin'");
    refuse("-x", NULL, "unknown option '-x'", "--help");
    refuse("begin", NULL, "unknown argument 'begin'", "'--begin'");
    refuse("", NULL, "unknown argument ''", "--help");
    refuse("-", NULL, "'-'", "--help");
    refuse("-b", NULL, "'-b'", "a size such as");
    refuse("-b", "4X", "'4X'", "a size such as");
    refuse("-b", "-4", "'-4'", "'-b'");
    refuse("-n", "0", "'0'", "from 1 to 10");
    refuse("-n11", NULL, "'11' of option '-n'", "from 1 to 10");
    refuse("--real", "nan", "'nan'", "from 0 to 5");
    refuse("--buffers=both", NULL, "'both'", "one of shared, private");
    refuse("--dtype", "f8", "'f8'", "bf16");
    refuse("--op", "mean", "'mean'", "average");
    refuse("--flag=1", NULL, "'--flag=1'", "no value");
    refuse("--json", "", "''", "not empty");
    refuse("--beg", "4", "unknown option '--beg'", "--help");
}

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
    CHECK(perf_bus_bandwidth_gbs(1000000000, 1, 4) == 1.5 && perf_bus_bandwidth_gbs(1000000000, 1, 1) == 0);
    double before = perf_now();
    CHECK(perf_now() >= before);
}

/* ---- pattern ----------------------------------------------------------------------------------------------------- */

/* What comes out of reducing the patterns of `size` ranks one after the other, for types that this needs no
 * rounding. */
static void reduce_f32(float *sum, const float *x, size_t count, enum halay_op op)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = op == HALAY_MIN ? fminf(sum[i], x[i]) : op == HALAY_MAX ? fmaxf(sum[i], x[i]) : sum[i] + x[i];
}

static void pattern_of(int size, enum halay_op op, size_t count)
{
    float *sum = calloc(count + 1, sizeof *sum), *x = calloc(count + 1, sizeof *x);
    struct perf_pattern pattern;

    REQUIRE(sum && x);
    for (int r = 0; r < size; r++) {
        REQUIRE(perf_pattern_init(&pattern, HALAY_F32, op, r, size) == HALAY_OK);
        x[count] = -1;
        perf_pattern_fill(&pattern, x, count);
        CHECK(x[count] == -1, "wrote behind %zu elements", count);
        if (r)
            reduce_f32(sum, x, count, op);
        else
            memcpy(sum, x, count * sizeof *x);
        if (r + 1 < size)
            perf_pattern_fini(&pattern);
    }
    if (op == HALAY_AVERAGE)
        for (size_t i = 0; i < count; i++)
            sum[i] = sum[i] * (1 / (float)size); /* not quite the quotient: both count as right */
    CHECK(perf_pattern_wrong(&pattern, sum, count) == 0, "%d ranks, %zu elements, %s", size, count, halay_op_name(op));
    if (count) {
        sum[count - 1] += 1;
        sum[count / 2] = NAN;
        CHECK(perf_pattern_wrong(&pattern, sum, count) == 1 + (count > 1), "%d ranks, %zu elements", size, count);
    }
    CHECK(size == 1 || !count || perf_pattern_wrong(&pattern, x, count) > 0 || op == HALAY_MIN || op == HALAY_MAX,
          "what was put in passes for what must come out");
    perf_pattern_fini(&pattern);
    free(sum);
    free(x);
}

static void patterns(void)
{
    static const size_t counts[] = { 0, 1, 4, 5, 2559, 2560, 2561, 10007 };
    static const int sizes[] = { 1, 2, 3, 8 };

    for (int op = 0; op < HALAY_OP_COUNT; op++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                pattern_of(sizes[s], (enum halay_op)op, counts[c]);
    /* Each type: rank 0 of one rank gets its own pattern back. */
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++) {
        unsigned char data[100 * 8];
        struct perf_pattern pattern;
        REQUIRE(perf_pattern_init(&pattern, (enum halay_dtype)dtype, HALAY_SUM, 0, 1) == HALAY_OK);
        perf_pattern_fill(&pattern, data, 100);
        CHECK(perf_pattern_wrong(&pattern, data, 100) == 0);
        data[99 * halay_dtype_size((enum halay_dtype)dtype)] ^= 0x55;
        CHECK(perf_pattern_wrong(&pattern, data, 100) == 1 || pattern.tolerance > 0, "%s",
              halay_dtype_name((enum halay_dtype)dtype));
        perf_pattern_fini(&pattern);
    }
}

int main(void)
{
    accepts();
    refuses();
    statistics();
    patterns();
    return test_end();
}
