/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampler: a Fisher-Yates shuffle that stops after `count`, with unbiased draws.
 *
 * Draw i is uniform in [0, total - i): the high half of a 64 by 64 bit product, drawn again in the rare case that the
 * low half falls into the part that would favour some numbers (Lemire 2019). Key (seed, hash of the name), counter (i,
 * epoch, attempt).
 */
#include "tft/train/sampler.h"
#include "tft/kernels/philox.h"
#include <math.h>
#include <stdlib.h>

/* Uniform in [0, range), range >= 1. */
static uint64_t draw_below(const uint32_t key[2], uint32_t epoch, uint64_t i, uint64_t range)
{
    uint64_t reject = (0 - range) % range; /* 2^64 mod range */

    for (uint32_t attempt = 0;; attempt++) {
        const uint32_t counter[4] = { (uint32_t)i, (uint32_t)(i >> 32), epoch, attempt };
        uint32_t word[4];
        philox(counter, key, word);
        unsigned __int128 product = (unsigned __int128)((uint64_t)word[1] << 32 | word[0]) * range;
        if ((uint64_t)product >= reject)
            return (uint64_t)(product >> 64);
    }
}

void tft_sampler_draw(uint32_t seed, uint32_t epoch, uint64_t total, uint64_t count, uint64_t *order)
{
    const uint32_t key[2] = { seed, fnv1a("sampler") };

    for (uint64_t i = 0; i < total; i++)
        order[i] = i;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = i + draw_below(key, epoch, i, total - i), window = order[i];
        order[i] = order[j];
        order[j] = window;
    }
}

/* ---- with weights ---- */

struct draw {
    double key;
    uint64_t window;
};

static int by_key(const void *a, const void *b)
{
    const struct draw *left = a, *right = b;

    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->window > right->window) - (left->window < right->window);
}

/* Exponentially distributed with mean 1, of 53 bits. */
static double draw_exponential(const uint32_t key[2], uint32_t epoch, uint64_t i)
{
    const uint32_t counter[4] = { (uint32_t)i, (uint32_t)(i >> 32), epoch, 0 };
    uint32_t word[4];

    philox(counter, key, word);
    uint64_t bits = ((uint64_t)word[1] << 32 | word[0]) >> 11;
    return -log(((double)bits + 0.5) * 0x1p-53);
}

/* Each window gets an exponential time divided by its weight; the earliest is drawn first. */
enum halay_status tft_sampler_draw_weighted(struct halay_log *log, uint32_t seed, uint32_t epoch, const size_t *before,
                                            const double *weights, size_t groups, uint64_t count, uint64_t *order)
{
    const uint32_t key[2] = { seed, fnv1a("weighted sampler") };
    uint64_t total = before[groups];
    struct draw *draws = malloc((total + 1) * sizeof *draws);

    if (!draws) {
        halay_error(log, "no memory to draw from %llu windows", (unsigned long long)total);
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t g = 0; g < groups; g++)
        for (uint64_t i = before[g]; i < before[g + 1]; i++)
            draws[i] = (struct draw){ draw_exponential(key, epoch, i) / weights[g], i };
    qsort(draws, total, sizeof *draws, by_key);
    for (uint64_t i = 0; i < count; i++)
        order[i] = draws[i].window;
    free(draws);
    return HALAY_OK;
}
