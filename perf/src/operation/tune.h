/* SPDX-License-Identifier: Apache-2.0
 *
 * Tune: from measured times to the rows of a tuning table (docs/reference/tuning.md), and those rows into a file that
 * may hold others. No ranks, no clocks.
 */
#ifndef HALAY_PERF_TUNE_H
#define HALAY_PERF_TUNE_H

#include <stddef.h>
#include <stdio.h>

enum { PERF_TUNE_ALGORITHMS = 16, PERF_TUNE_SIZES = 64 };

/* The measurements of one operation: algorithms, or one algorithm with several slot sizes. */
struct perf_tune_operation {
    const char *name; /* "allgather" */
    int algorithm_count, size_count;
    const char *algorithms[PERF_TUNE_ALGORITHMS]; /* names, static storage; of slots: their size, "64K" */
    int is_tree[PERF_TUNE_ALGORITHMS];            /* may be used under HALAY_DETERMINISTIC=ranks */
    size_t bytes[PERF_TUNE_SIZES];                /* rising */
    double seconds[PERF_TUNE_ALGORITHMS][PERF_TUNE_SIZES];
};

/* Where: the words that rows begin with. */
struct perf_tune_scope {
    const char *transport, *place;
    int ranks;
};

/* The measured costs; negative: not known. Seconds: see docs/reference/tuning.md. */
struct perf_tune_costs {
    double latency, message, byte, add, exchange, memory;
};

/* The place of the algorithm to take for size number i, of all or of tree ones only; -1: none. A faster one than the
 * previous size's takes over only if it is faster by more than noise. */
void perf_tune_choose(const struct perf_tune_operation *o, int tree_only, int choice[PERF_TUNE_SIZES]);

/* The costs that the formulas of docs/reference/algorithms.md give these times with. segment: bytes. */
struct perf_tune_costs perf_tune_fit(const struct perf_tune_operation *operations, int count, int ranks,
                                     size_t segment);

/* Rows for this operation: what to take up to which size; then, where that is not always one of the tree, what to take
 * of those. */
void perf_tune_write_rules(const struct perf_tune_scope *scope, const struct perf_tune_operation *o, FILE *out);
/* Rows for slots: how large up to which size of the data. */
void perf_tune_write_slots(const struct perf_tune_scope *scope, const struct perf_tune_operation *o, FILE *out);
/* Enough of them for a row? */
int perf_tune_has_costs(const struct perf_tune_costs *costs);
void perf_tune_write_costs(const struct perf_tune_scope *scope, const struct perf_tune_costs *costs, FILE *out);

/* What a run has measured. */
struct perf_tune_news {
    const struct perf_tune_operation *operations, *slots; /* borrowed; slots: of those that have some, else zeros */
    int count;                                            /* of both */
    int has_costs, has_segment;
};

/* Copy a table's text without the rows that new ones replace: rules and slots for exactly these ranks and the
 * operations that were measured, tune's own comments on them, and costs and segments of this transport and place if
 * there are new ones. */
void perf_tune_copy_others(const struct perf_tune_scope *scope, const struct perf_tune_news *news, FILE *in, FILE *out);

#endif
