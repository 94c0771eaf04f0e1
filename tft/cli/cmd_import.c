/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft import: makes a run's folder from the parameters of a PyTorch model, as if it had been trained here.
 *
 * Everything else of a model (inputs, scalers, categories) comes from prepared data and the keys of a configuration, or
 * from another run.
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

struct request {
    struct tft_run_keys keys; /* first: run_options.h */
    struct halay_log *log;
    enum tft_torch_format format;
    const char *word, *out, *data, *checkpoint; /* word: of --format */
    struct halay_arguments files;               /* one */
    struct tft_run_config config;               /* with data */
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "FILE", NULL, NULL, "the parameters, .safetensors", HALAY_OPTION_ARGUMENTS, SETS(files) },
    { "--format", NULL, "nvidia|pytorch-forecasting",
      "DeepLearningExamples' TFT or pytorch-forecasting's; also the model's conformance", HALAY_OPTION_TEXT,
      SETS(word) },
    { "--data", NULL, "FILE",
      "data prepared by a schema with the model's inputs; the model's keys are those of train (--hidden-size, --heads, "
      "--quantiles, --hidden-continuous-size, ...)",
      HALAY_OPTION_TEXT, SETS(data) },
    { "--config", NULL, "FILE", "with --data: keys and values, YAML or JSON", HALAY_OPTION_TEXT, SETS(keys.file) },
    { "--checkpoint", NULL, "FOLDER", "inputs, scalers and keys as in this run", HALAY_OPTION_TEXT, SETS(checkpoint) },
    { "--out", "-o", "FOLDER", "the run's folder; must not hold a trained model yet", HALAY_OPTION_TEXT, SETS(out) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft import",
    .synopsis =
        "--format FORMAT --data DATA.htd [OPTION]... FILE --out RUN\n--format FORMAT --checkpoint RUN FILE --out RUN",
    .about = "Makes a run's folder of the parameters that another implementation's state_dict() holds, in a "
             "safetensors file: for evaluate, predict, export and 'train --init-from'.",
    .table = option_rows,
    .is_lenient = 1,
};

/* The conformance is that of the format; asking for another one is a mistake. */
static enum halay_status set_conformance(const struct request *r, struct tft_run_config *config)
{
    enum tft_conformance theirs = tft_torch_conformance(r->format);

    if (config->conformance != TFT_PUBLISHED && config->conformance != (int64_t)theirs) {
        halay_error(r->log, "a file of format '%s' makes a model of that conformance: leave 'conformance' out",
                    tft_torch_format_name(r->format));
        return HALAY_ERR_CONFIG;
    }
    config->conformance = (int64_t)theirs;
    return HALAY_OK;
}

/* The run's keys, schema and encoding, from data or from another run, c. */
static enum halay_status describe_run(const struct request *r, struct tft_data *data, struct tft_run *c,
                                      struct tft_run_config *config)
{
    enum halay_status status;

    if (r->data) {
        *config = r->config;
        config->category_dropout = 0; /* other implementations train no row for unseen values */
        status = set_conformance(r, config);
        return status ? status : tft_htd_open(r->log, r->data, data);
    }
    status = tft_run_load(r->log, r->checkpoint, c);
    if (status)
        return status;
    *config = c->config;
    if (config->conformance == (int64_t)tft_torch_conformance(r->format))
        return HALAY_OK;
    halay_error(r->log, "'%s' is of another conformance than %s; take one of that, or --data and keys", r->checkpoint,
                tft_torch_format_name(r->format));
    return HALAY_ERR_ARGUMENT;
}

static enum halay_status write_run(const struct request *r, const struct tft_run_config *config,
                                   const struct tft_schema *schema, const struct tft_encoding *encoding,
                                   const struct tft_model *model, const float *params)
{
    json_t *run = tft_run_describe(r->log, config, schema, encoding);
    enum halay_status status = run ? tft_run_begin(r->log, r->out, run, 0) : HALAY_ERR_NO_MEMORY;

    if (!status)
        status = tft_run_save_best(r->log, r->out, run, 0, 1, tft_model_params(model), params);
    json_decref(run);
    if (!status)
        printf("%zu parameters; '%s' holds them\n", tft_model_param_count(model), r->out);
    if (!status && fflush(stdout)) {
        halay_error(r->log, "cannot write to standard output");
        status = HALAY_ERR_SYSTEM;
    }
    return status;
}

static enum halay_status import_params(const struct request *r, const struct tft_run_config *config,
                                       const struct tft_schema *schema, const struct tft_encoding *encoding)
{
    struct tft_model_config described;
    struct tft_model *model = NULL;
    struct tft_torch_map map = { 0 };
    float *params = NULL;
    enum halay_status status;

    tft_batches_describe(schema, encoding, config, &described);
    described.dtype = TFT_F32; /* nothing is computed */
    status = tft_torch_check(r->log, r->format, &described, schema);
    if (!status)
        status = tft_model_create(r->log, &described, &model);
    if (!status)
        status = tft_torch_map_init(r->log, r->format, &described, tft_model_params(model), &map);
    if (!status) {
        params = calloc(tft_model_param_count(model), sizeof *params);
        status = params ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        if (status)
            halay_error(r->log, "no memory for the parameters of '%s'", r->files.at[0]);
    }
    if (!status)
        status = tft_torch_file_read(r->log, r->files.at[0], &map, params);
    if (!status)
        status = write_run(r, config, schema, encoding, model, params);
    free(params);
    tft_torch_map_fini(&map);
    tft_model_destroy(model);
    return status;
}

static enum halay_status import_file(const struct request *r)
{
    struct tft_data data = { 0 };
    struct tft_run c = { 0 };
    struct tft_run_config config;
    enum halay_status status = describe_run(r, &data, &c, &config);

    if (!status)
        status = r->data ? import_params(r, &config, &data.schema, &data.encoding)
                         : import_params(r, &config, &c.schema, &c.encoding);
    tft_run_fini(&c);
    tft_data_fini(&data);
    return status;
}

int tft_cmd_import(struct halay_log *log, char **argv)
{
    struct request r = { .log = log };
    int status = tft_run_options_parse(log, &command_line, NULL, argv, &r, &r.config);

    if (status >= 0)
        return status;
    if (!r.word)
        return tft_options_missing(log, &command_line, "--format");
    if (!r.data == !r.checkpoint)
        return tft_options_missing(log, &command_line, "one of --data and --checkpoint");
    if (r.checkpoint && (r.keys.file || r.keys.count)) {
        halay_error(log, "keys of a configuration go with --data; with --checkpoint they are that run's");
        return EXIT_USAGE;
    }
    if (r.files.count != 1)
        return tft_options_missing(log, &command_line, "the one FILE.safetensors to read");
    if (!r.out)
        return tft_options_missing(log, &command_line, "--out");
    if (tft_torch_format_parse(log, r.word, &r.format))
        return EXIT_USAGE;
    return tft_exit_status(import_file(&r));
}
