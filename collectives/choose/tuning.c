/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning table as text. A line is a row, # begins a comment:
 *
 *     halay-tuning 1
 *     cost    TRANSPORT LOCALITY latency=9us message=2us byte=0.2ns add=0.05ns exchange=0.3us memory=0.03ns
 *     use     TRANSPORT LOCALITY OPERATION RANKS UPTO ALGORITHM
 *     segment TRANSPORT LOCALITY SIZE
 *     slot    TRANSPORT LOCALITY OPERATION RANKS UPTO SIZE
 *
 * TRANSPORT is a name or *, LOCALITY is local (all ranks on one host), remote or *, OPERATION of a slot may be *, RANKS
 * is 4, 3-8, 9- or *, UPTO is a size or *. The first line gives the version of the format. Everything is checked: a
 * table is taken as a whole or not at all.
 */
#include "collectives/choose/tuning.h"
#include "base/number_text.h"
#include "base/parse.h"
#include "collectives/choose/algorithms.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 16, LINE_MAX_BYTES = 1024, FILE_MAX_BYTES = 1 << 20 };

/* Rules and local costs are of the order measured on one host of two cores (docs/performance.md); remote costs assume a
 * network of 10 Gbit/s. halay-perf tune measures those of a machine. A rule ends where measurements end, at 16 ranks
 * and 1 GB at most: beyond, the formulas choose. */
const char halay_tuning_builtin[] =
    "halay-tuning 1\n"
    "use     shm local  allreduce 2    2K  one-shot\n"
    "use     shm local  allreduce 3-8  2K  one-shot\n"
    "use     shm local  allreduce 9-16 512 one-shot\n"
    "use     shm local  allreduce 2-16 1G  two-shot\n"
    "use     shm local  reduce 2       2K  one-shot\n"
    "use     shm local  reduce 2       1G  shared\n"
    "use     shm local  reduce-scatter 2 2K one-shot\n"
    "use     shm local  reduce-scatter 2 1G shared\n"
    "use     shm local  broadcast 2    1K  one-shot\n"
    "use     shm local  broadcast 2    1G  shared\n"
    "use     shm local  allgather 2    2K  one-shot\n"
    "use     shm local  allgather 2    1G  shared\n"
    "use     shm local  alltoall 2     2K  one-shot\n"
    "use     shm local  alltoall 2     1G  shared\n"
    "use     ucx local  allreduce 2    64K recursive-doubling\n"
    "use     ucx local  allreduce 3-16 16K recursive-doubling\n"
    "use     ucx local  allreduce 3-16 64K halving-doubling\n"
    "use     ucx local  allreduce 2-16 1G  direct\n"
    "use     tcp local  allreduce 2    32K recursive-doubling\n"
    "use     tcp local  allreduce 3-16 16K recursive-doubling\n"
    "use     tcp local  allreduce 3-16 64K halving-doubling\n"
    "use     tcp local  allreduce 2-16 1G  direct\n"
    "use     mpi local  allreduce 2    2K  recursive-doubling\n"
    "use     mpi local  allreduce 2    1G  halving-doubling\n"
    "use     mpi local  allreduce 6-16 1K  recursive-doubling\n"
    "use     mpi local  allreduce 6-16 1M  halving-doubling\n"
    "use     mpi local  allreduce 3-5  16K recursive-doubling\n"
    "use     mpi local  allreduce 3-5  64K halving-doubling\n"
    "use     mpi local  allreduce 3-16 1G  direct\n"
    "use     cuda local allreduce 2    1G  one-shot\n"
    "use     cuda local allreduce 3-4  2M  one-shot\n"
    "use     cuda local allreduce 5-16 512K one-shot\n"
    "use     cuda local allreduce 2-16 1G  two-shot\n"
    "cost    shm local  latency=1.2us message=0.4us byte=0.12ns add=0.03ns exchange=0.2us memory=0.025ns\n"
    "cost    ucx local  latency=10us message=4us byte=0.4ns add=0.1ns\n"
    "cost    tcp local  latency=7us message=3us byte=0.25ns add=0.1ns\n"
    "cost    mpi local  latency=2us message=0.5us byte=0.35ns add=0.1ns\n"
    "cost    mpi remote latency=10us message=1us byte=0.8ns add=0.1ns exchange=0.2us memory=0.025ns\n"
    "cost    * local    latency=5us message=1us byte=0.25ns add=0.1ns exchange=0.2us memory=0.025ns\n"
    "cost    * remote   latency=30us message=3us byte=0.8ns add=0.1ns exchange=0.2us memory=0.025ns\n"
    "segment * *        256K\n"
    "slot    * * allreduce * * 64K\n"
    "slot    * * *         * * 256K\n";

struct reader {
    struct halay_tuning *table;
    const char *name;
    int line;
    char *why;
    size_t why_size;
    char *words[WORDS_MAX];
    int count;
};

static enum halay_status complain(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static enum halay_status complain(struct reader *r, const char *format, ...)
{
    va_list args;
    int used = snprintf(r->why, r->why_size, "%s:%d: ", r->name, r->line);

    if (used < 0 || (size_t)used >= r->why_size)
        return HALAY_ERR_CONFIG;
    va_start(args, format);
    halay_vsnprintf(r->why + used, r->why_size - (size_t)used, format, args);
    va_end(args);
    return HALAY_ERR_CONFIG;
}

/* ---- words ---- */

static enum halay_status read_scope(struct reader *r, struct halay_tuning_scope *scope)
{
    const char *transport = r->words[1], *locality = r->words[2];

    *scope = (struct halay_tuning_scope){ .line = r->line };
    if (strlen(transport) >= sizeof scope->transport)
        return complain(r, "'%s' is not a transport, and not *", transport);
    if (strcmp(transport, "*"))
        memcpy(scope->transport, transport, strlen(transport));
    if (!strcmp(locality, "local"))
        scope->localities = HALAY_TUNING_LOCAL;
    else if (!strcmp(locality, "remote"))
        scope->localities = HALAY_TUNING_REMOTE;
    else if (!strcmp(locality, "*"))
        scope->localities = HALAY_TUNING_LOCAL | HALAY_TUNING_REMOTE;
    else
        return complain(r, "'%s' is not a locality: use local, remote or *", locality);
    return HALAY_OK;
}

static enum halay_status read_time(struct reader *r, const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } };
    char number[64];
    size_t length = strlen(text);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i].unit);
        if (length <= unit || length - unit >= sizeof number || strcmp(text + length - unit, units[i].unit))
            continue;
        memcpy(number, text, length - unit);
        number[length - unit] = 0;
        double value;
        if (halay_parse_double(number, 0, 1e12, &value) != HALAY_OK)
            break;
        *seconds = value * units[i].seconds;
        return HALAY_OK;
    }
    return complain(r, "'%s' is not a time; write for example 9.5us or 0.2ns", text);
}

static enum halay_status read_ranks(struct reader *r, const char *text, int *ranks_least, int *ranks_most)
{
    char first[16];
    const char *dash = strchr(text, '-');
    size_t length = dash ? (size_t)(dash - text) : strlen(text);
    long least = 1, most = INT_MAX;

    if (strcmp(text, "*")) {
        int is_wrong = length >= sizeof first;
        if (!is_wrong) {
            memcpy(first, text, length);
            first[length] = 0;
            is_wrong = halay_parse_long(first, 1, INT_MAX, &least) != HALAY_OK;
        }
        if (!dash)
            most = least;
        else if (dash[1])
            is_wrong |= halay_parse_long(dash + 1, least, INT_MAX, &most) != HALAY_OK;
        if (is_wrong)
            return complain(r, "'%s' is not a number of ranks: use 4, 3-8, 9- or *", text);
    }
    *ranks_least = (int)least;
    *ranks_most = (int)most;
    return HALAY_OK;
}

static enum halay_status read_upto(struct reader *r, const char *text, size_t *bytes)
{
    *bytes = SIZE_MAX;
    if (strcmp(text, "*") && halay_parse_size(text, bytes) != HALAY_OK)
        return complain(r, "'%s' is not a size; write for example 65536, 64K or *", text);
    return HALAY_OK;
}

/* ---- rows ---- */

static enum halay_status read_cost(struct reader *r)
{
    struct halay_tuning *t = r->table;

    if (t->cost_count == HALAY_TUNING_COSTS)
        return complain(r, "more than %d rows of costs", HALAY_TUNING_COSTS);
    struct halay_tuning_cost *cost = &t->costs[t->cost_count];
    const struct {
        const char *name;
        double *seconds;
    } terms[] = { { "latency", &cost->a }, { "message", &cost->o },  { "byte", &cost->b },
                  { "add", &cost->g },     { "exchange", &cost->x }, { "memory", &cost->m } };
    enum { TERMS = sizeof terms / sizeof *terms, LATENCY = 1 << 0, BYTE = 1 << 2, NEEDED = LATENCY | BYTE };
    unsigned seen = 0;

    *cost = (struct halay_tuning_cost){ .a = 0 };
    enum halay_status status = read_scope(r, &cost->scope);
    for (int i = 3; i < r->count && status == HALAY_OK; i++) {
        char *equals = strchr(r->words[i], '=');
        size_t k = 0;
        if (!equals)
            return complain(r, "'%s' is not a cost; write for example latency=9us", r->words[i]);
        *equals = 0;
        while (k < TERMS && strcmp(r->words[i], terms[k].name))
            k++;
        if (k == TERMS)
            return complain(r, "unknown cost '%s': there are latency, message, byte, add, exchange, memory",
                            r->words[i]);
        if (seen >> k & 1)
            return complain(r, "cost '%s' is given twice", r->words[i]);
        seen |= 1u << k;
        status = read_time(r, equals + 1, terms[k].seconds);
    }
    if (status == HALAY_OK && (seen & NEEDED) != NEEDED)
        return complain(r, "a row of costs gives the latency and the byte at least");
    t->cost_count += status == HALAY_OK;
    return status;
}

static enum halay_status read_operation(struct reader *r, enum halay_coll_kind *operation)
{
    if (halay_coll_kind_parse(r->words[3], operation) != HALAY_OK)
        return complain(r, "unknown operation '%s'", r->words[3]);
    return HALAY_OK;
}

/* RANKS UPTO, after the operation. */
static enum halay_status read_limits(struct reader *r, int *least, int *most, size_t *bytes)
{
    enum halay_status status = read_ranks(r, r->words[4], least, most);

    return status == HALAY_OK ? read_upto(r, r->words[5], bytes) : status;
}

static enum halay_status read_size(struct reader *r, const char *word, const char *example, size_t *bytes)
{
    if (halay_parse_size(word, bytes) != HALAY_OK || !*bytes)
        return complain(r, "'%s' is not a size of at least 1; write for example %s", word, example);
    return HALAY_OK;
}

static enum halay_status read_use(struct reader *r)
{
    struct halay_tuning *t = r->table;
    enum halay_coll_kind operation;

    if (r->count != 7)
        return complain(r, "%d words: 'use TRANSPORT LOCALITY OPERATION RANKS UPTO ALGORITHM' has 7", r->count);
    if (t->rule_count == HALAY_TUNING_RULES)
        return complain(r, "more than %d rules", HALAY_TUNING_RULES);
    struct halay_tuning_rule *rule = &t->rules[t->rule_count];
    *rule = (struct halay_tuning_rule){ .algorithm = 0 };
    enum halay_status status = read_scope(r, &rule->scope);
    if (status == HALAY_OK)
        status = read_operation(r, &operation);
    if (status == HALAY_OK)
        status = read_limits(r, &rule->ranks_least, &rule->ranks_most, &rule->bytes_most);
    if (status != HALAY_OK)
        return status;
    const struct halay_algorithm *algorithm = halay_algorithm_find(operation, r->words[6]);
    if (!algorithm)
        return complain(r, "unknown algorithm '%s' for %s", r->words[6], r->words[3]);
    rule->algorithm = (unsigned)(algorithm - halay_algorithms);
    t->rule_count++;
    return HALAY_OK;
}

static enum halay_status read_fragment(struct reader *r)
{
    struct halay_tuning *t = r->table;

    if (r->count != 4)
        return complain(r, "%d words: 'segment TRANSPORT LOCALITY SIZE' has 4", r->count);
    if (t->fragment_count == HALAY_TUNING_FRAGMENTS)
        return complain(r, "more than %d segment rows", HALAY_TUNING_FRAGMENTS);
    struct halay_tuning_fragment *fragment = &t->fragments[t->fragment_count];
    enum halay_status status = read_scope(r, &fragment->scope);
    if (status == HALAY_OK)
        status = read_size(r, r->words[3], "256K", &fragment->bytes);
    t->fragment_count += status == HALAY_OK;
    return status;
}

static enum halay_status read_slot(struct reader *r)
{
    struct halay_tuning *t = r->table;
    enum halay_coll_kind operation;

    if (r->count != 7)
        return complain(r, "%d words: 'slot TRANSPORT LOCALITY OPERATION RANKS UPTO SIZE' has 7", r->count);
    if (t->slot_count == HALAY_TUNING_SLOTS)
        return complain(r, "more than %d rows of slots", HALAY_TUNING_SLOTS);
    struct halay_tuning_slot *slot = &t->slots[t->slot_count];
    *slot = (struct halay_tuning_slot){ .operation = -1 };
    enum halay_status status = read_scope(r, &slot->scope);
    if (status == HALAY_OK && strcmp(r->words[3], "*")) {
        status = read_operation(r, &operation);
        if (status == HALAY_OK)
            slot->operation = (int)operation;
    }
    if (status == HALAY_OK)
        status = read_limits(r, &slot->ranks_least, &slot->ranks_most, &slot->bytes_most);
    if (status == HALAY_OK)
        status = read_size(r, r->words[6], "64K", &slot->bytes);
    t->slot_count += status == HALAY_OK;
    return status;
}

/* The first line that says anything gives the version. */
static enum halay_status read_version(struct reader *r)
{
    if (strcmp(r->words[0], "halay-tuning"))
        return complain(r, "not a tuning table: the first line is 'halay-tuning 1'");
    if (r->count != 2 || strcmp(r->words[1], "1"))
        return complain(r, "a tuning table of version '%s': this halay reads version 1",
                        r->count > 1 ? r->words[1] : "");
    return HALAY_OK;
}

static enum halay_status read_row(struct reader *r)
{
    if (!strcmp(r->words[0], "cost") && r->count >= 3)
        return read_cost(r);
    if (!strcmp(r->words[0], "use"))
        return read_use(r);
    if (!strcmp(r->words[0], "segment"))
        return read_fragment(r);
    if (!strcmp(r->words[0], "slot"))
        return read_slot(r);
    return complain(r, "no row begins with '%s': use cost, use, segment or slot, then a transport and a locality",
                    r->words[0]);
}

/* ---- the text ---- */

static enum halay_status split(struct reader *r, char *line)
{
    char *save = NULL;

    line[strcspn(line, "#")] = 0;
    r->count = 0;
    for (char *word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
        if (r->count == WORDS_MAX)
            return complain(r, "more than %d words", WORDS_MAX);
        r->words[r->count++] = word;
    }
    return HALAY_OK;
}

enum halay_status halay_tuning_parse(const char *text, const char *name, struct halay_tuning *table, char *why,
                                     size_t size)
{
    struct reader r = { .table = table, .name = name, .why = why, .why_size = size };
    enum halay_status status = HALAY_OK;
    int has_version = 0;
    char line[LINE_MAX_BYTES];

    memset(table, 0, sizeof *table);
    snprintf(table->name, sizeof table->name, "%s", name);
    while (*text && status == HALAY_OK) {
        size_t length = strcspn(text, "\n");
        r.line++;
        if (length >= sizeof line)
            return complain(&r, "a line of more than %d bytes", LINE_MAX_BYTES - 1);
        memcpy(line, text, length);
        line[length] = 0;
        text += length + (text[length] != 0);
        status = split(&r, line);
        if (status != HALAY_OK || !r.count)
            continue;
        status = has_version ? read_row(&r) : read_version(&r);
        has_version = 1;
    }
    if (status == HALAY_OK && !has_version)
        return complain(&r, "an empty tuning table: the first line is 'halay-tuning 1'");
    return status;
}

enum halay_status halay_tuning_read(const char *path, struct halay_tuning *table, char *why, size_t size)
{
    char *text = malloc(FILE_MAX_BYTES + 1);
    FILE *file = fopen(path, "re");
    enum halay_status status = HALAY_ERR_CONFIG;

    if (!text || !file) {
        snprintf(why, size, "%s: cannot be read: %s", path, text ? strerror(errno) : "no memory");
    } else {
        size_t length = fread(text, 1, FILE_MAX_BYTES + 1, file);
        text[length < FILE_MAX_BYTES ? length : FILE_MAX_BYTES] = 0;
        if (ferror(file))
            snprintf(why, size, "%s: cannot be read: %s", path, strerror(errno));
        else if (length > FILE_MAX_BYTES)
            snprintf(why, size, "%s: more than %d bytes", path, FILE_MAX_BYTES);
        else if (strlen(text) != length)
            snprintf(why, size, "%s: a zero byte: this is no text", path);
        else
            status = halay_tuning_parse(text, path, table, why, size);
    }
    if (file)
        (void)fclose(file); /* it was only read */
    free(text);
    return status;
}

/* ---- questions ---- */

int halay_tuning_fits(const struct halay_tuning_scope *scope, const char *transport, unsigned locality)
{
    return (!*scope->transport || !strcmp(scope->transport, transport)) && scope->localities & locality;
}

size_t halay_tuning_fragment(const struct halay_tuning *table, const char *transport, unsigned locality)
{
    for (; table; table = table->next)
        for (size_t i = 0; i < table->fragment_count; i++)
            if (halay_tuning_fits(&table->fragments[i].scope, transport, locality))
                return table->fragments[i].bytes;
    return (size_t)256 << 10;
}
