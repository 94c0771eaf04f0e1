/* SPDX-License-Identifier: Apache-2.0
 *
 * Choice of an algorithm, by tables: they name an algorithm, or give costs that the formulas of algorithms.def turn
 * into the time of each. The order is
 *
 *     what was asked for by name
 *     for each table, the file's before the built-in one:
 *         its first rule ("use") that fits and whose algorithm this group may use
 *         else, if it has costs for the transport and locality: the least by the formulas
 *
 * and for shared memory: how large a slot is. A table with chunks gives the same of messages (tuning.h).
 *
 * What goes in must be known to all ranks alike: never the address of a buffer.
 */
#include "collectives/choose/select.h"
#include "base/number_text.h"
#include "collectives/choose/algorithms.h"
#include "collectives/choose/tuning.h"
#include "collectives/schedule/tree.h"
#include <float.h>
#include <stdint.h>
#include <string.h>

static struct halay_tuning_key key_of(const struct halay_select_query *q, enum halay_tuning_kind kind)
{
    return (struct halay_tuning_key){ .kind = kind,
                                      .transport = q->transport,
                                      .locality = q->is_local ? HALAY_TUNING_LOCAL : HALAY_TUNING_REMOTE,
                                      .operation = (int)q->operation,
                                      .ranks = q->size,
                                      .bytes = q->bytes };
}

static int is_allowed(const struct halay_select_query *q, const struct halay_algorithm *algorithm)
{
    const char *why;

    return algorithm->operation == q->operation &&
           halay_select_allows(algorithm, q->size, q->sharing, q->deterministic, &why) == HALAY_OK;
}

/* ---- rows ---- */

static const struct halay_tuning_row *find_rule(const struct halay_select_query *q, const struct halay_tuning *table)
{
    const struct halay_tuning_key key = key_of(q, HALAY_TUNING_USE);
    const struct halay_tuning_row *row = halay_tuning_find(table, &key, NULL);

    while (row && !is_allowed(q, &halay_algorithms[row->algorithm]))
        row = halay_tuning_find(table, &key, row);
    return row;
}

static const struct halay_tuning_row *find_cost(const struct halay_select_query *q, const struct halay_tuning *table)
{
    const struct halay_tuning_key key = key_of(q, HALAY_TUNING_COST);

    return halay_tuning_find(table, &key, NULL);
}

/* ---- costs ---- */

static int log2_up(int n)
{
    return n > 1 ? 32 - __builtin_clz((unsigned)n - 1) : 0;
}

static int hosts_of(const struct halay_select_query *q)
{
    if (q->hosts > 0)
        return q->hosts;
    return q->is_local ? 1 : q->size;
}

static size_t chunks_of(size_t bytes, size_t chunk)
{
    return bytes / chunk + (bytes % chunk != 0);
}

struct halay_select_query halay_select_between(const struct halay_select_query *query, size_t chunk)
{
    struct halay_select_query q = *query;
    int hosts = hosts_of(query), locals = (query->size + hosts - 1) / hosts;
    size_t chunks = chunks_of(query->bytes, chunk);

    q.bytes = chunk / (size_t)locals;
    q.size = q.hosts = hosts;
    q.flows = locals;
    /* Half of the chunks under way are in shared memory. */
    q.overlap = chunks < HALAY_NODES_DEPTH / 2 ? (int)chunks : HALAY_NODES_DEPTH / 2;
    q.sharing = HALAY_SHARES_NONE;
    q.forced = NULL;
    return q;
}

/* Returns the seconds of all of those. */
static double seconds_between(const struct halay_select_query *q)
{
    size_t chunk = halay_nodes_chunk(q->bytes);

    if (q->sharing != HALAY_SHARES_NODES || q->operation != HALAY_COLL_ALLREDUCE || !q->bytes || q->bytes == SIZE_MAX)
        return 0;
    chunk = chunk < q->bytes ? chunk : q->bytes;
    struct halay_select_query between = halay_select_between(q, chunk);
    return (double)q->bytes / (double)chunk * halay_select_seconds(&between, halay_select(&between, NULL, 0));
}

/* The variables of the formulas: see algorithms.def. */
static struct halay_cost_terms terms_of(const struct halay_select_query *q, const struct halay_tuning_cost *cost)
{
    unsigned n = (unsigned)q->size, ones = (unsigned)__builtin_popcount(n);
    int down = q->size ? 31 - __builtin_clz(n) : 0, hosts = hosts_of(q);

    return (struct halay_cost_terms){
        .N = q->size,
        .S = q->bytes == SIZE_MAX ? 0 : (double)q->bytes,
        .H = hosts,
        .K = (double)q->size / hosts,
        .P = (double)q->chunk,
        .W = q->is_half ? 2 : 1,
        .L = down + (ones > 1),
        .Q = log2_up(hosts),
        .T = down + (int)ones - 1,
        .D = ones > 1,
        .F = halay_grid_rows(q->size),
        .J = (log2_up(q->size) + 1) / 2,
        .a = cost->a / (q->overlap ? q->overlap : 1),
        .o = cost->o,
        .b = cost->b * (q->flows ? q->flows : 1),
        .g = cost->g,
        .x = cost->x,
        .m = cost->m,
        .I = seconds_between(q),
    };
}

double halay_select_seconds(const struct halay_select_query *query, const struct halay_algorithm *algorithm)
{
    for (const struct halay_tuning *table = query->tuning; table; table = table->next) {
        const struct halay_tuning_row *row = find_cost(query, table);
        if (row) {
            struct halay_cost_terms terms = terms_of(query, &row->cost);
            return algorithm->seconds(&terms);
        }
    }
    return DBL_MAX;
}

struct ranking {
    const struct halay_algorithm *first, *second; /* second: NULL if there is one only */
    double first_seconds, second_seconds;
};

/* Ranks what is allowed; among equals the first of algorithms.def. */
static struct ranking rank_algorithms(const struct halay_select_query *q, const struct halay_tuning_cost *cost)
{
    struct halay_cost_terms terms = terms_of(q, cost);
    struct ranking r = { .first = NULL };

    for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++) {
        if (!is_allowed(q, a))
            continue;
        double seconds = a->seconds(&terms);
        if (!r.first || seconds < r.first_seconds) {
            r.second = r.first;
            r.second_seconds = r.first_seconds;
            r.first = a;
            r.first_seconds = seconds;
        } else if (!r.second || seconds < r.second_seconds) {
            r.second = a;
            r.second_seconds = seconds;
        }
    }
    return r;
}

/* ---- the choice ---- */

static void explain_costs(const struct ranking *r, const struct halay_tuning *table,
                          const struct halay_tuning_row *cost, char *why, size_t size)
{
    if (r->second)
        halay_snprintf(why, size, "%.3g us by the costs of %s, line %d; %s: %.3g us", r->first_seconds * 1e6,
                       table->name, cost->line, r->second->name, r->second_seconds * 1e6);
    else
        snprintf(why, size, "it is the only one");
}

const struct halay_algorithm *halay_select(const struct halay_select_query *query, char *why, size_t size)
{
    const struct halay_tuning *table = query->tuning;

    if (query->forced) {
        if (why)
            snprintf(why, size, "it was asked for");
        return query->forced;
    }
    for (;; table = table->next) { /* the last one has costs for everything */
        const struct halay_tuning_row *rule = find_rule(query, table), *cost = find_cost(query, table);
        if (rule) {
            if (why)
                snprintf(why, size, "%s, line %d, names it", table->name, rule->line);
            return &halay_algorithms[rule->algorithm];
        }
        if (!cost)
            continue;
        struct ranking r = rank_algorithms(query, &cost->cost);
        if (why)
            explain_costs(&r, table, cost, why, size);
        return r.first;
    }
}

size_t halay_select_slot(const struct halay_select_query *q)
{
    enum { LEAST = 4096, USUAL = 64 << 10 }; /* below, the exchanges would take longer than the data */
    const struct halay_tuning_key key = key_of(q, HALAY_TUNING_SLOT);
    size_t bytes = q->slot;

    for (const struct halay_tuning *table = q->tuning; table && !bytes; table = table->next) {
        const struct halay_tuning_row *row = halay_tuning_find(table, &key, NULL);
        bytes = row ? row->bytes : 0;
    }
    bytes = bytes ? bytes : USUAL;
    return bytes < LEAST ? LEAST : bytes / LEAST * LEAST;
}

static int adds_data(enum halay_coll_kind operation)
{
    return operation == HALAY_COLL_ALLREDUCE || operation == HALAY_COLL_REDUCE ||
           operation == HALAY_COLL_REDUCE_SCATTER;
}

enum halay_status halay_select_allows(const struct halay_algorithm *algorithm, int size, enum halay_sharing sharing,
                                      enum halay_deterministic deterministic, const char **why)
{
    if (algorithm->flags & HALAY_ALGORITHM_SHARED && sharing != HALAY_SHARES_ALL) {
        *why = "the transport shares no memory";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (algorithm->flags & HALAY_ALGORITHM_NODES && sharing != HALAY_SHARES_NODES) {
        *why = "it takes several nodes, and shared memory inside one of several ranks";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (algorithm->ops->ranks_max && size > algorithm->ops->ranks_max && deterministic != HALAY_DETERMINISTIC_RANKS) {
        *why = "every rank talks to all others at once, which this number of ranks cannot";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (adds_data(algorithm->operation) && deterministic == HALAY_DETERMINISTIC_RANKS &&
        !(algorithm->flags & HALAY_ALGORITHM_TREE)) {
        *why = "it does not sum along the tree over ranks, which HALAY_DETERMINISTIC=ranks asks for";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (algorithm->operation == HALAY_COLL_ALLREDUCE && deterministic == HALAY_DETERMINISTIC_RUN &&
        !(algorithm->flags & (sharing == HALAY_SHARES_NODES ? HALAY_ALGORITHM_NODES : HALAY_ALGORITHM_TREE))) {
        *why = "it does not add all elements in the same order, which HALAY_DETERMINISTIC=run asks for";
        return HALAY_ERR_UNSUPPORTED;
    }
    return HALAY_OK;
}

struct halay_select_query halay_select_on_devices(const struct halay_tuning *tuning, int ranks, size_t bytes)
{
    return (struct halay_select_query){ .operation = HALAY_COLL_ALLREDUCE,
                                        .bytes = bytes,
                                        .size = ranks,
                                        .is_local = 1,
                                        .transport = "cuda",
                                        .sharing = HALAY_SHARES_ALL,
                                        .hosts = 1,
                                        .deterministic = HALAY_DETERMINISTIC_OFF,
                                        .tuning = tuning };
}
