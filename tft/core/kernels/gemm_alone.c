/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products where no library was found, and in the double build: halay's own.
 */
#include "tft/core/kernels/gemm.h"
#include <stdio.h>

void tft_gemm(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc)
{
    tft_gemm_tiles(tft_gemm_vector(), a, b, M, N, K, (struct target){ c, ldc, add });
}

const char *tft_gemm_name(void)
{
    return "own";
}

void tft_gemm_describe(char *text, size_t size)
{
    snprintf(text, size, "own, vectors of %zu bytes", tft_gemm_vector());
}

void tft_gemm_this_thread_only(void)
{
}
