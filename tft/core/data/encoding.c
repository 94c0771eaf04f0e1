/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding: scalers and vocabularies as a JSON document, and the arrays that are used.
 *
 * The document is saved, and the arrays are always made from it, so that data that are read back are scaled by the same
 * numbers. fit.c computes them. Cleanup: zeroed first, fini accepts a partly initialised object.
 */
#include "tft/core/data/encoding.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double tft_scaler_exact(const struct tft_scaler *s, double value)
{
    return ((s->log1p ? log1p(value) : value) - s->shift) / s->scale;
}

float tft_scaler_apply(const struct tft_scaler *s, double value)
{
    double scaled = tft_scaler_exact(s, value);

    return fabs(scaled) <= FLT_MAX ? (float)scaled : INFINITY;
}

double tft_scaler_undo(const struct tft_scaler *s, double scaled)
{
    double value = scaled * s->scale + s->shift;

    return s->log1p ? expm1(value) : value;
}

#define NO_ORIGIN "no origin, weight or entities"
#define AT(member) offsetof(struct tft_encoding_document, member)
#define LATEST ((double)((int64_t)1 << 42))

const struct tft_member tft_encoding_members[] = {
    TFT_MEMBER("origin", WHOLE, AT(origin), .least = -LATEST, .most = LATEST, .should = "the origin is out of range",
               .missing = NO_ORIGIN),
    TFT_MEMBER("weight", REAL, AT(weight), .least = DBL_TRUE_MIN, .most = INFINITY, .should = NO_ORIGIN,
               .missing = NO_ORIGIN),
    TFT_MEMBER("entities", VALUE, AT(entities), .missing = NO_ORIGIN),
    TFT_MEMBER("scalers", VALUE, AT(scalers)),
    TFT_MEMBER("categories", VALUE, AT(categories)),
    TFT_MEMBER("clocks", WHOLE, AT(clocks), .most = 2, .should = "the clocks are out of range"),
    TFT_MEMBERS_END,
};

static enum halay_status report_damaged(struct halay_log *log, const char *where, const char *what)
{
    return halay_fail(log, HALAY_ERR_FORMAT, "%s: the scalers are damaged: %s", where, what);
}

/* Reads an array of texts in order. */
static enum halay_status take_names(struct halay_log *log, const char *where, const json_t *list,
                                    struct halay_region *memory, size_t *count, const char ***names)
{
    *count = json_array_size(list);
    *names = halay_region_alloc(memory, *count + 1, sizeof **names);
    if (!*names)
        return halay_no_memory(log, "for the scalers");
    for (size_t i = 0; i < *count; i++) {
        (*names)[i] = json_string_value(json_array_get(list, i));
        if (!(*names)[i] || (i && strcmp((*names)[i - 1], (*names)[i]) >= 0))
            return report_damaged(log, where, "names are not in order");
    }
    return HALAY_OK;
}

/* Reads the scalers of one input; the arrays have their size already. */
static enum halay_status take_scalers(struct halay_log *log, const char *where, const struct tft_input *input,
                                      const json_t *list, size_t number, struct tft_encoding *e)
{
    size_t pairs = json_array_size(list) / 2, expected = input->per == TFT_PER_ALL ? 1 : e->entity_count;

    /* Runs of older versions whose training chose 'per: entity' have the scaler of all entities, too. */
    if (json_array_size(list) % 2 || pairs < expected || pairs > expected + (input->per != TFT_PER_ALL) ||
        (pairs == expected && input->per == TFT_PER_WINDOW))
        return report_damaged(log, where, "an input has the wrong number of scalers");
    for (size_t i = 0; i <= e->entity_count; i++) {
        size_t at = input->per == TFT_PER_ALL ? 0 : i;
        const json_t *shift = json_array_get(list, 2 * at), *scale = json_array_get(list, 2 * at + 1);
        if (at == pairs)
            continue; /* an entity that training has not seen */
        if (!json_is_number(shift) || !json_is_number(scale) || !(json_number_value(scale) > 0))
            return report_damaged(log, where, "an input has no numbers");
        e->scalers[i * e->input_count + number] =
            (struct tft_scaler){ json_number_value(shift), json_number_value(scale), input->scale == TFT_SCALE_LOG1P };
    }
    return HALAY_OK;
}

/* Returns nonzero if a category's names are kept. */
static int has_vocabulary(const struct tft_input *input)
{
    return input->is_category &&
           (input->source == TFT_FROM_COLUMN || (input->source == TFT_FROM_ID && input->map != NULL));
}

static enum halay_status take_all(struct halay_log *log, const char *where, const struct tft_schema *schema,
                                  const json_t *document, struct tft_encoding *e)
{
    struct tft_encoding_document d = { .origin = 0 };
    const struct tft_member *wrong = tft_members_take(document, tft_encoding_members, &d);
    enum halay_status status;

    if (wrong || !json_array_size(d.entities))
        return report_damaged(log, where, wrong && json_object_get(document, wrong->key) ? wrong->should : NO_ORIGIN);
    if ((status = take_names(log, where, d.entities, &e->memory, &e->entity_count, &e->ids)))
        return status;
    e->origin = d.origin;
    e->weight = d.weight;
    e->clocks = (int)d.clocks;
    e->scalers = halay_region_alloc(&e->memory, (e->entity_count + 1) * schema->input_count, sizeof *e->scalers);
    e->vocabularies = halay_region_alloc(&e->memory, schema->input_count, sizeof *e->vocabularies);
    if (e->memory.failed)
        return halay_no_memory(log, "for the scalers");
    for (size_t i = 0; i < (e->entity_count + 1) * schema->input_count; i++)
        e->scalers[i].scale = 1;
    for (size_t i = 0; i < schema->input_count; i++) {
        const struct tft_input *input = &schema->inputs[i];
        const json_t *scalers = json_object_get(d.scalers, input->name);
        const json_t *names = json_object_get(d.categories, input->name);
        struct tft_vocabulary *v = &e->vocabularies[i];
        if (input->scale != TFT_SCALE_NONE && (status = take_scalers(log, where, input, scalers, i, e)))
            return status;
        if (has_vocabulary(input) && (status = take_names(log, where, names, &e->memory, &v->count, &v->names)))
            return status;
    }
    return HALAY_OK;
}

enum halay_status tft_encoding_init(struct halay_log *log, const char *where, const struct tft_schema *schema,
                                    json_t *document, struct tft_encoding *encoding)
{
    struct tft_encoding e = { .input_count = schema->input_count };
    enum halay_status status = take_all(log, where, schema, document, &e);

    if (status) {
        tft_encoding_fini(&e);
        return status;
    }
    e.document = json_incref(document);
    *encoding = e;
    return HALAY_OK;
}

/* Returns nonzero if b has all members of a with the same values. */
static int has_all(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)a, key, value) {
        const json_t *other = json_object_get(b, key);
        if (!json_equal(value, other) && (other || strcmp(key, "clocks")))
            return 0;
    }
    return 1;
}

int tft_encoding_is_same(const json_t *a, const json_t *b)
{
    return has_all(a, b) && has_all(b, a);
}

void tft_encoding_fini(struct tft_encoding *encoding)
{
    json_decref(encoding->document);
    halay_region_fini(&encoding->memory);
    *encoding = (struct tft_encoding){ 0 };
}

int tft_encoding_needs_entity(const struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++) {
        const struct tft_input *input = &schema->inputs[i];
        if ((input->scale != TFT_SCALE_NONE && input->per == TFT_PER_ENTITY) ||
            (input->source == TFT_FROM_ID && !input->map && !input->unknown))
            return 1;
    }
    return 0;
}

static int compare_name(const void *text, const void *name)
{
    return strcmp(text, *(const char *const *)name);
}

/* Returns the number of a text among names, or count. */
static size_t find_name(const char *const *names, size_t count, const char *text)
{
    const char *const *found = count ? bsearch(text, names, count, sizeof *names, compare_name) : NULL;

    return found ? (size_t)(found - names) : count;
}

size_t tft_encoding_entity(const struct tft_encoding *encoding, const char *id)
{
    return find_name(encoding->ids, encoding->entity_count, id);
}

enum halay_status tft_encoding_check_entity(struct halay_log *log, const struct halay_error_place *place,
                                            const struct tft_schema *schema, const struct tft_encoding *encoding,
                                            const char *id)
{
    if (!tft_encoding_needs_entity(schema) || tft_encoding_entity(encoding, id) < encoding->entity_count)
        return HALAY_OK;
    return halay_fail_at(
        log, place, HALAY_ERR_FORMAT,
        "entity '%.64s' was not seen in training (%zu are known, the first is '%s'); to forecast new entities, set "
        "'per: all' or 'per: window' for each input that is scaled and 'unknown: true' for the id",
        id, encoding->entity_count, encoding->ids[0]);
}

size_t tft_encoding_categories(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t number)
{
    const struct tft_input *input = &schema->inputs[number];
    size_t more = (size_t)input->unknown;
    int first, count;

    if (!input->is_category)
        return 0;
    if (input->source == TFT_FROM_CALENDAR) {
        tft_calendar_range(input->calendar, &first, &count);
        return (size_t)count;
    }
    if (input->source == TFT_FROM_HOLIDAYS)
        return (size_t)input->holidays.names + 1;
    if (input->source == TFT_FROM_ID && !input->map)
        return encoding->entity_count + more;
    return encoding->vocabularies[number].count + more;
}

int tft_encoding_unknown(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t number,
                         int32_t *code)
{
    const struct tft_input *input = &schema->inputs[number];

    if (!input->unknown || (input->source != TFT_FROM_COLUMN && input->source != TFT_FROM_ID))
        return 0;
    *code = (int32_t)(tft_encoding_categories(schema, encoding, number) - 1);
    return 1;
}

int tft_encoding_code(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t number,
                      const char *text, size_t *code)
{
    const struct tft_input *input = &schema->inputs[number];
    const struct tft_vocabulary *v = &encoding->vocabularies[number];

    if (text && input->map)
        text = json_string_value(json_object_get(input->map, text));
    *code = text ? find_name(v->names, v->count, text) : v->count;
    return *code < v->count || input->unknown;
}

/* Returns the days of an input of holidays, as the schema's document has them. */
static const json_t *days_of(const struct tft_schema *schema, size_t number)
{
    const json_t *input = json_object_get(json_object_get(schema->document, "inputs"), schema->inputs[number].name);
    const json_t *days = json_object_get(input, "holiday");

    return days ? days : json_object_get(json_object_get(input, "calendar"), "holiday");
}

static size_t code_of_day(const struct tft_schema *schema, size_t number, const char *day)
{
    int64_t time = 0;

    (void)tft_time_parse(day, "%Y-%m-%d", &time); /* a day: the schema was checked */
    return (size_t)tft_holidays_code(&schema->inputs[number].holidays, time);
}

/* Returns a category's names in order; NULL for a calendar's. */
static const char *const *names_of(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t number,
                                   size_t *count)
{
    const struct tft_input *input = &schema->inputs[number];

    *count = 0;
    if (has_vocabulary(input)) {
        *count = encoding->vocabularies[number].count;
        return encoding->vocabularies[number].names;
    }
    if (input->source != TFT_FROM_ID)
        return NULL;
    *count = encoding->entity_count;
    return encoding->ids;
}

const char *tft_encoding_name(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t number,
                              size_t code)
{
    size_t count;
    const char *const *names = names_of(schema, encoding, number, &count);
    const char *day;
    json_t *name;

    if (schema->inputs[number].source == TFT_FROM_HOLIDAYS)
        json_object_foreach((json_t *)days_of(schema, number), day, name)
            if (code && code_of_day(schema, number, day) == code)
                return json_string_value(name);
    return code < count ? names[code] : NULL;
}

int tft_encoding_find(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t number,
                      const char *name, size_t *code)
{
    size_t count;
    const char *const *names = names_of(schema, encoding, number, &count);
    const char *day;
    json_t *other;

    if (schema->inputs[number].source == TFT_FROM_HOLIDAYS)
        json_object_foreach((json_t *)days_of(schema, number), day, other)
            if (!strcmp(name, json_string_value(other))) {
                *code = code_of_day(schema, number, day);
                return 1;
            }
    *code = find_name(names, count, name);
    return *code < count;
}
