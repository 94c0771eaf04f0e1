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

/* Rules and local costs are of the order measured on one host of two cores (docs/performance.md), those of cuda a
 * formula; remote costs assume a network of 10 Gbit/s. halay-perf tune measures those of a machine. A rule ends where
 * measurements end, at 16 ranks and 1 GB at most: beyond, the formulas choose. */
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
    "use     tcp local  reduce-scatter 3-8 64K halving\n"
    "use     tcp local  reduce-scatter 2-8 16M direct\n"
    "use     tcp local  broadcast 2-8 256K knomial\n"
    "use     tcp local  allgather 2-8 16M bruck\n"
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

static enum halay_status reader_fail(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static enum halay_status reader_fail(struct reader *r, const char *format, ...)
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

static enum halay_status read_scope(struct reader *r, struct halay_tuning_row *row)
{
    const char *transport = r->words[1], *locality = r->words[2];

    if (strlen(transport) >= sizeof row->transport)
        return reader_fail(r, "'%s' is not a transport, and not *", transport);
    if (strcmp(transport, "*"))
        memcpy(row->transport, transport, strlen(transport));
    if (!strcmp(locality, "local"))
        row->localities = HALAY_TUNING_LOCAL;
    else if (!strcmp(locality, "remote"))
        row->localities = HALAY_TUNING_REMOTE;
    else if (!strcmp(locality, "*"))
        row->localities = HALAY_TUNING_LOCAL | HALAY_TUNING_REMOTE;
    else
        return reader_fail(r, "'%s' is not a locality: use local, remote or *", locality);
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
    return reader_fail(r, "'%s' is not a time; write for example 9.5us or 0.2ns", text);
}

static enum halay_status read_ranks(struct reader *r, const char *text, struct halay_tuning_row *row)
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
            return reader_fail(r, "'%s' is not a number of ranks: use 4, 3-8, 9- or *", text);
    }
    row->ranks_min = (int)least;
    row->ranks_max = (int)most;
    return HALAY_OK;
}

/* ---- rows ---- */

static enum halay_status read_costs(struct reader *r, struct halay_tuning_cost *cost)
{
    const struct {
        const char *name;
        double *seconds;
    } terms[] = { { "latency", &cost->a }, { "message", &cost->o },  { "byte", &cost->b },
                  { "add", &cost->g },     { "exchange", &cost->x }, { "memory", &cost->m } };
    enum { TERMS = sizeof terms / sizeof *terms, LATENCY = 1 << 0, BYTE = 1 << 2, NEEDED = LATENCY | BYTE };
    unsigned seen = 0;
    enum halay_status status = HALAY_OK;

    for (int i = 3; i < r->count && status == HALAY_OK; i++) {
        char *equals = strchr(r->words[i], '=');
        size_t k = 0;
        if (!equals)
            return reader_fail(r, "'%s' is not a cost; write for example latency=9us", r->words[i]);
        *equals = 0;
        while (k < TERMS && strcmp(r->words[i], terms[k].name))
            k++;
        if (k == TERMS)
            return reader_fail(r, "unknown cost '%s': there are latency, message, byte, add, exchange, memory",
                               r->words[i]);
        if (seen >> k & 1)
            return reader_fail(r, "cost '%s' is given twice", r->words[i]);
        seen |= 1u << k;
        status = read_time(r, equals + 1, terms[k].seconds);
    }
    if (status == HALAY_OK && (seen & NEEDED) != NEEDED)
        return reader_fail(r, "a row of costs gives the latency and the byte at least");
    return status;
}

/* Reads OPERATION RANKS UPTO, after the scope. */
static enum halay_status read_limits(struct reader *r, struct halay_tuning_row *row)
{
    enum halay_coll_kind operation;

    if (row->kind == HALAY_TUNING_USE || strcmp(r->words[3], "*")) {
        if (halay_coll_kind_parse(r->words[3], &operation) != HALAY_OK)
            return reader_fail(r, "unknown operation '%s'", r->words[3]);
        row->operation = (int)operation;
    }
    enum halay_status status = read_ranks(r, r->words[4], row);
    if (status == HALAY_OK && strcmp(r->words[5], "*") && halay_parse_size(r->words[5], &row->bytes_max) != HALAY_OK)
        return reader_fail(r, "'%s' is not a size; write for example 65536, 64K or *", r->words[5]);
    return status;
}

/* Reads the second half of a row: the costs, the algorithm or the size. */
static enum halay_status read_answer(struct reader *r, struct halay_tuning_row *row)
{
    const char *last = r->words[r->count - 1];

    if (row->kind == HALAY_TUNING_COST)
        return read_costs(r, &row->cost);
    if (row->kind == HALAY_TUNING_USE) {
        const struct halay_algorithm *algorithm = halay_algorithm_find((enum halay_coll_kind)row->operation, last);
        if (!algorithm)
            return reader_fail(r, "unknown algorithm '%s' for %s", last, r->words[3]);
        row->algorithm = (unsigned)(algorithm - halay_algorithms);
        return HALAY_OK;
    }
    if (halay_parse_size(last, &row->bytes) != HALAY_OK || !row->bytes)
        return reader_fail(r, "'%s' is not a size of at least 1; write for example 64K", last);
    return HALAY_OK;
}

static enum halay_status read_row(struct reader *r)
{
    enum { SCOPE = 3, SCOPE_AND_LIMITS = 6 }; /* words */
    static const struct {
        const char *name, *form;
        int words; /* 0: SCOPE or more */
    } kinds[] = {
        [HALAY_TUNING_COST] = { "cost", NULL, 0 },
        [HALAY_TUNING_USE] = { "use", "use TRANSPORT LOCALITY OPERATION RANKS UPTO ALGORITHM", SCOPE_AND_LIMITS + 1 },
        [HALAY_TUNING_SEGMENT] = { "segment", "segment TRANSPORT LOCALITY SIZE", SCOPE + 1 },
        [HALAY_TUNING_SLOT] = { "slot", "slot TRANSPORT LOCALITY OPERATION RANKS UPTO SIZE", SCOPE_AND_LIMITS + 1 },
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    struct halay_tuning *t = r->table;
    int kind = 0;

    while (kind < KINDS && strcmp(r->words[0], kinds[kind].name))
        kind++;
    if (kind == KINDS || (!kinds[kind].words && r->count < SCOPE))
        return reader_fail(
            r, "no row begins with '%s': use cost, use, segment or slot, then a transport and a locality", r->words[0]);
    if (kinds[kind].words && r->count != kinds[kind].words)
        return reader_fail(r, "%d words: '%s' has %d", r->count, kinds[kind].form, kinds[kind].words);
    if (t->count == HALAY_TUNING_ROWS)
        return reader_fail(r, "more than %d rows", HALAY_TUNING_ROWS);
    struct halay_tuning_row *row = &t->rows[t->count];
    *row = (struct halay_tuning_row){ .kind = (enum halay_tuning_kind)kind,
                                      .line = r->line,
                                      .operation = -1,
                                      .ranks_min = 1,
                                      .ranks_max = INT_MAX,
                                      .bytes_max = SIZE_MAX };
    enum halay_status status = read_scope(r, row);
    if (status == HALAY_OK && kinds[kind].words > SCOPE_AND_LIMITS)
        status = read_limits(r, row);
    if (status == HALAY_OK)
        status = read_answer(r, row);
    t->count += status == HALAY_OK;
    return status;
}

/* Reads the first line that is not empty: it gives the version. */
static enum halay_status read_version(struct reader *r)
{
    if (strcmp(r->words[0], "halay-tuning"))
        return reader_fail(r, "not a tuning table: the first line is 'halay-tuning 1'");
    if (r->count != 2 || strcmp(r->words[1], "1"))
        return reader_fail(r, "a tuning table of version '%s': this halay reads version 1",
                           r->count > 1 ? r->words[1] : "");
    return HALAY_OK;
}

/* ---- the text ---- */

static enum halay_status line_split(struct reader *r, char *line)
{
    char *save = NULL;

    line[strcspn(line, "#")] = 0;
    r->count = 0;
    for (char *word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
        if (r->count == WORDS_MAX)
            return reader_fail(r, "more than %d words", WORDS_MAX);
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
            return reader_fail(&r, "a line of more than %d bytes", LINE_MAX_BYTES - 1);
        memcpy(line, text, length);
        line[length] = 0;
        text += length + (text[length] != 0);
        status = line_split(&r, line);
        if (status != HALAY_OK || !r.count)
            continue;
        status = has_version ? read_row(&r) : read_version(&r);
        has_version = 1;
    }
    if (status == HALAY_OK && !has_version)
        return reader_fail(&r, "an empty tuning table: the first line is 'halay-tuning 1'");
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
            snprintf(why, size, "%s has a zero byte: it is not a text file", path);
        else
            status = halay_tuning_parse(text, path, table, why, size);
    }
    if (file)
        (void)fclose(file); /* it was only read */
    free(text);
    return status;
}

/* ---- questions ---- */

const struct halay_tuning_row *halay_tuning_find(const struct halay_tuning *table, const struct halay_tuning_key *key,
                                                 const struct halay_tuning_row *after)
{
    for (const struct halay_tuning_row *row = after ? after + 1 : table->rows; row < table->rows + table->count; row++)
        if (row->kind == key->kind && key->bytes <= row->bytes_max && key->ranks >= row->ranks_min &&
            key->ranks <= row->ranks_max && (row->operation < 0 || row->operation == key->operation) &&
            row->localities & key->locality && (!*row->transport || !strcmp(row->transport, key->transport)))
            return row;
    return NULL;
}

size_t halay_tuning_chunk(const struct halay_tuning *table, const char *transport, unsigned locality)
{
    const struct halay_tuning_key key = {
        .kind = HALAY_TUNING_SEGMENT, .transport = transport, .locality = locality, .ranks = 1
    };
    const struct halay_tuning_row *row = NULL;

    for (; table && !row; table = table->next)
        row = halay_tuning_find(table, &key, NULL);
    return row ? row->bytes : (size_t)256 << 10;
}
