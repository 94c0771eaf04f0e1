/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward: the joint network for all rows, then each variable's network in turn, block by block, so that the variable's
 * weights stay in the cache. Backward: the variables in turn, which also gives the weights' gradients; then the joint
 * network. Each variable's part of the joint kernels is a block of rows of its own: rows j H .. (j + 1) H.
 */
#include "tft/vsn.h"
#include "tft/embedding.h"
#include "tft/gemm.h"
#include "tft/vector.h"

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

/* The part of a joint kernel that belongs to variable j: (H, out). */
static struct linear part_of(const struct linear *joint, size_t j, size_t H)
{
    return (struct linear){ .in = H, .out = joint->out, .w = joint->w + j * H * joint->out, .b = TFT_NONE };
}

/* y (2, out) = [w; b] W. */
static void rank1_through(const struct pass *pass, const struct linear *layer, size_t w, real *y)
{
    linear_product(pass, layer, pass->p + w, 2, 0, y, layer->out);
}

/* sums (2, out) = [sum x g; sum g]: writes the gradient of W, adds to those of w and b. */
static void rank1_back(const struct pass *pass, const struct linear *layer, size_t w, const real *sums)
{
    tft_gemm(matrix_t(pass->p + w, layer->in), matrix_of(sums, layer->out), layer->in, layer->out, 2, 0,
             pass->g + layer->w, layer->out);
    tft_gemm(matrix_of(sums, layer->out), matrix_t(pass->p + layer->w, layer->out), 2, layer->in, layer->out, 1,
             pass->g + w, layer->in);
}

static void rows_fill(real *y, const real *row, size_t R, size_t W)
{
    for (size_t r = 0; r < R; r++)
        memcpy(y + r * W, row, W * sizeof *y);
}

void vsn_layout(struct arena *arena, const struct vsn *vsn, size_t R, size_t most, struct vsn_state *state)
{
    size_t V = vsn->V, H = vsn->H;

    state->own = arena_reals(arena, V, 2 * H);
    for (size_t j = 0; j < V; j++)
        grn_layout(arena, &vsn->variables[j], R, most, &state->variables[j]);
    if (vsn->single)
        return;
    state->weights = arena_reals(arena, R, V);
    state->base = arena_reals(arena, most, H);
    state->skip_base = arena_reals(arena, 1, V);
    state->joint1 = arena_reals(arena, V, 2 * H);
    state->joint_skip = arena_reals(arena, V, 2 * V);
    grn_layout(arena, &vsn->joint, R, most, &state->joint);
}

size_t vsn_scratch(const struct vsn *vsn, size_t R, size_t most)
{
    size_t V = vsn->V, H = vsn->H, widest = V > H ? V : H;

    return block_rows_most(most) * (3 * H + 2 * widest) + R * V + most * H + 2 * (H + V) * V + 2 * H;
}

/* What h1 and skip of the joint network are before the x of rank-1 variables and the products of the others. */
static void joint_base(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state,
                       const struct vsn_input *inputs, const real *context)
{
    size_t V = vsn->V, H = vsn->H, B = pass->B;

    if (context)
        linear_product(pass, &vsn->joint.context, context, B, 0, state->base, H);
    else
        reals_zero(state->base, B * H);
    rows_add(state->base, pass->p + vsn->joint.dense1.b, B, H);
    memcpy(state->skip_base, pass->p + vsn->joint.skip.b, V * sizeof(real));
    for (size_t j = 0; j < V; j++) {
        struct linear first = part_of(&vsn->joint.dense1, j, H), skip = part_of(&vsn->joint.skip, j, H);
        real *through = state->joint1 + j * 2 * H, *skipped = state->joint_skip + j * 2 * V;

        if (!inputs[j].x)
            continue;
        rank1_through(pass, &first, inputs[j].w, through);
        rank1_through(pass, &skip, inputs[j].w, skipped);
        rows_add(state->base, through + H, B, H);
        reals_add(state->skip_base, skipped + V, V);
    }
}

static void joint_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, size_t row,
                          const struct vsn_input *inputs, const real *context, size_t R)
{
    size_t V = vsn->V, H = vsn->H, B = pass->B, block = block_rows(B);

    joint_base(pass, vsn, state, inputs, context);
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;
        real *h1 = state->joint.e + at * H, *skip = state->joint.skip + at * V;

        for (size_t r = 0; r < n; r += B)
            memcpy(h1 + r * H, state->base, B * H * sizeof(real));
        rows_fill(skip, state->skip_base, n, V);
        for (size_t j = 0; j < V; j++) {
            struct linear first = part_of(&vsn->joint.dense1, j, H), skipping = part_of(&vsn->joint.skip, j, H);

            if (inputs[j].x) {
                rank1_add(h1, inputs[j].x + at, state->joint1 + j * 2 * H, n, H);
                rank1_add(skip, inputs[j].x + at, state->joint_skip + j * 2 * V, n, V);
            } else {
                linear_product(pass, &first, inputs[j].xi + at * H, n, 1, h1, H);
                linear_product(pass, &skipping, inputs[j].xi + at * H, n, 1, skip, V);
            }
        }
        grn_tail_forward(pass, &vsn->joint, &state->joint, at, row + at, skip, n, state->weights + at * V);
        softmax(state->weights + at * V, n, V);
    }
}

static void variable_forward(const struct pass *pass, const struct vsn *vsn, struct vsn_state *state, size_t j,
                             size_t row, const struct vsn_input *input, size_t R, real *out, real *scratch)
{
    const struct grn *grn = &vsn->variables[j];
    struct grn_state *own = &state->variables[j];
    size_t H = vsn->H, block = block_rows(pass->B);
    real *through = state->own + j * 2 * H;
    const real *w = pass->p + input->w;

    if (input->x) {
        rank1_through(pass, &grn->dense1, input->w, through);
        reals_add(through + H, pass->p + grn->dense1.b, H);
    }
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;
        real *h1 = own->e + at * H;
        const real *skip = scratch;

        if (input->x) {
            rank1_forward(h1, input->x + at, through, through + H, n, H);
            rank1_forward(scratch, input->x + at, w, w + H, n, H);
        } else {
            skip = input->xi + at * H;
            linear_forward(pass, &grn->dense1, skip, n, h1);
        }
        grn_tail_forward(pass, grn, own, at, row + at, skip, n, NULL);
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
        joint_forward(pass, vsn, state, row, inputs, context, R);
    for (size_t j = 0; j < vsn->V; j++)
        variable_forward(pass, vsn, state, j, row, &inputs[j], R, out, scratch);
}

static void variable_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state, size_t j,
                              const struct vsn_input *input, size_t R, const real *d_out, real *d_weights,
                              real *scratch)
{
    const struct grn *grn = &vsn->variables[j];
    const struct grn_state *own = &state->variables[j];
    size_t V = vsn->V, H = vsn->H, block = block_rows(pass->B);
    real *sums = scratch, *d_z = sums + 2 * H, *d_h1 = d_z + block * H, *rest = d_h1 + block * H;

    reals_zero(sums, H);
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;
        real *d_xi = input->x ? NULL : input->d_xi + at * H;

        if (vsn->single)
            memcpy(d_z, d_out + at * H, n * H * sizeof *d_z);
        else
            weigh_backward(d_out + at * H, state->weights + at * V + j, V, own->glu.xhat + at * H,
                           pass->p + grn->glu.norm.gamma, pass->p + grn->glu.norm.beta, n, H, d_z,
                           d_weights + at * V + j);
        grn_tail_backward(pass, grn, own, at, n, at > 0, d_z, d_h1, rest);
        if (input->x) {
            rank1_sum(d_h1, input->x + at, n, H, sums);
            rank1_sum(d_z, input->x + at, n, H, pass->g + input->w);
            rows_sum(d_z, n, H, 1, pass->g + input->w + H);
        } else {
            linear_backward_kernel(pass, &grn->dense1, input->xi + at * H, d_h1, n, at > 0);
            linear_backward_input(pass, &grn->dense1, d_h1, n, d_xi, 1);
            reals_add(d_xi, d_z, n * H);
        }
    }
    if (input->x) {
        memcpy(sums + H, pass->g + grn->dense1.b, H * sizeof *sums);
        rank1_back(pass, &grn->dense1, input->w, sums);
    }
}

static void joint_backward(const struct pass *pass, const struct vsn *vsn, const struct vsn_state *state,
                           const struct vsn_input *inputs, const real *context, size_t R, real *d_weights,
                           real *d_context, real *scratch)
{
    const struct grn *joint = &vsn->joint;
    size_t V = vsn->V, H = vsn->H, B = pass->B, block = block_rows(B);
    real *sums = scratch;               /* (V, 2, H): [sum x g; sum g] */
    real *skip_sums = sums + 2 * H * V; /* (V, 2, V) */
    real *d_c = skip_sums + 2 * V * V;  /* (B, H) */
    real *d_h1 = d_c + B * H, *rest = d_h1 + block * H;

    softmax_backward(state->weights, d_weights, R, V);
    reals_zero(sums, 2 * (H + V) * V + B * H);
    for (size_t at = 0; at < R; at += block) {
        size_t n = R - at < block ? R - at : block;
        real *d_skip = d_weights + at * V;

        grn_tail_backward(pass, joint, &state->joint, at, n, at > 0, d_skip, d_h1, rest);
        rows_sum(d_skip, n, V, at > 0, pass->g + joint->skip.b);
        context_sum(d_h1, n, B, H, d_c);
        for (size_t j = 0; j < V; j++) {
            struct linear first = part_of(&joint->dense1, j, H), skipping = part_of(&joint->skip, j, H);

            if (inputs[j].x) {
                rank1_sum(d_h1, inputs[j].x + at, n, H, sums + j * 2 * H);
                rank1_sum(d_skip, inputs[j].x + at, n, V, skip_sums + j * 2 * V);
            } else {
                linear_backward(pass, &first, inputs[j].xi + at * H, d_h1, n, at > 0, inputs[j].d_xi + at * H, 1);
                linear_backward(pass, &skipping, inputs[j].xi + at * H, d_skip, n, at > 0, inputs[j].d_xi + at * H, 1);
            }
        }
    }
    for (size_t j = 0; j < V; j++) {
        struct linear first = part_of(&joint->dense1, j, H), skipping = part_of(&joint->skip, j, H);

        if (!inputs[j].x)
            continue;
        memcpy(sums + j * 2 * H + H, pass->g + joint->dense1.b, H * sizeof *sums);
        memcpy(skip_sums + j * 2 * V + V, pass->g + joint->skip.b, V * sizeof *sums);
        rank1_back(pass, &first, inputs[j].w, sums + j * 2 * H);
        rank1_back(pass, &skipping, inputs[j].w, skip_sums + j * 2 * V);
    }
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
