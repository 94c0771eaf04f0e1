/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM over S steps of B samples (Hochreiter and Schmidhuber 1997, with a forget gate):
 *
 *   [i | f | g | o] = x_t W + h_(t-1) U + b;   c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g);   h_t = sigmoid(o)
 *   tanh(c_t)
 *
 * A second bias (of U), where there is one, is added to the first: PyTorch's LSTMs have two, with one gradient.
 *
 *   x (S B, H)   W, U (H, 4 H)   b (4 H)   h, c (B + S B, H): the first B rows are the initial state
 *
 * Rows are time-major, so the rows of h before step t are h_(t-1), and the whole of h shifted by B rows is what U saw.
 */
#ifndef TFT_LSTM_H
#define TFT_LSTM_H

#include "tft/layers/linear.h"

struct lstm {
    size_t H;
    struct linear input;     /* W and b */
    struct linear recurrent; /* U; the second bias or TFT_NONE */
};

/* gates (S B, 4 H): activated, kept for backward. h and c: the initial rows are given, the rest is written. */
/* padding (B; may be NULL): so many of a sample's first steps do not exist: they leave the state as it is, and x there
 * has no influence. */
void lstm_forward(const struct pass *pass, const struct lstm *lstm, const real *x, const size_t *padding, size_t S,
                  real *gates, real *h, real *c);

/* d_out (S B, H): gradient of h_1 .. h_S from above. d_h, d_c (B, H): in, the gradient of the last state from what
 * follows; out, that of the initial state. d_out of a padded step must be 0. gates become their gradients. d_x (S B, H)
 * is added to. scratch: lstm_scratch reals. */
void lstm_backward(const struct pass *pass, const struct lstm *lstm, const real *x, const size_t *padding, size_t S,
                   real *gates, const real *h, const real *c, const real *d_out, real *d_h, real *d_c, real *d_x,
                   real *scratch);
size_t lstm_scratch(const struct lstm *lstm, size_t most);

#endif
