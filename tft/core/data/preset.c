/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: reads the ids and times of all rows. preset_step.c finds the step, preset_schema.c makes the schema.
 */
#include "base/memory.h"
#include "tft/core/data/preset_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tft_where tft_preset_where(const struct tft_preset_scan *s)
{
    struct tft_where w = { .log = s->log };

    snprintf(w.text, sizeof w.text, "%.200s", s->where);
    return w;
}

int tft_preset_says(const json_t *object, const char *key, const char *text)
{
    const char *given = json_string_value(json_object_get(object, key));

    return given && !strcmp(given, text);
}

void tft_preset_print_moment(const struct tft_preset_scan *s, int64_t time, char text[32])
{
    if (s->counts)
        snprintf(text, 32, "%lld", (long long)time);
    else
        tft_time_print(time, text, 32);
}

/* ---- read ---- */

enum halay_status tft_preset_no_memory(const struct tft_preset_scan *s)
{
    return halay_no_memory(s->log, "for the times of the table");
}

static enum halay_status add_moment(struct tft_preset_scan *s, const char *id, int64_t time, double value)
{
    size_t entity;

    if (halay_list_grow(&s->moments, s->count, &s->size, sizeof *s->moments) ||
        tft_dictionary_add(&s->ids, id, &entity) ||
        (s->counts && s->season_is_unknown && tft_kept_add(&s->kept, entity, time, value)))
        return tft_preset_no_memory(s);
    s->first = !s->count || time < s->first ? time : s->first;
    s->last = !s->count || time > s->last ? time : s->last;
    s->moments[s->count++] = (struct tft_moment){ entity, time };
    return HALAY_OK;
}

static enum halay_status not_a_time(const struct tft_preset_scan *s, const struct halay_error_place *place,
                                    const char *text)
{
    const char *expected = "a time like 2017-08-01 01:00:00";
    char advice[200] = "";

    if (s->counts && !tft_time_is_reversed(text))
        expected = "a whole number, as the first row's is";
    else if (s->format)
        expected = "a time of the schema's format";
    else
        tft_time_advise(text, advice, sizeof advice);
    return halay_fail_at(s->log, place, HALAY_ERR_FORMAT, "'%.64s' is not %s%s%s", text, expected, advice,
                         strstr(advice, "format'") ? ", or by --time-format" : "");
}

static void look_at(struct tft_preset_scan *s, size_t row, int64_t value)
{
    tft_time_look_add(&s->look, value);
    for (int i = 0; i < TFT_TIME_FORMS; i++)
        if (s->look.first_other[i] == s->look.rows) {
            s->others[i].file = s->file;
            s->others[i].row = row;
        }
}

static enum halay_status scan_row(struct tft_preset_scan *s, const struct halay_error_place *place, const char *id,
                                  const char *text, double value)
{
    int64_t time;
    int is_utc = 0;

    if (!s->count && !s->format) /* the first row decides */
        s->counts = s->integer_is_given || tft_time_read_digits(text, &time);
    if (s->counts ? !tft_time_read_digits(text, &time) || (!s->integer_is_given && tft_time_is_reversed(text))
                  : tft_time_parse_clock(text, s->format, &time, &is_utc) != 0)
        return not_a_time(s, place, text);
    if (s->counts)
        look_at(s, place->row, time);
    s->clocks |= is_utc ? 2 : 1;
    if (s->clocks == 3 && !s->zone)
        return halay_fail_at(s->log, place, HALAY_ERR_FORMAT, "'%.64s' %s", text,
                             is_utc ? TFT_TIME_HAS_OFFSET : TFT_TIME_LACKS_OFFSET);
    return add_moment(s, id, s->zone && is_utc ? time + tft_zone_offset(s->zone, time) : time, value);
}

/* Finds a column; the error for a file's missing one explains how to name another one. */
static enum halay_status find_column(const struct tft_preset_scan *s, const struct tft_reader *in, const char *name,
                                     size_t *column)
{
    char list[300] = "";

    if (in->frame || tft_reader_column_named(in, name) < in->column_count || strpbrk(name, "*?["))
        return tft_reader_find_column(in, name, column);
    for (size_t i = 0; i < in->column_count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s'%s'", i ? ", " : "", tft_reader_column(in, i));
    return halay_fail(s->log, HALAY_ERR_FORMAT,
                      "file '%s' has no column '%s' (its columns: %s); name them by --columns [ID,]TIME,VALUE",
                      in->name, name, list);
}

/* Returns the name of a target's column, or NULL. */
static const char *value_name(const struct tft_preset_scan *s)
{
    const char *value = s->y, *name;
    json_t *input;

    json_object_foreach(json_object_get(s->given, "inputs"), name, input)
        if (!value && tft_preset_says(input, "role", "target"))
            value = json_string_value(json_object_get(input, "column"));
    return value;
}

/* Opens a file, or the frame. The first file's header determines the separator of columns, unless the schema does. */
static enum halay_status open_reader(struct tft_preset_scan *s, const struct tft_table_source *tables, const char *name,
                                     struct tft_reader *in)
{
    const json_t *given = json_object_get(s->given, "csv");
    const char *separated = json_string_value(json_object_get(given, "separator"));

    if (given)
        s->separator = separated && *separated && !separated[1] ? *separated : ',';
    for (char separator = s->separator ? s->separator : ',';;) {
        enum halay_status status = tft_reader_open(s->log, tables, name, separator, in);
        if (status || in->frame)
            return status;
        const char *header = in->column_count == 1 ? tft_reader_column(in, 0) : "";
        const char *other = s->separator ? NULL : strpbrk(header, ";\t");
        s->separator = separator;
        if (!other)
            return HALAY_OK;
        s->separator = separator = *other;
        tft_reader_close(in);
    }
}

/* Returns nonzero if the commas of a number could separate thousands, as in 12,500 and 1,234,567: then their meaning is
 * unknown. */
static int may_be_thousands(const char *text)
{
    static const char digits[] = "0123456789";

    text += strspn(text, " ");
    text += *text == '-' || *text == '+';
    size_t count = strspn(text, digits);
    int is_one = *text != '0' && count >= 1 && count <= 3;
    for (text += count; is_one && *text == ','; text += count + 1) {
        count = strspn(text + 1, digits);
        is_one = count == 3;
    }
    return is_one && !text[strspn(text, " ")];
}

/* Notes the marks of a number. Where commas do not separate columns, numbers may have them instead of points. */
static void look_at_number(struct tft_preset_scan *s, const char *text)
{
    const int has_comma = strchr(text, ',') != NULL;

    s->marks |= (has_comma ? TFT_MARK_COMMA : 0) | (strchr(text, '.') ? TFT_MARK_POINT : 0);
    if (has_comma && !may_be_thousands(text))
        s->marks |= TFT_MARK_DECIMAL;
    else if (has_comma && !*s->doubtful)
        snprintf(s->doubtful, sizeof s->doubtful, "%s", text);
}

static double read_value(const char *text)
{
    double value;

    return tft_number_parse(text, '.', &value) || tft_number_parse(text, ',', &value) ? value : (double)NAN;
}

/* Fails if each comma could be either, so that the table is not read a thousand times too small. */
static enum halay_status judge_commas(const struct tft_preset_scan *s)
{
    if (s->marks != TFT_MARK_COMMA || json_object_get(s->given, "csv"))
        return HALAY_OK;
    return halay_fail(
        s->log, HALAY_ERR_FORMAT,
        "%s: is the comma of '%s' a decimal one, or does it separate thousands? All values with a comma are "
        "such; if it is decimal, say so in a schema, csv: {separator: \"%s\", decimal: \",\"}, otherwise write "
        "the values without it",
        s->where, s->doubtful, s->separator == '\t' ? "\\t" : ";");
}

/* Finds the column of ids. Files that have all the other columns, but not that one, are of one series. */
static enum halay_status find_id(struct tft_preset_scan *s, const struct tft_reader *in, size_t *id)
{
    const size_t none = in->column_count;
    const int has_id = tft_reader_column_named(in, s->id) < none;

    *id = 0;
    if (in->csv && !s->id_is_given && !s->count && !has_id && tft_reader_column_named(in, s->ds) < none &&
        (!s->y || tft_reader_column_named(in, s->y) < none))
        s->id_constant = s->y ? s->y : "y";
    if (!s->id_constant)
        return find_column(s, in, s->id, id);
    if (s->id_is_given || !has_id)
        return HALAY_OK;
    return halay_fail(s->log, HALAY_ERR_FORMAT,
                      "file '%s' has a column '%s', and a file before it does not: give that one the column, or "
                      "prepare them apart",
                      in->name, s->id);
}

/* Scans the row that was read last. value: the column of a target, which shows how numbers are written, or none. */
static enum halay_status scan_cells(struct tft_preset_scan *s, const struct tft_reader *in, size_t id, size_t ds,
                                    size_t value)
{
    const struct halay_error_place place = tft_reader_place(in, s->ds);
    const char *name = s->id_constant ? s->id_constant : tft_reader_text(in, id);
    double y = (double)NAN;

    if (tft_reader_is_time(in, ds)) {
        const int64_t time = tft_reader_time(in, ds);
        if (time == INT64_MIN)
            return scan_row(s, &place, name, "", y);
        s->counts = 0;
        return add_moment(s, name, s->zone && in->frame->times_are_utc ? time + tft_zone_offset(s->zone, time) : time,
                          y);
    }
    if (in->frame && value < in->column_count)
        y = tft_reader_number(in, value);
    if (in->csv && value < in->column_count) {
        if (s->separator != ',')
            look_at_number(s, in->fields[value]);
        y = read_value(in->fields[value]);
    }
    return scan_row(s, &place, name, tft_reader_text(in, ds), y);
}

static enum halay_status scan_table(struct tft_preset_scan *s, const struct tft_table_source *tables, const char *name)
{
    size_t id, ds, y;
    struct tft_reader in;
    int end = 0;
    enum halay_status status = open_reader(s, tables, name, &in);

    s->file = in.frame ? NULL : name;
    if (status || (status = find_id(s, &in, &id)) || (status = find_column(s, &in, s->ds, &ds)) ||
        (s->y && (status = find_column(s, &in, s->y, &y))))
        goto close;
    size_t value = tft_reader_column_named(&in, value_name(s));
    if (in.frame && value < in.column_count && !tft_reader_is_number(&in, value))
        value = in.column_count;
    while (!(status = tft_reader_next(&in, &end)) && !end)
        if ((status = scan_cells(s, &in, id, ds, value)))
            break;
close:
    tft_reader_close(&in);
    return status;
}

/* ---- whole numbers ---- */

/* Reads whole numbers that look like dates as dates. */
static enum halay_status read_as(struct tft_preset_scan *s, const char *format)
{
    char text[24];
    int64_t time;
    int is_utc;

    s->counts = 0;
    s->season_is_unknown = 0;
    s->format = format;
    for (size_t i = 0; i < s->count; i++) {
        snprintf(text, sizeof text, "%0*lld", strstr(format, "%y") ? 6 : 1, (long long)s->moments[i].time);
        if (tft_time_parse_clock(text, format, &time, &is_utc))
            return HALAY_ERR_FORMAT; /* all of them fit */
        time += s->zone && is_utc ? tft_zone_offset(s->zone, time) : 0;
        s->moments[i].time = time;
        s->first = !i || time < s->first ? time : s->first;
        s->last = !i || time > s->last ? time : s->last;
    }
    return HALAY_OK;
}

/* Checks the number of digits: rows and splits are read in at most 12 (tft_time_parse_integer). */
static enum halay_status check_counts(const struct tft_preset_scan *s)
{
    const int64_t end = 1000000000000, wrong = s->last >= end ? s->last : s->first;

    if (s->last < end && s->first > -end)
        return HALAY_OK;
    return halay_fail(s->log, HALAY_ERR_FORMAT,
                      "column '%s': %lld is not a whole number of at most 12 digits; count from a later beginning",
                      s->ds, (long long)wrong);
}

/* Warns of numbers that may be counts or times, and are read as counts. */
static void warn_of_counts(const struct tft_preset_scan *s)
{
    enum { SHEET_2000 = 36526, SHEET_2050 = 54789 }; /* days of spreadsheets, from 1899-12-30 on */

    if (tft_time_look_is_either(&s->look))
        halay_warning(s->log,
                      "column '%s' has whole numbers that go up by 1, and is read as counts; if they are seconds "
                      "since 1970, set 'format: \"%%s\"' in the schema's 'time'",
                      s->ds);
    else if (s->first >= SHEET_2000 && s->last < SHEET_2050)
        halay_warning(s->log,
                      "column '%s' has whole numbers that are read as counts; if they are days of a spreadsheet, of "
                      "which 45322 is 2024-01-31, write dates",
                      s->ds);
}

static enum halay_status judge_numbers(struct tft_preset_scan *s)
{
    int fits_all, form = s->counts && !s->integer_is_given ? tft_time_look_form(&s->look, &fits_all) : -1;

    if (form < 0) {
        if (s->counts && !s->integer_is_given)
            warn_of_counts(s);
        return s->counts && s->count ? check_counts(s) : HALAY_OK;
    }
    const struct tft_time_form *f = &tft_time_forms[form];
    if (fits_all && f->format) {
        halay_warning(s->log,
                      "column '%s' has whole numbers that look like %s, and is read as such (%s); if they are "
                      "counts, set 'integer: true' in the schema's 'time'",
                      s->ds, f->name, f->format);
        return read_as(s, f->format);
    }
    if (fits_all)
        return halay_fail(s->log, HALAY_ERR_FORMAT,
                          "column '%s' has whole numbers that look like %s, which no format reads; write %s", s->ds,
                          f->name,
                          f->in_second ? "seconds since 1970, or times like 2017-08-01 01:00:00"
                                       : "times like 2017-08-01, or set 'integer: true' in the schema's 'time' if they "
                                         "are counts");
    const struct halay_error_place place = {
        .subject = s->others[form].file, .row = s->others[form].row, .rank = -1, .is_file = s->others[form].file != NULL
    };
    return halay_fail_at(s->log, &place, HALAY_ERR_FORMAT,
                         "column '%s' has whole numbers that look like %s, but this one, %lld, does not; correct it, "
                         "or say that they are counts (in the schema, time: {column: %s, integer: true})",
                         s->ds, f->name, (long long)s->moments[s->look.first_other[form] - 1].time, s->ds);
}

/* ---- the given schema ---- */

#define AT(member) offsetof(struct tft_preset_scan, member)

static const struct tft_member id_members[] = {
    TFT_MEMBER("column", TEXT, AT(id)),
    TFT_MEMBER("constant", TEXT, AT(id_constant)),
    TFT_MEMBERS_END,
};

static enum halay_status read_id(const struct tft_where *w, struct tft_preset_scan *s)
{
    const json_t *id = json_object_get(s->given, "id");

    enum halay_status status = tft_section_read(w, s->given, "id", 0, id_members, s);

    s->id_is_given = id != NULL;
    if (!status && json_object_size(id) > 1)
        return tft_where_wrong(w, "id", "{column: NAME} or {constant: NAME}, not both");
    return status;
}

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

static const struct tft_member time_members[] = {
    TFT_MEMBER("column", TEXT, AT(ds)),
    TFT_MEMBER("integer", TRUTH, AT(integer_is_given)),
    TFT_MEMBER("format", TEXT, AT(format)),
    TFT_MEMBERS_END,
};

static enum halay_status read_time(const struct tft_where *w, struct tft_preset_scan *s)
{
    const struct tft_where inside = tft_where_inside(w, "time", NULL);
    enum halay_status status = tft_section_read(w, s->given, "time", 0, time_members, s);

    if (!status && s->format && (s->integer_is_given || !tft_time_format_is_valid(s->format)))
        return tft_where_wrong(&inside, "format", "a format of docs/reference/schema.md, without 'integer'");
    return status;
}

static const struct tft_member given_members[] = {
    TFT_MEMBER("preset", WORD, AT(preset), .words = TFT_WORDS("long")),
    TFT_KEY("name"),
    TFT_KEY("id"),
    TFT_KEY("time"),
    TFT_KEY("zone"),
    TFT_KEY("csv"),
    TFT_KEY("every"),
    TFT_KEY("resample"),
    TFT_KEY("season"),
    TFT_KEY("duplicates"),
    TFT_KEY("active"),
    TFT_KEY("gaps"),
    TFT_KEY("inputs"),
    TFT_KEY("window"),
    TFT_KEY("split"),
    TFT_MEMBERS_END,
};

static enum halay_status read_given(struct tft_preset_scan *s)
{
    const struct tft_where w = tft_preset_where(s);
    const json_t *object, *input;
    const char *name;
    enum halay_status status;

    if ((status = tft_members_read(&w, s->given, given_members, s)) || (status = read_id(&w, s)) ||
        (status = read_time(&w, s)))
        return status;
    if (json_object_get(s->given, "window") && (status = tft_read_object(&w, s->given, "window", &object)))
        return status;
    if (json_object_get(s->given, "inputs") && (status = tft_read_object(&w, s->given, "inputs", &object)))
        return status;
    json_object_foreach(json_object_get(s->given, "inputs"), name, input)
        s->y = tft_preset_says(input, "role", "target") ? NULL : s->y;
    s->season_is_unknown = !json_object_get(s->given, "season") && !json_object_get(s->given, "resample");
    return HALAY_OK;
}

/* Reads all tables, the text's or the frame's. */
static enum halay_status scan_tables(struct tft_preset_scan *s, const struct tft_table_source *tables)
{
    const int is_one = tables->frame || tables->text.bytes;
    enum halay_status status = is_one ? scan_table(s, tables, tft_table_source_name(tables))
                                      : tft_paths_expand(s->log, tables->paths, tables->path_count, NULL, &s->files);

    for (size_t i = 0; i < s->files.count && !status; i++)
        status = scan_table(s, tables, s->files.list[i]);
    if (status || s->count)
        return status ? status : judge_commas(s);
    return halay_fail(s->log, HALAY_ERR_FORMAT, "%s: the table has no rows", s->where);
}

static enum halay_status complete_schema(struct tft_preset_scan *s, const struct tft_table_source *tables,
                                         const struct tft_preset *preset, struct tft_schema *schema)
{
    enum halay_status status;

    if ((status = take_zone(s, preset->zone)) || (status = scan_tables(s, tables)) || (status = judge_numbers(s)) ||
        (status = tft_preset_find_step(s)))
        return status;
    return tft_preset_make_schema(s, preset, schema);
}

static void scan_fini(struct tft_preset_scan *s)
{
    free(s->moments);
    free(s->kept.values);
    tft_zone_destroy(s->zone);
    json_decref(s->zone_document);
    tft_dictionary_fini(&s->ids);
    tft_paths_fini(&s->files);
}

enum halay_status tft_preset_read(struct halay_log *log, const struct tft_schema_source *given,
                                  const struct tft_table_source *tables, const struct tft_preset *preset,
                                  struct tft_schema *schema, int *found)
{
    struct tft_preset_scan s = { .log = log, .id = "unique_id", .ds = "ds", .y = "y", .season_is_unknown = 1 };
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
        status =
            is_preset ? complete_schema(&s, tables, preset, schema) : tft_schema_init(log, s.where, document, schema);
    scan_fini(&s);
    json_decref(document);
    *found = is_preset;
    return status;
}
