/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread's memory for one granule, and the passes that a caller sees.
 *
 * layout() is run twice, to count and to hand out (tft/layers/pass.h). fini accepts a half-built workspace.
 */
#include "tft/layers/quantile_loss.h"
#include "tft/model/network.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Shared by the layers, one after the other. */
static size_t scratch_reals(const struct tft_model *model, size_t most)
{
    const struct kernels *kernels = model->kernels;
    size_t E = model->config.E, D = model->config.D, H = model->config.H;
    size_t rows = model->T * most, reals = vsn_scratch(kernels, &model->history_selection, E * most, most);

    reals = larger(reals, vsn_scratch(kernels, &model->future_selection, D * most, most));
    if (model->statics)
        reals = larger(reals, vsn_scratch(kernels, &model->static_selection, most, most));
    reals = larger(reals, grn_scratch(kernels, &model->enrichment, rows, most));
    reals = larger(reals, kernels->lstm_scratch(larger(E, D), most, H));
    reals = larger(reals, attention_scratch(kernels, &model->attention, most));
    return larger(reals, 2 * block_rows_most(kernels, rows, most) * H);
}

static void layout_batch(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    const struct tft_columns *columns = &model->columns;
    struct tft_batch *batch = &w->batch;
    size_t most = w->most;

    batch->reals = arena_reals(arena, most * model->T, columns->reals);
    batch->cats = arena_bytes(arena, most * model->T, columns->cats * sizeof *batch->cats);
    batch->static_reals = arena_reals(arena, most, columns->static_reals);
    batch->static_cats = arena_bytes(arena, most, columns->static_cats * sizeof *batch->static_cats);
    batch->targets = arena_reals(arena, most * model->config.D, columns->targets);
    batch->weights = arena_reals(arena, most * model->config.D, columns->targets);
    batch->offsets = arena_reals(arena, most * model->config.D, columns->targets);
    batch->units = arena_reals(arena, most, columns->targets);
    batch->lengths = arena_bytes(arena, most, sizeof *batch->lengths);
    for (size_t i = 0; i < model->config.variable_count; i++) {
        const struct variable *variable = &model->variables[i];
        size_t rows = variable->role == TFT_STATIC ? most : most * model->T;

        if (variable->embedding.categories)
            w->codes[i] = arena_bytes(arena, rows, sizeof *w->codes[i]);
        else
            w->x[i] = arena_reals(arena, rows, 1);
        if (!variable->rank1) {
            w->xi[i] = arena_reals(arena, rows, variable->embedding.W);
            w->d_xi[i] = arena_reals(arena, rows, variable->embedding.W);
        }
    }
}

static void layout_layers(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    size_t most = w->most, T = model->T, E = model->config.E, D = model->config.D, N = model->queries;

    w->static_selection.variables = w->networks;
    w->history_selection.variables = w->networks + model->statics;
    w->future_selection.variables = w->networks + model->statics + model->history_count;
    if (model->statics)
        vsn_layout(arena, &model->static_selection, most, most, &w->static_selection);
    for (size_t k = 0; k < CONTEXTS; k++)
        grn_layout(arena, &model->contexts[k], most, most, &w->contexts[k]);
    vsn_layout(arena, &model->history_selection, E * most, most, &w->history_selection);
    vsn_layout(arena, &model->future_selection, D * most, most, &w->future_selection);
    glu_layout(arena, &model->sequence_gate, T * most, &w->sequence_gate);
    grn_layout(arena, &model->enrichment, T * most, most, &w->enrichment);
    attention_layout(arena, &model->attention, most, &w->attention);
    glu_layout(arena, &model->attention_gate, N * most, &w->attention_gate);
    grn_layout(arena, &model->feedforward, N * most, most, &w->feedforward);
    glu_layout(arena, &model->output_gate, N * most, &w->output_gate);
}

/* Twice the parameters (as they are and transposed), except embeddings, which are no factors. */
static size_t factors_of(const struct tft_model *model)
{
    size_t reals = model->table.reals;

    for (size_t i = 0; i < model->config.variable_count; i++)
        reals -= model->variables[i].embedding.categories * model->variables[i].embedding.W;
    return 2 * reals + (model->config.plain ? 0 : model->folded);
}

static void layout(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    size_t most = w->most, H = model->config.H, outputs = model->output.out;
    size_t rows = model->T * most, tail = model->queries * most, horizon = model->config.D * most;

    layout_batch(arena, model, w);
    layout_layers(arena, model, w);
    w->static_vector = arena_reals(arena, most, H);
    w->d_static = arena_reals(arena, most, H);
    for (size_t k = 0; k < CONTEXTS; k++) {
        w->context[k] = arena_reals(arena, most, H);
        w->d_context[k] = arena_reals(arena, most, H);
    }
    w->selected = arena_reals(arena, rows, H);
    w->gates = arena_reals(arena, rows, 4 * H);
    w->h = arena_reals(arena, most + rows, H);
    w->c = arena_reals(arena, most + rows, H);
    w->phi = arena_reals(arena, rows, H);
    w->enriched = arena_reals(arena, rows, H);
    w->attended = arena_reals(arena, tail, H);
    w->gated = arena_reals(arena, tail, H);
    w->fed = arena_reals(arena, tail, H);
    w->last = arena_reals(arena, tail, H);
    w->output = arena_reals(arena, horizon, outputs);
    w->predictions = arena_reals(arena, horizon, outputs);
    w->d_phi = arena_reals(arena, rows, H);
    w->d_enriched = arena_reals(arena, rows, H);
    w->d_sequence = arena_reals(arena, rows, H);
    w->d_tail = arena_reals(arena, tail, H);
    w->d_tail_in = arena_reals(arena, tail, H);
    w->d_output = arena_reals(arena, horizon, outputs);
    w->derived = arena_reals(arena, 1, model->derived);
    w->d_derived = arena_reals(arena, 1, model->derived);
    if (!model->config.plain) {
        w->folded = arena_reals(arena, 1, model->folded);
        w->places = arena_bytes(arena, rows, sizeof *w->places);
        w->slots = arena_bytes(arena, shared_rows_slots(rows), sizeof *w->slots);
    }
    w->scratch = arena_reals(arena, 1, scratch_reals(model, most));
}

static enum halay_status open_queue(struct halay_log *log, const struct tft_model *model, struct tft_workspace *w)
{
    const struct queue_needs needs = { .bf16 = model->config.dtype == TFT_BF16,
                                       .params = model->table.reals,
                                       .folded = model->config.plain ? 0 : model->folded,
                                       .factors = factors_of(model),
                                       .H = model->config.H };

    return model->kernels->open(log, &needs, &w->queue);
}

enum halay_status tft_workspace_create(struct halay_log *log, const struct tft_model *model, struct tft_workspace **out)
{
    struct tft_workspace *w = calloc(1, sizeof *w);
    struct arena arena = { .kernels = model->kernels };
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (!w)
        goto no_memory;
    w->model = model;
    w->most = model->config.granule;
    w->networks = calloc(model->statics + model->history_count + model->future_count, sizeof *w->networks);
    if (!w->networks)
        goto no_memory;
    status = open_queue(log, model, w);
    if (status)
        goto err_destroy;
    status = HALAY_ERR_NO_MEMORY;
    layout(&arena, model, w);
    w->memory = arena.used == SIZE_MAX ? NULL : model->kernels->alloc(arena.used);
    if (!w->memory)
        goto no_memory;
    arena.base = w->memory;
    arena.used = 0;
    layout(&arena, model, w);
    *out = w;
    return HALAY_OK;

no_memory:
    halay_error(log, "no memory for a granule of %zu samples (%zu MB)", model->config.granule, arena.used >> 20);
err_destroy:
    tft_workspace_destroy(w);
    return status;
}

void tft_workspace_destroy(struct tft_workspace *workspace)
{
    if (!workspace)
        return;
    workspace->model->kernels->close(workspace->queue);
    workspace->model->kernels->release(workspace->memory);
    free(workspace->networks);
    free(workspace);
}

struct queue *tft_workspace_queue(struct tft_workspace *workspace)
{
    return workspace->queue;
}

struct tft_batch *tft_workspace_batch(struct tft_workspace *workspace, size_t B, uint64_t position)
{
    struct tft_batch *batch = &workspace->batch;
    size_t targets = B * workspace->model->config.D * workspace->model->columns.targets;

    workspace->mark = now();
    workspace->sums_seconds = 0;
    batch->B = B;
    batch->position = position;
    for (size_t i = 0; i < targets; i++) {
        batch->weights[i] = 1;
        batch->offsets[i] = 0;
    }
    for (size_t i = 0; i < B * workspace->model->columns.targets; i++)
        batch->units[i] = 1;
    for (size_t b = 0; b < B; b++)
        batch->lengths[b] = workspace->model->config.E;
    return batch;
}

const double *tft_workspace_seconds(const struct tft_workspace *workspace)
{
    return workspace->seconds;
}

void workspace_clock(struct tft_workspace *workspace, enum tft_part part)
{
    double time = now();

    workspace->seconds[part] += time - workspace->mark - workspace->sums_seconds;
    workspace->seconds[TFT_PART_SUM] += workspace->sums_seconds;
    workspace->mark = time;
    workspace->sums_seconds = 0;
}

const char *tft_part_name(enum tft_part part)
{
    static const char *const names[TFT_PART_COUNT] = { "input",
                                                       "static",
                                                       "history_selection",
                                                       "future_selection",
                                                       "lstm",
                                                       "sequence_gate",
                                                       "enrichment",
                                                       "attention",
                                                       "tail",
                                                       "loss",
                                                       "sum" };

    return part < TFT_PART_COUNT ? names[part] : "?";
}

/* A code of a variable at step t of sample b (t is 0 for a static one). */
static int32_t code_of(const struct tft_workspace *w, const struct variable *variable, size_t b, size_t t)
{
    const struct tft_columns *columns = &w->model->columns;

    return variable->role == TFT_STATIC ? w->batch.static_cats[b * columns->static_cats + variable->column]
                                        : w->batch.cats[(b * w->model->T + t) * columns->cats + variable->column];
}

enum halay_status tft_workspace_check(struct tft_workspace *workspace)
{
    const struct tft_model *model = workspace->model;
    const size_t *lengths = workspace->batch.lengths;
    size_t E = model->config.E;

    for (size_t b = 0; b < workspace->batch.B; b++)
        if (lengths[b] < 1 || lengths[b] > E) {
            halay_error(model->log, "sample %llu has %zu steps of history: 1 to %zu are possible",
                        (unsigned long long)(workspace->batch.position + b), lengths[b], E);
            return HALAY_ERR_ARGUMENT;
        }
    for (size_t i = 0; i < model->config.variable_count; i++) {
        const struct variable *variable = &model->variables[i];
        size_t steps = steps_seen(model, variable->role);

        for (size_t b = 0; variable->embedding.categories && b < workspace->batch.B; b++)
            for (size_t t = variable->role == TFT_STATIC ? 0 : E - lengths[b]; t < steps; t++) {
                int32_t code = code_of(workspace, variable, b, t);

                if (code < 0 || (size_t)code >= variable->embedding.categories) {
                    halay_error(model->log, "code %ld of '%s' (sample %llu, step %zu) is outside 0 to %zu", (long)code,
                                model->config.variables[i].name, (unsigned long long)(workspace->batch.position + b), t,
                                variable->embedding.categories - 1);
                    return HALAY_ERR_ARGUMENT;
                }
            }
    }
    return HALAY_OK;
}

/* What the layers need to know of the batch besides its samples. */
static struct pass pass_of(struct tft_workspace *w, const struct tft_pass *from, real *gradients)
{
    const struct tft_batch *batch = &w->batch;

    if (from->version == 0 || from->version != w->version)
        kernel_begin(w->queue, from->params, w->folded);
    w->version = from->version;
    w->alike = 0;
    w->padded = 0;
    for (size_t b = 0; b < batch->B; b++) {
        w->padding[b] = w->model->config.E - batch->lengths[b];
        w->padded |= w->padding[b] > 0;
    }
    return (struct pass){ .queue = w->queue,
                          .p = from->params,
                          .g = gradients,
                          .derived = w->derived,
                          .d_derived = w->d_derived,
                          .B = batch->B };
}

static void fold_selection(const struct pass *pass, const struct vsn *vsn, real *folded)
{
    for (size_t j = 0; j < vsn->V; j++)
        if (!vsn->variables[j].bare)
            grn_fold(pass, &vsn->variables[j], folded + vsn->variables[j].folded);
    if (vsn->V && !vsn->single)
        grn_fold(pass, &vsn->joint, folded + vsn->joint.folded);
}

static void fold(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    real *folded = w->folded;

    fold_selection(pass, &model->static_selection, folded);
    fold_selection(pass, &model->history_selection, folded);
    fold_selection(pass, &model->future_selection, folded);
    for (size_t k = 0; k < CONTEXTS; k++)
        grn_fold(pass, &model->contexts[k], folded + model->contexts[k].folded);
    grn_fold(pass, &model->enrichment, folded + model->enrichment.folded);
    grn_fold(pass, &model->feedforward, folded + model->feedforward.folded);
}

/* The work that only forecasts can save. */
static void save_forecasts(struct tft_workspace *w, uint64_t version, struct pass *pass)
{
    if (w->model->config.plain)
        return;
    if (version == 0 || version != w->folded_version)
        fold(w, pass);
    w->folded_version = version;
    pass->folded = w->folded;
    w->alike = shared_rows_statics(w);
}

/* The final callback, timed. */
struct timed_final {
    struct tft_workspace *workspace;
    const struct tft_pass *pass;
};

static void final_timed(void *arg, size_t param)
{
    struct timed_final *timed = arg;
    double begin;

    if (timed->workspace->model->table.params[param].dead || !timed->pass->final)
        return;
    begin = now();
    timed->pass->final(timed->pass->arg, param);
    timed->workspace->sums_seconds += now() - begin;
}

static struct quantile_loss loss_of(const struct tft_workspace *workspace, const struct tft_pass *pass)
{
    const struct tft_model *model = workspace->model;

    return (struct quantile_loss){ .quantiles = model->config.quantiles,
                                   .Q = model->config.quantile_count,
                                   .O = model->columns.targets,
                                   .B = workspace->batch.B,
                                   .D = model->config.D,
                                   .scale = pass->loss_scale * model->loss_factor };
}

void tft_model_gradient(struct tft_workspace *workspace, const struct tft_pass *pass, real *gradients, double *loss)
{
    const struct tft_model_config *config = &workspace->model->config;
    const struct tft_batch *batch = &workspace->batch;
    struct timed_final timed = { workspace, pass };
    struct pass own = pass_of(workspace, pass, gradients);

    own.dropout = dropout_of(config->dropout, pass->seed, pass->step, batch->position);
    own.final = final_timed;
    own.final_arg = &timed;
    model_forward(workspace, &own);
    const struct quantile_loss of = loss_of(workspace, pass);
    *loss = quantile_loss(&of, workspace->output, batch->targets, batch->weights, workspace->d_output);
    workspace_clock(workspace, TFT_PART_LOSS);
    model_backward(workspace, &own);
}

void tft_model_predict(struct tft_workspace *workspace, const struct tft_pass *pass, const real **predictions,
                       double *loss)
{
    const struct tft_batch *batch = &workspace->batch;
    const struct quantile_loss of = loss_of(workspace, pass);
    struct pass own = pass_of(workspace, pass, NULL);

    save_forecasts(workspace, pass->version, &own);
    model_forward(workspace, &own);
    if (loss)
        *loss = quantile_loss(&of, workspace->output, batch->targets, batch->weights, NULL);
    for (size_t b = 0; b < of.B; b++)
        for (size_t t = 0; t < of.D; t++)
            for (size_t o = 0; o < of.O; o++)
                for (size_t q = 0; q < of.Q; q++)
                    workspace->predictions[((b * of.D + t) * of.O + o) * of.Q + q] =
                        workspace->output[(t * of.B + b) * of.Q * of.O + q * of.O + o];
    *predictions = workspace->predictions;
    workspace_clock(workspace, TFT_PART_LOSS);
}
