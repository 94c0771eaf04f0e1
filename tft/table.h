/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: what the files hold, as one regular series an entity, in the units of the files.
 *
 * Rows may come in any order, from any number of files. They are collected by entity, sorted by time, doubled moments
 * are merged as the schema says, and the rest is laid on a grid from the entity's first moment to its last: a moment
 * without a row is a row of missing values. Then every input is filled as the schema says. What was measured and what
 * was filled stays known for the target, because a filled target is never scored.
 */
#ifndef HALAY_TFT_TABLE_H
#define HALAY_TFT_TABLE_H

#include "tft/schema.h"
#include <stdint.h>

/* What happened to the rows on the way. */
struct tft_table_summary {
    size_t files, rows_read, rows_outside_span, rows_duplicated, rows_missing; /* missing: added to complete the grid */
    size_t filled; /* values of any input that were filled */
};

struct tft_series {
    char *id;      /* owned */
    int64_t start; /* moment of the first row */
    size_t rows;
    double *values;   /* owned: (rows, columns), filled */
    uint8_t *present; /* owned: (rows), 1 where the target was measured */
};

struct tft_table {
    size_t column_count;
    size_t
        columns[TFT_INPUTS_MAX]; /* the schema's inputs that come from a column, by number; values are in this order */
    size_t series_count;
    struct tft_series *series; /* owned, in order of id (by bytes) */
    struct tft_table_summary summary;
};

/*
 * Read files by a schema. paths may name folders: the files in them that match the schema's `files`. Errors name file,
 * row and column; on error nothing is held.
 */
enum halay_status tft_table_read(struct halay_log *log, const struct tft_schema *schema, const char *const *paths,
                                 size_t path_count, struct tft_table *table);
/* Add rows of the future to each series: columns have their last value, the target counts as not measured. */
enum halay_status tft_table_extend(struct halay_log *log, size_t rows, struct tft_table *table);
void tft_table_fini(struct tft_table *table);

#endif
