/* SPDX-License-Identifier: Apache-2.0
 *
 * A model: how it is made, what others ask of it, and the passes that a caller sees.
 */
#include "tft/core/model/model_impl.h"
#include <stdlib.h>
#include <string.h>

enum halay_status tft_model_create(struct halay_log *log, const struct tft_model_config *config,
                                   struct tft_model **model)
{
    const struct kernels *kernels = config->device.kernels ? config->device.kernels : tft_kernels_cpu();
    enum halay_status status = config_check(log, kernels, config);

    if (status)
        return status;
    if (config->dtype == TFT_BF16 && !kernels->has_bf16())
        return halay_fail(log, HALAY_ERR_UNSUPPORTED,
                          "no matrix products in bf16 here: they need a processor with AVX-512 BF16, or a GPU");
    struct tft_model *made = calloc(1, sizeof *made + 2 * config->variable_count * sizeof *made->networks);
    if (!made) {
        status = HALAY_ERR_NO_MEMORY;
        goto err_destroy;
    }
    made->log = log;
    made->kernels = kernels;
    made->config = *config;
    made->T = config->E + config->D;
    /* The first step would see nothing if it does not see itself: only the decoder has queries. */
    made->queries = config->plain && config->conformance != TFT_PYTORCH_FORECASTING ? made->T : config->D;
    made->loss_factor = config->conformance == TFT_PYTORCH_FORECASTING ? 2 / (double)config->quantile_count : 1;
    status = network_build(made);
    if (status)
        goto err_destroy;
    *model = made;
    return HALAY_OK;

err_destroy:
    halay_error(log,
                status == HALAY_ERR_NO_MEMORY ? "no memory for the model's description" : "the model is too large");
    tft_model_destroy(made);
    return status;
}

void tft_model_destroy(struct tft_model *model)
{
    if (!model)
        return;
    tft_params_fini(&model->table);
    free(model);
}

const struct tft_model_config *tft_model_config(const struct tft_model *model)
{
    return &model->config;
}

const struct tft_columns *tft_model_columns(const struct tft_model *model)
{
    return &model->columns;
}

const struct tft_param_table *tft_model_params(const struct tft_model *model)
{
    return &model->table;
}

size_t tft_model_param_count(const struct tft_model *model)
{
    return tft_params_count(&model->table);
}

double tft_model_loss_factor(const struct tft_model *model)
{
    return model->loss_factor;
}

const struct kernels *tft_model_kernels(const struct tft_model *model)
{
    return model->kernels;
}

const char *tft_part_name(enum tft_part part)
{
    static const char *const names[TFT_PART_COUNT] = { [TFT_PART_INPUT] = "input",
                                                       [TFT_PART_STATIC] = "static",
                                                       [TFT_PART_HISTORY] = "history_selection",
                                                       [TFT_PART_FUTURE] = "future_selection",
                                                       [TFT_PART_LSTM] = "lstm",
                                                       [TFT_PART_GATE] = "sequence_gate",
                                                       [TFT_PART_ENRICHMENT] = "enrichment",
                                                       [TFT_PART_ATTENTION] = "attention",
                                                       [TFT_PART_TAIL] = "tail",
                                                       [TFT_PART_LOSS] = "loss",
                                                       [TFT_PART_SUM] = "sum" };

    return part < TFT_PART_COUNT ? names[part] : "?";
}

/* ---- passes ---- */

/* Describes the pass to the layers, and brings the batch to the device. */
static struct pass pass_of(struct tft_workspace *w, const struct tft_pass *from, real *gradients)
{
    if (from->version == 0 || from->version != w->version)
        kernel_begin(w->queue, from->params, w->folded);
    w->version = from->version;
    w->alike = 0;
    workspace_upload(w);
    return (struct pass){ .queue = w->queue,
                          .p = from->params,
                          .g = gradients,
                          .derived = w->derived,
                          .d_derived = w->d_derived,
                          .B = w->batch.B };
}

static void fold_selection(const struct pass *pass, const struct vsn *vsn, real *folded)
{
    for (size_t j = 0; j < vsn->V; j++)
        if (!vsn->variables[j].bare)
            grn_fold(pass, &vsn->variables[j], folded + vsn->variables[j].folded);
    if (vsn->V && !vsn->single)
        grn_fold(pass, &vsn->joint, folded + vsn->joint.folded);
}

static void fold_all(struct tft_workspace *w, const struct pass *pass)
{
    const struct tft_model *model = w->model;
    real *folded = w->folded;

    if (narrow_of(pass->queue)) /* all of it is rounded, with what is between its matrices */
        kernel_zero(pass->queue, model->folded, folded);
    fold_selection(pass, &model->static_selection, folded);
    fold_selection(pass, &model->history_selection, folded);
    fold_selection(pass, &model->future_selection, folded);
    for (size_t k = 0; k < CONTEXTS; k++)
        grn_fold(pass, &model->contexts[k], folded + model->contexts[k].folded);
    grn_fold(pass, &model->enrichment, folded + model->enrichment.folded);
    grn_fold(pass, &model->feedforward, folded + model->feedforward.folded);
}

/* Returns nonzero if a forecast may compute rows that windows share only once: all samples have the same static inputs,
 * and the device finds equal rows. */
static int are_alike(const struct tft_workspace *workspace)
{
    const struct tft_columns *columns = &workspace->model->columns;
    const struct tft_batch *batch = &workspace->batch;
    size_t reals = columns->static_reals, cats = columns->static_cats;

    if (!workspace->model->kernels->shared_rows_gather)
        return 0;
    for (size_t b = 1; b < batch->B; b++)
        if (memcmp(batch->static_reals + b * reals, batch->static_reals, reals * sizeof(real)) != 0 ||
            memcmp(batch->static_cats + b * cats, batch->static_cats, cats * sizeof *batch->static_cats) != 0)
            return 0;
    return 1;
}

/* Saves the work that only forecasts can save. */
static void save_forecasts(struct tft_workspace *w, uint64_t version, struct pass *pass)
{
    if (w->model->config.plain)
        return;
    if (version == 0 || version != w->folded_version)
        fold_all(w, pass);
    w->folded_version = version;
    pass->folded = w->folded;
    w->alike = are_alike(w);
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
    begin = workspace_now();
    timed->pass->final(timed->pass->arg, param);
    timed->workspace->sums_seconds += workspace_now() - begin;
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

static void pass_train(struct tft_workspace *workspace, struct pass *pass, const struct outputs_run *run)
{
    model_forward(workspace, pass);
    kernel_loss(workspace->queue, run, workspace->loss, workspace->d_output);
    workspace_clock(workspace, TFT_PART_LOSS);
    model_backward(workspace, pass);
}

/* A device that can repeats the pass as a whole. */
static void pass_repeat(struct tft_workspace *workspace, struct pass *pass, const struct outputs_run *run, int calls)
{
    const struct pass_key key = {
        .params = pass->p, .gradients = pass->g, .B = pass->B, .padded = workspace->padded, .calls = calls
    };
    const struct pass_values values = {
        .seed = pass->dropout.seed, .step = pass->dropout.step, .position = pass->dropout.position, .scale = run->scale
    };

    do {
        if (kernel_pass_begin(workspace->queue, &key, &values))
            return;
        pass_train(workspace, pass, run);
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
    if (pass->repeats)
        pass_repeat(workspace, &own, &run, pass->final != NULL);
    else
        pass_train(workspace, &own, &run);
    kernel_to_host_later(workspace->queue, workspace->loss, sizeof *loss, loss);
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
        kernel_to_host_later(workspace->queue, workspace->loss, sizeof *loss, loss);
    }
    kernel_samples_first(workspace->queue, &run, workspace->predictions);
    if (workspace->forecast != workspace->predictions)
        kernel_to_host(workspace->queue, workspace->predictions, run.B * run.D * run.O * run.P * sizeof(real),
                       workspace->forecast);
    *predictions = workspace->forecast;
    workspace_clock(workspace, TFT_PART_LOSS);
}
