/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft train: the configuration from its three sources, then the training. Ends the program's part in the job
 * whatever happens, so that other ranks hear of a failure.
 */
#include "tft/commands.h"
#include "tft/paths.h"
#include "tft/run_options.h"
#include "tft/train.h"
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: halay-tft train --data DATA.htd --out RUN [--config FILE] [--KEY VALUE...]\n"
    "\n"
    "Trains a model and leaves the best parameters, the configuration and a line for each "
    "evaluation in the folder RUN.\n"
    "Under halayrun or mpirun all ranks train one model together.\n"
    "\n"
    "  --data FILE     prepared data\n"
    "  --out FOLDER    the run's folder; must not hold a trained model yet\n"
    "  --config FILE   keys and values, YAML or JSON\n"
    "  --resume        go on from the newest good checkpoint; without one, begin\n"
    "  --checkpoint-dir FOLDER\n"
    "                  where checkpoints are kept (RUN/checkpoints)\n"
    "  --find-learning-rate\n"
    "                  try rates from 1e-6 to 1 in 100 steps, say which one to take, write nothing\n"
    "\n"
    "SIGTERM and SIGINT end it after a step, with a checkpoint; a second one at once.\n"
    "\n"
    "Keys of the configuration, also as HALAY_TFT_KEY in the environment. The command line wins "
    "over the environment, that\n"
    "over the file. Defaults in the second column:\n"
    "\n";

static enum halay_status train(struct halay_log *log, const struct tft_run_config *config, const char *data_path,
                               const struct tft_train_options *options)
{
    struct tft_job job = { 0 };
    enum halay_status status = tft_job_init(log, config, data_path, &job);

    if (!status)
        status = tft_train(log, job.ctx, config, &job.data, options);
    tft_job_fini(&job);
    return status;
}

int tft_cmd_train(struct halay_log *log, int argc, char **argv)
{
    const char *data = NULL, *out = NULL, *file = NULL, *checkpoints = NULL;
    struct tft_run_config config;
    int resume = 0, finds_rate = 0;
    const struct tft_option list[] = { { "data", 0, &data, NULL },     { "out", 'o', &out, NULL },
                                       { "config", 0, &file, NULL },   { "checkpoint-dir", 0, &checkpoints, NULL },
                                       { "resume", 0, NULL, &resume }, { "find-learning-rate", 0, NULL, &finds_rate },
                                       { NULL, 0, NULL, NULL } };
    struct tft_options options = { .log = log, .command = "halay-tft train", .help = help, .list = list };
    int status = tft_run_options_parse(&options, &file, argc, argv, NULL, NULL, &config);

    if (status >= 0)
        return status;
    if (!data)
        return tft_options_missing(&options, "--data");
    if (!out && !finds_rate)
        return tft_options_missing(&options, "--out");
    char *beside = checkpoints || !out ? NULL : tft_path_join(log, out, "checkpoints");
    if (!checkpoints && out && !beside)
        return TFT_EXIT_FAILED;
    const struct tft_train_options how = { .folder = out,
                                           .checkpoints = beside ? beside : checkpoints,
                                           .resume = resume,
                                           .finds_rate = finds_rate,
                                           .report = stdout };
    status = train(log, &config, data, &how) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
    free(beside);
    return status;
}
