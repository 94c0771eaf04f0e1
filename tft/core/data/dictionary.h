/* SPDX-License-Identifier: Apache-2.0
 *
 * Dictionary: texts and their numbers, in the order in which they were first seen.
 */
#ifndef HALAY_TFT_DICTIONARY_H
#define HALAY_TFT_DICTIONARY_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. */
struct tft_dictionary {
    size_t count, size;
    char **texts;     /* owned, with what they point to */
    uint64_t *hashes; /* owned */
    size_t *slots;    /* owned: numbers plus one by hash; a power of two of them, at most half full */
};

/* The number of a text, which is added if it is new. HALAY_ERR_NO_MEMORY. Never logs. */
enum halay_status tft_dictionary_add(struct tft_dictionary *dictionary, const char *text, size_t *number);
void tft_dictionary_fini(struct tft_dictionary *dictionary);

#endif
