/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/product.h"

enum { EXACT_ROWS = 2 };

void product(const struct pass *pass, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c,
             size_t ldc)
{
    const struct halves *halves = pass->halves;

    if (!halves || M <= EXACT_ROWS || K <= EXACT_ROWS)
        tft_gemm(a, b, M, N, K, add, c, ldc);
    else if (b.data == halves->kept)
        tft_gemm_bf16_packed(halves->means, a, halves->packed, M, N, K, add, c, ldc, halves->room);
    else
        tft_gemm_bf16(halves->means, a, b, M, N, K, add, c, ldc, halves->room);
}

void product_keep(const struct pass *pass, struct matrix b, size_t K, size_t N)
{
    if (!pass->halves)
        return;
    tft_bf16_pack(b, K, N, pass->halves->packed);
    pass->halves->kept = b.data;
}

void product_forget(const struct pass *pass)
{
    if (pass->halves)
        pass->halves->kept = NULL;
}
