/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents by descriptor.
 */
#include "tft/core/data/document_reader.h"
#include "base/number_text.h"
#include "base/parse.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct tft_where tft_where_inside(const struct tft_where *outer, const char *what, const char *name)
{
    struct tft_where w = { .log = outer->log };
    snprintf(w.text, sizeof w.text, "%.150s, %s%s%.64s%s", outer->text, what, name ? " '" : "", name ? name : "",
             name ? "'" : "");
    return w;
}

enum halay_status tft_where_wrong(const struct tft_where *w, const char *key, const char *should)
{
    return halay_fail(w->log, HALAY_ERR_CONFIG, "%s: '%s' must be %s", w->text, key, should);
}

static enum halay_status check_keys(const struct tft_where *w, const json_t *object, const struct tft_member *members)
{
    enum { KEYS_MAX = 48 };
    const char *keys[KEYS_MAX + 1] = { NULL }, *key;
    json_t *value;

    for (size_t i = 0; members[i].key && i < KEYS_MAX; i++)
        keys[i] = members[i].key;
    json_object_foreach((json_t *)object, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(key, keys[i]))
            i++;
        if (keys[i])
            continue;
        const char *near = halay_nearest_name(key, keys);
        if (near)
            halay_error(w->log, "%s: unknown key '%s'; did you mean '%s'?", w->text, key, near);
        else
            halay_error(w->log, "%s: unknown key '%s'", w->text, key);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

/* ---- one member ---- */

static int take_word(const char *text, const char *const *words, int *number)
{
    for (int i = 0; text && words[i]; i++)
        if (!strcmp(text, words[i])) {
            *number = i;
            return 1;
        }
    return 0;
}

static int take_whole(const json_t *value, double least, double most, int64_t *number)
{
    *number = json_integer_value(value);
    return json_is_integer(value) && (double)*number >= least && (double)*number <= most;
}

/* Returns zero if the row does not allow the value. */
static int take_value(const struct tft_member *m, const json_t *value, void *to)
{
    const char *text = json_string_value(value);
    const double real = json_number_value(value);
    int64_t whole;

    switch (m->kind) {
    case TFT_MEMBER_TEXT:
    case TFT_MEMBER_TEXT_OR_EMPTY:
        if (!text || (!*text && m->kind == TFT_MEMBER_TEXT))
            return 0;
        *(const char **)to = text;
        return 1;
    case TFT_MEMBER_CHAR:
        if (!text || !*text || text[1] || strchr("\"\n\r", *text))
            return 0;
        *(char *)to = *text;
        return 1;
    case TFT_MEMBER_WORD:
        return take_word(text, m->words, to);
    case TFT_MEMBER_TRUTH:
        *(int *)to = json_is_true(value);
        return json_is_boolean(value);
    case TFT_MEMBER_STEPS:
    case TFT_MEMBER_COUNT:
        if (!take_whole(value, m->kind == TFT_MEMBER_STEPS, m->kind == TFT_MEMBER_STEPS ? m->most : 0x1p63, &whole))
            return 0;
        *(size_t *)to = (size_t)whole;
        return 1;
    case TFT_MEMBER_WHOLE:
        return take_whole(value, m->least, m->most, to);
    case TFT_MEMBER_REAL:
        *(double *)to = real;
        return json_is_number(value) && real >= m->least && real <= m->most;
    case TFT_MEMBER_VALUE:
        *(const json_t **)to = value;
        return 1;
    default:
        return 1;
    }
}

static int take_at(const struct tft_member *m, const json_t *object, void *to)
{
    const json_t *value = json_object_get(object, m->key);

    return value ? take_value(m, value, (char *)to + m->at) : !m->missing;
}

/* Describes the valid values: the row's text, or one made in `text`. */
static const char *describe_member(const struct tft_member *m, const json_t *value, char *text, size_t size)
{
    static const char *const kinds[] = { [TFT_MEMBER_TEXT] = "a text",
                                         [TFT_MEMBER_TEXT_OR_EMPTY] = "a text",
                                         [TFT_MEMBER_CHAR] = "one character",
                                         [TFT_MEMBER_COUNT] = "a whole number",
                                         [TFT_MEMBER_TRUTH] = "true or false" };
    const char *given = json_string_value(value);

    if (!value || m->should)
        return value ? m->should : m->missing;
    if (m->kind == TFT_MEMBER_CHAR && !(given && *given))
        return "a text";
    if (m->kind == TFT_MEMBER_STEPS)
        halay_snprintf(text, size, "a whole number of steps from 1 to %.0f", m->most);
    else if (m->kind == TFT_MEMBER_WHOLE || m->kind == TFT_MEMBER_REAL)
        halay_snprintf(text, size, "a %snumber from %g to %.10g", m->kind == TFT_MEMBER_WHOLE ? "whole " : "", m->least,
                       m->most);
    else if (m->kind != TFT_MEMBER_WORD)
        return kinds[m->kind];
    for (size_t i = 0, used = 0; m->kind == TFT_MEMBER_WORD && m->words[i]; i++, used = strlen(text))
        snprintf(text + used, size - used, "%s%s", i ? ", " : "one of ", m->words[i]);
    return text;
}

enum halay_status tft_member_read(const struct tft_where *w, const json_t *object, const struct tft_member *member,
                                  void *to)
{
    char text[256] = "";

    if (take_at(member, object, to))
        return HALAY_OK;
    return tft_where_wrong(w, member->key,
                           describe_member(member, json_object_get(object, member->key), text, sizeof text));
}

/* ---- mappings ---- */

enum halay_status tft_members_read(const struct tft_where *w, const json_t *object, const struct tft_member *members,
                                   void *to)
{
    enum halay_status status = check_keys(w, object, members);

    for (; members->key && !status; members++)
        status = tft_member_read(w, object, members, to);
    return status;
}

enum halay_status tft_section_read(const struct tft_where *outer, const json_t *object, const char *key,
                                   int is_required, const struct tft_member *members, void *to)
{
    const struct tft_where w = tft_where_inside(outer, key, NULL);
    const json_t *section;

    if (!is_required && !json_object_get(object, key))
        return HALAY_OK;
    enum halay_status status = tft_read_object(outer, object, key, &section);
    return status ? status : tft_members_read(&w, section, members, to);
}

const struct tft_member *tft_members_take(const json_t *object, const struct tft_member *members, void *to)
{
    while (members->key && take_at(members, object, to))
        members++;
    return members->key ? members : NULL;
}

static json_t *write_member(const struct tft_member *m, const void *from)
{
    const char one[2] = { m->kind == TFT_MEMBER_CHAR ? *(const char *)from : 0, 0 };

    switch (m->kind) {
    case TFT_MEMBER_TEXT:
    case TFT_MEMBER_TEXT_OR_EMPTY:
        return json_string(*(const char *const *)from);
    case TFT_MEMBER_CHAR:
        return json_string(one);
    case TFT_MEMBER_WORD:
        return json_string(m->words[*(const int *)from]);
    case TFT_MEMBER_TRUTH:
        return json_boolean(*(const int *)from);
    case TFT_MEMBER_STEPS:
    case TFT_MEMBER_COUNT:
        return json_integer((json_int_t) * (const size_t *)from);
    case TFT_MEMBER_WHOLE:
        return json_integer((json_int_t) * (const int64_t *)from);
    case TFT_MEMBER_REAL:
        return json_real(*(const double *)from);
    default:
        return json_incref(*(json_t *const *)from);
    }
}

json_t *tft_members_write(const struct tft_member *members, const void *from)
{
    json_t *object = json_object();

    for (; members->key && object; members++) {
        const void *at = (const char *)from + members->at;
        const int is_pointer = members->kind == TFT_MEMBER_TEXT || members->kind == TFT_MEMBER_TEXT_OR_EMPTY ||
                               members->kind == TFT_MEMBER_VALUE;
        if (members->kind == TFT_MEMBER_OTHER || (is_pointer && !*(void *const *)at))
            continue;
        if (json_object_set_new(object, members->key, write_member(members, at))) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

enum halay_status tft_read_object(const struct tft_where *w, const json_t *object, const char *key,
                                  const json_t **value)
{
    *value = json_object_get(object, key);
    if (*value && json_is_object(*value))
        return HALAY_OK;
    return halay_fail(w->log, HALAY_ERR_CONFIG,
                      *value ? "%s: '%s' must be a list of keys and values" : "%s: '%s' is missing", w->text, key);
}
