/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft backtest.
 */
#include "base/config.h"
#include "tft/tools/cli/run_options.h"
#include "tft/tools/cli/session.h"

struct request {
    struct tft_run_keys keys; /* first: run_options.h */
    const char *data;
    struct halay_tft_backtest_options how;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--data", NULL, "FILE", "prepared data", HALAY_OPTION_TEXT, SETS(data), .required = "--data" },
    { "--out", "-o", "FOLDER", "where the runs fit-0001, fit-0002, ... go", HALAY_OPTION_TEXT, SETS(how.folder),
      .required = "--out" },
    { "--fit-every", NULL, "K", "origins of one fit; 0: all, in one fit (0)", HALAY_OPTION_NUMBER, SETS(how.fit_every),
      .max = HALAY_TFT_STEPS_MAX },
    { "--split", NULL, NULL, "valid or test (test)", HALAY_OPTION_CHOICE, SETS(how.split),
      .choices = tft_option_splits },
    { "--stride", NULL, "N", "steps from origin to origin (the horizon)", HALAY_OPTION_NUMBER, SETS(how.stride),
      .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--warm-start", NULL, NULL, "a fit starts from the parameters of the previous one", HALAY_OPTION_FLAG,
      SETS(how.warm_start) },
    { "--resume", NULL, NULL, "continue an earlier backtest into FOLDER", HALAY_OPTION_FLAG, SETS(how.resume) },
    { "--forecasts", NULL, "FILE",
      "write all forecasts, as predict does, with the actual values and the number of the fit", HALAY_OPTION_TEXT,
      SETS(how.forecasts) },
    { "--format", NULL, NULL, "of the forecasts; jsonl: JSON lines (by FILE's name; csv)", HALAY_OPTION_CHOICE,
      SETS(how.format), .choices = tft_option_formats },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(how.file) },
    { "--config", NULL, "FILE", "keys and values of each training, YAML or JSON", HALAY_OPTION_TEXT, SETS(keys.file) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft backtest",
    .synopsis = "--data DATA.htd --out FOLDER [OPTION]... [--KEY VALUE]...",
    .about = "Trains, forecasts from K origins, N steps apart, trains again on everything before the next K, and so on "
             "through a split; scores all forecasts together, as evaluate does. Each fit is a run of its own in "
             "FOLDER. Under halayrun or mpirun all ranks work together.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status backtest(struct halay_log *log, struct halay_tft *tft, void *request)
{
    struct request *r = request;
    struct tft_progress_lines lines = { 0 };
    struct halay_tft_data *data = NULL;
    char *json = NULL;
    enum halay_status status = tft_job_open(log, tft, r->data, 0, &data);

    tft_interrupt_watch(tft);
    r->how.progress = tft_progress_lines_step;
    r->how.say = tft_progress_lines_say;
    r->how.arg = &lines;
    if (!status)
        status = halay_tft_backtest(tft, data, &r->how, &json);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft))
        halay_error(log, tft_run_options_number(r->how.config, "keep") > 0
                             ? "interrupted by a signal; use --resume to continue"
                             : "interrupted by a signal, without a checkpoint to continue from (keep 0)");
    if (!status && json)
        status = tft_command_print_table(log, json, r->how.file, NULL);
    halay_tft_free(json);
    halay_tft_data_close(data);
    return status;
}

int tft_cmd_backtest(struct halay_log *log, char **argv)
{
    struct request r = { .how.struct_size = sizeof r.how };
    char *config = NULL;
    int status = tft_run_options_parse(log, &command_line, NULL, argv, &r, &config);

    if (status >= 0)
        return status;
    r.how.config = config;
    status = tft_run_options_run(log, config, backtest, &r);
    halay_tft_free(config);
    return status;
}
