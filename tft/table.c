/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: from rows in files to regular series.
 *
 * Phases: collect (stream each file, append each row to its entity), order (sort an entity's rows by time, merge
 * doubled moments), grid (lay them on regular moments), fill. An entity is found by a hash of its id. Each row keeps
 * the file and line that it came from until the end, because errors name them. Cleanup: everything is zeroed first,
 * fini accepts it half-built.
 */
#include "tft/table.h"
#include "base/memory.h"
#include "tft/csv.h"
#include "tft/paths.h"
#include <errno.h>
#include <float.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    int64_t time;
    uint32_t file, line;
};

struct collected {
    char *id;  /* owned, until it is given */
    int given; /* to the series */
    uint64_t hash;
    size_t count, size;
    struct row *rows; /* owned: (size) */
    double *values;   /* owned: (size, columns) */
};

struct collector {
    struct halay_log *log;
    const struct tft_schema *schema;
    const struct tft_paths *paths;
    struct tft_table *table;
    struct collected *entities; /* owned */
    size_t entity_count, entity_size;
    size_t *slots; /* owned: hash table of numbers of entities plus one; a power of two of them, at most half full */
    size_t slot_count;
};

static enum halay_status no_memory(struct collector *c)
{
    halay_error(c->log, "no memory for the table");
    return HALAY_ERR_NO_MEMORY;
}

/* ---- collect ---- */

static uint64_t hash_text(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static size_t find_slot(const struct collector *c, const char *id, uint64_t hash)
{
    size_t i = hash & (c->slot_count - 1);

    while (c->slots[i]) {
        const struct collected *e = &c->entities[c->slots[i] - 1];
        if (e->hash == hash && !strcmp(e->id, id))
            break;
        i = (i + 1) & (c->slot_count - 1);
    }
    return i;
}

static enum halay_status grow_entities(struct collector *c)
{
    size_t size = c->entity_size ? c->entity_size * 2 : 16;
    struct collected *entities = realloc(c->entities, size * sizeof *entities);
    if (!entities)
        return no_memory(c);
    c->entities = entities;
    c->entity_size = size;
    free(c->slots);
    c->slot_count = size * 2;
    c->slots = calloc(c->slot_count, sizeof *c->slots);
    if (!c->slots)
        return no_memory(c);
    for (size_t i = 0; i < c->entity_count; i++)
        c->slots[find_slot(c, entities[i].id, entities[i].hash)] = i + 1;
    return HALAY_OK;
}

static enum halay_status find_entity(struct collector *c, const char *id, struct collected **entity)
{
    uint64_t hash = hash_text(id);

    if (c->entity_count == c->entity_size) {
        enum halay_status status = grow_entities(c);
        if (status)
            return status;
    }
    size_t slot = find_slot(c, id, hash);
    if (!c->slots[slot]) {
        char *copy = strdup(id);
        if (!copy)
            return no_memory(c);
        c->entities[c->entity_count] = (struct collected){ .id = copy, .hash = hash };
        c->slots[slot] = ++c->entity_count;
    }
    *entity = &c->entities[c->slots[slot] - 1];
    return HALAY_OK;
}

static enum halay_status append_row(struct collector *c, struct collected *e, const struct row *row,
                                    const double *values)
{
    size_t columns = c->table->column_count;

    if (e->count == e->size) {
        size_t size = e->size ? e->size * 2 : 1024;
        struct row *rows = realloc(e->rows, size * sizeof *rows);
        if (!rows)
            return no_memory(c);
        e->rows = rows;
        double *more = realloc(e->values, size * columns * sizeof *more);
        if (!more)
            return no_memory(c);
        e->values = more;
        e->size = size;
    }
    e->rows[e->count] = *row;
    memcpy(e->values + e->count * columns, values, columns * sizeof *values);
    e->count++;
    return HALAY_OK;
}

static int is_missing(const struct tft_schema *s, const char *text)
{
    for (size_t i = 0; s->missing[i]; i++)
        if (!strcmp(text, s->missing[i]))
            return 1;
    return 0;
}

/* A decimal number and nothing else; infinite if it is too large. text is changed where the decimal sign is a comma. */
static int parse_number(char *text, char decimal, double *value)
{
    char *end, *comma;

    while (*text == ' ')
        text++;
    if (decimal == ',') {
        if (strchr(text, '.'))
            return 0;
        comma = strchr(text, ',');
        if (comma)
            *comma = '.';
    }
    size_t length = strspn(text, "+-.0123456789eE");
    if (!length || text[length + strspn(text + length, " ")])
        return 0;
    *value = strtod(text, &end);
    return end == text + length;
}

/* One file being read: where its columns are. */
struct source {
    struct tft_csv *csv;
    const char *path;
    uint32_t number;
    size_t time, id, columns[TFT_INPUTS_MAX];
    char file_id[256]; /* the entity, if it is the file's */
};

static enum halay_status id_from_name(struct collector *c, struct source *source)
{
    const char *slash = strrchr(source->path, '/'), *name = slash ? slash + 1 : source->path;
    regex_t regex;
    regmatch_t match[2];

    if (regcomp(&regex, c->schema->id_pattern, REG_EXTENDED))
        return HALAY_ERR_CONFIG; /* the schema has checked it */
    int found = !regexec(&regex, name, 2, match, 0) && match[1].rm_so >= 0;
    regfree(&regex);
    size_t length = found ? (size_t)(match[1].rm_eo - match[1].rm_so) : 0;
    if (!length || length >= sizeof source->file_id) {
        halay_error(c->log, "file '%s': its name does not match the id's pattern '%s'", source->path,
                    c->schema->id_pattern);
        return HALAY_ERR_FORMAT;
    }
    memcpy(source->file_id, name + match[1].rm_so, length);
    source->file_id[length] = 0;
    return HALAY_OK;
}

static enum halay_status find_columns(struct collector *c, struct source *source)
{
    const struct tft_table *t = c->table;
    enum halay_status status = c->schema->id_column
                                   ? tft_csv_find_column(source->csv, c->schema->id_column, &source->id)
                                   : id_from_name(c, source);

    if (!status)
        status = tft_csv_find_column(source->csv, c->schema->time_column, &source->time);
    for (size_t i = 0; i < t->column_count && !status; i++)
        status = tft_csv_find_column(source->csv, c->schema->inputs[t->columns[i]].column, &source->columns[i]);
    return status;
}

static enum halay_status bad_cell(struct collector *c, const struct source *source, size_t column, const char *text,
                                  const char *should)
{
    halay_error(c->log, "file '%s', row %zu, column '%s': '%.64s' is not %s", source->path, tft_csv_row(source->csv),
                tft_csv_column_name(source->csv, column), text, should);
    return HALAY_ERR_FORMAT;
}

static enum halay_status take_row(struct collector *c, const struct source *source, char **fields,
                                  struct collected **entity)
{
    const struct tft_schema *s = c->schema;
    struct row row = { .file = source->number, .line = (uint32_t)tft_csv_row(source->csv) };
    double values[TFT_INPUTS_MAX];
    enum halay_status status = HALAY_OK;

    if (tft_time_parse(fields[source->time], s->time_format, &row.time))
        return bad_cell(c, source, source->time, fields[source->time], "a time of the schema's format");
    c->table->summary.rows_read++;
    if (s->has_span && (row.time < s->span[0] || row.time > s->span[1])) {
        c->table->summary.rows_outside_span++;
        return HALAY_OK;
    }
    for (size_t i = 0; i < c->table->column_count; i++) {
        char *text = fields[source->columns[i]];
        values[i] = NAN;
        if (!is_missing(s, text) && !parse_number(text, s->decimal, &values[i]))
            return bad_cell(c, source, source->columns[i], text,
                            "a number (what means \"no value\" is listed in 'csv: missing')");
        if (!isnan(values[i]) && !(fabs(values[i]) <= FLT_MAX))
            return bad_cell(c, source, source->columns[i], text,
                            "within what a model can hold, at most 3.4e38 in magnitude");
    }
    if (s->id_column && !*fields[source->id])
        return bad_cell(c, source, source->id, "", "an id");
    if (s->id_column || !*entity)
        status = find_entity(c, s->id_column ? fields[source->id] : source->file_id, entity);
    return status ? status : append_row(c, *entity, &row, values);
}

static enum halay_status collect_file(struct collector *c, size_t number)
{
    struct source source = { .path = c->paths->list[number], .number = (uint32_t)number };
    struct collected *entity = NULL;
    char **fields;
    int end = 0;
    enum halay_status status = tft_csv_open(c->log, source.path, c->schema->separator, &source.csv);

    if (status)
        return status;
    status = find_columns(c, &source);
    while (!status && !end) {
        status = tft_csv_next(source.csv, &fields, &end);
        if (!status && !end)
            status = take_row(c, &source, fields, &entity);
    }
    tft_csv_close(source.csv);
    c->table->summary.files++;
    return status;
}

/* ---- order ---- */

/* Rows by time; those of one moment in the order in which they were read. */
static int compare_rows(const void *a, const void *b, void *rows)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    int64_t x = ((const struct row *)rows)[i].time, y = ((const struct row *)rows)[j].time;

    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

/* Merge the values of rows of one moment into out. */
static void merge(const struct tft_schema *s, const double *values, const size_t *order, size_t count, size_t columns,
                  double *out)
{
    for (size_t c = 0; c < columns; c++) {
        double sum = 0;
        size_t n = 0;
        if (s->duplicates != TFT_DUPLICATES_MEAN) {
            out[c] = values[order[s->duplicates == TFT_DUPLICATES_FIRST ? 0 : count - 1] * columns + c];
            continue;
        }
        for (size_t k = 0; k < count; k++) {
            double v = values[order[k] * columns + c];
            if (!isnan(v)) {
                sum += v;
                n++;
            }
        }
        out[c] = n ? sum / (double)n : NAN;
    }
}

static enum halay_status doubled(struct collector *c, const struct collected *e, size_t i, size_t j)
{
    char moment[32];

    tft_time_print(e->rows[i].time, moment, sizeof moment);
    halay_error(
        c->log,
        "file '%s', row %u: '%s' has a second row for %s (the first: file '%s', row %u); 'duplicates' says what to do",
        c->paths->list[e->rows[j].file], e->rows[j].line, e->id, moment, c->paths->list[e->rows[i].file],
        e->rows[i].line);
    return HALAY_ERR_FORMAT;
}

/* ---- grid ---- */

/* Rows that the grid from first to last moment has, checked against what was seen. */
static enum halay_status grid_size(struct collector *c, const struct collected *e, int64_t first, int64_t last,
                                   size_t *rows)
{
    uint64_t steps = ((uint64_t)last - (uint64_t)first) / (uint64_t)c->schema->every + 1;

    if (steps > 100000 + 100 * (uint64_t)e->count) {
        halay_error(c->log, "'%s' has %zu rows where its first and last moment leave room for %llu: is 'every' right?",
                    e->id, e->count, (unsigned long long)steps);
        return HALAY_ERR_FORMAT;
    }
    *rows = (size_t)steps;
    return HALAY_OK;
}

static enum halay_status off_grid(struct collector *c, const struct collected *e, const struct row *row, int64_t first)
{
    char moment[32], start[32];

    tft_time_print(row->time, moment, sizeof moment);
    tft_time_print(first, start, sizeof start);
    halay_error(c->log, "file '%s', row %u: %s is not a whole number of steps after the first moment of '%s', %s",
                c->paths->list[row->file], row->line, moment, e->id, start);
    return HALAY_ERR_FORMAT;
}

/* Lay an entity's rows on its grid; lines[i] is the row of the file that moment i came from (NULL: none). */
static enum halay_status lay_out(struct collector *c, const struct collected *e, const size_t *order,
                                 struct tft_series *series, const struct row **lines)
{
    size_t columns = c->table->column_count;
    int64_t first = e->rows[order[0]].time;

    for (size_t i = 0; i < series->rows * columns; i++)
        series->values[i] = NAN;
    for (size_t i = 0, n; i < e->count; i += n) {
        const struct row *row = &e->rows[order[i]];
        for (n = 1; i + n < e->count && e->rows[order[i + n]].time == row->time; n++)
            if (c->schema->duplicates == TFT_DUPLICATES_ERROR)
                return doubled(c, e, order[i], order[i + n]);
        if ((row->time - first) % c->schema->every)
            return off_grid(c, e, row, first);
        size_t at = (size_t)((row->time - first) / c->schema->every);
        merge(c->schema, e->values, order + i, n, columns, series->values + at * columns);
        lines[at] = row;
        c->table->summary.rows_duplicated += n - 1;
    }
    for (size_t i = 0; i < series->rows; i++)
        c->table->summary.rows_missing += !lines[i];
    return HALAY_OK;
}

/* ---- fill ---- */

static enum halay_status cannot_fill(struct collector *c, const struct tft_series *series,
                                     const struct tft_input *input, size_t row, const struct row *line, const char *why)
{
    char moment[32], where[600] = "no row of any file";

    tft_time_print(series->start + (int64_t)row * c->schema->every, moment, sizeof moment);
    if (line)
        snprintf(where, sizeof where, "file '%.500s', row %u", c->paths->list[line->file], line->line);
    halay_error(c->log, "%s: '%s' has no value for input '%s' (column '%s') at %s; %s", where, series->id, input->name,
                input->column, moment, why);
    return HALAY_ERR_FORMAT;
}

static void interpolate(double *v, size_t stride, size_t before, size_t after, size_t rows)
{
    for (size_t i = before + 1; i < after; i++) /* before is SIZE_MAX where there is none: begins at 0 */
        if (before == SIZE_MAX)
            v[i * stride] = v[after * stride];
        else if (after == rows)
            v[i * stride] = v[before * stride];
        else
            v[i * stride] = v[before * stride] +
                            (v[after * stride] - v[before * stride]) * (double)(i - before) / (double)(after - before);
}

/* Fill one input of one entity. */
static enum halay_status fill_column(struct collector *c, struct tft_series *series, size_t column,
                                     const struct row *const *lines)
{
    const struct tft_input *input = &c->schema->inputs[c->table->columns[column]];
    size_t stride = c->table->column_count, rows = series->rows;
    double *v = series->values + column;
    size_t before = SIZE_MAX; /* the last row with a value */

    for (size_t i = 0; i < rows; i++) {
        if (!isnan(v[i * stride])) {
            before = i;
            continue;
        }
        c->table->summary.filled++;
        switch (input->fill) {
        case TFT_FILL_CONSTANT:
            v[i * stride] = input->constant;
            break;
        case TFT_FILL_FORWARD:
            if (before == SIZE_MAX)
                return cannot_fill(c, series, input, i, lines[i], "'fill: forward' finds none before it");
            v[i * stride] = v[before * stride];
            break;
        case TFT_FILL_INTERPOLATE: {
            size_t after = i;
            while (after < rows && isnan(v[after * stride]))
                after++;
            if (before == SIZE_MAX && after == rows)
                return cannot_fill(c, series, input, i, lines[i], "'fill: interpolate' finds none at all");
            interpolate(v, stride, before, after, rows);
            c->table->summary.filled += after - i - 1;
            i = after - 1;
            break;
        }
        default:
            return cannot_fill(c, series, input, i, lines[i], "'fill' is none");
        }
    }
    return HALAY_OK;
}

/* A static input has one value: what is given must agree, where nothing is given the value holds. */
static enum halay_status settle_static(struct collector *c, struct tft_series *series, size_t column)
{
    const struct tft_input *input = &c->schema->inputs[c->table->columns[column]];
    size_t stride = c->table->column_count;
    double *v = series->values + column, value = NAN;

    for (size_t i = 0; i < series->rows; i++) {
        if (!isnan(value) && !isnan(v[i * stride]) && v[i * stride] != value) {
            halay_error(c->log, "'%s': static input '%s' (column '%s') changes from %g to %g", series->id, input->name,
                        input->column, value, v[i * stride]);
            return HALAY_ERR_FORMAT;
        }
        if (isnan(value))
            value = v[i * stride];
    }
    for (size_t i = 0; !isnan(value) && i < series->rows; i++)
        v[i * stride] = value;
    return HALAY_OK;
}

static enum halay_status fill_series(struct collector *c, struct tft_series *series, const struct row *const *lines)
{
    const struct tft_table *t = c->table;
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < t->column_count && !status; k++) {
        const struct tft_input *input = &c->schema->inputs[t->columns[k]];
        if (input->role == TFT_INPUT_TARGET)
            for (size_t i = 0; i < series->rows; i++)
                series->present[i] = !isnan(series->values[i * t->column_count + k]);
        if (input->role == TFT_INPUT_STATIC)
            status = settle_static(c, series, k);
        if (!status)
            status = fill_column(c, series, k, lines);
    }
    return status;
}

static enum halay_status finish_entity(struct collector *c, struct collected *e, struct tft_series *series)
{
    enum halay_status status;
    size_t bytes;
    const struct row **lines = NULL;
    size_t *order = malloc(e->count * sizeof *order);

    series->id = e->id;
    e->given = 1;
    if (!order)
        return no_memory(c);
    for (size_t i = 0; i < e->count; i++)
        order[i] = i;
    qsort_r(order, e->count, sizeof *order, compare_rows, e->rows);
    series->start = e->rows[order[0]].time;
    status = grid_size(c, e, series->start, e->rows[order[e->count - 1]].time, &series->rows);
    if (status)
        goto err_free;
    status = HALAY_ERR_NO_MEMORY;
    if (!halay_mul_overflows(series->rows, c->table->column_count * sizeof(double), &bytes)) {
        series->values = malloc(bytes);
        series->present = calloc(series->rows, 1);
        lines = calloc(series->rows, sizeof *lines);
    }
    if (!series->values || !series->present || !lines) {
        no_memory(c);
        goto err_free;
    }
    status = lay_out(c, e, order, series, lines);
    if (!status)
        status = fill_series(c, series, lines);
err_free:
    free(lines);
    free(order);
    free(e->rows);
    free(e->values);
    e->rows = NULL;
    e->values = NULL;
    return status;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct collected *)a)->id, ((const struct collected *)b)->id);
}

static enum halay_status finish_entities(struct collector *c)
{
    struct tft_table *t = c->table;
    enum halay_status status = HALAY_OK;

    if (!c->entity_count) {
        halay_error(c->log, "the files hold no row%s", c->schema->has_span ? " inside the schema's span" : "");
        return HALAY_ERR_FORMAT;
    }
    qsort(c->entities, c->entity_count, sizeof *c->entities, compare_ids);
    t->series = calloc(c->entity_count, sizeof *t->series);
    if (!t->series)
        return no_memory(c);
    t->series_count = c->entity_count;
    for (size_t i = 0; i < c->entity_count && !status; i++)
        status = finish_entity(c, &c->entities[i], &t->series[i]);
    return status;
}

enum halay_status tft_table_read(struct halay_log *log, const struct tft_schema *schema, const char *const *paths,
                                 size_t path_count, struct tft_table *table)
{
    struct tft_paths expanded = { 0 };
    struct tft_table t = { 0 };
    struct collector c = { .log = log, .schema = schema, .paths = &expanded, .table = &t };
    enum halay_status status = tft_paths_expand(log, paths, path_count, schema->files, &expanded);

    for (size_t i = 0; i < schema->input_count; i++)
        if (schema->inputs[i].source == TFT_FROM_COLUMN)
            t.columns[t.column_count++] = i;
    for (size_t i = 0; i < expanded.count && !status; i++)
        status = collect_file(&c, i);
    if (!status)
        status = finish_entities(&c);
    for (size_t i = 0; i < c.entity_count; i++) {
        if (!c.entities[i].given)
            free(c.entities[i].id);
        free(c.entities[i].rows);
        free(c.entities[i].values);
    }
    free(c.entities);
    free(c.slots);
    tft_paths_fini(&expanded);
    if (status)
        tft_table_fini(&t);
    else
        *table = t;
    return status;
}

enum halay_status tft_table_extend(struct halay_log *log, size_t rows, struct tft_table *t)
{
    for (size_t e = 0; e < t->series_count; e++) {
        struct tft_series *s = &t->series[e];
        size_t columns = t->column_count, bytes, all;
        if (halay_add_overflows(s->rows, rows, &all) || halay_mul_overflows(all, columns * sizeof(double), &bytes))
            return HALAY_ERR_NO_MEMORY;
        double *values = realloc(s->values, bytes);
        if (values)
            s->values = values;
        uint8_t *present = values ? realloc(s->present, all) : NULL;
        if (!present) {
            halay_error(log, "no memory for the rows of the future");
            return HALAY_ERR_NO_MEMORY;
        }
        s->present = present;
        memset(present + s->rows, 0, rows);
        for (size_t i = s->rows; i < all; i++)
            memcpy(values + i * columns, values + (s->rows - 1) * columns, columns * sizeof *values);
        s->rows = all;
    }
    return HALAY_OK;
}

void tft_table_fini(struct tft_table *table)
{
    for (size_t i = 0; i < table->series_count; i++) {
        free(table->series[i].id);
        free(table->series[i].values);
        free(table->series[i].present);
    }
    free(table->series);
    *table = (struct tft_table){ 0 };
}
