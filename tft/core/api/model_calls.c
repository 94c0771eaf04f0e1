/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on models: open, save, describe, export.
 */
#include "tft/core/api/model_calls.h"
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/core/data/join.h"
#include "tft/core/run/batches.h"
#include "tft/tools/export/export.h"
#include <stdlib.h>
#include <string.h>

/* ---- open ---- */

/* Forecasts that lack what a training makes at its end. */
static void warn_unfinished(struct halay_log *log, const char *folder, const struct tft_run *run)
{
    if (run->members.count + 1 < (size_t)run->config.members)
        halay_warning(
            log,
            "'%s' forecasts by the first of its %lld members alone: of the others some are missing, or belong "
            "to other weights; 'train --resume' completes them",
            folder, (long long)run->config.members);
    if (run->is_checkpoint && run->blend.errors)
        halay_warning(log,
                      "'%s' holds checkpoints: the model and a baseline have a half each in its forecasts, since a "
                      "blend's weights are chosen when the training ends",
                      folder);
}

enum halay_status tft_model_of_folder(struct halay_tft *t, const char *folder, int stays,
                                      struct halay_tft_model **model)
{
    struct halay_tft_model *m = calloc(1, sizeof *m);

    if (!m) {
        halay_error(&t->log, "no memory for a model");
        return HALAY_ERR_NO_MEMORY;
    }
    m->tft = t;
    m->inference = (struct tft_inference){ .log = &t->log, .stop = &t->stop };
    struct tft_device device;
    enum halay_status status = tft_session_device(t, &device);
    if (!status)
        status = tft_run_load(&t->log, folder, &device, &m->inference.run);
    if (!status) {
        warn_unfinished(&t->log, folder, &m->inference.run);
        status = tft_calibration_find(&t->log, folder, &m->calibration);
    }
    if (!status)
        status = tft_profile_find(&t->log, folder, &m->inference.run.schema, &m->inference.run.encoding, &m->profile);
    if (!status && stays && !(m->folder = strdup(folder))) {
        halay_error(&t->log, "no memory for a model");
        status = HALAY_ERR_NO_MEMORY;
    }
    if (status)
        halay_tft_model_close(m);
    else
        *model = m;
    return status;
}

enum halay_status halay_tft_model_open(struct halay_tft *tft, const char *folder, struct halay_tft_model **model)
{
    if (!tft || !folder || !model)
        return tft_session_refuse_null("halay_tft_model_open", "an argument");
    tft_session_enter(tft);
    return tft_session_leave(tft, tft_model_of_folder(tft, folder, 1, model));
}

void halay_tft_model_close(struct halay_tft_model *m)
{
    if (!m)
        return;
    tft_profile_destroy(m->profile);
    tft_inference_fini(&m->inference);
    json_decref(m->calibration);
    free(m->folder);
    free(m);
}

/* ---- save ---- */

enum halay_status halay_tft_model_save(const struct halay_tft_model *m, const char *folder)
{
    if (!m || !folder)
        return tft_session_refuse_null("halay_tft_model_save", "an argument");
    const struct tft_run *run = &m->inference.run;
    struct halay_log *log = &m->tft->log;
    tft_session_enter(m->tft);
    enum halay_status status = tft_run_begin(log, folder, run->document, 0);
    if (!status && m->calibration)
        status = tft_calibration_save(log, folder, m->calibration);
    if (!status && run->refit)
        status = tft_run_save_refit(log, folder, run->document, run->step, tft_model_params(run->model), run->params,
                                    run->refit);
    if (!status)
        status = tft_run_save_members(log, folder, run->document, run->step, tft_model_params(run->model), run->params,
                                      &run->members);
    if (!status) /* last: a folder with a model is whole */
        status = tft_run_save_best(log, folder, run->document, run->step, &run->blend, tft_model_params(run->model),
                                   run->params, 0);
    return tft_session_leave(m->tft, status);
}

/* ---- describe ---- */

static json_t *list_targets(const struct tft_schema *s)
{
    json_t *names = json_array();

    for (size_t o = 0; names && o < s->target_count; o++)
        json_array_append_new(names, json_string(s->inputs[s->targets[o]].name));
    return names;
}

enum halay_status halay_tft_model_describe(const struct halay_tft_model *m, char **json)
{
    if (!m || !json)
        return tft_session_refuse_null("halay_tft_model_describe", "an argument");
    const struct tft_run *run = &m->inference.run;
    tft_session_enter(m->tft);
    json_t *all = json_pack(
        "{ss sO sO sI sI so so sI sI sI sb sb sb}", "kind", "model", "config", json_object_get(run->document, "config"),
        "schema", run->schema.document, "encoder", (json_int_t)run->schema.encoder, "horizon",
        (json_int_t)run->schema.horizon, "quantiles", tft_list_json(&run->config.quantiles), "targets",
        list_targets(&run->schema), "parameters", (json_int_t)tft_model_param_count(run->model), "members",
        (json_int_t)run->members.count + 1, "step", (json_int_t)run->step, "calibrated", m->calibration != NULL,
        "refitted", run->refit != NULL, "needs_future", tft_model_needs_future(m));
    return tft_session_leave(m->tft, tft_session_text(m->tft, all, json));
}

/* ---- export ---- */

static enum halay_status read_export(const struct halay_tft_model *m, const struct halay_tft_export_options *o,
                                     struct tft_export *export)
{
    *export =
        (struct tft_export){ .path = o->path,
                             .onnx = { .calibration = m->calibration, .folder = m->folder, .explains = o->explains } };
    enum halay_status status =
        tft_session_word(m->tft, "format", o->format, tft_export_formats, TFT_EXPORT_ONNX, &export->format);
    if (!status)
        status = tft_session_word(m->tft, "calibrate", o->calibrate, tft_calibrate_words, -1, &export->onnx.calibrate);
    if (status || (o->path && *o->path))
        return status;
    halay_error(&m->tft->log, "'path' of halay_tft_export_options is missing: the file to write");
    return HALAY_ERR_ARGUMENT;
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
    struct tft_export export;
    json_t *described = NULL;

    if (!m || !options || !json)
        return tft_session_refuse_null("halay_tft_model_export", "an argument");
    struct halay_log *log = &m->tft->log;
    tft_session_enter(m->tft);
    enum halay_status status =
        halay_struct_read(log, "halay_tft_export_options", options, sizeof given, sizeof given, &given);
    if (!status)
        status = read_export(m, &given, &export);
    if (!status)
        status = tft_export_run(log, &m->inference.run, &export, &described);
    if (!status && json_object_set_new(described, "kind", json_string("graph")))
        status = HALAY_ERR_NO_MEMORY;
    if (!status && given.about)
        status = write_about(log, given.about, described);
    if (!status)
        return tft_session_leave(m->tft, tft_session_text(m->tft, described, json));
    json_decref(described);
    return tft_session_leave(m->tft, status);
}

/* ---- data for a call ---- */

enum halay_status tft_model_enter(struct halay_tft_model *m)
{
    struct tft_inference *s = &m->inference;
    enum halay_status status = tft_session_enter_ranks(m->tft);

    if (status)
        return status;
    s->ctx = m->tft->ctx;
    s->rank = m->tft->rank;
    return tft_inference_start(s);
}

static enum halay_status take_calibration(const struct halay_tft_model *m, struct tft_calibration *calibration)
{
    const struct tft_inference *s = &m->inference;

    if (!m->calibration && m->folder) /* which says what makes one */
        return tft_calibration_load(s->log, m->folder, &s->run, &s->data, calibration);
    if (!m->calibration) {
        halay_error(s->log, "the model has no calibration: halay_tft_calibrate makes one, 'none' does without");
        return HALAY_ERR_ARGUMENT;
    }
    return tft_calibration_take(s->log, m->folder, m->calibration, &s->run, &s->data, calibration);
}

/* Read the folder's, if it has one that is of the model's parameters: a training may be writing new ones. */
static enum halay_status find_calibration(struct halay_tft_model *m)
{
    enum halay_status status = HALAY_OK;

    if (!m->calibration && m->folder)
        status = tft_calibration_find(m->inference.log, m->folder, &m->calibration);
    if (!tft_calibration_suits(m->inference.log, m->folder, m->calibration, &m->inference.run)) {
        json_decref(m->calibration);
        m->calibration = NULL;
    }
    return status;
}

enum halay_status tft_model_take_calibration(struct halay_tft_model *m, json_t *document, const char *folder)
{
    const struct tft_run *run = &m->inference.run;
    json_t *whole = tft_calibration_json(tft_model_params(run->model), run->params, &run->members, &run->blend,
                                         run->step, document);

    if (!whole) {
        halay_error(&m->tft->log, "no memory for a calibration");
        return HALAY_ERR_NO_MEMORY;
    }
    json_decref(m->calibration);
    m->calibration = whole;
    return folder && m->tft->rank == 0 ? tft_calibration_save(&m->tft->log, folder, whole) : HALAY_OK;
}

enum halay_status tft_model_calibrate(struct halay_tft_model *m, int calibrate)
{
    struct tft_inference *s = &m->inference;
    struct tft_calibration calibration;
    const enum tft_calibrate_word word = (enum tft_calibrate_word)(calibrate < 0 ? s->run.config.calibrate : calibrate);

    if (word == TFT_CALIBRATE_NONE)
        return HALAY_OK;
    enum halay_status status = word == TFT_CALIBRATE_AUTO ? find_calibration(m) : HALAY_OK;
    if (status || (word == TFT_CALIBRATE_AUTO && !m->calibration))
        return status;
    status = take_calibration(m, &calibration);
    if (status)
        return status;
    return tft_calibrator_init(s->log, &s->data, word == TFT_CALIBRATE_ROLLING, &calibration, &s->calibrator);
}

enum halay_status tft_model_lend_data(struct halay_tft_model *m, struct halay_tft_data *data, int calibrate)
{
    struct tft_inference *s = &m->inference;

    enum halay_status status = tft_run_check_data(s->log, &s->run, data->path ? data->path : "the data", &data->data);

    s->data = data->data; /* its memory stays the data's */
    if (status)
        return status;
    tft_model_look(m, &s->data);
    return tft_model_calibrate(m, calibrate);
}

void tft_model_look(struct halay_tft_model *m, struct tft_data *data)
{
    enum { LAST = 1000 }; /* rows, of each entity */

    data->loss = (enum tft_loss)m->inference.run.config.loss;
    if (m->inference.rank == 0 && !m->has_warned)
        m->has_warned = tft_targets_warn(m->inference.log, data, LAST);
}

void tft_model_return_data(struct halay_tft_model *m)
{
    tft_calibrator_fini(&m->inference.calibrator);
    if (m->owns_data)
        tft_data_end(&m->inference.data);
    m->owns_data = 0;
    memset(&m->inference.data, 0, sizeof m->inference.data);
}
