/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents by descriptor: a table has a row for each key with its type, its allowed values and the member of a struct
 * that receives it. One function reads a mapping by such a table, one writes it.
 *
 *     static const struct tft_member members[] = {
 *         TFT_MEMBER("encoder", STEPS, offsetof(struct window, encoder), .most = 1000),
 *         TFT_MEMBER("how", WORD, offsetof(struct window, how), .words = TFT_WORDS("mean", "sum")),
 *         TFT_KEY("unit"), // read elsewhere
 *         TFT_MEMBERS_END,
 *     };
 *
 * A member whose key is absent keeps its value, which is its default; after an error it may have any. Messages name the
 * place in the document ("schema 'pjm.yaml', input 'load': 'role' must be one of target, known, ...").
 */
#ifndef HALAY_TFT_DOCUMENT_READER_H
#define HALAY_TFT_DOCUMENT_READER_H

#include "base/log.h"
#include <jansson.h>
#include <stddef.h>

/* A place in a document. */
struct tft_where {
    struct halay_log *log; /* borrowed */
    char text[256];
};

/* A list of names that ends with NULL. */
#define TFT_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* How a value is written, and the type of its member. */
enum tft_member_kind {
    TFT_MEMBER_OTHER,         /* anything; its reader is not the table's */
    TFT_MEMBER_TEXT,          /* const char *, borrowed from the document; not empty */
    TFT_MEMBER_TEXT_OR_EMPTY, /* const char *, borrowed */
    TFT_MEMBER_CHAR,          /* char: one character that can be in a CSV file's row */
    TFT_MEMBER_WORD,          /* int or an enum: the number of one of `words` */
    TFT_MEMBER_TRUTH,         /* int: true or false */
    TFT_MEMBER_STEPS,         /* size_t: a whole number of steps from 1 to `most` */
    TFT_MEMBER_COUNT,         /* size_t: a whole number */
    TFT_MEMBER_WHOLE,         /* int64_t: a whole number from `least` to `most` */
    TFT_MEMBER_REAL,          /* double from `least` to `most` */
    TFT_MEMBER_VALUE,         /* const json_t *, borrowed: anything */
};

/* A row of a table, which ends with a row without key. */
struct tft_member {
    const char *key;
    enum tft_member_kind kind;
    size_t at; /* offset of the member in its struct */
    const char *const *words;
    double least, most;
    const char *should;  /* "must be ..." of messages; NULL: derived from the kind */
    const char *missing; /* the same where the key is absent; NULL: the key is optional */
};

/* Rows of a table: a member, by key, kind, offset and, by name, what else there is; a key that the table only knows. */
#define TFT_MEMBER(name, type, offset, ...)                                   \
    {                                                                         \
        .key = (name), .kind = TFT_MEMBER_##type, .at = (offset), __VA_ARGS__ \
    }
#define TFT_KEY(name) \
    {                 \
        .key = (name) \
    }
#define TFT_MEMBERS_END \
    {                   \
        .key = NULL     \
    }

/* Returns the place inside another one: "..., what 'name'", or "..., what" if name is NULL. */
struct tft_where tft_where_inside(const struct tft_where *outer, const char *what, const char *name);
/* Logs that the value of a key must be something else. Returns HALAY_ERR_CONFIG. */
enum halay_status tft_where_wrong(const struct tft_where *w, const char *key, const char *should);

/* Reads a mapping into the struct `to`. Fails (HALAY_ERR_CONFIG, logged) on an unknown key, for which the message names
 * the nearest key, and on a value that its row does not allow. */
enum halay_status tft_members_read(const struct tft_where *w, const json_t *object, const struct tft_member *members,
                                   void *to);
/* Does the same for the mapping under a key of `object`. A section that is absent is an error if it is required. */
enum halay_status tft_section_read(const struct tft_where *outer, const json_t *object, const char *key,
                                   int is_required, const struct tft_member *members, void *to);
/* Reads one member, without a check of other keys. */
enum halay_status tft_member_read(const struct tft_where *w, const json_t *object, const struct tft_member *member,
                                  void *to);
/* Reads a mapping that a program wrote: unknown keys are ignored. Returns the first row that is wrong or missing, or
 * NULL; logs nothing. */
const struct tft_member *tft_members_take(const json_t *object, const struct tft_member *members, void *to);
/* Writes all members but OTHER: a new reference; NULL without memory. Texts and values that are NULL are left out. */
json_t *tft_members_write(const struct tft_member *members, const void *from);

/* Reads a mapping, which must be there. */
enum halay_status tft_read_object(const struct tft_where *w, const json_t *object, const char *key,
                                  const json_t **value);

#endif
