/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers of single values.
 */
#include "tft/core/data/document_reader.h"
#include "base/config.h"
#include <stdio.h>
#include <string.h>

struct tft_where tft_where_inside(const struct tft_where *outer, const char *what, const char *name)
{
    struct tft_where w = { .log = outer->log };
    snprintf(w.text, sizeof w.text, "%.150s, %s%s%.64s%s", outer->text, what, name ? " '" : "", name ? name : "",
             name ? "'" : "");
    return w;
}

enum halay_status tft_where_check_keys(const struct tft_where *w, const json_t *object, const char *const *words)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value) {
        int found = 0;
        for (size_t i = 0; words[i] && !found; i++)
            found = !strcmp(key, words[i]);
        if (found)
            continue;
        const char *near = halay_nearest_word(key, words);
        if (near)
            halay_error(w->log, "%s: unknown key '%s'; did you mean '%s'?", w->text, key, near);
        else
            halay_error(w->log, "%s: unknown key '%s'", w->text, key);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

enum halay_status tft_where_wrong(const struct tft_where *w, const char *key, const char *should)
{
    halay_error(w->log, "%s: '%s' must be %s", w->text, key, should);
    return HALAY_ERR_CONFIG;
}

enum halay_status tft_read_text(const struct tft_where *w, const json_t *object, const char *key, int may_be_empty,
                                const char **text)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return HALAY_OK;
    if (!json_is_string(value) || (!may_be_empty && !*json_string_value(value)))
        return tft_where_wrong(w, key, "a text");
    *text = json_string_value(value);
    return HALAY_OK;
}

enum halay_status tft_read_word(const struct tft_where *w, const json_t *object, const char *key,
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
    return tft_where_wrong(w, key, list);
}

enum halay_status tft_read_truth(const struct tft_where *w, const json_t *object, const char *key, int *truth)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return HALAY_OK;
    if (!json_is_boolean(value))
        return tft_where_wrong(w, key, "true or false");
    *truth = json_is_true(value);
    return HALAY_OK;
}

enum halay_status tft_read_steps(const struct tft_where *w, const json_t *object, const char *key, size_t most,
                                 size_t *number)
{
    const json_t *value = json_object_get(object, key);
    char should[64];

    if (!value)
        return HALAY_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || (size_t)json_integer_value(value) > most) {
        snprintf(should, sizeof should, "a whole number of steps from 1 to %zu", most);
        return tft_where_wrong(w, key, should);
    }
    *number = (size_t)json_integer_value(value);
    return HALAY_OK;
}

enum halay_status tft_read_char(const struct tft_where *w, const json_t *object, const char *key, char *c)
{
    const char *text = NULL;
    enum halay_status status = tft_read_text(w, object, key, 0, &text);

    if (!status && text && (text[1] || *text == '"' || *text == '\n' || *text == '\r'))
        return tft_where_wrong(w, key, "one character");
    if (!status && text)
        *c = *text;
    return status;
}

enum halay_status tft_read_object(const struct tft_where *w, const json_t *object, const char *key,
                                  const json_t **value)
{
    *value = json_object_get(object, key);
    if (*value && json_is_object(*value))
        return HALAY_OK;
    halay_error(w->log, *value ? "%s: '%s' must be a list of keys and values" : "%s: '%s' is missing", w->text, key);
    return HALAY_ERR_CONFIG;
}
