/* SPDX-License-Identifier: Apache-2.0
 *
 * Dictionary: a hash table with open addressing and an array of texts. fini accepts a partly initialised one.
 */
#include "tft/core/data/table.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h ^ h >> 29;
}

static size_t find_slot(const struct tft_dictionary *d, const char *text, uint64_t hash)
{
    size_t mask = d->size * 2 - 1, i = hash & mask;

    while (d->slots[i]) {
        size_t number = d->slots[i] - 1;
        if (d->hashes[number] == hash && !strcmp(d->texts[number], text))
            break;
        i = (i + 1) & mask;
    }
    return i;
}

static enum halay_status grow(struct tft_dictionary *d)
{
    size_t size = d->size ? d->size * 2 : 16;
    size_t *slots = calloc(size * 2, sizeof *slots);
    char **texts = realloc(d->texts, size * sizeof *texts);
    uint64_t *hashes = texts ? realloc(d->hashes, size * sizeof *hashes) : NULL;

    if (texts)
        d->texts = texts;
    if (hashes)
        d->hashes = hashes;
    if (!slots || !hashes) {
        free(slots);
        return HALAY_ERR_NO_MEMORY;
    }
    free(d->slots);
    d->slots = slots;
    d->size = size;
    for (size_t i = 0; i < d->count; i++)
        d->slots[find_slot(d, d->texts[i], d->hashes[i])] = i + 1;
    return HALAY_OK;
}

enum halay_status tft_dictionary_add(struct tft_dictionary *d, const char *text, size_t *number)
{
    uint64_t hash = hash_text(text);
    enum halay_status status = d->count == d->size ? grow(d) : HALAY_OK;

    if (status)
        return status;
    size_t slot = find_slot(d, text, hash);
    if (!d->slots[slot]) {
        char *copy = strdup(text);
        if (!copy)
            return HALAY_ERR_NO_MEMORY;
        d->texts[d->count] = copy;
        d->hashes[d->count] = hash;
        d->slots[slot] = ++d->count;
    }
    *number = d->slots[slot] - 1;
    return HALAY_OK;
}

void tft_dictionary_fini(struct tft_dictionary *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->texts[i]);
    free(d->texts);
    free(d->hashes);
    free(d->slots);
    *d = (struct tft_dictionary){ 0 };
}
