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

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint),
      .required = "--checkpoint" },
    { "--format", NULL, "onnx", "a graph that forecasts from a table's own values", HALAY_OPTION_TEXT, SETS(how.format),
      .required = "--format" },
    { "--explain", NULL, NULL, "also the weights of inputs, and attention", HALAY_OPTION_FLAG, SETS(how.explains) },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained); a graph cannot 'rolling'",
      HALAY_OPTION_CHOICE, SETS(how.calibrate), .choices = tft_option_calibrations },
    { "--out", "-o", "FILE", "the file to write", HALAY_OPTION_TEXT, SETS(how.path), .required = "-o" },
    { "--config", NULL, "FILE", "write what is printed there instead", HALAY_OPTION_TEXT, SETS(how.about) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft export",
    .synopsis = "--checkpoint RUN --format onnx -o FILE [--config FILE] [--explain] [--calibrate HOW]",
    .about = "Writes a trained model as an ONNX graph, with scalers and categories, and prints as JSON its inputs, in "
             "order, and what to feed to each. For PyTorch there is halay.tft.export_torch in Python.",
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
    if (strcmp(r.how.format, "onnx") != 0) {
        halay_error(log,
                    "unknown format '%s': onnx is written here; Python writes nvidia and pytorch-forecasting: "
                    "halay.tft.Forecaster.load('%s').export('%s', format='nvidia')",
                    r.how.format, r.checkpoint, r.how.path);
        return EXIT_USAGE;
    }
    r.how.about = r.how.about ? r.how.about : "-";
    return tft_command_run(log, NULL, NULL, export_run, &r);
}
