/* SPDX-License-Identifier: Apache-2.0
 *
 * Train: the steps of tft/cli/cmd_train.h, with the container's part between them.
 */
#include "contrib/sagemaker/train.h"
#include "contrib/sagemaker/container.h"
#include "tft/cli/commands.h"
#include "tft/train/train.h"

static enum halay_status train_everywhere(struct sagemaker_container *c, const struct tft_train_command *command)
{
    const struct tft_train_options *options = &command->options;
    struct tft_job job = { 0 };
    enum halay_status status = tft_train_command_join(c->log, command, &job);

    if (!status)
        status = sagemaker_check_ranks(c, job.ctx);
    if (!status)
        status = tft_train(c->log, job.ctx, &command->config, &job.data, options);
    if (!status && !options->finds_rate && halay_rank(job.ctx) == 0)
        status = sagemaker_publish(c, options->metrics);
    tft_job_fini(&job);
    return status;
}

static int run_in_container(struct sagemaker_container *c, char **argv)
{
    const struct tft_run_source hyperparameters = { c->where, c->parameters };
    struct tft_train_command command = { 0 };

    if (sagemaker_complete_words(c, &argv))
        return EXIT_USAGE;
    int code = tft_train_command_parse(c->log, &hyperparameters, argv, &command);
    if (code < 0)
        code = sagemaker_find_places(c, &command);
    if (code < 0)
        code = tft_train_command_complete(c->log, &command);
    if (code < 0)
        code = train_everywhere(c, &command) ? EXIT_FAILURE : EXIT_SUCCESS;
    tft_train_command_fini(&command);
    return code;
}

int sagemaker_train(struct halay_log *log, char **argv)
{
    struct sagemaker_container container;
    int code = EXIT_FAILURE;

    if (!sagemaker_container_open(log, &container))
        code = container.is_there ? run_in_container(&container, argv) : tft_cmd_train(log, argv);
    sagemaker_container_close(&container, code);
    return code;
}
