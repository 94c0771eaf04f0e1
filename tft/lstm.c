/* SPDX-License-Identifier: Apache-2.0
 *
 * The input's product is made for all steps at once; a step adds the recurrent product to its rows in place. Backward,
 * the gates' gradients take the gates' place, so that the gradients of W, U and x are products over all steps, too;
 * only d_h_(t-1) = d_gates U^T is left to the steps, with U transposed once.
 */
#include "tft/lstm.h"
#include "tft/gemm.h"
#include "tft/vector.h"

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

void lstm_forward(const struct pass *pass, const struct lstm *lstm, const real *x, size_t S, real *gates, real *h,
                  real *c)
{
    size_t H = lstm->H, B = pass->B;

    linear_forward(pass, &lstm->input, x, S * B, gates);
    for (size_t t = 0; t < S; t++) {
        size_t before = t * B * H, after = before + B * H;

        linear_product(pass, &lstm->recurrent, h + before, B, 1, gates + 4 * before, 4 * H);
        step(gates + 4 * before, c + before, B, H, c + after, h + after);
    }
}

void lstm_backward(const struct pass *pass, const struct lstm *lstm, const real *x, size_t S, real *gates,
                   const real *h, const real *c, const real *d_out, real *d_h, real *d_c, real *d_x, real *scratch)
{
    size_t H = lstm->H, B = pass->B;
    const real *u = pass->p + lstm->recurrent.w;
    real *u_t = scratch; /* (4 H, H) */

    for (size_t i = 0; i < H; i++)
        for (size_t j = 0; j < 4 * H; j++)
            u_t[j * H + i] = u[i * 4 * H + j];
    for (size_t t = S; t-- > 0;) {
        size_t before = t * B * H, after = before + B * H;

        step_backward(gates + 4 * before, c + before, c + after, d_h, d_out + before, B, H, d_c);
        tft_gemm(matrix_of(gates + 4 * before, 4 * H), matrix_of(u_t, H), B, H, 4 * H, 0, d_h, H);
    }
    linear_backward(pass, &lstm->recurrent, h, gates, S * B, 0, NULL, 0);
    linear_backward(pass, &lstm->input, x, gates, S * B, 0, d_x, 1);
}

size_t lstm_scratch(const struct lstm *lstm)
{
    return 4 * lstm->H * lstm->H;
}
