/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph, backward: forward's order reversed. As soon as a layer's gradients are complete it reports them
 * (pass_final), so that they can be summed and sent while the layers below are still at work; the inputs' embeddings,
 * which both selections use, come last.
 */
#include "tft/core/model/model_impl.h"

void gate_rows_backward(const struct pass *pass, const struct glu *glu, const struct glu_state *state, size_t R,
                        real *d_z, real *d_x, real *scratch)
{
    size_t in = glu->value.in, out = glu->value.out;

    for (size_t at = 0; at < R; at += block_rows(pass, R))
        glu_backward(pass, glu, state, block_at(pass, at, 0, R), (struct glu_gradient){ .V = 0 }, d_z + at * out,
                     d_x + at * in, scratch);
}

/* Leaves the gradient of enriched's tail in d_enriched, of phi's in d_phi, of attention's output in d_tail_in. */
static void tail_backward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    size_t H = model->config.H, rows = model->queries * pass->B, row = (model->T - model->queries) * pass->B;
    size_t horizon = model->config.D * pass->B, unseen = rows - horizon;

    if (model->config.ascending)
        kernel_ascending_backward(pass->queue, w->output, horizon, model->config.quantile_count, model->columns.targets,
                                  w->d_output);
    kernel_zero(pass->queue, unseen * H, w->d_tail);
    linear_backward(pass, &model->output, w->last + unseen * H, w->d_output, horizon, 0, w->d_tail + unseen * H, 0);
    pass_final(pass, model->output_params);
    gate_rows_backward(pass, &model->output_gate, &w->output_gate, rows, w->d_tail, w->d_tail_in, w->scratch);
    pass_final(pass, model->output_gate_params);
    kernel_zero(pass->queue, row * H, w->d_phi);
    kernel_copy(pass->queue, w->d_tail, rows * H, w->d_phi + row * H);
    grn_backward(pass, &model->feedforward, &w->feedforward, rows,
                 &(struct grn_backward){ .x = w->gated, .d_z = w->d_tail_in, .d_x = w->d_tail, .scratch = w->scratch });
    pass_final(pass, model->feedforward_params);
    gate_rows_backward(pass, &model->attention_gate, &w->attention_gate, rows, w->d_tail, w->d_tail_in, w->scratch);
    pass_final(pass, model->attention_gate_params);
    kernel_zero(pass->queue, row * H, w->d_enriched);
    kernel_copy(pass->queue, w->d_tail, rows * H, w->d_enriched + row * H);
    workspace_clock(w, TFT_PART_TAIL);
}

static void attention_and_enrichment_backward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;

    attention_backward(pass, &model->attention, &w->attention, w->enriched, w->d_tail_in, w->d_enriched, w->scratch);
    pass_final(pass, model->attention_params);
    workspace_clock(w, TFT_PART_ATTENTION);
    grn_backward(pass, &model->enrichment, &w->enrichment, model->T * pass->B,
                 &(struct grn_backward){ .x = w->phi,
                                         .context = w->context[CONTEXT_ENRICHMENT],
                                         .d_z = w->d_enriched,
                                         .d_x = w->d_phi,
                                         .add_x = 1,
                                         .d_context = w->d_context[CONTEXT_ENRICHMENT],
                                         .scratch = w->scratch });
    pass_final(pass, model->enrichment_params);
    workspace_clock(w, TFT_PART_ENRICHMENT);
}

/* d_phi becomes the gradient of the selections' output. */
static void sequence_backward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    size_t state = pass->B * model->config.H, encoder = model->config.E * state; /* reals of the encoder's rows */
    struct lstm_backward d = { .d_h = w->d_context[CONTEXT_H], .d_c = w->d_context[CONTEXT_C], .scratch = w->scratch };

    gate_rows_backward(pass, &model->sequence_gate, &w->sequence_gate, model->T * pass->B, w->d_phi, w->d_sequence,
                       w->scratch);
    pass_final(pass, model->sequence_gate_params);
    workspace_clock(w, TFT_PART_GATE);
    d.d_out = w->d_sequence + encoder;
    d.d_x = w->d_phi + encoder;
    lstm_backward(pass, &model->decoder, decoder_steps(w, encoder), &d);
    pass_final(pass, model->decoder_params);
    d.d_out = w->d_sequence;
    d.d_x = w->d_phi;
    lstm_backward(pass, &model->encoder, encoder_steps(w), &d);
    pass_final(pass, model->encoder_params);
    workspace_clock(w, TFT_PART_LSTM);
}

static void selections_backward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    struct vsn_input inputs[TFT_VARIABLES_MAX];
    size_t past = model->config.E * pass->B, coming = model->config.D * pass->B;
    const real *context = w->context[CONTEXT_SELECTION];
    real *d_context = w->d_context[CONTEXT_SELECTION];

    selection_inputs(w, &model->future_selection, past, inputs);
    vsn_backward(pass, &model->future_selection, &w->future_selection,
                 (struct vsn_rows){ inputs, context, past, coming }, w->d_phi + past * model->config.H, d_context,
                 w->scratch);
    workspace_clock(w, TFT_PART_FUTURE);
    selection_inputs(w, &model->history_selection, 0, inputs);
    vsn_backward(pass, &model->history_selection, &w->history_selection, (struct vsn_rows){ inputs, context, 0, past },
                 w->d_phi, d_context, w->scratch);
    workspace_clock(w, TFT_PART_HISTORY);
}

static void static_backward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    struct vsn_input inputs[TFT_VARIABLES_MAX];

    kernel_zero(pass->queue, pass->B * model->config.H, w->d_static);
    for (size_t k = CONTEXTS; k-- > 0;) {
        grn_backward(
            pass, &model->contexts[k], &w->contexts[k], pass->B,
            &(struct grn_backward){
                .x = w->static_vector, .d_z = w->d_context[k], .d_x = w->d_static, .add_x = 1, .scratch = w->scratch });
        pass_final(pass, model->contexts[k].params);
    }
    if (!model->static_selection.V)
        return;
    selection_inputs(w, &model->static_selection, 0, inputs);
    vsn_backward(pass, &model->static_selection, &w->static_selection, (struct vsn_rows){ inputs, NULL, 0, pass->B },
                 w->d_static, NULL, w->scratch);
}

/* Zeroes the places where embeddings' gradients add up. */
static void zero_embeddings(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;

    for (size_t i = 0; i < model->config.variable_count; i++) {
        const struct variable *variable = &model->variables[i];

        embedding_zero(pass, &variable->embedding);
        if (!variable->rank1)
            kernel_zero(pass->queue, (variable->role == TFT_STATIC ? 1 : model->T) * pass->B * variable->embedding.W,
                        w->d_xi[i]);
    }
}

/* Zeroes the gradients that layers add to. */
static void zero_contexts(struct tft_workspace *w, const struct pass *pass)
{
    for (size_t k = 0; k < CONTEXTS; k++)
        kernel_zero(pass->queue, pass->B * w->model->config.H, w->d_context[k]);
}

static void inputs_backward(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;

    for (size_t i = model->config.variable_count; i-- > 0;) {
        const struct variable *variable = &model->variables[i];
        size_t steps = steps_seen(model, variable->role);

        if (!variable->rank1)
            embedding_backward(pass, &variable->embedding, w->x[i], w->codes[i], w->d_xi[i], steps * pass->B,
                               w->scratch);
        pass_final(pass, variable->params);
    }
}

void model_backward(struct tft_workspace *w, const struct pass *pass)
{
    zero_contexts(w, pass);
    tail_backward(w, pass);
    attention_and_enrichment_backward(w, pass);
    sequence_backward(w, pass);
    zero_embeddings(w, pass);
    workspace_clock(w, TFT_PART_INPUT);
    selections_backward(w, pass);
    static_backward(w, pass);
    workspace_clock(w, TFT_PART_STATIC);
    inputs_backward(w, pass);
    workspace_clock(w, TFT_PART_INPUT);
}
