/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/kernels/philox.h"
#include "base/hash.h"
#include <string.h>

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t draws[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    draws[0] = c0;
    draws[1] = c1;
    draws[2] = c2;
    draws[3] = c3;
}

uint32_t fnv1a(const char *text)
{
    return halay_hash_more(HALAY_HASH_BEGIN, text, strlen(text));
}
