/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated residual network (TFT equations 2-4):
 *
 *   h1 = x W1 + b1 [+ c Wc];   e = elu(h1);   h2 = e W2 + b2;   z = glu(h2) with dropout, skip and layer norm
 *   skip = x, or where the output is not as wide as the input: x Ws + bs, or layernorm(x S) with a resampling S
 *          (tft/core/layers/linear.h)
 *
 *   x (R, in)   c (B, H) context, the same for all times of a sample   h1, e, h2 (R, H)   z (R, out)
 *
 * Without dropout nothing is between dense2 and the gate's two products, so forecasts take e through W2 Wv and W2 Wg,
 * which are made once for given parameters (grn_fold): exact, and it saves a third of a tail's products.
 *
 * A GRN is a *head*, which makes h1 and skip, and a *tail*, the rest. Variable selection has heads of its own (rank 1)
 * and shares the tail.
 */
#ifndef HALAY_TFT_GRN_H
#define HALAY_TFT_GRN_H

#include "tft/core/layers/glu.h"

struct grn {
    size_t in, H, out;
    size_t first;       /* of a variable's network: its first row in the joint network's kernels */
    struct linear skip; /* w TFT_NONE: the input itself */
    struct resample resample;
    struct layernorm skip_norm; /* with resampling */
    int bare;                   /* only the resampled and normalised skip connection; glu.norm is its norm */
    struct linear dense1;
    struct linear context; /* without bias; w TFT_NONE: no context */
    struct linear dense2;
    struct glu glu;
    size_t folded; /* place in pass.folded */
    struct span params;
};

struct grn_state {
    real *e;            /* (R, H): h1, then elu(h1) */
    real *skip;         /* (R, out), if the skip connection has weights; normalised if it is resampled */
    real *skip_inverse; /* (R), if it is resampled */
    real *c;            /* (B, H): context times its weights */
    struct glu_state glu;
};

/* Reals that grn_fold writes: W2 Wv, W2 Wg (H, out), b2 Wv + bv, b2 Wg + bg (out). */
size_t grn_folded(const struct grn *grn);
/* folded: to its place. Products are not rounded to bf16. */
void grn_fold(const struct pass *pass, const struct grn *grn, real *folded);

/* R rows of at most `most` samples. */
void grn_layout(struct arena *arena, const struct grn *grn, size_t R, size_t most, struct grn_state *state);
/* Reals of scratch that backward needs. */
size_t grn_scratch(const struct kernels *kernels, const struct grn *grn, size_t R, size_t most);

/* row: the window's row of x's first. context: (B, H) or NULL. z (R, out) is written. */
void grn_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, size_t row, const real *x,
                 const real *context, size_t R, real *z);

/* Arguments and results of backward. */
struct grn_backward {
    const real *x, *context; /* as forward had them */
    real *d_z;               /* (R, out), overwritten */
    real *d_x;               /* (R, in), written, or added to with add_x; may be NULL */
    int add_x;
    real *d_context; /* (B, H), added to; NULL without a context */
    real *scratch;   /* grn_scratch reals */
};
void grn_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *state, size_t R,
                  const struct grn_backward *b);

/* ---- the tail, one block of rows -------------------------------------------------------------------------------- */

/* state->e + at * H holds h1. */
void grn_tail_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, struct rows rows,
                      const real *skip, struct glu_output to);
/* d_z becomes the gradient of skip; d_h1 (R, H) is written, and so is the gradient of b1, its rows' sum (added to by
 * all blocks but the first). scratch: aligned_reals(R H) + 2 R out reals. */
void grn_tail_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *state, struct rows rows,
                       struct glu_gradient from, real *d_z, real *d_h1, real *scratch);

/* Returns the skip connection of rows whose product with its weights is in state->skip + at * out: that product, or its
 * layer norm, written to `normalised` (R, out). */
const real *grn_skip_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, struct rows rows,
                             real *normalised);
/* d_skip (R, out) becomes the gradient of the product. */
void grn_skip_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *state, struct rows rows,
                       real *d_skip);

#endif
