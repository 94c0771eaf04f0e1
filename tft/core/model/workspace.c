/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread's memory for one granule, and the passes that a caller sees.
 *
 * layout() is run twice, to count and to hand out (tft/core/layers/pass.h). fini accepts a half-built workspace.
 */
#include "base/memory.h"
#include "tft/core/kernels/queue.h"
#include "tft/core/model/network.h"
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

static void layout_batch(struct arena *arena, const struct tft_model *model, size_t most, struct tft_batch *batch)
{
    const struct tft_columns *columns = &model->columns;

    batch->reals = arena_reals(arena, most * model->T, columns->reals);
    batch->cats = arena_bytes(arena, most * model->T, columns->cats * sizeof *batch->cats);
    batch->static_reals = arena_reals(arena, most, columns->static_reals);
    batch->static_cats = arena_bytes(arena, most, columns->static_cats * sizeof *batch->static_cats);
    batch->targets = arena_reals(arena, most * model->config.D, columns->targets);
    batch->weights = arena_reals(arena, most * model->config.D, columns->targets);
    batch->offsets = arena_reals(arena, most * model->config.D, columns->targets);
    batch->units = arena_reals(arena, most, columns->targets);
    batch->lengths = arena_bytes(arena, most, sizeof *batch->lengths);
}

/* What the host fills and reads of a device whose memory is not its own. */
static void layout_host(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    layout_batch(arena, model, w->most, &w->batch);
    w->host_padding = arena_bytes(arena, w->most, sizeof *w->host_padding);
    w->forecast = arena_reals(arena, w->most * model->config.D, model->output.out);
}

static void layout_inputs(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    size_t most = w->most;

    layout_batch(arena, model, most, &w->input);
    w->padding = arena_bytes(arena, most, sizeof *w->padding);
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
        vsn_layout(arena, model->kernels, &model->static_selection, most, most, &w->static_selection);
    for (size_t k = 0; k < CONTEXTS; k++)
        grn_layout(arena, &model->contexts[k], most, most, &w->contexts[k]);
    vsn_layout(arena, model->kernels, &model->history_selection, E * most, most, &w->history_selection);
    vsn_layout(arena, model->kernels, &model->future_selection, D * most, most, &w->future_selection);
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

    layout_inputs(arena, model, w);
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
    w->loss = arena_bytes(arena, 1, sizeof *w->loss);
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
                                       .tf32 = model->config.dtype == TFT_TF32,
                                       .params = model->table.reals,
                                       .folded = model->config.plain ? 0 : model->folded,
                                       .factors = factors_of(model) };

    return tft_queue_open(log, model->kernels, &needs, &w->queue);
}

/* The host's part: the device's own arrays where the host may use them. */
static int alloc_host(const struct tft_model *model, struct tft_workspace *w)
{
    struct arena arena = { 0 };

    if (model->kernels->host_memory) {
        w->batch = w->input;
        w->host_padding = w->padding;
        w->forecast = w->predictions;
        return 1;
    }
    layout_host(&arena, model, w);
    w->host = arena.used == SIZE_MAX ? NULL : halay_aligned_alloc(HALAY_PAGE, arena.used);
    arena = (struct arena){ .base = w->host };
    if (w->host)
        layout_host(&arena, model, w);
    return w->host != NULL;
}

/* One block, laid out twice. */
static size_t alloc_device(const struct tft_model *model, struct tft_workspace *w)
{
    struct arena arena = { 0 };

    layout(&arena, model, w);
    w->memory = arena.used == SIZE_MAX ? NULL : model->kernels->alloc(arena.used);
    size_t used = arena.used;
    arena = (struct arena){ .base = w->memory };
    if (w->memory)
        layout(&arena, model, w);
    return used;
}

/* What a granule of so many samples takes. */
static size_t bytes_of(const struct tft_model *model, struct tft_workspace *w, size_t most)
{
    struct arena arena = { 0 };

    w->most = most;
    layout(&arena, model, w);
    return arena.used;
}

/* What is missing, and how many samples there is room for. */
static void say_no_memory(struct halay_log *log, const struct tft_model *model, struct tft_workspace *w, size_t bytes)
{
    size_t granule = model->config.granule, fits = 0, free_bytes, all;

    model->kernels->room(&free_bytes, &all);
    if (!all) {
        halay_error(log, "no memory for a granule of %zu samples (%zu MB)", granule, bytes >> 20);
        return;
    }
    for (size_t most = 1; w && most < granule && bytes_of(model, w, most) < free_bytes; most++)
        fits = most;
    halay_error(log,
                "no memory on device '%s' for a granule of %zu samples: it takes %zu MB, %zu of %zu MB are free; %zu "
                "samples would fit ('batch_size', or more ranks)",
                model->kernels->name, granule, bytes >> 20, free_bytes >> 20, all >> 20, fits);
}

enum halay_status tft_workspace_create(struct halay_log *log, const struct tft_model *model, struct tft_workspace **out)
{
    struct tft_workspace *w = calloc(1, sizeof *w);
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    size_t bytes = 0;

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
    bytes = alloc_device(model, w);
    if (!w->memory || !alloc_host(model, w))
        goto no_memory;
    *out = w;
    return HALAY_OK;

no_memory:
    say_no_memory(log, model, w && w->networks ? w : NULL, bytes);
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
    free(workspace->host);
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
    batch->queue = workspace->queue;
    batch->there = workspace->model->kernels->host_memory ? NULL : &workspace->input;
    batch->is_there = 0;
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
    /* Codes on the device were looked at when they came there. */
    for (size_t i = 0; i < model->config.variable_count && !workspace->batch.is_there; i++) {
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

/* Bring the batch to where the device reads it. */
static void upload(struct tft_workspace *w)
{
    const struct tft_batch *from = &w->batch, *to = &w->input;
    const struct tft_columns *columns = &w->model->columns;
    size_t B = from->B, rows = B * w->model->T, targets = B * w->model->config.D * columns->targets;

    if (w->model->kernels->host_memory)
        return;
    kernel_to_device(w->queue, w->host_padding, B * sizeof *w->padding, w->padding);
    if (from->is_there)
        return;
    kernel_to_device(w->queue, from->reals, rows * columns->reals * sizeof(real), to->reals);
    kernel_to_device(w->queue, from->cats, rows * columns->cats * sizeof *to->cats, to->cats);
    kernel_to_device(w->queue, from->static_reals, B * columns->static_reals * sizeof(real), to->static_reals);
    kernel_to_device(w->queue, from->static_cats, B * columns->static_cats * sizeof *to->static_cats, to->static_cats);
    kernel_to_device(w->queue, from->targets, targets * sizeof(real), to->targets);
    kernel_to_device(w->queue, from->weights, targets * sizeof(real), to->weights);
    kernel_to_device(w->queue, from->offsets, targets * sizeof(real), to->offsets);
    kernel_to_device(w->queue, from->units, B * columns->targets * sizeof(real), to->units);
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
        w->host_padding[b] = w->model->config.E - batch->lengths[b];
        w->padded |= w->host_padding[b] > 0;
    }
    upload(w);
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

static struct outputs_run outputs_of(const struct tft_workspace *workspace, const struct tft_pass *pass)
{
    const struct tft_model *model = workspace->model;

    return (struct outputs_run){ .D = model->config.D,
                                 .B = workspace->batch.B,
                                 .P = tft_config_outputs(&model->config),
                                 .O = model->columns.targets,
                                 .loss = model->config.loss,
                                 .quantiles = model->config.quantiles,
                                 .power = model->config.tweedie_power,
                                 .scale = pass->loss_scale * model->loss_factor,
                                 .p = workspace->output,
                                 .y = workspace->input.targets,
                                 .w = workspace->input.weights,
                                 .offsets = workspace->input.offsets,
                                 .units = workspace->input.units };
}

static void train(struct tft_workspace *workspace, struct pass *pass, const struct outputs_run *run)
{
    model_forward(workspace, pass);
    kernel_loss(workspace->queue, run, workspace->loss, workspace->d_output);
    workspace_clock(workspace, TFT_PART_LOSS);
    model_backward(workspace, pass);
}

/* Nobody waits for single gradients: a device that can repeats the pass as a whole. */
static void repeat(struct tft_workspace *workspace, struct pass *pass, const struct outputs_run *run)
{
    const struct pass_key key = { .params = pass->p, .gradients = pass->g, .B = pass->B, .padded = workspace->padded };
    const struct pass_values values = {
        .seed = pass->dropout.seed, .step = pass->dropout.step, .position = pass->dropout.position, .scale = run->scale
    };

    do {
        if (kernel_pass_begin(workspace->queue, &key, &values))
            return;
        train(workspace, pass, run);
    } while (kernel_pass_end(workspace->queue));
}

void tft_model_gradient(struct tft_workspace *workspace, const struct tft_pass *pass, real *gradients, double *loss)
{
    const struct outputs_run run = outputs_of(workspace, pass);
    struct timed_final timed = { workspace, pass };
    struct pass own = pass_of(workspace, pass, gradients);

    own.dropout = dropout_of(workspace->model->config.dropout, pass->seed, pass->step, workspace->batch.position);
    own.final = final_timed;
    own.final_arg = &timed;
    if (pass->final)
        train(workspace, &own, &run);
    else
        repeat(workspace, &own, &run);
    kernel_to_host(workspace->queue, workspace->loss, sizeof *loss, loss);
}

void tft_model_predict(struct tft_workspace *workspace, const struct tft_pass *pass, const real **predictions,
                       double *loss)
{
    const struct outputs_run run = outputs_of(workspace, pass);
    struct pass own = pass_of(workspace, pass, NULL);

    save_forecasts(workspace, pass->version, &own);
    model_forward(workspace, &own);
    if (loss) {
        kernel_loss(workspace->queue, &run, workspace->loss, NULL);
        kernel_to_host(workspace->queue, workspace->loss, sizeof *loss, loss);
    }
    kernel_samples_first(workspace->queue, &run, workspace->predictions);
    if (workspace->forecast != workspace->predictions)
        kernel_to_host(workspace->queue, workspace->predictions, run.B * run.D * run.O * run.P * sizeof(real),
                       workspace->forecast);
    *predictions = workspace->forecast;
    workspace_clock(workspace, TFT_PART_LOSS);
}
