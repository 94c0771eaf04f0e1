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
#include "base/error_text.h"
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/tools/export/onnx_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

/* Turns the description that a call has made, unless it has failed, into a document. */
static enum halay_status take_document(struct onnx_graph *g, enum halay_status status, char **text, json_t **document)
{
    if (status)
        return status;
    *document = json_loads(*text, 0, NULL);
    halay_tft_free(*text);
    return *document ? HALAY_OK : halay_no_memory(g->log, "for a description of the model");
}

static enum halay_status take_tensors(struct onnx_graph *g, const struct halay_tft_model *model)
{
    struct onnx_tensor t = { .name = "" };

    for (g->tensor_count = 0; t.name; g->tensor_count += t.name != NULL)
        halay_tft_model_weights(model, g->tensor_count, &t.name, &t.dimensions, &t.shape, &t.values);
    g->tensors = halay_region_alloc(&g->memory, g->tensor_count, sizeof *g->tensors);
    for (size_t i = 0; g->tensors && i < g->tensor_count; i++) {
        struct onnx_tensor *to = &g->tensors[i];
        halay_tft_model_weights(model, i, &to->name, &to->dimensions, &to->shape, &to->values);
        if (!strcmp(to->name, "encoder.recurrent"))
            g->H = to->shape[0];
    }
    return g->tensors ? HALAY_OK : halay_no_memory(g->log, "for an ONNX model");
}

static enum halay_status take_model(struct onnx_graph *g, const struct halay_tft_model *model)
{
    char *text;
    enum halay_status status;

    if ((status = take_document(g, halay_tft_model_describe(model, &text), &text, &g->model)) ||
        (status = take_document(g, halay_tft_model_encoding(model, &text), &text, &g->encoding)) ||
        (status = take_tensors(g, model)))
        return status;
    const size_t members = onnx_size(g->model, "members");
    g->config = json_object_get(g->model, "config");
    g->E = onnx_size(g->model, "encoder");
    g->D = onnx_size(g->model, "horizon");
    g->heads = onnx_size(g->model, "heads");
    g->O = json_array_size(json_object_get(g->model, "targets"));
    g->Q = json_array_size(json_object_get(g->model, "quantiles"));
    if (members > 1)
        return halay_fail(g->log, HALAY_ERR_UNSUPPORTED,
                          "a run of %zu members cannot be exported: a graph has the first member only; export a run "
                          "that was trained with 'members: 1'",
                          members);
    return HALAY_OK;
}

/* given: NULL: as the run was trained. */
static enum halay_status take_calibration(struct onnx_graph *g, const struct halay_tft_model *model, const char *given)
{
    const int is_blended = json_is_true(json_object_get(g->model, "blended"));
    const char *word = given ? given : onnx_text(g->config, "calibrate");
    const int is_rolling = word && !strcmp(word, "rolling"), is_conformal = word && !strcmp(word, "conformal");
    enum halay_status status;
    char *text;

    if (is_blended)
        halay_warning(g->log, "the graph forecasts by the model alone: it reads a window, not the past that the "
                              "baselines of the run's blend need");
    if (is_blended && !given)
        return HALAY_OK;
    if (!is_rolling && !is_conformal &&
        ((status = take_document(g, halay_tft_model_calibration(model, word, &text), &text, &g->calibration)) ||
         onnx_is(g->calibration, "method", "none")))
        return status;
    if (is_blended)
        return halay_fail(g->log, HALAY_ERR_ARGUMENT,
                          "the calibration is for blended forecasts, which a graph cannot make; calibrate 'none', or "
                          "train without 'blend'");
    if (is_rolling)
        return halay_fail(g->log, HALAY_ERR_ARGUMENT,
                          "an ONNX graph cannot calibrate 'rolling', which needs earlier forecasts; "
                          "calibrate 'conformal' or 'none'");
    if (is_conformal && !json_is_true(json_object_get(g->model, "calibrated")))
        return halay_fail(g->log, HALAY_ERR_ARGUMENT,
                          "the model has no calibration; 'halay-tft train --resume --calibrate conformal' makes one, "
                          "'none' does without");
    if (g->calibration)
        return HALAY_OK;
    return take_document(g, halay_tft_model_calibration(model, word, &text), &text, &g->calibration);
}

/* ---- the graph ---- */

/* Adds the weights of a selection, if it has inputs; steps: 0: they are static. */
static void add_selection(struct onnx_graph *g, size_t value, const char *of, size_t steps, const char *name,
                          const char *about)
{
    json_t *names = json_object_get(json_object_get(g->model, "selected"), of);
    const size_t shape[] = { steps, json_array_size(names) };

    if (shape[1])
        onnx_output(g, value, name, steps ? shape : shape + 1, steps ? 2 : 1, about, json_incref(names));
}

static void make_graph(struct onnx_graph *g, int explains)
{
    const size_t shape[] = { g->D, g->O, g->Q }, attention[] = { g->heads, g->D, g->E + g->D };
    struct onnx_network network;

    g->described_inputs = json_array();
    g->described_outputs = json_array();
    onnx_inputs(g);
    onnx_network(g, &network);
    onnx_output(g, onnx_forecast(g, network.quantiles), "quantiles", shape, 3,
                "quantiles of each step of the horizon and target, in its own unit", NULL);
    if (!explains)
        return;
    add_selection(g, network.statics, "static", 0, "static_weights", "how much each static input weighs");
    add_selection(g, network.history, "past", g->E, "past_weights",
                  "how much each input weighs at each step of the past");
    add_selection(g, network.future, "future", g->D, "future_weights",
                  "how much each input weighs at each step of the horizon");
    onnx_output(g, network.attention, "attention", attention, 3,
                "attention of each head and step of the horizon to each step of the window", NULL);
}

/* ---- files ---- */

static json_t *describe_export(const struct onnx_graph *g)
{
    return json_pack("{ss sO sO sO sO sI sI ss}", "version", halay_version(), "inputs", g->described_inputs, "outputs",
                     g->described_outputs, "targets", json_object_get(g->model, "targets"), "quantiles",
                     json_object_get(g->model, "quantiles"), "encoder", (json_int_t)g->E, "horizon", (json_int_t)g->D,
                     "calibration", onnx_is(g->calibration, "method", "conformal") ? "conformal" : "none");
}

/* Returns the metadata: each key with its value as a text, and the schema. */
static json_t *metadata_of(const struct onnx_graph *g, const json_t *described)
{
    json_t *metadata = json_object(), *value;
    const char *key;

    json_object_foreach((json_t *)described, key, value) {
        char *text =
            json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        json_object_set_new(metadata, key, json_string(text ? text : json_string_value(value)));
        free(text);
    }
    char *schema = json_dumps(json_object_get(g->model, "schema"), JSON_COMPACT);
    if (json_object_set_new(metadata, "schema", json_string(schema))) {
        json_decref(metadata);
        metadata = NULL;
    }
    free(schema);
    return metadata;
}

static enum halay_status write_model(struct onnx_graph *g, const char *path, const json_t *described)
{
    json_t *metadata = metadata_of(g, described);
    struct halay_protobuf model = { 0 };
    struct halay_output out = { 0 };

    if (!metadata)
        return halay_no_memory(g->log, "for an ONNX model");
    enum halay_status status = onnx_graph_model(g, metadata, &model);
    if (!status && !(status = halay_output_open(g->log, path, &out))) {
        fwrite(model.bytes, 1, model.size, out.file); /* commit reports a failed write */
        status = halay_output_commit(&out);
    }
    halay_protobuf_fini(&model);
    json_decref(metadata);
    return status;
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

/* ---- the call ---- */

static enum halay_status read_options(struct halay_log *log, const struct halay_tft_export_options *options,
                                      struct halay_tft_export_options *o)
{
    enum halay_status status = halay_struct_read(log, "halay_tft_export_options", options, sizeof *o, sizeof *o, o);

    if (status)
        return status;
    if (o->format && strcmp(o->format, "onnx"))
        return halay_fail(log, HALAY_ERR_ARGUMENT,
                          "unknown 'format' '%s': 'onnx' is known (halay.tft.export_torch writes PyTorch's)",
                          o->format);
    if (!o->path || !*o->path)
        return halay_fail(log, HALAY_ERR_ARGUMENT, "'path' of halay_tft_export_options is missing: the file to write");
    return HALAY_OK;
}

/* Writes the files, each of which replaces its name only when it is complete. */
static enum halay_status export_model(struct onnx_graph *g, const struct halay_tft_model *model,
                                      const struct halay_tft_export_options *options, char **json)
{
    struct halay_tft_export_options o;
    enum halay_status status;

    if ((status = read_options(g->log, options, &o)) || (status = take_model(g, model)) ||
        (status = take_calibration(g, model, o.calibrate)))
        return status;
    make_graph(g, o.explains);
    json_t *described = describe_export(g);
    if (!(status = write_model(g, o.path, described)) && json_object_set_new(described, "kind", json_string("graph")))
        status = halay_no_memory(g->log, "for a description of the model");
    if (!status && o.about)
        status = write_about(g->log, o.about, described);
    if (!status && !(*json = json_dumps(described, JSON_COMPACT)))
        status = halay_no_memory(g->log, "for a description of the model");
    json_decref(described);
    return status;
}

enum halay_status halay_tft_model_export(const struct halay_tft_model *model,
                                         const struct halay_tft_export_options *options, char **json)
{
    if (!model || !options || !json)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_model_export: an argument is NULL");
    struct halay_log *log = halay_tft_log(halay_tft_model_session(model));
    struct onnx_graph g = { .log = log };
    enum halay_status status = export_model(&g, model, options, json);
    onnx_graph_fini(&g);
    return halay_log_returns(log, status);
}
