/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained model as an ONNX file that forecasts from a table's own values: scaling, categories and calibration are
 * in the graph, which needs no operator of its own. It forecasts as the model alone does: baselines that a run
 * blends with (tft/core/run/baselines.h) need more of the past than a window. onnx_impl.h lists its inputs. Outputs:
 *
 *   quantiles      (batch, horizon, targets, quantiles) float32, in the targets' units
 *   static_weights (batch, variables), past_weights (batch, encoder, variables), future_weights (batch, horizon,
 *                  variables), attention (batch, heads, horizon, encoder + horizon): if they are asked for
 *
 * The file's metadata equal its description, and also have the schema.
 */
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/tools/export/onnx_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    int calibrate;             /* of tft_calibrate_words; -1: as the run was trained */
    const json_t *calibration; /* what the run's calibration.json holds; NULL: it has none */
    const char *folder;        /* the run's, for messages; NULL: it is in memory */
    int explains;              /* with weights and attention */
};

/* State of one export. */
struct export
{
    struct halay_log *log; /* borrowed, as the next */
    const struct tft_run *run;
    const struct options *options;
    int is_calibrated;
    struct onnx_calibration calibration; /* owned, as the next */
    struct onnx_graph graph;
    struct onnx_inputs inputs;
    json_t *outputs;
};

/* ---- outputs ---- */

static void add_output(struct export *x, size_t value, const char *name, const size_t *shape, size_t rank,
                       const char *about, json_t *axis)
{
    json_t *sizes = json_pack("[s]", "batch");
    json_t *described = json_pack("{ss so ss}", "name", name, "shape", sizes, "about", about);

    for (size_t i = 0; i < rank; i++)
        json_array_append_new(sizes, json_integer((json_int_t)shape[i]));
    if (axis)
        json_object_set_new(described, "last", axis);
    if (json_array_append_new(x->outputs, described))
        x->graph.failed = 1;
    onnx_output(&x->graph, value, name, shape, rank, about);
}

static json_t *names_of(const struct tft_model_config *config, enum tft_choice choice, size_t *count)
{
    size_t variables[TFT_VARIABLES_MAX];
    json_t *names = json_array();

    *count = tft_config_choice(config, choice, variables);
    for (size_t j = 0; j < *count; j++)
        json_array_append_new(names, json_string(config->variables[variables[j]].name));
    return names;
}

static void add_selection(struct export *x, const struct onnx_network_outputs *network, enum tft_choice choice,
                          size_t steps, const char *name, const char *about)
{
    size_t shape[2] = { steps }, *last = steps ? shape + 1 : shape;
    json_t *names = names_of(tft_model_config(x->run->model), choice, last);

    if (*last)
        add_output(x, network->selections[choice], name, shape, steps ? 2 : 1, about, names);
    else
        json_decref(names);
}

static void add_weights(struct export *x, const struct onnx_network_outputs *network)
{
    const struct tft_model_config *config = tft_model_config(x->run->model);
    const size_t attention[] = { config->heads, config->D, config->E + config->D };

    add_selection(x, network, TFT_CHOICE_STATIC, 0, "static_weights", "how much each static input weighs");
    add_selection(x, network, TFT_CHOICE_HISTORY, config->E, "past_weights",
                  "how much each input weighs at each step of the past");
    add_selection(x, network, TFT_CHOICE_FUTURE, config->D, "future_weights",
                  "how much each input weighs at each step of the horizon");
    add_output(x, network->attention, "attention", attention, 3,
               "attention of each head and step of the horizon to each step of the window", NULL);
}

static json_t *list_targets(const struct tft_schema *s)
{
    json_t *names = json_array();

    for (size_t o = 0; o < s->target_count; o++)
        json_array_append_new(names, json_string(s->inputs[s->targets[o]].name));
    return names;
}

/* ---- the graph ---- */

static enum halay_status make_graph(struct export *x)
{
    const struct tft_model_config *config = tft_model_config(x->run->model);
    const size_t shape[] = { config->D, x->run->schema.target_count, config->quantile_count };
    struct onnx_network_inputs read;
    struct onnx_network_outputs network;
    enum halay_status status = onnx_inputs_init(&x->graph, x->run, &x->inputs);

    if (status) {
        halay_error(x->log, "no memory for an ONNX model");
        return status;
    }
    onnx_inputs_of_network(&x->inputs, &read);
    status = onnx_network(x->log, &x->graph, x->run->model, x->run->params, &read, &network);
    if (status)
        return status;
    size_t forecast = onnx_forecast(&x->inputs, x->is_calibrated ? &x->calibration : NULL, network.quantiles);
    x->outputs = json_array();
    add_output(x, forecast, "quantiles", shape, 3, "quantiles of each step of the horizon and target, in its own unit",
               NULL);
    if (x->options->explains)
        add_weights(x, &network);
    return HALAY_OK;
}

/* ---- description ---- */

static json_t *describe_export(const struct export *x)
{
    const struct tft_run *run = x->run;

    return json_pack("{ss sO sO so so sI sI ss}", "version", halay_version(), "inputs", x->inputs.described, "outputs",
                     x->outputs, "targets", list_targets(&run->schema), "quantiles",
                     tft_list_json(&run->config.quantiles), "encoder", (json_int_t)run->schema.encoder, "horizon",
                     (json_int_t)run->schema.horizon, "calibration",
                     tft_calibrate_words[x->is_calibrated ? TFT_CALIBRATE_CONFORMAL : TFT_CALIBRATE_NONE]);
}

/* Returns the metadata: each key with its value as a text, and the schema. */
static json_t *metadata_of(const struct export *x, const json_t *described)
{
    json_t *metadata = json_object(), *value;
    const char *key;

    json_object_foreach((json_t *)described, key, value) {
        char *text =
            json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        json_object_set_new(metadata, key, json_string(text ? text : json_string_value(value)));
        free(text);
    }
    char *schema = json_dumps(x->run->schema.document, JSON_COMPACT);
    if (json_object_set_new(metadata, "schema", json_string(schema))) {
        json_decref(metadata);
        metadata = NULL;
    }
    free(schema);
    return metadata;
}

static enum halay_status write_model(struct export *x, const char *path, const json_t *described)
{
    json_t *metadata = metadata_of(x, described);
    struct halay_protobuf model = { 0 };
    struct halay_output out = { 0 };
    enum halay_status status = metadata ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (status)
        halay_error(x->log, "no memory for an ONNX model");
    if (!status)
        status = onnx_graph_model(x->log, &x->graph, x->run->schema.name, metadata, &model);
    if (!status)
        status = halay_output_open(x->log, path, &out);
    if (!status) {
        fwrite(model.bytes, 1, model.size, out.file);
        status = halay_output_commit(&out);
    }
    halay_protobuf_fini(&model);
    json_decref(metadata);
    return status;
}

/* ---- checks ---- */

static enum halay_status take_calibration(struct export *x)
{
    const struct options *o = x->options;
    int word = o->calibrate < 0 ? x->run->config.calibrate : o->calibrate;
    const int is_alone = tft_blend_is_model(&x->run->blend);

    if (!is_alone)
        halay_warning(x->log, "the graph forecasts by the model alone: it reads a window, not the past that the "
                              "baselines of the run's blend need");
    if (word == TFT_CALIBRATE_NONE || (!is_alone && o->calibrate < 0) ||
        (word == TFT_CALIBRATE_AUTO && !tft_calibration_suits(x->log, o->folder, o->calibration, x->run)))
        return HALAY_OK;
    if (!is_alone) {
        halay_error(x->log, "the calibration is for blended forecasts, which a graph cannot make; calibrate 'none', or "
                            "train without 'blend'");
        return HALAY_ERR_ARGUMENT;
    }
    if (word == TFT_CALIBRATE_ROLLING) {
        halay_error(x->log, "an ONNX graph cannot calibrate 'rolling', which needs earlier forecasts; "
                            "calibrate 'conformal' or 'none'");
        return HALAY_ERR_ARGUMENT;
    }
    if (!o->calibration) {
        halay_error(x->log, "the model has no calibration; 'halay-tft train --resume --calibrate conformal' makes one, "
                            "'none' does without");
        return HALAY_ERR_ARGUMENT;
    }
    x->is_calibrated = 1;
    return onnx_calibration_init(x->log, o->folder, x->run, o->calibration, &x->calibration);
}

/* Writes the file, which replaces its name only when it is complete. *described: a new reference. HALAY_ERR_ARGUMENT
 * (logged): the calibration is missing, or a graph cannot make these forecasts; HALAY_ERR_UNSUPPORTED: a graph cannot
 * have this layer or size. */
static enum halay_status write_graph(struct halay_log *log, const char *path, const struct tft_run *run,
                                     const struct options *options, json_t **described)
{
    struct export x = { .log = log, .run = run, .options = options };
    json_t *description = NULL;

    if (run->members.count) {
        halay_error(log,
                    "a run of %zu members cannot be exported: a graph has the first member only; export a run that was "
                    "trained with 'members: 1'",
                    run->members.count + 1);
        return HALAY_ERR_UNSUPPORTED;
    }
    enum halay_status status = take_calibration(&x);

    if (!status)
        status = make_graph(&x);
    if (!status) {
        description = describe_export(&x);
        status = description ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        if (status)
            halay_error(log, "no memory for a description of the model");
    }
    if (!status)
        status = write_model(&x, path, description);
    json_decref(x.outputs);
    onnx_inputs_fini(&x.inputs);
    onnx_graph_fini(&x.graph);
    onnx_calibration_fini(&x.calibration);
    if (status)
        json_decref(description);
    else
        *described = description;
    return status;
}

/* ---- the call ---- */

static enum halay_status read_export(const struct halay_tft_model *m, const struct halay_tft_export_options *o,
                                     struct options *onnx)
{
    struct halay_log *log = &m->tft->log;

    *onnx = (struct options){ .calibration = m->calibration, .folder = m->folder, .explains = o->explains };
    if (o->format && strcmp(o->format, "onnx")) {
        halay_error(log, "unknown 'format' '%s': 'onnx' is known (halay.tft.export_torch writes PyTorch's)", o->format);
        return HALAY_ERR_ARGUMENT;
    }
    if (!o->path || !*o->path) {
        halay_error(log, "'path' of halay_tft_export_options is missing: the file to write");
        return HALAY_ERR_ARGUMENT;
    }
    return tft_session_word(m->tft, "calibrate", o->calibrate, tft_calibrate_words, -1, &onnx->calibrate);
}

static enum halay_status write_about(struct halay_log *log, const char *path, const json_t *described)
{
    struct halay_output out = { 0 };
    enum halay_status status = halay_output_open(log, path, &out);

    if (status)
        return status;
    json_dumpf(described, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)); /* commit reports a failed write */
    fputc('\n', out.file);
    return halay_output_commit(&out);
}

enum halay_status halay_tft_model_export(const struct halay_tft_model *m,
                                         const struct halay_tft_export_options *options, char **json)
{
    struct halay_tft_export_options given;
    struct options onnx;
    json_t *described = NULL;

    if (!m || !options || !json)
        return tft_session_refuse_null("halay_tft_model_export", "an argument");
    struct halay_log *log = &m->tft->log;
    tft_session_enter(m->tft);
    enum halay_status status =
        halay_struct_read(log, "halay_tft_export_options", options, sizeof given, sizeof given, &given);
    if (!status)
        status = read_export(m, &given, &onnx);
    if (!status)
        status = write_graph(log, given.path, &m->inference.run, &onnx, &described);
    if (!status && json_object_set_new(described, "kind", json_string("graph")))
        status = HALAY_ERR_NO_MEMORY;
    if (!status && given.about)
        status = write_about(log, given.about, described);
    if (!status)
        return tft_session_leave(m->tft, tft_session_text(m->tft, described, json));
    json_decref(described);
    return tft_session_leave(m->tft, status);
}
