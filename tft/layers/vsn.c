/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward: the joint network for all rows, then each variable's network in turn, block by block, so that the variable's
 * weights stay in the cache. Backward: the variables in turn, which also gives the weights' gradients; then the joint
 * network. Each variable's part of the joint kernels is a block of rows of its own, from its network's `first` on.
 */
#include "tft/layers/vsn.h"
#include "tft/kernels/vector.h"
#include "tft/layers/embedding.h"

TFT_VECTOR static void softmax(real *z, size_t R, size_t V)
{
    for (size_t r = 0; r < R; r++) {
        real *row = z + r * V, largest = row[0], sum = 0;

        for (size_t j = 1; j < V; j++)
            largest = row[j] > largest ? row[j] : largest;
        for (size_t j = 0; j < V; j++)
            sum += row[j] = real_exp(row[j] - largest);
        for (size_t j = 0; j < V; j++)
            row[j] /= sum;
    }
}

/* d_w becomes the gradient before the softmax. */
static void softmax_backward(const real *w, real *d_w, size_t R, size_t V)
{
    for (size_t r = 0; r < R; r++) {
        real along = 0;

        for (size_t j = 0; j < V; j++)
            along += w[r * V + j] * d_w[r * V + j];
        for (size_t j = 0; j < V; j++)
            d_w[r * V + j] = w[r * V + j] * (d_w[r * V + j] - along);
    }
}

/* out (+)= w_j (gamma xhat + beta); w_j is a column of the weights. */
TFT_VECTOR static void weigh(real *restrict out, const real *restrict weights, size_t V, const real *restrict xhat,
                             const real *restrict gamma, const real *restrict beta, size_t R, size_t H, int add)
{
    for (size_t r = 0; r < R; r++) {
        real w = weights[r * V];

        if (add)
            for (size_t i = 0; i < H; i++)
                out[r * H + i] += w * (gamma[i] * xhat[r * H + i] + beta[i]);
        else
            for (size_t i = 0; i < H; i++)
                out[r * H + i] = w * (gamma[i] * xhat[r * H + i] + beta[i]);
    }
}

/* d_z = w_j d_out, and the gradient of w_j. */
TFT_VECTOR static void weigh_backward(const real *restrict d_out, const real *restrict weights, size_t V,
                                      const real *restrict xhat, const real *restrict gamma, const real *restrict beta,
                                      size_t R, size_t H, real *restrict d_z, real *restrict d_weights)
{
    for (size_t r = 0; r < R; r++) {
        real w = weights[r * V], sum = 0;

#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < H; i++) {
            sum += d_out[r * H + i] * (gamma[i] * xhat[r * H + i] + beta[i]);
            d_z[r * H + i] = w * d_out[r * H + i];
        }
        d_weights[r * V] = sum;
    }
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

static void rows_fill(real *y, const real *row, size_t R, size_t W)
{
    for (size_t r = 0; r < R; r++)
        memcpy(y + r * W, row, W * sizeof *y);
}

void vsn_layout(struct arena *arena, const struct vsn *vsn, size_t R, size_t most, struct vsn_state *state)
{
    size_t V = vsn->V, H = vsn->H, J = vsn->joint.H;

    state->own = arena_reals(arena, V, 2 * H);
    state->own_skip = arena_reals(arena, V, 2 * H);
    for (size_t j = 0; j < V; j++)
        grn_layout(arena, &vsn->variables[j], R, most, &state->variables[j]);
    if (vsn->single)
        return;
    state->weights = arena_reals(arena, R, V);
    state->base = arena_reals(arena, most, J);
    state->skip_base = arena_reals(arena, 1, V);
    state->joint1 = arena_reals(arena, V, 2 * J);
    state->joint_skip = arena_reals(arena, V, 2 * V);
    grn_layout(arena, &vsn->joint, R, most, &state->joint);
}

size_t vsn_scratch(const struct vsn *vsn, size_t R, size_t most)
{
    size_t V = vsn->V, H = vsn->H, widest = V > H ? V : H;

    return block_rows_most(most) * (3 * H + 2 * widest) + R * V + most * H + 2 * (H + V) * V + 4 * H + V;
}

/* What h1 and skip of the joint network are before the x of rank-1 variables and the products of the others. */
static void joint_base(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state,
                       const struct vsn_input *inputs, const real *context)
{
    size_t V = vsn->V, J = vsn->joint.H, B = pass->B;

    if (vsn->joint.skip.w >= TFT_DERIVED)
        resample_matrix(pass, &vsn->joint.resample, &vsn->joint.skip);
    if (context)
        linear_product(pass, &vsn->joint.context, context, B, 0, state->base, J);
    else
        reals_zero(state->base, B * J);
    rows_add(state->base, pass->p + vsn->joint.dense1.b, B, J);
    if (vsn->joint.skip.b != TFT_NONE)
        memcpy(state->skip_base, pass->p + vsn->joint.skip.b, V * sizeof(real));
    else
        reals_zero(state->skip_base, V);
    for (size_t j = 0; j < V; j++) {
        struct linear first = part_of(&vsn->joint.dense1, &vsn->variables[j]);
        struct linear skip = part_of(&vsn->joint.skip, &vsn->variables[j]);
        real *through = state->joint1 + j * 2 * J, *skipped = state->joint_skip + j * 2 * V;

        if (!inputs[j].x)
            continue;
        rank1_through(pass, &first, inputs[j].w, through);
        rank1_through(pass, &skip, inputs[j].w, skipped);
        rows_add(state->base, through + J, B, J);
        reals_add(state->skip_base, skipped + V, V);
    }
}

static void joint_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, size_t row,
                          const struct vsn_input *inputs, const real *context, size_t R, real *scratch)
{
    size_t V = vsn->V, J = vsn->joint.H, B = pass->B, block = block_rows(B);

    joint_base(pass, vsn, state, inputs, context);
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;
        real *h1 = state->joint.e + at * J, *skip = state->joint.skip + at * V;
        const real *skipped;

        for (size_t r = 0; r < n; r += B)
            memcpy(h1 + r * J, state->base, B * J * sizeof(real));
        rows_fill(skip, state->skip_base, n, V);
        for (size_t j = 0; j < V; j++) {
            struct linear first = part_of(&vsn->joint.dense1, &vsn->variables[j]);
            struct linear skipping = part_of(&vsn->joint.skip, &vsn->variables[j]);

            if (inputs[j].x) {
                rank1_add(h1, inputs[j].x + at, state->joint1 + j * 2 * J, n, J);
                rank1_add(skip, inputs[j].x + at, state->joint_skip + j * 2 * V, n, V);
            } else {
                linear_product(pass, &first, inputs[j].xi + at * first.in, n, 1, h1, J);
                linear_product(pass, &skipping, inputs[j].xi + at * first.in, n, 1, skip, V);
            }
        }
        skipped = grn_skip_forward(pass, &vsn->joint, &state->joint, at, n, scratch);
        grn_tail_forward(pass, &vsn->joint, &state->joint, at, row + at, skipped, n, state->weights + at * V);
        softmax(state->weights + at * V, n, V);
    }
}

/* The skip connection of one block of a variable's network; in normalised (n, H), in the state, or xi itself. */
static const real *variable_skip(const struct pass *pass, const struct grn *grn, struct grn_state *own, size_t at,
                                 const struct vsn_input *input, const real *skipped, size_t n, real *normalised)
{
    size_t H = grn->out;
    real *skip = own->skip ? own->skip + at * H : NULL;

    if (!skip && !input->x)
        return input->xi + at * H;
    if (!skip) {
        rank1_forward(normalised, input->x + at, pass->p + input->w, pass->p + input->w + H, n, H);
        return normalised;
    }
    if (input->x)
        rank1_forward(skip, input->x + at, skipped, skipped + H, n, H);
    else
        linear_product(pass, &grn->skip, input->xi + at * grn->in, n, 0, skip, H);
    return grn_skip_forward(pass, grn, own, at, n, normalised);
}

/* One block of a variable's network up to the normalised sum. */
static void variable_rows(const struct pass *pass, const struct grn *grn, struct grn_state *own, size_t at, size_t row,
                          const struct vsn_input *input, const real *through, const real *skipped, size_t n,
                          real *scratch)
{
    size_t in = grn->in;
    real *h1 = own->e + at * grn->H;

    if (grn->bare) {
        real *sum = own->glu.xhat + at * grn->out;

        linear_product(pass, &grn->skip, input->xi + at * in, n, 0, sum, grn->out);
        layernorm_forward(pass, &grn->glu.norm, sum, n, own->glu.inverse + at, NULL);
        return;
    }
    if (input->x)
        rank1_forward(h1, input->x + at, through, through + grn->H, n, grn->H);
    else
        linear_forward(pass, &grn->dense1, input->xi + at * in, n, h1);
    grn_tail_forward(pass, grn, own, at, row, variable_skip(pass, grn, own, at, input, skipped, n, scratch), n, NULL);
}

static void variable_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, size_t j,
                             size_t row, const struct vsn_input *input, size_t R, real *out, real *scratch)
{
    const struct grn *grn = &vsn->variables[j];
    struct grn_state *own = &state->variables[j];
    size_t H = vsn->H, block = block_rows(pass->B);
    real *through = state->own + j * 2 * H, *skipped = state->own_skip + j * 2 * H;

    if (grn->resample.mask != TFT_NONE)
        resample_matrix(pass, &grn->resample, &grn->skip);
    if (input->x) {
        rank1_through(pass, &grn->dense1, input->w, through);
        reals_add(through + grn->H, pass->p + grn->dense1.b, grn->H);
        if (grn->skip.w != TFT_NONE)
            rank1_through(pass, &grn->skip, input->w, skipped);
    }
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;

        variable_rows(pass, grn, own, at, row + at, input, through, skipped, n, scratch);
        if (vsn->single)
            layernorm_output(pass, &grn->glu.norm, own->glu.xhat + at * H, n, out + at * H);
        else
            weigh(out + at * H, state->weights + at * vsn->V + j, vsn->V, own->glu.xhat + at * H,
                  pass->p + grn->glu.norm.gamma, pass->p + grn->glu.norm.beta, n, H, j > 0);
    }
}

void vsn_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, size_t row,
                 const struct vsn_input *inputs, const real *context, size_t R, real *out, real *scratch)
{
    if (!vsn->single)
        joint_forward(pass, vsn, state, row, inputs, context, R, scratch);
    for (size_t j = 0; j < vsn->V; j++)
        variable_forward(pass, vsn, state, j, row, &inputs[j], R, out, scratch);
}

/* One block; d_z, the gradient of the network's normalised sum, becomes that of its skip connection. */
static void variable_rows_backward(const struct pass *pass, const struct grn *grn, const struct grn_state *own,
                                   size_t at, const struct vsn_input *input, size_t n, real *d_z, real *sums,
                                   real *skip_sums, real *scratch)
{
    size_t H = grn->out, in = grn->in;
    real *d_h1 = scratch, *rest = d_h1 + n * grn->H;

    grn_tail_backward(pass, grn, own, at, n, at > 0, d_z, d_h1, rest);
    grn_skip_backward(pass, grn, own, at, n, at > 0, d_z);
    if (input->x) {
        rank1_sum(d_h1, input->x + at, n, grn->H, sums);
        rank1_sum(d_z, input->x + at, n, H, skip_sums);
        rows_sum(d_z, n, H, 1, skip_sums + H);
        return;
    }
    linear_backward_kernel(pass, &grn->dense1, input->xi + at * in, d_h1, n, at > 0);
    linear_backward_input(pass, &grn->dense1, d_h1, n, input->d_xi + at * in, 1);
    if (grn->skip.w != TFT_NONE)
        linear_backward(pass, &grn->skip, input->xi + at * in, d_z, n, at > 0, input->d_xi + at * in, 1);
    else
        reals_add(input->d_xi + at * in, d_z, n * H);
}

static void variable_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state, size_t j,
                              const struct vsn_input *input, size_t R, const real *d_out, real *d_weights,
                              real *scratch)
{
    const struct grn *grn = &vsn->variables[j];
    const struct grn_state *own = &state->variables[j];
    size_t V = vsn->V, H = vsn->H, block = block_rows(pass->B);
    real *sums = scratch, *skip_sums = sums + 2 * H, *d_z = skip_sums + 2 * H, *rest = d_z + block * H;

    reals_zero(sums, 4 * H);
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;

        if (vsn->single)
            memcpy(d_z, d_out + at * H, n * H * sizeof *d_z);
        else
            weigh_backward(d_out + at * H, state->weights + at * V + j, V, own->glu.xhat + at * H,
                           pass->p + grn->glu.norm.gamma, pass->p + grn->glu.norm.beta, n, H, d_z,
                           d_weights + at * V + j);
        if (grn->bare) {
            layernorm_backward(pass, &grn->glu.norm, own->glu.xhat + at * H, own->glu.inverse + at, n, at > 0, d_z);
            linear_backward(pass, &grn->skip, input->xi + at * grn->in, d_z, n, at > 0, input->d_xi + at * grn->in, 1);
        } else {
            variable_rows_backward(pass, grn, own, at, input, n, d_z, sums, skip_sums, rest);
        }
    }
    if (input->x) {
        memcpy(sums + grn->H, pass->g + grn->dense1.b, grn->H * sizeof *sums);
        rank1_back(pass, &grn->dense1, input->w, sums);
        if (grn->skip.w != TFT_NONE)
            rank1_back(pass, &grn->skip, input->w, skip_sums);
        else
            reals_add(pass->g + input->w, skip_sums, 2 * H);
    }
    if (grn->resample.mask != TFT_NONE)
        resample_backward(pass, &grn->resample, &grn->skip);
}

static void joint_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state,
                           const struct vsn_input *inputs, const real *context, size_t R, real *d_weights,
                           real *d_context, real *scratch)
{
    const struct grn *joint = &vsn->joint;
    size_t V = vsn->V, J = joint->H, B = pass->B, block = block_rows(B);
    real *sums = scratch;                     /* (V, 2, J): [sum x g; sum g] */
    real *skip_sums = sums + 2 * J * V;       /* (V, 2, V) */
    real *d_skip_sum = skip_sums + 2 * V * V; /* (V) */
    real *d_c = d_skip_sum + V;               /* (B, J) */
    real *d_h1 = d_c + B * J, *rest = d_h1 + block * J;

    softmax_backward(state->weights, d_weights, R, V);
    reals_zero(sums, 2 * (J + V) * V + V + B * J);
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;
        real *d_skip = d_weights + at * V;

        grn_tail_backward(pass, joint, &state->joint, at, n, at > 0, d_skip, d_h1, rest);
        grn_skip_backward(pass, joint, &state->joint, at, n, at > 0, d_skip);
        rows_sum(d_skip, n, V, 1, d_skip_sum);
        context_sum(d_h1, n, B, J, d_c);
        for (size_t j = 0; j < V; j++) {
            struct linear first = part_of(&joint->dense1, &vsn->variables[j]);
            struct linear skipping = part_of(&joint->skip, &vsn->variables[j]);
            size_t from = at * first.in;

            if (inputs[j].x) {
                rank1_sum(d_h1, inputs[j].x + at, n, J, sums + j * 2 * J);
                rank1_sum(d_skip, inputs[j].x + at, n, V, skip_sums + j * 2 * V);
            } else {
                linear_backward(pass, &first, inputs[j].xi + from, d_h1, n, at > 0, inputs[j].d_xi + from, 1);
                linear_backward(pass, &skipping, inputs[j].xi + from, d_skip, n, at > 0, inputs[j].d_xi + from, 1);
            }
        }
    }
    for (size_t j = 0; j < V; j++) {
        struct linear first = part_of(&joint->dense1, &vsn->variables[j]);
        struct linear skipping = part_of(&joint->skip, &vsn->variables[j]);

        if (!inputs[j].x)
            continue;
        memcpy(sums + j * 2 * J + J, pass->g + joint->dense1.b, J * sizeof *sums);
        memcpy(skip_sums + j * 2 * V + V, d_skip_sum, V * sizeof *sums);
        rank1_back(pass, &first, inputs[j].w, sums + j * 2 * J);
        rank1_back(pass, &skipping, inputs[j].w, skip_sums + j * 2 * V);
    }
    if (joint->skip.b != TFT_NONE)
        memcpy(pass->g + joint->skip.b, d_skip_sum, V * sizeof(real));
    if (joint->resample.mask != TFT_NONE)
        resample_backward(pass, &joint->resample, &joint->skip);
    if (context)
        linear_backward(pass, &joint->context, context, d_c, B, 0, d_context, 1);
}

void vsn_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state,
                  const struct vsn_input *inputs, const real *context, size_t R, const real *d_out, real *d_context,
                  real *scratch)
{
    real *d_weights = scratch, *rest = vsn->single ? scratch : scratch + R * vsn->V;

    for (size_t j = vsn->V; j-- > 0;) {
        variable_backward(pass, vsn, state, j, &inputs[j], R, d_out, d_weights, rest);
        pass_final(pass, vsn->variables[j].params);
    }
    if (!vsn->single) {
        joint_backward(pass, vsn, state, inputs, context, R, d_weights, d_context, rest);
        pass_final(pass, vsn->joint.params);
    }
}
