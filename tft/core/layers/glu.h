/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated linear unit with what always surrounds it: dropout before, the sum with a skip connection and layer norm after.
 *
 *   u = dropout(x);   v = u Wv + bv;   s = sigmoid(u Wg + bg);   y = skip + v s;   z = layernorm(y)
 *
 *   x, u (R, in)   v, s, skip, y, z (R, out)      (TFT equations 2 and 5)
 *
 * Rows come in blocks (struct rows); a state's arrays hold the rows of the whole layer, others those of the block.
 */
#ifndef HALAY_TFT_GLU_H
#define HALAY_TFT_GLU_H

#include "tft/core/layers/layernorm.h"
#include "tft/core/layers/linear.h"

struct glu {
    struct linear value, gate;
    struct layernorm norm;
    int dropped;      /* whether there is dropout before it */
    int selects;      /* its results are a selection's weights: reals, as rows of two numbers lose their gradient in the
                         layer norm where they are rounded */
    struct site site; /* of that dropout */
};

struct glu_state {
    real *u;       /* (R, in): what the gate saw */
    uint8_t *keep; /* (R, in): the mask; only where there is dropout */
    real *v, *s;   /* (R, out): the device's own, from forward to backward */
    real *xhat;    /* (R, out): normalised y */
    real *inverse; /* (R) */
};

void glu_layout(struct arena *arena, const struct glu *layer, size_t R, struct glu_state *state);

/* Destinations of z: it is written, or summed with weights, or both. */
struct glu_output {
    real *z; /* (R, out); NULL: not wanted */
    /* As in struct gate_norm: */
    const real *weights;
    size_t V;
    int add;
    real *sum;
};

/* The gradient of a weighted sum, as in struct gate_norm_backward; all zero: backward begins with d_z. */
struct glu_gradient {
    const real *weights, *d_sum;
    size_t V;
    real *d_weights;
    real *d_bias; /* (in): the rows' sum of d_x, written, or added to by all blocks but the first; NULL: not wanted */
};

/* x may be state->u itself (then it is overwritten). */
void glu_forward(const struct pass *pass, const struct glu *layer, struct glu_state *state, struct rows rows,
                 const real *x, const real *bias, const real *skip, struct glu_output to);

/* Its end: state's v and s hold the products, without bias. */
void glu_close(const struct pass *pass, const struct glu *layer, struct glu_state *state, struct rows rows,
               const real *bias_v, const real *bias_g, const real *skip, struct glu_output to);

/* d_z (R, out) becomes the gradient of skip, in place; d_x (R, in) is written. scratch: 2 R out reals. */
void glu_backward(const struct pass *pass, const struct glu *layer, const struct glu_state *state, struct rows rows,
                  struct glu_gradient from, real *d_z, real *d_x, real *scratch);

#endif
