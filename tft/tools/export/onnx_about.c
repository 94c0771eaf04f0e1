/* SPDX-License-Identifier: Apache-2.0
 *
 * A description gives the values, their steps, and what replaces a missing one.
 */
#include "base/number_text.h"
#include "tft/tools/export/onnx_impl.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append(char text[ONNX_ABOUT_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char text[ONNX_ABOUT_MAX], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    halay_vsnprintf(text + used, ONNX_ABOUT_MAX - used, format, arguments);
    va_end(arguments);
}

void onnx_about_entity(const struct tft_run *run, char text[ONNX_ABOUT_MAX])
{
    *text = 0;
    append(text, "the id, as in the table; ");
    if (tft_encoding_needs_entity(&run->schema))
        append(text, "one of the %zu that training has seen, others are an error", run->encoding.entity_count);
    else
        append(text, "training has seen %zu, others are taken as new ones", run->encoding.entity_count);
}

void onnx_about_length(const struct tft_run *run, char text[ONNX_ABOUT_MAX])
{
    *text = 0;
    append(text,
           "number of steps of the past, %zu to %zu; they are the last ones up to the origin, and earlier steps "
           "are not read",
           run->schema.min_encoder, run->schema.encoder);
}

static void add_calendar(const struct tft_input *input, const struct tft_run *run, char text[ONNX_ABOUT_MAX])
{
    int first, count;
    char origin[40];

    if (input->calendar == TFT_CALENDAR_STEPS) {
        tft_schema_print_time(&run->schema, run->encoding.origin, origin, sizeof origin);
        append(text, "steps since %s", origin);
        return;
    }
    tft_calendar_range(input->calendar, &first, &count);
    if (input->derivation != TFT_PLAIN)
        append(text, "%s(2 pi (%s - %d) / %d)", input->derivation == TFT_SINE ? "sin" : "cos",
               tft_calendar_names[input->calendar], first, count);
    else
        append(text, "%s of the clock's time, %d to %d", tft_calendar_names[input->calendar], first, first + count - 1);
}

static void add_wave(const struct tft_input *input, const struct tft_run *run, char text[ONNX_ABOUT_MAX])
{
    char origin[40];

    tft_schema_print_time(&run->schema, run->encoding.origin, origin, sizeof origin);
    append(text, "%s(2 pi %zu t / %g), t: ", input->derivation == TFT_SINE ? "sin" : "cos", input->harmonic,
           input->period);
    if (input->period_in_steps)
        append(text, "steps since %s", origin);
    else
        append(text, "seconds of the clock's time since 1970");
}

static void add_holidays(const struct tft_input *input, char text[ONNX_ABOUT_MAX])
{
    if (input->is_category)
        append(text, "the holiday's name, \"\" on other days");
    else if (input->days)
        append(text, "days %s a holiday, 0 on it, at most %lld", input->days == TFT_DAYS_UNTIL ? "until" : "since",
               (long long)input->days_most);
    else
        append(text, "1 on a holiday, 0 on other days");
}

static void add_column(const struct tft_input *input, char text[ONNX_ABOUT_MAX])
{
    append(text, "column '%s' as in the table", input->column ? input->column : input->name);
    if (input->derivation == TFT_LAG)
        append(text, ", of %zu steps before each step", input->lag);
}

static void add_missing(const struct tft_input *input, char text[ONNX_ABOUT_MAX])
{
    static const char *const fills[] = { [TFT_FILL_NONE] = NULL,
                                         [TFT_FILL_DROP] = NULL,
                                         [TFT_FILL_FORWARD] = "the value before",
                                         [TFT_FILL_INTERPOLATE] = "a line between its neighbours",
                                         [TFT_FILL_CONSTANT] = "the schema's constant" };
    const char *fill = fills[input->fill];

    if (input->is_category && !fill && input->unknown)
        fill = "the unknown category";
    append(text, "; %s", input->is_category ? "\"\" (no value)" : "NaN (no value)");
    if (fill)
        append(text, " becomes %s", fill);
    else
        append(text, input->is_category ? " is an error" : " makes the forecast NaN");
}

void onnx_about_input(const struct tft_run *run, size_t i, char text[ONNX_ABOUT_MAX])
{
    const struct tft_schema *s = &run->schema;
    const struct tft_input *input = &s->inputs[i];
    const struct tft_role_traits *role = &tft_roles[input->role];

    *text = 0;
    if (input->source == TFT_FROM_CALENDAR)
        add_calendar(input, run, text);
    else if (input->source == TFT_FROM_WAVE)
        add_wave(input, run, text);
    else if (input->source == TFT_FROM_HOLIDAYS)
        add_holidays(input, text);
    else
        add_column(input, text);
    if (!role->is_constant)
        append(text, "; the %zu steps up to the origin", s->encoder);
    if (role->is_known_ahead)
        append(text, ", then the %zu after it", s->horizon);
    if (input->source == TFT_FROM_COLUMN)
        add_missing(input, text);
}
