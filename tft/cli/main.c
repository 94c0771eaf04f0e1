/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft: trains Temporal Fusion Transformers on tables of time series. This file finds the command.
 */
#include "base/config.h"
#include "halay_types.h"
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include <stdio.h>
#include <string.h>

static const char help[] = "usage: halay-tft COMMAND [OPTION...]\n"
                           "\n"
                           "Trains a Temporal Fusion Transformer on a table of time series and forecasts with it.\n"
                           "\n"
                           "  prepare   read CSV files by a schema, write one file of prepared data\n"
                           "  convert   make one CSV file of Favorita's tables or of PEMS-SF's matrices\n"
                           "  train     train a model on prepared data (also under halayrun or mpirun)\n"
                           "  evaluate  score a trained model on prepared data, beside naive forecasts\n"
                           "  backtest  train and forecast again and again through a split, score all forecasts\n"
                           "  predict   forecast from CSV files with a trained model\n"
                           "  report    write a page about a run: loss, scores, forecasts\n"
                           "  export    write a trained model's parameters as a PyTorch TFT has them\n"
                           "  import    begin a run with a PyTorch TFT's parameters\n"
                           "\n"
                           "halay-tft COMMAND --help says more; so does the manual page halay-tft(1).\n";

static const struct {
    const char *name;
    int (*run)(struct halay_log *log, int argc, char **argv);
} commands[] = {
    { "prepare", tft_cmd_prepare },   { "convert", tft_cmd_convert },   { "train", tft_cmd_train },
    { "evaluate", tft_cmd_evaluate }, { "backtest", tft_cmd_backtest }, { "predict", tft_cmd_predict },
    { "report", tft_cmd_report },     { "export", tft_cmd_export },     { "import", tft_cmd_import },
};

static int run(struct halay_log *log, int argc, char **argv)
{
    static const char *const names[] = { "prepare", "convert", "train",  "evaluate", "backtest",
                                         "predict", "report",  "export", "import",   NULL };

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[0], commands[i].name))
            return commands[i].run(log, argc, argv);
    const char *near = halay_nearest_word(argv[0], names);
    halay_error(
        log, near ? "unknown command '%s'; did you mean '%s'?" : "unknown command '%s'; 'halay-tft --help' lists them",
        argv[0], near);
    return TFT_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct halay_log log;
    int status;

    if (argc < 2) {
        fputs(help, stderr);
        return TFT_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        fputs(help, stdout);
        return fflush(stdout) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("halay-tft %s\n", halay_version());
        return fflush(stdout) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
    }
    halay_log_init(&log, HALAY_LOG_WARNING);
    status = run(&log, argc - 1, argv + 1);
    if (!status && (fflush(stdout) || ferror(stdout))) {
        halay_error(&log, "cannot write to standard output");
        status = TFT_EXIT_FAILED;
    }
    halay_log_fini(&log);
    return status;
}
