/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft calibrate: makes a run's calibration from the validation windows of prepared data, for `evaluate`,
 * `predict` and `report`; what `train` does at its end with `calibrate: conformal` or `rolling`.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/cli/session.h"
#include <stdio.h>

struct request {
    const char *checkpoint, *data;
    int device; /* a word; -1: not given */
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder, which calibration.json is written into", HALAY_OPTION_TEXT,
      SETS(checkpoint) },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data) },
    TFT_OPTION_DEVICE(SETS(device)),
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft calibrate",
    .synopsis = "--checkpoint RUN --data DATA.htd",
    .about = "Forecasts the validation windows, a horizon apart, and writes how far the ends of intervals have to move "
             "so that they hold what they promise. evaluate, predict and report then take --calibrate.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status calibrate(struct halay_log *log, struct halay_tft *tft, void *request)
{
    const struct request *r = request;
    struct tft_command_run_data run = { 0 };
    char *found = NULL;
    enum halay_status status = tft_command_open(log, tft, r->checkpoint, r->data, &run);

    if (!status)
        status = halay_tft_calibrate(run.model, run.data, r->checkpoint, &found);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft))
        halay_error(log, "interrupted by a signal; there is no calibration");
    if (found) {
        puts(found);
        halay_tft_free(found);
        status = tft_command_flush(log);
    }
    tft_command_close(&run);
    return status;
}

int tft_cmd_calibrate(struct halay_log *log, char **argv)
{
    struct request r = { .device = -1 };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(log, &command_line, "--checkpoint");
    if (!r.data)
        return tft_options_missing(log, &command_line, "--data");
    return tft_command_run(log, NULL, tft_option_device(r.device), calibrate, &r);
}
