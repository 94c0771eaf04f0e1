/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products whose factors are rounded to bf16 (to nearest, ties to even) while sums and C stay f32: by the
 * processor's own instructions, on the calling thread, for the shapes of this model. The same arguments give the same
 * bits.
 */
#ifndef HALAY_TFT_GEMM_BF16_H
#define HALAY_TFT_GEMM_BF16_H

#include "tft/core/kernels/gemm.h"
#include <stdint.h>

enum tft_bf16 {
    TFT_BF16_NONE, /* this processor has none */
    TFT_BF16_DOT,  /* AVX-512 BF16: dot products of pairs */
    TFT_BF16_TILES /* AMX, for which this asks the kernel */
};
enum tft_bf16 tft_bf16_here(void);

/* Numbers of room that a product needs for packed factors; aligned to a cache line. */
enum { TFT_BF16_ROOM = 96 * 256 + 256 * 320 };

/* As tft_gemm. */
void tft_gemm_bf16(enum tft_bf16 means, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                   struct target to, uint16_t *room);

/* A second factor, (K, N), packed beforehand for several products: so many numbers, aligned to a cache line. */
size_t tft_bf16_packed(size_t K, size_t N);
void tft_bf16_pack(struct matrix b, size_t K, size_t N, uint16_t *packed);

/* The second factors of products that share the first one, and where each product goes. */
struct tft_bf16_second {
    struct matrix b;
    const uint16_t *packed; /* NULL: b, packed block by block */
    struct target to;
};

/* As so many products, at most TFT_BF16_TOGETHER, with the same bits; the first factor is packed once. */
enum { TFT_BF16_TOGETHER = 2 };
void tft_gemm_bf16_each(enum tft_bf16 means, struct matrix a, const struct tft_bf16_second *seconds, size_t count,
                        size_t M, size_t N, size_t K, uint16_t *room);

#endif
