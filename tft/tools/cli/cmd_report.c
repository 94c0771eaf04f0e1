/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft report: a page about a run.
 */
#include "base/config.h"
#include "tft/tools/cli/session.h"

struct request {
    const char *run, *data, *device;
    struct halay_tft_windows windows;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--run", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(run), .required = "--run" },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data) },
    { "--split", NULL, NULL, "the split to score (test)", HALAY_OPTION_CHOICE, SETS(windows.split),
      .choices = tft_option_splits },
    { "--stride", NULL, "N", "steps between its windows (the horizon)", HALAY_OPTION_NUMBER, SETS(windows.stride),
      .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_CHOICE,
      SETS(windows.calibrate), .choices = tft_option_calibrations },
    { "--occlusion", NULL, NULL, "also forecast again without each input", HALAY_OPTION_FLAG,
      SETS(windows.has_occlusion) },
    { "--out", "-o", "FILE", "the page", HALAY_OPTION_TEXT, SETS(windows.page), .required = "-o" },
    TFT_OPTION_DEVICE(SETS(device)),
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft report",
    .synopsis = "--run RUN [--data DATA.htd [--split NAME] [--stride N] [--occlusion]] -o PAGE.html",
    .about = "Writes one self-contained HTML page about a run: loss curves; with data also scores beside the naive "
             "forecasts', scores by horizon and entity, some forecasts over the actual values, and what the forecasts "
             "rely on, as halay-tft explain finds it.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status report(struct halay_log *log, struct halay_tft *tft, void *request)
{
    const struct request *r = request;
    struct halay_tft_data *data = NULL;
    enum halay_status status = r->data ? tft_command_join(log, tft) : HALAY_OK;

    if (!status && r->data)
        status = halay_tft_data_open(tft, r->data, &data);
    tft_interrupt_watch(tft);
    if (!status)
        status = halay_tft_report(tft, r->run, data, &r->windows);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft))
        halay_error(log, "interrupted by a signal; the page is not written");
    halay_tft_data_close(data);
    return status;
}

int tft_cmd_report(struct halay_log *log, char **argv)
{
    struct request r = { .device = halay_environment_get("HALAY_TFT_DEVICE"), .windows.struct_size = sizeof r.windows };
    int status = tft_options_parse(log, &command_line, argv, &r);

    return status >= 0 ? status : tft_command_run(log, NULL, r.device, report, &r);
}
