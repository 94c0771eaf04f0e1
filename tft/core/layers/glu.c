/* SPDX-License-Identifier: Apache-2.0
 *
 * With y = skip + v s:  d_v = d_y s,  d_g = d_y v s (1 - s),  d_u = d_v Wv^T + d_g Wg^T,  and dropout's backward is its
 * mask again.
 */
#include "tft/core/layers/glu.h"

void glu_layout(struct arena *arena, const struct glu *layer, size_t R, struct glu_state *state)
{
    size_t in = layer->value.in, out = layer->value.out;
    real *(*results)(struct arena * arena, size_t rows, size_t columns) = layer->selects ? arena_reals : arena_acts;

    state->u = arena_acts(arena, R, in);
    state->keep = layer->dropped ? arena_flags(arena, R, in) : NULL;
    state->v = results(arena, R, out);
    state->s = results(arena, R, out);
    state->xhat = results(arena, R, out);
    state->inverse = arena_reals(arena, R, 1);
}

/* Computes both products with rows u (R, in) in one call, so that a device prepares u once. The gate's weights,
 * gradients and results follow the value's, each pair at the same distance. */
static void multiply_both(const struct pass *pass, const struct glu *layer, const real *u, size_t R,
                          const struct glu_state *state, size_t at)
{
    size_t in = layer->value.in, out = layer->value.out;
    const struct product product = { .a = matrix_of(u, in),
                                     .b = matrix_of(pass->p + layer->value.w, out),
                                     .M = R,
                                     .N = out,
                                     .K = in,
                                     .to = written(state->v + at * out, out),
                                     .batch = 2,
                                     .step_b = layer->gate.w - layer->value.w,
                                     .step_to = (size_t)(state->s - state->v) };

    kernel_product(pass->queue, &product);
}

/* The gradients of both kernels, from d_v and d_g (R, out), neighbours. */
static void both_kernels_backward(const struct pass *pass, const struct glu *layer, const real *u, const real *d_v,
                                  size_t R, int add)
{
    size_t in = layer->value.in, out = layer->value.out;
    const struct product product = { .a = matrix_t(u, in),
                                     .b = matrix_of(d_v, out),
                                     .M = in,
                                     .N = out,
                                     .K = R,
                                     .to = sum_to(pass->g + layer->value.w, out, add),
                                     .batch = 2,
                                     .step_b = R * out,
                                     .step_to = layer->gate.w - layer->value.w };

    kernel_product(pass->queue, &product);
}

/* Threshold 0 where nothing is dropped. */
static struct dropout dropout_at(const struct pass *pass, const struct glu *layer)
{
    return layer->dropped ? pass->dropout : (struct dropout){ 0 };
}

void glu_forward(const struct pass *pass, const struct glu *layer, struct glu_state *state, struct rows rows,
                 const real *x, const real *bias, const real *skip, struct glu_output to)
{
    size_t in = layer->value.in, at = rows.kept, R = rows.R;
    real *u = state->u + at * in;
    uint8_t *keep = layer->dropped ? state->keep + at * in : NULL;
    const struct masked_rows masked = {
        .dropout = dropout_at(pass, layer), .site = layer->site, .row = rows.row, .R = R, .B = pass->B, .W = in
    };

    kernel_dropout(pass->queue, &masked, x, bias, keep, u);
    multiply_both(pass, layer, u, R, state, at);
    glu_close(pass, layer, state, rows, pass->p + layer->value.b, pass->p + layer->gate.b, skip, to);
}

void glu_close(const struct pass *pass, const struct glu *layer, struct glu_state *state, struct rows rows,
               const real *bias_v, const real *bias_g, const real *skip, struct glu_output to)
{
    size_t out = layer->value.out, at = rows.kept;
    const struct gate_norm gate = { .norm = norm_of(pass, &layer->norm, rows.R),
                                    .bias_v = bias_v,
                                    .bias_g = bias_g,
                                    .skip = skip,
                                    .v = state->v + at * out,
                                    .s = state->s + at * out,
                                    .xhat = state->xhat + at * out,
                                    .inverse = state->inverse + at,
                                    .z = to.z,
                                    .weights = to.weights,
                                    .V = to.V,
                                    .add = to.add,
                                    .sum = to.sum };

    kernel_gate_norm(pass->queue, &gate);
}

void glu_backward(const struct pass *pass, const struct glu *layer, const struct glu_state *state, struct rows rows,
                  struct glu_gradient from, real *d_z, real *d_x, real *scratch)
{
    size_t in = layer->value.in, out = layer->value.out, at = rows.kept, R = rows.R;
    int add = rows.at > 0;
    const real *u = state->u + at * in;
    real *d_v = pass_acts(pass, scratch), *d_g = d_v + R * out;
    const struct dropout dropout = dropout_at(pass, layer);
    const struct gate_norm_backward gate = {
        .norm = norm_backward_of(pass, &layer->norm, state->xhat + at * out, state->inverse + at, R, add, d_z),
        .bias_v = pass->p + layer->value.b,
        .bias_g = pass->p + layer->gate.b,
        .v = state->v + at * out,
        .s = state->s + at * out,
        .d_v = d_v,
        .d_g = d_g,
        .sum_v = pass->g + layer->value.b,
        .sum_g = pass->g + layer->gate.b,
        .weights = from.weights,
        .V = from.V,
        .beta = pass->p + layer->norm.beta,
        .d_sum = from.d_sum,
        .d_weights = from.d_weights,
    };

    kernel_gate_norm_backward(pass->queue, &gate);
    both_kernels_backward(pass, layer, u, d_v, R, add);
    linear_backward_input(pass, &layer->value, d_v, R, d_x, 0);
    linear_backward_input(pass, &layer->gate, d_g, R, d_x, 1);
    kernel_dropout_backward(pass->queue, &dropout, layer->dropped ? state->keep + at * in : NULL, R, in, add, d_x,
                            from.d_bias);
}
