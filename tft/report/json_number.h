/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the JSON that a page draws: NaN where there is none, which charts leave out.
 */
#ifndef HALAY_TFT_JSON_NUMBER_H
#define HALAY_TFT_JSON_NUMBER_H

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

/* A list's first numbers. */
static inline void tft_json_list(const json_t *list, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = tft_json_number(json_array_get(list, i));
}

#endif
