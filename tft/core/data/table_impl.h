/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions shared by the files that make a table.
 */
#ifndef HALAY_TFT_TABLE_IMPL_H
#define HALAY_TFT_TABLE_IMPL_H

#include "tft/core/data/paths.h"
#include "tft/core/data/table.h"

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
    const struct tft_paths *paths; /* of a frame or a text its name alone */
    const struct tft_frame *frame; /* NULL: files */
    struct tft_text text;
    const struct tft_encoding *encoding; /* as in tft_table_source, and the next two */
    void (*between)(void *arg);
    void *between_arg;
    size_t part; /* rows since it was called, read or completed */
    struct tft_table *table;
    struct tft_dictionary ids;
    struct tft_rows *entities; /* owned: (size), by number of the id */
    size_t size;
    size_t held;             /* bytes of rows in memory */
    size_t cells, own_cells; /* of series that are complete; of their rows */
    int clocks;              /* 1: times without an offset from UTC were read, 2: with one, 3: both */
    int has_moved;           /* an offset was not 0 */
    int future;              /* only known inputs are read; other columns may be absent */
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
    return !c->future || tft_roles[c->schema->inputs[c->table->columns[k]].role].is_known_ahead;
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
