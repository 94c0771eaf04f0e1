/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpretable multi-head attention (TFT equations 13-16): each head has its own queries and keys, all share the
 * values.
 *
 *   q_h = x Wq_h;   k_h = x Wk_h;   v = x Wv;   A_h = softmax(q_h k_h^T / sqrt(d)), causal, a step sees itself
 *   y = dropout(mean over heads of dropout(A_h v)  Wo)
 *
 *   x (T B, H)   Wq_h, Wk_h, Wv (H, d)   Wo (d, H), d = H / heads   no biases   y (N B, H)
 *
 * pytorch-forecasting's queries, keys and values have biases, and a step does not see itself (`strict`; then N < T).
 *
 * Queries are made for the last N of the T steps only: all of them in the plain graph, the decoder's otherwise, since
 * nothing reads the others (exact). Without dropout the mean over heads is taken of A before the one product with v.
 */
#ifndef HALAY_TFT_ATTENTION_H
#define HALAY_TFT_ATTENTION_H

#include "tft/core/layers/linear.h"

struct attention {
    size_t H, heads, d;
    size_t T, N;
    int average_first;           /* without dropout on the heads: mean of A, then one product */
    int strict;                  /* a step does not see itself */
    int head_dropped;            /* whether there is dropout on each head's output */
    size_t query, key;           /* places of Wq_0 .. and Wk_0 ..: (heads, H, d) */
    size_t query_bias, key_bias; /* (heads, d), or TFT_NONE */
    struct linear value, output;
    struct site head_site, output_site;
};

struct attention_state {
    real *wq, *wk;        /* (H, H): the heads' weights side by side */
    real *q, *k, *v;      /* (N B, H), (T B, H), (T B, d) */
    real *a;              /* (B, heads, N, T) */
    real *mean;           /* (N B, d) */
    uint8_t *head_keep;   /* (B, heads, N, d) */
    uint8_t *output_keep; /* (N B, H) */
};

void attention_layout(struct arena *arena, const struct attention *layer, size_t most, struct attention_state *state);
/* Reals, for both directions. */
size_t attention_scratch(const struct kernels *kernels, const struct attention *layer, size_t most);

/* padding (B; may be NULL): how many of a sample's first steps do not exist, and are not seen. */
void attention_forward(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                       const real *x, const size_t *padding, real *y, real *scratch);
/* d_y (N B, H) is overwritten; d_x (T B, H) is added to. */
void attention_backward(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                        const real *x, real *d_y, real *d_x, real *scratch);

#endif
