/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/layers/embedding.h"
#include "tft/kernels/vector.h"
#include "tft/layers/linear.h"

TFT_VECTOR void rank1_add(real *restrict y, const real *restrict x, const real *restrict w, size_t R, size_t H)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < H; i++)
            y[r * H + i] += x[r] * w[i];
}

TFT_VECTOR void rank1_sum(const real *restrict d_y, const real *restrict x, size_t R, size_t H, real *restrict d_w)
{
    size_t r = 0;

    for (; r + 4 <= R; r += 4) /* four rows at once: a quarter of the loads and stores of the sum */
        for (size_t i = 0; i < H; i++)
            d_w[i] += (x[r] * d_y[r * H + i] + x[r + 1] * d_y[(r + 1) * H + i]) +
                      (x[r + 2] * d_y[(r + 2) * H + i] + x[r + 3] * d_y[(r + 3) * H + i]);
    for (; r < R; r++)
        for (size_t i = 0; i < H; i++)
            d_w[i] += x[r] * d_y[r * H + i];
}

TFT_VECTOR void rank1_forward(real *restrict y, const real *restrict x, const real *restrict w, const real *restrict b,
                              size_t R, size_t H)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < H; i++)
            y[r * H + i] = x[r] * w[i] + b[i];
}

void embedding_forward(const struct pass *pass, const struct embedding *layer, const real *x, const int32_t *codes,
                       size_t R, real *xi)
{
    const real *w = pass->p + layer->w;

    if (!layer->categories) {
        rank1_forward(xi, x, w, w + layer->W, R, layer->W);
        return;
    }
    for (size_t r = 0; r < R; r++)
        memcpy(xi + r * layer->W, w + (size_t)codes[r] * layer->W, layer->W * sizeof *xi);
}

void embedding_backward(const struct pass *pass, const struct embedding *layer, const real *x, const int32_t *codes,
                        const real *d_xi, size_t R)
{
    real *d_w = pass->g + layer->w;

    if (!layer->categories) {
        rank1_sum(d_xi, x, R, layer->W, d_w);
        rows_sum(d_xi, R, layer->W, 1, d_w + layer->W);
        return;
    }
    for (size_t r = 0; r < R; r++)
        reals_add(d_w + (size_t)codes[r] * layer->W, d_xi + r * layer->W, layer->W);
}

void embedding_zero(const struct pass *pass, const struct embedding *layer)
{
    reals_zero(pass->g + layer->w, (layer->categories ? layer->categories : 2) * layer->W);
}
