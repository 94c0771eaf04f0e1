/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/layers/embedding.h"

void embedding_forward(const struct pass *pass, const struct embedding *layer, const real *x, const int32_t *codes,
                       size_t R, real *xi)
{
    const real *w = pass->p + layer->w;

    if (!layer->categories) {
        kernel_outer(pass->queue, x, w, R, layer->W, xi);
        return;
    }
    kernel_rows_take(pass->queue, w, codes, R, layer->W, xi);
}

void embedding_backward(const struct pass *pass, const struct embedding *layer, const real *x, const int32_t *codes,
                        const real *d_xi, size_t R, real *scratch)
{
    real *d_w = pass->g + layer->w;

    if (!layer->categories) {
        kernel_outer_sum(pass->queue, d_xi, x, R, layer->W, d_w);
        kernel_rows_sum(pass->queue, d_xi, R, layer->W, 1, d_w + layer->W);
        return;
    }
    if (layer->sparse.most)
        kernel_sparse_put(pass->queue, d_xi, codes, R, layer->sparse, d_w, scratch);
    else
        kernel_rows_put(pass->queue, d_xi, codes, R, layer->W, d_w, scratch);
}

void embedding_zero(const struct pass *pass, const struct embedding *layer)
{
    if (!layer->sparse.most)
        kernel_zero(pass->queue, (layer->categories ? layer->categories : 2) * layer->W, pass->g + layer->w);
}
