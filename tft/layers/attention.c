/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows are time-major, so one sample's rows of q, k and v are B rows apart: matrices with a large leading dimension,
 * which the products take as they are. The heads' weights are laid side by side once per granule, so that queries and
 * keys are one product each; their gradients are taken apart again. The heads' products with v share v and are one
 * product a sample.
 */
#include "tft/layers/attention.h"
#include "tft/kernels/vector.h"
#include "tft/layers/product.h"

/* (heads, H, d) to (H, heads d), and back. */
static void side_by_side(const struct attention *layer, const real *w, real *wide)
{
    for (size_t h = 0; h < layer->heads; h++)
        for (size_t i = 0; i < layer->H; i++)
            memcpy(wide + i * layer->H + h * layer->d, w + (h * layer->H + i) * layer->d, layer->d * sizeof *w);
}

static void one_by_one(const struct attention *layer, const real *wide, real *w)
{
    for (size_t h = 0; h < layer->heads; h++)
        for (size_t i = 0; i < layer->H; i++)
            memcpy(w + (h * layer->H + i) * layer->d, wide + i * layer->H + h * layer->d, layer->d * sizeof *w);
}

/* Scores of one head to probabilities: query n (N of them, the last of T) sees steps first .. T - N + n - strict; zeros
 * if that is none. */
TFT_VECTOR static void causal_softmax(real *a, size_t N, size_t T, size_t first, size_t strict, real scale)
{
    for (size_t n = 0; n < N; n++) {
        real *row = a + n * T, largest, sum = 0;
        size_t seen = T - N + n + 1 - strict, from = first < seen ? first : seen;

        for (size_t s = 0; s < from; s++)
            row[s] = 0;
        largest = row[from < T ? from : 0];
        for (size_t s = from + 1; s < seen; s++)
            largest = row[s] > largest ? row[s] : largest;
#pragma omp simd reduction(+ : sum)
        for (size_t s = from; s < seen; s++) {
            row[s] = real_exp((row[s] - largest) * scale);
            sum += row[s];
        }
        sum = 1 / sum;
        for (size_t s = from; s < seen; s++)
            row[s] *= sum;
        for (size_t s = seen; s < T; s++)
            row[s] = 0;
    }
}

/* d_a becomes the gradient of the products q k^T. Where a is 0 for the mask, so is it. */
TFT_VECTOR static void softmax_backward(const real *restrict a, real *restrict d_a, size_t N, size_t T, real scale)
{
    for (size_t n = 0; n < N; n++) {
        const real *row = a + n * T;
        real *d = d_a + n * T, along = 0;

#pragma omp simd reduction(+ : along)
        for (size_t s = 0; s < T; s++)
            along += row[s] * d[s];
        for (size_t s = 0; s < T; s++)
            d[s] = row[s] * (d[s] - along) * scale;
    }
}

void attention_layout(struct arena *arena, const struct attention *layer, size_t most, struct attention_state *state)
{
    size_t H = layer->H, rows = layer->N * most;

    state->wq = arena_reals(arena, H, H);
    state->wk = arena_reals(arena, H, H);
    state->q = arena_reals(arena, rows, H);
    state->k = arena_reals(arena, layer->T * most, H);
    state->v = arena_reals(arena, layer->T * most, layer->d);
    state->a = arena_reals(arena, rows * layer->heads, layer->T);
    state->mean = arena_reals(arena, rows, layer->d);
    state->head_keep = layer->head_dropped ? arena_flags(arena, rows, H) : NULL;
    state->output_keep = arena_flags(arena, rows, H);
}

size_t attention_scratch(const struct attention *layer, size_t most)
{
    size_t heads = layer->heads, N = layer->N, T = layer->T, H = layer->H, d = layer->d;

    return 2 * heads * N * d + heads * N * T + N * T + N * most * (H + d) + T * most * (H + d) + H * H;
}

/* A value after dropout; keep NULL: there is none. */
static real kept(const uint8_t *keep, size_t i, real value, real scale)
{
    if (!keep)
        return value;
    return keep[i] ? value * scale : 0;
}

/* One sample's heads (heads, N, d): mean over heads after dropout, into mean's rows of that sample. */
static void mean_of_heads(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                          const real *o, size_t b)
{
    size_t N = layer->N, d = layer->d, B = pass->B;
    const real part = (real)1 / (real)layer->heads;
    int drop = layer->head_dropped && pass->dropout.threshold != 0;

    for (size_t n = 0; n < N; n++) {
        real *mean = state->mean + (n * B + b) * d;

        reals_zero(mean, d);
        for (size_t h = 0; h < layer->heads; h++) {
            const real *in = o + (h * N + n) * d;
            uint8_t *keep = drop ? state->head_keep + ((b * layer->heads + h) * N + n) * d : NULL;

            if (drop)
                dropout_row(&pass->dropout, layer->head_site.name, (layer->T - N + n) * layer->head_site.stride + h * d,
                            b, d, keep);
            for (size_t i = 0; i < d; i++)
                mean[i] += kept(keep, i, in[i], pass->dropout.scale);
        }
        for (size_t i = 0; i < d; i++)
            mean[i] *= part;
    }
}

static void heads_backward(const struct pass *pass, const struct attention *layer, const struct attention_state *state,
                           const real *d_mean, size_t b, real *d_o)
{
    size_t N = layer->N, d = layer->d;
    const real part = (real)1 / (real)layer->heads;
    int drop = layer->head_dropped && pass->dropout.threshold != 0;

    for (size_t h = 0; h < layer->heads; h++)
        for (size_t n = 0; n < N; n++) {
            const real *in = d_mean + (n * pass->B + b) * d;
            const uint8_t *keep = drop ? state->head_keep + ((b * layer->heads + h) * N + n) * d : NULL;
            real *out = d_o + (h * N + n) * d;

            for (size_t i = 0; i < d; i++)
                out[i] = kept(keep, i, in[i], pass->dropout.scale) * part;
        }
}

void attention_forward(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                       const real *x, const size_t *padding, real *y, real *scratch)
{
    size_t H = layer->H, d = layer->d, N = layer->N, T = layer->T, heads = layer->heads, B = pass->B;
    const real scale = (real)1 / (real)sqrt((real)d);
    real *o = scratch, *average = o + heads * N * d;

    side_by_side(layer, pass->p + layer->query, state->wq);
    side_by_side(layer, pass->p + layer->key, state->wk);
    product(pass, matrix_of(x + (T - N) * B * H, H), matrix_of(state->wq, H), N * B, H, H, written(state->q, H));
    product(pass, matrix_of(x, H), matrix_of(state->wk, H), T * B, H, H, written(state->k, H));
    if (layer->query_bias != TFT_NONE) {
        rows_add(state->q, pass->p + layer->query_bias, N * B, H);
        rows_add(state->k, pass->p + layer->key_bias, T * B, H);
    }
    linear_forward(pass, &layer->value, x, T * B, state->v);
    for (size_t b = 0; b < B; b++) {
        real *a = state->a + b * heads * N * T;
        struct matrix v = matrix_of(state->v + b * d, B * d);

        for (size_t h = 0; h < heads; h++) {
            product(pass, matrix_of(state->q + b * H + h * d, B * H), matrix_t(state->k + b * H + h * d, B * H), N, T,
                    d, written(a + h * N * T, T));
            causal_softmax(a + h * N * T, N, T, padding ? padding[b] : 0, layer->strict != 0, scale);
        }
        if (layer->average_first && !(layer->head_dropped && pass->dropout.threshold)) {
            memcpy(average, a, N * T * sizeof *a);
            for (size_t h = 1; h < heads; h++)
                reals_add(average, a + h * N * T, N * T);
            for (size_t i = 0; i < N * T; i++)
                average[i] *= (real)1 / (real)heads;
            product(pass, matrix_of(average, T), v, N, d, T, written(state->mean + b * d, B * d));
        } else {
            product(pass, matrix_of(a, T), v, heads * N, d, T, written(o, d));
            mean_of_heads(pass, layer, state, o, b);
        }
    }
    linear_forward(pass, &layer->output, state->mean, N * B, y);
    if (pass->dropout.threshold) {
        dropout_rows(&pass->dropout, &layer->output_site, (T - N) * B, N * B, B, H, state->output_keep);
        dropout_apply(&pass->dropout, state->output_keep, y, N * B * H, y);
    }
}

void attention_backward(const struct pass *pass, const struct attention *layer, struct attention_state *state,
                        const real *x, real *d_y, real *d_x, real *scratch)
{
    size_t H = layer->H, d = layer->d, N = layer->N, T = layer->T, heads = layer->heads, B = pass->B;
    const real scale = (real)1 / (real)sqrt((real)d);
    const real *x_q = x + (T - N) * B * H;
    real *d_o = scratch, *d_a = d_o + heads * N * d, *d_mean = d_a + heads * N * T, *d_q = d_mean + N * B * d;
    real *d_k = d_q + N * B * H, *d_v = d_k + T * B * H, *wide = d_v + T * B * d;

    if (pass->dropout.threshold)
        dropout_apply(&pass->dropout, state->output_keep, d_y, N * B * H, d_y);
    linear_backward(pass, &layer->output, state->mean, d_y, N * B, 0, d_mean, 0);
    for (size_t b = 0; b < B; b++) {
        const real *a = state->a + b * heads * N * T;

        heads_backward(pass, layer, state, d_mean, b, d_o);
        product(pass, matrix_of(d_o, d), matrix_t(state->v + b * d, B * d), heads * N, T, d, written(d_a, T));
        product(pass, matrix_t(a, T), matrix_of(d_o, d), T, d, heads * N, written(d_v + b * d, B * d));
        for (size_t h = 0; h < heads; h++) {
            size_t column = b * H + h * d;

            softmax_backward(a + h * N * T, d_a + h * N * T, N, T, scale);
            product(pass, matrix_of(d_a + h * N * T, T), matrix_of(state->k + column, B * H), N, d, T,
                    written(d_q + column, B * H));
            product(pass, matrix_t(d_a + h * N * T, T), matrix_of(state->q + column, B * H), T, d, N,
                    written(d_k + column, B * H));
        }
    }
    if (layer->query_bias != TFT_NONE) {
        rows_sum(d_q, N * B, H, 0, pass->g + layer->query_bias);
        rows_sum(d_k, T * B, H, 0, pass->g + layer->key_bias);
    }
    linear_backward(pass, &layer->value, x, d_v, T * B, 0, d_x, 1);
    product(pass, matrix_t(x, H), matrix_of(d_k, H), H, H, T * B, written(wide, H));
    one_by_one(layer, wide, pass->g + layer->key);
    product(pass, matrix_of(d_k, H), matrix_t(state->wk, H), T * B, H, H, added(d_x, H));
    product(pass, matrix_t(x_q, H), matrix_of(d_q, H), H, H, N * B, written(wide, H));
    one_by_one(layer, wide, pass->g + layer->query);
    product(pass, matrix_of(d_q, H), matrix_t(state->wq, H), N * B, H, H, added(d_x + (T - N) * B * H, H));
}
