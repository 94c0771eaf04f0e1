/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft train: the configuration from its three sources, then the training. Ends the program's part in the job
 * whatever happens, so that other ranks hear of a failure.
 */
#include "tft/cli/commands.h"
#include "tft/cli/run_options.h"
#include "tft/cli/sagemaker.h"
#include "tft/data/paths.h"
#include "tft/train/train.h"
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: halay-tft train --data DATA --out RUN [--schema SCHEMA] [--config FILE] [--KEY VALUE...]\n"
    "\n"
    "Trains a model and leaves the best parameters, the configuration and a line for each "
    "evaluation in the folder RUN.\n"
    "Under halayrun or mpirun all ranks train one model together.\n"
    "\n"
    "  --data FILE     prepared data (.htd)\n"
    "  --schema FILE   --data is a CSV file, or a folder of them: prepare it first, by this schema\n"
    "  --out FOLDER    the run's folder; must not hold a trained model yet\n"
    "  --config FILE   keys and values, YAML or JSON\n"
    "  --elastic       go on when ranks are lost, and with ranks that come (halayrun --min-np)\n"
    "  --resume        go on from the newest good checkpoint; without one, begin\n"
    "  --checkpoint-dir FOLDER\n"
    "                  where checkpoints are kept (RUN/checkpoints)\n"
    "  --find-learning-rate\n"
    "                  try rates from 1e-6 to 1 in 100 steps, say which one to take, write nothing\n"
    "\n"
    "SIGTERM, SIGINT and SIGUSR1 end it after a step, with a checkpoint; another, from a second later on, at once.\n"
    "In a SageMaker container hyperparameters are keys and options, and --data, --schema, --out, --checkpoint-dir and\n"
    "--resume are found in it (halay-tft(1)).\n"
    "\n"
    "Keys of the configuration, also as HALAY_TFT_KEY in the environment. The command line wins "
    "over the environment, that\n"
    "over the file. Defaults in the second column:\n"
    "\n";

/* The command line, completed. */
struct request {
    const char *data, *schema, *out, *file, *checkpoints;
    int resume, elastic, finds_rate;
};

static enum halay_status train(struct halay_log *log, struct tft_sagemaker *sagemaker, const struct request *r,
                               const struct tft_run_config *config, const struct tft_train_options *options)
{
    struct tft_job job = { 0 };
    enum halay_status status = r->schema ? tft_job_init_table(log, config, r->schema, r->data, &job)
                                         : tft_job_init(log, config, r->data, &job);

    if (!status)
        status = tft_sagemaker_check_ranks(sagemaker, job.ctx);
    if (!status)
        status = tft_train(log, job.ctx, config, &job.data, options);
    if (!status && !r->finds_rate && options->metrics && halay_rank(job.ctx) == 0)
        status = tft_sagemaker_publish(sagemaker, options->metrics);
    tft_job_fini(&job);
    return status;
}

/* What the container says of what the command line leaves open. An exit status, or -1 to go on. */
static int complete(struct halay_log *log, struct tft_sagemaker *sagemaker, struct request *r,
                    struct tft_run_config *config, struct tft_train_options *options)
{
    struct tft_sagemaker_job job = {
        .data = r->data, .schema = r->schema, .folder = r->out, .checkpoints = r->checkpoints
    };
    enum halay_status status = tft_sagemaker_places(sagemaker, &job);

    if (status)
        return tft_exit_status(status);
    r->data = job.data;
    r->schema = job.schema;
    r->out = job.folder;
    r->checkpoints = job.checkpoints;
    options->metrics = job.metrics;
    if (!sagemaker->is_there)
        return -1;
    r->resume = options->watches_continue = 1;
    if (job.keeps_nothing) {
        config->keep = 0;
        halay_info(log, "no folder '%s': no checkpoints are kept", sagemaker->checkpoints);
    }
    return -1;
}

static int run(struct halay_log *log, struct tft_sagemaker *sagemaker, int argc, char **argv)
{
    struct request r = { 0 };
    struct tft_run_config config;
    const struct tft_option list[] = { { "data", 0, &r.data, NULL },
                                       { "schema", 0, &r.schema, NULL },
                                       { "out", 'o', &r.out, NULL },
                                       { "config", 0, &r.file, NULL },
                                       { "checkpoint-dir", 0, &r.checkpoints, NULL },
                                       { "resume", 0, NULL, &r.resume },
                                       { "elastic", 0, NULL, &r.elastic },
                                       { "find-learning-rate", 0, NULL, &r.finds_rate },
                                       { NULL, 0, NULL, NULL } };
    struct tft_options options = { .log = log, .command = "halay-tft train", .help = help, .list = list };
    const struct tft_run_source beside = { sagemaker->where, sagemaker->parameters };
    struct tft_train_options how = { .report = stdout };

    if (tft_sagemaker_arguments(sagemaker, list, &argc, &argv))
        return TFT_EXIT_USAGE;
    int status = tft_run_options_parse(&options, &r.file, &beside, argc, argv, NULL, NULL, &config);
    if (status < 0)
        status = complete(log, sagemaker, &r, &config, &how);
    if (status >= 0)
        return status;
    if (!r.data)
        return tft_options_missing(&options, "--data");
    if (!r.out && !r.finds_rate)
        return tft_options_missing(&options, "--out");
    if (r.elastic && (r.schema || r.finds_rate)) {
        fprintf(stderr, "halay-tft train: --elastic and --%s: %s\n", r.schema ? "schema" : "find-learning-rate",
                r.schema ? "prepare the data first, so that ranks that come later find them" : "one of them");
        return TFT_EXIT_USAGE;
    }
    char *checkpoints = r.checkpoints || !r.out ? NULL : tft_path_join(log, r.out, "checkpoints");
    if (!r.checkpoints && r.out && !checkpoints)
        return TFT_EXIT_FAILED;
    how.folder = r.out;
    how.checkpoints = checkpoints ? checkpoints : r.checkpoints;
    how.resume = r.resume;
    how.elastic = r.elastic;
    how.finds_rate = r.finds_rate;
    status = train(log, sagemaker, &r, &config, &how) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
    free(checkpoints);
    return status;
}

int tft_cmd_train(struct halay_log *log, int argc, char **argv)
{
    struct tft_sagemaker sagemaker;

    int status = tft_sagemaker_open(log, &sagemaker) ? TFT_EXIT_FAILED : run(log, &sagemaker, argc, argv);
    tft_sagemaker_close(&sagemaker, status);
    return status;
}
