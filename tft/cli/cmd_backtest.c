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
#include "tft/score/score_table.h"
#include "tft/score/scoring.h"
#include "tft/train/backtest.h"
#include <string.h>

static const char help[] =
    "usage: halay-tft backtest --data DATA.htd --out FOLDER [--refit K] [--split test] [--stride N] [--KEY VALUE...]\n"
    "\n"
    "Trains, forecasts from K origins, one each N steps, trains again on all that lies before the next K, and so on "
    "through "
    "a split;\n"
    "scores all forecasts together, as evaluate does. Each fit is a run of its own in FOLDER. Under halayrun or mpirun "
    "all "
    "ranks do it\n"
    "together.\n"
    "\n"
    "  --data FILE       prepared data\n"
    "  --out FOLDER      where the runs fit-0001, fit-0002, ... go\n"
    "  --refit K         origins of one fit; 0: all, so that there is one (0)\n"
    "  --split NAME      valid or test (test)\n"
    "  --stride N        steps from origin to origin (the horizon)\n"
    "  --warm-start      a fit begins with the parameters of the one before\n"
    "  --resume          go on where an earlier backtest into FOLDER ended\n"
    "  --forecasts FILE  write all forecasts, as predict does, with what came and the number of the fit\n"
    "  --format FORMAT   of these: csv, or jsonl for JSON lines (by FILE's name; csv)\n"
    "  --json FILE       write all numbers as one JSON object; - is standard output\n"
    "  --config FILE     keys and values of each training, YAML or JSON\n"
    "\n"
    "Keys of the configuration as for train. Defaults in the second column:\n"
    "\n";

static enum halay_status backtest(struct halay_log *log, const struct tft_run_config *config, const char *data_path,
                                  const char *json, const struct tft_backtest_options *options)
{
    struct tft_job job = { 0 };
    struct tft_output out = { 0 };
    json_t *result = NULL;
    enum halay_status status = tft_job_init(log, config, data_path, &job);
    int says = job.ctx && halay_rank(job.ctx) == 0;

    if (!status && says)
        status = tft_scores_open(log, json, &out);
    if (!status)
        status = tft_backtest(log, job.ctx, config, &job.data, options, &result);
    if (status == HALAY_ERR_CANCELED && says)
        halay_error(log, config->keep ? "interrupted by a signal; '--resume' goes on"
                                      : "interrupted by a signal, with no checkpoint to go on from (keep 0)");
    if (!status && says)
        status = tft_scores_say(log, &config->quantiles, &out, result);
    tft_output_abort(&out);
    json_decref(result);
    tft_job_fini(&job);
    return status;
}

int tft_cmd_backtest(struct halay_log *log, int argc, char **argv)
{
    const char *data = NULL, *split = "test", *stride = NULL, *refit = NULL, *format = NULL, *json = NULL, *file = NULL;
    struct tft_backtest_options how = { 0 };
    struct tft_selection windows;
    struct tft_run_config config;
    long every = 0;
    const struct tft_option list[] = { { "data", 0, &data, NULL },         { "out", 'o', &how.folder, NULL },
                                       { "refit", 0, &refit, NULL },       { "split", 0, &split, NULL },
                                       { "stride", 0, &stride, NULL },     { "warm-start", 0, NULL, &how.warm },
                                       { "resume", 0, NULL, &how.resume }, { "forecasts", 0, &how.forecasts, NULL },
                                       { "format", 0, &format, NULL },     { "json", 0, &json, NULL },
                                       { "config", 0, &file, NULL },       { NULL, 0, NULL, NULL } };
    struct tft_options options = { .log = log, .command = "halay-tft backtest", .help = help, .list = list };
    int status = tft_run_options_parse(&options, &file, NULL, argc, argv, NULL, NULL, &config);

    if (status >= 0)
        return status;
    if (!data)
        return tft_options_missing(&options, "--data");
    if (!how.folder)
        return tft_options_missing(&options, "--out");
    how.json = tft_forecast_file_is_json(format, how.forecasts ? how.forecasts : "");
    if (how.json < 0)
        halay_error(log, "'--format' must be csv or jsonl, not '%s'", format);
    if (refit && halay_parse_long(refit, 0, TFT_STEPS_MAX, &every)) {
        halay_error(log, "'--refit' must be a whole number of origins, not '%s'", refit);
        return TFT_EXIT_USAGE;
    }
    if (how.json < 0 || tft_selection_parse(log, split, stride, &windows))
        return TFT_EXIT_USAGE;
    how.split = windows.split;
    how.stride = windows.stride;
    how.refit = (size_t)every;
    return tft_interrupt_exit(backtest(log, &config, data, json, &how));
}
