/* SPDX-License-Identifier: Apache-2.0
 *
 * Variable selection (TFT equations 6-8): weights over the V variables from a joint GRN, each variable's own GRN, the
 * sum.
 *
 *   weights = softmax(joint([xi_1 .. xi_V], context));   out = sum over j of weights_j grn_j(xi_j)
 *
 *   xi_j (R, H)   weights (R, V)   context (B, H) or none   out (R, H)
 *
 * A real is given as x (R) with xi = x w + b, rank 1. Then xi W = x (w W) + (b W): two vectors, made once a granule,
 * replace a matrix product over all rows, in the variable's first layer and in the joint network's first layer and skip
 * connection. Backward, with g the gradient of xi W:
 *     d_W = w^T (sum x g) + b^T (sum g),   d_w = (sum x g) W^T,   d_b = (sum g) W^T
 * which are two sums over rows. A category, and in the plain graph every variable, is given as xi itself.
 *
 * An embedding may be narrower than H (xi_j (R, W_j), tft.h: pytorch-forecasting); the joint network reads them side by
 * side, and each variable's network has H outputs.
 *
 * With one variable its weight is 1 and the joint network's gradient is 0: `single` leaves it out.
 *
 * The states that the variables' networks keep for backward take most of a granule's memory, and grow with their
 * number. With `recompute` they share the memory of one block of rows, and backward computes it again before it reads
 * it, bit for bit.
 */
#ifndef HALAY_TFT_VSN_H
#define HALAY_TFT_VSN_H

#include "tft/core/layers/grn.h"

struct vsn {
    size_t V, H;
    const size_t *chosen; /* (V) numbers of its variables, borrowed from the model */
    int single;
    int recompute; /* what a variable's network keeps, a block's rows, is made again in backward */
    struct grn joint;
    struct grn *variables; /* (V), owned by the model */
};

/* One variable's input: x with the place of w and b, or xi and where its gradient is added. */
struct vsn_input {
    const real *x; /* (R); NULL: xi */
    size_t w;
    const real *xi; /* (R, W_j) */
    real *d_xi;     /* (R, W_j), added to */
};

struct vsn_state {
    real *weights;             /* (R, V) */
    real *base, *skip_base;    /* (most, J), (V): what the joint first layer, J wide, and skip have without x */
    real *joint1, *joint_skip; /* (V, 2, J), (V, 2, V): [w; b] times each variable's part of the weights */
    real *own, *own_skip;      /* (V, 2, H): the same for the variables' own first layers and skips */
    struct grn_state joint;
    struct grn_state *variables; /* (V), owned by the workspace; with `recompute` all in the same memory */
};

void vsn_layout(struct arena *arena, const struct kernels *kernels, const struct vsn *vsn, size_t R, size_t most,
                struct vsn_state *state);
/* Reals, for both directions. */
size_t vsn_scratch(const struct kernels *kernels, const struct vsn *vsn, size_t R, size_t most);

/* The inputs of a selection. */
struct vsn_rows {
    const struct vsn_input *inputs; /* (V) */
    const real *context;            /* (B, H), or NULL */
    size_t row;                     /* the window's row of the inputs' first */
    size_t R;
};

/* out (R, H) is written. */
void vsn_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, struct vsn_rows from,
                 real *out, real *scratch);
/* Reports each network's parameters as final. d_context (B, H) is added to; so are the inputs' d_xi, or the gradients
 * of w and b. */
void vsn_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state, struct vsn_rows from,
                  const real *d_out, real *d_context, real *scratch);

#endif
