/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: numbers that are sent with a signature and may differ between ranks: a rank's rows, or its rows for each rank.
 */
#ifndef HALAY_WORDS_H
#define HALAY_WORDS_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

struct halay_words { /* zero-initialised */
    uint64_t *at;    /* owned */
    size_t count, capacity;
};

/* Resizes to count words; old words are kept where they fit. HALAY_ERR_NO_MEMORY: nothing has changed. */
enum halay_status halay_words_resize(struct halay_words *words, size_t count);
/* Copies count words from any address (not aligned). */
enum halay_status halay_words_set(struct halay_words *words, const void *from, size_t count);
int halay_words_equal(const struct halay_words *words, const void *other, size_t count);
void halay_words_fini(struct halay_words *words);

#endif
