/* SPDX-License-Identifier: Apache-2.0
 *
 * From a variable to W numbers (H, or what the conformance has): xi = x w + b for a real, a row of a table for a
 * category.
 *
 *   x (R) or codes (R)   w (1, W), followed in the block by b (W)   table (categories, W)   xi (R, W)
 *
 * A real's xi has rank 1 and is not made where a layer can use x, w and b themselves (tft/core/layers/vsn.h).
 */
#ifndef HALAY_TFT_EMBEDDING_H
#define HALAY_TFT_EMBEDDING_H

#include "tft/core/layers/pass.h"

struct embedding {
    size_t W;
    size_t categories;    /* 0: a real */
    size_t w;             /* place of w and b, or of the table */
    struct sparse sparse; /* of the table's gradient; most 0: it is whole */
};

/* Exactly one of x and codes is used, by kind. */
void embedding_forward(const struct pass *pass, const struct embedding *layer, const real *x, const int32_t *codes,
                       size_t R, real *xi);
/* Adds: the gradient's place is zeroed once a granule (embedding_zero). A sparse one is written: one call a granule.
 * scratch: the kernels' rows_scratch(R, W) reals. */
void embedding_backward(const struct pass *pass, const struct embedding *layer, const real *x, const int32_t *codes,
                        const real *d_xi, size_t R, real *scratch);
void embedding_zero(const struct pass *pass, const struct embedding *layer);

#endif
