/* SPDX-License-Identifier: Apache-2.0
 *
 * Each input of the schema in its order: the graph's input, its missing values, its scale. The windows' scales follow,
 * which need all of them.
 */
#include "tft/core/run/batches.h"
#include "tft/tools/export/onnx_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tft_input *input_of(const struct onnx_inputs *in, size_t i)
{
    return &in->run->schema.inputs[i];
}

/* Returns the number of a window's steps that an input has; 0: it is static. */
static size_t steps_of(const struct onnx_inputs *in, size_t i)
{
    const struct tft_role_traits *role = &tft_roles[input_of(in, i)->role];

    if (role->is_constant)
        return 0;
    return in->run->schema.encoder + (role->is_known_ahead ? in->run->schema.horizon : 0);
}

static size_t add_input(struct onnx_inputs *in, const char *name, enum onnx_type type, size_t steps, const char *about)
{
    json_t *shape = json_pack("[s]", "batch");

    if (steps)
        json_array_append_new(shape, json_integer((json_int_t)steps));
    if (json_array_append_new(in->described, json_pack("{ss ss so ss}", "name", name, "type", onnx_type_name(type),
                                                       "shape", shape, "about", about)))
        in->g->failed = 1;
    return onnx_input(in->g, name, type, &steps, steps ? 1 : 0, about);
}

/* ---- entity ---- */

size_t onnx_inputs_id(struct onnx_inputs *in)
{
    char about[ONNX_ABOUT_MAX];

    if (!in->id) {
        onnx_about_entity(in->run, about);
        in->id = add_input(in, "entity", ONNX_TEXT, 0, about);
    }
    return in->id;
}

size_t onnx_inputs_entity(struct onnx_inputs *in)
{
    const struct tft_encoding *e = &in->run->encoding;

    if (!in->entity)
        in->entity = onnx_codes(in->g, onnx_inputs_id(in), e->ids, NULL, e->entity_count, (int64_t)e->entity_count);
    return in->entity;
}

/* Looks up a number of each entity, (entities + 1) of which the last is for other entities, by the entity's number: (B,
 * 1). */
static size_t of_entity(struct onnx_inputs *in, const double *numbers)
{
    /* Without a row for other entities, Gather refuses them. */
    size_t rows = in->run->encoding.entity_count + !tft_encoding_needs_entity(&in->run->schema);
    size_t all = onnx_doubles(in->g, numbers, &rows, 1);

    return onnx_unsqueeze(in->g, onnx_gather(in->g, all, onnx_inputs_entity(in), 0), 1);
}

/* ---- categories ---- */

/* The keys of a LabelEncoder. */
struct keys {
    const char **texts; /* owned array */
    int64_t *codes;     /* owned */
    size_t count;
};

static void keys_init(struct onnx_inputs *in, size_t most, struct keys *keys)
{
    *keys = (struct keys){ calloc(most + 1, sizeof *keys->texts), calloc(most + 1, sizeof *keys->codes), 0 };
    in->g->failed |= !keys->texts || !keys->codes;
}

static void keys_add(struct onnx_inputs *in, struct keys *keys, const char *text, int64_t code)
{
    if (in->g->failed)
        return;
    keys->texts[keys->count] = text;
    keys->codes[keys->count++] = code;
}

/* Adds the codes of texts and frees the keys; other: the code of a text that is not a key. */
static size_t keys_encode(struct onnx_inputs *in, struct keys *keys, size_t texts, int64_t other)
{
    size_t codes = onnx_codes(in->g, texts, keys->texts, keys->codes, keys->count, other);

    free(keys->texts);
    free(keys->codes);
    return codes;
}

/* Returns the code of an unseen category; without one, a code outside of the embedding, so that Gather
 * refuses it. */
static int64_t other_code(const struct onnx_inputs *in, size_t i)
{
    const struct tft_run *run = in->run;
    int32_t unknown;

    if (tft_encoding_unknown(&run->schema, &run->encoding, i, &unknown))
        return unknown;
    return (int64_t)tft_encoding_categories(&run->schema, &run->encoding, i);
}

/* Collects the texts of a map with their codes, without those whose category training has not seen. */
static void keys_of_map(struct onnx_inputs *in, size_t i, struct keys *keys)
{
    const json_t *map = input_of(in, i)->map;
    const char *text;
    json_t *to;
    size_t code;

    keys_init(in, json_object_size(map) + TFT_MISSING_MAX, keys);
    json_object_foreach((json_t *)map, text, to)
        if (tft_encoding_code(&in->run->schema, &in->run->encoding, i, text, &code))
            keys_add(in, keys, text, (int64_t)code);
}

static size_t codes_of_column(struct onnx_inputs *in, size_t i, size_t texts)
{
    const struct tft_run *run = in->run;
    const struct tft_vocabulary *names = &run->encoding.vocabularies[i];
    const struct tft_input *input = input_of(in, i);
    struct keys keys;
    size_t code;

    if (input->map)
        keys_of_map(in, i, &keys);
    else
        keys_init(in, names->count + TFT_MISSING_MAX, &keys);
    for (size_t k = 0; k < names->count && !input->map; k++)
        keys_add(in, &keys, names->names[k], (int64_t)k);
    for (size_t k = 0; run->schema.missing[k]; k++) {
        const char *word = run->schema.missing[k];
        if (input->map ? !json_object_get(input->map, word)
                       : !tft_encoding_find(&run->schema, &run->encoding, i, word, &code))
            keys_add(in, &keys, word, -1);
    }
    return keys_encode(in, &keys, texts, other_code(in, i));
}

static size_t codes_of_holidays(struct onnx_inputs *in, size_t i, size_t texts)
{
    size_t count = tft_encoding_categories(&in->run->schema, &in->run->encoding, i);
    struct keys keys;

    keys_init(in, count, &keys);
    keys_add(in, &keys, "", 0);
    for (size_t k = 1; k < count; k++)
        keys_add(in, &keys, tft_encoding_name(&in->run->schema, &in->run->encoding, i, k), (int64_t)k);
    return keys_encode(in, &keys, texts, (int64_t)count);
}

/* Maps numbers that the calendar does not have to codes outside of the embedding: Gather counts numbers below 0 from
 * the end. */
static size_t codes_of_calendar(struct onnx_inputs *in, size_t i, size_t numbers)
{
    int first, count;

    tft_calendar_range(input_of(in, i)->calendar, &first, &count);
    size_t codes = ONNX_OP(in->g, "Sub", numbers, onnx_integer(in->g, first));
    size_t is_wrong = ONNX_OP(in->g, "Less", codes, onnx_integer(in->g, 0));
    return ONNX_OP(in->g, "Where", is_wrong, onnx_integer(in->g, count), codes);
}

static size_t codes_of_map(struct onnx_inputs *in, size_t i)
{
    struct keys keys;

    keys_of_map(in, i, &keys);
    return keys_encode(in, &keys, onnx_inputs_id(in), other_code(in, i));
}

/* ---- missing values ---- */

/* Fills x (B, steps), doubles, NaN if missing: nothing is carried backwards, as tft/core/data/table_impl.h fills a
 * table. A value is carried over gaps by doubling: a missing step takes the value 1, 2, 4 ... steps before, so that
 * after k rounds gaps of 2^k - 1 steps are closed. */
static size_t fill_forward(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t empty = onnx_double(g, NAN);

    for (size_t by = 1; by < steps; by *= 2)
        x = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_shift(g, x, (int64_t)by, empty), x);
    return x;
}

/* Does the same for codes, -1 if missing. */
static size_t fill_codes(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t empty = onnx_integer(g, -1), zero = onnx_integer(g, 0);

    for (size_t by = 1; by < steps; by *= 2)
        x = ONNX_OP(g, "Where", ONNX_OP(g, "Less", x, zero), onnx_shift(g, x, (int64_t)by, empty), x);
    return x;
}

/* Closes each gap of x with the value after it. */
static size_t fill_backward(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t empty = onnx_double(g, NAN);

    for (size_t by = 1; by < steps; by *= 2)
        x = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_shift(g, x, -(int64_t)by, empty), x);
    return x;
}

/* Returns the numbers of the steps that have a value, NaN at the others. */
static size_t step_numbers(struct onnx_graph *g, size_t x, size_t steps)
{
    double *numbers = calloc(steps + 1, sizeof *numbers);

    g->failed |= !numbers;
    for (size_t t = 0; numbers && t < steps; t++)
        numbers[t] = (double)t;
    size_t all = numbers ? onnx_doubles(g, numbers, &steps, 1) : ONNX_NONE;
    free(numbers);
    return ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_double(g, NAN), all);
}

/* Fills each gap between two values inside the window with a line. */
static size_t fill_line(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t at = step_numbers(g, x, steps), is_missing = ONNX_OP(g, "IsNaN", x);
    size_t before = fill_forward(g, x, steps), after = fill_backward(g, x, steps);
    size_t first = fill_forward(g, at, steps), last = fill_backward(g, at, steps);
    /* of a missing step: its own number is not in `at` */
    size_t own = step_numbers(g, onnx_double(g, 0), steps);
    size_t share = ONNX_OP(g, "Div", ONNX_OP(g, "Sub", own, first), ONNX_OP(g, "Sub", last, first));
    size_t line = ONNX_OP(g, "Add", before, ONNX_OP(g, "Mul", ONNX_OP(g, "Sub", after, before), share));

    line = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", after), before, line);
    return ONNX_OP(g, "Where", is_missing, line, x);
}

/* ---- steps before a shorter history ---- */

static size_t is_before(struct onnx_inputs *in, size_t steps)
{
    return ONNX_OP(in->g, "Less", onnx_range(in->g, steps), in->before);
}

/* Replaces the steps of x before the history by another value. */
static size_t blank_history(struct onnx_inputs *in, size_t steps, size_t x, double value)
{
    return steps && in->before ? ONNX_OP(in->g, "Where", is_before(in, steps), onnx_double(in->g, value), x) : x;
}

static size_t blank_codes(struct onnx_inputs *in, size_t steps, size_t x, int64_t code)
{
    return steps && in->before ? ONNX_OP(in->g, "Where", is_before(in, steps), onnx_integer(in->g, code), x) : x;
}

/* ---- inputs ---- */

static const char *graph_name(const struct onnx_inputs *in, size_t i, char name[2 * TFT_NAME_MAX])
{
    snprintf(name, 2 * TFT_NAME_MAX, "%s.%s", tft_roles[input_of(in, i)->role].name, input_of(in, i)->name);
    return name;
}

static size_t add_column(struct onnx_inputs *in, size_t i, enum onnx_type type)
{
    char name[2 * TFT_NAME_MAX], about[ONNX_ABOUT_MAX];

    onnx_about_input(in->run, i, about);
    return add_input(in, graph_name(in, i, name), type, steps_of(in, i), about);
}

/* Replaces missing codes. */
static size_t fill_category(struct onnx_inputs *in, size_t i)
{
    const struct tft_input *input = input_of(in, i);
    size_t steps = steps_of(in, i), x = in->raw[i], code;
    int64_t missing = other_code(in, i);

    if (input->fill == TFT_FILL_FORWARD && steps > 1)
        x = fill_codes(in->g, x, steps);
    if (input->fill == TFT_FILL_CONSTANT &&
        tft_encoding_code(&in->run->schema, &in->run->encoding, i, input->constant_text, &code))
        missing = (int64_t)code;
    return ONNX_OP(in->g, "Where", ONNX_OP(in->g, "Less", x, onnx_integer(in->g, 0)), onnx_integer(in->g, missing), x);
}

static void add_category(struct onnx_inputs *in, size_t i)
{
    const struct tft_input *input = input_of(in, i);
    size_t steps = steps_of(in, i), codes;

    if (input->source == TFT_FROM_ID)
        codes = input->map ? codes_of_map(in, i) : onnx_inputs_entity(in);
    else if (input->source == TFT_FROM_CALENDAR)
        codes = codes_of_calendar(in, i, add_column(in, i, ONNX_INT64));
    else if (input->source == TFT_FROM_HOLIDAYS)
        codes = codes_of_holidays(in, i, add_column(in, i, ONNX_TEXT));
    else
        codes = codes_of_column(in, i, add_column(in, i, ONNX_TEXT));
    in->raw[i] = blank_codes(in, steps, codes, -1);
    codes = input->source == TFT_FROM_COLUMN ? fill_category(in, i) : in->raw[i];
    in->scaled[i] = blank_codes(in, steps, codes, 0);
}

/* Converts a real as the table has it, in double: missing_number and transform. */
static size_t read_real(struct onnx_inputs *in, size_t i, size_t x)
{
    const struct tft_input *input = input_of(in, i);

    x = onnx_cast(in->g, x, ONNX_DOUBLE);
    if (input->has_missing_number) { /* inputs are floats */
        size_t is_none = ONNX_OP(in->g, "Equal", x, onnx_double(in->g, (double)(float)input->missing_number));
        x = ONNX_OP(in->g, "Where", is_none, onnx_double(in->g, NAN), x);
    }
    if (input->transform == TFT_TRANSFORM_NONE)
        return x;
    if (input->transform == TFT_TRANSFORM_LOG1P)
        x = ONNX_OP(in->g, "Add", x, onnx_double(in->g, 1));
    size_t has_log = ONNX_OP(in->g, "Greater", x, onnx_double(in->g, 0));
    return ONNX_OP(in->g, "Where", has_log, ONNX_OP(in->g, "Log", x), onnx_double(in->g, NAN));
}

static size_t fill_real(struct onnx_inputs *in, size_t i)
{
    const struct tft_input *input = input_of(in, i);
    size_t steps = steps_of(in, i), x = in->raw[i];

    if (input->fill == TFT_FILL_CONSTANT)
        return ONNX_OP(in->g, "Where", ONNX_OP(in->g, "IsNaN", x), onnx_double(in->g, input->constant), x);
    if (input->fill == TFT_FILL_FORWARD && steps > 1)
        return fill_forward(in->g, x, steps);
    return input->fill == TFT_FILL_INTERPOLATE && steps > 1 ? fill_line(in->g, x, steps) : x;
}

/* Returns a number of each scaler, for every entity and for other entities. */
static size_t scaler_numbers(struct onnx_inputs *in, size_t i, int of_scale)
{
    const struct tft_encoding *e = &in->run->encoding;
    double *numbers = calloc(e->entity_count + 1, sizeof *numbers);
    size_t value = ONNX_NONE;

    in->g->failed |= !numbers;
    for (size_t k = 0; numbers && k <= e->entity_count; k++) {
        /* For an unseen entity, lags use their input's scaler, as its own scalers do (tft/core/data/own_scalers.c). */
        const int is_unseen = k == e->entity_count && input_of(in, i)->per != TFT_PER_ALL;
        const struct tft_scaler *scaler = &e->scalers[k * e->input_count + (is_unseen ? input_of(in, i)->base : i)];
        numbers[k] = of_scale ? scaler->scale : scaler->shift;
    }
    if (numbers)
        value = input_of(in, i)->per == TFT_PER_ALL ? onnx_double(in->g, numbers[0]) : of_entity(in, numbers);
    free(numbers);
    return value;
}

void onnx_inputs_scaler(struct onnx_inputs *in, size_t i, size_t *shift, size_t *scale)
{
    *shift = scaler_numbers(in, i, 0);
    *scale = scaler_numbers(in, i, 1);
}

static size_t scale_real(struct onnx_inputs *in, size_t i, size_t x)
{
    size_t shift, scale;

    if (input_of(in, i)->scale == TFT_SCALE_NONE)
        return x;
    onnx_inputs_scaler(in, i, &shift, &scale);
    if (input_of(in, i)->scale == TFT_SCALE_LOG1P)
        x = ONNX_OP(in->g, "Log", ONNX_OP(in->g, "Add", x, onnx_double(in->g, 1)));
    return ONNX_OP(in->g, "Div", ONNX_OP(in->g, "Sub", x, shift), scale);
}

static void add_real(struct onnx_inputs *in, size_t i)
{
    size_t steps = steps_of(in, i);

    in->raw[i] = blank_history(in, steps, read_real(in, i, add_column(in, i, ONNX_FLOAT)), NAN);
    in->scaled[i] = blank_history(in, steps, scale_real(in, i, fill_real(in, i)), 0);
}

/* Adds 1 where the input that this one is made from has no value. */
static void add_indicator(struct onnx_inputs *in, size_t i)
{
    size_t base = input_of(in, i)->base, raw = in->raw[base], steps = steps_of(in, i);
    size_t is_missing = input_of(in, base)->is_category ? ONNX_OP(in->g, "Less", raw, onnx_integer(in->g, 0))
                                                        : ONNX_OP(in->g, "IsNaN", raw);

    in->scaled[i] = blank_history(in, steps, onnx_cast(in->g, is_missing, ONNX_DOUBLE), 0);
}

static void add_length(struct onnx_inputs *in)
{
    const struct tft_schema *s = &in->run->schema;
    char about[ONNX_ABOUT_MAX];

    if (s->min_encoder >= s->encoder)
        return;
    onnx_about_length(in->run, about);
    in->length = onnx_unsqueeze(in->g, add_input(in, "length", ONNX_INT64, 0, about), 1);
    in->before = ONNX_OP(in->g, "Sub", onnx_integer(in->g, (int64_t)s->encoder), in->length);
}

/* ---- the window's scale ---- */

static int is_scaled_by_window(const struct tft_input *input)
{
    return input->per == TFT_PER_WINDOW && input->scale != TFT_SCALE_NONE;
}

/* Returns the mean of x (B, E) over the steps of history; x is 0 before them. */
static size_t mean_of(struct onnx_inputs *in, size_t x)
{
    if (!in->length)
        return onnx_reduce(in->g, "ReduceMean", x);
    return ONNX_OP(in->g, "Div", onnx_reduce(in->g, "ReduceSum", x), onnx_cast(in->g, in->length, ONNX_DOUBLE));
}

/* Computes level and spread of an input's plain values. */
static void measure_window(struct onnx_inputs *in, size_t i)
{
    size_t E = in->run->schema.encoder, x = onnx_slice(in->g, in->scaled[i], 1, 0, E);

    in->mean[i] = mean_of(in, x);
    x = blank_history(in, E, ONNX_OP(in->g, "Sub", x, in->mean[i]), 0);
    size_t spread = ONNX_OP(in->g, "Sqrt", mean_of(in, ONNX_OP(in->g, "Mul", x, x)));
    in->spread[i] = ONNX_OP(in->g, "Max", spread, onnx_double(in->g, tft_spread_least));
}

static void scale_windows(struct onnx_inputs *in)
{
    for (size_t i = 0; i < in->run->schema.input_count; i++) {
        size_t base = input_of(in, i)->base;
        if (!is_scaled_by_window(input_of(in, i)))
            continue;
        if (base == i)
            measure_window(in, i);
        in->mean[i] = in->mean[base];
        in->spread[i] = in->spread[base];
    }
}

/* ---- all inputs ---- */

enum halay_status onnx_inputs_init(struct onnx_graph *g, const struct tft_run *run, struct onnx_inputs *inputs)
{
    struct onnx_inputs in = { .g = g, .run = run, .described = json_array() };

    g->part = "inputs";
    add_length(&in);
    for (size_t i = 0; i < run->schema.input_count; i++) {
        const struct tft_input *input = &run->schema.inputs[i];
        if (!tft_roles[input->role].is_variable)
            continue;
        if (input->is_category)
            add_category(&in, i);
        else if (input->derivation == TFT_WAS_MISSING)
            add_indicator(&in, i);
        else
            add_real(&in, i);
    }
    scale_windows(&in);
    *inputs = in;
    return in.described && !g->failed ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

void onnx_inputs_fini(struct onnx_inputs *in)
{
    json_decref(in->described);
    *in = (struct onnx_inputs){ 0 };
}

/* Returns the number of the schema's input that is a variable of the model. */
static size_t input_named(const struct onnx_inputs *in, const char *name)
{
    size_t i = 0;

    while (strcmp(input_of(in, i)->name, name) != 0)
        i++;
    return i;
}

static size_t first_size(struct onnx_graph *g, size_t x)
{
    return onnx_slice(g, ONNX_OP(g, "Shape", x), 0, 0, 1);
}

void onnx_inputs_of_network(const struct onnx_inputs *in, struct onnx_network_inputs *network)
{
    const struct tft_model_config *config = tft_model_config(in->run->model);

    *network = (struct onnx_network_inputs){ .batch = first_size(in->g, in->raw[in->run->schema.targets[0]]),
                                             .lengths = in->length };
    for (size_t v = 0; v < config->variable_count; v++) {
        size_t i = input_named(in, config->variables[v].name), x = in->scaled[i];
        if (in->mean[i])
            x = ONNX_OP(in->g, "Div", ONNX_OP(in->g, "Sub", x, in->mean[i]), in->spread[i]);
        network->variables[v] = input_of(in, i)->is_category ? x : onnx_cast(in->g, x, ONNX_FLOAT);
    }
}
