/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: stream each file, or a frame (reader.c), and append each row to its entity, or, of a wide one, each cell to its
 * column's entity.
 */
#include "base/memory.h"
#include "tft/core/data/calendar.h"
#include "tft/core/data/encoding.h"
#include "tft/core/data/table_impl.h"
#include <float.h>
#include <fnmatch.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_ROWS = 1 << 14 }; /* some milliseconds' work */

/* One file or frame being read: where its columns are. */
struct source {
    struct tft_reader in;
    uint32_t number;
    size_t times[TFT_TIME_COLUMNS_MAX], id, columns[TFT_INPUTS_MAX];
    char file_id[256];              /* the entity, if it is the file's */
    size_t entity;                  /* its number */
    char day_text[12];              /* "2017-08-01 ", the day of the row before, if its time is written like that; "" */
    int64_t day;                    /* and that day's first moment */
    size_t *wide;                   /* owned: numbers of the columns that are entities */
    size_t *entities;               /* owned: and of the entities */
    size_t wide_count, wide_column; /* how many; the table's column they all go to */
};

static enum halay_status no_memory(struct tft_collector *c)
{
    return halay_no_memory(c->log, "for the table");
}

/* ---- entities ---- */

/* Returns nonzero if a text is UTF-8, as all output of a table is, names of categories and entities included. */
static int is_utf8(const char *text)
{
    json_t *string = json_string(text);
    int is = string != NULL;

    json_decref(string);
    return is;
}

static enum halay_status check_id(const struct tft_collector *c, const struct source *source, const char *id)
{
    const struct halay_error_place place = tft_reader_place(&source->in, NULL);

    if (!is_utf8(id))
        return halay_fail_at(c->log, &place, HALAY_ERR_FORMAT, "the id '%.64s' is not text in UTF-8", id);
    return c->source->encoding ? tft_encoding_check_entity(c->log, &place, c->schema, c->source->encoding, id)
                               : HALAY_OK;
}

static enum halay_status find_entity(struct tft_collector *c, const struct source *source, const char *id,
                                     size_t *entity)
{
    size_t known = c->ids.count;

    if (tft_dictionary_add(&c->ids, id, entity))
        return no_memory(c);
    if (c->ids.count > known) {
        enum halay_status status = check_id(c, source, id);
        if (status)
            return status;
    }
    size_t had = c->size;
    if (halay_list_grow(&c->entities, *entity, &c->size, sizeof *c->entities))
        return no_memory(c);
    for (; had < c->size; had++)
        c->entities[had] = (struct tft_rows){ .first = INT64_MAX, .last = INT64_MIN };
    return HALAY_OK;
}

/* Puts the rows that an entity has in memory aside. */
static enum halay_status put_aside(struct tft_collector *c, struct tft_rows *e)
{
    size_t values = e->count * c->table->column_count * sizeof *e->values, rows = e->count * sizeof *e->rows;
    void *memory;

    if (halay_list_grow(&e->parts, e->part_count, &e->part_size, sizeof *e->parts))
        return no_memory(c);
    enum halay_status status = tft_spill_get(c->table->spill, rows + values, &memory);
    if (status)
        return status;
    memcpy(memory, e->rows, rows);
    if (values)
        memcpy((char *)memory + rows, e->values, values);
    tft_spill_touched(c->table->spill, rows + values);
    e->parts[e->part_count++] = (struct tft_rows_part){ e->count, memory };
    e->rows_in_parts += e->count;
    free(e->rows);
    free(e->values);
    e->rows = NULL;
    e->values = NULL;
    e->count = e->size = 0;
    return HALAY_OK;
}

static enum halay_status put_all_aside(struct tft_collector *c)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < c->ids.count && !status; i++)
        if (c->entities[i].count)
            status = put_aside(c, &c->entities[i]);
    c->held = 0;
    return status;
}

enum halay_status tft_rows_gather(struct tft_collector *c, struct tft_rows *e)
{
    size_t columns = c->table->column_count, all = e->rows_in_parts + e->count, at = 0;

    if (!e->part_count)
        return HALAY_OK;
    struct tft_row *rows = malloc(all * sizeof *rows);
    double *values = malloc(all * columns * sizeof *values + 1);
    if (!rows || !values) {
        free(rows);
        free(values);
        return no_memory(c);
    }
    for (size_t i = 0; i < e->part_count; i++) {
        size_t n = e->parts[i].count;
        memcpy(rows + at, e->parts[i].memory, n * sizeof *rows);
        memcpy(values + at * columns, (const char *)e->parts[i].memory + n * sizeof *rows,
               n * columns * sizeof *values);
        at += n;
        tft_spill_touched(c->table->spill, n * (sizeof *rows + columns * sizeof *values));
    }
    if (e->count) {
        memcpy(rows + at, e->rows, e->count * sizeof *rows);
        memcpy(values + at * columns, e->values, e->count * columns * sizeof *values);
    }
    free(e->rows);
    free(e->values);
    free(e->parts);
    e->rows = rows;
    e->values = values;
    e->parts = NULL;
    e->part_count = e->part_size = e->rows_in_parts = 0;
    e->count = e->size = all;
    return HALAY_OK;
}

static enum halay_status append_row(struct tft_collector *c, struct tft_rows *e, const struct tft_row *row,
                                    const double *values)
{
    size_t columns = c->table->column_count, bytes = sizeof *row + columns * sizeof *values;

    if (c->held > tft_spill_share(c->table->spill)) {
        enum halay_status status = put_all_aside(c);
        if (status)
            return status;
    }

    if (e->count == e->size) {
        size_t size = e->size ? e->size * 2 : 8;
        struct tft_row *rows = realloc(e->rows, size * sizeof *rows);
        if (!rows)
            return no_memory(c);
        e->rows = rows;
        double *more = realloc(e->values, size * columns * sizeof *more);
        if (!more)
            return no_memory(c);
        e->values = more;
        c->held += (size - e->size) * bytes;
        e->size = size;
    }
    e->rows[e->count] = *row;
    memcpy(e->values + e->count * columns, values, columns * sizeof *values);
    e->count++;
    return HALAY_OK;
}

/* ---- columns ---- */

static enum halay_status id_from_name(struct tft_collector *c, struct source *source)
{
    const char *slash = strrchr(source->in.name, '/'), *name = slash ? slash + 1 : source->in.name;
    regex_t regex;
    regmatch_t match[2];

    if (regcomp(&regex, c->schema->id_pattern, REG_EXTENDED))
        return HALAY_ERR_CONFIG; /* checked with the schema */
    int found = !regexec(&regex, name, 2, match, 0) && match[1].rm_so >= 0;
    regfree(&regex);
    size_t length = found ? (size_t)(match[1].rm_eo - match[1].rm_so) : 0;
    if (!length || length >= sizeof source->file_id)
        return halay_fail(c->log, HALAY_ERR_FORMAT, "file '%s': its name does not match the id's pattern '%s'",
                          source->in.name, c->schema->id_pattern);
    memcpy(source->file_id, name + match[1].rm_so, length);
    source->file_id[length] = 0;
    return HALAY_OK;
}

/* Returns nonzero if the column is the time's or another input's. */
static int is_taken(const struct tft_collector *c, const struct source *source, size_t column)
{
    for (size_t i = 0; i < c->schema->time_column_count; i++)
        if (source->times[i] == column)
            return 1;
    if (c->schema->id_kind == TFT_ID_COLUMN && source->id == column)
        return 1;
    for (size_t i = 0; i < c->table->column_count; i++)
        if ((!source->wide || i != source->wide_column) && source->columns[i] == column)
            return 1;
    return 0;
}

/* Finds the entities of a wide file: all columns of the target's pattern that are not used otherwise. */
static enum halay_status find_entity_columns(struct tft_collector *c, struct source *source)
{
    const char *pattern = c->schema->inputs[c->schema->targets[0]].column;
    size_t count = source->in.column_count;
    enum halay_status status = HALAY_OK;

    source->wide = malloc(count * sizeof *source->wide);
    source->entities = malloc(count * sizeof *source->entities);
    if (!source->wide || !source->entities)
        return no_memory(c);
    source->wide_column = c->table->column_of[c->schema->targets[0]];
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = tft_reader_column(&source->in, i);
        if (is_taken(c, source, i) || !*name || (strcmp(pattern, name) && fnmatch(pattern, name, 0)))
            continue;
        status = find_entity(c, source, name, &source->entities[source->wide_count]);
        source->wide[source->wide_count++] = i;
    }
    if (!status && !source->wide_count) {
        halay_error(c->log, "file '%s' has no column '%s' that could be an entity", source->in.name, pattern);
        status = HALAY_ERR_FORMAT;
    }
    return status;
}

/* Notes the names of the first file's unused columns, for the summary. */
static void note_ignored(struct tft_collector *c, const struct source *source)
{
    struct tft_table *t = c->table;

    for (size_t i = 0; i < source->in.column_count; i++) {
        int taken = is_taken(c, source, i);
        for (size_t k = 0; k < source->wide_count && !taken; k++)
            taken = source->wide[k] == i;
        if (taken)
            continue;
        size_t used = strlen(t->ignored);
        snprintf(t->ignored + used, sizeof t->ignored - used, "%s%s", used ? ", " : "",
                 tft_reader_column(&source->in, i));
        t->summary.columns_ignored++;
    }
}

static enum halay_status find_columns(struct tft_collector *c, struct source *source)
{
    const struct tft_schema *s = c->schema;
    const struct tft_table *t = c->table;
    const int is_wide = s->id_kind == TFT_ID_HEADER;
    enum halay_status status;

    if (s->id_kind == TFT_ID_CONSTANT)
        snprintf(source->file_id, sizeof source->file_id, "%s", s->id_constant);
    if ((s->id_kind == TFT_ID_COLUMN && (status = tft_reader_find_column(&source->in, s->id_column, &source->id))) ||
        (s->id_kind == TFT_ID_FILENAME && (status = id_from_name(c, source))))
        return status;
    for (size_t i = 0; i < s->time_column_count; i++)
        if ((status = tft_reader_find_column(&source->in, s->time_columns[i], &source->times[i])))
            return status;
    for (size_t i = 0; i < t->column_count; i++) {
        source->columns[i] = SIZE_MAX;
        if (tft_rows_has_column(c, i) && !(is_wide && t->columns[i] == s->targets[0]) &&
            (status = tft_reader_find_column(&source->in, s->inputs[t->columns[i]].column, &source->columns[i])))
            return status;
    }
    if (is_wide && !c->source->is_future && (status = find_entity_columns(c, source)))
        return status;
    if (source->number == 0 && !c->source->is_future)
        note_ignored(c, source);
    return HALAY_OK;
}

/* ---- cells ---- */

static enum halay_status bad_cell(struct tft_collector *c, const struct source *source, size_t column, const char *text,
                                  const char *should)
{
    const struct halay_error_place place = tft_reader_place(&source->in, tft_reader_column(&source->in, column));

    return halay_fail_at(c->log, &place, HALAY_ERR_FORMAT, "'%.64s' is not %s", text, should);
}

static enum halay_status not_a_time(struct tft_collector *c, const struct source *source, const char *text)
{
    char advice[200], should[260];

    tft_time_advise(text, advice, sizeof advice);
    snprintf(should, sizeof should, "a time like 2017-08-01 01:00:00%s", advice);
    return bad_cell(c, source, source->times[0], text,
                    c->schema->time_format ? "a time of the schema's format" : should);
}

static int is_missing(const struct tft_schema *s, const char *text)
{
    for (size_t i = 0; s->missing[i]; i++)
        if (!strcmp(text, s->missing[i]))
            return 1;
    return 0;
}

/* Reads year, month, day, hour ... from separate columns. */
static enum halay_status read_parts(struct tft_collector *c, const struct source *source, int64_t *time)
{
    int parts[TFT_TIME_COLUMNS_MAX];
    size_t n = c->schema->time_column_count;

    for (size_t i = 0; i < n; i++) {
        int64_t value;
        const char *text = tft_reader_text(&source->in, source->times[i]);
        if (tft_time_parse_integer(text, &value) || value < 0 || value > 9999)
            return bad_cell(c, source, source->times[i], text, "a part of a date or time");
        parts[i] = (int)value;
    }
    if (!tft_time_from_parts(parts, n, time))
        return HALAY_OK;
    return bad_cell(c, source, source->times[n - 1], tft_reader_text(&source->in, source->times[n - 1]),
                    "the end of a date and time that exists");
}

/* Reads two digits below a limit; -1 for anything else. */
static int two_digits(const char *text, int limit)
{
    int tens = text[0] - '0', ones = text[1] - '0', value = tens * 10 + ones;

    return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 && value < limit ? value : -1;
}

/* Reads the commonest format, 2017-08-01 02:03:04, on the previous row's day: only the time of day is parsed. */
static int same_day(const struct source *source, const char *text, int64_t *time)
{
    if (!*source->day_text || strncmp(source->day_text, text, 11) || strlen(text) != 19 || text[13] != ':' ||
        text[16] != ':')
        return 0;
    int hour = two_digits(text + 11, 24), minute = two_digits(text + 14, 60), second = two_digits(text + 17, 60);
    if (hour < 0 || minute < 0 || second < 0)
        return 0;
    *time = source->day + hour * 3600 + minute * 60 + second;
    return 1;
}

/* Keeps the day of such a text, which was read in full. A text of the same length may have an offset (01:00+02), which
 * would move it. */
static void keep_day(const struct tft_schema *s, struct source *source, const char *text, int64_t time)
{
    const char *format = s->time_format;

    *source->day_text = 0;
    if ((format && strcmp(format, "%Y-%m-%d %H:%M:%S")) || strlen(text) != 19 || text[10] != ' ' || text[13] != ':' ||
        text[16] != ':' || two_digits(text + 11, 24) < 0)
        return;
    memcpy(source->day_text, text, 11);
    source->day = tft_time_day(time) * 86400;
}

/* Reads a frame's time as a number. */
static enum halay_status take_time(struct tft_collector *c, const struct source *source, int64_t *time, int *is_utc)
{
    const int64_t most = 1000000000000; /* as in a file: 12 digits */

    *time = tft_reader_time(&source->in, source->times[0]);
    *is_utc = c->schema->time_kind != TFT_TIME_INTEGER && source->in.frame->times_are_utc;
    if (*time > -most && *time < most)
        return HALAY_OK;
    return bad_cell(c, source, source->times[0], tft_reader_text(&source->in, source->times[0]),
                    "a time in seconds since 1970, of at most 12 digits");
}

/* Reads the time of a row, by the clock of the data or (*is_utc) in UTC. */
static enum halay_status read_row_time(struct tft_collector *c, struct source *source, int64_t *time, int *is_utc)
{
    const struct tft_schema *s = c->schema;
    const char *text = tft_reader_text(&source->in, source->times[0]);
    char joined[256];
    size_t used = 0;

    if (s->time_kind == TFT_TIME_PARTS)
        return read_parts(c, source, time);
    if (tft_reader_is_time(&source->in, source->times[0]))
        return take_time(c, source, time, is_utc);
    if (s->time_kind == TFT_TIME_INTEGER)
        return tft_time_parse_integer(text, time)
                   ? bad_cell(c, source, source->times[0], text, "a whole number of at most 12 digits")
                   : HALAY_OK;
    if (s->time_column_count > 1) {
        for (size_t i = 0; i < s->time_column_count && used < sizeof joined; i++)
            used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i ? " " : "",
                                     tft_reader_text(&source->in, source->times[i]));
        text = joined;
    }
    if (same_day(source, text, time))
        return HALAY_OK;
    if (!tft_time_parse_clock(text, s->time_format, time, is_utc)) {
        keep_day(s, source, text, *time);
        return HALAY_OK;
    }
    return not_a_time(c, source, text);
}

/* Reads one cell of the table's column k. */
static enum halay_status read_cell(struct tft_collector *c, const struct source *source, size_t k, size_t column,
                                   double *value)
{
    const struct tft_input *input = &c->schema->inputs[c->table->columns[k]];
    const int is_direct = tft_reader_is_number(&source->in, column) && !input->is_category;
    const char *text = is_direct ? "" : tft_reader_text(&source->in, column);
    size_t number;

    *value = is_direct ? tft_reader_number(&source->in, column) : NAN;
    if (is_direct ? isnan(*value) : (source->in.frame && !*text) || is_missing(c->schema, text))
        return HALAY_OK;
    if (input->is_category) {
        struct tft_dictionary *names = &c->table->dictionaries[k];
        size_t known = names->count;
        if (tft_dictionary_add(names, text, &number))
            return no_memory(c);
        if (names->count > known && !is_utf8(text))
            return bad_cell(c, source, column, text, "text in UTF-8");
        *value = (double)number;
        return HALAY_OK;
    }
    if (!is_direct && !tft_number_parse(text, c->schema->decimal, value)) {
        if (tft_number_is_missing(text)) {
            *value = NAN;
            return HALAY_OK;
        }
        return bad_cell(c, source, column, text,
                        strspn(text, "+-0123456789.,' ") == strlen(text) && strpbrk(text, "0123456789")
                            ? "a number (separators of thousands are not read; 'csv: decimal' sets what precedes the "
                              "decimals)"
                            : "a number (what means \"no value\" is listed in 'csv: missing')");
    }
    if (!(fabs(*value) <= FLT_MAX))
        return bad_cell(c, source, column, tft_reader_text(&source->in, column),
                        "within what a model can hold, at most 3.4e38 in magnitude");
    if (*value < 0 && input->role == TFT_INPUT_WEIGHT)
        return bad_cell(c, source, column, tft_reader_text(&source->in, column), "a weight: 0 or more");
    return HALAY_OK;
}

/* ---- rows ---- */

/* Returns nonzero if one of the targets has a value. */
static int is_measured(const struct tft_collector *c, const double *values)
{
    const struct tft_schema *s = c->schema;

    for (size_t o = 0; o < s->target_count; o++) {
        const struct tft_input *target = &s->inputs[s->targets[o]];
        if (!tft_input_is_missing(target, values[c->table->column_of[s->targets[o]]]))
            return 1;
    }
    return 0;
}

/* Appends a row to its entity, if it is inside the span. */
static enum halay_status give_row(struct tft_collector *c, size_t entity, struct tft_row *row, const double *values,
                                  int outside)
{
    const struct tft_schema *s = c->schema;
    struct tft_rows *e = &c->entities[entity];

    if (s->time_kind == TFT_TIME_NONE) {
        row->time = e->number++;
        outside = s->has_span && (row->time < s->span[0] || row->time > s->span[1]);
        c->table->summary.rows_outside_span += (size_t)outside;
    }
    if (is_measured(c, values)) {
        e->first = row->time < e->first ? row->time : e->first;
        e->last = row->time > e->last ? row->time : e->last;
    }
    return outside ? HALAY_OK : append_row(c, e, row, values);
}

static enum halay_status take_cells(struct tft_collector *c, const struct source *source, struct tft_row *row,
                                    double *values, int outside)
{
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < source->wide_count && !status; k++) {
        size_t column = source->wide[k];
        status = read_cell(c, source, source->wide_column, column, &values[source->wide_column]);
        if (!status)
            status = give_row(c, source->entities[k], row, values, outside);
    }
    return status;
}

static enum halay_status mixed_clocks(struct tft_collector *c, const struct source *source, const char *text,
                                      int is_utc)
{
    const struct halay_error_place place =
        tft_reader_place(&source->in, tft_reader_column(&source->in, source->times[0]));

    if (!c->schema->clocks)
        return halay_fail_at(c->log, &place, HALAY_ERR_FORMAT, "'%.64s' %s", text,
                             is_utc ? TFT_TIME_HAS_OFFSET : TFT_TIME_LACKS_OFFSET);
    return halay_fail_at(c->log, &place, HALAY_ERR_FORMAT,
                         "'%.64s' has %s offset from UTC, and the times that the model was trained on have %s; write "
                         "these as those, or give the training a zone (--zone, 'zone'), which reads both",
                         text, is_utc ? "an" : "no", is_utc ? "none" : "one");
}

/* Warns of the first time with an offset. */
static void look_for_moved(struct tft_collector *c, const struct source *source)
{
    for (size_t i = 0; i < c->schema->time_column_count && !c->has_moved; i++) {
        if (!tft_time_is_moved(tft_reader_text(&source->in, source->times[i])))
            continue;
        c->has_moved = 1;
        const struct halay_error_place place =
            tft_reader_place(&source->in, tft_reader_column(&source->in, source->times[i]));
        char where[HALAY_ERROR_PLACE_MAX];
        halay_error_place_print(&place, where, sizeof where);
        halay_warning(c->log,
                      "%s: times have an offset from UTC; without a zone (--zone, 'zone') their calendar and the times "
                      "of forecasts are UTC's",
                      where);
    }
}

/* Reads a row's moment; *skipped: the clock never showed this time. */
static enum halay_status take_moment(struct tft_collector *c, struct source *source, struct tft_row *row, int *skipped)
{
    int64_t time = 0;
    int is_utc = 0;
    enum halay_status status =
        c->schema->time_kind == TFT_TIME_NONE ? HALAY_OK : read_row_time(c, source, &time, &is_utc);

    if (status)
        return status;
    if (is_utc && !c->has_moved && !c->schema->clocks && !c->schema->zone)
        look_for_moved(c, source);
    c->clocks |= is_utc ? 2 : 1;
    if (c->clocks == 3 && !c->schema->zone)
        return mixed_clocks(c, source, tft_reader_text(&source->in, source->times[0]), is_utc);
    enum tft_passes passes = tft_schema_row_moment(c->schema, time, is_utc, &row->time);
    row->is_repeated = passes == TFT_PASSED_TWICE;
    *skipped = passes == TFT_SKIPPED;
    c->table->summary.rows_repeated += row->is_repeated;
    c->table->summary.rows_skipped += passes == TFT_SKIPPED;
    c->table->summary.rows_read++;
    return HALAY_OK;
}

static enum halay_status take_row(struct tft_collector *c, struct source *source)
{
    const struct tft_schema *s = c->schema;
    struct tft_row row = { .file = source->number & INT32_MAX, .line = (uint32_t)source->in.row };
    double values[TFT_INPUTS_MAX];
    int skipped = 0;
    enum halay_status status = take_moment(c, source, &row, &skipped);
    int outside = s->time_kind != TFT_TIME_NONE && s->has_span && (row.time < s->span[0] || row.time > s->span[1]);

    if (status || skipped)
        return status;
    c->table->summary.rows_outside_span += (size_t)outside;
    if (outside && !s->trim)
        return HALAY_OK;
    for (size_t k = 0; k < c->table->column_count && !status; k++)
        if (source->columns[k] != SIZE_MAX)
            status = read_cell(c, source, k, source->columns[k], &values[k]);
        else
            values[k] = NAN;
    if (status)
        return status;
    if (s->id_kind == TFT_ID_HEADER && !c->source->is_future)
        return take_cells(c, source, &row, values, outside);
    if (s->id_kind == TFT_ID_COLUMN && !*tft_reader_text(&source->in, source->id))
        return bad_cell(c, source, source->id, "", "an id");
    /* A wide table's future: one series, "", for all entities. */
    if (s->id_kind == TFT_ID_COLUMN || source->entity == SIZE_MAX)
        status = find_entity(c, source,
                             s->id_kind == TFT_ID_COLUMN ? tft_reader_text(&source->in, source->id) : source->file_id,
                             &source->entity);
    return status ? status : give_row(c, source->entity, &row, values, outside);
}

struct halay_error_place tft_rows_place(const struct tft_collector *c, size_t file, size_t line)
{
    return (struct halay_error_place){
        .subject = c->paths->list[file], .row = line, .rank = -1, .is_file = !c->source->frame
    };
}

void tft_rows_worked(struct tft_collector *c, size_t rows)
{
    c->part += rows;
    if (c->part < PART_ROWS || !c->source->between)
        return;
    c->part = 0;
    c->source->between(c->source->between_arg);
}

enum halay_status tft_rows_collect(struct tft_collector *c, size_t file)
{
    struct source source = { .number = (uint32_t)file, .entity = SIZE_MAX };
    int end = 0;
    enum halay_status status =
        tft_reader_open(c->log, c->source, c->paths->list[file], c->schema->separator, &source.in);

    if (!status)
        status = find_columns(c, &source);
    while (!status && !end) {
        status = tft_reader_next(&source.in, &end);
        if (!status && !end)
            status = take_row(c, &source);
        if (!status) /* it may forget an error */
            tft_rows_worked(c, 1);
    }
    tft_reader_close(&source.in);
    free(source.wide);
    free(source.entities);
    c->table->summary.files++;
    return status;
}
