/* SPDX-License-Identifier: Apache-2.0
 *
 * With y = skip + v s:  d_v = d_y s,  d_g = d_y v s (1 - s),  d_u = d_v Wv^T + d_g Wg^T,  and dropout's backward is its
 * mask again.
 */
#include "tft/layers/glu.h"
#include "tft/kernels/vector.h"

/* y = keep ? (x + bias) * scale : 0; bias may be NULL. */
TFT_VECTOR static void drop(const real *x, const real *restrict bias, const uint8_t *restrict keep, real scale,
                            size_t R, size_t W, real *u)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            real shift = bias ? bias[i] : 0;

            u[r * W + i] = keep[r * W + i] ? (x[r * W + i] + shift) * scale : 0;
        }
}

TFT_VECTOR static void add_bias(const real *x, const real *restrict bias, size_t R, size_t W, real *u)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            u[r * W + i] = x[r * W + i] + bias[i];
}

/* v and s come as products without bias. */
TFT_VECTOR static void gate(real *restrict v, real *restrict s, const real *restrict bias_v,
                            const real *restrict bias_g, const real *restrict skip, size_t R, size_t W,
                            real *restrict y)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            real value = v[r * W + i] + bias_v[i], open = real_sigmoid(s[r * W + i] + bias_g[i]);

            v[r * W + i] = value;
            s[r * W + i] = open;
            y[r * W + i] = skip[r * W + i] + value * open;
        }
}

/* What the gate's backward reads: (R, W) each. */
struct gated {
    const real *d_y, *v, *s;
};

TFT_VECTOR static void gate_backward(const struct gated *in, size_t R, size_t W, real *restrict d_v, real *restrict d_g,
                                     real *restrict sum_v, real *restrict sum_g)
{
    const real *d_y = in->d_y, *v = in->v, *s = in->s;

    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            size_t k = r * W + i;
            real dv = d_y[k] * s[k], dg = dv * v[k] * (1 - s[k]);

            d_v[k] = dv;
            d_g[k] = dg;
            sum_v[i] += dv;
            sum_g[i] += dg;
        }
}

void glu_layout(struct arena *arena, const struct glu *layer, size_t R, struct glu_state *state)
{
    size_t in = layer->value.in, out = layer->value.out;

    state->u = arena_reals(arena, R, in);
    state->keep = layer->dropped ? arena_flags(arena, R, in) : NULL;
    state->v = arena_reals(arena, R, out);
    state->s = arena_reals(arena, R, out);
    state->xhat = arena_reals(arena, R, out);
    state->inverse = arena_reals(arena, R, 1);
}

void glu_forward(const struct pass *pass, const struct glu *layer, struct glu_state *state, struct rows rows,
                 const real *x, const real *bias, const real *skip, real *z)
{
    size_t in = layer->value.in, out = layer->value.out, at = rows.at, R = rows.R;
    real *u = state->u + at * in;

    if (layer->dropped && pass->dropout.threshold) {
        uint8_t *keep = state->keep + at * in;

        dropout_rows(&pass->dropout, &layer->site, rows.row, R, pass->B, in, keep);
        drop(x, bias, keep, pass->dropout.scale, R, in, u);
    } else if (bias) {
        add_bias(x, bias, R, in, u);
    } else if (u != x) {
        memcpy(u, x, R * in * sizeof *u);
    }
    linear_product(pass, &layer->value, u, R, 0, state->v + at * out, out);
    linear_product(pass, &layer->gate, u, R, 0, state->s + at * out, out);
    glu_close(pass, layer, state, rows, pass->p + layer->value.b, pass->p + layer->gate.b, skip, z);
}

void glu_close(const struct pass *pass, const struct glu *layer, struct glu_state *state, struct rows rows,
               const real *bias_v, const real *bias_g, const real *skip, real *z)
{
    size_t out = layer->value.out, at = rows.at, R = rows.R;
    real *y = state->xhat + at * out;

    gate(state->v + at * out, state->s + at * out, bias_v, bias_g, skip, R, out, y);
    layernorm_forward(pass, &layer->norm, y, R, state->inverse + at, z);
}

void glu_backward(const struct pass *pass, const struct glu *layer, const struct glu_state *state, struct rows rows,
                  real *d_z, real *d_x, real *scratch)
{
    size_t in = layer->value.in, out = layer->value.out, at = rows.at, R = rows.R;
    int add = at > 0;
    const real *u = state->u + at * in;
    real *d_v = scratch, *d_g = scratch + R * out;
    real *sum_v = pass->g + layer->value.b, *sum_g = pass->g + layer->gate.b;

    layernorm_backward(pass, &layer->norm, state->xhat + at * out, state->inverse + at, R, add, d_z);
    if (!add) {
        reals_zero(sum_v, out);
        reals_zero(sum_g, out);
    }
    gate_backward(&(struct gated){ d_z, state->v + at * out, state->s + at * out }, R, out, d_v, d_g, sum_v, sum_g);
    linear_backward_kernel(pass, &layer->value, u, d_v, R, add);
    linear_backward_kernel(pass, &layer->gate, u, d_g, R, add);
    linear_backward_input(pass, &layer->value, d_v, R, d_x, 0);
    linear_backward_input(pass, &layer->gate, d_g, R, d_x, 1);
    if (layer->dropped && pass->dropout.threshold)
        dropout_apply(&pass->dropout, state->keep + at * in, d_x, R * in, d_x);
}
