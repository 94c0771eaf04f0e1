/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward: the joint network for all rows, then one variable's network after the other, block by block, so that the
 * variable's weights stay in the cache. Backward: one variable after the other, which also gives the weights'
 * gradients; then the joint network. Each variable's part of the joint kernels is a block of rows of its own, from its
 * network's `first` on.
 */
#include "tft/core/layers/vsn.h"
#include "tft/core/layers/embedding.h"

/* Variable j's rows, with their weights. */
static struct weighted weighted_at(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state,
                                   size_t j, struct rows rows)
{
    const struct layernorm *norm = &vsn->variables[j].glu.norm;

    return (struct weighted){ .R = rows.R,
                              .W = vsn->H,
                              .V = vsn->V,
                              .weights = state->weights + rows.at * vsn->V + j,
                              .xhat = state->variables[j].glu.xhat + rows.kept * vsn->H,
                              .gamma = pass->p + norm->gamma,
                              .beta = pass->p + norm->beta };
}

/* The part of a joint kernel that belongs to a variable: (W_j, out). */
static struct linear part_of(const struct linear *joint, const struct grn *variable)
{
    return (struct linear){
        .in = variable->in, .out = joint->out, .w = joint->w + variable->first * joint->out, .b = TFT_NONE
    };
}

/* y (2, out) = [w; b] W. */
static void rank1_through(const struct pass *pass, const struct linear *layer, size_t w, real *y)
{
    linear_product(pass, layer, pass->p + w, 2, 0, y, layer->out);
}

/* sums (2, out) = [sum x g; sum g]: writes the gradient of W, adds to those of w and b. */
static void rank1_back(const struct pass *pass, const struct linear *layer, size_t w, const real *sums)
{
    linear_backward_kernel(pass, layer, pass->p + w, sums, 2, 0);
    linear_backward_input(pass, layer, sums, 2, pass->g + w, 1);
}

/* Lays out the states of the variables; with `recompute` all at the same place. */
static void layout_variables(struct arena *arena, const struct kernels *kernels, const struct vsn *vsn, size_t R,
                             size_t most, struct vsn_state *state)
{
    size_t begin = arena->used, end = begin;
    size_t rows = vsn->recompute ? block_rows_most(kernels, R, most) : R;

    for (size_t j = 0; j < vsn->V; j++) {
        if (vsn->recompute)
            arena->used = begin;
        grn_layout(arena, &vsn->variables[j], rows, most, &state->variables[j]);
        end = arena->used > end ? arena->used : end;
    }
    arena->used = end;
}

void vsn_layout(struct arena *arena, const struct kernels *kernels, const struct vsn *vsn, size_t R, size_t most,
                struct vsn_state *state)
{
    size_t V = vsn->V, H = vsn->H, J = vsn->joint.H;

    state->own = arena_reals(arena, V, 2 * H);
    state->own_skip = arena_reals(arena, V, 2 * H);
    layout_variables(arena, kernels, vsn, R, most, state);
    if (vsn->single)
        return;
    state->weights = arena_reals(arena, R, V);
    state->base = arena_reals(arena, most, J);
    state->skip_base = arena_reals(arena, 1, V);
    state->joint1 = arena_reals(arena, V, 2 * J);
    state->joint_skip = arena_reals(arena, V, 2 * V);
    grn_layout(arena, &vsn->joint, R, most, &state->joint);
}

size_t vsn_scratch(const struct kernels *kernels, const struct vsn *vsn, size_t R, size_t most)
{
    size_t V = vsn->V, H = vsn->H, widest = V > H ? V : H, block = block_rows_most(kernels, R, most);

    return aligned_reals(R * V) + aligned_reals(2 * (H + V) * V + V + most * H) + 4 * H + 2 * aligned_reals(block * H) +
           block * (H + 2 * widest);
}

/* The joint network's h1 and skip before the x of rank-1 variables and the products of the others are added. */
static void joint_base(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, struct vsn_rows from)
{
    size_t V = vsn->V, J = vsn->joint.H, B = pass->B;

    if (vsn->joint.skip.w >= TFT_DERIVED)
        resample_matrix(pass, &vsn->joint.resample, &vsn->joint.skip);
    if (from.context)
        linear_product(pass, &vsn->joint.context, from.context, B, 0, state->base, J);
    else
        kernel_zero(pass->queue, B * J, state->base);
    kernel_rows_add(pass->queue, pass->p + vsn->joint.dense1.b, B, J, state->base);
    if (vsn->joint.skip.b != TFT_NONE)
        kernel_copy(pass->queue, pass->p + vsn->joint.skip.b, V, state->skip_base);
    else
        kernel_zero(pass->queue, V, state->skip_base);
    for (size_t j = 0; j < V; j++) {
        struct linear first = part_of(&vsn->joint.dense1, &vsn->variables[j]);
        struct linear skip = part_of(&vsn->joint.skip, &vsn->variables[j]);
        real *through = state->joint1 + j * 2 * J, *skipped = state->joint_skip + j * 2 * V;

        if (!from.inputs[j].x)
            continue;
        rank1_through(pass, &first, from.inputs[j].w, through);
        rank1_through(pass, &skip, from.inputs[j].w, skipped);
        kernel_rows_add(pass->queue, through + J, B, J, state->base);
        kernel_add(pass->queue, skipped + V, V, state->skip_base);
    }
}

/* Adds variable j's part to a block's h1 (R, J) and skip (R, V). */
static void joint_add(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state, size_t j,
                      const struct vsn_input *input, struct rows rows)
{
    size_t V = vsn->V, J = vsn->joint.H;
    struct linear first = part_of(&vsn->joint.dense1, &vsn->variables[j]);
    struct linear skipping = part_of(&vsn->joint.skip, &vsn->variables[j]);
    real *h1 = state->joint.e + rows.kept * J, *skip = state->joint.skip + rows.kept * V;

    if (input->x) {
        kernel_outer_add(pass->queue, input->x + rows.at, state->joint1 + j * 2 * J, rows.R, J, h1);
        kernel_outer_add(pass->queue, input->x + rows.at, state->joint_skip + j * 2 * V, rows.R, V, skip);
    } else {
        linear_product(pass, &first, input->xi + rows.at * first.in, rows.R, 1, h1, J);
        linear_product(pass, &skipping, input->xi + rows.at * first.in, rows.R, 1, skip, V);
    }
}

static void joint_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, struct vsn_rows from,
                          real *scratch)
{
    size_t V = vsn->V, J = vsn->joint.H, B = pass->B;

    joint_base(pass, vsn, state, from);
    for (size_t at = 0; at < from.R; at += block_rows(pass, from.R)) {
        struct rows rows = block_at(pass, at, from.row, from.R);
        real *h1 = state->joint.e + rows.kept * J;
        const real *skipped;

        kernel_rows_fill(pass->queue, state->base, rows.R / B, B * J, h1);
        kernel_rows_fill(pass->queue, state->skip_base, rows.R, V, state->joint.skip + rows.kept * V);
        for (size_t j = 0; j < V; j++)
            joint_add(pass, vsn, state, j, &from.inputs[j], rows);
        skipped = grn_skip_forward(pass, &vsn->joint, &state->joint, rows, scratch);
        grn_tail_forward(pass, &vsn->joint, &state->joint, rows, skipped,
                         (struct glu_output){ .z = state->weights + at * V });
        kernel_softmax(pass->queue, rows.R, V, state->weights + at * V);
    }
}

/* One variable of a selection: its network, what that keeps, and its input. */
struct chosen {
    const struct grn *grn;
    struct grn_state *own;
    const struct vsn_input *input;
    real *through, *skipped; /* (2, H) each: [w; b] times the weights of its first layer and of its skip connection */
};

static struct chosen chosen_of(const struct vsn *vsn, const struct vsn_state *state, struct vsn_rows from, size_t j)
{
    return (struct chosen){ .grn = &vsn->variables[j],
                            .own = &state->variables[j],
                            .input = &from.inputs[j],
                            .through = state->own + j * 2 * vsn->H,
                            .skipped = state->own_skip + j * 2 * vsn->H };
}

/* The skip connection of one block of a variable's network; in normalised (R, H), in the state, or xi itself. */
static const real *variable_skip(const struct pass *pass, const struct chosen *v, struct rows rows, real *normalised)
{
    const struct vsn_input *input = v->input;
    size_t H = v->grn->out;
    real *skip = v->own->skip ? v->own->skip + rows.kept * H : NULL;

    if (!skip && !input->x)
        return input->xi + rows.at * H;
    if (!skip) {
        kernel_outer(pass->queue, input->x + rows.at, pass->p + input->w, rows.R, H, normalised);
        return normalised;
    }
    if (input->x)
        kernel_outer(pass->queue, input->x + rows.at, v->skipped, rows.R, H, skip);
    else
        linear_product(pass, &v->grn->skip, input->xi + rows.at * v->grn->in, rows.R, 0, skip, H);
    return grn_skip_forward(pass, v->grn, v->own, rows, normalised);
}

/* One block of a variable's network. */
static void variable_rows(const struct pass *pass, const struct chosen *v, struct rows rows, struct glu_output to,
                          real *scratch)
{
    const struct grn *grn = v->grn;
    const struct vsn_input *input = v->input;
    size_t at = rows.at, H = grn->H;
    real *h1 = v->own->e + rows.kept * H;

    if (grn->bare) {
        real *sum = v->own->glu.xhat + rows.kept * grn->out;

        linear_product(pass, &grn->skip, input->xi + at * grn->in, rows.R, 0, sum, grn->out);
        layernorm_forward(pass, &grn->glu.norm, sum, rows.R, v->own->glu.inverse + rows.kept, to.z);
        if (to.weights)
            kernel_weighted_sum(pass->queue,
                                &(struct weighted){ rows.R, grn->out, to.V, to.weights, sum,
                                                    pass->p + grn->glu.norm.gamma, pass->p + grn->glu.norm.beta },
                                to.add, to.sum);
        return;
    }
    if (input->x)
        kernel_outer(pass->queue, input->x + at, v->through, rows.R, H, h1);
    else
        linear_forward(pass, &grn->dense1, input->xi + at * grn->in, rows.R, h1);
    grn_tail_forward(pass, grn, v->own, rows, variable_skip(pass, v, rows, pass_acts(pass, scratch)), to);
}

/* The block that begins at `at`. */
static struct rows variable_block(const struct pass *pass, const struct vsn *vsn, struct vsn_rows from, size_t at)
{
    struct rows rows = block_at(pass, at, from.row, from.R);

    if (vsn->recompute)
        rows.kept = 0;
    return rows;
}

static void variable_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state,
                             struct vsn_rows from, size_t j, real *out, real *scratch)
{
    const struct chosen v = chosen_of(vsn, state, from, j);
    const struct grn *grn = v.grn;
    size_t H = vsn->H, block = block_rows(pass, from.R);

    if (grn->resample.mask != TFT_NONE)
        resample_matrix(pass, &grn->resample, &grn->skip);
    if (v.input->x) {
        rank1_through(pass, &grn->dense1, v.input->w, v.through);
        kernel_add(pass->queue, pass->p + grn->dense1.b, grn->H, v.through + grn->H);
        if (grn->skip.w != TFT_NONE)
            rank1_through(pass, &grn->skip, v.input->w, v.skipped);
    }
    for (size_t at = 0; at < from.R; at += block) {
        struct rows rows = variable_block(pass, vsn, from, at);

        variable_rows(pass, &v, rows,
                      vsn->single ? (struct glu_output){ .z = out + at * H }
                                  : (struct glu_output){ .weights = state->weights + at * vsn->V + j,
                                                         .V = vsn->V,
                                                         .add = j > 0,
                                                         .sum = out + at * H },
                      scratch);
    }
}

void vsn_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, struct vsn_rows from,
                 real *out, real *scratch)
{
    if (!vsn->single)
        joint_forward(pass, vsn, state, from, scratch);
    for (size_t j = 0; j < vsn->V; j++)
        variable_forward(pass, vsn, state, from, j, out, scratch);
}

/* Sums over all rows of a rank-1 variable, (2, H) each: [sum x g; sum g] of its first layer and its skip connection. */
struct rank1_sums {
    real *first, *skip;
};

/* One block; d_z, the gradient of the network's normalised sum, becomes that of its skip connection. */
static void variable_rows_backward(const struct pass *pass, const struct chosen *v, struct rows rows,
                                   struct glu_gradient from, real *d_z, struct rank1_sums sums, real *scratch)
{
    const struct grn *grn = v->grn;
    const struct vsn_input *input = v->input;
    size_t H = grn->out, in = grn->in, at = rows.at, R = rows.R;
    real *d_h1 = pass_acts(pass, scratch), *rest = scratch + aligned_reals(R * grn->H);

    grn_tail_backward(pass, grn, v->own, rows, from, d_z, d_h1, rest);
    grn_skip_backward(pass, grn, v->own, rows, d_z);
    if (input->x) {
        kernel_outer_sum(pass->queue, d_h1, input->x + at, R, grn->H, sums.first);
        kernel_outer_sum(pass->queue, d_z, input->x + at, R, H, sums.skip);
        kernel_rows_sum(pass->queue, d_z, R, H, 1, sums.skip + H);
        return;
    }
    linear_backward_kernel(pass, &grn->dense1, input->xi + at * in, d_h1, R, at > 0);
    linear_backward_input(pass, &grn->dense1, d_h1, R, input->d_xi + at * in, 1);
    if (grn->skip.w != TFT_NONE)
        linear_backward(pass, &grn->skip, input->xi + at * in, d_z, R, at > 0, input->d_xi + at * in, 1);
    else
        kernel_add(pass->queue, d_z, R * H, input->d_xi + at * in);
}

/* The gradients that follow from a rank-1 variable's sums. */
static void variable_sums_backward(const struct pass *pass, const struct chosen *v, struct rank1_sums sums)
{
    const struct grn *grn = v->grn;

    kernel_copy(pass->queue, pass->g + grn->dense1.b, grn->H, sums.first + grn->H);
    rank1_back(pass, &grn->dense1, v->input->w, sums.first);
    if (grn->skip.w != TFT_NONE)
        rank1_back(pass, &grn->skip, v->input->w, sums.skip);
    else
        kernel_add(pass->queue, sums.skip, 2 * grn->out, pass->g + v->input->w);
}

static void variable_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state,
                              struct vsn_rows from, size_t j, const real *d_out, real *d_weights, real *scratch)
{
    const struct chosen v = chosen_of(vsn, state, from, j);
    const struct grn *grn = v.grn;
    size_t V = vsn->V, H = vsn->H, block = block_rows(pass, from.R);
    struct rank1_sums sums = { scratch, scratch + 2 * H };
    real *after = sums.skip + 2 * H, *d_z = pass_acts(pass, after), *rest = after + block * H;

    kernel_zero(pass->queue, 4 * H, sums.first);
    for (size_t at = 0; at < from.R; at += block) {
        struct rows rows = variable_block(pass, vsn, from, at);
        size_t n = rows.R, in = at * grn->in;

        if (vsn->recompute)
            variable_rows(pass, &v, rows, (struct glu_output){ .z = NULL }, rest);
        if (vsn->single) {
            kernel_copy(pass->queue, d_out + at * H, n * H, d_z);
        } else if (grn->bare) {
            const struct weighted z = weighted_at(pass, vsn, state, j, rows);

            kernel_weighted_sum_backward(pass->queue, &z, d_out + at * H, d_z, d_weights + at * V + j);
        }
        if (grn->bare) {
            layernorm_backward(pass, &grn->glu.norm, v.own->glu.xhat + rows.kept * H, v.own->glu.inverse + rows.kept, n,
                               at > 0, d_z);
            linear_backward(pass, &grn->skip, v.input->xi + in, d_z, n, at > 0, v.input->d_xi + in, 1);
        } else {
            const struct glu_gradient of_sum = { .weights = state->weights + at * V + j,
                                                 .d_sum = d_out + at * H,
                                                 .V = V,
                                                 .d_weights = d_weights + at * V + j };

            variable_rows_backward(pass, &v, rows, vsn->single ? (struct glu_gradient){ .V = 0 } : of_sum, d_z, sums,
                                   rest);
        }
    }
    if (v.input->x)
        variable_sums_backward(pass, &v, sums);
    if (grn->resample.mask != TFT_NONE)
        resample_backward(pass, &grn->resample, &grn->skip);
}

/* The joint network's gradients in backward; all in scratch. */
struct joint_sums {
    real *first;      /* (V, 2, J): [sum x g; sum g] */
    real *d_c;        /* (B, J) */
    real *skip;       /* (V, 2, V) */
    real *d_skip_sum; /* (V) */
};

/* Variable j's part of one block. */
static void joint_rows_backward(const struct pass *pass, const struct vsn *vsn, size_t j, const struct vsn_input *input,
                                struct rows rows, const real *d_h1, const real *d_skip, const struct joint_sums *sums)
{
    size_t V = vsn->V, J = vsn->joint.H;
    struct linear first = part_of(&vsn->joint.dense1, &vsn->variables[j]);
    struct linear skipping = part_of(&vsn->joint.skip, &vsn->variables[j]);
    size_t in = rows.at * first.in;

    if (input->x) {
        kernel_outer_sum(pass->queue, d_h1, input->x + rows.at, rows.R, J, sums->first + j * 2 * J);
        kernel_outer_sum(pass->queue, d_skip, input->x + rows.at, rows.R, V, sums->skip + j * 2 * V);
    } else {
        linear_backward(pass, &first, input->xi + in, d_h1, rows.R, rows.at > 0, input->d_xi + in, 1);
        linear_backward(pass, &skipping, input->xi + in, d_skip, rows.R, rows.at > 0, input->d_xi + in, 1);
    }
}

/* The gradients of rank-1 variables, from their sums over all rows. */
static void joint_sums_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_input *inputs,
                                const struct joint_sums *sums)
{
    const struct grn *joint = &vsn->joint;
    size_t V = vsn->V, J = joint->H;

    for (size_t j = 0; j < V; j++) {
        struct linear first = part_of(&joint->dense1, &vsn->variables[j]);
        struct linear skipping = part_of(&joint->skip, &vsn->variables[j]);

        if (!inputs[j].x)
            continue;
        kernel_copy(pass->queue, pass->g + joint->dense1.b, J, sums->first + j * 2 * J + J);
        kernel_copy(pass->queue, sums->d_skip_sum, V, sums->skip + j * 2 * V + V);
        rank1_back(pass, &first, inputs[j].w, sums->first + j * 2 * J);
        rank1_back(pass, &skipping, inputs[j].w, sums->skip + j * 2 * V);
    }
}

static void joint_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state,
                           struct vsn_rows from, real *d_weights, real *d_context, real *scratch)
{
    const struct grn *joint = &vsn->joint;
    size_t V = vsn->V, J = joint->H, B = pass->B, block = block_rows(pass, from.R);
    size_t summed = 2 * (J + V) * V + V + B * J;
    struct joint_sums sums = { .first = scratch };

    sums.d_c = sums.first + 2 * J * V;
    sums.skip = sums.d_c + B * J;
    sums.d_skip_sum = sums.skip + 2 * V * V;
    real *after = scratch + aligned_reals(summed), *d_h1 = pass_acts(pass, after), *rest = after + block * J;

    kernel_softmax_backward(pass->queue, state->weights, from.R, V, d_weights);
    kernel_zero(pass->queue, summed, sums.first);
    for (size_t at = 0; at < from.R; at += block) {
        struct rows rows = block_at(pass, at, from.row, from.R);
        real *d_skip = d_weights + at * V;

        grn_tail_backward(pass, joint, &state->joint, rows, (struct glu_gradient){ .V = 0 }, d_skip, d_h1, rest);
        grn_skip_backward(pass, joint, &state->joint, rows, d_skip);
        kernel_rows_sum(pass->queue, d_skip, rows.R, V, 1, sums.d_skip_sum);
        kernel_samples_sum(pass->queue, d_h1, rows.R, B, J, sums.d_c);
        for (size_t j = 0; j < V; j++)
            joint_rows_backward(pass, vsn, j, &from.inputs[j], rows, d_h1, d_skip, &sums);
    }
    joint_sums_backward(pass, vsn, from.inputs, &sums);
    if (joint->skip.b != TFT_NONE)
        kernel_copy(pass->queue, sums.d_skip_sum, V, pass->g + joint->skip.b);
    if (joint->resample.mask != TFT_NONE)
        resample_backward(pass, &joint->resample, &joint->skip);
    if (from.context)
        linear_backward(pass, &joint->context, from.context, sums.d_c, B, 0, d_context, 1);
}

void vsn_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state, struct vsn_rows from,
                  const real *d_out, real *d_context, real *scratch)
{
    real *d_weights = scratch, *rest = vsn->single ? scratch : scratch + aligned_reals(from.R * vsn->V);

    for (size_t j = vsn->V; j-- > 0;) {
        variable_backward(pass, vsn, state, from, j, d_out, d_weights, rest);
        pass_final(pass, vsn->variables[j].params);
    }
    if (!vsn->single) {
        joint_backward(pass, vsn, state, from, d_weights, d_context, rest);
        pass_final(pass, vsn->joint.params);
    }
}
