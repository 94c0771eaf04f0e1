/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft backtest: the command line of tft/train/backtest.h.
 */
#include "base/config.h"
#include "tft/cli/commands.h"
#include "tft/cli/run_options.h"
#include "tft/model/tft.h"
#include "tft/run/interrupt.h"
#include "tft/score/forecast_file.h"
#include "tft/score/inference.h"
#include "tft/score/score_output.h"
#include "tft/train/backtest.h"
#include <string.h>

struct request {
    struct tft_run_keys keys; /* first: run_options.h */
    const char *data, *format, *json;
    struct tft_backtest_options how;
    struct tft_run_config config;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--data", NULL, "FILE", "prepared data", HALAY_OPTION_TEXT, SETS(data) },
    { "--out", "-o", "FOLDER", "where the runs fit-0001, fit-0002, ... go", HALAY_OPTION_TEXT, SETS(how.folder) },
    { "--refit", NULL, "K", "origins of one fit; 0: all, in one fit (0)", HALAY_OPTION_NUMBER, SETS(how.refit),
      .most = TFT_STEPS_MAX },
    { "--split", NULL, NULL, "valid or test (test)", HALAY_OPTION_WORD, SETS(how.split), .words = tft_split_names },
    { "--stride", NULL, "N", "steps from origin to origin (the horizon)", HALAY_OPTION_NUMBER, SETS(how.stride),
      .least = 1, .most = TFT_STEPS_MAX },
    { "--warm-start", NULL, NULL, "a fit starts from the parameters of the previous one", HALAY_OPTION_FLAG,
      SETS(how.warm) },
    { "--resume", NULL, NULL, "continue an earlier backtest into FOLDER", HALAY_OPTION_FLAG, SETS(how.resume) },
    { "--forecasts", NULL, "FILE",
      "write all forecasts, as predict does, with the actual values and the number of the fit", HALAY_OPTION_TEXT,
      SETS(how.forecasts) },
    { "--format", NULL, "csv|jsonl", "of the forecasts; jsonl: JSON lines (by FILE's name; csv)", HALAY_OPTION_TEXT,
      SETS(format) },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(json) },
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

static enum halay_status backtest(struct halay_log *log, const struct request *r)
{
    struct tft_job job = { 0 };
    struct tft_output out = { 0 };
    json_t *result = NULL;
    enum halay_status status = tft_job_init(log, &r->config, r->data, &job);
    int says = job.ctx && halay_rank(job.ctx) == 0;

    if (!status && says)
        status = tft_score_output_open(log, r->json, &out);
    if (!status)
        status = tft_backtest(log, job.ctx, &r->config, &job.data, &r->how, &result);
    if (status == HALAY_ERR_CANCELED && says)
        halay_error(log, r->config.keep ? "interrupted by a signal; '--resume' goes on"
                                        : "interrupted by a signal, with no checkpoint to go on from (keep 0)");
    if (!status && says)
        status = tft_score_output_write(log, &r->config.quantiles, &out, result);
    tft_output_abort(&out);
    json_decref(result);
    tft_job_fini(&job);
    return status;
}

int tft_cmd_backtest(struct halay_log *log, char **argv)
{
    struct request r = { .how.split = TFT_TEST };
    int status = tft_run_options_parse(log, &command_line, NULL, argv, &r, &r.config);

    if (status >= 0)
        return status;
    if (!r.data)
        return tft_options_missing(log, &command_line, "--data");
    if (!r.how.folder)
        return tft_options_missing(log, &command_line, "--out");
    if (tft_forecast_file_format(log, r.format, r.how.forecasts ? r.how.forecasts : "", &r.how.json))
        return EXIT_USAGE;
    return tft_interrupt_exit(backtest(log, &r));
}
