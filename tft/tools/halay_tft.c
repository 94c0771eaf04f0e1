/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft: trains Temporal Fusion Transformers on tables of time series. This file finds the command.
 */
#include "halay_types.h"
#include "sagemaker/train.h"
#include "tft/tools/cli/session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
    const char *name, *summary;
    int (*run)(struct halay_log *log, char **argv); /* argv[0] is the command; the program's exit status */
} commands[] = {
#define COMMAND(name, summary) { #name, summary, tft_cmd_##name },
#include "tft/tools/cli/commands.def"
#undef COMMAND
};

/* Commands of older versions. */
static const struct removed {
    const char *name, *instead;
} removed[] = {
    { "calibrate",
      "'train' calibrates at its end; 'train --resume --calibrate conformal' a run that was trained without" },
    { "compare", "'tune --search grid' compares trainings that differ in keys; 'perf/bench/ranks' numbers of ranks" },
    { "import", "Python reads PyTorch's files: halay.tft.import_torch('FILE', 'nvidia', data='DATA.htd', "
                "KEY=VALUE).save('RUN')" },
    { "watch", "'train' prints each evaluation, 'halayrun --status' shows its job, 'report' draws RUN at any time" },
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static struct halay_option rows[COMMANDS + 4] = { { .name = "Commands" } };

static const struct halay_command_line line = {
    .command = "halay-tft",
    .synopsis = "COMMAND [OPTION]...",
    .about = "Trains a Temporal Fusion Transformer on a table of time series and forecasts with it.",
    .table = rows,
    .notes = "'halay-tft COMMAND --help' describes a command; halay-tft(1) is the manual.",
};

static void list_commands(void)
{
    struct halay_option *row = rows + 1;

    for (size_t i = 0; i < COMMANDS; i++)
        *row++ = (struct halay_option){ .name = commands[i].name,
                                        .help = commands[i].summary,
                                        .kind = HALAY_OPTION_COMMAND };
    *row++ = (struct halay_option){ .name = "Options" };
    *row = (struct halay_option){ .name = "--version", .help = "print the version", .kind = HALAY_OPTION_FLAG };
}

static int run(struct halay_log *log, char **argv)
{
    struct halay_option_given given;
    char **next = argv, why[512];

    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
        if (!strcmp(*argv, removed[i].name)) {
            halay_error(log, "command '%s' was removed: %s", removed[i].name, removed[i].instead);
            return EXIT_USAGE;
        }
    if (!halay_option_read(&line, &next, &given, why, sizeof why)) {
        halay_error(log, "%s", why);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(given.option->name, commands[i].name))
            return (commands[i].run == tft_cmd_train ? sagemaker_train : commands[i].run)(log, argv);
    if (given.option->kind == HALAY_OPTION_HELP)
        halay_command_line_print_help(&line, stdout);
    else if (given.option->kind == HALAY_OPTION_LIST)
        halay_command_line_print_list(&line, stdout);
    else
        printf("halay-tft %s\n", halay_version());
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct halay_log log;

    list_commands();
    if (argc < 2) {
        halay_command_line_print_help(&line, stderr);
        return EXIT_USAGE;
    }
    halay_log_init(&log, HALAY_LOG_WARNING);
    int status = run(&log, argv + 1);
    if (!status && (fflush(stdout) || ferror(stdout))) {
        halay_error(&log, "cannot write to standard output");
        status = EXIT_FAILURE;
    }
    halay_log_fini(&log);
    return status;
}
