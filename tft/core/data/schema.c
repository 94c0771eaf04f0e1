/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: from a checked document to a struct.
 *
 * Each section of the document has a function; the inputs have a file of their own (schema_inputs.c). The struct
 * borrows its texts from the document that it holds. Cleanup: zeroed first, fini accepts partly built; on error the
 * caller's struct is left alone.
 */
#include "tft/core/data/schema.h"
#include "base/document.h"
#include "base/memory.h"
#include "tft/core/data/document_reader.h"
#include "tft/core/model/tft.h"
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct tft_schema, member)

const char *const tft_split_names[] = { "train", "valid", "test", NULL };

/* An expander of repeats such as glibc's copies what is repeated: `(((a{9}){9}){9})` is 729 times a, and 75 plus signs
 * in a row fill all memory. Their product bounds the copies. */
#define REPEATS_MAX 10000

static int repeats_too_much(const char *pattern)
{
    size_t copies = 1;

    for (const char *at = pattern; *at && copies <= REPEATS_MAX; at++)
        if (strchr("*+?", *at))
            copies *= 2;
        else if (*at == '{') {
            const char *most = at + 1 + strspn(at + 1, "0123456789");
            most = *most == ',' ? most + 1 : at + 1;
            size_t times = strtoul(most, NULL, 10), least = strtoul(at + 1, NULL, 10);
            times = times > least ? times : least;
            copies *= times > REPEATS_MAX ? REPEATS_MAX + 1 : times + 1;
        }
    return copies > REPEATS_MAX;
}

static enum halay_status check_pattern(const struct tft_where *w, const char *pattern)
{
    regex_t regex;

    if (repeats_too_much(pattern))
        return tft_where_wrong(w, "pattern", "a regular expression whose repeats multiply to 10000 at most");
    if (regcomp(&regex, pattern, REG_EXTENDED))
        return tft_where_wrong(w, "pattern", "a regular expression");
    size_t groups = regex.re_nsub;
    regfree(&regex);
    return groups == 1 ? HALAY_OK : tft_where_wrong(w, "pattern", "a regular expression with one (group)");
}

struct id {
    const char *from, *pattern, *column, *columns, *constant;
};

static const struct tft_member id_members[] = {
    TFT_MEMBER("from", TEXT, offsetof(struct id, from)),
    TFT_MEMBER("pattern", TEXT, offsetof(struct id, pattern)),
    TFT_MEMBER("column", TEXT_OR_EMPTY, offsetof(struct id, column)),
    TFT_MEMBER("columns", TEXT, offsetof(struct id, columns)),
    TFT_MEMBER("constant", TEXT, offsetof(struct id, constant)),
    TFT_MEMBERS_END,
};

static enum halay_status read_id(const struct tft_where *outer, const json_t *document, struct tft_schema *s)
{
    struct id id = { 0 };
    const struct tft_where w = tft_where_inside(outer, "id", NULL);
    enum halay_status status = tft_section_read(outer, document, "id", 1, id_members, &id);

    if (status)
        return status;
    s->id_pattern = id.pattern;
    s->id_column = id.column;
    s->id_constant = id.constant;
    const size_t keys = json_object_size(json_object_get(document, "id"));
    const int is_filename = id.from || id.pattern;
    if (id.constant && keys == 1)
        s->id_kind = TFT_ID_CONSTANT;
    else if (id.column && !is_filename && !id.columns)
        s->id_kind = TFT_ID_COLUMN;
    else if (id.columns && !strcmp(id.columns, "header") && !is_filename && !id.column)
        s->id_kind = TFT_ID_HEADER;
    else if (id.from && !strcmp(id.from, "filename") && id.pattern && keys == 2)
        s->id_kind = TFT_ID_FILENAME;
    else
        return halay_fail(w.log, HALAY_ERR_CONFIG,
                          "%s: give {from: filename, pattern: \"^(.*)_hourly\"}, {column: NAME}, {columns: header} or "
                          "{constant: NAME}",
                          w.text);
    return s->id_kind == TFT_ID_FILENAME ? check_pattern(&w, s->id_pattern) : HALAY_OK;
}

static enum halay_status read_time_columns(const struct tft_where *w, const json_t *time, struct tft_schema *s)
{
    const json_t *columns = json_object_get(time, "columns");

    if (!json_is_array(columns) || !json_array_size(columns) || json_array_size(columns) > TFT_TIME_COLUMNS_MAX)
        return tft_where_wrong(w, "columns", "a list of names like [year, month, day, hour]");
    for (size_t i = 0; i < json_array_size(columns); i++) {
        s->time_columns[i] = json_string_value(json_array_get(columns, i));
        if (!s->time_columns[i])
            return tft_where_wrong(w, "columns", "a list of names like [year, month, day, hour]");
    }
    s->time_column_count = json_array_size(columns);
    if (!s->time_format && s->time_column_count > 6)
        return tft_where_wrong(w, "columns", "year, month, day, hour, minute, second, as far as they go");
    s->time_kind = s->time_format ? TFT_TIME_TEXT : TFT_TIME_PARTS;
    return HALAY_OK;
}

static const struct tft_member time_members[] = {
    TFT_MEMBER("column", TEXT_OR_EMPTY, AT(time_columns)),
    TFT_KEY("columns"),
    TFT_MEMBER("format", TEXT, AT(time_format)),
    TFT_MEMBER("integer", TRUTH, AT(time_is_integer)),
    TFT_MEMBERS_END,
};

static enum halay_status read_time_section(const struct tft_where *outer, const json_t *document, struct tft_schema *s)
{
    const struct tft_where w = tft_where_inside(outer, "time", NULL);
    const json_t *time = json_object_get(document, "time");
    enum halay_status status = tft_section_read(outer, document, "time", 0, time_members, s);

    s->time_kind = TFT_TIME_NONE;
    if (status || !time)
        return status;
    if (s->time_format && !tft_time_format_is_valid(s->time_format))
        return tft_where_wrong(
            &w, "format",
            "made of %Y %y %m %b %d %e %j %H %I %p %M %S %f %F %T %D %s %z %Z %a and plain characters, "
            "with the year");
    if (!s->time_columns[0] == !json_object_get(time, "columns"))
        return tft_where_wrong(&w, "column",
                               "the name of the column that holds the time (or 'columns' a list of several)");
    if (s->time_is_integer && (s->time_format || !s->time_columns[0]))
        return tft_where_wrong(&w, "integer", "with one 'column' and no 'format'");
    if (!s->time_columns[0])
        return read_time_columns(&w, time, s);
    s->time_column_count = 1;
    s->time_kind = s->time_is_integer ? TFT_TIME_INTEGER : TFT_TIME_TEXT;
    return HALAY_OK;
}

/* Reads the zone. A name is replaced by the zone's rules, so that a run has them on any host. */
static enum halay_status read_zone(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    const json_t *zone = json_object_get(document, "zone");
    json_t *loaded;

    if (!zone)
        return HALAY_OK;
    if (tft_schema_counts(s))
        return tft_where_wrong(w, "zone", "left out where time is a whole number");
    if (json_is_string(zone)) {
        enum halay_status status = tft_zone_load(w->log, w->text, TFT_ZONES_FOLDER, json_string_value(zone), &loaded);
        if (status)
            return status;
        if (json_object_set_new((json_t *)document, "zone", loaded))
            return halay_no_memory(w->log, "for a time zone");
        zone = loaded;
    }
    return tft_zone_create(w->log, w->text, zone, &s->zone);
}

/* Returns nonzero for steps below a day: days begin by the clock, hours are counted alike everywhere. */
static int is_below_a_day(const struct tft_period *step)
{
    return step->kind == TFT_PERIOD_SECONDS && step->count % 86400;
}

/* Chooses the clocks. Rows that are resampled are in UTC, too, unless the schema declares them to be days. */
static void choose_clocks(struct tft_schema *s)
{
    const struct tft_period *rows = s->resampling ? &s->rows_every : &s->every;

    s->is_in_utc = s->zone && is_below_a_day(&s->every);
    s->rows_are_in_utc = s->zone && (s->is_in_utc || !rows->count || is_below_a_day(rows));
}

/* Reads a step, given as a text or as a whole number, that fits how time is counted. */
static enum halay_status read_step(const struct tft_where *w, const json_t *object, struct tft_schema *s)
{
    const json_t *value = json_object_get(object, "every");
    char number[32];
    const char *text = json_string_value(value);
    int counts = tft_schema_counts(s);

    if (!value)
        return HALAY_OK;
    if (json_is_integer(value)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        text = number;
    }
    if (!text || tft_period_parse(text, &s->every) || counts != (s->every.kind == TFT_PERIOD_INTEGER))
        return tft_where_wrong(w, "every",
                               counts ? "a whole number of steps (time is a whole number here)"
                                      : "a step like 30s, 15min, 1h, 1d, 1w, 1M (calendar month), 1B (business day) or "
                                        "1h 08:00-16:00 (of each day; with B after it of each business day)");
    if (s->every.kind == TFT_PERIOD_HOURS && s->zone)
        return tft_where_wrong(w, "every", "a step without hours of the day where there is a zone");
    return HALAY_OK;
}

static const struct tft_member resample_members[] = {
    TFT_KEY("every"),
    TFT_MEMBER("how", WORD, 0, .words = TFT_WORDS("mean", "sum", "last")),
    TFT_MEMBERS_END,
};

static enum halay_status read_resample(const struct tft_where *outer, const json_t *document, struct tft_schema *s)
{
    const struct tft_where w = tft_where_inside(outer, "resample", NULL);
    const json_t *resample = json_object_get(document, "resample");
    int how = 0;
    enum halay_status status = tft_section_read(outer, document, "resample", 0, resample_members, &how);

    if (status || !resample)
        return status;
    if (json_object_get(resample, "every"))
        s->rows_every = s->every;
    if ((status = read_step(&w, resample, s)))
        return status;
    if (s->every.kind == TFT_PERIOD_HOURS)
        return tft_where_wrong(&w, "every", "a step without hours of the day");
    s->resampling = (enum tft_resampling)(TFT_RESAMPLE_MEAN + how);
    return HALAY_OK;
}

static enum halay_status read_every(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    enum halay_status status;

    if ((status = read_step(w, document, s)) || (status = read_resample(w, document, s)))
        return status;
    if (!s->every.count && tft_schema_counts(s))
        s->every = (struct tft_period){ .kind = TFT_PERIOD_INTEGER, .count = 1 };
    if (!s->every.count)
        return tft_where_wrong(w, "every", "given: a step like 30s, 15min, 1h, 1d, 1w, 1M or 1B");
    choose_clocks(s);
    return HALAY_OK;
}

/* A number, or a list of them. */
static enum halay_status read_season(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    const json_t *value = json_object_get(document, "season");
    size_t count = json_is_array(value) ? json_array_size(value) : 1;

    if (!value) {
        s->season_count = tft_period_seasons(&s->every, s->seasons);
        return HALAY_OK;
    }
    for (size_t i = 0; i < count && count <= TFT_SEASONS_MAX; i++) {
        const json_t *season = json_is_array(value) ? json_array_get(value, i) : value;
        json_int_t steps = json_integer_value(season), least = i ? (json_int_t)s->seasons[i - 1] + 1 : 1;
        if (!json_is_integer(season) || steps < least || steps > TFT_SEASON_LONGEST)
            count = 0;
        else
            s->seasons[i] = (size_t)steps;
    }
    if (!count || count > TFT_SEASONS_MAX)
        return tft_where_wrong(
            w, "season",
            "a number of steps like 24, or an ascending list of at most 4 like [24, 168], each from 1 to 1000000");
    s->season_count = count;
    return HALAY_OK;
}

/* A moment of the span. */
static int read_moment(const struct tft_schema *s, const json_t *value, int64_t *moment)
{
    if (tft_schema_counts(s) && json_is_integer(value)) {
        *moment = json_integer_value(value);
        return *moment > -((int64_t)1 << 40) && *moment < (int64_t)1 << 40;
    }
    return json_is_string(value) && !tft_schema_read_moment(s, json_string_value(value), 1, moment);
}

static const char *moment_example(const struct tft_schema *s)
{
    return tft_schema_counts(s) ? "two whole numbers" : "two moments like 2013-06-01 01:00";
}

static enum halay_status read_span(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    const json_t *span = json_object_get(document, "span");

    if (!span)
        return HALAY_OK;
    if (!json_is_array(span) || json_array_size(span) != 2)
        return tft_where_wrong(w, "span", "[first moment, last moment]");
    for (size_t i = 0; i < 2; i++)
        if (!read_moment(s, json_array_get(span, i), &s->span[i]))
            return tft_where_wrong(w, "span", moment_example(s));
    s->has_span = 1;
    return s->span[0] <= s->span[1] ? HALAY_OK : tft_where_wrong(w, "span", "in order: first moment, last moment");
}

static enum halay_status read_missing(const struct tft_where *w, const json_t *csv, struct tft_schema *s)
{
    const json_t *missing = json_object_get(csv, "missing");

    if (!missing)
        return HALAY_OK;
    if (!json_is_array(missing) || json_array_size(missing) > TFT_MISSING_MAX)
        return tft_where_wrong(w, "missing", "a list of at most 16 texts");
    for (size_t i = 0; i < json_array_size(missing); i++) {
        s->missing[i] = json_string_value(json_array_get(missing, i));
        if (!s->missing[i])
            return tft_where_wrong(w, "missing", "a list of texts (put numbers into quotes)");
        s->missing[i + 1] = NULL;
    }
    return HALAY_OK;
}

static const struct tft_member csv_members[] = {
    TFT_MEMBER("separator", CHAR, AT(separator)),
    TFT_MEMBER("decimal", CHAR, AT(decimal)),
    TFT_KEY("missing"),
    TFT_MEMBERS_END,
};

static enum halay_status read_csv(const struct tft_where *outer, const json_t *document, struct tft_schema *s)
{
    const struct tft_where w = tft_where_inside(outer, "csv", NULL);
    enum halay_status status = tft_section_read(outer, document, "csv", 0, csv_members, s);

    if (status)
        return status;
    if (s->decimal != '.' && s->decimal != ',')
        return tft_where_wrong(&w, "decimal", "\".\" or \",\"");
    if (s->decimal == s->separator)
        return tft_where_wrong(&w, "decimal", "another character than 'separator'");
    return read_missing(&w, json_object_get(document, "csv"), s);
}

static const struct tft_member window_members[] = {
    TFT_MEMBER("encoder", STEPS, AT(encoder), .most = TFT_STEPS_MAX, .missing = "given"),
    TFT_MEMBER("horizon", STEPS, AT(horizon), .most = TFT_STEPS_MAX, .missing = "given"),
    TFT_MEMBER("stride", STEPS, AT(stride), .most = TFT_STEPS_MAX),
    TFT_KEY("min_encoder"),
    TFT_MEMBERS_END,
};

static enum halay_status read_window(const struct tft_where *outer, const json_t *document, struct tft_schema *s)
{
    const struct tft_where w = tft_where_inside(outer, "window", NULL);
    enum halay_status status = tft_section_read(outer, document, "window", 1, window_members, s);

    if (status)
        return status;
    const struct tft_member least = TFT_MEMBER("min_encoder", STEPS, AT(min_encoder), .most = (double)s->encoder);
    s->min_encoder = s->encoder;
    return tft_member_read(&w, json_object_get(document, "window"), &least, s);
}

/* "< 2017-08-01" or "<= 2017-07-31 23:00". */
static enum halay_status read_bound(const struct tft_where *w, const struct tft_schema *s, const char *key,
                                    const char *text, int64_t *end)
{
    int inclusive = text[0] == '<' && text[1] == '=';

    if (text[0] == '<') {
        text += 1 + inclusive;
        text += strspn(text, " ");
        if (!tft_schema_read_moment(s, text, 0, end)) {
            *end += inclusive;
            return HALAY_OK;
        }
    }
    return tft_where_wrong(w, key, tft_schema_counts(s) ? "like \"< 3624\"" : "like \"< 2017-08-01\"");
}

/* Reads "last horizon", "last 3 horizons", "last 30 steps" as a number of steps; 0: another format. */
static size_t last_steps(const char *text, size_t horizon)
{
    size_t n = 0, digits;

    if (strncmp(text, "last ", 5))
        return 0;
    text += 5;
    digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits && n < TFT_STEPS_MAX; i++)
        n = 10 * n + (size_t)(text[i] - '0');
    text += digits + (digits && text[digits] == ' ');
    const int is_steps = !strncmp(text, "step", 4);
    if ((!is_steps && strncmp(text, "horizon", 7)) || n >= TFT_STEPS_MAX || (digits && !n))
        return 0;
    text += is_steps ? 4 : 7;
    if (strcmp(text, *text == 's' ? "s" : ""))
        return 0;
    return (digits ? n : 1) * (is_steps ? 1 : horizon);
}

/* Reads a split by entity: validation and test are the last steps of each entity; training is the rest. */
static enum halay_status read_entity_split(const struct tft_where *w, const json_t *split, struct tft_schema *s)
{
    size_t left = 0;

    for (int i = TFT_SPLIT_COUNT; i-- > 0;) {
        const json_t *given = json_object_get(split, tft_split_names[i]);
        const char *text = json_string_value(given);
        size_t n = text && i != TFT_TRAIN ? last_steps(text, s->horizon) : 0;
        if (given && !n)
            return tft_where_wrong(w, tft_split_names[i],
                                   i == TFT_TRAIN ? "left out where others are each entity's last steps"
                                                  : "like \"last 3 horizons\" or \"last 30 steps\", as the others are");
        s->has_split[i] = n || i == TFT_TRAIN;
        s->split_left[i] = left;
        left += n;
    }
    s->splits_by_entity = 1;
    return HALAY_OK;
}

static int is_by_entity(const json_t *split)
{
    for (int i = 0; i < TFT_SPLIT_COUNT; i++) {
        const char *text = json_string_value(json_object_get(split, tft_split_names[i]));
        if (text && !strncmp(text, "last", 4))
            return 1;
    }
    return 0;
}

/* Validation and test begin where the split before them ends. */
static enum halay_status read_bounds(const struct tft_where *w, const json_t *split, struct tft_schema *s)
{
    int64_t last = INT64_MIN;
    enum halay_status status;

    for (int i = 0; i < TFT_SPLIT_COUNT; i++) {
        const char *text = json_string_value(json_object_get(split, tft_split_names[i]));
        if (!text)
            continue;
        if ((status = read_bound(w, s, tft_split_names[i], text, &s->split_end[i])))
            return status;
        s->has_split[i] = 1;
        if (s->split_end[i] <= last)
            return tft_where_wrong(w, tft_split_names[i], "after the split before it");
        last = s->split_end[i];
    }
    return s->has_split[TFT_TRAIN] ? HALAY_OK : tft_where_wrong(w, "train", "given, like \"< 2017-08-01\"");
}

struct split {
    const char *ends[TFT_SPLIT_COUNT]; /* read again, in order */
    int context;
};

static const struct tft_member split_members[] = {
    TFT_MEMBER("train", TEXT, offsetof(struct split, ends[TFT_TRAIN])),
    TFT_MEMBER("valid", TEXT, offsetof(struct split, ends[TFT_VALID])),
    TFT_MEMBER("test", TEXT, offsetof(struct split, ends[TFT_TEST])),
    TFT_MEMBER("context", WORD, offsetof(struct split, context), .words = TFT_WORDS("before", "none")),
    TFT_MEMBERS_END,
};

static enum halay_status read_split(const struct tft_where *outer, const json_t *document, struct tft_schema *s)
{
    struct split split = { .context = 0 };
    const struct tft_where w = tft_where_inside(outer, "split", NULL);
    const json_t *object = json_object_get(document, "split");
    enum halay_status status = tft_section_read(outer, document, "split", 1, split_members, &split);

    s->context_before = !split.context;
    if (status)
        return status;
    return is_by_entity(object) ? read_entity_split(&w, object, s) : read_bounds(&w, object, s);
}

static enum halay_status check_file_patterns(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    const char *should = "a list of patterns like [\"*_hourly.csv.gz\"]";

    (void)document;
    if (s->files && !json_is_array(s->files))
        return tft_where_wrong(w, "files", should);
    for (size_t i = 0; i < json_array_size(s->files); i++)
        if (!json_is_string(json_array_get(s->files, i)))
            return tft_where_wrong(w, "files", should);
    return HALAY_OK;
}

static const struct tft_member document_members[] = {
    TFT_MEMBER("name", TEXT, AT(name)),
    TFT_MEMBER("files", VALUE, AT(files)),
    TFT_KEY("id"),
    TFT_KEY("time"),
    TFT_KEY("zone"),
    TFT_KEY("every"),
    TFT_KEY("season"),
    TFT_KEY("span"),
    TFT_MEMBER("duplicates", WORD, AT(duplicates), .words = TFT_WORDS("mean", "first", "last", "error")),
    TFT_MEMBER("active", WORD, AT(trim), .words = TFT_WORDS("all", "trim")),
    TFT_MEMBER("gaps", WORD, AT(fills_gaps), .words = TFT_WORDS("few", "fill")),
    TFT_KEY("resample"),
    TFT_KEY("inputs"),
    TFT_KEY("window"),
    TFT_KEY("split"),
    TFT_KEY("csv"),
    TFT_MEMBERS_END,
};

static enum halay_status read_all(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    static enum halay_status (*const sections[])(const struct tft_where *, const json_t *, struct tft_schema *) = {
        check_file_patterns, read_id,   read_time_section, read_zone,   read_every,
        read_season,         read_span, read_csv,          read_window, tft_schema_read_inputs,
        read_split,
    };
    enum halay_status status = tft_members_read(w, document, document_members, s);

    for (size_t i = 0; i < sizeof sections / sizeof *sections && !status; i++)
        status = sections[i](w, document, s);
    return status;
}

enum halay_status tft_schema_init(struct halay_log *log, const char *where, json_t *document, struct tft_schema *schema)
{
    struct tft_where w = { .log = log };
    struct tft_schema s = { .name = "data",
                            .duplicates = TFT_DUPLICATES_ERROR,
                            .separator = ',',
                            .decimal = '.',
                            .missing = { "" },
                            .stride = 1 };

    snprintf(w.text, sizeof w.text, "%.200s", where);
    enum halay_status status = read_all(&w, document, &s);
    if (status) {
        tft_schema_fini(&s);
        return status;
    }
    s.document = json_incref(document);
    *schema = s;
    return HALAY_OK;
}

static enum halay_status parse_text(struct halay_log *log, const char *text, json_t **document)
{
    const char *given = text ? text : "";
    const int is_json = given[strspn(given, " \t\r\n")] == '{';

    return halay_document_parse(log, "schema", given, strlen(given), is_json, NULL, document);
}

enum halay_status tft_schema_document(struct halay_log *log, const char *path, const char *text,
                                      char where[TFT_SCHEMA_WHERE], json_t **document)
{
    enum halay_status status = path ? halay_document_load(log, path, NULL, document) : parse_text(log, text, document);

    if (status)
        return status;
    snprintf(where, TFT_SCHEMA_WHERE, path ? "schema '%.200s'" : "schema", path);
    status = tft_schema_take_files(log, path ? path : "./schema", *document);
    if (!status)
        return HALAY_OK;
    json_decref(*document);
    *document = NULL;
    return status;
}

enum halay_status tft_schema_load(struct halay_log *log, const char *path, struct tft_schema *schema)
{
    char where[TFT_SCHEMA_WHERE];
    json_t *document;
    enum halay_status status = tft_schema_document(log, path, NULL, where, &document);

    if (status)
        return status;
    status = tft_schema_init(log, where, document, schema);
    json_decref(document);
    return status;
}

void tft_schema_fini(struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++)
        tft_holidays_fini(&schema->inputs[i].holidays);
    tft_zone_destroy(schema->zone);
    json_decref(schema->document);
    *schema = (struct tft_schema){ 0 };
}

enum tft_split tft_schema_split_before(const struct tft_schema *schema, enum tft_split split)
{
    for (int i = (int)split - 1; i >= 0; i--)
        if (schema->has_split[i])
            return (enum tft_split)i;
    return TFT_SPLIT_COUNT;
}

int64_t tft_schema_split_begin(const struct tft_schema *schema, enum tft_split split)
{
    const enum tft_split before = tft_schema_split_before(schema, split);

    return before == TFT_SPLIT_COUNT ? INT64_MIN : schema->split_end[before];
}

/* ---- clocks ---- */

/* Schema: by which clock its moments are counted, and what they are by another one. */

int tft_schema_counts(const struct tft_schema *schema)
{
    return schema->time_kind == TFT_TIME_INTEGER || schema->time_kind == TFT_TIME_NONE;
}

static void print_time(const struct tft_schema *schema, int in_utc, int64_t time, char *text, size_t size)
{
    if (tft_schema_counts(schema))
        snprintf(text, size, "%lld", (long long)time);
    else if (in_utc)
        tft_time_print_offset(time, tft_zone_offset(schema->zone, time), text, size);
    else
        tft_time_print(time, text, size);
}

void tft_schema_print_time(const struct tft_schema *schema, int64_t time, char *text, size_t size)
{
    print_time(schema, schema->is_in_utc, time, text, size);
}

void tft_schema_print_row_time(const struct tft_schema *schema, int64_t time, char *text, size_t size)
{
    print_time(schema, schema->rows_are_in_utc, time, text, size);
}

int64_t tft_schema_clock(const struct tft_schema *schema, int64_t time)
{
    return schema->is_in_utc ? time + tft_zone_offset(schema->zone, time) : time;
}

int64_t tft_schema_row_clock(const struct tft_schema *schema, int64_t time)
{
    return schema->rows_are_in_utc ? time + tft_zone_offset(schema->zone, time) : time;
}

static enum tft_passes to_moment(const struct tft_zone *zone, int in_utc, int64_t time, int is_utc, int64_t *moment)
{
    enum { DAY_SECONDS = 86400 };
    int64_t utc[2];

    *moment = time;
    if (!zone || (is_utc && in_utc) || (!is_utc && !in_utc))
        return TFT_PASSED_ONCE;
    if (is_utc) {
        *moment = time + tft_zone_offset(zone, time);
        return TFT_PASSED_ONCE;
    }
    size_t n = tft_zone_moments(zone, time, utc);
    *moment = n ? utc[0] : time - tft_zone_offset(zone, time - 2 * DAY_SECONDS);
    if (n == 1)
        return TFT_PASSED_ONCE;
    return n ? TFT_PASSED_TWICE : TFT_SKIPPED;
}

enum tft_passes tft_schema_row_moment(const struct tft_schema *schema, int64_t time, int is_utc, int64_t *moment)
{
    return to_moment(schema->zone, schema->rows_are_in_utc, time, is_utc, moment);
}

int64_t tft_schema_second_moment(const struct tft_schema *schema, int64_t moment)
{
    int64_t utc[2];

    return tft_zone_moments(schema->zone, tft_schema_row_clock(schema, moment), utc) == 2 ? utc[1] : moment;
}

enum halay_status tft_schema_read_moment(const struct tft_schema *schema, const char *text, int of_row, int64_t *moment)
{
    int64_t time;
    int is_utc = 0;

    if (tft_schema_counts(schema))
        return tft_time_parse_integer(text, moment);
    if (schema->zone ? tft_time_parse_clock(text, NULL, &time, &is_utc) : tft_time_parse_moment(text, &time))
        return HALAY_ERR_FORMAT;
    to_moment(schema->zone, of_row ? schema->rows_are_in_utc : schema->is_in_utc, time, is_utc, moment);
    return HALAY_OK;
}
