/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash: FNV-1a of 32 bits, the same on every machine; not for what an attacker may choose.
 * Fowler, Noll, Vo, Eastlake: "The FNV Non-Cryptographic Hash Algorithm".
 */
#ifndef HALAY_BASE_HASH_H
#define HALAY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HALAY_HASH_BEGIN UINT32_C(2166136261)

/* Returns the hash of what `hash` is of, followed by these bytes. HALAY_HASH_BEGIN is that of nothing. */
static inline uint32_t halay_hash_more(uint32_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * UINT32_C(16777619);
    return hash;
}

#endif
