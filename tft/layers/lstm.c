/* SPDX-License-Identifier: Apache-2.0
 *
 * The input's product is made for all steps at once; each step adds the recurrent product to its rows in place.
 * Backward, the gates' gradients overwrite the gates, so that the gradients of W, U and x are products over all steps
 * too; only d_h_(t-1) = d_gates U^T is left to the steps, with U transposed once.
 */
#include "tft/layers/lstm.h"
#include "tft/kernels/vector.h"
#include "tft/layers/product.h"

/* One step's element-wise part, one sample a row: gates (B, 4 H) from sums to activations. */
TFT_VECTOR static void step(real *restrict gates, const real *restrict c_before, size_t B, size_t H, real *restrict c,
                            real *restrict h)
{
    for (size_t b = 0; b < B; b++) {
        real *gi = gates + b * 4 * H, *gf = gi + H, *gg = gf + H, *go = gg + H;

        for (size_t k = 0; k < H; k++) {
            real i = real_sigmoid(gi[k]), f = real_sigmoid(gf[k]), g = real_tanh(gg[k]), o = real_sigmoid(go[k]);
            real cell = f * c_before[b * H + k] + i * g;

            gi[k] = i;
            gf[k] = f;
            gg[k] = g;
            go[k] = o;
            c[b * H + k] = cell;
            h[b * H + k] = o * real_tanh(cell);
        }
    }
}

/* d_c in: gradient of c_t from the step after it; out: of c_(t-1). */
TFT_VECTOR static void step_backward(real *restrict gates, const real *restrict c_before, const real *restrict c,
                                     const real *restrict d_h, const real *restrict d_out, size_t B, size_t H,
                                     real *restrict d_c)
{
    for (size_t b = 0; b < B; b++) {
        real *gi = gates + b * 4 * H, *gf = gi + H, *gg = gf + H, *go = gg + H;

        for (size_t k = 0; k < H; k++) {
            real i = gi[k], f = gf[k], g = gg[k], o = go[k], t = real_tanh(c[b * H + k]);
            real dh = d_h[b * H + k] + d_out[b * H + k];
            real dc = d_c[b * H + k] + dh * o * (1 - t * t);

            gi[k] = dc * g * i * (1 - i);
            gf[k] = dc * c_before[b * H + k] * f * (1 - f);
            gg[k] = dc * i * (1 - g * g);
            go[k] = dh * t * o * (1 - o);
            d_c[b * H + k] = dc * f;
        }
    }
}

/* Step t of the samples for which it does not exist: the state passes. */
static void pass_state(const size_t *padding, size_t t, size_t B, size_t H, const real *before, real *after)
{
    for (size_t b = 0; b < B; b++)
        if (t < padding[b])
            memcpy(after + b * H, before + b * H, H * sizeof *after);
}

static void zero_padded(const size_t *padding, size_t t, size_t B, size_t W, real *rows)
{
    for (size_t b = 0; b < B; b++)
        if (t < padding[b])
            reals_zero(rows + b * W, W);
}

/* to (C, R) is the transpose of from (R, C), a few rows at a time: what is written then stays in the cache. */
static void transpose(const real *from, size_t R, size_t C, real *to)
{
    enum { ROWS = 16 };

    for (size_t r = 0; r < R; r += ROWS)
        for (size_t c = 0; c < C; c++)
            for (size_t i = r; i < R && i < r + ROWS; i++)
                to[c * R + i] = from[i * C + c];
}

void lstm_forward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps)
{
    size_t H = lstm->H, B = pass->B, S = steps.S;

    linear_forward(pass, &lstm->input, steps.x, S * B, steps.gates);
    if (lstm->recurrent.b != TFT_NONE)
        rows_add(steps.gates, pass->p + lstm->recurrent.b, S * B, 4 * H);
    for (size_t t = 0; t < S; t++) {
        size_t before = t * B * H, after = before + B * H;
        real *gates = steps.gates + 4 * before;

        linear_product(pass, &lstm->recurrent, steps.h + before, B, 1, gates, 4 * H);
        step(gates, steps.c + before, B, H, steps.c + after, steps.h + after);
        if (steps.padding) {
            pass_state(steps.padding, t, B, H, steps.h + before, steps.h + after);
            pass_state(steps.padding, t, B, H, steps.c + before, steps.c + after);
        }
    }
}

void lstm_backward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps,
                   const struct lstm_backward *d)
{
    size_t H = lstm->H, B = pass->B, S = steps.S;
    real *u_t = d->scratch;                                   /* (4 H, H): U transposed */
    real *kept_h = u_t + 4 * H * H, *kept_c = kept_h + B * H; /* (B, H) */

    transpose(pass->p + lstm->recurrent.w, H, 4 * H, u_t);
    product_keep(pass, matrix_of(u_t, H), 4 * H, H);
    for (size_t t = S; t-- > 0;) {
        size_t before = t * B * H, after = before + B * H;
        real *gates = steps.gates + 4 * before;

        if (steps.padding) {
            memcpy(kept_h, d->d_h, B * H * sizeof *kept_h);
            memcpy(kept_c, d->d_c, B * H * sizeof *kept_c);
        }
        step_backward(gates, steps.c + before, steps.c + after, d->d_h, d->d_out + before, B, H, d->d_c);
        if (steps.padding)
            zero_padded(steps.padding, t, B, 4 * H, gates);
        product(pass, matrix_of(gates, 4 * H), matrix_of(u_t, H), B, H, 4 * H, written(d->d_h, H));
        if (steps.padding) {
            pass_state(steps.padding, t, B, H, kept_h, d->d_h);
            pass_state(steps.padding, t, B, H, kept_c, d->d_c);
        }
    }
    product_forget(pass);
    linear_backward_kernel(pass, &lstm->recurrent, steps.h, steps.gates, S * B, 0);
    linear_backward(pass, &lstm->input, steps.x, steps.gates, S * B, 0, d->d_x, 1);
    if (lstm->recurrent.b != TFT_NONE)
        memcpy(pass->g + lstm->recurrent.b, pass->g + lstm->input.b, 4 * H * sizeof *steps.x);
}

size_t lstm_scratch(const struct lstm *lstm, size_t most)
{
    return (4 * lstm->H + 2 * most) * lstm->H;
}
