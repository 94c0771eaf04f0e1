/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft train: the configuration from its three sources, then the training. Leaves the job whatever happens, so
 * that other ranks learn of a failure.
 */
#include "tft/tools/cli/cmd_train.h"
#include "tft/tools/cli/session.h"
#include <signal.h>
#include <stdio.h>

#define SETS(member) HALAY_OPTION_SETS(tft_train_command, member)

static const struct halay_option option_rows[] = {
    { "--data", NULL, "FILE", "prepared data (.htd)", HALAY_OPTION_TEXT, SETS(data) },
    { "--schema", NULL, "FILE", "--data is a CSV file, or a folder of them: prepare it first, by this schema",
      HALAY_OPTION_TEXT, SETS(schema) },
    { "--out", "-o", "FOLDER", "the run's folder; must not hold a trained model yet", HALAY_OPTION_TEXT,
      SETS(options.folder) },
    { "--config", NULL, "FILE", "keys and values, YAML or JSON", HALAY_OPTION_TEXT, SETS(keys.file) },
    { "--elastic", NULL, NULL, "continue when ranks are lost or join (halayrun --min-np)", HALAY_OPTION_FLAG,
      SETS(options.elastic) },
    { "--resume", NULL, NULL, "resume from the newest good checkpoint; without one, begin", HALAY_OPTION_FLAG,
      SETS(options.resume) },
    { "--checkpoint-dir", NULL, "FOLDER", "where checkpoints are kept (RUN/checkpoints)", HALAY_OPTION_TEXT,
      SETS(options.checkpoints) },
    { "--find-learning-rate", NULL, NULL, "try rates from 1e-6 to 1 in 100 steps, suggest one, write nothing",
      HALAY_OPTION_FLAG, SETS(finds_rate) },
    { .name = NULL },
};

const struct halay_command_line tft_train_line = {
    .command = "halay-tft train",
    .synopsis = "--data DATA --out RUN [OPTION]... [--KEY VALUE]...",
    .about = "Trains a model and leaves the best parameters, the configuration and a line for each evaluation in the "
             "folder RUN. Under halayrun or mpirun all ranks train one model together.",
    .table = option_rows,
    .notes =
        "SIGTERM, SIGINT and SIGUSR1 end it after a step, with a checkpoint; another one, a second later, ends it at "
        "once.\nIn a SageMaker container hyperparameters are keys and options, and --data, --schema, --out, "
        "--checkpoint-dir and --resume are found in it (halay-tft(1)).\nKeys of the configuration are read from the "
        "file, from HALAY_TFT_KEY in the environment, and from the command line, each overriding the one before.",
    .is_lenient = 1,
};

int tft_train_command_parse(struct halay_log *log, const struct tft_run_source *beside, char **argv,
                            struct tft_train_command *c)
{
    c->options.struct_size = sizeof c->options;
    return tft_run_options_parse(log, &tft_train_line, beside, argv, c, &c->config);
}

int tft_train_command_complete(struct halay_log *log, const struct tft_train_command *c)
{
    if (!c->data)
        return tft_options_missing(log, &tft_train_line, "--data");
    if (!c->options.folder && !c->finds_rate)
        return tft_options_missing(log, &tft_train_line, "--out");
    if (c->options.elastic && (c->schema || c->finds_rate)) {
        fprintf(stderr, "halay-tft train: --elastic and --%s: %s\n", c->schema ? "schema" : "find-learning-rate",
                c->schema ? "prepare the data first, so that ranks that come later find them" : "one of them");
        return EXIT_USAGE;
    }
    return -1;
}

enum halay_status tft_train_command_open(struct halay_log *log, struct halay_tft *tft,
                                         const struct tft_train_command *c, struct halay_tft_data **data)
{
    return c->schema ? tft_job_open_table(log, tft, c->schema, c->data, data)
                     : tft_job_open(log, tft, c->data, c->options.elastic, data);
}

static enum halay_status find_rate(struct halay_log *log, struct halay_tft *tft, const struct tft_train_command *c,
                                   struct halay_tft_data *data)
{
    char *text = NULL;
    double rate;
    enum halay_status status = halay_tft_find_learning_rate(tft, data, c->config, &rate, &text);

    if (!text)
        return status;
    fputs(text, stdout);
    halay_tft_free(text);
    return tft_command_flush(log);
}

enum halay_status tft_train_command_run(struct halay_log *log, struct halay_tft *tft, struct tft_train_command *c,
                                        struct halay_tft_data *data)
{
    if (!c->finds_rate)
        tft_interrupt_watch(tft);
    if (c->watches_continue)
        tft_interrupt_watch_also(SIGCONT);
    if (c->finds_rate)
        return find_rate(log, tft, c, data);
    c->options.config = c->config;
    c->options.progress = tft_progress_lines_step;
    c->options.say = tft_progress_lines_say;
    c->options.arg = &c->lines;
    return halay_tft_train(tft, data, &c->options, NULL);
}

void tft_train_command_fini(struct tft_train_command *c)
{
    halay_tft_free(c->config);
}

static enum halay_status train(struct halay_log *log, struct halay_tft *tft, void *request)
{
    struct halay_tft_data *data = NULL;
    enum halay_status status = tft_train_command_open(log, tft, request, &data);

    if (!status)
        status = tft_train_command_run(log, tft, request, data);
    halay_tft_data_close(data);
    return status;
}

int tft_cmd_train(struct halay_log *log, char **argv)
{
    struct tft_train_command command = { 0 };

    int code = tft_train_command_parse(log, NULL, argv, &command);
    if (code < 0)
        code = tft_train_command_complete(log, &command);
    if (code < 0)
        code = tft_run_options_run(log, command.config, train, &command);
    tft_train_command_fini(&command);
    return code;
}
