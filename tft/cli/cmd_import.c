/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft import: a run's folder with the parameters of a file from PyTorch: as if it had been trained here.
 *
 * What a model is beside its parameters (inputs, scalers, categories) comes from prepared data and the keys of a
 * configuration, or from another run.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/cli/run_options.h"
#include "tft/data/htd.h"
#include "tft/interop/torch_file.h"
#include "tft/run/run_folder.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: halay-tft import --format nvidia|pytorch-forecasting {--data DATA.htd [--config FILE] [--KEY VALUE...] |\n"
    "                        --checkpoint RUN} FILE.safetensors --out RUN\n"
    "\n"
    "Makes a run's folder of the parameters that another implementation's state_dict() holds, in a safetensors file: "
    "for evaluate,\n"
    "predict, export and 'train --init-from'.\n"
    "\n"
    "  --format FORMAT      nvidia (DeepLearningExamples' TFT) or pytorch-forecasting: also the model's conformance\n"
    "  --data FILE          data prepared by the schema of the model's inputs; the model as the keys say: those of "
    "train\n"
    "                       (--hidden-size, --heads, --quantiles, --hidden-continuous-size, ...)\n"
    "  --checkpoint FOLDER  inputs, scalers and keys as in this run\n"
    "  --out FOLDER         the run's folder; must not hold a trained model yet\n";

struct request {
    struct halay_log *log;
    enum tft_peer peer;
    const char *file, *out, *data, *checkpoint;
    struct tft_run_config config; /* with data */
};

/* Conformance is the format's; one that was asked for, and is another, is a mistake. */
static enum halay_status set_conformance(const struct request *r, struct tft_run_config *config)
{
    enum tft_conformance theirs = tft_peer_conformance(r->peer);

    if (config->conformance != TFT_PUBLISHED && config->conformance != (int64_t)theirs) {
        halay_error(r->log, "a file of format '%s' makes a model of that conformance: leave 'conformance' out",
                    tft_peer_name(r->peer));
        return HALAY_ERR_CONFIG;
    }
    config->conformance = (int64_t)theirs;
    return HALAY_OK;
}

/* The run's keys, schema and encoding, from data or from another run. c: of whichever it is. */
static enum halay_status describe(const struct request *r, struct tft_data *data, struct tft_checkpoint *c,
                                  struct tft_run_config *config)
{
    enum halay_status status;

    if (r->data) {
        *config = r->config;
        config->category_dropout = 0; /* others train no row for what they have not seen */
        status = set_conformance(r, config);
        return status ? status : tft_htd_open(r->log, r->data, data);
    }
    status = tft_checkpoint_load(r->log, r->checkpoint, c);
    if (status)
        return status;
    *config = c->config;
    if (config->conformance == (int64_t)tft_peer_conformance(r->peer))
        return HALAY_OK;
    halay_error(r->log, "'%s' is of another conformance than %s; take one of that, or --data and keys", r->checkpoint,
                tft_peer_name(r->peer));
    return HALAY_ERR_ARGUMENT;
}

static enum halay_status write_run(const struct request *r, const struct tft_run_config *config,
                                   const struct tft_schema *schema, const struct tft_encoding *encoding,
                                   const struct tft_model *model, const float *params)
{
    json_t *run = tft_checkpoint_describe(r->log, config, schema, encoding);
    enum halay_status status = run ? tft_checkpoint_begin(r->log, r->out, run, 0) : HALAY_ERR_NO_MEMORY;

    if (!status)
        status = tft_checkpoint_save(r->log, r->out, run, 0, tft_model_params(model), params);
    json_decref(run);
    if (!status)
        printf("%zu parameters; '%s' holds them\n", tft_model_param_count(model), r->out);
    if (!status && fflush(stdout)) {
        halay_error(r->log, "cannot write to standard output");
        status = HALAY_ERR_SYSTEM;
    }
    return status;
}

static enum halay_status make(const struct request *r, const struct tft_run_config *config,
                              const struct tft_schema *schema, const struct tft_encoding *encoding)
{
    struct tft_model_config described;
    struct tft_model *model = NULL;
    struct tft_peer_map map = { 0 };
    float *params = NULL;
    enum halay_status status;

    tft_batches_describe(schema, encoding, config, &described);
    described.dtype = TFT_F32; /* nothing is computed */
    status = tft_peer_check(r->log, r->peer, &described, schema);
    if (!status)
        status = tft_model_create(r->log, &described, &model);
    if (!status)
        status = tft_peer_map_init(r->log, r->peer, &described, tft_model_params(model), &map);
    if (!status) {
        params = calloc(tft_model_param_count(model), sizeof *params);
        status = params ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        if (status)
            halay_error(r->log, "no memory for the parameters of '%s'", r->file);
    }
    if (!status)
        status = tft_peer_file_read(r->log, r->file, &map, params);
    if (!status)
        status = write_run(r, config, schema, encoding, model, params);
    free(params);
    tft_peer_map_fini(&map);
    tft_model_destroy(model);
    return status;
}

static enum halay_status import_file(const struct request *r)
{
    struct tft_data data = { 0 };
    struct tft_checkpoint c = { 0 };
    struct tft_run_config config;
    enum halay_status status = describe(r, &data, &c, &config);

    if (!status)
        status = r->data ? make(r, &config, &data.schema, &data.encoding) : make(r, &config, &c.schema, &c.encoding);
    tft_checkpoint_fini(&c);
    tft_data_fini(&data);
    return status;
}

int tft_cmd_import(struct halay_log *log, int argc, char **argv)
{
    struct request r = { .log = log };
    const char *format = NULL, *config = NULL;
    const struct tft_option list[] = { { "format", 0, &format, NULL }, { "data", 0, &r.data, NULL },
                                       { "config", 0, &config, NULL }, { "checkpoint", 0, &r.checkpoint, NULL },
                                       { "out", 'o', &r.out, NULL },   { NULL, 0, NULL, NULL } };
    struct tft_options options = { .log = log, .command = "halay-tft import", .help = help, .list = list };
    size_t keys;
    int rest, status = tft_run_options_parse(&options, &config, NULL, argc, argv, &rest, &keys, &r.config);

    if (status >= 0)
        return status;
    if (!format)
        return tft_options_missing(&options, "--format");
    if (!r.data == !r.checkpoint)
        return tft_options_missing(&options, "one of --data and --checkpoint");
    if (r.checkpoint && (config || keys)) {
        halay_error(log, "keys of a configuration go with --data; with --checkpoint they are that run's");
        return TFT_EXIT_USAGE;
    }
    if (rest != 1)
        return tft_options_missing(&options, "the one FILE.safetensors to read");
    if (!r.out)
        return tft_options_missing(&options, "--out");
    if (tft_peer_named(log, format, &r.peer))
        return TFT_EXIT_USAGE;
    r.file = argv[0];
    enum halay_status done = import_file(&r);
    return done == HALAY_ERR_CONFIG ? TFT_EXIT_USAGE : done ? TFT_EXIT_FAILED : TFT_EXIT_OK;
}
