/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers' matrix products, in the model's number or with factors of bf16.
 *
 * With bf16, both factors are rounded (to nearest, ties to even) when they are multiplied, parameters once a step, and
 * their products are added in f32. Results, and everything that is not a matrix product, stay f32. So do products of
 * one or two rows (rank-1 vectors, which stand for sums over all rows): rounding them would gain nothing.
 */
#ifndef HALAY_TFT_PRODUCT_H
#define HALAY_TFT_PRODUCT_H

#include "tft/kernels/gemm_bf16.h"
#include "tft/layers/pass.h"

enum { PRODUCT_CACHED = 1024 }; /* a power of two */

/* A second factor that is kept rounded. */
struct product_cached {
    const real *data; /* NULL: a free place */
    int transposed;
    size_t K, N;
    const uint16_t *packed;
};

/* What rounded products need; a workspace's. */
struct halves {
    enum tft_bf16 means;
    uint16_t *room;   /* TFT_BF16_ROOM */
    const real *kept; /* a second factor that is multiplied often, or NULL */
    uint16_t *packed; /* its rounded copy */
    /* Parameters, each rounded when a pass first multiplies by it since they changed: found by address; if the place is
     * taken, in one of the next. */
    struct product_cached *cached; /* (PRODUCT_CACHED) */
    uint16_t *cache;               /* (cache_size): their rounded copies */
    size_t cache_size, cache_used;
    size_t params; /* reals of the block of parameters */
    size_t folded; /* of pass.folded, which are kept like parameters */
};

/* As tft_gemm. */
void product(const struct pass *pass, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, struct target to);
/* Parameters may have changed. */
void product_begin(struct halves *halves);
/* Round this second factor (K, N) now and use the copy until product_forget, for the steps of an LSTM. One at a time,
 * neither changed nor reshaped meanwhile. Without bf16 both do nothing. */
void product_keep(const struct pass *pass, struct matrix b, size_t K, size_t N);
void product_forget(const struct pass *pass);

#endif
