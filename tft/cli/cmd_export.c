/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft export: a run's parameters as a file for PyTorch, and the arguments of its model's constructor.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/output_file.h"
#include "tft/interop/torch_file.h"
#include "tft/run/run_folder.h"
#include <stdio.h>
#include <string.h>

struct request {
    const char *checkpoint, *word, *out, *config; /* word: of --format; config: "-": standard output */
    enum tft_torch_format format;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint) },
    { "--format", NULL, "nvidia|pytorch-forecasting",
      "nvidia: DeepLearningExamples' TFT, of a model trained with 'conformance: nvidia' or published; "
      "pytorch-forecasting: of one trained with 'conformance: pytorch-forecasting'",
      HALAY_OPTION_TEXT, SETS(word) },
    { "--out", "-o", "FILE", "the file to write", HALAY_OPTION_TEXT, SETS(out) },
    { "--config", NULL, "FILE", "write the arguments there instead of printing them", HALAY_OPTION_TEXT, SETS(config) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft export",
    .synopsis = "--checkpoint RUN --format FORMAT -o FILE.safetensors [--config FILE]",
    .about =
        "Writes the parameters of a trained model with the names, shapes and layouts of another implementation's "
        "state_dict(), for its load_state_dict(), and prints the arguments of the constructor that makes such a model.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status write_arguments(struct halay_log *log, const char *path, enum tft_torch_format format,
                                         const struct tft_run *c)
{
    struct tft_output out = { 0 };
    json_t *arguments = tft_torch_arguments(format, tft_model_config(c->model), &c->config);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (arguments)
        status = tft_output_open(log, path, &out);
    else
        halay_error(log, "no memory for the arguments");
    if (!status) {
        json_dumpf(arguments, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        fputc('\n', out.file);
        status = tft_output_commit(&out);
    }
    json_decref(arguments);
    return status;
}

static enum halay_status export_run(struct halay_log *log, const struct request *r)
{
    struct tft_run c = { 0 };
    struct tft_torch_map map = { 0 };
    enum halay_status status = tft_run_load(log, r->checkpoint, &c);

    if (status)
        return status;
    status = tft_torch_check(log, r->format, tft_model_config(c.model), &c.schema);
    if (!status)
        status = tft_torch_map_init(log, r->format, tft_model_config(c.model), tft_model_params(c.model), &map);
    if (!status)
        status = tft_torch_file_write(log, r->out, &map, c.params);
    if (!status)
        status = write_arguments(log, r->config, r->format, &c);
    tft_torch_map_fini(&map);
    tft_run_fini(&c);
    return status;
}

int tft_cmd_export(struct halay_log *log, char **argv)
{
    struct request r = { .config = NULL };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(log, &command_line, "--checkpoint");
    if (!r.word)
        return tft_options_missing(log, &command_line, "--format");
    if (!r.out)
        return tft_options_missing(log, &command_line, "-o");
    if (!strcmp(r.out, "-") && !r.config)
        return tft_options_missing(log, &command_line, "--config FILE (standard output is taken by -o)");
    if (tft_torch_format_parse(log, r.word, &r.format))
        return EXIT_USAGE;
    r.config = r.config ? r.config : "-";
    return export_run(log, &r) ? EXIT_FAILURE : EXIT_SUCCESS;
}
