/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft import: makes a run's folder from the parameters of a PyTorch model, as if it had been trained here.
 */
#include "tft/tools/cli/run_options.h"
#include "tft/tools/cli/session.h"
#include <stdio.h>
#include <stdlib.h>

struct request {
    struct tft_run_keys keys; /* first: run_options.h */
    const char *data, *checkpoint;
    struct halay_arguments files;        /* one */
    struct halay_tft_import_options how; /* the rest of it */
    int is_misused;                      /* the configuration does not fit */
};

static const char *const formats[] = { "nvidia", "pytorch-forecasting", NULL };

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "FILE", NULL, NULL, "the parameters, .safetensors", HALAY_OPTION_ARGUMENTS, SETS(files) },
    { "--format", NULL, NULL, "DeepLearningExamples' TFT or pytorch-forecasting's; also the model's conformance",
      HALAY_OPTION_WORD, SETS(how.format), .words = formats },
    { "--data", NULL, "FILE",
      "data prepared by a schema with the model's inputs; the model's keys are those of train (--hidden-size, --heads, "
      "--quantiles, --hidden-continuous-size, ...)",
      HALAY_OPTION_TEXT, SETS(data) },
    { "--config", NULL, "FILE", "with --data: keys and values, YAML or JSON", HALAY_OPTION_TEXT, SETS(keys.file) },
    { "--checkpoint", NULL, "FOLDER", "inputs, scalers and keys as in this run", HALAY_OPTION_TEXT, SETS(checkpoint) },
    { "--out", "-o", "FOLDER", "the run's folder; must not hold a trained model yet", HALAY_OPTION_TEXT,
      SETS(how.folder) },
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

static enum halay_status print_count(struct halay_log *log, const struct halay_tft_model *model, const char *folder)
{
    char *text = NULL;
    enum halay_status status = halay_tft_model_describe(model, &text);

    if (status)
        return status;
    json_t *description = json_loads(text, 0, NULL);
    printf("%lld parameters; '%s' holds them\n",
           (long long)json_integer_value(json_object_get(description, "parameters")), folder);
    json_decref(description);
    halay_tft_free(text);
    return tft_command_flush(log);
}

static enum halay_status import_file(struct halay_log *log, struct halay_tft *tft, void *request)
{
    struct request *r = request;
    struct halay_tft_model *like = NULL, *model = NULL;
    enum halay_status status =
        r->data ? halay_tft_data_open(tft, r->data, &r->how.data) : halay_tft_model_open(tft, r->checkpoint, &like);

    r->how.like = like;
    if (!status)
        status = halay_tft_import(tft, &r->how, &model);
    r->is_misused = status == HALAY_ERR_CONFIG;
    if (!status)
        status = print_count(log, model, r->how.folder);
    halay_tft_model_close(model);
    halay_tft_model_close(like);
    halay_tft_data_close(r->how.data);
    return status;
}

static int check_line(struct halay_log *log, const struct request *r)
{
    if (!r->how.format)
        return tft_options_missing(log, &command_line, "--format");
    if (!r->data == !r->checkpoint)
        return tft_options_missing(log, &command_line, "one of --data and --checkpoint");
    if (r->checkpoint && (r->keys.file || r->keys.count)) {
        halay_error(log, "keys of a configuration go with --data; with --checkpoint they are that run's");
        return EXIT_USAGE;
    }
    if (r->files.count != 1)
        return tft_options_missing(log, &command_line, "the one FILE.safetensors to read");
    if (!r->how.folder)
        return tft_options_missing(log, &command_line, "--out");
    return -1;
}

int tft_cmd_import(struct halay_log *log, char **argv)
{
    struct request r = { .how.struct_size = sizeof r.how };
    char *config = NULL;
    int status = tft_run_options_parse(log, &command_line, NULL, argv, &r, &config);

    if (status < 0)
        status = check_line(log, &r);
    if (status < 0) {
        r.how.file = r.files.at[0];
        r.how.config = r.data ? config : NULL;
        status = tft_command_run(log, NULL, NULL, import_file, &r);
        status = r.is_misused ? EXIT_USAGE : status;
    }
    halay_tft_free(config);
    return status;
}
