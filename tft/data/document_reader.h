/* SPDX-License-Identifier: Apache-2.0
 *
 * Place: where in a document one reads, for messages, and the little readers that name it ("schema 'pjm.yaml', input
 * 'load': 'role' must be one of target, known, ...").
 *
 * Each reader leaves its result alone where the key is absent, and logs what would be right where the value is not.
 */
#ifndef HALAY_TFT_PLACE_H
#define HALAY_TFT_PLACE_H

#include "base/log.h"
#include <jansson.h>
#include <stddef.h>

struct tft_place {
    struct halay_log *log; /* borrowed */
    char where[256];
};

/* A list of words that ends with NULL. */
#define TFT_WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct tft_place tft_place_inside(const struct tft_place *outer, const char *what, const char *name);

/* Logs that the key's value must be something else; HALAY_ERR_CONFIG. */
enum halay_status tft_place_wrong(const struct tft_place *p, const char *key, const char *should);

/* A text; may be empty where allowed. Borrowed from the object. */
enum halay_status tft_place_text(const struct tft_place *p, const json_t *object, const char *key, int may_be_empty,
                                 const char **text);
/* One of the words: its number. */
enum halay_status tft_place_word(const struct tft_place *p, const json_t *object, const char *key,
                                 const char *const *words, int *number);
/* true or false. */
enum halay_status tft_place_truth(const struct tft_place *p, const json_t *object, const char *key, int *truth);
/* A whole number of steps from 1 to most. */
enum halay_status tft_place_steps(const struct tft_place *p, const json_t *object, const char *key, size_t most,
                                  size_t *number);
/* One character that can stand in a CSV file's row. */
enum halay_status tft_place_char(const struct tft_place *p, const json_t *object, const char *key, char *c);
/* A list of keys and values, which must be there. */
enum halay_status tft_place_object(const struct tft_place *p, const json_t *object, const char *key,
                                   const json_t **value);

#endif
