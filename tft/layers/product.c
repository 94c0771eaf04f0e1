/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/layers/product.h"
#include <string.h>

enum { EXACT_ROWS = 2, PROBES = 16 };

void product_begin(struct halves *halves)
{
    memset(halves->cached, 0, PRODUCT_CACHED * sizeof *halves->cached);
    halves->cache_used = 0;
}

static int is_among(const real *x, const real *block, size_t n)
{
    uintptr_t at = (uintptr_t)x, from = (uintptr_t)block;

    return block && at >= from && at < from + n * sizeof *x;
}

static int is_param(const struct pass *pass, const real *x)
{
    return is_among(x, pass->p, pass->halves->params) || is_among(x, pass->folded, pass->halves->folded);
}

/* The rounded copy of a parameter, made if there is none yet; NULL without a place for it. */
static const uint16_t *cached(struct halves *halves, struct matrix b, size_t K, size_t N)
{
    size_t size = tft_bf16_packed(K, N), place = ((uintptr_t)b.data / sizeof(real) * 2654435761u) >> 7;

    for (size_t i = 0; i < PROBES; i++) {
        struct product_cached *entry = &halves->cached[(place + i) % PRODUCT_CACHED];

        if (!entry->data) {
            uint16_t *packed = halves->cache + halves->cache_used;

            if (size > halves->cache_size - halves->cache_used)
                return NULL;
            tft_bf16_pack(b, K, N, packed);
            halves->cache_used += size;
            *entry = (struct product_cached){ b.data, b.transposed, K, N, packed };
            return packed;
        }
        if (entry->data == b.data && entry->transposed == b.transposed && entry->K == K && entry->N == N)
            return entry->packed;
    }
    return NULL;
}

void product(const struct pass *pass, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, struct target to)
{
    struct halves *halves = pass->halves;
    const uint16_t *packed = NULL;

    if (!halves || M <= EXACT_ROWS || K <= EXACT_ROWS)
        tft_gemm(a, b, M, N, K, to.add, to.data, to.ld);
    else if (b.data == halves->kept)
        tft_gemm_bf16_packed(halves->means, a, halves->packed, M, N, K, to, halves->room);
    else if (is_param(pass, b.data) && (packed = cached(halves, b, K, N)))
        tft_gemm_bf16_packed(halves->means, a, packed, M, N, K, to, halves->room);
    else
        tft_gemm_bf16(halves->means, a, b, M, N, K, to, halves->room);
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
