/* SPDX-License-Identifier: Apache-2.0
 *
 * Each input of the schema in its order: the graph's input, its missing values, its scale. The windows' scales follow,
 * which need all of them, then the network's variables.
 */
#include "base/number_text.h"
#include "tft/tools/export/onnx_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ABOUT_MAX = 512 };

const struct onnx_input *onnx_inputs_find(const struct onnx_graph *g, const char *name)
{
    size_t i = 0;

    while (i + 1 < g->column_count && strcmp(g->columns[i].name, name) != 0)
        i++;
    return &g->columns[i];
}

static struct onnx_input *base_of(const struct onnx_graph *g, const struct onnx_input *in)
{
    return &g->columns[onnx_size(in->is, "base")];
}

/* ---- descriptions: the values, their steps, and what replaces a missing one ---- */

__attribute__((format(printf, 2, 3))) static void about_append(char text[ABOUT_MAX], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    halay_vsnprintf(text + used, ABOUT_MAX - used, format, arguments);
    va_end(arguments);
}

static void about_calendar(const struct onnx_graph *g, const json_t *is, char text[ABOUT_MAX])
{
    const char *name = onnx_text(is, "calendar");
    const int first = (int)onnx_size(is, "first"), count = (int)onnx_size(is, "count");

    if (!count)
        about_append(text, "steps since %s", onnx_text(g->encoding, "origin"));
    else if (!onnx_is(is, "derivation", "none"))
        about_append(text, "%s(2 pi (%s - %d) / %d)", onnx_is(is, "derivation", "sine") ? "sin" : "cos", name, first,
                     count);
    else
        about_append(text, "%s of the clock's time, %d to %d", name, first, first + count - 1);
}

static void about_wave(const struct onnx_graph *g, const json_t *is, char text[ABOUT_MAX])
{
    about_append(text, "%s(2 pi %zu t / %g), t: ", onnx_is(is, "derivation", "sine") ? "sin" : "cos",
                 onnx_size(is, "harmonic"), onnx_real(is, "period"));
    if (json_is_true(json_object_get(is, "period_in_steps")))
        about_append(text, "steps since %s", onnx_text(g->encoding, "origin"));
    else
        about_append(text, "seconds of the clock's time since 1970");
}

static void about_holidays(const json_t *is, char text[ABOUT_MAX])
{
    if (onnx_is(is, "type", "category"))
        about_append(text, "the holiday's name, \"\" on other days");
    else if (!onnx_is(is, "days", "none"))
        about_append(text, "days %s a holiday, 0 on it, at most %zu", onnx_text(is, "days"), onnx_size(is, "most"));
    else
        about_append(text, "1 on a holiday, 0 on other days");
}

static void about_column(const json_t *is, char text[ABOUT_MAX])
{
    about_append(text, "column '%s' as in the table", onnx_text(is, json_object_get(is, "column") ? "column" : "name"));
    if (onnx_is(is, "derivation", "lag"))
        about_append(text, ", of %zu steps before each step", onnx_size(is, "lag"));
}

static void about_missing(const json_t *is, char text[ABOUT_MAX])
{
    static const char *const fills[][2] = { { "forward", "the value before" },
                                            { "interpolate", "a line between its neighbours" },
                                            { "constant", "the schema's constant" } };
    const int is_category = onnx_is(is, "type", "category");
    const char *fill = json_object_get(is, "unknown") ? "the unknown category" : NULL;

    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        if (onnx_is(is, "fill", fills[i][0]))
            fill = fills[i][1];
    about_append(text, "; %s", is_category ? "\"\" (no value)" : "NaN (no value)");
    if (fill)
        about_append(text, " becomes %s", fill);
    else
        about_append(text, is_category ? " is an error" : " makes the forecast NaN");
}

static void about_input(const struct onnx_graph *g, const struct onnx_input *in, char text[ABOUT_MAX])
{
    const char *source = onnx_text(in->is, "source");

    *text = 0;
    if (!strcmp(source, "calendar"))
        about_calendar(g, in->is, text);
    else if (!strcmp(source, "fourier"))
        about_wave(g, in->is, text);
    else if (!strcmp(source, "holidays"))
        about_holidays(in->is, text);
    else
        about_column(in->is, text);
    if (in->steps)
        about_append(text, "; the %zu steps up to the origin", g->E);
    if (in->steps > g->E)
        about_append(text, ", then the %zu after it", g->D);
    if (!strcmp(source, "column"))
        about_missing(in->is, text);
}

/* ---- entity ---- */

size_t onnx_inputs_id(struct onnx_graph *g)
{
    const int is_needed = json_is_true(json_object_get(g->encoding, "needs_entity"));
    char about[ABOUT_MAX];

    snprintf(about, sizeof about,
             is_needed ? "the id, as in the table; one of the %zu that training has seen, others are an error"
                       : "the id, as in the table; training has seen %zu, others are taken as new ones",
             json_array_size(json_object_get(g->encoding, "entities")));
    g->id = g->id ? g->id : onnx_input(g, "entity", ONNX_TEXT, 0, about);
    return g->id;
}

static size_t entity_number(struct onnx_graph *g)
{
    const json_t *ids = json_object_get(g->encoding, "entities");

    if (!g->entity)
        g->entity = onnx_codes(g, onnx_inputs_id(g), ids, (int64_t)json_array_size(ids));
    return g->entity;
}

/* Adds one number for all samples, or looks up that of each one's entity: (B, 1). Without a number for other entities,
 * Gather refuses them. */
static size_t of_entity(struct onnx_graph *g, const struct onnx_input *in, const char *key)
{
    const json_t *list = json_object_get(in->is, key);
    const size_t count = json_array_size(list);
    double *numbers = halay_region_alloc(&g->memory, count, sizeof *numbers);

    for (size_t k = 0; numbers && k < count; k++)
        numbers[k] = json_number_value(json_array_get(list, k));
    if (onnx_is(in->is, "per", "all"))
        return onnx_doubles(g, numbers, NULL, 0);
    size_t all = onnx_doubles(g, numbers, &count, 1);
    return onnx_unsqueeze(g, onnx_gather(g, all, entity_number(g), 0), 1);
}

void onnx_inputs_scaler(struct onnx_graph *g, const struct onnx_input *in, size_t *shift, size_t *scale)
{
    *shift = of_entity(g, in, "shifts");
    *scale = of_entity(g, in, "scales");
}

/* ---- missing values ---- */

/* Shifts x (batch, steps) by `by` steps to later (earlier if negative), with `empty` in the steps without a source. */
static size_t shift_steps(struct onnx_graph *g, size_t x, int64_t by, size_t empty)
{
    const int64_t pads[] = { 0, by, 0, -by };

    return ONNX_OP(g, "Pad", x, onnx_integers(g, pads, (const size_t[]){ 4 }, 1), empty);
}

/* A value is carried over gaps of x (B, steps) by doubling: a missing step takes the value 1, 2, 4 ... steps before
 * (forth: 1) or after (-1), so that after k rounds gaps of 2^k - 1 steps are closed. */
static size_t carry_values(struct onnx_graph *g, const struct onnx_input *in, size_t x, int forth)
{
    size_t empty = in->is_category ? onnx_integer(g, -1) : onnx_double(g, NAN);
    size_t zero = in->is_category ? onnx_integer(g, 0) : ONNX_NONE;

    for (size_t by = 1; by < in->steps; by *= 2) {
        size_t is_missing = in->is_category ? ONNX_OP(g, "Less", x, zero) : ONNX_OP(g, "IsNaN", x);
        x = ONNX_OP(g, "Where", is_missing, shift_steps(g, x, forth * (int64_t)by, empty), x);
    }
    return x;
}

/* Returns the numbers of the steps that have a value, NaN at the others. */
static size_t step_numbers(struct onnx_graph *g, size_t x, size_t steps)
{
    double *numbers = halay_region_alloc(&g->memory, steps, sizeof *numbers);

    for (size_t t = 0; numbers && t < steps; t++)
        numbers[t] = (double)t;
    size_t all = onnx_doubles(g, numbers, &steps, 1);
    return ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_double(g, NAN), all);
}

/* Fills each gap between two values inside the window with a line. */
static size_t fill_line(struct onnx_graph *g, const struct onnx_input *in, size_t x)
{
    size_t at = step_numbers(g, x, in->steps), is_missing = ONNX_OP(g, "IsNaN", x);
    size_t before = carry_values(g, in, x, 1), after = carry_values(g, in, x, -1);
    size_t first = carry_values(g, in, at, 1), last = carry_values(g, in, at, -1);
    /* of a missing step: its own number is not in `at` */
    size_t own = step_numbers(g, onnx_double(g, 0), in->steps);
    size_t share = ONNX_OP(g, "Div", ONNX_OP(g, "Sub", own, first), ONNX_OP(g, "Sub", last, first));
    size_t line = ONNX_OP(g, "Add", before, ONNX_OP(g, "Mul", ONNX_OP(g, "Sub", after, before), share));

    line = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", after), before, line);
    return ONNX_OP(g, "Where", is_missing, line, x);
}

/* Replaces the steps of x before a shorter history by a value, or by a code. */
static size_t blank_history(struct onnx_graph *g, size_t steps, size_t x, int is_code, double value)
{
    if (!steps || !g->before)
        return x;
    size_t is_before = ONNX_OP(g, "Less", onnx_range(g, steps), g->before);
    size_t blank = is_code ? onnx_integer(g, (int64_t)value) : onnx_double(g, value);
    return ONNX_OP(g, "Where", is_before, blank, x);
}

static size_t add_column(struct onnx_graph *g, const struct onnx_input *in, enum onnx_type type)
{
    char name[ONNX_NAME_MAX], about[ABOUT_MAX];

    snprintf(name, sizeof name, "%s.%s", onnx_text(in->is, "role"), in->name);
    about_input(g, in, about);
    return onnx_input(g, name, type, in->steps, about);
}

/* ---- categories ---- */

/* Maps numbers that the calendar does not have to codes outside of the embedding: Gather counts numbers below 0 from
 * the end. */
static size_t codes_of_calendar(struct onnx_graph *g, const struct onnx_input *in)
{
    size_t numbers = add_column(g, in, ONNX_INT64);
    size_t codes = ONNX_OP(g, "Sub", numbers, onnx_integer(g, (int64_t)onnx_size(in->is, "first")));
    size_t is_wrong = ONNX_OP(g, "Less", codes, onnx_integer(g, 0));

    return ONNX_OP(g, "Where", is_wrong, onnx_integer(g, (int64_t)onnx_size(in->is, "count")), codes);
}

/* Fills in missing codes of a column; other: of what nothing fills. */
static size_t fill_category(struct onnx_graph *g, const struct onnx_input *in, int64_t other)
{
    const json_t *constant = json_object_get(in->is, "constant");
    size_t x = in->raw;

    if (onnx_is(in->is, "fill", "forward") && in->steps > 1)
        x = carry_values(g, in, x, 1);
    size_t is_missing = ONNX_OP(g, "Less", x, onnx_integer(g, 0));
    return ONNX_OP(g, "Where", is_missing, onnx_integer(g, constant ? json_integer_value(constant) : other), x);
}

static void add_category(struct onnx_graph *g, struct onnx_input *in)
{
    const json_t *unknown = json_object_get(in->is, "unknown"), *texts = json_object_get(in->is, "codes");
    const int is_id = onnx_is(in->is, "source", "id");
    /* Without a code for categories that training has not seen, one outside of the embedding: Gather refuses it. */
    const int64_t other = json_integer_value(unknown ? unknown : json_object_get(in->is, "categories"));
    size_t codes;

    if (texts)
        codes = onnx_codes(g, is_id ? onnx_inputs_id(g) : add_column(g, in, ONNX_TEXT), texts, other);
    else
        codes = is_id ? entity_number(g) : codes_of_calendar(g, in);
    in->raw = blank_history(g, in->steps, codes, 1, -1);
    codes = onnx_is(in->is, "source", "column") ? fill_category(g, in, other) : in->raw;
    in->scaled = blank_history(g, in->steps, codes, 1, 0);
}

/* ---- reals ---- */

/* Converts a real as the table has it, in double: missing_number and transform. */
static size_t read_real(struct onnx_graph *g, const struct onnx_input *in, size_t x)
{
    const json_t *number = json_object_get(in->is, "missing_number");

    x = onnx_cast(g, x, ONNX_DOUBLE);
    if (number) { /* inputs are floats */
        size_t is_none = ONNX_OP(g, "Equal", x, onnx_double(g, (double)(float)json_number_value(number)));
        x = ONNX_OP(g, "Where", is_none, onnx_double(g, NAN), x);
    }
    if (onnx_is(in->is, "transform", "none"))
        return x;
    if (onnx_is(in->is, "transform", "log1p"))
        x = ONNX_OP(g, "Add", x, onnx_double(g, 1));
    size_t has_log = ONNX_OP(g, "Greater", x, onnx_double(g, 0));
    return ONNX_OP(g, "Where", has_log, ONNX_OP(g, "Log", x), onnx_double(g, NAN));
}

/* Nothing is carried backwards, as tft/core/data/table_impl.h fills a table. */
static size_t fill_real(struct onnx_graph *g, const struct onnx_input *in)
{
    size_t x = in->raw;

    if (onnx_is(in->is, "fill", "constant"))
        return ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_double(g, onnx_real(in->is, "constant")), x);
    if (onnx_is(in->is, "fill", "forward") && in->steps > 1)
        return carry_values(g, in, x, 1);
    return onnx_is(in->is, "fill", "interpolate") && in->steps > 1 ? fill_line(g, in, x) : x;
}

static size_t scale_real(struct onnx_graph *g, const struct onnx_input *in, size_t x)
{
    size_t shift, scale;

    if (onnx_is(in->is, "scale", "none"))
        return x;
    onnx_inputs_scaler(g, in, &shift, &scale);
    if (onnx_is(in->is, "scale", "log1p-standard"))
        x = ONNX_OP(g, "Log", ONNX_OP(g, "Add", x, onnx_double(g, 1)));
    return ONNX_OP(g, "Div", ONNX_OP(g, "Sub", x, shift), scale);
}

static void add_real(struct onnx_graph *g, struct onnx_input *in)
{
    in->raw = blank_history(g, in->steps, read_real(g, in, add_column(g, in, ONNX_FLOAT)), 0, NAN);
    in->scaled = blank_history(g, in->steps, scale_real(g, in, fill_real(g, in)), 0, 0);
}

/* Adds 1 where the input that this one is made from has no value. */
static void add_indicator(struct onnx_graph *g, struct onnx_input *in)
{
    const struct onnx_input *base = base_of(g, in);
    size_t is_missing =
        base->is_category ? ONNX_OP(g, "Less", base->raw, onnx_integer(g, 0)) : ONNX_OP(g, "IsNaN", base->raw);

    in->scaled = blank_history(g, in->steps, onnx_cast(g, is_missing, ONNX_DOUBLE), 0, 0);
}

/* ---- the window's scale ---- */

/* Returns the mean of x (B, E) over the steps of history; x is 0 before them. */
static size_t mean_of(struct onnx_graph *g, size_t x)
{
    if (!g->length)
        return onnx_reduce(g, "ReduceMean", x);
    return ONNX_OP(g, "Div", onnx_reduce(g, "ReduceSum", x), onnx_cast(g, g->length, ONNX_DOUBLE));
}

/* Computes level and spread of an input's plain values. */
static void measure_window(struct onnx_graph *g, struct onnx_input *in)
{
    const json_t *formulas = json_object_get(g->encoding, "formulas");
    size_t x = onnx_slice(g, in->scaled, 1, 0, g->E);

    in->mean = mean_of(g, x);
    x = blank_history(g, g->E, ONNX_OP(g, "Sub", x, in->mean), 0, 0);
    size_t spread = ONNX_OP(g, "Sqrt", mean_of(g, ONNX_OP(g, "Mul", x, x)));
    in->spread = ONNX_OP(g, "Max", spread, onnx_double(g, onnx_real(formulas, "spread_least")));
}

static void scale_windows(struct onnx_graph *g)
{
    for (struct onnx_input *in = g->columns; in < g->columns + g->column_count; in++) {
        struct onnx_input *base = base_of(g, in);
        if (!onnx_is(in->is, "per", "window") || onnx_is(in->is, "scale", "none"))
            continue;
        if (base == in)
            measure_window(g, in);
        in->mean = base->mean;
        in->spread = base->spread;
    }
}

/* ---- all inputs ---- */

static void add_length(struct onnx_graph *g)
{
    const size_t least = onnx_size(g->encoding, "min_encoder");
    char about[ABOUT_MAX];

    if (least >= g->E)
        return;
    snprintf(about, sizeof about,
             "number of steps of the past, %zu to %zu; they are the last ones up to the origin, and earlier steps are "
             "not read",
             least, g->E);
    g->length = onnx_unsqueeze(g, onnx_input(g, "length", ONNX_INT64, 0, about), 1);
    g->before = ONNX_OP(g, "Sub", onnx_integer(g, (int64_t)g->E), g->length);
}

/* Sets what the network reads, in its order. */
static void add_variables(struct onnx_graph *g)
{
    const char *target = json_string_value(json_array_get(json_object_get(g->model, "targets"), 0));
    size_t i;
    json_t *one;

    g->batch = onnx_slice(g, ONNX_OP(g, "Shape", onnx_inputs_find(g, target)->raw), 0, 0, 1);
    json_array_foreach(json_object_get(g->model, "inputs"), i, one) {
        struct onnx_input *in = &g->columns[onnx_inputs_find(g, onnx_text(one, "name")) - g->columns];
        size_t x = in->scaled;
        if (in->mean)
            x = ONNX_OP(g, "Div", ONNX_OP(g, "Sub", x, in->mean), in->spread);
        in->variable = in->is_category ? x : onnx_cast(g, x, ONNX_FLOAT);
    }
}

void onnx_inputs(struct onnx_graph *g)
{
    const json_t *list = json_object_get(g->encoding, "inputs");

    g->part = "inputs";
    add_length(g);
    g->column_count = json_array_size(list);
    g->columns = halay_region_alloc(&g->memory, g->column_count, sizeof *g->columns);
    for (size_t i = 0; g->columns && i < g->column_count; i++) {
        struct onnx_input *in = &g->columns[i];
        const json_t *is = json_array_get(list, i);
        *in = (struct onnx_input){ .is = is,
                                   .name = onnx_text(is, "name"),
                                   .steps = onnx_size(is, "steps"),
                                   .is_category = onnx_is(is, "type", "category") };
        if (onnx_is(is, "role", "weight"))
            continue;
        if (in->is_category)
            add_category(g, in);
        else if (onnx_is(is, "derivation", "missing"))
            add_indicator(g, in);
        else
            add_real(g, in);
    }
    if (!g->columns)
        return;
    scale_windows(g);
    add_variables(g);
}
