/* SPDX-License-Identifier: Apache-2.0
 *
 * An encoding and its schema as one document, for programs that encode rows themselves.
 */
#include "tft/core/data/encoding.h"

static json_t *list_texts(const char *const *texts, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

/* ---- categories ---- */

/* Adds the codes of a vocabulary, or of the texts that a map leads to it from. */
static void add_names(const struct tft_schema *s, const struct tft_encoding *e, size_t i, json_t *codes)
{
    const struct tft_vocabulary *v = &e->vocabularies[i];
    const char *text;
    json_t *to;
    size_t code;

    for (size_t k = 0; !s->inputs[i].map && k < v->count; k++)
        json_object_set_new(codes, v->names[k], json_integer((json_int_t)k));
    json_object_foreach((json_t *)s->inputs[i].map, text, to)
        if (tft_encoding_code(s, e, i, text, &code))
            json_object_set_new(codes, text, json_integer((json_int_t)code));
}

/* Returns the codes of texts, -1 for a missing value. */
static json_t *list_codes(const struct tft_schema *s, const struct tft_encoding *e, size_t i)
{
    const struct tft_input *input = &s->inputs[i];
    json_t *codes = json_object();

    if (input->source == TFT_FROM_HOLIDAYS) {
        json_object_set_new(codes, "", json_integer(0));
        for (size_t k = 1; k < tft_encoding_categories(s, e, i); k++)
            json_object_set_new(codes, tft_encoding_name(s, e, i, k), json_integer((json_int_t)k));
        return codes;
    }
    add_names(s, e, i, codes);
    for (size_t k = 0; input->source == TFT_FROM_COLUMN && s->missing[k]; k++)
        if (!json_object_get(input->map ? input->map : codes, s->missing[k]))
            json_object_set_new(codes, s->missing[k], json_integer(-1));
    return codes;
}

static void describe_category(const struct tft_schema *s, const struct tft_encoding *e, size_t i, json_t *to)
{
    const struct tft_input *input = &s->inputs[i];
    int32_t unknown;
    size_t code;

    json_object_set_new(to, "categories", json_integer((json_int_t)tft_encoding_categories(s, e, i)));
    if (tft_encoding_unknown(s, e, i, &unknown))
        json_object_set_new(to, "unknown", json_integer(unknown));
    if (input->source != TFT_FROM_CALENDAR && (input->source != TFT_FROM_ID || input->map))
        json_object_set_new(to, "codes", list_codes(s, e, i));
    if (input->fill == TFT_FILL_CONSTANT && tft_encoding_code(s, e, i, input->constant_text, &code))
        json_object_set_new(to, "constant", json_integer((json_int_t)code));
}

/* ---- reals ---- */

/* Lists shifts and scales: one for all entities, or one for each and, if those that training has not seen are allowed,
 * one for others, of which a lag has that of its input, as in their own scalers (tft/core/data/own_scalers.c). */
static void describe_scalers(const struct tft_schema *s, const struct tft_encoding *e, size_t i, json_t *to)
{
    const struct tft_input *input = &s->inputs[i];
    const size_t count = input->per == TFT_PER_ALL ? 1 : e->entity_count + !tft_encoding_needs_entity(s);
    json_t *shifts = json_array(), *scales = json_array();

    for (size_t k = 0; k < count; k++) {
        const size_t from = k == e->entity_count && input->per != TFT_PER_ALL ? input->base : i;
        const struct tft_scaler *scaler = &e->scalers[k * e->input_count + from];
        json_array_append_new(shifts, json_real(scaler->shift));
        json_array_append_new(scales, json_real(scaler->scale));
    }
    json_object_set_new(to, "shifts", shifts);
    json_object_set_new(to, "scales", scales);
}

/* ---- all ---- */

static json_t *describe_input(const struct tft_schema *s, const struct tft_encoding *e, size_t i)
{
    const struct tft_input *input = &s->inputs[i];
    const struct tft_role_traits *role = &tft_roles[input->role];
    const size_t steps = role->is_constant ? 0 : s->encoder + (role->is_known_ahead ? s->horizon : 0);
    json_t *to = tft_input_json(input);
    int first, count;

    json_object_set_new(to, "steps", json_integer((json_int_t)steps));
    if (input->source == TFT_FROM_CALENDAR) {
        tft_calendar_range(input->calendar, &first, &count);
        json_object_set_new(to, "first", json_integer(first));
        json_object_set_new(to, "count", json_integer(count));
    }
    if (input->is_category)
        describe_category(s, e, i, to);
    else if (input->fill == TFT_FILL_CONSTANT)
        json_object_set_new(to, "constant", json_real(input->constant));
    if (input->scale != TFT_SCALE_NONE)
        describe_scalers(s, e, i, to);
    return to;
}

json_t *tft_encoding_json(const struct tft_schema *s, const struct tft_encoding *e)
{
    size_t missing = 0;
    json_t *inputs = json_array();
    char origin[40];

    while (s->missing[missing])
        missing++;
    for (size_t i = 0; i < s->input_count; i++)
        json_array_append_new(inputs, describe_input(s, e, i));
    tft_schema_print_time(s, e->origin, origin, sizeof origin);
    return json_pack("{ss ss ss so sI so sb so}", "kind", "encoding", "schema", s->name, "origin", origin, "missing",
                     list_texts(s->missing, missing), "min_encoder", (json_int_t)s->min_encoder, "entities",
                     list_texts(e->ids, e->entity_count), "needs_entity", tft_encoding_needs_entity(s), "inputs",
                     inputs);
}
