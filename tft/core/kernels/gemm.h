/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the calling thread: by oneDNN if it was found, else by CBLAS, else by halay's own. Plain C defines
 * the result.
 *
 * Row-major. C (M, N) = op(A) op(B), or += where `add`. op(A) is (M, K), op(B) is (K, N); ld is the distance between
 * rows of the stored matrix. With add = 0 what C held is ignored. No allocation that grows, no threads of the library's
 * (tft/core/kernels/threads.c switches them off). The same arguments give the same bits.
 */
#ifndef HALAY_TFT_GEMM_H
#define HALAY_TFT_GEMM_H

#include "tft/core/kernels/real.h"
#include <stddef.h>
#include <stdint.h>

struct matrix {
    const real *data;
    size_t ld;
    int transposed; /* op is the transpose */
};

void tft_gemm(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc);
void tft_gemm_plain(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc);

/* "onednn 2.6.3", "cblas", "own": for reports. */
const char *tft_gemm_name(void);
/* Writes the properties of the library that decide a product's bits, its version and the instruction set that it chose
 * here: "onednn 2.6.3, avx512_core". */
void tft_gemm_describe(char *text, size_t size);
/* Restricts library calls from this thread to this thread alone. */
void tft_gemm_this_thread_only(void);

/* The destination of a product; add: the product is added to what it contains. */
struct target {
    real *data;
    size_t ld;
    int add;
};

static inline struct target sum_to(real *data, size_t ld, int add)
{
    return (struct target){ data, ld, add };
}

static inline struct target written(real *data, size_t ld)
{
    return sum_to(data, ld, 0);
}

static inline struct target added(real *data, size_t ld)
{
    return sum_to(data, ld, 1);
}

/* halay's own products, by vectors of 16, 32 (AVX2) or 64 bytes (AVX-512), and the longest that work here. */
void tft_gemm_tiles(size_t vector, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, struct target to);
size_t tft_gemm_vector(void);

static inline struct matrix matrix_of(const real *data, size_t ld)
{
    return (struct matrix){ data, ld, 0 };
}

static inline struct matrix matrix_t(const real *data, size_t ld)
{
    return (struct matrix){ data, ld, 1 };
}

/* ---- bf16 -------------------------------------------------------------------------------------------------------- */

/* Products whose factors are rounded to bf16 (to nearest, ties to even) while sums and C stay f32: by the processor's
 * own instructions, on the calling thread, for the shapes of this model. The same arguments give the same bits. */
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

/* A second factor, (K, N), packed beforehand for several products. The first function returns its size in numbers; the
 * memory is aligned to a cache line. */
size_t tft_bf16_packed(size_t K, size_t N);
void tft_bf16_pack(struct matrix b, size_t K, size_t N, uint16_t *packed);

/* The second factors of products that share the first one, and where each product goes. */
struct tft_bf16_second {
    struct matrix b;
    const uint16_t *packed; /* NULL: b, packed block by block */
    struct target to;
};

/* Computes `count` products, at most TFT_BF16_TOGETHER, with the bits of as many single calls, but packs the first
 * factor once. */
enum { TFT_BF16_TOGETHER = 2 };
void tft_gemm_bf16_each(enum tft_bf16 means, struct matrix a, const struct tft_bf16_second *seconds, size_t count,
                        size_t M, size_t N, size_t K, uint16_t *room);

#endif
