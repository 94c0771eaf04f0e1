/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: reads the ids and times of all rows, finds the step, and makes the document that a user would have written.
 *
 * The step is the shortest one between two rows of an entity: in months if all rows lie on months' same days, in
 * business days if none lies on a weekend. Rows that do not fit it are found, and named, when the table is read.
 */
#include "tft/data/preset.h"
#include "tft/data/csv.h"
#include "tft/data/dictionary.h"
#include "tft/data/paths.h"
#include <stdio.h>
#include <stdlib.h>

enum { MINUTE = 60, HOUR = 3600, DAY = 86400, WEEK = 7 * DAY };

struct moment {
    size_t entity;
    int64_t time;
};

struct scan {
    struct halay_log *log;
    struct tft_dictionary ids;
    struct moment *moments; /* owned */
    size_t count, size;
    int counts;            /* ds is a whole number */
    struct tft_zone *zone; /* owned; NULL: none */
    json_t *zone_document; /* owned: its rules */
    int64_t first, last;
    struct tft_period every;
    char every_text[24];
};

/* ---- read ---- */

static enum halay_status no_memory(const struct scan *s)
{
    halay_error(s->log, "no memory for the times of the table");
    return HALAY_ERR_NO_MEMORY;
}

static enum halay_status add_moment(struct scan *s, const char *id, int64_t time)
{
    size_t entity;

    if (s->count == s->size) {
        size_t size = s->size ? 2 * s->size : 1024;
        struct moment *moments = realloc(s->moments, size * sizeof *moments);
        if (!moments)
            return no_memory(s);
        s->moments = moments;
        s->size = size;
    }
    if (tft_dictionary_add(&s->ids, id, &entity))
        return no_memory(s);
    s->first = !s->count || time < s->first ? time : s->first;
    s->last = !s->count || time > s->last ? time : s->last;
    s->moments[s->count++] = (struct moment){ entity, time };
    return HALAY_OK;
}

static enum halay_status scan_row(struct scan *s, const char *path, size_t row, const char *id, const char *text)
{
    int64_t time;
    int is_utc = 0;

    if (!s->count) /* the first row decides */
        s->counts = !tft_time_parse_integer(text, &time);
    if (!(s->counts ? tft_time_parse_integer(text, &time) : tft_time_parse_clock(text, NULL, &time, &is_utc)))
        return add_moment(s, id, s->zone && is_utc ? time + tft_zone_offset(s->zone, time) : time);
    halay_error(s->log, "file '%s', row %zu, column 'ds': '%.64s' is not %s", path, row, text,
                s->counts ? "a whole number, as the first row's is" : "a time like 2017-08-01 01:00:00");
    return HALAY_ERR_FORMAT;
}

static enum halay_status scan_file(struct scan *s, const char *path)
{
    size_t id, ds, y;
    struct tft_csv *csv;
    char **fields;
    int end = 0;
    enum halay_status status = tft_csv_open(s->log, path, ',', &csv);

    if (status)
        return status;
    status = tft_csv_find_column(csv, "unique_id", &id);
    if (!status)
        status = tft_csv_find_column(csv, "ds", &ds);
    if (!status)
        status = tft_csv_find_column(csv, "y", &y);
    while (!status && !end) {
        status = tft_csv_next(csv, &fields, &end);
        if (!status && !end)
            status = scan_row(s, path, tft_csv_row(csv), fields[id], fields[ds]);
    }
    tft_csv_close(csv);
    return status;
}

/* ---- the step ---- */

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->entity != y->entity)
        return x->entity < y->entity ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

/* The shortest step in some unit between rows of an entity; 0 if they do not fit it, or there are no two. */
static int64_t shortest(const struct scan *s, const struct tft_period *unit)
{
    int64_t least = 0;

    for (size_t i = 1; i < s->count; i++) {
        const struct moment *a = &s->moments[i - 1], *b = &s->moments[i];
        if (a->entity != b->entity || a->time == b->time)
            continue;
        int64_t n = tft_period_between(unit, a->time, b->time);
        if (tft_period_add(unit, a->time, n) != b->time)
            return 0;
        least = !least || n < least ? n : least;
    }
    return least;
}

static int has_weekends(const struct scan *s)
{
    struct tft_date date;

    for (size_t i = 0; i < s->count; i++) {
        tft_time_to_date(s->moments[i].time, &date);
        if (date.day_of_week >= 5)
            return 1;
    }
    return 0;
}

static void set_step(struct scan *s, int64_t number, const char *unit)
{
    snprintf(s->every_text, sizeof s->every_text, "%lld%s", (long long)number, unit);
}

static void set_seconds(struct scan *s, int64_t seconds)
{
    static const struct {
        int seconds;
        const char *unit;
    } units[] = { { WEEK, "w" }, { DAY, "d" }, { HOUR, "h" }, { MINUTE, "min" }, { 1, "s" } };
    size_t i = 0;

    while (seconds % units[i].seconds)
        i++;
    set_step(s, seconds / units[i].seconds, units[i].unit);
}

static enum halay_status find_step(struct scan *s)
{
    static const struct tft_period month = { TFT_PERIOD_MONTHS, 1 };
    int64_t least, months;

    if (s->count)
        qsort(s->moments, s->count, sizeof *s->moments, compare_moments);
    least = shortest(s, &(struct tft_period){ TFT_PERIOD_INTEGER, 1 });
    if (!least) {
        halay_error(s->log, "no series has two rows with different 'ds', so the step from row to row is unknown");
        return HALAY_ERR_FORMAT;
    }
    months = !s->counts && least >= 28 * DAY ? shortest(s, &month) : 0;
    if (s->counts)
        set_step(s, least, "");
    else if (months)
        set_step(s, months, "M");
    else if (least == DAY && s->last - s->first >= WEEK && !has_weekends(s))
        set_step(s, 1, "B");
    else
        set_seconds(s, least);
    if (!tft_period_parse(s->every_text, &s->every))
        return HALAY_OK;
    halay_error(s->log, "the step from row to row, %s, is too long", s->every_text);
    return HALAY_ERR_FORMAT;
}

/* ---- the document ---- */

/* What the window and the calendar are for steps of some length. */
struct habit {
    size_t encoder, horizon;
    const char *calendar[5]; /* inputs, ended by NULL */
};

static struct habit habit_of(const struct scan *s)
{
    int64_t count = s->every.count;

    if (s->every.kind == TFT_PERIOD_INTEGER)
        return (struct habit){ 48, 12, { NULL } };
    if (s->every.kind == TFT_PERIOD_BUSINESS_DAYS)
        return (struct habit){ 60, 20, { "day_of_week", "day_of_month", "month" } };
    if (s->every.kind == TFT_PERIOD_MONTHS && count < 12) /* three years, and one */
        return (struct habit){ (size_t)((36 + count - 1) / count), (size_t)((12 + count - 1) / count), { "month" } };
    if (s->every.kind == TFT_PERIOD_MONTHS)
        return (struct habit){ 6, 2, { NULL } };
    if (count >= WEEK)
        return (struct habit){ 52, 13, { "week" } };
    if (count >= DAY)
        return (struct habit){ 84, 28, { "day_of_week", "day_of_month", "month" } };
    size_t day = (size_t)(DAY / count) < 168 ? (size_t)(DAY / count) : 168;
    if (count % HOUR)
        return (struct habit){ 7 * day, day, { "minute", "hour", "day_of_week", "month" } };
    return (struct habit){ 7 * day, day, { "hour", "day_of_week", "month" } };
}

static json_t *make_inputs(const struct habit *habit)
{
    json_t *inputs = json_pack("{s{ss ss ss ss ss} s{ss ss} s{ss ss ss}}", "y", "column", "y", "role", "target", "fill",
                               "interpolate", "per", "auto", "blend", "season", "steps", "calendar", "steps", "role",
                               "known", "unique_id", "from", "id", "role", "static", "type", "category");

    for (size_t i = 0; inputs && habit->calendar[i]; i++)
        json_object_set_new(inputs, habit->calendar[i],
                            json_pack("{ss ss}", "calendar", habit->calendar[i], "role", "known"));
    return inputs;
}

/* "< 2017-08-01 00:00:00": the moment n steps after the first. */
static json_t *make_bound(const struct scan *s, const char *relation, int64_t n)
{
    int64_t moment = tft_period_add(&s->every, s->first, n);
    char time[32];

    if (s->counts)
        snprintf(time, sizeof time, "%lld", (long long)moment);
    else
        tft_time_print(moment, time, sizeof time);
    return json_sprintf("%s %s", relation, time);
}

/* The last tenth of the time is for the test, the tenth before it for validation; each is at least a horizon. */
static enum halay_status make_split(const struct scan *s, size_t horizon, json_t **split)
{
    int64_t steps = tft_period_between(&s->every, s->first, s->last) + 1, held = steps / 10;

    held = held > (int64_t)horizon ? held : (int64_t)horizon;
    if (steps < 3 * held + 1) {
        halay_error(s->log,
                    "the table spans %lld steps (%s each); to train, validate and test with a horizon of %zu it needs "
                    "%lld ('--horizon' sets a shorter one)",
                    (long long)steps, s->every_text, horizon, (long long)(3 * held + 1));
        return HALAY_ERR_FORMAT;
    }
    *split = json_pack("{so so so}", "train", make_bound(s, "<", steps - 2 * held), "valid",
                       make_bound(s, "<", steps - held), "test", make_bound(s, "<=", steps - 1));
    return HALAY_OK;
}

static enum halay_status make_schema(const struct scan *s, const struct tft_preset *preset, struct tft_schema *schema)
{
    const struct habit habit = habit_of(s);
    size_t horizon = preset->horizon ? preset->horizon : habit.horizon;
    size_t encoder = preset->encoder ? preset->encoder : habit.encoder;
    json_t *split = NULL, *time;
    enum halay_status status = make_split(s, horizon, &split);

    if (status)
        return status;
    time = s->counts ? json_pack("{ss sb}", "column", "ds", "integer", 1) : json_pack("{ss}", "column", "ds");
    json_t *document = json_pack("{ss s{ss} so ss so s{sI sI sI} so}", "name", "long", "id", "column", "unique_id",
                                 "time", time, "every", s->every_text, "inputs", make_inputs(&habit), "window",
                                 "encoder", (json_int_t)encoder, "horizon", (json_int_t)horizon, "min_encoder",
                                 (json_int_t)(encoder < horizon ? encoder : horizon), "split", split);
    if (!document || (s->zone && json_object_set(document, "zone", s->zone_document))) {
        halay_error(s->log, "no memory for the schema");
        json_decref(document);
        return HALAY_ERR_NO_MEMORY;
    }
    status = tft_schema_init(s->log, "preset 'long'", document, schema);
    json_decref(document);
    return status;
}

static enum halay_status take_zone(struct scan *s, const char *name)
{
    static const char where[] = "preset 'long'";
    enum halay_status status = tft_zone_load(s->log, where, TFT_ZONES_FOLDER, name, &s->zone_document);

    return status ? status : tft_zone_create(s->log, where, s->zone_document, &s->zone);
}

enum halay_status tft_preset_long(struct halay_log *log, const char *const *paths, size_t path_count,
                                  const struct tft_preset *preset, struct tft_schema *schema)
{
    struct scan s = { .log = log };
    struct tft_paths files = { 0 };
    enum halay_status status = tft_paths_expand(log, paths, path_count, NULL, &files);

    if (!status && preset->zone)
        status = take_zone(&s, preset->zone);
    for (size_t i = 0; i < files.count && !status; i++)
        status = scan_file(&s, files.list[i]);
    if (!status)
        status = find_step(&s);
    if (!status)
        status = make_schema(&s, preset, schema);
    free(s.moments);
    tft_zone_destroy(s.zone);
    json_decref(s.zone_document);
    tft_dictionary_fini(&s.ids);
    tft_paths_fini(&files);
    return status;
}
