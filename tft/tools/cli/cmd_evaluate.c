/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft evaluate: scores of a run on a split, beside the naive forecasts'; a table for people, JSON for
 * programs.
 */
#include "base/config.h"
#include "tft/tools/cli/session.h"

struct request {
    const char *checkpoint, *data, *device;
    struct halay_tft_windows windows;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint),
      .required = "--checkpoint" },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data), .required = "--data" },
    { "--split", NULL, NULL, "whose windows (test)", HALAY_OPTION_CHOICE, SETS(windows.split),
      .choices = tft_option_splits },
    { "--stride", NULL, "N", "steps from one window to the next (the schema's)", HALAY_OPTION_NUMBER,
      SETS(windows.stride), .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_CHOICE,
      SETS(windows.calibrate), .choices = tft_option_calibrations },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(windows.file) },
    { "--csv", NULL, "FILE", "write the scores of all values, by horizon and by entity as a table", HALAY_OPTION_TEXT,
      SETS(windows.csv) },
    TFT_OPTION_DEVICE(SETS(device)),
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft evaluate",
    .synopsis = "--checkpoint RUN --data DATA.htd [OPTION]...",
    .about =
        "Forecasts every window of a split (or every N-th of each entity) and scores the forecasts in the target's "
        "own unit, beside naive forecasts, which repeat the last season or value, or draw the past's line on. Under "
        "halayrun or mpirun the ranks share the windows.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status evaluate(struct halay_log *log, struct halay_tft *tft, void *request)
{
    const struct request *r = request;
    struct tft_command_run_data run = { 0 };
    char *json = NULL;
    enum halay_status status = tft_command_open(log, tft, r->checkpoint, r->data, &run);

    if (!status)
        status = halay_tft_evaluate(run.model, run.data, &r->windows, &json);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft))
        halay_error(log, "interrupted by a signal; no scores are written");
    if (!status && json)
        status = tft_command_print_table(log, json, r->windows.file, r->windows.csv);
    halay_tft_free(json);
    tft_command_close(&run);
    return status;
}

int tft_cmd_evaluate(struct halay_log *log, char **argv)
{
    struct request r = { .device = halay_environment_get("HALAY_TFT_DEVICE"), .windows.struct_size = sizeof r.windows };
    int status = tft_options_parse(log, &command_line, argv, &r);

    return status >= 0 ? status : tft_command_run(log, NULL, r.device, evaluate, &r);
}
