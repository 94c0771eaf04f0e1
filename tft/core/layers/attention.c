/* SPDX-License-Identifier: Apache-2.0
 *
 * The heads' weights are laid side by side once per granule, so that queries and keys are one product each; their
 * gradients are taken apart again.
 */
#include "tft/core/layers/attention.h"

void attention_layout(struct arena *arena, const struct attention *layer, size_t most, struct attention_state *state)
{
    size_t H = layer->H, rows = layer->N * most;

    state->wq = arena_acts(arena, H, H);
    state->wk = arena_acts(arena, H, H);
    state->q = arena_acts(arena, rows, H);
    state->k = arena_acts(arena, layer->T * most, H);
    state->v = arena_acts(arena, layer->T * most, layer->d);
    state->a = arena_reals(arena, rows * layer->heads, layer->T);
    state->mean = arena_acts(arena, rows, layer->d);
    state->head_keep = layer->head_dropped ? arena_flags(arena, rows, H) : NULL;
    state->output_keep = arena_flags(arena, rows, H);
}

/* Results of backward before its products: the gradients of mean, q, k, v, and of weights side by side. */
struct gradients {
    real *d_mean, *d_q, *d_k, *d_v, *wide;
};

static void layout_gradients(struct arena *arena, const struct attention *layer, size_t B, struct gradients *to)
{
    size_t H = layer->H, d = layer->d, N = layer->N * B, T = layer->T * B;

    to->d_mean = arena_acts(arena, N, d);
    to->d_q = arena_acts(arena, N, H);
    to->d_k = arena_acts(arena, T, H);
    to->d_v = arena_acts(arena, T, d);
    to->wide = arena_reals(arena, H, H);
}

size_t attention_scratch(const struct kernels *kernels, const struct attention *layer, size_t most)
{
    struct arena arena = { 0 };
    struct gradients to;

    layout_gradients(&arena, layer, most, &to);
    return arena.used / sizeof(real) + kernels->attention_scratch(most, layer->T, layer->N, layer->heads, layer->d);
}

static struct attention_run run_of(const struct pass *pass, const struct attention *layer,
                                   const struct attention_state *state, const size_t *padding, real *scratch)
{
    return (struct attention_run){ .B = pass->B,
                                   .T = layer->T,
                                   .N = layer->N,
                                   .heads = layer->heads,
                                   .d = layer->d,
                                   .strict = layer->strict,
                                   .mean_first = layer->average_first,
                                   .padding = padding,
                                   .dropout = layer->head_dropped ? pass->dropout : (struct dropout){ 0 },
                                   .site = layer->head_site,
                                   .q = state->q,
                                   .k = state->k,
                                   .v = state->v,
                                   .a = state->a,
                                   .keep = state->head_keep,
                                   .scratch = scratch };
}

/* y (rows, H) = x W + b, for queries or keys; wide: their weights side by side. */
static void project(const struct pass *pass, const struct attention *layer, const real *x, const real *wide,
                    size_t bias, size_t rows, real *y)
{
    const struct product product = { .a = matrix_of(x, layer->H),
                                     .b = matrix_of(wide, layer->H),
                                     .M = rows,
                                     .N = layer->H,
                                     .K = layer->H,
                                     .to = written(y, layer->H),
                                     .bias = bias == TFT_NONE ? NULL : pass->p + bias };

    kernel_product(pass->queue, &product);
}

/* The backward of queries or keys: of the weights at place w, and of x, which is added to. */
struct projection {
    const real *x, *d_y, *wide;
    size_t rows, w;
    real *d_wide, *d_x;
};

static void project_backward(const struct pass *pass, const struct attention *layer, const struct projection *p)
{
    size_t H = layer->H;

    kernel_multiply(pass->queue, matrix_t(p->x, H), matrix_of(p->d_y, H), H, H, p->rows, written(p->d_wide, H));
    kernel_swap(pass->queue, p->d_wide, H, layer->heads, layer->d, pass->g + p->w);
    kernel_multiply(pass->queue, matrix_of(p->d_y, H), matrix_t(p->wide, H), p->rows, H, H, added(p->d_x, H));
}

void attention_forward(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                       const real *x, const size_t *padding, real *y, real *scratch)
{
    size_t H = layer->H, d = layer->d, N = layer->N, T = layer->T, B = pass->B;
    const struct attention_run run = run_of(pass, layer, state, padding, scratch);
    const struct masked_rows masked = {
        .dropout = pass->dropout, .site = layer->output_site, .row = (T - N) * B, .R = N * B, .B = B, .W = H
    };

    kernel_swap(pass->queue, pass->p + layer->query, layer->heads, H, d, state->wq);
    kernel_swap(pass->queue, pass->p + layer->key, layer->heads, H, d, state->wk);
    project(pass, layer, x + (T - N) * B * H, state->wq, layer->query_bias, N * B, state->q);
    project(pass, layer, x, state->wk, layer->key_bias, T * B, state->k);
    linear_forward(pass, &layer->value, x, T * B, state->v);
    kernel_attention(pass->queue, &run, state->mean);
    linear_forward(pass, &layer->output, state->mean, N * B, y);
    kernel_dropout(pass->queue, &masked, y, NULL, state->output_keep, y);
}

void attention_backward(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                        const real *x, real *d_y, real *d_x, real *scratch)
{
    size_t H = layer->H, N = layer->N, T = layer->T, B = pass->B, later = (T - N) * B * H;
    struct arena arena = { .base = (char *)scratch, .narrow = narrow_of(pass->queue) };
    struct gradients to;

    layout_gradients(&arena, layer, B, &to);
    const struct attention_run run = run_of(pass, layer, state, NULL, scratch + arena.used / sizeof *scratch);

    kernel_dropout_backward(pass->queue, &pass->dropout, state->output_keep, N * B, H, 0, d_y, NULL);
    linear_backward(pass, &layer->output, state->mean, d_y, N * B, 0, to.d_mean, 0);
    kernel_attention_backward(
        pass->queue, &run,
        &(struct attention_gradient){ .d_mean = to.d_mean, .d_q = to.d_q, .d_k = to.d_k, .d_v = to.d_v });
    if (layer->query_bias != TFT_NONE) {
        kernel_rows_sum(pass->queue, to.d_q, N * B, H, 0, pass->g + layer->query_bias);
        kernel_rows_sum(pass->queue, to.d_k, T * B, H, 0, pass->g + layer->key_bias);
    }
    linear_backward(pass, &layer->value, x, to.d_v, T * B, 0, d_x, 1);
    project_backward(pass, layer, &(struct projection){ x, to.d_k, state->wk, T * B, layer->key, to.wide, d_x });
    project_backward(pass, layer,
                     &(struct projection){ x + later, to.d_q, state->wq, N * B, layer->query, to.wide, d_x + later });
}
