/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests. The values of a column of JSON choose its kind: all whole numbers, numbers, or texts; null is a missing
 * value. Texts are not copied. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/tools/serve/request.h"
#include "base/error_text.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const serve_form_types[SERVE_FORMS] = { "text/csv", "application/json", "application/jsonlines" };

/* ---- media types (RFC 9110, 8.3 and 12.5.1) ---- */

/* Returns the end of the text before one of the marks, outside of quotes. */
static const char *skip_to(const char *at, const char *marks)
{
    int is_quoted = 0;

    for (; *at && (is_quoted || !strchr(marks, *at)); at++)
        if (*at == '"')
            is_quoted = !is_quoted;
        else if (is_quoted && *at == '\\' && at[1])
            at++;
    return at;
}

/* The value of a parameter of a media type, which ends at a comma if `ends`; NULL: it has none. */
static const char *find_parameter(const char *type, const char *ends, const char *name)
{
    const size_t length = strlen(name);
    const char *marks = *ends ? ";," : ";";

    for (const char *at = skip_to(type, marks); *at == ';'; at = skip_to(at, marks)) {
        at += 1 + strspn(at + 1, " \t");
        if (!strncasecmp(at, name, length) && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

static enum serve_form named_form(const char *type, size_t length)
{
    static const struct {
        const char *name;
        enum serve_form form;
    } names[] = { { "text/csv", SERVE_CSV },
                  { "application/json", SERVE_JSON },
                  { "application/jsonlines", SERVE_JSON_LINES },
                  { "application/jsonl", SERVE_JSON_LINES },
                  { "application/x-ndjson", SERVE_JSON_LINES } };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (length == strlen(names[i].name) && !strncasecmp(type, names[i].name, length))
            return names[i].form;
    return SERVE_FORMS;
}

enum serve_form serve_form_of(const char *type)
{
    const char *charset = find_parameter(type, "", "charset");

    if (charset && *charset == '"')
        charset++;
    if (charset && strncasecmp(charset, "utf-8", 5) && strncasecmp(charset, "utf8", 4) &&
        strncasecmp(charset, "us-ascii", 8))
        return SERVE_FORMS;
    return named_form(type, strcspn(type, "; \t"));
}

/* How closely a range of Accept names a form: 0 not at all, 1 by any type, 2 by the half before the slash, 3 itself. */
static int match_range(const char *range, enum serve_form form)
{
    const size_t length = strcspn(range, "; \t,"), half = strcspn(serve_form_types[form], "/") + 1;

    if (named_form(range, length) == form)
        return 3;
    if (length == half + 1 && range[half] == '*' && !strncasecmp(range, serve_form_types[form], half))
        return 2;
    return length == 3 && !strncmp(range, "*/*", 3);
}

/* The weight of a range in thousandths: "q=0.5" is 500; 1000 if it has none, or one that is not a number. */
static int weight_of(const char *range)
{
    const char *q = find_parameter(range, ",", "q");
    int weight = 0, unit = 1000;

    if (!q || (*q != '0' && *q != '1'))
        return 1000;
    weight = (*q - '0') * unit;
    if (q[1] == '.')
        for (q += 2; *q >= '0' && *q <= '9' && unit > 1; q++)
            weight += (*q - '0') * (unit /= 10);
    return weight < 1000 ? weight : 1000;
}

enum serve_form serve_form_accepted(const char *accept, enum serve_form own)
{
    enum serve_form best = SERVE_FORMS;
    int best_weight = 0;
    size_t best_place = 0;

    if (!accept || !accept[strspn(accept, " \t,")])
        return own;
    for (size_t i = 0; i < SERVE_FORMS; i++) {
        /* The request's own form is first, then the others. */
        const enum serve_form form = !i ? own : (enum serve_form)(i - (i <= (size_t)own));
        int closest = 0, weight = 0;
        size_t place = 0;
        for (const char *at = accept; *at; at = skip_to(at, ",")) {
            at += strspn(at, ", \t");
            const int close = match_range(at, form);
            if (close > closest) { /* the closest range counts, whatever the others say */
                closest = close;
                weight = weight_of(at);
                place = (size_t)(at - accept);
            }
        }
        if (weight > best_weight || (weight && weight == best_weight && place < best_place)) {
            best = form;
            best_weight = weight;
            best_place = place;
        }
    }
    return best;
}

/* ---- errors ---- */

__attribute__((format(printf, 4, 5))) static int refuse(struct serve_error *error, const char *field, size_t row,
                                                        const char *format, ...)
{
    va_list list;

    *error = (struct serve_error){ .code = 400, .row = row };
    snprintf(error->field, sizeof error->field, "%s", field);
    va_start(list, format);
    vsnprintf(error->reason, sizeof error->reason, format, list);
    va_end(list);
    return 0;
}

static int no_memory(struct serve_error *error)
{
    refuse(error, "", 0, "no memory for the request");
    error->code = 503;
    return 0;
}

/* The subject's row and column are the request's if the subject is one of its tables. */
void serve_error_of_query(const struct serve_request *r, size_t instance, const struct halay_tft_query *q,
                          struct serve_error *error)
{
    const char *name = r->instances[instance].table.name, *text = q->error ? q->error : "";
    const char *subject = q->subject ? q->subject : "";
    const int is_table = !strncmp(subject, name ? name : "table", HALAY_ERROR_SUBJECT_MAX - 1);
    const int is_future = !is_table && r->form != SERVE_CSV && !strcmp(subject, "the future's table");
    char field[SERVE_FIELD] = "";

    if (r->form != SERVE_CSV)
        snprintf(field, sizeof field, "instances[%zu]", instance);
    if (q->column && (is_table || is_future)) {
        const size_t used = strlen(field);
        const char *part = is_future ? ".future." : used ? ".columns." : "";
        snprintf(field + used, sizeof field - used, "%s%s", part, q->column);
    }
    refuse(error, field, is_table || is_future ? q->row : 0, "%s", text);
}

/* A text that may be cut, of SERVE_REASON bytes at most. */
static json_t *text_json(const char *text)
{
    char whole[SERVE_REASON];

    snprintf(whole, sizeof whole, "%s", text);
    halay_text_mend(whole);
    return json_string(whole);
}

char *serve_error_json(const struct serve_error *error)
{
    json_t *inner = json_pack("{so}", "reason", text_json(error->reason));
    char *text = NULL;

    if (*error->field)
        json_object_set_new(inner, "field", text_json(error->field));
    if (error->row)
        json_object_set_new(inner, "row", json_integer((json_int_t)error->row));
    json_t *all = json_pack("{so}", "error", inner);
    if (all)
        text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

/* ---- options ---- */

static int is_calibration(const char *word)
{
    return !strcmp(word, "none") || !strcmp(word, "conformal") || !strcmp(word, "rolling");
}

static int take_calibrate(const char *word, struct serve_options *o, struct serve_error *error)
{
    if (!is_calibration(word))
        return refuse(error, "calibrate", 0, "'%.40s' is not one of none, conformal, rolling", word);
    snprintf(o->calibrate, sizeof o->calibrate, "%s", word);
    return 1;
}

static int take_quantile(double value, struct serve_options *o, struct serve_error *error)
{
    if (!(value > 0 && value < 1))
        return refuse(error, "quantiles", 0, "a quantile is above 0 and below 1, not %g", value);
    if (o->quantile_count == SERVE_QUANTILES_MAX)
        return refuse(error, "quantiles", 0, "there are more than %d quantiles", SERVE_QUANTILES_MAX);
    o->quantiles[o->quantile_count++] = value;
    return 1;
}

static int read_words(const struct serve_words *w, struct serve_options *o, struct serve_error *error)
{
    const int yes = w->explain && (!*w->explain || !strcmp(w->explain, "1") || !strcmp(w->explain, "true"));
    char *end;

    o->explains = yes;
    if (w->explain && !yes && strcmp(w->explain, "0") && strcmp(w->explain, "false"))
        return refuse(error, "explain", 0, "'%.40s' is neither true nor false", w->explain);
    if (w->calibrate && !take_calibrate(w->calibrate, o, error))
        return 0;
    for (const char *at = w->quantiles; at && *at; at = *end ? end + 1 : end) {
        const double value = strtod(at, &end);
        if (end == at || (*end && *end != ','))
            return refuse(error, "quantiles", 0, "'%.40s' is not a list like 0.1,0.5,0.9", w->quantiles);
        if (!take_quantile(value, o, error))
            return 0;
    }
    return 1;
}

static int read_options(json_t *document, struct serve_options *o, struct serve_error *error)
{
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(document, key, value) {
        if (!strcmp(key, "instances"))
            continue;
        if (!strcmp(key, "explain")) {
            if (!json_is_boolean(value))
                return refuse(error, key, 0, "it is neither true nor false");
            o->explains = json_is_true(value);
        } else if (!strcmp(key, "calibrate")) {
            if (!take_calibrate(json_is_string(value) ? json_string_value(value) : "", o, error))
                return 0;
        } else if (!strcmp(key, "quantiles")) {
            if (!json_is_array(value) || !json_array_size(value))
                return refuse(error, key, 0, "it is not a list of numbers");
            o->quantile_count = 0;
            for (i = 0; i < json_array_size(value); i++)
                if (!take_quantile(json_number_value(json_array_get(value, i)), o, error))
                    return 0;
        } else {
            return refuse(error, "", 0, "unknown key '%.60s'; the keys are instances, explain, calibrate, quantiles",
                          key);
        }
    }
    return 1;
}

int serve_options_equal(const struct serve_options *a, const struct serve_options *b)
{
    return a->explains == b->explains && !strcmp(a->calibrate, b->calibrate) &&
           a->quantile_count == b->quantile_count &&
           !memcmp(a->quantiles, b->quantiles, a->quantile_count * sizeof *a->quantiles);
}

/* ---- columns ---- */

enum kinds { HAS_WHOLE = 1, HAS_REAL = 2, HAS_TEXT = 4 };

/* Finds the kinds of a column's values, as a set; empty if all are null. Returns 0 if a value has none of them. */
static int look_at_values(const json_t *values, const char *field, int *kinds, struct serve_error *error)
{
    *kinds = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        const int kind = json_is_integer(value) && json_integer_value(value) > INT64_MIN ? HAS_WHOLE
                         : json_is_number(value)                                         ? HAS_REAL
                         : json_is_string(value)                                         ? HAS_TEXT
                                                                                         : 0;
        if (!kind && !json_is_null(value))
            return refuse(error, field, i + 1, "a value is a number, a text or null");
        if (*kinds && (kind == HAS_TEXT) != (*kinds == HAS_TEXT) && kind)
            return refuse(error, field, i + 1, "texts and numbers in one column");
        *kinds |= kind;
    }
    return 1;
}

static void fill_column(const json_t *values, size_t n, enum halay_tft_kind kind, void *to)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(values, i);
        if (kind == HALAY_TFT_TEXTS)
            ((const char **)to)[i] = json_string_value(value); /* NULL of null */
        else if (kind == HALAY_TFT_INTEGERS)
            ((int64_t *)to)[i] = json_is_null(value) ? INT64_MIN : json_integer_value(value);
        else
            ((double *)to)[i] = json_is_null(value) ? NAN : json_number_value(value);
    }
}

static int read_column(const char *name, const json_t *values, size_t rows, const char *field,
                       struct halay_tft_column *column, struct serve_error *error)
{
    int kinds;

    if (!json_is_array(values))
        return refuse(error, field, 0, "a column is a list of values");
    if (json_array_size(values) != rows)
        return refuse(error, field, 0, "it has %zu values, the column before it has %zu", json_array_size(values),
                      rows);
    if (!look_at_values(values, field, &kinds, error))
        return 0;
    void *made = calloc(rows + 1, sizeof(double)); /* a number or a pointer each */
    if (!made)
        return no_memory(error);
    const enum halay_tft_kind kind = kinds & HAS_REAL    ? HALAY_TFT_REALS
                                     : kinds & HAS_WHOLE ? HALAY_TFT_INTEGERS
                                                         : HALAY_TFT_TEXTS;
    *column = (struct halay_tft_column){ .name = name, .kind = kind, .values = made };
    fill_column(values, rows, kind, made);
    return 1;
}

/* Columns of an object, as a table. */
static int read_columns(json_t *object, const char *where, const char *name, struct halay_tft_column **columns,
                        struct halay_tft_table *table, struct serve_error *error)
{
    const char *key;
    json_t *values;
    char field[SERVE_FIELD];

    if (!json_is_object(object) || !json_object_size(object))
        return refuse(error, where, 0, "it is not an object of columns: {\"NAME\": [value, ...], ...}");
    *columns = calloc(json_object_size(object), sizeof **columns);
    if (!*columns)
        return no_memory(error);
    *table = (struct halay_tft_table){
        .struct_size = sizeof *table, .columns = *columns, .column_bytes = sizeof **columns, .name = name
    };
    json_object_foreach(object, key, values) {
        snprintf(field, sizeof field, "%s.%s", where, key);
        if (!table->column_count)
            table->rows = json_array_size(values);
        if (!read_column(key, values, table->rows, field, &(*columns)[table->column_count], error))
            return 0;
        table->column_count++;
    }
    return 1;
}

/* ---- instances ---- */

static int check_keys(json_t *object, const char *where, struct serve_error *error)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) {
        if (strcmp(key, "columns") && strcmp(key, "future") && strcmp(key, "name"))
            return refuse(error, where, 0, "unknown key '%.60s'; the keys are columns, future, name", key);
    }
    return 1;
}

static int read_instance(json_t *object, size_t number, struct serve_instance *to, struct serve_error *error)
{
    json_t *name = json_object_get(object, "name"), *future = json_object_get(object, "future");
    const char *file = name ? json_string_value(name) : NULL;
    char where[SERVE_FIELD];

    snprintf(where, sizeof where, "instances[%zu]", number);
    if (!json_is_object(object))
        return refuse(error, where, 0, "it is not an object: {\"columns\": {\"NAME\": [value, ...], ...}}");
    if (!check_keys(object, where, error))
        return 0;
    if (name && !file)
        return refuse(error, where, 0, "'name' is not a text");
    snprintf(where, sizeof where, "instances[%zu].columns", number);
    if (!read_columns(json_object_get(object, "columns"), where, file, &to->columns, &to->table, error))
        return 0;
    to->has_future = future && !json_is_null(future);
    snprintf(where, sizeof where, "instances[%zu].future", number);
    return !to->has_future || read_columns(future, where, file, &to->future_columns, &to->future, error);
}

static int read_instances(const json_t *list, struct serve_request *r, struct serve_error *error)
{
    if (!json_is_array(list) || !json_array_size(list))
        return refuse(error, "instances", 0, "it is missing, or not a list with an object for each table");
    r->instances = calloc(json_array_size(list), sizeof *r->instances);
    if (!r->instances)
        return no_memory(error);
    r->count = json_array_size(list);
    for (size_t i = 0; i < r->count; i++)
        if (!read_instance(json_array_get(list, i), i, &r->instances[i], error))
            return 0;
    return 1;
}

/* ---- bodies ---- */

enum { PART_BYTES = 64 << 10 }; /* of JSON, some milliseconds' work */

static int read_csv(const struct serve_body *body, const char *name, struct serve_request *r, struct serve_error *error)
{
    r->instances = calloc(1, sizeof *r->instances);
    if (!r->instances)
        return no_memory(error);
    r->count = 1;
    r->instances->table = (struct halay_tft_table){ .struct_size = sizeof r->instances->table,
                                                    .name = name ? name : "body",
                                                    .text = body->bytes,
                                                    .text_bytes = body->count };
    return 1;
}

/* A text of a body that is read as JSON. */
struct text {
    const struct serve_body *body;
    const char *at;
    size_t left, part; /* part: what has been read since `between` was called */
};

/* Jansson's callback: copies the next bytes. */
static size_t give_bytes(void *buffer, size_t size, void *arg)
{
    struct text *text = arg;
    const size_t count = size < text->left ? size : text->left;

    if (text->part >= PART_BYTES && text->body->between) {
        text->part = 0;
        text->body->between(text->body->arg);
    }
    memcpy(buffer, text->at, count);
    text->at += count;
    text->left -= count;
    text->part += count;
    return count;
}

static json_t *load_part(struct text *text, size_t count, size_t row, struct serve_error *error)
{
    json_error_t why;

    text->left = count;
    json_t *document = json_load_callback(give_bytes, text, JSON_REJECT_DUPLICATES, &why);

    if (!document)
        refuse(error, "",
               row            ? row
               : why.line > 0 ? (size_t)why.line
                              : 0,
               "not JSON: %.300s (column %d)", why.text, why.column);
    return document;
}

static int read_json(const struct serve_body *body, struct serve_request *r, struct serve_error *error)
{
    r->document = load_part(&(struct text){ .body = body, .at = body->bytes }, body->count, 0, error);
    if (!r->document)
        return 0;
    if (!json_is_object(r->document))
        return refuse(error, "", 0, "the body is not an object: {\"instances\": [...]}");
    return read_options(r->document, &r->options, error) &&
           read_instances(json_object_get(r->document, "instances"), r, error);
}

static int is_blank(const char *text, size_t count)
{
    while (count && strchr(" \t\r", *text) && *text) {
        text++;
        count--;
    }
    return !count;
}

static int read_lines(const struct serve_body *body, struct serve_request *r, struct serve_error *error)
{
    struct text text = { .body = body };
    size_t line = 0;

    r->document = json_array();
    for (const char *at = body->bytes, *end = at + body->count; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((stop ? stop : end) - at);
        if (!is_blank(at, length)) {
            text.at = at;
            json_t *object = load_part(&text, length, line + 1, error);
            if (!object)
                return 0;
            if (json_array_append_new(r->document, object))
                return no_memory(error);
        }
        at += length + 1;
    }
    return read_instances(r->document, r, error);
}

/* The most that a document of JSON takes once it is read, in bytes, with the columns made of it: each value and text,
 * list, object and key costs the memory of its node, however short it is. */
static size_t decoded_bytes(const char *text, size_t count)
{
    enum { VALUE = 56, TEXT = 48, LIST = 128, OBJECT = 256, KEY = 64 };
    size_t bytes = count;
    int is_text = 0;

    for (size_t i = 0; i < count; i++) {
        const char c = text[i];
        if (is_text && c == '\\')
            i++;
        else if (c == '"')
            bytes += (is_text = !is_text) ? TEXT : 0;
        else if (!is_text)
            bytes += c == ',' ? VALUE : c == '[' ? LIST : c == '{' ? OBJECT : c == ':' ? KEY : 0;
    }
    return bytes;
}

static int check_decoded(const struct serve_body *body, struct serve_error *error)
{
    const size_t decoded = decoded_bytes(body->bytes, body->count);

    if (decoded <= SERVE_DECODED_BYTES)
        return 1;
    refuse(error, "", 0,
           "its values would take %zu MiB of memory, at most %d are allowed: send fewer rows in a request",
           decoded >> 20, SERVE_DECODED_BYTES >> 20);
    error->code = 413;
    return 0;
}

int serve_request_read(const struct serve_body *body, const struct serve_words *words, struct serve_request *request,
                       struct serve_error *error)
{
    const enum serve_form form = body->form;
    struct serve_request r = { .form = form };
    int good = read_words(words, &r.options, error);

    if (good && form != SERVE_CSV)
        good = check_decoded(body, error);
    if (good)
        good = form == SERVE_CSV    ? read_csv(body, words->name, &r, error)
               : form == SERVE_JSON ? read_json(body, &r, error)
                                    : read_lines(body, &r, error);
    if (good)
        *request = r;
    else
        serve_request_fini(&r);
    return good;
}

static void free_columns(struct halay_tft_column *columns, size_t count)
{
    for (size_t i = 0; columns && i < count; i++)
        free((void *)(uintptr_t)columns[i].values);
    free(columns);
}

void serve_request_fini(struct serve_request *r)
{
    for (size_t i = 0; r->instances && i < r->count; i++) {
        struct serve_instance *s = &r->instances[i];
        free_columns(s->columns, s->table.column_count);
        free_columns(s->future_columns, s->future.column_count);
    }
    free(r->instances);
    json_decref(r->document);
    *r = (struct serve_request){ 0 };
}
