/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph, forward: inputs, static vector and its four uses, the two selections, the LSTMs, enrichment, attention,
 * tail.
 *
 * The tail (queries, attention's output, feed-forward) is computed for the last N steps only, since the loss sees the
 * last D: N is D, or T in the plain graph. Nothing reads the other steps, so the results are the same.
 *
 * A selection's output for a row depends only on that row's inputs and the static inputs, and consecutive windows of
 * one entity share most of their rows. So forecasts, which have no dropout, compute the contexts of a granule of one
 * entity's windows once, and the selections of equal rows (the same hour in several windows) and the LSTMs' products
 * with them, on devices that find equal rows (tft/core/kernels/kernels.h).
 */
#include "tft/core/model/model_impl.h"

static void inputs_forward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    const struct tft_batch *batch = &w->input;
    const struct tft_columns *columns = &model->columns;
    size_t B = w->batch.B;

    for (size_t i = 0; i < model->config.variable_count; i++) {
        const struct variable *variable = &model->variables[i];
        int is_static = variable->role == TFT_STATIC;
        size_t steps = is_static ? 1 : model->T;
        /* A variable that is not known in the future is neither read nor embedded there. */
        size_t read = is_static || variable->role == TFT_KNOWN ? steps : model->config.E;

        /* The padding's contents are never read: the embeddings there are those of 0. */
        struct column column = {
            .B = B, .steps = steps, .column = variable->column, .padding = is_static ? NULL : padding_of(w)
        };

        if (variable->embedding.categories) {
            column.columns = is_static ? columns->static_cats : columns->cats;
            kernel_take_codes(pass->queue, &column, is_static ? batch->static_cats : batch->cats, w->codes[i]);
        } else {
            column.columns = is_static ? columns->static_reals : columns->reals;
            kernel_take_reals(pass->queue, &column, is_static ? batch->static_reals : batch->reals, w->x[i]);
        }
        if (!variable->rank1 && (is_static || !w->alike)) /* otherwise for the rows that differ, once they are known */
            embedding_forward(pass, &variable->embedding, w->x[i], w->codes[i], read * B, w->xi[i]);
    }
}

void selection_inputs(const struct tft_workspace *workspace, const struct vsn *vsn, size_t row,
                      struct vsn_input *inputs)
{
    const struct tft_model *model = workspace->model;

    for (size_t j = 0; j < vsn->V; j++) {
        size_t i = vsn->chosen[j];
        const struct variable *variable = &model->variables[i];

        inputs[j] = (struct vsn_input){ .w = variable->embedding.w };
        if (variable->rank1) {
            inputs[j].x = workspace->x[i] + row;
        } else {
            inputs[j].xi = workspace->xi[i] + row * variable->embedding.W;
            inputs[j].d_xi = workspace->d_xi[i] + row * variable->embedding.W;
        }
    }
}

void gate_rows_forward(const struct pass *pass, const struct glu *glu, struct glu_state *state, size_t row,
                       const real *x, const real *skip, size_t R, real *z)
{
    size_t in = glu->value.in, out = glu->value.out;

    for (size_t at = 0; at < R; at += block_rows(pass, R))
        glu_forward(pass, glu, state, block_at(pass, at, row, R), x + at * in, NULL, skip + at * out,
                    (struct glu_output){ .z = z + at * out });
}

static void static_forward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    struct vsn_input inputs[TFT_VARIABLES_MAX];
    size_t H = model->config.H, B = pass->B;

    kernel_zero(pass->queue, B * H, w->static_vector);
    if (model->static_selection.V) {
        selection_inputs(w, &model->static_selection, 0, inputs);
        vsn_forward(pass, &model->static_selection, &w->static_selection, (struct vsn_rows){ inputs, NULL, 0, B },
                    w->static_vector, w->scratch);
    }
    for (size_t k = 0; k < CONTEXTS; k++) {
        grn_forward(pass, &model->contexts[k], &w->contexts[k], 0, w->static_vector, NULL, B, w->context[k]);
        if (B < w->batch.B) /* one for all samples */
            kernel_rows_fill(pass->queue, w->context[k], w->batch.B - B, H, w->context[k] + B * H);
    }
}

/* Brings the distinct ones of rows [row, row + R) of a selection's inputs to the front, in their order, and returns how
 * many they are; places[row + r] is then where row + r went, counted from row. */
static size_t gather_shared(struct tft_workspace *w, const struct vsn *vsn, size_t row, size_t R)
{
    struct shared_input inputs[TFT_VARIABLES_MAX];
    size_t count;
    const struct shared_rows rows = {
        .R = R, .V = vsn->V, .inputs = inputs, .places = w->places + row, .slots = w->slots
    };

    for (size_t j = 0; j < vsn->V; j++) {
        size_t i = vsn->chosen[j];

        inputs[j] = (struct shared_input){ .x = w->x[i] ? w->x[i] + row : NULL,
                                           .codes = w->codes[i] ? w->codes[i] + row : NULL };
    }
    kernel_shared_rows_gather(w->queue, &rows, &count);
    return count;
}

/* Embeds the first `rows` rows from `row` on. */
static void embed_rows(struct tft_workspace *w, const struct pass *pass, const struct vsn *vsn, size_t row, size_t rows)
{
    for (size_t j = 0; j < vsn->V; j++) {
        size_t i = vsn->chosen[j];
        const struct variable *variable = &w->model->variables[i];

        if (!variable->rank1)
            embedding_forward(pass, &variable->embedding, w->x[i] ? w->x[i] + row : NULL,
                              w->codes[i] ? w->codes[i] + row : NULL, rows, w->xi[i] + row * variable->embedding.W);
    }
}

/* Runs one selection over the rows from `row` on; where the samples are alike, over those that differ. Returns how many
 * those are; 0: the samples are not alike. */
static size_t selection_forward(struct tft_workspace *w, const struct pass *pass, const struct vsn *vsn,
                                struct vsn_state *state, size_t row, size_t R)
{
    struct vsn_input inputs[TFT_VARIABLES_MAX];
    struct vsn_rows from = { inputs, w->context[CONTEXT_SELECTION], row, R };
    real *selected = w->selected + row * vsn->H, *distinct = w->phi + row * vsn->H;
    struct pass own = *pass;

    selection_inputs(w, vsn, row, inputs);
    if (!w->alike) {
        vsn_forward(pass, vsn, state, from, selected, w->scratch);
        return 0;
    }
    own.B = 1;
    from.R = gather_shared(w, vsn, row, R);
    embed_rows(w, &own, vsn, row, from.R);
    vsn_forward(&own, vsn, state, from, distinct, w->scratch);
    kernel_rows_take(pass->queue, distinct, w->places + row, R, vsn->H, selected);
    return from.R;
}

static void selections_forward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    size_t past = model->config.E * pass->B, coming = model->config.D * pass->B;

    w->past = selection_forward(w, pass, &model->history_selection, &w->history_selection, 0, past);
    workspace_clock(w, TFT_PART_HISTORY);
    w->coming = selection_forward(w, pass, &model->future_selection, &w->future_selection, past, coming);
    workspace_clock(w, TFT_PART_FUTURE);
}

static void sequence_forward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    size_t H = model->config.H, state = pass->B * H,
           encoder = model->config.E * state; /* reals of the encoder's rows */

    kernel_copy(pass->queue, w->context[CONTEXT_H], state, w->h);
    kernel_copy(pass->queue, w->context[CONTEXT_C], state, w->c);
    lstm_forward(pass, &model->encoder, encoder_steps(w));
    lstm_forward(pass, &model->decoder, decoder_steps(w, encoder));
    workspace_clock(w, TFT_PART_LSTM);
    gate_rows_forward(pass, &model->sequence_gate, &w->sequence_gate, 0, w->h + state, w->selected, model->T * pass->B,
                      w->phi);
    workspace_clock(w, TFT_PART_GATE);
}

static void tail_forward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    size_t H = model->config.H, rows = model->queries * pass->B, row = (model->T - model->queries) * pass->B;
    size_t horizon = model->config.D * pass->B, unseen = rows - horizon;

    gate_rows_forward(pass, &model->attention_gate, &w->attention_gate, row, w->attended, w->enriched + row * H, rows,
                      w->gated);
    grn_forward(pass, &model->feedforward, &w->feedforward, row, w->gated, NULL, rows, w->fed);
    gate_rows_forward(pass, &model->output_gate, &w->output_gate, row, w->fed, w->phi + row * H, rows, w->last);
    linear_forward(pass, &model->output, w->last + unseen * H, horizon, w->output);
    if (model->config.ascending)
        kernel_ascending(pass->queue, horizon, model->config.quantile_count, model->columns.targets, w->output);
}

static void rest_forward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;

    grn_forward(pass, &model->enrichment, &w->enrichment, 0, w->phi, w->context[CONTEXT_ENRICHMENT], model->T * pass->B,
                w->enriched);
    workspace_clock(w, TFT_PART_ENRICHMENT);
    attention_forward(pass, &model->attention, &w->attention, w->enriched, padding_of(w), w->attended, w->scratch);
    workspace_clock(w, TFT_PART_ATTENTION);
    tail_forward(w, pass);
    workspace_clock(w, TFT_PART_TAIL);
}

/* Computes what follows from each sample's own inputs. */
static void variables_forward(struct tft_workspace *w, const struct pass *pass)
{
    struct pass own = *pass;

    inputs_forward(w, pass);
    workspace_clock(w, TFT_PART_INPUT);
    if (w->alike)
        own.B = 1;
    static_forward(w, &own);
    workspace_clock(w, TFT_PART_STATIC);
    selections_forward(w, pass);
}

void model_forward(struct tft_workspace *w, const struct pass *pass)
{
    variables_forward(w, pass);
    sequence_forward(w, pass);
    rest_forward(w, pass);
}
