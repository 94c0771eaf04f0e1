/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on models: open, create, save, describe.
 */
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

/* Returns NULL without memory (logged). */
static struct halay_tft_model *new_model(struct halay_tft *t)
{
    struct halay_tft_model *m = calloc(1, sizeof *m);

    if (!m) {
        halay_error(&t->log, "no memory for a model");
        return NULL;
    }
    m->tft = t;
    m->inference = (struct tft_inference){ .log = &t->log, .stop = &t->stop };
    return m;
}

enum halay_status tft_model_of_folder(struct halay_tft *t, const char *folder, int stays,
                                      struct halay_tft_model **model)
{
    struct halay_tft_model *m = new_model(t);

    if (!m)
        return HALAY_ERR_NO_MEMORY;
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
        if (schema->inputs[schema->targets[o]].blend) {
            halay_error(log,
                        "target '%s' has a 'blend', whose weights only a training finds: prepare the data without it",
                        schema->inputs[schema->targets[o]].name);
            return HALAY_ERR_FORMAT;
        }
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
    if (from && o->weight_count != wanted) {
        halay_error(log, "%zu weights for a model of %zu", o->weight_count, wanted);
        return HALAY_ERR_ARGUMENT;
    }
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

    if (!o->data == !o->like || (o->like && o->config)) {
        halay_error(&t->log, "a model's inputs, scalers and keys come either from data and a configuration or "
                             "from a model");
        return HALAY_ERR_ARGUMENT;
    }
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

enum halay_status halay_tft_model_create(struct halay_tft *t, const struct halay_tft_create_options *options,
                                         struct halay_tft_model **model)
{
    struct halay_tft_create_options given;

    if (!t || !options || !model)
        return tft_session_refuse_null("halay_tft_model_create", "an argument");
    tft_session_enter(t);
    enum halay_status status =
        halay_struct_read(&t->log, "halay_tft_create_options", options, sizeof given, sizeof given, &given);
    if (status)
        return tft_session_leave(t, status);
    struct halay_tft_model *m = new_model(t);
    status = m ? create_run(t, &given, &m->inference.run) : HALAY_ERR_NO_MEMORY;
    if (status)
        halay_tft_model_close(m);
    else
        *model = m;
    return tft_session_leave(t, status);
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
    if (!status) /* last: a folder with a model is complete */
        status = tft_run_save_best(log, folder, run->document, run->step, &run->blend, tft_model_params(run->model),
                                   run->params, 0);
    return tft_session_leave(m->tft, status);
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

enum halay_status halay_tft_model_describe(const struct halay_tft_model *m, char **json)
{
    if (!m || !json)
        return tft_session_refuse_null("halay_tft_model_describe", "an argument");
    const struct tft_run *run = &m->inference.run;
    tft_session_enter(m->tft);
    const struct tft_model_config *c = tft_model_config(run->model);
    json_t *selected = json_pack("{so so so}", "static", list_selected(c, TFT_CHOICE_STATIC), "past",
                                 list_selected(c, TFT_CHOICE_HISTORY), "future", list_selected(c, TFT_CHOICE_FUTURE));
    json_t *all =
        json_pack("{ss sO sO sI sI so so so so sI sI sI sI sb sb sb}", "kind", "model", "config",
                  json_object_get(run->document, "config"), "schema", run->schema.document, "encoder",
                  (json_int_t)run->schema.encoder, "horizon", (json_int_t)run->schema.horizon, "quantiles",
                  tft_list_json(&run->config.quantiles), "targets", list_targets(&run->schema), "inputs",
                  list_inputs(c), "selected", selected, "heads", (json_int_t)c->heads, "parameters",
                  (json_int_t)tft_model_param_count(run->model), "members", (json_int_t)run->members.count + 1, "step",
                  (json_int_t)run->step, "calibrated", m->calibration != NULL, "refitted", run->refit != NULL,
                  "needs_future", tft_model_needs_future(m));
    return tft_session_leave(m->tft, tft_session_text(m->tft, all, json));
}

enum halay_status halay_tft_model_inputs(const struct halay_tft_model *model, char **json)
{
    if (!model || !json)
        return tft_session_refuse_null("halay_tft_model_inputs", "an argument");
    tft_session_enter(model->tft);
    json_t *inputs = tft_profile_json(model->profile, &model->inference.run.schema);
    return tft_session_leave(model->tft, tft_session_text(model->tft, inputs, json));
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
    halay_error(&m->tft->log, "a pass over windows with this model is open: halay_tft_pass_close ends it");
    return HALAY_ERR_ARGUMENT;
}

static enum halay_status take_calibration(const struct halay_tft_model *m, struct tft_calibration *calibration)
{
    const struct tft_inference *s = &m->inference;

    if (!m->calibration && m->folder) /* reports how to make one */
        return tft_calibration_load(s->log, m->folder, &s->run, &s->data, calibration);
    if (!m->calibration) {
        halay_error(s->log, "the model has no calibration: halay_tft_calibrate makes one, 'none' does without");
        return HALAY_ERR_ARGUMENT;
    }
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

    s->data = data->data; /* the data own its memory */
    if (data->model == m)
        return tft_model_calibrate(m, calibrate);
    enum halay_status status = tft_run_check_data(s->log, &s->run, data->path ? data->path : "the data", &data->data);
    if (status)
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
