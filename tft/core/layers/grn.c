/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward and backward go block by block through the whole chain; only what backward needs is kept: e, and glu's u, v,
 * s and normalised sum. The context's product is made once a sample, not once a row.
 */
#include "tft/core/layers/grn.h"

void grn_layout(struct arena *arena, const struct grn *grn, size_t R, size_t most, struct grn_state *state)
{
    state->skip_inverse = grn->resample.mask != TFT_NONE ? arena_reals(arena, R, 1) : NULL;
    if (grn->bare) {
        state->glu.xhat = arena_acts(arena, R, grn->out);
        state->glu.inverse = arena_reals(arena, R, 1);
        return;
    }
    state->e = arena_acts(arena, R, grn->H);
    if (grn->skip.w == TFT_NONE)
        state->skip = NULL;
    else
        state->skip = grn->glu.selects ? arena_reals(arena, R, grn->out) : arena_acts(arena, R, grn->out);
    state->c = grn->context.w != TFT_NONE ? arena_reals(arena, most, grn->H) : NULL;
    glu_layout(arena, &grn->glu, R, &state->glu);
}

size_t grn_scratch(const struct kernels *kernels, const struct grn *grn, size_t R, size_t most)
{
    size_t block = block_rows_most(kernels, R, most);

    return most * grn->H + block * (grn->H + 2 * grn->out) + aligned_reals(block * grn->H);
}

size_t grn_folded(const struct grn *grn)
{
    return grn->bare ? 0 : 2 * (grn->H + 1) * grn->out;
}

void grn_fold(const struct pass *pass, const struct grn *grn, real *folded)
{
    const struct linear *dense2 = &grn->dense2, *layers[] = { &grn->glu.value, &grn->glu.gate };
    size_t H = grn->H, out = grn->out;

    for (size_t i = 0; i < 2; i++) {
        const struct matrix w = matrix_of(pass->p + layers[i]->w, out);
        const struct product kernel = { .a = matrix_of(pass->p + dense2->w, H),
                                        .b = w,
                                        .M = H,
                                        .N = out,
                                        .K = H,
                                        .to = written(folded + i * H * out, out),
                                        .exact = 1 };
        struct product bias = kernel;

        bias.a = matrix_of(pass->p + dense2->b, H);
        bias.M = 1;
        bias.to = written(folded + 2 * H * out + i * out, out);
        bias.bias = pass->p + layers[i]->b;
        kernel_product(pass->queue, &kernel);
        kernel_product(pass->queue, &bias);
    }
}

/* Computes the forward pass from e on. */
static void folded_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, struct rows rows,
                           const real *skip, struct glu_output to)
{
    size_t H = grn->H, out = grn->out, at = rows.kept, R = rows.R;
    const real *e = state->e + at * H, *folded = pass->folded + grn->folded, *bias = folded + 2 * H * out;

    const struct product both = { .a = matrix_of(e, H),
                                  .b = matrix_of(folded, out),
                                  .M = R,
                                  .N = out,
                                  .K = H,
                                  .to = written(state->glu.v + at * out, out),
                                  .batch = 2,
                                  .step_b = H * out,
                                  .step_to = (size_t)(state->glu.s - state->glu.v) };

    kernel_product(pass->queue, &both);
    glu_close(pass, &grn->glu, &state->glu, rows, bias, bias + out, skip, to);
}

void grn_tail_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, struct rows rows,
                      const real *skip, struct glu_output to)
{
    real *e = state->e + rows.kept * grn->H, *u = state->glu.u + rows.kept * grn->H;

    kernel_elu(pass->queue, rows.R * grn->H, e);
    if (pass->folded) {
        folded_forward(pass, grn, state, rows, skip, to);
        return;
    }
    linear_product(pass, &grn->dense2, e, rows.R, 0, u, grn->H);
    glu_forward(pass, &grn->glu, &state->glu, rows, u, pass->p + grn->dense2.b, skip, to);
}

void grn_tail_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *state, struct rows rows,
                       struct glu_gradient from, real *d_z, real *d_h1, real *scratch)
{
    const real *e = state->e + rows.kept * grn->H;
    real *d_h2 = pass_acts(pass, scratch);

    from.d_bias = pass->g + grn->dense2.b;
    glu_backward(pass, &grn->glu, &state->glu, rows, from, d_z, d_h2, scratch + aligned_reals(rows.R * grn->H));
    linear_backward_kernel(pass, &grn->dense2, e, d_h2, rows.R, rows.at > 0);
    linear_backward_input(pass, &grn->dense2, d_h2, rows.R, d_h1, 0);
    kernel_elu_backward(pass->queue, e, rows.R, grn->H, rows.at > 0, d_h1, pass->g + grn->dense1.b);
}

const real *grn_skip_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, struct rows rows,
                             real *normalised)
{
    real *skip = state->skip + rows.kept * grn->out;

    if (grn->resample.mask == TFT_NONE)
        return skip;
    layernorm_forward(pass, &grn->skip_norm, skip, rows.R, state->skip_inverse + rows.kept, normalised);
    return normalised;
}

void grn_skip_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *state, struct rows rows,
                       real *d_skip)
{
    if (grn->resample.mask != TFT_NONE)
        layernorm_backward(pass, &grn->skip_norm, state->skip + rows.kept * grn->out, state->skip_inverse + rows.kept,
                           rows.R, rows.at > 0, d_skip);
}

void grn_forward(const struct pass *pass, const struct grn *grn, struct grn_state *state, size_t row, const real *x,
                 const real *context, size_t R, real *z)
{
    if (context)
        linear_forward(pass, &grn->context, context, pass->B, state->c);
    for (size_t at = 0; at < R; at += block_rows(pass, R)) {
        struct rows rows = block_at(pass, at, row, R);
        const real *in = x + at * grn->in, *skip = in;
        real *h1 = state->e + rows.kept * grn->H;

        linear_forward(pass, &grn->dense1, in, rows.R, h1);
        if (context)
            kernel_rows_add(pass->queue, state->c, rows.R / pass->B, pass->B * grn->H, h1);
        if (grn->skip.w != TFT_NONE) {
            linear_forward(pass, &grn->skip, in, rows.R, state->skip + rows.kept * grn->out);
            skip = state->skip + rows.kept * grn->out;
        }
        grn_tail_forward(pass, grn, state, rows, skip, (struct glu_output){ .z = z + at * grn->out });
    }
}

void grn_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *state, size_t R,
                  const struct grn_backward *b)
{
    size_t block = block_rows(pass, R);
    real *d_c = b->scratch, *after = d_c + pass->B * grn->H, *d_h1 = pass_acts(pass, after);
    real *rest = after + block * grn->H;

    if (b->context)
        kernel_zero(pass->queue, pass->B * grn->H, d_c);
    for (size_t at = 0; at < R; at += block) {
        struct rows rows = block_at(pass, at, 0, R);
        const real *in = b->x + at * grn->in;
        real *d_y = b->d_z + at * grn->out, *d_in = b->d_x ? b->d_x + at * grn->in : NULL;

        grn_tail_backward(pass, grn, state, rows, (struct glu_gradient){ .V = 0 }, d_y, d_h1, rest);
        linear_backward_kernel(pass, &grn->dense1, in, d_h1, rows.R, at > 0);
        if (d_in)
            linear_backward_input(pass, &grn->dense1, d_h1, rows.R, d_in, b->add_x);
        if (grn->skip.w != TFT_NONE)
            linear_backward(pass, &grn->skip, in, d_y, rows.R, at > 0, d_in, 1);
        else if (d_in)
            kernel_add(pass->queue, d_y, rows.R * grn->in, d_in);
        if (b->context)
            kernel_samples_sum(pass->queue, d_h1, rows.R, pass->B, grn->H, d_c);
    }
    if (b->context)
        linear_backward(pass, &grn->context, b->context, d_c, pass->B, 0, b->d_context, 1);
}
