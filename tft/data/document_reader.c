/* SPDX-License-Identifier: Apache-2.0
 *
 * Place: the readers of single values.
 */
#include "tft/data/document_reader.h"
#include <stdio.h>
#include <string.h>

struct tft_place tft_place_inside(const struct tft_place *outer, const char *what, const char *name)
{
    struct tft_place p = { .log = outer->log };
    snprintf(p.where, sizeof p.where, "%.150s, %s%s%.64s%s", outer->where, what, name ? " '" : "", name ? name : "",
             name ? "'" : "");
    return p;
}

enum halay_status tft_place_wrong(const struct tft_place *p, const char *key, const char *should)
{
    halay_error(p->log, "%s: '%s' must be %s", p->where, key, should);
    return HALAY_ERR_CONFIG;
}

enum halay_status tft_place_text(const struct tft_place *p, const json_t *object, const char *key, int may_be_empty,
                                 const char **text)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return HALAY_OK;
    if (!json_is_string(value) || (!may_be_empty && !*json_string_value(value)))
        return tft_place_wrong(p, key, "a text");
    *text = json_string_value(value);
    return HALAY_OK;
}

enum halay_status tft_place_word(const struct tft_place *p, const json_t *object, const char *key,
                                 const char *const *words, int *number)
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
    for (size_t i = 0; words[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "one of ", words[i]);
    }
    return tft_place_wrong(p, key, list);
}

enum halay_status tft_place_truth(const struct tft_place *p, const json_t *object, const char *key, int *truth)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return HALAY_OK;
    if (!json_is_boolean(value))
        return tft_place_wrong(p, key, "true or false");
    *truth = json_is_true(value);
    return HALAY_OK;
}

enum halay_status tft_place_steps(const struct tft_place *p, const json_t *object, const char *key, size_t most,
                                  size_t *number)
{
    const json_t *value = json_object_get(object, key);
    char should[64];

    if (!value)
        return HALAY_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || (size_t)json_integer_value(value) > most) {
        snprintf(should, sizeof should, "a whole number of steps from 1 to %zu", most);
        return tft_place_wrong(p, key, should);
    }
    *number = (size_t)json_integer_value(value);
    return HALAY_OK;
}

enum halay_status tft_place_char(const struct tft_place *p, const json_t *object, const char *key, char *c)
{
    const char *text = NULL;
    enum halay_status status = tft_place_text(p, object, key, 0, &text);

    if (!status && text && (text[1] || *text == '"' || *text == '\n' || *text == '\r'))
        return tft_place_wrong(p, key, "one character");
    if (!status && text)
        *c = *text;
    return status;
}

enum halay_status tft_place_object(const struct tft_place *p, const json_t *object, const char *key,
                                   const json_t **value)
{
    *value = json_object_get(object, key);
    if (*value && json_is_object(*value))
        return HALAY_OK;
    halay_error(p->log, *value ? "%s: '%s' must be a list of keys and values" : "%s: '%s' is missing", p->where, key);
    return HALAY_ERR_CONFIG;
}
