/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on models: open, create, save, describe.
 */
#include "base/memory.h"
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/data/data.h"
#include "tft/core/run/batches.h"
#include <stdlib.h>
#include <string.h>

/* ---- open ---- */

/* Warns if the folder lacks what the end of a training adds. */
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

static enum halay_status model_create(struct halay_tft *t, struct halay_tft_model **model)
{
    *model = calloc(1, sizeof **model);
    if (!*model)
        return halay_no_memory(&t->log, "for a model");
    (*model)->tft = t;
    (*model)->inference = (struct tft_inference){ .log = &t->log, .stop = &t->stop };
    return HALAY_OK;
}

/* Makes the model's parts that the folder has beside the run. stays: the folder may be named later. */
static enum halay_status take_beside(struct halay_tft_model *m, const char *folder, int stays, const json_t *profile)
{
    const struct tft_run *run = &m->inference.run;
    enum halay_status status = tft_profile_of(&m->tft->log, folder, profile, &run->schema, &run->encoding, &m->profile);

    if (status || !stays || (m->folder = strdup(folder)))
        return status;
    return halay_no_memory(&m->tft->log, "for a model");
}

/* Reads what the folder has beside the run. */
static enum halay_status read_beside(struct halay_tft_model *m, const char *folder, json_t **profile)
{
    warn_unfinished(&m->tft->log, folder, &m->inference.run);
    *profile = tft_profile_read(&m->tft->log, folder);
    return tft_calibration_find(&m->tft->log, folder, &m->calibration);
}

/* Reads a folder into a model. */
static enum halay_status read_folder(struct halay_tft_model *m, const char *folder)
{
    struct tft_device device;
    json_t *profile = NULL;
    enum halay_status status;

    if (!(status = tft_session_device(m->tft, &device)) &&
        !(status = tft_run_load(&m->tft->log, folder, &device, &m->inference.run)) &&
        !(status = read_beside(m, folder, &profile)))
        status = take_beside(m, folder, 1, profile);
    json_decref(profile);
    return status;
}

/* Gives all ranks what rank 0 has read beside the run. */
static enum halay_status share_beside(struct halay_tft_model *m, const char *folder, int stays)
{
    struct halay_tft *t = m->tft;
    json_t *profile = NULL, *both = NULL;
    enum halay_status status = HALAY_OK;

    if (t->rank == 0 && !(status = read_beside(m, folder, &profile)) &&
        !(both = json_pack("{s:O*, s:O*}", "calibration", m->calibration, "profile", profile)))
        status = halay_no_memory(&t->log, "for a model");
    status = tft_share_document(&t->log, t->ctx, folder, status, &both);
    if (!status && t->rank != 0)
        m->calibration = json_incref(json_object_get(both, "calibration"));
    if (!status)
        status = take_beside(m, folder, stays, json_object_get(both, "profile"));
    json_decref(both);
    json_decref(profile);
    return status;
}

/* Reads rank 0's folder into a model of all ranks. */
static enum halay_status read_shared(struct halay_tft_model *m, const char *folder, int stays)
{
    struct halay_tft *t = m->tft;
    struct tft_device device;
    enum halay_status status = tft_session_agree(t, tft_session_device(t, &device));

    if (status)
        return status;
    status = tft_run_load_shared(&t->log, t->ctx, folder, &device, &m->inference.run);
    if (!status)
        status = share_beside(m, folder, stays);
    /* The ranks that did not fail themselves get the error of the one that did. */
    return tft_session_agree(t, status == HALAY_ERR_PEER ? HALAY_OK : status);
}

static enum halay_status open_model(struct halay_tft *t, const char *folder, struct halay_tft_model **model)
{
    struct halay_tft_model *m;
    enum halay_status status = model_create(t, &m);

    if (!status && !(status = read_folder(m, folder)))
        *model = m;
    else
        halay_tft_model_close(m);
    return status;
}

enum halay_status tft_model_open_shared(struct halay_tft *t, const char *folder, int stays,
                                        struct halay_tft_model **model)
{
    struct halay_tft_model *m;
    enum halay_status status = tft_session_agree(t, model_create(t, &m));

    if (!status && !(status = read_shared(m, folder, stays)))
        *model = m;
    else
        halay_tft_model_close(m);
    return status;
}

enum halay_status halay_tft_model_open(struct halay_tft *tft, const char *folder, struct halay_tft_model **model)
{
    return TFT_CALL(tft && folder && model, tft, open_model(tft, folder, model));
}

enum halay_status halay_tft_model_open_shared(struct halay_tft *tft, const char *folder, struct halay_tft_model **model)
{
    if (!tft || !folder || !model)
        return tft_session_refuse_null("halay_tft_model_open_shared", "an argument");
    const enum halay_status joined = tft_session_enter_ranks(tft);
    return tft_session_leave(tft, joined ? joined : tft_model_open_shared(tft, folder, 1, model));
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

/* ---- weights ---- */

enum halay_status halay_tft_model_weights(const struct halay_tft_model *m, size_t number, const char **name,
                                          size_t *dimensions, const size_t **shape, const float **values)
{
    if (!m || !name || !dimensions || !shape || !values)
        return tft_session_refuse_null("halay_tft_model_weights", "an argument");
    const struct tft_param_table *table = tft_model_params(m->inference.run.model);
    const struct tft_param *param = number < table->count ? &table->params[number] : NULL;

    *name = param ? param->name : NULL;
    *dimensions = param ? (size_t)param->dimensions : 0;
    *shape = param ? param->shape : NULL;
    *values = param ? m->inference.run.params + param->offset : NULL;
    return HALAY_OK;
}

static enum halay_status refuse_blend(struct halay_log *log, const struct tft_schema *schema)
{
    for (size_t o = 0; o < schema->target_count; o++)
        if (schema->inputs[schema->targets[o]].blend)
            return halay_fail(
                log, HALAY_ERR_FORMAT,
                "target '%s' has a 'blend', whose weights only a training finds: prepare the data without it",
                schema->inputs[schema->targets[o]].name);
    return HALAY_OK;
}

/* Copies the tensors, which begin at aligned places in the model's block. */
static enum halay_status take_weights(struct halay_log *log, const struct halay_tft_create_options *o,
                                      struct tft_run *run)
{
    const struct tft_param_table *table = tft_model_params(run->model);
    const size_t wanted = tft_model_param_count(run->model);
    const float *from = o->weights;

    memset(run->params, 0, table->reals * sizeof *run->params);
    if (from && o->weight_count != wanted)
        return halay_fail(log, HALAY_ERR_ARGUMENT, "%zu weights for a model of %zu", o->weight_count, wanted);
    for (size_t i = 0; from && i < table->count; i++) {
        memcpy(run->params + table->params[i].offset, from, table->params[i].count * sizeof *from);
        from += table->params[i].count;
    }
    return HALAY_OK;
}

/* Fills in the run of a new model; the caller frees it also after an error. */
static enum halay_status create_run(struct halay_tft *t, const struct halay_tft_create_options *o, struct tft_run *run)
{
    struct tft_run_config config;
    struct tft_device device;

    if (!o->data == !o->like || (o->like && o->config))
        return halay_fail(&t->log, HALAY_ERR_ARGUMENT,
                          "a model's inputs, scalers and keys come either from data and a configuration or "
                          "from a model");
    const struct tft_schema *schema = o->data ? &o->data->data.schema : &o->like->inference.run.schema;
    const struct tft_encoding *encoding = o->data ? &o->data->data.encoding : &o->like->inference.run.encoding;
    enum halay_status status = refuse_blend(&t->log, schema);
    if (status)
        return status;
    if (o->like)
        config = o->like->inference.run.config;
    else if ((status = tft_session_config(t, o->config, &config)))
        return status;
    if ((status = tft_session_device(t, &device)))
        return status;
    json_t *document = tft_run_describe(&t->log, &config, schema, encoding);
    status = document ? tft_run_of(&t->log, "a new model", document, &device, run) : HALAY_ERR_NO_MEMORY;
    json_decref(document);
    return status ? status : take_weights(&t->log, o, run);
}

static enum halay_status make_model(struct halay_tft *t, const struct halay_tft_create_options *options,
                                    struct halay_tft_model **model)
{
    struct halay_tft_create_options given;
    struct halay_tft_model *m = NULL;
    enum halay_status status;

    if ((status = TFT_READ(t, halay_tft_create_options, options, &given)) || (status = model_create(t, &m)) ||
        (status = create_run(t, &given, &m->inference.run)))
        halay_tft_model_close(m);
    else
        *model = m;
    return status;
}

enum halay_status halay_tft_model_create(struct halay_tft *t, const struct halay_tft_create_options *options,
                                         struct halay_tft_model **model)
{
    return TFT_CALL(t && options && model, t, make_model(t, options, model));
}

/* ---- save ---- */

static enum halay_status save_model(const struct halay_tft_model *m, const char *folder)
{
    const struct tft_run *run = &m->inference.run;
    const struct tft_param_table *table = tft_model_params(run->model);
    struct halay_log *log = &m->tft->log;
    enum halay_status status;

    if ((status = tft_run_begin(log, folder, run->document, 0)) ||
        (m->calibration && (status = tft_calibration_save(log, folder, m->calibration))) ||
        (run->refit &&
         (status = tft_run_save_refit(log, folder, run->document, run->step, table, run->params, run->refit))) ||
        (status = tft_run_save_members(log, folder, run->document, run->step, table, run->params, &run->members)))
        return status;
    /* last: a folder with a model is complete */
    return tft_run_save_best(log, folder, run->document, run->step, &run->blend, table, run->params, 0);
}

enum halay_status halay_tft_model_save(const struct halay_tft_model *m, const char *folder)
{
    return TFT_CALL(m && folder, m->tft, save_model(m, folder));
}

/* ---- describe ---- */

/* Lists the names of a selection's inputs. */
static json_t *list_selected(const struct tft_model_config *c, enum tft_choice choice)
{
    size_t variables[TFT_VARIABLES_MAX], count = tft_config_choice(c, choice, variables);
    json_t *names = json_array();

    for (size_t j = 0; names && j < count; j++)
        json_array_append_new(names, json_string(c->variables[variables[j]].name));
    return names;
}

static json_t *list_targets(const struct tft_schema *s)
{
    json_t *names = json_array();

    for (size_t o = 0; names && o < s->target_count; o++)
        json_array_append_new(names, json_string(s->inputs[s->targets[o]].name));
    return names;
}

static json_t *list_inputs(const struct tft_model_config *config)
{
    static const char *const roles[] = {
        [TFT_STATIC] = "static", [TFT_KNOWN] = "known", [TFT_OBSERVED] = "observed", [TFT_TARGET] = "target"
    };
    json_t *list = json_array();

    for (size_t i = 0; list && i < config->variable_count; i++) {
        const struct tft_variable *v = &config->variables[i];
        json_array_append_new(list, json_pack("{ss ss ss sI}", "name", v->name, "role", roles[v->role], "type",
                                              v->type == TFT_CATEGORY ? "category" : "real", "categories",
                                              (json_int_t)v->categories));
    }
    return list;
}

static json_t *describe_model(const struct halay_tft_model *m)
{
    const struct tft_run *run = &m->inference.run;
    const struct tft_model_config *c = tft_model_config(run->model);
    json_t *selected = json_pack("{so so so}", "static", list_selected(c, TFT_CHOICE_STATIC), "past",
                                 list_selected(c, TFT_CHOICE_HISTORY), "future", list_selected(c, TFT_CHOICE_FUTURE));

    return json_pack("{ss sO sO sI sI so so so so sI sI sI sI sb sb sb sb}", "kind", "model", "config",
                     json_object_get(run->document, "config"), "schema", run->schema.document, "encoder",
                     (json_int_t)run->schema.encoder, "horizon", (json_int_t)run->schema.horizon, "quantiles",
                     tft_list_json(&run->config.quantiles), "targets", list_targets(&run->schema), "inputs",
                     list_inputs(c), "selected", selected, "heads", (json_int_t)c->heads, "parameters",
                     (json_int_t)tft_model_param_count(run->model), "members", (json_int_t)run->members.count + 1,
                     "step", (json_int_t)run->step, "calibrated", m->calibration != NULL, "refitted",
                     run->refit != NULL, "needs_future", tft_model_needs_future(m), "blended",
                     !tft_blend_is_model(&run->blend));
}

enum halay_status halay_tft_model_describe(const struct halay_tft_model *m, char **json)
{
    return TFT_CALL(m && json, m->tft, tft_session_text(m->tft, describe_model(m), json));
}

enum halay_status halay_tft_model_inputs(const struct halay_tft_model *m, char **json)
{
    return TFT_CALL(m && json, m->tft,
                    tft_session_text(m->tft, tft_profile_json(m->profile, &m->inference.run.schema), json));
}

/* ---- data for a call ---- */

enum halay_status tft_model_enter_pass(struct halay_tft_model *m)
{
    struct tft_inference *s = &m->inference;
    enum halay_status status = tft_session_enter_ranks(m->tft);

    if (status)
        return status;
    s->ctx = m->tft->ctx;
    s->rank = m->tft->rank;
    return tft_inference_start(s);
}

enum halay_status tft_model_enter(struct halay_tft_model *m)
{
    enum halay_status status = tft_model_enter_pass(m);

    if (status || !m->passes)
        return status;
    return halay_fail(&m->tft->log, HALAY_ERR_ARGUMENT,
                      "a pass over windows with this model is open: halay_tft_pass_close ends it");
}

enum halay_status tft_model_begin(struct halay_tft_model *m)
{
    m->tft->owes_status = 1;
    m->tft->entered = tft_model_enter(m);
    return m->tft->entered;
}

enum halay_status tft_model_leave(struct halay_tft_model *m, enum halay_status status)
{
    if (m->tft->owes_status)
        status = tft_session_agree(m->tft, status);
    tft_model_return_data(m);
    return tft_session_leave_stopped(m->tft, status);
}

static enum halay_status take_calibration(struct halay_tft_model *m, struct tft_calibration *calibration)
{
    const struct tft_inference *s = &m->inference;
    enum halay_status status;

    if (!m->calibration && !m->folder)
        return halay_fail(s->log, HALAY_ERR_ARGUMENT,
                          "the model has no calibration: halay_tft_calibrate makes one, 'none' does without");
    if (!m->calibration && (status = tft_calibration_read(s->log, m->folder, &m->calibration)))
        return status;
    return tft_calibration_take(s->log, m->folder, m->calibration, &s->run, &s->data, calibration);
}

/* Reads the folder's calibration if it fits the model's parameters: a training may be writing new ones. */
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

enum halay_status tft_model_calibrate(struct halay_tft_model *m, int calibrate)
{
    struct tft_inference *s = &m->inference;
    struct tft_calibration calibration;
    const enum tft_calibrate_word word = (enum tft_calibrate_word)(calibrate < 0 ? s->run.config.calibrate : calibrate);
    enum halay_status status;

    if (word == TFT_CALIBRATE_NONE)
        return HALAY_OK;
    if (word == TFT_CALIBRATE_AUTO && ((status = find_calibration(m)) || !m->calibration))
        return status;
    if ((status = take_calibration(m, &calibration)))
        return status;
    return tft_calibrator_init(s->log, &s->data, word == TFT_CALIBRATE_ROLLING, &calibration, &s->calibrator);
}

enum halay_status tft_model_lend_data(struct halay_tft_model *m, struct halay_tft_data *data, int calibrate)
{
    struct tft_inference *s = &m->inference;
    enum halay_status status;

    s->data = data->data; /* the data own its memory */
    if (data->model == m)
        return tft_model_calibrate(m, calibrate);
    if ((status = tft_run_check_data(s->log, &s->run, data->path ? data->path : "the data", &data->data)))
        return status;
    tft_model_look(m, &s->data);
    return tft_model_calibrate(m, calibrate);
}

void tft_model_look(struct halay_tft_model *m, struct tft_data *data)
{
    enum { LAST = 1000 }; /* rows of each entity */

    data->loss = (enum tft_loss)m->inference.run.config.loss;
    if (m->inference.rank == 0 && !m->has_warned)
        m->has_warned = tft_targets_warn(m->inference.log, data, LAST);
}

void tft_model_return_data(struct halay_tft_model *m)
{
    if (m->passes)
        return;
    tft_calibrator_fini(&m->inference.calibrator);
    if (m->owns_data)
        tft_data_end(&m->inference.data);
    m->owns_data = 0;
    memset(&m->inference.data, 0, sizeof m->inference.data);
}
