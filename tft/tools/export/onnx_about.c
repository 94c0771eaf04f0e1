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

void onnx_about_entity(const struct onnx_graph *g, char text[ONNX_ABOUT_MAX])
{
    const size_t count = json_array_size(json_object_get(g->encoding, "entities"));

    *text = 0;
    append(text, "the id, as in the table; ");
    if (json_is_true(json_object_get(g->encoding, "needs_entity")))
        append(text, "one of the %zu that training has seen, others are an error", count);
    else
        append(text, "training has seen %zu, others are taken as new ones", count);
}

void onnx_about_length(const struct onnx_graph *g, char text[ONNX_ABOUT_MAX])
{
    *text = 0;
    append(text,
           "number of steps of the past, %zu to %zu; they are the last ones up to the origin, and earlier steps "
           "are not read",
           onnx_size(g->encoding, "min_encoder"), g->E);
}

static void add_calendar(const struct onnx_graph *g, const json_t *is, char text[ONNX_ABOUT_MAX])
{
    const char *name = onnx_text(is, "calendar");
    const int first = (int)onnx_size(is, "first"), count = (int)onnx_size(is, "count");

    if (!count)
        append(text, "steps since %s", onnx_text(g->encoding, "origin"));
    else if (!onnx_is(is, "derivation", "none"))
        append(text, "%s(2 pi (%s - %d) / %d)", onnx_is(is, "derivation", "sine") ? "sin" : "cos", name, first, count);
    else
        append(text, "%s of the clock's time, %d to %d", name, first, first + count - 1);
}

static void add_wave(const struct onnx_graph *g, const json_t *is, char text[ONNX_ABOUT_MAX])
{
    append(text, "%s(2 pi %zu t / %g), t: ", onnx_is(is, "derivation", "sine") ? "sin" : "cos",
           onnx_size(is, "harmonic"), onnx_real(is, "period"));
    if (json_is_true(json_object_get(is, "period_in_steps")))
        append(text, "steps since %s", onnx_text(g->encoding, "origin"));
    else
        append(text, "seconds of the clock's time since 1970");
}

static void add_holidays(const json_t *is, char text[ONNX_ABOUT_MAX])
{
    if (onnx_is(is, "type", "category"))
        append(text, "the holiday's name, \"\" on other days");
    else if (!onnx_is(is, "days", "none"))
        append(text, "days %s a holiday, 0 on it, at most %zu", onnx_text(is, "days"), onnx_size(is, "most"));
    else
        append(text, "1 on a holiday, 0 on other days");
}

static void add_column(const json_t *is, char text[ONNX_ABOUT_MAX])
{
    append(text, "column '%s' as in the table", onnx_text(is, json_object_get(is, "column") ? "column" : "name"));
    if (onnx_is(is, "derivation", "lag"))
        append(text, ", of %zu steps before each step", onnx_size(is, "lag"));
}

static void add_missing(const json_t *is, char text[ONNX_ABOUT_MAX])
{
    static const char *const fills[][2] = { { "forward", "the value before" },
                                            { "interpolate", "a line between its neighbours" },
                                            { "constant", "the schema's constant" } };
    const int is_category = onnx_is(is, "type", "category");
    const char *fill = json_object_get(is, "unknown") ? "the unknown category" : NULL;

    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        if (onnx_is(is, "fill", fills[i][0]))
            fill = fills[i][1];
    append(text, "; %s", is_category ? "\"\" (no value)" : "NaN (no value)");
    if (fill)
        append(text, " becomes %s", fill);
    else
        append(text, is_category ? " is an error" : " makes the forecast NaN");
}

void onnx_about_input(const struct onnx_graph *g, const struct onnx_input *in, char text[ONNX_ABOUT_MAX])
{
    const char *source = onnx_text(in->is, "source");

    *text = 0;
    if (!strcmp(source, "calendar"))
        add_calendar(g, in->is, text);
    else if (!strcmp(source, "fourier"))
        add_wave(g, in->is, text);
    else if (!strcmp(source, "holidays"))
        add_holidays(in->is, text);
    else
        add_column(in->is, text);
    if (in->steps)
        append(text, "; the %zu steps up to the origin", g->E);
    if (in->steps > g->E)
        append(text, ", then the %zu after it", g->D);
    if (!strcmp(source, "column"))
        add_missing(in->is, text);
}
