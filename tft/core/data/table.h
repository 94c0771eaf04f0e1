/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: what the files hold, as one regular series for each entity, in the files' units.
 *
 * Rows may come in any order, from any number of files. They are collected by entity and sorted by time; duplicate
 * moments are merged and periods combined as the schema says; the rest is laid on a grid from the entity's first moment
 * to its last: a moment without a row is a row of missing values. Then every input is filled as the schema says
 * (tft/core/data/fill.h). What was measured and what was filled stays known, because a filled target is never scored.
 */
#ifndef HALAY_TFT_TABLE_H
#define HALAY_TFT_TABLE_H

#include "tft/core/data/dictionary.h"
#include "tft/core/data/frame.h"
#include "tft/core/data/schema.h"
#include "tft/core/data/spill.h"
#include <stdint.h>

struct tft_encoding;

/* What happened on the way. */
struct tft_table_summary {
    size_t files, rows_read, rows_outside_span, rows_duplicated;
    size_t rows_repeated;  /* of a time that the clock passes twice */
    size_t rows_skipped;   /* of one that it skips; left out */
    size_t rows_resampled; /* merged into others: n - 1 of the n rows of a period */
    /* Before the first or after the last measured target, or in a partial first or last period of a sum. */
    size_t rows_trimmed;
    size_t rows_missing;       /* added to complete the grid */
    size_t rows_dropped;       /* left out of all windows, because a value with 'fill: drop' is missing */
    size_t filled;             /* values of any input that were filled */
    size_t entities_empty;     /* without a measured target, left out */
    size_t entities_untrained; /* without one in the training span, left out (tft/core/data/encoding.h) */
    size_t entities_short;     /* with no row that has a value of every input, left out (tft/core/data/data.h) */
    size_t columns_ignored;    /* of the first file: no input comes from them */
};

/* Rows of a column on a line between two measured values; a window that ends on it does not know the second value. */
struct tft_bridge {
    uint32_t column; /* of the table; in data (tft/core/data/data.h) the number of the schema's plain input */
    uint32_t entity; /* in data */
    int64_t first;   /* row of the series; in data of the entity, below 0 before its first one */
    uint64_t rows;
    double before; /* the value before them */
};

struct tft_series {
    char *id;      /* owned */
    int64_t start; /* moment of the first row */
    size_t rows;
    size_t lead;       /* rows before the first one that has a value of every input, also of lags */
    double *values;    /* owned: (rows, columns), filled, NAN where a row is dropped; of a category its number in the
                           column's dictionary */
    uint8_t *measured; /* owned: (rows, columns), 1 where the files had a value */
    uint8_t *dropped;  /* owned: (rows), 1 where a value with 'fill: drop' is missing; NULL: nowhere */
    size_t bridge_count;
    struct tft_bridge *bridges; /* owned: in order of column and row */
    int is_spilled;             /* all of these but the id lie in the table's spill, which owns them */
};

/* Rows that no file has, between two of a series. */
struct tft_row_gap {
    const struct tft_series *series; /* borrowed from the table */
    size_t row, missing;             /* the last row before it, and how many are missing */
};

/* What tft/core/data/row_gaps.h judges. */
struct tft_row_gaps {
    size_t own, odd; /* rows that come from files; series with an odd gap */
    struct tft_row_gap widest, oddest;
};

struct tft_table {
    size_t column_count;
    size_t columns[TFT_INPUTS_MAX]; /* the schema's plain inputs that come from a column, by number; values are in this
                                         order */
    size_t column_of[TFT_INPUTS_MAX];    /* the number of an input's base among them */
    struct tft_dictionary *dictionaries; /* owned: (columns), filled for categories */
    size_t filled[TFT_INPUTS_MAX];       /* values of each column that were filled */
    char ignored[512];                   /* names of the ignored columns, as far as there is room */
    struct tft_spill *spill;             /* borrowed: where series lie; NULL: in memory */
    size_t threads;                      /* how many may work on it; 0: one. Set by who reads it */
    size_t series_count;
    struct tft_series *series; /* owned, in order of id (by bytes) */
    struct tft_table_summary summary;
    struct tft_row_gaps gaps;
    size_t rows_differing;     /* doubled ones that were merged and are not equal */
    char first_differing[128]; /* "'a' has a second row for 2020-04-10 00:00:00" */
    int clocks;                /* of its rows: 1: times without an offset from UTC, 2: with one, 3: both */
    int ends_in_future;        /* tft_table_extend was called */
};

/* CSV in memory. Borrowed while it is read. */
struct tft_text {
    const char *name;  /* as of a file: for messages, and for ids that are files' names */
    const char *bytes; /* NULL: there is none */
    size_t count;
};

/* Where rows come from: files, a text, or a frame. */
struct tft_table_source {
    const char *const *paths; /* or folders: the files in them that match the schema's `files` */
    size_t path_count;
    const struct tft_frame *frame; /* NULL: the files */
    struct tft_text text;
    const struct tft_encoding *encoding; /* refuse a row whose entity it must know and does not; NULL: take all */
    void (*between)(void *arg);          /* called after each part of the rows, if there are many; NULL: none */
    void *between_arg;
};

/* What messages call it: the frame's name, or the first file's. */
const char *tft_table_source_name(const struct tft_table_source *source);

/*
 * Read rows by a schema, errors name file, row and column; on error nothing is held. spill (may be NULL): for a table
 * that may be larger than memory; borrowed until the table, and data made from it, end.
 */
enum halay_status tft_table_read_from(struct halay_log *log, const struct tft_schema *schema,
                                      const struct tft_table_source *source, struct tft_spill *spill,
                                      struct tft_table *table);
/* The same of files. */
enum halay_status tft_table_read(struct halay_log *log, const struct tft_schema *schema, const char *const *paths,
                                 size_t path_count, struct tft_table *table);
/* The same for the future: id, time and known inputs. Other columns may be absent, and are neither read nor
 * filled. A wide table's future is that of all entities, a series without a name. */
enum halay_status tft_table_read_future(struct halay_log *log, const struct tft_schema *schema,
                                        const struct tft_table_source *source, struct tft_table *table);
/* Add rows of the future to each series: columns have their last value, nothing counts as measured. */
enum halay_status tft_table_extend(struct halay_log *log, size_t rows, struct tft_table *table);
void tft_table_fini(struct tft_table *table);
/* In how many slices (tft/core/data/slices.h) its series are best worked on. */
size_t tft_table_slices(const struct tft_table *table);
/* A series has been read, or written: its pages may go. */
void tft_series_touched(const struct tft_table *table, const struct tft_series *series);
void tft_series_fini(struct tft_series *series);

#endif
