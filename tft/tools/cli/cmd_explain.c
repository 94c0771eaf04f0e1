/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft explain: what a run's forecasts rely on; a table for people, JSON and CSV for programs.
 */
#include "base/config.h"
#include "tft/tools/cli/session.h"

struct request {
    const char *checkpoint, *data, *device;
    struct halay_tft_windows windows;
    int has_no_occlusion;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint),
      .required = "--checkpoint" },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data), .required = "--data" },
    { "--split", NULL, NULL, "whose windows (test)", HALAY_OPTION_CHOICE, SETS(windows.split),
      .choices = tft_option_splits },
    { "--stride", NULL, "N", "steps from one window to the next (the horizon)", HALAY_OPTION_NUMBER,
      SETS(windows.stride), .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--regime", NULL, "X", "distance of a window's attention from the mean, from which it is another regime (0.3)",
      HALAY_OPTION_REAL, SETS(windows.regime), .min = 0, .max = 1 },
    { "--window", NULL, "ENTITY,TIME", "a forecast to explain: its entity, and the last moment that it has seen",
      HALAY_OPTION_TEXT, SETS(windows.window) },
    { "--no-occlusion", NULL, NULL, "do not forecast again without each input", HALAY_OPTION_FLAG,
      SETS(has_no_occlusion) },
    { "--json", NULL, "FILE", "write the numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(windows.file) },
    { "--csv", NULL, "FOLDER", "write importance.csv, attention.csv and windows.csv there", HALAY_OPTION_TEXT,
      SETS(windows.tables) },
    { "--out", "-o", "FILE", "write a page with pictures", HALAY_OPTION_TEXT, SETS(windows.page) },
    TFT_OPTION_DEVICE(SETS(device)),
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft explain",
    .synopsis = "--checkpoint RUN --data DATA.htd [OPTION]...",
    .about = "Says what the forecasts of a split's windows rely on: how much variable selection weighs each input, how "
             "far back attention looks, which windows look elsewhere than usual, and, to check the weights, how much "
             "worse the forecasts become without each input. Under halayrun or mpirun the ranks share the windows.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status explain(struct halay_log *log, struct halay_tft *tft, void *request)
{
    const struct request *r = request;
    struct tft_command_run_data run = { 0 };
    char *json = NULL;
    enum halay_status status = tft_command_open(log, tft, r->checkpoint, r->data, &run);

    if (!status)
        status = halay_tft_explain(run.model, run.data, &r->windows, &json);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft))
        halay_error(log, "interrupted by a signal; no explanation is written");
    if (!status && json)
        status = tft_command_print_table(log, json, r->windows.file, NULL);
    halay_tft_free(json);
    tft_command_close(&run);
    return status;
}

int tft_cmd_explain(struct halay_log *log, char **argv)
{
    struct request r = { .device = halay_environment_get("HALAY_TFT_DEVICE"),
                         .windows = { .struct_size = sizeof r.windows, .regime = -1 } };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (r.windows.regime <= 0) /* 0 was given, which is below 0 in the library, or nothing, which is 0 there */
        r.windows.regime = r.windows.regime < 0 ? 0 : -1;
    r.windows.has_occlusion = !r.has_no_occlusion;
    return tft_command_run(log, NULL, r.device, explain, &r);
}
