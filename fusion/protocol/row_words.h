/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: numbers that go with a signature and may differ between ranks: rows that a rank gives, rows for each rank.
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

/* Make it `count` long; old words stay where they fit. HALAY_ERR_NO_MEMORY: nothing has changed. */
enum halay_status halay_words_resize(struct halay_words *words, size_t count);
/* A copy of count words, which may lie anywhere (not aligned). */
enum halay_status halay_words_set(struct halay_words *words, const void *from, size_t count);
int halay_words_equal(const struct halay_words *words, const void *other, size_t count);
void halay_words_fini(struct halay_words *words);

#endif
