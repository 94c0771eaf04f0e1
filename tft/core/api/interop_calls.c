/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from PyTorch's files, as a call. Everything but the parameters (inputs, scalers, categories) comes from
 * prepared data and the keys of a configuration, or from another model.
 */
#include "base/struct_size.h"
#include "tft/core/api/model_calls.h"
#include "tft/tools/export/torch_file.h"
#include <stdlib.h>

/* A call while it runs. */
struct work {
    struct halay_tft *tft;
    struct halay_log *log; /* the session's */
    const struct halay_tft_import_options *options;
    enum tft_torch_format format;
    struct tft_run_config config;
};

/* The conformance is that of the format; asking for another one is a mistake. */
static enum halay_status set_conformance(struct work *w)
{
    const int64_t theirs = tft_torch_conformance(w->format);

    if (w->config.conformance != TFT_PUBLISHED && w->config.conformance != theirs) {
        halay_error(w->log, "a file of format '%s' makes a model of that conformance: leave 'conformance' out",
                    tft_torch_format_name(w->format));
        return HALAY_ERR_CONFIG;
    }
    w->config.conformance = theirs;
    return HALAY_OK;
}

static enum halay_status choose_config(struct work *w)
{
    const struct halay_tft_model *like = w->options->like;

    if (!like) {
        enum halay_status status = tft_session_config(w->tft, w->options->config, &w->config);
        return status ? status : set_conformance(w);
    }
    w->config = like->inference.run.config;
    if (w->config.conformance == (int64_t)tft_torch_conformance(w->format))
        return HALAY_OK;
    halay_error(w->log, "'%s' is of another conformance than %s; take one of that, or --data and keys",
                like->folder ? like->folder : "the model", tft_torch_format_name(w->format));
    return HALAY_ERR_ARGUMENT;
}

static enum halay_status write_run(const struct work *w, const struct tft_schema *schema,
                                   const struct tft_encoding *encoding, const struct tft_model *model,
                                   const float *params)
{
    json_t *run = tft_run_describe(w->log, &w->config, schema, encoding);
    enum halay_status status = run ? tft_run_begin(w->log, w->options->folder, run, 0) : HALAY_ERR_NO_MEMORY;

    if (!status)
        status = tft_run_save_best(w->log, w->options->folder, run, 0, NULL, tft_model_params(model), params, 0);
    json_decref(run);
    return status;
}

static enum halay_status import_params(const struct work *w, const struct tft_schema *schema,
                                       const struct tft_encoding *encoding)
{
    struct tft_model_config described;
    struct tft_model *model = NULL;
    struct tft_torch_map map = { 0 };
    float *params = NULL;
    enum halay_status status;

    for (size_t o = 0; o < schema->target_count; o++)
        if (schema->inputs[schema->targets[o]].blend) {
            halay_error(w->log,
                        "target '%s' has a 'blend', whose weights only a training finds: prepare the data without it",
                        schema->inputs[schema->targets[o]].name);
            return HALAY_ERR_FORMAT;
        }
    tft_batches_describe(schema, encoding, &w->config, &described);
    described.dtype = TFT_F32; /* nothing is computed */
    status = tft_torch_check(w->log, w->format, &described, schema);
    if (!status)
        status = tft_model_create(w->log, &described, &model);
    if (!status)
        status = tft_torch_map_init(w->log, w->format, &described, tft_model_params(model), &map);
    if (!status) {
        params = calloc(tft_model_params(model)->reals, sizeof *params);
        status = params ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        if (status)
            halay_error(w->log, "no memory for the parameters of '%s'", w->options->file);
    }
    if (!status)
        status = tft_torch_file_read(w->log, w->options->file, &map, params);
    if (!status)
        status = write_run(w, schema, encoding, model, params);
    free(params);
    tft_torch_map_fini(&map);
    tft_model_destroy(model);
    return status;
}

static enum halay_status check_options(struct work *w)
{
    const struct halay_tft_import_options *o = w->options;

    if (!o->format || !o->file || !o->folder)
        halay_error(w->log, "halay_tft_import: format, file or folder is NULL");
    else if (!o->data == !o->like)
        halay_error(w->log, "a model's inputs and scalers are either those of data or those of a model");
    else if (o->like && o->config)
        halay_error(w->log, "a configuration goes with data; with a model it is that model's");
    else
        return tft_torch_format_parse(w->log, o->format, &w->format);
    return HALAY_ERR_ARGUMENT;
}

enum halay_status halay_tft_import(struct halay_tft *t, const struct halay_tft_import_options *options,
                                   struct halay_tft_model **model)
{
    struct halay_tft_import_options given;
    struct work w = { .tft = t, .options = &given };

    if (!t || !options || !model)
        return tft_session_refuse_null("halay_tft_import", "an argument");
    w.log = &t->log;
    tft_session_enter(t);
    enum halay_status status =
        halay_struct_read(&t->log, "halay_tft_import_options", options, sizeof given, sizeof given, &given);
    if (!status)
        status = check_options(&w);
    if (!status)
        status = choose_config(&w);
    if (!status && given.data)
        status = import_params(&w, &given.data->data.schema, &given.data->data.encoding);
    else if (!status)
        status = import_params(&w, &given.like->inference.run.schema, &given.like->inference.run.encoding);
    if (!status)
        status = tft_model_of_folder(t, given.folder, 1, model);
    return tft_session_leave(t, status);
}
