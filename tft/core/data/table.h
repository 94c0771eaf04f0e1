/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: the contents of the files, as one regular series for each entity, in the files' units.
 *
 * Rows may be in any order, in any number of files. They are collected by entity and sorted by time; duplicate moments
 * are merged and periods combined according to the schema; the rest is laid on a grid from the entity's first moment to
 * its last: a moment without a row is a row of missing values. Then every input is filled according to the schema
 * (tft/core/data/table_impl.h). The table records which values were measured, because a filled target is never scored.
 */
#ifndef HALAY_TFT_TABLE_H
#define HALAY_TFT_TABLE_H

#include "base/log.h"
#include "halay_tft.h"
#include "halay_types.h"
#include "tft/core/data/schema.h"
#include <stddef.h>
#include <stdint.h>

/* Dictionary: texts and their numbers, in the order in which they were first seen. */

/* Zero-initialise. */
struct tft_dictionary {
    size_t count, size;
    char **texts;     /* owned, with what they point to */
    uint64_t *hashes; /* owned */
    size_t *slots;    /* owned: numbers plus one by hash; a power of two of them, at most half full */
};

/* Finds the number of a text, which is added if it is new. HALAY_ERR_NO_MEMORY. Never logs. */
enum halay_status tft_dictionary_add(struct tft_dictionary *dictionary, const char *text, size_t *number);
void tft_dictionary_fini(struct tft_dictionary *dictionary);

/* Frame: a table's columns in memory, as a program has them, read in place of files. */

/* All borrowed while the frame is read. */
struct tft_frame {
    const char *name; /* for messages: "table" */
    const struct halay_tft_column *columns;
    size_t column_count, rows;
    int times_are_utc;
};

/* Spill: room for a table that may be larger than memory.
 *
 * A part of the limit is ordinary memory. The rest is in a file without a name, which disappears with the process; it
 * is mapped, and a caller that walks through it reports its progress, so that pages that were read or written are
 * returned to the system in time. Room on the disk is allocated before it is written to: a full disk is an error, not a
 * signal. One thread at a time. */

struct tft_spill;

/* A file would be made in the folder of `beside`, which is copied. limit: bytes, for all that users of the spill hold;
 * 0: half of what this host, or the process's group, has. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_spill_create(struct halay_log *log, const char *beside, size_t limit, struct tft_spill **spill);
/* Frees all memory of the spill. NULL is allowed. */
void tft_spill_destroy(struct tft_spill *spill);

/* Memory, aligned to 64 bytes, until the spill is destroyed. HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_spill_get(struct tft_spill *spill, size_t bytes, void **memory);
/* Reports that this number of bytes of such memory has been read or written. NULL is allowed. */
void tft_spill_touched(struct tft_spill *spill, size_t bytes);
/* Returns nonzero if part of it is in the file. Then one thread at a time may walk through it. NULL is allowed. */
int tft_spill_has_file(const struct tft_spill *spill);
/* Returns the bytes that one user may hold in memory of its own; SIZE_MAX for NULL. */
size_t tft_spill_share(const struct tft_spill *spill);

struct tft_encoding;

/* Counts of one reading. */
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
    size_t columns_ignored;    /* of the first file: not used by an input */
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

/* Gap statistics of a table (tft_row_gaps_check). */
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
    struct tft_spill *spill;             /* borrowed: the spill of its series; NULL: they are in memory */
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
    const char *bytes; /* NULL: not given */
    size_t count;
};

/* Source of rows: files, a text, or a frame. */
struct tft_table_source {
    const char *const *paths; /* or folders: the files in them that match the schema's `files` */
    size_t path_count;
    const struct tft_frame *frame; /* NULL: the files */
    struct tft_text text;
    /* Read id, time and known inputs only: other columns may be absent, and are neither read nor filled. A wide table's
     * future is that of all entities, a series without a name. */
    int is_future;
    const struct tft_encoding *encoding; /* refuse a row whose entity it must know and does not; NULL: take all */
    void (*between)(void *arg);          /* called after each part of the rows, if there are many; NULL: none */
    void *between_arg;
};

/* Returns its name for messages: the frame's, or the first file's. */
const char *tft_table_source_name(const struct tft_table_source *source);

/* Reads rows by a schema, errors name file, row and column; on error nothing is held. spill (may be NULL): for a table
 * that may be larger than memory; borrowed until the table, and data made from it, end. */
enum halay_status tft_table_read_from(struct halay_log *log, const struct tft_schema *schema,
                                      const struct tft_table_source *source, struct tft_spill *spill,
                                      struct tft_table *table);
/* Does the same for files. */
enum halay_status tft_table_read(struct halay_log *log, const struct tft_schema *schema, const char *const *paths,
                                 size_t path_count, struct tft_table *table);
/* Adds rows of the future to each series: columns have their last value, nothing counts as measured. */
enum halay_status tft_table_extend(struct halay_log *log, size_t rows, struct tft_table *table);
void tft_table_fini(struct tft_table *table);
/* Returns the best number of slices (tft_slices_run) for its series. */
size_t tft_table_slices(const struct tft_table *table);
/* Reports that a series has been read or written: its pages may be released. */
void tft_series_touched(const struct tft_table *table, const struct tft_series *series);
void tft_series_fini(struct tft_series *series);

/* Gaps between the rows of a series, which become rows that no file has. */

/* Returns nonzero if the gap is more likely a wrong time than a pause: it is longer than all of the series' rows, or it
 * cuts off its first or last few. missing: rows in the gap; before: rows of the series before it; rows: all of the
 * series' own. */
static inline int tft_gap_is_odd(size_t missing, size_t before, size_t rows)
{
    size_t side = before < rows - before ? before : rows - before;

    return missing > 10 && (missing > rows || (side <= 1 + rows / 1000 && missing > rows / 20));
}

/* Warns of odd gaps. refuse: also warns of a target most of whose values are filled, and fails if more rows were added
 * than the files have. Neither applies if the schema has `gaps: fill`, or defines the meaning of a missing row of a
 * target. Call it before series are moved. */
enum halay_status tft_row_gaps_check(struct halay_log *log, const struct tft_schema *schema,
                                     const struct tft_table *table, int refuse);

/* The future: known inputs after the end of a table, from files. */

/* Gives the last `rows` rows of each series, which tft_table_extend has added, the known inputs of files or a frame at
 * their moments. Series that these do not mention are removed from the table, with a warning. If they end too early,
 * the error names entity and moment; the table may then be half done. */
enum halay_status tft_future_take(struct halay_log *log, const struct tft_schema *schema,
                                  const struct tft_table_source *source, size_t rows, struct tft_table *table);

/* Preset: the schema of tables whose columns need no explanation, derived from the files.
 *
 * "long": columns unique_id, ds (a time as ISO 8601, or a whole number) and y, as other forecasting programs read them;
 * other columns are ignored. The step from row to row, and so which calendar inputs are useful, is found in the files;
 * the last tenth of the rows is for validation. A schema with the key `preset` overrides parts of it: names of columns,
 * more inputs, a window. */

/* Window of a preset, in steps; 0: chosen by the step (24 and 168 for hours). */
struct tft_preset {
    size_t encoder, horizon;
    const char *zone; /* of the clock by which times without an offset are written; NULL: not known */
    int has_test;     /* rows are held back for a test */
};

/* A schema: the file `path`, or `text`; or neither, which is the default preset. */
struct tft_schema_source {
    const char *path, *text;
};

/* Reads a schema, and completes it from the tables if it requests a preset. Nothing is held on error. found: nonzero if
 * a preset was used. */
enum halay_status tft_preset_read(struct halay_log *log, const struct tft_schema_source *given,
                                  const struct tft_table_source *tables, const struct tft_preset *preset,
                                  struct tft_schema *schema, int *found);

/* Slices: work on entities that do not depend on each other, by several threads. */

/* Sets slice `number` of `count` slices of some entities: [first, last). */
void tft_slice(size_t entities, size_t number, size_t count, size_t *first, size_t *last);

/* Runs f(arg, number) for each of `count` slices at the same time, and returns when all have returned, with the first
 * failed slice's status. A failing f must not log: the order of the messages would be random. */
enum halay_status tft_slices_run(size_t count, enum halay_status (*f)(void *arg, size_t number), void *arg);

#endif
