/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread's memory for one granule: its layout, its batch and the batch's checks, its clock.
 *
 * layout_all() runs twice, to count and to hand out (tft/core/layers/pass.h). destroy accepts a half-built workspace.
 */
#include "base/memory.h"
#include "tft/core/kernels/queue.h"
#include "tft/core/model/model_impl.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

double workspace_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The layers' layout and scratch memory, each with one signature. */
#define layout_glu(arena, layer, R, B, state) glu_layout(arena, layer, R, state)
#define layout_grn(arena, layer, R, B, state) grn_layout(arena, layer, R, B, state)
#define layout_attention(arena, layer, R, B, state) attention_layout(arena, layer, B, state)
#define scratch_glu(kernels, layer, R, B) (2 * block_rows_most(kernels, R, B) * (layer)->value.out)
#define scratch_grn(kernels, layer, R, B) grn_scratch(kernels, layer, R, B)
#define scratch_attention(kernels, layer, R, B) attention_scratch(kernels, layer, B)

/* The layers use it one after the other. */
static size_t scratch_reals(const struct tft_model *model, size_t B)
{
    const struct kernels *kernels = model->kernels;
    const size_t E = model->config.E, D = model->config.D, T = model->T, N = model->queries;
    size_t reals = kernels->lstm_scratch(max_size(E, D), B, model->config.H);

    reals = max_size(reals, vsn_scratch(kernels, &model->history_selection, E * B, B));
    reals = max_size(reals, vsn_scratch(kernels, &model->future_selection, D * B, B));
    for (size_t i = 0; i < model->config.variable_count; i++) {
        const struct variable *variable = &model->variables[i];

        if (variable->embedding.categories)
            reals =
                max_size(reals, kernels->rows_scratch(steps_seen(model, variable->role) * B, variable->embedding.W));
    }
    if (model->static_selection.V)
        reals = max_size(reals, vsn_scratch(kernels, &model->static_selection, B, B));
#define X(kind, name, rows) reals = max_size(reals, scratch_##kind(kernels, &model->name, rows, B));
    TFT_LAYERS(X)
#undef X
    return reals;
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

/* Lays out what the host fills and reads, for a device whose memory it cannot use. */
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
            w->xi[i] = arena_acts(arena, rows, variable->embedding.W);
            w->d_xi[i] = arena_acts(arena, rows, variable->embedding.W);
        }
    }
}

static void layout_selection(struct arena *arena, const struct tft_model *model, const struct vsn *vsn, size_t rows,
                             struct tft_workspace *w, struct vsn_state *state)
{
    if (!vsn->V)
        return;
    state->variables = w->networks + (vsn->variables - model->networks);
    vsn_layout(arena, model->kernels, vsn, rows * w->most, w->most, state);
}

static void layout_layers(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    const size_t B = w->most, T = model->T, N = model->queries;

    layout_selection(arena, model, &model->static_selection, 1, w, &w->static_selection);
    for (size_t k = 0; k < CONTEXTS; k++)
        grn_layout(arena, &model->contexts[k], B, B, &w->contexts[k]);
    layout_selection(arena, model, &model->history_selection, model->config.E, w, &w->history_selection);
    layout_selection(arena, model, &model->future_selection, model->config.D, w, &w->future_selection);
#define X(kind, name, rows) layout_##kind(arena, &model->name, rows, B, &w->name);
    TFT_LAYERS(X)
#undef X
}

/* Twice the parameters (as they are and transposed), except embeddings, which products do not use. */
static size_t factors_of(const struct tft_model *model)
{
    size_t reals = model->table.reals;

    for (size_t i = 0; i < model->config.variable_count; i++)
        reals -= model->variables[i].embedding.categories * model->variables[i].embedding.W;
    return 2 * reals + (model->config.plain ? 0 : model->folded);
}

static void layout_all(struct arena *arena, const struct tft_model *model, struct tft_workspace *w)
{
    const size_t B = w->most, H = model->config.H, T = model->T, N = model->queries, D = model->config.D;
    const size_t P = model->output.out;

    layout_inputs(arena, model, w);
    layout_layers(arena, model, w);
#define X(kind, name, rows, columns) w->name = arena_##kind(arena, rows, columns);
    TFT_ACTIVATIONS(X)
#undef X
    for (size_t k = 0; k < CONTEXTS; k++) {
        w->context[k] = arena_acts(arena, B, H);
        w->d_context[k] = arena_acts(arena, B, H);
    }
    w->loss = arena_bytes(arena, 1, sizeof *w->loss);
    w->derived = arena_reals(arena, 1, model->derived);
    w->d_derived = arena_reals(arena, 1, model->derived);
    if (!model->config.plain) {
        w->folded = arena_reals(arena, 1, model->folded);
        w->places = arena_bytes(arena, T * B, sizeof *w->places);
        w->slots = arena_bytes(arena, shared_rows_slots(T * B), sizeof *w->slots);
    }
    w->scratch = arena_reals(arena, 1, scratch_reals(model, B));
}

/* Inputs' parameters are in front of the layers'. Rounded down: a copy of the layers' keeps their alignment. */
static size_t inputs_of(const struct tft_model *model)
{
    const struct span last = model->variables[model->config.variable_count - 1].params;

    return model->table.params[last.first + last.count].offset / TFT_ALIGNMENT * TFT_ALIGNMENT;
}

/* The largest factors of a product that are neither parameters, folded weights nor narrow activations: gradients of the
 * output, of a context or of a selection's weights, by derived weights. */
static size_t others_of(const struct tft_model *model, size_t B)
{
    size_t reals = max_size(model->config.D * B * model->output.out, B * model->config.H);

    reals = max_size(reals, model->config.E * B * model->history_selection.V);
    reals = max_size(reals, model->config.D * B * model->future_selection.V);
    reals = max_size(reals, B * model->static_selection.V);
    return aligned_reals(reals) + model->derived;
}

static enum halay_status open_queue(struct halay_log *log, const struct tft_model *model, struct tft_workspace *w)
{
    const struct queue_needs needs = { .bf16 = model->config.dtype == TFT_BF16,
                                       .tf32 = model->config.dtype == TFT_TF32,
                                       .params = model->table.reals,
                                       .folded = model->config.plain ? 0 : model->folded,
                                       .factors = factors_of(model),
                                       .inputs = inputs_of(model),
                                       .others = others_of(model, w->most) };

    return tft_queue_open(log, model->kernels, &needs, &w->queue);
}

/* Allocates the host's part, which is the device's own arrays where the host may use them. */
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

/* Allocates one block, and lays it out twice; returns its bytes. */
static size_t alloc_device(const struct tft_model *model, struct tft_workspace *w)
{
    struct arena arena = { .narrow = narrow_of(w->queue) };

    layout_all(&arena, model, w);
    w->memory = arena.used == SIZE_MAX ? NULL : model->kernels->alloc(arena.used);
    size_t used = arena.used;
    arena.base = w->memory;
    arena.used = 0;
    if (w->memory)
        layout_all(&arena, model, w);
    return used;
}

/* Returns the bytes that a granule of this number of samples takes. */
static size_t bytes_of(const struct tft_model *model, struct tft_workspace *w, size_t most)
{
    struct arena arena = { .narrow = narrow_of(w->queue) };

    w->most = most;
    layout_all(&arena, model, w);
    return arena.used;
}

/* Logs what is missing, and how many samples there is room for. */
static void log_no_memory(struct halay_log *log, const struct tft_model *model, struct tft_workspace *w, size_t bytes)
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
    struct tft_workspace *w = calloc(1, sizeof *w + 2 * model->config.variable_count * sizeof *w->networks);
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    size_t bytes = 0;

    if (!w)
        goto no_memory;
    w->model = model;
    w->most = model->config.granule;
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
    log_no_memory(log, model, w, bytes);
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

    workspace->mark = workspace_now();
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
    double time = workspace_now();

    workspace->seconds[part] += time - workspace->mark - workspace->sums_seconds;
    workspace->seconds[TFT_PART_SUM] += workspace->sums_seconds;
    workspace->mark = time;
    workspace->sums_seconds = 0;
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
        if (lengths[b] < 1 || lengths[b] > E)
            return halay_fail(model->log, HALAY_ERR_ARGUMENT,
                              "sample %llu has %zu steps of history: 1 to %zu are possible",
                              (unsigned long long)(workspace->batch.position + b), lengths[b], E);
    /* Codes on the device were checked when they were copied. */
    for (size_t i = 0; i < model->config.variable_count && !workspace->batch.is_there; i++) {
        const struct variable *variable = &model->variables[i];
        size_t steps = steps_seen(model, variable->role);

        for (size_t b = 0; variable->embedding.categories && b < workspace->batch.B; b++)
            for (size_t t = variable->role == TFT_STATIC ? 0 : E - lengths[b]; t < steps; t++) {
                int32_t code = code_of(workspace, variable, b, t);

                if (code < 0 || (size_t)code >= variable->embedding.categories)
                    return halay_fail(
                        model->log, HALAY_ERR_ARGUMENT, "code %ld of '%s' (sample %llu, step %zu) is outside 0 to %zu",
                        (long)code, model->config.variables[i].name,
                        (unsigned long long)(workspace->batch.position + b), t, variable->embedding.categories - 1);
            }
    }
    return HALAY_OK;
}

void workspace_upload(struct tft_workspace *w)
{
    const struct tft_batch *from = &w->batch, *to = &w->input;
    const struct tft_columns *columns = &w->model->columns;
    size_t B = from->B, rows = B * w->model->T, targets = B * w->model->config.D * columns->targets;

    w->padded = 0;
    for (size_t b = 0; b < B; b++) {
        w->host_padding[b] = w->model->config.E - from->lengths[b];
        w->padded |= w->host_padding[b] > 0;
    }
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
