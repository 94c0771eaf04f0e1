/* SPDX-License-Identifier: Apache-2.0
 *
 * Train: the steps of tft/tools/cli/cmd_train.h, with the container's part between them.
 */
#include "sagemaker/train.h"
#include "sagemaker/container.h"
#include "tft/tools/cli/session.h"

struct request {
    struct sagemaker_container *container;
    struct tft_train_command command;
};

static enum halay_status train_everywhere(struct halay_log *log, struct halay_tft *tft, void *request)
{
    struct request *r = request;
    struct tft_train_command *command = &r->command;
    struct halay_tft_data *data = NULL;
    enum halay_status status = tft_train_command_open(log, tft, command, &data);

    if (!status)
        status = sagemaker_check_ranks(r->container, halay_tft_context(tft));
    if (!status)
        status = tft_train_command_run(log, tft, command, data);
    if (!status && !command->finds_rate && tft_command_is_first(tft))
        status = sagemaker_publish(r->container, command->options.metrics);
    halay_tft_data_close(data);
    return status;
}

static int run_in_container(struct sagemaker_container *c, char **argv)
{
    const struct tft_run_source hyperparameters = { c->where, c->parameters };
    struct request r = { .container = c };

    if (sagemaker_complete_words(c, &argv))
        return EXIT_USAGE;
    int code = tft_train_command_parse(c->log, &hyperparameters, argv, &r.command);
    if (code < 0)
        code = sagemaker_find_places(c, &r.command);
    if (code < 0)
        code = tft_train_command_complete(c->log, &r.command);
    if (code < 0)
        code = tft_run_options_run(c->log, r.command.config, train_everywhere, &r);
    tft_train_command_fini(&r.command);
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
