/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forecast weighed, from the workspace's time-major rows to samples first. Rows that samples share were computed
 * once (shared_rows.c).
 */
#include "tft/core/model/model_impl.h"

/* Row r of weights (rows, V) to the host. */
static void copy_row(const struct tft_workspace *w, const real *weights, size_t r, size_t V, real *to)
{
    kernel_to_host(w->queue, weights + r * V, V * sizeof *to, to);
}

/* The weights of `steps` steps, the first of which is the window's `row`. */
static void copy_selection(const struct tft_workspace *w, const struct vsn *vsn, const struct vsn_state *state,
                           size_t row, size_t steps, real *to)
{
    size_t B = w->batch.B, V = vsn->V;

    if (to && !vsn->single && !w->alike) {
        kernel_swap(w->queue, state->weights, steps, B, V, w->scratch);
        kernel_to_host(w->queue, w->scratch, B * steps * V * sizeof *to, to);
        return;
    }
    for (size_t b = 0; to && b < B; b++)
        for (size_t t = 0; t < steps; t++) {
            real *weights = to + (b * steps + t) * V;
            int32_t place;

            if (vsn->single) {
                weights[0] = 1;
                continue;
            }
            kernel_to_host(w->queue, w->places + row + t * B + b, sizeof place, &place);
            copy_row(w, state->weights, (size_t)place, V, weights);
        }
}

static void copy_statics(const struct tft_workspace *w, real *to)
{
    const struct vsn *vsn = &w->model->static_selection;

    for (size_t b = 0; to && vsn->V && b < w->batch.B; b++)
        if (vsn->single)
            to[b] = 1;
        else
            copy_row(w, w->static_selection.weights, w->alike ? 0 : b, vsn->V, to + b * vsn->V);
}

static void copy_attention(const struct tft_workspace *w, real *to)
{
    const struct attention *layer = &w->model->attention;
    size_t D = w->model->config.D, one = D * layer->T, unseen = (layer->N - D) * layer->T;

    for (size_t i = 0; to && i < w->batch.B * layer->heads; i++)
        kernel_to_host(w->queue, w->attention.a + i * (unseen + one) + unseen, one * sizeof *to, to + i * one);
}

void tft_workspace_weights(const struct tft_workspace *w, const struct tft_weights *weights)
{
    const struct tft_model *model = w->model;
    size_t E = model->config.E;

    copy_statics(w, weights->statics);
    copy_selection(w, &model->history_selection, &w->history_selection, 0, E, weights->history);
    copy_selection(w, &model->future_selection, &w->future_selection, E * w->batch.B, model->config.D, weights->future);
    copy_attention(w, weights->attention);
}
