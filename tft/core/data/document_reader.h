/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of a document's values. They are told where they read, so that a message names it ("schema 'pjm.yaml',
 * input 'load': 'role' must be one of target, known, ...").
 *
 * Each reader leaves its result alone where the key is absent, and logs what would be right where the value is not.
 */
#ifndef HALAY_TFT_DOCUMENT_READER_H
#define HALAY_TFT_DOCUMENT_READER_H

#include "base/log.h"
#include <jansson.h>
#include <stddef.h>

/* Where in a document one reads. */
struct tft_where {
    struct halay_log *log; /* borrowed */
    char text[256];
};

/* A list of words that ends with NULL. */
#define TFT_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct tft_where tft_where_inside(const struct tft_where *outer, const char *what, const char *name);

/* Check that each key of the object is one of the words. The message on another one names the nearest. */
enum halay_status tft_where_check_keys(const struct tft_where *w, const json_t *object, const char *const *words);

/* Logs that the key's value must be something else; HALAY_ERR_CONFIG. */
enum halay_status tft_where_wrong(const struct tft_where *w, const char *key, const char *should);

/* A text; may be empty where allowed. Borrowed from the object. */
enum halay_status tft_read_text(const struct tft_where *w, const json_t *object, const char *key, int may_be_empty,
                                const char **text);
/* One of the words: its number. */
enum halay_status tft_read_word(const struct tft_where *w, const json_t *object, const char *key,
                                const char *const *words, int *number);
/* true or false. */
enum halay_status tft_read_truth(const struct tft_where *w, const json_t *object, const char *key, int *truth);
/* A whole number of steps from 1 to most. */
enum halay_status tft_read_steps(const struct tft_where *w, const json_t *object, const char *key, size_t most,
                                 size_t *number);
/* One character that can stand in a CSV file's row. */
enum halay_status tft_read_char(const struct tft_where *w, const json_t *object, const char *key, char *c);
/* A list of keys and values, which must be there. */
enum halay_status tft_read_object(const struct tft_where *w, const json_t *object, const char *key,
                                  const json_t **value);

#endif
