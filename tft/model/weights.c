/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forecast weighed, from the workspace's time-major rows to samples first. Rows that samples share were computed
 * once (shared_rows.c).
 */
#include "tft/model/network.h"
#include <string.h>

/* Where a row of a selection's output was computed. */
static size_t place_of(const struct tft_workspace *w, size_t row, size_t r)
{
    return w->alike ? w->places[row + r] : r;
}

/* The weights of `steps` steps, the first of which is the window's `row`. */
static void copy_selection(const struct tft_workspace *w, const struct vsn *vsn, const struct vsn_state *state,
                           size_t row, size_t steps, real *to)
{
    size_t B = w->batch.B, V = vsn->V;

    for (size_t b = 0; to && b < B; b++)
        for (size_t t = 0; t < steps; t++) {
            real *weights = to + (b * steps + t) * V;

            if (vsn->single)
                weights[0] = 1;
            else
                memcpy(weights, state->weights + place_of(w, row, t * B + b) * V, V * sizeof *weights);
        }
}

static void copy_statics(const struct tft_workspace *w, real *to)
{
    const struct vsn *vsn = &w->model->static_selection;

    for (size_t b = 0; to && w->model->statics && b < w->batch.B; b++)
        if (vsn->single)
            to[b] = 1;
        else
            memcpy(to + b * vsn->V, w->static_selection.weights + (w->alike ? 0 : b) * vsn->V, vsn->V * sizeof *to);
}

static void copy_attention(const struct tft_workspace *w, real *to)
{
    const struct attention *layer = &w->model->attention;
    size_t D = w->model->config.D, one = D * layer->T, unseen = (layer->N - D) * layer->T;

    for (size_t i = 0; to && i < w->batch.B * layer->heads; i++)
        memcpy(to + i * one, w->attention.a + i * (unseen + one) + unseen, one * sizeof *to);
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
