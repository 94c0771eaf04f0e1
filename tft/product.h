/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers' matrix products, in the model's number or with factors of bf16.
 *
 * With bf16, both factors are rounded (to nearest, ties to even) and their products added in f32; what comes out, and
 * everything that is not a matrix product, stays f32. Parameters are rounded once a step, activations as they are
 * multiplied. Products of one or two rows (the vectors of rank 1, which stand for sums over all rows) are not worth
 * rounding and stay exact.
 */
#ifndef TFT_PRODUCT_H
#define TFT_PRODUCT_H

#include "tft/gemm.h"
#include "tft/pass.h"

/* Rounded copies; a workspace's. */
struct halves {
    tft_gemm16 gemm;
    const uint16_t *params; /* of the whole block of parameters; borrowed for the pass */
    size_t reals;
    uint16_t *a, *b;  /* room for a product's factors */
    const real *kept; /* a matrix that is multiplied often, or NULL */
    uint16_t *kept_half;
};

/* As tft_gemm. */
void product(const struct pass *pass, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c,
             size_t ldc);
/* Round this matrix (n elements without gaps) now and use the copy until product_forget: for steps of an LSTM. At most
 * one at a time, and unchanged in between. Without bf16 they do nothing. */
void product_keep(const struct pass *pass, const real *matrix, size_t n);
void product_forget(const struct pass *pass);

/* To bf16, n elements. */
void halves_of(const real *x, size_t n, uint16_t *half);

#endif
