/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM over S steps of B samples (Hochreiter and Schmidhuber 1997, with a forget gate):
 *
 *   [i | f | g | o] = x_t W + h_(t-1) U + b
 *   c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g);   h_t = sigmoid(o) tanh(c_t)
 *
 * A second bias (of U), where there is one, is added to the first: PyTorch's LSTMs have two, with one gradient.
 *
 *   x (S B, H)   W, U (H, 4 H)   b (4 H)   h, c (B + S B, H): the first B rows are the initial state
 *
 * Rows are time-major, so the rows of h before step t are h_(t-1), and the whole of h shifted by B rows is what U saw.
 */
#ifndef HALAY_TFT_LSTM_H
#define HALAY_TFT_LSTM_H

#include "tft/core/layers/linear.h"

struct lstm {
    size_t H;
    struct linear input;     /* W and b */
    struct linear recurrent; /* U; the second bias or TFT_NONE */
};

/* The arrays that forward reads and writes, and backward reads again. */
struct lstm_steps {
    size_t S;
    const size_t *padding; /* (B): how many of a sample's first steps do not exist: they leave the state as it is,
                            * whatever x is there. NULL: all exist */
    const real *x;         /* (S B, H) */
    size_t count;          /* forecasts alone: how many rows of x differ; 0: not known */
    const real *distinct;  /* (count, H): those */
    const int32_t *places; /* (S B): which of them each row of x is */
    real *gates;           /* (S B, 4 H): activated; backward turns them into their gradients */
    real *h, *c;           /* (B + S B, H): the first B rows are given, the others are written */
};

void lstm_forward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps);

struct lstm_backward {
    const real *d_out; /* (S B, H): gradient of h_1 .. h_S from above; 0 for steps that do not exist */
    real *d_h, *d_c; /* (B, H): in, the gradient of the last state from what follows; out, that of the initial state */
    real *d_x;       /* (S B, H), added to */
    real *scratch;   /* the kernel's lstm_scratch reals */
};

void lstm_backward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps,
                   const struct lstm_backward *d);

#endif
