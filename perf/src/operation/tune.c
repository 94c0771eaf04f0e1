/* SPDX-License-Identifier: Apache-2.0
 *
 * From times to a tuning table.
 *
 * Limits. Between the last size at which one algorithm is the best and the first at which another one is, the limit is
 * their geometric mean. Two measurements of the same thing differ by some percent, so a new winner must win by NOISE.
 *
 * Costs. Each is read off the one formula of docs/reference/algorithms.md that it dominates: the latency from recursive
 * doubling of the least data, the byte from a chain broadcast of the most, and so on. They are for numbers of ranks
 * that nobody measured; what was measured is in the rules.
 */
#include "perf/src/operation/tune.h"
#include <math.h>
#include <string.h>

#define NOISE 1.05

/* ---- limits ------------------------------------------------------------------------------------------------------ */

void perf_tune_choose(const struct perf_tune_operation *o, int tree_only, int choice[PERF_TUNE_SIZES])
{
    for (int i = 0; i < o->size_count; i++) {
        int best = -1, last = i ? choice[i - 1] : -1;
        for (int a = 0; a < o->algorithm_count; a++)
            if ((!tree_only || o->is_tree[a]) && (best < 0 || o->seconds[a][i] < o->seconds[best][i]))
                best = a;
        choice[i] = last >= 0 && o->seconds[last][i] <= o->seconds[best][i] * NOISE ? last : best;
    }
}

static size_t limit_between(size_t lower, size_t upper)
{
    return (size_t)sqrt((double)lower * (double)upper);
}

/* kind: of the rows. */
static void write_choice(const char *kind, const struct perf_tune_scope *scope, const struct perf_tune_operation *o,
                         const int *choice, FILE *out)
{
    for (int i = 0; i < o->size_count; i++) {
        if (i + 1 < o->size_count && choice[i + 1] == choice[i])
            continue;
        char limit[32] = "*";
        if (i + 1 < o->size_count)
            snprintf(limit, sizeof limit, "%zu", limit_between(o->bytes[i], o->bytes[i + 1]));
        fprintf(out, "%-7s %s %s %s %d %s %s\n", kind, scope->transport, scope->place, o->name, scope->ranks, limit,
                o->algorithms[choice[i]]);
    }
}

void perf_tune_write_rules(const struct perf_tune_scope *scope, const struct perf_tune_operation *o, FILE *out)
{
    int choice[PERF_TUNE_SIZES], is_tree = 1;

    if (!o->algorithm_count || !o->size_count)
        return;
    perf_tune_choose(o, 0, choice);
    write_choice("use", scope, o, choice, out);
    for (int i = 0; i < o->size_count; i++)
        is_tree &= o->is_tree[choice[i]];
    perf_tune_choose(o, 1, choice);
    if (!is_tree && choice[0] >= 0)
        write_choice("use", scope, o, choice, out);
}

void perf_tune_write_slots(const struct perf_tune_scope *scope, const struct perf_tune_operation *o, FILE *out)
{
    int choice[PERF_TUNE_SIZES];

    if (!o->algorithm_count || !o->size_count)
        return;
    perf_tune_choose(o, 0, choice);
    write_choice("slot", scope, o, choice, out);
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

/* The time of an algorithm for the least (last = 0) or the most data; negative if it was not measured. */
static double time_of(const struct perf_tune_operation *operations, int count, const char *operation,
                      const char *algorithm, int last, double *bytes)
{
    for (int k = 0; k < count; k++) {
        const struct perf_tune_operation *o = &operations[k];
        for (int a = 0; a < o->algorithm_count && o->size_count; a++)
            if (!strcmp(o->name, operation) && !strcmp(o->algorithms[a], algorithm)) {
                int i = last ? o->size_count - 1 : 0;
                *bytes = (double)o->bytes[i];
                return o->seconds[a][i];
            }
    }
    return -1;
}

static double above(double value, double least)
{
    return value > least ? value : least;
}

struct perf_tune_costs perf_tune_fit(const struct perf_tune_operation *operations, int count, int ranks, size_t segment)
{
    struct perf_tune_costs c = { -1, -1, -1, -1, -1, -1 };
    const double least = 1e-13; /* of a byte: no cost is zero */
    double n = ranks, s, t, levels = 0, ones = 0;

    for (int k = ranks; k; k >>= 1) {
        levels += k > 1;
        ones += k & 1;
    }
    double doubling = levels + ones - 1 + (ones > 1);
    if ((t = time_of(operations, count, "allreduce", "recursive-doubling", 0, &s)) > 0)
        c.latency = t / doubling;
    if ((t = time_of(operations, count, "broadcast", "chain", 1, &s)) > 0 && c.latency >= 0)
        c.byte = above((t - (n - 1) * c.latency) / (s + (n - 2) * (s < (double)segment ? s : (double)segment)), least);
    if ((t = time_of(operations, count, "allreduce", "ring", 1, &s)) > 0 && c.byte >= 0)
        c.add = above(((t - 2 * (n - 1) * c.latency) * n / (n - 1) / s - 2 * c.byte), 0);
    if (c.latency >= 0)
        c.message = c.latency / 4; /* of two ranks none sends two in a step */
    if ((t = time_of(operations, count, "allreduce", "direct", 0, &s)) > 0 && c.latency >= 0 && ranks > 2)
        c.message = above((t / 2 - c.latency) / (n - 2), c.latency / 100);
    if ((t = time_of(operations, count, "barrier", "shared", 0, &s)) > 0)
        c.exchange = t / ((n + 2) / 4);
    if ((t = time_of(operations, count, "allreduce", "two-shot", 1, &s)) > 0 && c.exchange >= 0)
        c.memory = above((t - (n + 2) / 2 * c.exchange) / (2 * s), least);
    return c;
}

static void write_time(const char *name, double seconds, FILE *out)
{
    if (seconds >= 1e-3)
        fprintf(out, " %s=%.4gms", name, seconds * 1e3);
    else if (seconds >= 1e-6)
        fprintf(out, " %s=%.4gus", name, seconds * 1e6);
    else if (seconds >= 0)
        fprintf(out, " %s=%.4gns", name, seconds * 1e9);
}

int perf_tune_has_costs(const struct perf_tune_costs *c)
{
    return c->latency >= 0 && c->byte >= 0;
}

void perf_tune_write_costs(const struct perf_tune_scope *scope, const struct perf_tune_costs *c, FILE *out)
{
    fprintf(out, "cost    %s %s", scope->transport, scope->place);
    write_time("latency", c->latency, out);
    write_time("message", c->message, out);
    write_time("byte", c->byte, out);
    write_time("add", c->add, out);
    write_time("exchange", c->exchange, out);
    write_time("memory", c->memory, out);
    fputc('\n', out);
}

/* ---- a table that was there -------------------------------------------------------------------------------------- */

static int is_measured(const struct perf_tune_operation *operations, int count, const char *name)
{
    for (int k = 0; k < count; k++)
        if (operations[k].algorithm_count && !strcmp(operations[k].name, name))
            return 1;
    return 0;
}

static int is_replaced(const struct perf_tune_scope *scope, const struct perf_tune_news *news, const char *line)
{
    char kind[32] = "", transport[32] = "", place[32] = "", operation[32] = "", ranks[32] = "", own[32];

    int words = sscanf(line, "%31s %31s %31s %31s %31s", kind, transport, place, operation, ranks);
    snprintf(own, sizeof own, "%d", scope->ranks);
    if (words < 3 || strcmp(transport, scope->transport) || strcmp(place, scope->place))
        return 0;
    if (!strcmp(kind, "#tune"))
        return !strcmp(operation, own);
    if (!strcmp(kind, "use"))
        return words == 5 && !strcmp(ranks, own) && is_measured(news->operations, news->count, operation);
    if (!strcmp(kind, "slot"))
        return words == 5 && !strcmp(ranks, own) && is_measured(news->slots, news->count, operation);
    return (news->has_costs && !strcmp(kind, "cost")) || (news->has_segment && !strcmp(kind, "segment"));
}

void perf_tune_copy_others(const struct perf_tune_scope *scope, const struct perf_tune_news *news, FILE *in, FILE *out)
{
    char line[2048];

    while (fgets(line, sizeof line, in))
        if (!is_replaced(scope, news, line)) {
            fputs(line, out);
            if (line[strlen(line) - 1] != '\n' && feof(in))
                fputc('\n', out);
        }
}
