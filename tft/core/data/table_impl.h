/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions shared by the files that make a table.
 */
#ifndef HALAY_TFT_TABLE_IMPL_H
#define HALAY_TFT_TABLE_IMPL_H

#include "tft/core/data/csv.h"
#include "tft/core/data/paths.h"
#include "tft/core/data/table.h"

/* Reader: the rows of a file, of CSV in memory or of a frame, one after the other. */

enum { TFT_READER_TEXT = 32 };

struct tft_reader {
    struct halay_log *log;         /* borrowed, like the next two */
    const char *name;              /* of the file or the frame, for messages */
    const struct tft_frame *frame; /* NULL: CSV */
    struct tft_csv *csv;           /* owned; NULL: a frame */
    size_t column_count;
    size_t row;                     /* the one read last, as messages count: a file's header is row 1 */
    char **fields;                  /* its cells in CSV, borrowed from that */
    char (*rooms)[TFT_READER_TEXT]; /* owned: (columns) of a frame, whose numbers become texts */
};

/* Opens the source's frame or text or, without them, the file of that name, which is borrowed until close. A frame's
 * names, kinds and codes are checked here. HALAY_ERR_ARGUMENT for these, and as tft_csv_open. */
enum halay_status tft_reader_open(struct halay_log *log, const struct tft_table_source *source, const char *name,
                                  char separator, struct tft_reader *reader);
/* Accepts one that is partly open. */
void tft_reader_close(struct tft_reader *reader);

/* Returns a column's name, borrowed until close. */
const char *tft_reader_column(const struct tft_reader *reader, size_t column);
/* Returns the column of exactly that name (NULL: none), or column_count. */
size_t tft_reader_column_named(const struct tft_reader *reader, const char *name);
/* Finds the column whose name is the pattern or, if none is, matches it as in a shell (*, ?, [a-z]); exactly one must,
 * otherwise the error lists the columns. */
enum halay_status tft_reader_find_column(const struct tft_reader *reader, const char *pattern, size_t *column);
/* Returns the place of the row that was read last, for errors. column: its name, or NULL. */
struct halay_error_place tft_reader_place(const struct tft_reader *reader, const char *column);

/* Reads the next row. *end is set to 1 after the last one. */
enum halay_status tft_reader_next(struct tft_reader *reader, int *end);

/* Returns nonzero if a column has numbers, which need no parsing; or times. */
int tft_reader_is_number(const struct tft_reader *reader, size_t column);
int tft_reader_is_time(const struct tft_reader *reader, size_t column);
/* Returns a cell of a column of numbers; NAN: no value. */
double tft_reader_number(const struct tft_reader *reader, size_t column);
/* Returns a cell of a column of times; INT64_MIN: no value. */
int64_t tft_reader_time(const struct tft_reader *reader, size_t column);
/* Returns a frame's cell as a file would have it: a number in the shortest form that is this number, "" for no value.
 * Borrowed from the frame, or in the column's room. */
const char *tft_reader_frame_text(const struct tft_reader *reader, size_t column);
/* Returns a cell's text, borrowed until the next row. */
static inline const char *tft_reader_text(const struct tft_reader *reader, size_t column)
{
    return reader->csv ? reader->fields[column] : tft_reader_frame_text(reader, column);
}

/* Rows: what is collected from files, entity by entity, before it is a table, in two steps, each in a file of its own:
 * collect (rows.c) and complete (series_grid.c). For table.c only. */

/* The origin of a row, kept because errors name it. */
struct tft_row {
    int64_t time;
    uint32_t file : 31, is_repeated : 1; /* its time is one of two moments, and it is unknown which */
    uint32_t line;
};

/* Rows of one entity that were put aside: `rows` and, after them, `values` as below. */
struct tft_rows_part {
    size_t count;
    const void *memory; /* in the table's spill */
};

/* The rows of one entity, in the order in which they were read: the parts', then those in memory. */
struct tft_rows {
    size_t part_count, part_size, rows_in_parts;
    struct tft_rows_part *parts; /* owned */
    size_t count, size;
    struct tft_row *rows; /* owned: (size) */
    double *values;       /* owned: (size, columns) */
    int64_t first, last;  /* moments of the first and last measured target, also outside the span; first > last: none */
    int64_t number;       /* rows seen */
};

struct tft_collector {
    struct halay_log *log;
    const struct tft_schema *schema;
    const struct tft_table_source *source;
    const struct tft_paths *paths; /* of a frame or a text its name alone */
    size_t part;                   /* rows since `between` was called, read or completed */
    struct tft_table *table;
    struct tft_dictionary ids;
    struct tft_rows *entities; /* owned: (size), by number of the id */
    size_t size;
    size_t held;             /* bytes of rows in memory */
    size_t cells, own_cells; /* of series that are complete; of their rows */
    int clocks;              /* 1: times without an offset from UTC were read, 2: with one, 3: both */
    int has_moved;           /* an offset was not 0 */
};

/* Returns the place of a row, for errors; borrowed from the collector. */
struct halay_error_place tft_rows_place(const struct tft_collector *c, size_t file, size_t line);

/* Counts rows that have been worked on. */
void tft_rows_worked(struct tft_collector *c, size_t rows);

/* Reads one file of the list, or the frame, into the collector. */
enum halay_status tft_rows_collect(struct tft_collector *c, size_t file);

/* Collects all rows of an entity in memory. */
enum halay_status tft_rows_gather(struct tft_collector *c, struct tft_rows *e);

/* Makes a series of an entity's rows, and frees them. A series without rows is left out by the caller. */
enum halay_status tft_rows_complete(struct tft_collector *c, size_t entity, struct tft_series *series);

/* Adds the gaps of a series, whose rows are from `line` (NULL: added), to the table's. */
void tft_row_gaps_add(const struct tft_series *series, const struct tft_row *const *line, struct tft_row_gaps *gaps);

/* Returns nonzero if column k of the collector's table is read. */
static inline int tft_rows_has_column(const struct tft_collector *c, size_t k)
{
    return !c->source->is_future || tft_roles[c->schema->inputs[c->table->columns[k]].role].is_known_ahead;
}

/* Fill: replacement of missing values by `fill: forward` and `fill: interpolate`.
 *
 * A forecast must not see anything after its origin, in any form. So a value is only carried forward, never back: rows
 * before a column's first value stay empty, and no window holds them. A line drawn between two values is recorded as a
 * bridge: a window whose known rows end on it cannot know where it leads, and gets the value before it instead.
 *
 *     row           0  1  2  3  4  5  6  7
 *     measured      -  -  3  -  -  -  -  8
 *     interpolate   -  -  3  4  5  6  7  8     3 in rows 3 to 6, if a window's last known row is one of them */

/* Fills rows [from, to) of the table's column k, which are missing while the row before them is not; without a row
 * before them they stay missing. A bridge is added to the series' list. HALAY_ERR_NO_MEMORY, not logged. */
enum halay_status tft_fill_gap(enum tft_filling fill, size_t columns, size_t k, size_t from, size_t to,
                               struct tft_series *series);

/* Fills the gaps of rows after `row`, whose values have changed, and the one that leads up to them, again. */
enum halay_status tft_fill_again(enum tft_filling fill, size_t columns, size_t k, size_t row,
                                 struct tft_series *series);

/* Returns the bridge of column k over a row, or NULL. */
const struct tft_bridge *tft_series_bridge(const struct tft_series *series, size_t k, size_t row);

#endif
