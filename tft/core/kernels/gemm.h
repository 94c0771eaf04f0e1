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

struct matrix {
    const real *data;
    size_t ld;
    int transposed; /* op is the transpose */
};

void tft_gemm(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc);
void tft_gemm_plain(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc);

/* "onednn 2.6.3", "cblas", "own": for reports. */
const char *tft_gemm_name(void);
/* What of the library decides a product's bits: its version and the instruction set that it chose here: "onednn 2.6.3,
 * avx512_core". */
void tft_gemm_describe(char *text, size_t size);
/* Tell the library, on this thread, that calls from it use no other thread. */
void tft_gemm_this_thread_only(void);

/* Where a product goes, and whether it is added to what is there. */
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

#endif
