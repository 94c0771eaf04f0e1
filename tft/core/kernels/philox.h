/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10: a counter-based generator. The draw depends on key and counter alone, so any thread can make any part
 * of a sequence. (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)
 */
#ifndef HALAY_TFT_PHILOX_H
#define HALAY_TFT_PHILOX_H

#include <stddef.h>
#include <stdint.h>

#define PHILOX_M0 UINT32_C(0xD2511F53)
#define PHILOX_M1 UINT32_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9)
#define PHILOX_W1 UINT32_C(0xBB67AE85)
enum { PHILOX_ROUNDS = 10 };

/* Four draws for one counter. */
void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t draws[4]);

/* FNV-1a of a text, 32 bits: names as keys. */
uint32_t fnv1a(const char *text);

#endif
