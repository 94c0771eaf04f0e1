/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: from a checked document to a struct.
 *
 * Each section of the document has a function; all share the little readers at the top, which name the place ("schema
 * 'pjm.yaml', input 'load'") and what would be right. Words that belong to the format but not to this version are
 * listed beside those that are offered, so that they are refused as such and never ignored. The struct borrows its
 * strings from the document it holds. Cleanup: on error the caller's struct is left alone.
 */
#include "tft/schema.h"
#include "tft/document.h"
#include <regex.h>
#include <stdio.h>
#include <string.h>

const char *const tft_role_names[] = { "target", "known", "observed", "static", NULL };
const char *const tft_split_names[] = { "train", "valid", "test", NULL };

struct place {
    struct halay_log *log;
    char where[256];
};

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct place place_inside(const struct place *outer, const char *what, const char *name)
{
    struct place p = { .log = outer->log };
    snprintf(p.where, sizeof p.where, "%.150s, %s%s%.64s%s", outer->where, what, name ? " '" : "", name ? name : "",
             name ? "'" : "");
    return p;
}

static enum halay_status wrong(const struct place *p, const char *key, const char *should)
{
    halay_error(p->log, "%s: '%s' must be %s", p->where, key, should);
    return HALAY_ERR_CONFIG;
}

/* A string; NULL stays if the key is absent. */
static enum halay_status get_string(const struct place *p, const json_t *object, const char *key, const char **text)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return HALAY_OK;
    if (!json_is_string(value) || !*json_string_value(value))
        return wrong(p, key, "a text");
    *text = json_string_value(value);
    return HALAY_OK;
}

/* One of the offered words: its number. Words of `later` are refused as not offered. */
static enum halay_status get_word(const struct place *p, const json_t *object, const char *key,
                                  const char *const *words, const char *const *later, int *number)
{
    const json_t *value = json_object_get(object, key);
    char list[256] = "";

    if (!value)
        return HALAY_OK;
    for (size_t i = 0; json_is_string(value) && words[i]; i++)
        if (!strcmp(json_string_value(value), words[i])) {
            *number = (int)i;
            return HALAY_OK;
        }
    for (size_t i = 0; json_is_string(value) && later && later[i]; i++)
        if (!strcmp(json_string_value(value), later[i])) {
            halay_error(p->log, "%s: '%s: %s' is not offered by this version", p->where, key, later[i]);
            return HALAY_ERR_UNSUPPORTED;
        }
    for (size_t i = 0; words[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "one of ", words[i]);
    }
    return wrong(p, key, list);
}

static enum halay_status get_size(const struct place *p, const json_t *object, const char *key, size_t most,
                                  size_t *number)
{
    const json_t *value = json_object_get(object, key);
    char should[64];

    if (!value)
        return HALAY_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || (size_t)json_integer_value(value) > most) {
        snprintf(should, sizeof should, "a whole number of steps from 1 to %zu", most);
        return wrong(p, key, should);
    }
    *number = (size_t)json_integer_value(value);
    return HALAY_OK;
}

static enum halay_status get_char(const struct place *p, const json_t *object, const char *key, char *c)
{
    const char *text = NULL;
    enum halay_status status = get_string(p, object, key, &text);

    if (!status && text && (text[1] || *text == '"' || *text == '\n'))
        return wrong(p, key, "one character");
    if (!status && text)
        *c = *text;
    return status;
}

/* An object that must be there. */
static enum halay_status get_object(const struct place *p, const json_t *object, const char *key, const json_t **value)
{
    *value = json_object_get(object, key);
    if (*value && json_is_object(*value))
        return HALAY_OK;
    halay_error(p->log, *value ? "%s: '%s' must be a list of keys and values" : "%s: '%s' is missing", p->where, key);
    return HALAY_ERR_CONFIG;
}

static enum halay_status read_id(const struct place *outer, const json_t *document, struct tft_schema *s)
{
    const struct place p = place_inside(outer, "id", NULL);
    const json_t *id;
    const char *from = NULL;
    enum halay_status status = get_object(outer, document, "id", &id);

    if (!status)
        status = tft_document_check_keys(p.log, p.where, id, WORDS("from", "pattern", "column"), WORDS("columns"));
    if (!status)
        status = get_string(&p, id, "from", &from);
    if (!status)
        status = get_string(&p, id, "pattern", &s->id_pattern);
    if (!status)
        status = get_string(&p, id, "column", &s->id_column);
    if (status)
        return status;
    if (s->id_column && !from && !s->id_pattern)
        return HALAY_OK;
    if (!from || strcmp(from, "filename") || !s->id_pattern || s->id_column) {
        halay_error(p.log, "%s: give {from: filename, pattern: \"^(.*)_hourly\"} or {column: NAME}", p.where);
        return HALAY_ERR_CONFIG;
    }
    regex_t regex;
    if (regcomp(&regex, s->id_pattern, REG_EXTENDED))
        return wrong(&p, "pattern", "a regular expression");
    size_t groups = regex.re_nsub;
    regfree(&regex);
    return groups == 1 ? HALAY_OK : wrong(&p, "pattern", "a regular expression with one (group)");
}

static enum halay_status read_time(const struct place *outer, const json_t *document, struct tft_schema *s)
{
    const struct place p = place_inside(outer, "time", NULL);
    const json_t *time;
    enum halay_status status = get_object(outer, document, "time", &time);

    s->time_format = "%Y-%m-%d %H:%M:%S";
    if (!status)
        status = tft_document_check_keys(p.log, p.where, time, WORDS("column", "format"), WORDS("columns", "integer"));
    if (!status)
        status = get_string(&p, time, "column", &s->time_column);
    if (!status)
        status = get_string(&p, time, "format", &s->time_format);
    if (status)
        return status;
    if (!s->time_column)
        return wrong(&p, "column", "the name of the column that holds the time");
    if (!tft_time_format_is_valid(s->time_format))
        return wrong(&p, "format", "made of %Y %m %d %H %M %S %F %T and plain characters, with the year");
    return HALAY_OK;
}

static enum halay_status read_every(const struct place *p, const json_t *document, struct tft_schema *s)
{
    const json_t *value = json_object_get(document, "every");
    enum halay_status status = HALAY_ERR_FORMAT;

    if (json_is_integer(value)) {
        halay_error(p->log, "%s: 'every' as a number of steps is not offered by this version", p->where);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (json_is_string(value))
        status = tft_time_parse_every(json_string_value(value), &s->every);
    if (status == HALAY_ERR_UNSUPPORTED) {
        halay_error(p->log, "%s: 'every: %s' is not offered by this version", p->where, json_string_value(value));
        return status;
    }
    return status ? wrong(p, "every", "a step like 30s, 15min, 1h, 1d or 1w") : HALAY_OK;
}

static enum halay_status read_span(const struct place *p, const json_t *document, struct tft_schema *s)
{
    const json_t *span = json_object_get(document, "span");

    if (!span)
        return HALAY_OK;
    if (!json_is_array(span) || json_array_size(span) != 2)
        return wrong(p, "span", "[first moment, last moment]");
    for (size_t i = 0; i < 2; i++) {
        const json_t *moment = json_array_get(span, i);
        if (!json_is_string(moment) || tft_time_parse_moment(json_string_value(moment), &s->span[i]))
            return wrong(p, "span", "two moments like 2013-06-01 01:00");
    }
    s->has_span = 1;
    return s->span[0] <= s->span[1] ? HALAY_OK : wrong(p, "span", "in order: first moment, last moment");
}

static enum halay_status read_csv(const struct place *outer, const json_t *document, struct tft_schema *s)
{
    const struct place p = place_inside(outer, "csv", NULL);
    const json_t *csv = json_object_get(document, "csv");
    enum halay_status status;

    s->separator = ',';
    s->decimal = '.';
    s->missing[0] = "";
    s->missing[1] = NULL;
    if (!csv)
        return HALAY_OK;
    status = get_object(outer, document, "csv", &csv);
    if (!status)
        status = tft_document_check_keys(p.log, p.where, csv, WORDS("separator", "decimal", "missing"), NULL);
    if (!status)
        status = get_char(&p, csv, "separator", &s->separator);
    if (!status)
        status = get_char(&p, csv, "decimal", &s->decimal);
    if (status)
        return status;
    if (s->decimal != '.' && s->decimal != ',')
        return wrong(&p, "decimal", "\".\" or \",\"");
    if (s->decimal == s->separator)
        return wrong(&p, "decimal", "another character than 'separator'");
    const json_t *missing = json_object_get(csv, "missing");
    if (!missing)
        return HALAY_OK;
    if (!json_is_array(missing) || json_array_size(missing) > TFT_MISSING_MAX)
        return wrong(&p, "missing", "a list of at most 16 texts");
    for (size_t i = 0; i < json_array_size(missing); i++) {
        s->missing[i] = json_string_value(json_array_get(missing, i));
        if (!s->missing[i])
            return wrong(&p, "missing", "a list of texts (put numbers into quotes)");
        s->missing[i + 1] = NULL;
    }
    return HALAY_OK;
}

/* Where an input's values come from: exactly one of column, calendar, from. */
static enum halay_status read_source(const struct place *p, const json_t *object, struct tft_input *input)
{
    const char *from = NULL;
    int calendar = 0;
    enum halay_status status = get_string(p, object, "column", &input->column);

    if (!status)
        status = get_word(p, object, "calendar", tft_calendar_names, WORDS("holiday"), &calendar);
    if (!status)
        status = get_string(p, object, "from", &from);
    if (status)
        return status;
    if (!!input->column + !!calendar + !!from != 1 || (from && strcmp(from, "id"))) {
        halay_error(p->log, "%s: give one of 'column: NAME', 'calendar: NAME' (hour, day_of_week, ...), 'from: id'",
                    p->where);
        return HALAY_ERR_CONFIG;
    }
    input->calendar = (enum tft_calendar)calendar;
    input->source = from ? TFT_FROM_ID : calendar ? TFT_FROM_CALENDAR : TFT_FROM_COLUMN;
    return HALAY_OK;
}

static enum halay_status read_fill(const struct place *p, const json_t *object, struct tft_input *input)
{
    const json_t *fill = json_object_get(object, "fill");
    int word = TFT_FILL_NONE;

    if (json_is_object(fill)) {
        const json_t *constant = json_object_get(fill, "constant");
        if (json_object_size(fill) != 1 || !json_is_number(constant))
            return wrong(p, "fill", "none, forward, interpolate or {constant: NUMBER}");
        input->fill = TFT_FILL_CONSTANT;
        input->constant = json_number_value(constant);
        return HALAY_OK;
    }
    enum halay_status status =
        get_word(p, object, "fill", WORDS("none", "forward", "interpolate"), WORDS("drop"), &word);
    input->fill = (enum tft_filling)word;
    return status;
}

/* Do source, role and type go together? */
static enum halay_status check_input(const struct place *p, const struct tft_input *input)
{
    if (input->is_category != (input->source == TFT_FROM_ID)) {
        if (!input->is_category)
            return wrong(p, "type", "category for the id");
        halay_error(p->log, "%s: 'type: category' is offered for 'from: id' only by this version", p->where);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (input->source == TFT_FROM_ID && input->role != TFT_INPUT_STATIC)
        return wrong(p, "role", "static for the id");
    if (input->source == TFT_FROM_CALENDAR && input->role != TFT_INPUT_KNOWN)
        return wrong(p, "role", "known for a calendar input");
    if (input->role == TFT_INPUT_STATIC && input->scale != TFT_SCALE_NONE && input->per_entity && !input->is_category)
        return wrong(p, "per", "all for a static input (an entity has one value only)");
    return HALAY_OK;
}

static enum halay_status read_input(const struct place *outer, const char *name, const json_t *object,
                                    struct tft_input *input)
{
    const struct place p = place_inside(outer, "input", name);
    int role = -1, type = 0, scale = TFT_SCALE_STANDARD, per = 0;
    enum halay_status status;

    if (!*name || strlen(name) > TFT_INPUT_NAME_MAX || !json_is_object(object)) {
        halay_error(p.log, "%s: an input is NAME: {role: ..., ...}, its name at most %d bytes", p.where,
                    TFT_INPUT_NAME_MAX);
        return HALAY_ERR_CONFIG;
    }
    snprintf(input->name, sizeof input->name, "%s", name);
    status = tft_document_check_keys(p.log, p.where, object,
                                     WORDS("column", "calendar", "from", "role", "type", "fill", "scale", "per"),
                                     WORDS("missing_indicator", "lags", "cyclic", "unknown", "holiday"));
    if (!status)
        status = read_source(&p, object, input);
    if (!status)
        status = get_word(&p, object, "role", tft_role_names, WORDS("weight"), &role);
    if (!status && role < 0)
        status = wrong(&p, "role", "given: target, known, observed or static");
    if (!status)
        status = get_word(&p, object, "type", WORDS("real", "category"), NULL, &type);
    if (!status)
        status = read_fill(&p, object, input);
    if (!status)
        status = get_word(&p, object, "scale", WORDS("none", "standard", "minmax"), WORDS("robust", "log1p-standard"),
                          &scale);
    per = role == TFT_INPUT_STATIC; /* entity, but all for a static input */
    if (!status)
        status = get_word(&p, object, "per", WORDS("entity", "all"), NULL, &per);
    if (status)
        return status;
    input->role = (enum tft_input_role)role;
    input->is_category = type;
    input->scale = type ? TFT_SCALE_NONE : (enum tft_scale)scale;
    input->per_entity = !per;
    return check_input(&p, input);
}

static enum halay_status read_inputs(const struct place *p, const json_t *document, struct tft_schema *s)
{
    const json_t *inputs;
    const char *name;
    json_t *value;
    size_t targets = 0;
    enum halay_status status = get_object(p, document, "inputs", &inputs);

    if (status)
        return status;
    if (json_object_size(inputs) > TFT_INPUTS_MAX)
        return wrong(p, "inputs", "at most 32");
    json_object_foreach((json_t *)inputs, name, value)
    {
        struct tft_input *input = &s->inputs[s->input_count];
        status = read_input(p, name, value, input);
        if (status)
            return status;
        if (input->role == TFT_INPUT_TARGET && targets++ == 0)
            s->target = s->input_count;
        s->input_count++;
    }
    if (targets > 1) {
        halay_error(p->log, "%s: more than one input with 'role: target' is not offered by this version", p->where);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (!targets)
        return wrong(p, "inputs", "a list with one 'role: target'");
    for (size_t i = 0; i < s->input_count; i++)
        if (s->inputs[i].role == TFT_INPUT_KNOWN)
            return HALAY_OK;
    return wrong(p, "inputs", "a list with at least one 'role: known' (the model's decoder reads nothing else)");
}

static enum halay_status read_window(const struct place *outer, const json_t *document, struct tft_schema *s)
{
    const struct place p = place_inside(outer, "window", NULL);
    const json_t *window;
    enum halay_status status = get_object(outer, document, "window", &window);

    s->stride = 1;
    if (!status)
        status = tft_document_check_keys(p.log, p.where, window, WORDS("encoder", "horizon", "stride"), NULL);
    if (!status)
        status = get_size(&p, window, "encoder", TFT_WINDOW_MAX, &s->encoder);
    if (!status)
        status = get_size(&p, window, "horizon", TFT_WINDOW_MAX, &s->horizon);
    if (!status)
        status = get_size(&p, window, "stride", TFT_WINDOW_MAX, &s->stride);
    if (!status && (!s->encoder || !s->horizon))
        status = wrong(&p, s->encoder ? "horizon" : "encoder", "given");
    return status;
}

/* "< 2017-08-01" or "<= 2017-07-31 23:00". */
static enum halay_status read_bound(const struct place *p, const char *key, const char *text, int64_t *end)
{
    int inclusive = text[0] == '<' && text[1] == '=';

    if (text[0] == '<') {
        text += 1 + inclusive;
        text += strspn(text, " ");
        if (!tft_time_parse_moment(text, end)) {
            *end += inclusive;
            return HALAY_OK;
        }
    }
    return wrong(p, key, "like \"< 2017-08-01\"");
}

static enum halay_status read_split(const struct place *outer, const json_t *document, struct tft_schema *s)
{
    const struct place p = place_inside(outer, "split", NULL);
    const json_t *split;
    int context = 0;
    int64_t last = INT64_MIN;
    enum halay_status status = get_object(outer, document, "split", &split);

    if (!status)
        status = tft_document_check_keys(p.log, p.where, split, WORDS("train", "valid", "test", "context"), NULL);
    if (!status)
        status = get_word(&p, split, "context", WORDS("before", "none"), NULL, &context);
    for (int i = 0; i < TFT_SPLIT_COUNT && !status; i++) {
        const char *text = NULL;
        status = get_string(&p, split, tft_split_names[i], &text);
        if (status || !text)
            continue;
        status = read_bound(&p, tft_split_names[i], text, &s->split_end[i]);
        s->has_split[i] = !status;
        if (!status && s->split_end[i] <= last)
            status = wrong(&p, tft_split_names[i], "after the split before it");
        last = s->split_end[i];
    }
    if (!status && !s->has_split[TFT_TRAIN])
        status = wrong(&p, "train", "given, like \"< 2017-08-01\"");
    s->context_before = !context;
    return status;
}

static enum halay_status read_files(const struct place *p, const json_t *document, struct tft_schema *s)
{
    s->files = json_object_get(document, "files");
    if (!s->files)
        return HALAY_OK;
    if (!json_is_array(s->files))
        return wrong(p, "files", "a list of patterns like [\"*_hourly.csv.gz\"]");
    for (size_t i = 0; i < json_array_size(s->files); i++)
        if (!json_is_string(json_array_get(s->files, i)))
            return wrong(p, "files", "a list of patterns like [\"*_hourly.csv.gz\"]");
    return HALAY_OK;
}

enum halay_status tft_schema_init(struct halay_log *log, const char *where, json_t *document, struct tft_schema *schema)
{
    struct place p = { .log = log };
    struct tft_schema s = { .name = "data" };
    int duplicates = TFT_DUPLICATES_ERROR;
    enum halay_status status;

    snprintf(p.where, sizeof p.where, "%.200s", where);
    status = tft_document_check_keys(
        log, p.where, document,
        WORDS("name", "files", "id", "time", "every", "span", "duplicates", "inputs", "window", "split", "csv"),
        WORDS("active", "resample"));
    if (!status)
        status = get_string(&p, document, "name", &s.name);
    if (!status)
        status = read_files(&p, document, &s);
    if (!status)
        status = read_id(&p, document, &s);
    if (!status)
        status = read_time(&p, document, &s);
    if (!status)
        status = read_every(&p, document, &s);
    if (!status)
        status = read_span(&p, document, &s);
    if (!status)
        status = get_word(&p, document, "duplicates", WORDS("mean", "first", "last", "error"), NULL, &duplicates);
    s.duplicates = (enum tft_duplicates)duplicates;
    if (!status)
        status = read_csv(&p, document, &s);
    if (!status)
        status = read_inputs(&p, document, &s);
    if (!status)
        status = read_window(&p, document, &s);
    if (!status)
        status = read_split(&p, document, &s);
    if (status)
        return status;
    s.document = json_incref(document);
    *schema = s;
    return HALAY_OK;
}

enum halay_status tft_schema_load(struct halay_log *log, const char *path, struct tft_schema *schema)
{
    char where[256];
    json_t *document;
    enum halay_status status = tft_document_load(log, path, &document);

    if (status)
        return status;
    snprintf(where, sizeof where, "schema '%.200s'", path);
    status = tft_schema_init(log, where, document, schema);
    json_decref(document);
    return status;
}

void tft_schema_fini(struct tft_schema *schema)
{
    json_decref(schema->document);
    schema->document = NULL;
}

int64_t tft_schema_split_begin(const struct tft_schema *schema, enum tft_split split)
{
    for (int i = (int)split - 1; i >= 0; i--)
        if (schema->has_split[i])
            return schema->split_end[i];
    return INT64_MIN;
}
