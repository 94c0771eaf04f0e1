/* SPDX-License-Identifier: Apache-2.0
 *
 * The future: the files become a separate table, by the same rules (resampling, duplicates, fills), and its known
 * columns are copied to the rows of the same moments. Gaps are filled once the rows before and after the end are one
 * series, as if the file had continued. Rows before the end are ignored. Without times, the first row is the first one
 * after the end.
 */
#include "base/memory.h"
#include "tft/core/data/table.h"
#include "tft/core/data/table_impl.h"
#include <stdlib.h>
#include <string.h>

struct future {
    struct halay_log *log;
    const struct tft_schema *schema;
    const char *name;       /* of the first file, or of the frame */
    struct tft_table table; /* owned */
    size_t rows;
};

static int compare_id(const void *id, const void *series)
{
    return strcmp(id, ((const struct tft_series *)series)->id);
}

/* Returns the series with a name, or NULL. */
static const struct tft_series *find_series(const struct future *f, const char *id)
{
    const struct tft_series *series = f->table.series;

    return f->schema->id_kind == TFT_ID_HEADER
               ? series
               : bsearch(id, series, f->table.series_count, sizeof *series, compare_id); /* they are in order */
}

/* Returns the number of the row of a moment, which is `step` steps after the end, or -1. */
static int64_t row_of_moment(const struct future *f, const struct tft_series *from, int64_t moment, size_t step)
{
    const struct tft_period *every = &f->schema->every;

    if (f->schema->time_kind == TFT_TIME_NONE)
        return step < from->rows ? (int64_t)step : -1;
    int64_t row = tft_period_between(every, from->start, moment);
    return row >= 0 && (size_t)row < from->rows && tft_period_add(every, from->start, row) == moment ? row : -1;
}

/* Converts a value of column k; of a category, to its number in the other table's dictionary. */
static enum halay_status translate_value(const struct future *f, struct tft_table *to, size_t k, double *value)
{
    size_t number;

    if (!f->schema->inputs[to->columns[k]].is_category || *value != *value)
        return HALAY_OK;
    if (tft_dictionary_add(&to->dictionaries[k], f->table.dictionaries[k].texts[(size_t)*value], &number))
        return halay_no_memory(f->log, "for the rows of the future");
    *value = (double)number;
    return HALAY_OK;
}

static enum halay_status mark_dropped(const struct future *f, struct tft_series *s, size_t row)
{
    if (!s->dropped)
        s->dropped = calloc(s->rows, 1);
    if (!s->dropped)
        return halay_no_memory(f->log, "for the rows of the future");
    s->dropped[row] = 1;
    return HALAY_OK;
}

static enum halay_status copy_known(const struct future *f, struct tft_table *to, const struct tft_series *from,
                                    size_t from_row, struct tft_series *s, size_t row)
{
    size_t columns = to->column_count;
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < columns && !status; k++) {
        if (!tft_roles[f->schema->inputs[to->columns[k]].role].is_known_ahead)
            continue;
        double value = from->values[from_row * columns + k];
        status = translate_value(f, to, k, &value);
        s->values[row * columns + k] = value;
        s->measured[row * columns + k] = from->measured[from_row * columns + k];
    }
    if (!status && from->dropped && from->dropped[from_row])
        status = mark_dropped(f, s, row);
    return status;
}

/* Fills the gaps of the future from the values before and after, including gaps that begin before the end. */
static enum halay_status fill_gaps(const struct future *f, const struct tft_table *t, struct tft_series *s)
{
    for (size_t k = 0; k < t->column_count; k++) {
        const struct tft_input *input = &f->schema->inputs[t->columns[k]];
        if (!tft_roles[input->role].is_known_ahead ||
            (input->fill != TFT_FILL_FORWARD && input->fill != TFT_FILL_INTERPOLATE))
            continue;
        if (tft_fill_again(input->fill, t->column_count, k, s->rows - f->rows, s))
            return halay_no_memory(f->log, "for the rows of the future");
    }
    return HALAY_OK;
}

static enum halay_status take_series(const struct future *f, struct tft_table *to, const struct tft_series *from,
                                     struct tft_series *s)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < f->rows && !status; i++) {
        size_t row = s->rows - f->rows + i;
        int64_t moment = tft_period_add(&f->schema->every, s->start, (int64_t)row);
        int64_t from_row = row_of_moment(f, from, moment, i);
        char text[40];
        if (from_row >= 0) {
            status = copy_known(f, to, from, (size_t)from_row, s, row);
            continue;
        }
        tft_schema_print_time(f->schema, moment, text, sizeof text);
        halay_error(f->log, "'%s' has no row of '%s' for %s; %zu steps after its last row are needed", f->name, s->id,
                    text, f->rows);
        status = HALAY_ERR_FORMAT;
    }
    return status ? status : fill_gaps(f, to, s);
}

/* Sets the moments from the first row of the future to the last, of all series. */
static void set_ahead(const struct tft_table *table, size_t rows, struct tft_schema *schema)
{
    schema->has_ahead = schema->time_kind != TFT_TIME_NONE && table->series_count;
    schema->ahead[0] = INT64_MAX;
    schema->ahead[1] = INT64_MIN;
    for (size_t e = 0; e < table->series_count; e++) {
        const struct tft_series *s = &table->series[e];
        int64_t first = tft_period_add(&schema->every, s->start, (int64_t)(s->rows - rows));
        int64_t last = tft_period_add(&schema->every, s->start, (int64_t)s->rows - 1);
        schema->ahead[0] = first < schema->ahead[0] ? first : schema->ahead[0];
        schema->ahead[1] = last > schema->ahead[1] ? last : schema->ahead[1];
    }
}

enum halay_status tft_future_take(struct halay_log *log, const struct tft_schema *schema,
                                  const struct tft_table_source *source, size_t rows, struct tft_table *table)
{
    struct tft_schema open = *schema;            /* borrows the members of the caller's */
    struct tft_table_source of_future = *source; /* and this */
    struct future f = { .log = log, .schema = &open, .name = tft_table_source_name(source), .rows = rows };
    size_t kept = 0;

    open.trim = TFT_TRIM_NONE;
    open.has_span = 0;
    of_future.is_future = 1;
    set_ahead(table, rows, &open);
    enum halay_status status = tft_table_read_from(log, &open, &of_future, NULL, &f.table);
    if (status)
        return status;
    for (size_t e = 0; e < table->series_count; e++) {
        struct tft_series *s = &table->series[e];
        const struct tft_series *from = find_series(&f, s->id);
        if (!from && !status) {
            halay_warning(log, "'%s' is not forecast: '%s' has no row of it", s->id, f.name);
            tft_series_fini(s);
            continue;
        }
        if (!status)
            status = take_series(&f, table, from, s);
        if (kept != e) { /* each series has one owner */
            table->series[kept] = *s;
            *s = (struct tft_series){ 0 };
        }
        kept++;
    }
    table->series_count = kept;
    if (!status && !kept) {
        halay_error(log, "'%s' has no row of any entity", f.name);
        status = HALAY_ERR_FORMAT;
    }
    tft_table_fini(&f.table);
    return status;
}
