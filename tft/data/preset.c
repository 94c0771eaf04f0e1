/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: reads the ids and times of all rows, and finds the step.
 *
 * The step is the shortest one between two rows of an entity: in months if all rows lie on months' same days, in
 * business days if none lies on a weekend. Rows that do not fit it are found, and named, when the table is read.
 */
#include "tft/data/csv.h"
#include "tft/data/paths.h"
#include "tft/data/preset_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tft_where tft_preset_where(const struct tft_preset_scan *s)
{
    struct tft_where w = { .log = s->log };

    snprintf(w.text, sizeof w.text, "%.200s", s->where);
    return w;
}

/* ---- read ---- */

static enum halay_status no_memory(const struct tft_preset_scan *s)
{
    halay_error(s->log, "no memory for the times of the table");
    return HALAY_ERR_NO_MEMORY;
}

static enum halay_status add_moment(struct tft_preset_scan *s, const char *id, int64_t time)
{
    size_t entity;

    if (s->count == s->size) {
        size_t size = s->size ? 2 * s->size : 1024;
        struct tft_moment *moments = realloc(s->moments, size * sizeof *moments);
        if (!moments)
            return no_memory(s);
        s->moments = moments;
        s->size = size;
    }
    if (tft_dictionary_add(&s->ids, id, &entity))
        return no_memory(s);
    s->first = !s->count || time < s->first ? time : s->first;
    s->last = !s->count || time > s->last ? time : s->last;
    s->moments[s->count++] = (struct tft_moment){ entity, time };
    return HALAY_OK;
}

static enum halay_status scan_row(struct tft_preset_scan *s, const char *where, size_t row, const char *id,
                                  const char *text)
{
    int64_t time;
    int is_utc = 0;

    if (!s->count) /* the first row decides */
        s->counts = !tft_time_parse_integer(text, &time);
    if (!(s->counts ? tft_time_parse_integer(text, &time) : tft_time_parse_clock(text, NULL, &time, &is_utc)))
        return add_moment(s, id, s->zone && is_utc ? time + tft_zone_offset(s->zone, time) : time);
    halay_error(s->log, "%s, row %zu, column '%s': '%.64s' is not %s", where, row, s->ds, text,
                s->counts ? "a whole number, as the first row's is" : "a time like 2017-08-01 01:00:00");
    return HALAY_ERR_FORMAT;
}

static enum halay_status scan_file(struct tft_preset_scan *s, const char *path, const struct tft_text *text)
{
    size_t id, ds, y;
    struct tft_csv *csv;
    char **fields, where[600];
    int end = 0;
    enum halay_status status = text->bytes ? tft_csv_open_text(s->log, path, text->bytes, text->count, ',', &csv)
                                           : tft_csv_open(s->log, path, ',', &csv);

    if (status)
        return status;
    status = tft_csv_find_column(csv, s->id, &id);
    if (!status)
        status = tft_csv_find_column(csv, s->ds, &ds);
    if (!status && s->y)
        status = tft_csv_find_column(csv, s->y, &y);
    snprintf(where, sizeof where, "file '%.500s'", path);
    while (!status && !end) {
        status = tft_csv_next(csv, &fields, &end);
        if (!status && !end)
            status = scan_row(s, where, tft_csv_row(csv), fields[id], fields[ds]);
    }
    tft_csv_close(csv);
    return status;
}

static enum halay_status scan_time(struct tft_preset_scan *s, const struct tft_frame *f, size_t row, const char *id,
                                   int64_t time)
{
    if (time == INT64_MIN)
        return scan_row(s, f->name, row + 1, id, "");
    s->counts = 0;
    return add_moment(s, id, s->zone && f->times_are_utc ? time + tft_zone_offset(s->zone, time) : time);
}

static enum halay_status scan_frame(struct tft_preset_scan *s, const struct tft_frame *f)
{
    char id_room[TFT_FRAME_TEXT], room[TFT_FRAME_TEXT];
    size_t id, ds, y;
    enum halay_status status = tft_frame_check(s->log, f);

    if (!status)
        status = tft_frame_find_column(s->log, f, s->id, &id);
    if (!status)
        status = tft_frame_find_column(s->log, f, s->ds, &ds);
    if (!status && s->y)
        status = tft_frame_find_column(s->log, f, s->y, &y);
    for (size_t row = 0; !status && row < f->rows; row++) {
        const char *text = tft_frame_text(f, id, row, id_room);
        status = f->columns[ds].kind == HALAY_TFT_TIMES
                     ? scan_time(s, f, row, text, tft_frame_integer(f, ds, row))
                     : scan_row(s, f->name, row + 1, text, tft_frame_text(f, ds, row, room));
    }
    return status;
}

/* ---- the step ---- */

static int compare_moments(const void *a, const void *b)
{
    const struct tft_moment *x = a, *y = b;

    if (x->entity != y->entity)
        return x->entity < y->entity ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

/* The shortest step in some unit between rows of an entity; 0 if they do not fit it, or there are no two. */
static int64_t shortest(const struct tft_preset_scan *s, const struct tft_period *unit)
{
    int64_t least = 0;

    for (size_t i = 1; i < s->count; i++) {
        const struct tft_moment *a = &s->moments[i - 1], *b = &s->moments[i];
        if (a->entity != b->entity || a->time == b->time)
            continue;
        int64_t n = tft_period_between(unit, a->time, b->time);
        if (tft_period_add(unit, a->time, n) != b->time)
            return 0;
        least = !least || n < least ? n : least;
    }
    return least;
}

static int has_weekends(const struct tft_preset_scan *s)
{
    struct tft_date date;

    for (size_t i = 0; i < s->count; i++) {
        tft_time_to_date(s->moments[i].time, &date);
        if (date.day_of_week >= 5)
            return 1;
    }
    return 0;
}

static void set_step(struct tft_preset_scan *s, int64_t number, const char *unit)
{
    snprintf(s->every_text, sizeof s->every_text, "%lld%s", (long long)number, unit);
}

static void set_seconds(struct tft_preset_scan *s, int64_t seconds)
{
    static const struct {
        int seconds;
        const char *unit;
    } units[] = { { TFT_WEEK, "w" }, { TFT_DAY, "d" }, { TFT_HOUR, "h" }, { TFT_MINUTE, "min" }, { 1, "s" } };
    size_t i = 0;

    while (seconds % units[i].seconds)
        i++;
    set_step(s, seconds / units[i].seconds, units[i].unit);
}

static enum halay_status take_step(struct tft_preset_scan *s, const json_t *every)
{
    const struct tft_where w = tft_preset_where(s);
    char text[24] = "";

    if (json_is_integer(every))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(every));
    else if (json_is_string(every))
        snprintf(text, sizeof text, "%.23s", json_string_value(every));
    if (tft_period_parse(text, &s->every) || (s->every.kind == TFT_PERIOD_INTEGER) != s->counts)
        return tft_where_wrong(&w, "every",
                               s->counts ? "a whole number, as the times are" : "a step like 1h, 1d or 1M");
    memcpy(s->every_text, text, sizeof text);
    return HALAY_OK;
}

static enum halay_status find_step(struct tft_preset_scan *s)
{
    static const struct tft_period month = { TFT_PERIOD_MONTHS, 1 };
    const json_t *every = json_object_get(s->given, "every");
    int64_t least, months;

    if (every)
        return take_step(s, every);
    if (s->count)
        qsort(s->moments, s->count, sizeof *s->moments, compare_moments);
    least = shortest(s, &(struct tft_period){ TFT_PERIOD_INTEGER, 1 });
    if (!least) {
        halay_error(s->log, "no series has two rows with different '%s', so the step from row to row is unknown",
                    s->ds);
        return HALAY_ERR_FORMAT;
    }
    months = !s->counts && least >= 28 * TFT_DAY ? shortest(s, &month) : 0;
    if (s->counts)
        set_step(s, least, "");
    else if (months)
        set_step(s, months, "M");
    else if (least == TFT_DAY && s->last - s->first >= TFT_WEEK && !has_weekends(s))
        set_step(s, 1, "B");
    else
        set_seconds(s, least);
    if (!tft_period_parse(s->every_text, &s->every))
        return HALAY_OK;
    halay_error(s->log, "the step from row to row, %s, is too long", s->every_text);
    return HALAY_ERR_FORMAT;
}

/* ---- the given schema ---- */

static enum halay_status take_zone(struct tft_preset_scan *s, const char *name)
{
    json_t *given = json_object_get(s->given, "zone");
    enum halay_status status = HALAY_OK;

    if (json_is_string(given))
        name = json_string_value(given);
    else if (given)
        s->zone_document = json_incref(given);
    if (name)
        status = tft_zone_load(s->log, s->where, TFT_ZONES_FOLDER, name, &s->zone_document);
    return status || !s->zone_document ? status : tft_zone_create(s->log, s->where, s->zone_document, &s->zone);
}

/* A column's name. */
static enum halay_status read_column(const struct tft_preset_scan *s, const char *key, const char *const *words,
                                     const char **column)
{
    const struct tft_where w = tft_preset_where(s), inside = tft_where_inside(&w, key, NULL);
    const json_t *object;

    if (!json_object_get(s->given, key))
        return HALAY_OK;
    enum halay_status status = tft_read_object(&w, s->given, key, &object);
    if (!status)
        status = tft_where_check_keys(&inside, object, words);
    return status ? status : tft_read_text(&inside, object, "column", 0, column);
}

static enum halay_status read_given(struct tft_preset_scan *s)
{
    const struct tft_where w = tft_preset_where(s);
    const json_t *object, *input;
    const char *name;
    int preset = 0;
    enum halay_status status = tft_where_check_keys(&w, s->given,
                                                    TFT_WORDS("preset", "name", "id", "time", "zone", "every", "season",
                                                              "duplicates", "active", "inputs", "window", "split"));

    if (!status)
        status = tft_read_word(&w, s->given, "preset", TFT_WORDS("long"), &preset);
    if (!status)
        status = read_column(s, "id", TFT_WORDS("column"), &s->id);
    if (!status)
        status = read_column(s, "time", TFT_WORDS("column", "integer"), &s->ds);
    if (!status && json_object_get(s->given, "window"))
        status = tft_read_object(&w, s->given, "window", &object);
    if (!status && json_object_get(s->given, "inputs"))
        status = tft_read_object(&w, s->given, "inputs", &object);
    json_object_foreach(json_object_get(s->given, "inputs"), name, input) {
        const char *role = json_string_value(json_object_get(input, "role"));
        s->y = role && !strcmp(role, "target") ? NULL : s->y;
    }
    return status;
}

static enum halay_status complete(struct tft_preset_scan *s, const struct tft_table_source *tables,
                                  const struct tft_preset *preset, struct tft_schema *schema)
{
    struct tft_paths files = { 0 };
    enum halay_status status = take_zone(s, preset->zone);

    if (!status && tables->paths)
        status = tft_paths_expand(s->log, tables->paths, tables->path_count, NULL, &files);
    for (size_t i = 0; i < files.count && !status; i++)
        status = scan_file(s, files.list[i], &tables->text);
    if (!status && tables->text.bytes)
        status = scan_file(s, tables->text.name, &tables->text);
    if (!status && tables->frame)
        status = scan_frame(s, tables->frame);
    if (!status)
        status = find_step(s);
    if (!status)
        status = tft_preset_make_schema(s, preset, schema);
    free(s->moments);
    tft_zone_destroy(s->zone);
    json_decref(s->zone_document);
    tft_dictionary_fini(&s->ids);
    tft_paths_fini(&files);
    return status;
}

enum halay_status tft_preset_read(struct halay_log *log, const struct tft_schema_source *given,
                                  const struct tft_table_source *tables, const struct tft_preset *preset,
                                  struct tft_schema *schema, int *found)
{
    struct tft_preset_scan s = { .log = log, .id = "unique_id", .ds = "ds", .y = "y" };
    json_t *document = NULL;
    enum halay_status status = HALAY_OK;

    snprintf(s.where, sizeof s.where, "preset 'long'");
    if (given->path || given->text)
        status = tft_schema_document(log, given->path, given->text, s.where, &document);
    const int is_preset = !document || json_object_get(document, "preset");
    s.given = document;
    if (!status && document && is_preset)
        status = read_given(&s);
    if (!status)
        status = is_preset ? complete(&s, tables, preset, schema) : tft_schema_init(log, s.where, document, schema);
    json_decref(document);
    *found = is_preset;
    return status;
}
