/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft export: a run's model as a file for another program, and what that has to know of it.
 */
#include "tft/tools/cli/session.h"
#include <string.h>

struct request {
    const char *checkpoint;
    struct halay_tft_export_options how;
};

static const char *const formats[] = { "nvidia", "pytorch-forecasting", "onnx", NULL };

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint),
      .required = "--checkpoint" },
    { "--format", NULL, NULL,
      "onnx: a graph that forecasts from a table's own values; for PyTorch, nvidia: DeepLearningExamples' TFT, of a "
      "model trained with 'conformance: nvidia' or published; pytorch-forecasting: of one trained with 'conformance: "
      "pytorch-forecasting'",
      HALAY_OPTION_WORD, SETS(how.format), .words = formats, .required = "--format" },
    { "--explain", NULL, NULL, "onnx: also the weights of inputs, and attention", HALAY_OPTION_FLAG,
      SETS(how.explains) },
    { "--calibrate", NULL, NULL,
      "onnx: how intervals are calibrated (as the run was trained); a graph cannot 'rolling'", HALAY_OPTION_WORD,
      SETS(how.calibrate), .words = tft_option_calibrations },
    { "--out", "-o", "FILE", "the file to write", HALAY_OPTION_TEXT, SETS(how.path), .required = "-o" },
    { "--config", NULL, "FILE", "write what is printed there instead", HALAY_OPTION_TEXT, SETS(how.about) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft export",
    .synopsis = "--checkpoint RUN --format FORMAT -o FILE [--config FILE] [--explain] [--calibrate HOW]",
    .about =
        "Writes a trained model for another program, and prints as JSON what that has to know. As an ONNX graph, with "
        "scalers and categories: its inputs, in order, and what to feed to each. As a safetensors file with the names, "
        "shapes and layouts of another implementation's state_dict(): the arguments of the constructor that makes such "
        "a model.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status export_run(struct halay_log *log, struct halay_tft *tft, void *request)
{
    const struct request *r = request;
    struct halay_tft_model *model = NULL;
    char *about = NULL;
    enum halay_status status = halay_tft_model_open(tft, r->checkpoint, &model);

    (void)log;
    if (!status)
        status = halay_tft_model_export(model, &r->how, &about);
    halay_tft_free(about);
    halay_tft_model_close(model);
    return status;
}

int tft_cmd_export(struct halay_log *log, char **argv)
{
    struct request r = { .how.struct_size = sizeof r.how };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!strcmp(r.how.path, "-") && !r.how.about)
        return tft_options_missing(log, &command_line, "--config FILE (standard output is taken by -o)");
    if (strcmp(r.how.format, "onnx") != 0 && (r.how.explains || r.how.calibrate)) {
        halay_error(log, "'%s' goes with '--format onnx'", r.how.explains ? "--explain" : "--calibrate");
        return EXIT_USAGE;
    }
    r.how.about = r.how.about ? r.how.about : "-";
    return tft_command_run(log, NULL, NULL, export_run, &r);
}
