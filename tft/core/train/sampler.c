/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampler: a Fisher-Yates shuffle that stops after `count`, with unbiased draws.
 *
 * Draw i is uniform in [0, total - i): the high half of a 64 by 64 bit product, drawn again in the rare case that the
 * low half falls into the part that would favour some numbers (Lemire 2019). Key (seed, hash of the name), counter (i,
 * epoch, attempt).
 */
#include "tft/core/train/sampler.h"
#include "tft/core/kernels/philox.h"

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
