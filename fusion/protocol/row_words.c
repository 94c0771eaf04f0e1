/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: an array that grows and is reused.
 */
#include "fusion/protocol/row_words.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum halay_status halay_words_resize(struct halay_words *words, size_t count)
{
    size_t bytes;

    if (count > words->capacity) {
        if (halay_mul_overflows(count, sizeof *words->at, &bytes))
            return HALAY_ERR_NO_MEMORY;
        uint64_t *grown = realloc(words->at, bytes);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        words->at = grown;
        words->capacity = count;
    }
    words->count = count;
    return HALAY_OK;
}

enum halay_status halay_words_set(struct halay_words *words, const void *from, size_t count)
{
    enum halay_status status = halay_words_resize(words, count);

    if (status == HALAY_OK && count)
        memcpy(words->at, from, count * sizeof *words->at);
    return status;
}

int halay_words_equal(const struct halay_words *words, const void *other, size_t count)
{
    return words->count == count && (!count || !memcmp(words->at, other, count * sizeof *words->at));
}

void halay_words_fini(struct halay_words *words)
{
    free(words->at);
    *words = (struct halay_words){ 0 };
}
