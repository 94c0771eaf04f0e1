/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a result's JSON: NaN where one is missing.
 */
#ifndef HALAY_TFT_JSON_NUMBER_H
#define HALAY_TFT_JSON_NUMBER_H

#include "base/number_text.h"
#include <jansson.h>
#include <math.h>

static inline double tft_json_number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static inline double tft_json_number_at(const json_t *object, const char *key)
{
    return tft_json_number(json_object_get(object, key));
}

/* A value of a key as an option has it: a word, a number, or numbers with commas. */
static inline void tft_json_word(const json_t *value, char *text, size_t size)
{
    const json_t *item;
    size_t i, at = 0;

    *text = 0;
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_number(value))
        halay_snprintf(text, size, "%.6g", json_number_value(value));
    json_array_foreach(value, i, item) {
        int length = halay_snprintf(text + at, size - at, "%s%.6g", i ? "," : "", json_number_value(item));
        at = length < 0 || at + (size_t)length >= size ? size - 1 : at + (size_t)length;
    }
}

#endif
