/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: files are collected (rows.c), each entity is completed (series_grid.c), in order of id. Cleanup: everything is
 * zeroed first, fini accepts it partly initialised.
 */
#include "tft/core/data/table.h"
#include "base/memory.h"
#include "tft/core/data/table_impl.h"
#include "tft/core/kernels/thread.h"
#include <stdlib.h>
#include <string.h>

/* Lists the schema's inputs that are read from columns, and the column of each input. */
static void choose_columns(const struct tft_schema *s, struct tft_table *t)
{
    for (size_t i = 0; i < s->input_count; i++) {
        const struct tft_input *input = &s->inputs[i];
        if (input->source == TFT_FROM_COLUMN && input->derivation == TFT_PLAIN) {
            t->column_of[i] = t->column_count;
            t->columns[t->column_count++] = i;
        } else if (input->source == TFT_FROM_COLUMN) {
            t->column_of[i] = t->column_of[input->base];
        }
    }
}

static int compare_ids(const void *a, const void *b, void *texts)
{
    char *const *t = texts;
    return strcmp(t[*(const size_t *)a], t[*(const size_t *)b]);
}

/* Completes an entity as the table's next series; one without a row is left out. */
static enum halay_status complete_entity(struct tft_collector *c, size_t entity)
{
    struct tft_table *t = c->table;
    struct tft_series *s = &t->series[t->series_count];

    if (!c->entities[entity].count && !c->entities[entity].part_count)
        return HALAY_OK; /* all of its rows are outside the span */
    s->id = strdup(c->ids.texts[entity]);
    t->series_count++; /* fini frees it */
    tft_rows_worked(c, c->entities[entity].count);
    enum halay_status status = s->id ? tft_rows_complete(c, entity, s) : HALAY_ERR_NO_MEMORY;
    if (status || s->rows)
        return status;
    tft_series_fini(s);
    t->series_count--;
    t->summary.entities_empty++;
    return HALAY_OK;
}

static enum halay_status complete_entities(struct tft_collector *c)
{
    struct tft_table *t = c->table;
    size_t count = c->ids.count, *order = calloc(count + 1, sizeof *order);
    enum halay_status status = HALAY_OK;

    t->series = calloc(count + 1, sizeof *t->series);
    if (!order || !t->series)
        status = HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; order && i < count; i++)
        order[i] = i;
    if (order)
        qsort_r(order, count, sizeof *order, compare_ids, c->ids.texts);
    for (size_t i = 0; i < count && !status; i++)
        status = complete_entity(c, order[i]);
    free(order);
    for (size_t k = 0; k < t->column_count; k++)
        t->summary.filled += t->filled[k];
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(c->log, "no memory for the table");
    if (status || t->series_count)
        return status;
    if (c->source->is_future && t->summary.entities_empty)
        return halay_fail(
            c->log, HALAY_ERR_FORMAT,
            "'%s' has no row of the future, after the last measured target, where known inputs need values",
            c->paths->list[0]);
    return halay_fail(c->log, HALAY_ERR_FORMAT, "the files hold no %s%s%s: '%s'%s",
                      t->summary.entities_empty ? "value of the target" : "row",
                      c->schema->resampling == TFT_RESAMPLE_SUM ? " of a whole period" : "",
                      c->schema->has_span ? " inside the schema's span" : "", c->paths->list[0],
                      c->paths->count > 1 ? " and the others" : "");
}

const char *tft_table_source_name(const struct tft_table_source *source)
{
    return source->frame ? source->frame->name : source->text.bytes ? source->text.name : source->paths[0];
}

enum halay_status tft_table_read_from(struct halay_log *log, const struct tft_schema *schema,
                                      const struct tft_table_source *source, struct tft_spill *spill,
                                      struct tft_table *table)
{
    const int is_one = source->frame || source->text.bytes;
    struct tft_paths expanded = { 0 };
    const struct tft_paths one = { &(char *){ (char *)(uintptr_t)tft_table_source_name(source) }, 1 };
    struct tft_table t = { .spill = spill };
    struct tft_collector c = { .log = log,
                               .schema = schema,
                               .paths = is_one ? &one : &expanded,
                               .source = source,
                               .table = &t,
                               .clocks = schema->clocks };
    enum halay_status status =
        is_one ? HALAY_OK : tft_paths_expand(log, source->paths, source->path_count, schema->files, &expanded);

    choose_columns(schema, &t);
    t.dictionaries = calloc(t.column_count, sizeof *t.dictionaries);
    if (!status && !t.dictionaries) {
        halay_error(log, "no memory for the table");
        status = HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < c.paths->count && !status; i++)
        status = tft_rows_collect(&c, i);
    t.clocks = c.clocks;
    if (!status)
        status = complete_entities(&c);
    for (size_t i = 0; i < c.size; i++) {
        free(c.entities[i].rows);
        free(c.entities[i].values);
        free(c.entities[i].parts);
    }
    free(c.entities);
    tft_dictionary_fini(&c.ids);
    tft_paths_fini(&expanded);
    if (status)
        tft_table_fini(&t);
    else
        *table = t;
    return status;
}

enum halay_status tft_table_read(struct halay_log *log, const struct tft_schema *schema, const char *const *paths,
                                 size_t path_count, struct tft_table *table)
{
    return tft_table_read_from(log, schema, &(struct tft_table_source){ .paths = paths, .path_count = path_count },
                               NULL, table);
}

static enum halay_status extend_series(struct tft_series *s, size_t more, size_t columns)
{
    size_t all, cells, bytes;

    if (halay_add_overflows(s->rows, more, &all) || halay_mul_overflows(all, columns, &cells) ||
        halay_mul_overflows(cells, sizeof(double), &bytes))
        return HALAY_ERR_NO_MEMORY;
    double *values = realloc(s->values, bytes);
    if (values)
        s->values = values;
    uint8_t *measured = values ? realloc(s->measured, cells) : NULL;
    if (measured)
        s->measured = measured;
    uint8_t *dropped = measured && s->dropped ? realloc(s->dropped, all) : NULL;
    if (!measured || (s->dropped && !dropped))
        return HALAY_ERR_NO_MEMORY;
    s->dropped = dropped;
    if (dropped)
        memset(dropped + s->rows, dropped[s->rows - 1], more);
    memset(measured + s->rows * columns, 0, more * columns);
    for (size_t i = s->rows; i < all; i++)
        memcpy(values + i * columns, values + (s->rows - 1) * columns, columns * sizeof *values);
    s->rows = all;
    return HALAY_OK;
}

enum halay_status tft_table_extend(struct halay_log *log, size_t rows, struct tft_table *t)
{
    enum halay_status status = HALAY_OK;

    t->ends_in_future = 1;
    for (size_t e = 0; e < t->series_count && !status; e++)
        status = extend_series(&t->series[e], rows, t->column_count);
    if (status)
        halay_error(log, "no memory for the rows of the future");
    return status;
}

void tft_series_fini(struct tft_series *series)
{
    free(series->id);
    if (!series->is_spilled) {
        free(series->values);
        free(series->measured);
        free(series->dropped);
        free(series->bridges);
    }
    *series = (struct tft_series){ 0 };
}

void tft_series_touched(const struct tft_table *table, const struct tft_series *series)
{
    if (series->is_spilled)
        tft_spill_touched(table->spill, series->rows * (table->column_count * (sizeof(double) + 1) + 1));
}

void tft_table_fini(struct tft_table *table)
{
    for (size_t i = 0; i < table->series_count; i++)
        tft_series_fini(&table->series[i]);
    for (size_t k = 0; table->dictionaries && k < table->column_count; k++)
        tft_dictionary_fini(&table->dictionaries[k]);
    free(table->series);
    free(table->dictionaries);
    *table = (struct tft_table){ 0 };
}

size_t tft_table_slices(const struct tft_table *table)
{
    enum { ROWS_LEAST = 20000, SLICES_MOST = 64 };
    size_t rows = 0, n = table->threads < SLICES_MOST ? table->threads : SLICES_MOST;

    for (size_t e = 0; e < table->series_count; e++)
        rows += table->series[e].rows;
    if (!n || rows < ROWS_LEAST || tft_spill_has_file(table->spill))
        return 1;
    return n < table->series_count ? n : table->series_count;
}

/* ---- slices ---- */

/* Slices: the caller runs slice 0, and those for which a thread could not be started. */

enum { COUNT_MOST = 64 };

struct slice {
    enum halay_status (*f)(void *arg, size_t number);
    void *arg;
    size_t number;
    enum halay_status status;
    struct tft_thread *thread;
};

void tft_slice(size_t entities, size_t number, size_t count, size_t *first, size_t *last)
{
    *first = entities / count * number + entities % count * number / count;
    *last = entities / count * (number + 1) + entities % count * (number + 1) / count;
}

static void run_slice(void *arg)
{
    struct slice *s = arg;

    s->status = s->f(s->arg, s->number);
}

enum halay_status tft_slices_run(size_t count, enum halay_status (*f)(void *arg, size_t number), void *arg)
{
    struct slice slices[COUNT_MOST];
    enum halay_status status = HALAY_OK;

    if (count > COUNT_MOST)
        return HALAY_ERR_ARGUMENT;
    for (size_t i = 0; i < count; i++) {
        slices[i] = (struct slice){ .f = f, .arg = arg, .number = i };
        if (i && tft_thread_start(NULL, run_slice, &slices[i], &slices[i].thread))
            slices[i].thread = NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (!slices[i].thread)
            run_slice(&slices[i]);
    for (size_t i = 0; i < count; i++) {
        tft_thread_join(slices[i].thread);
        status = status ? status : slices[i].status;
    }
    return status;
}
