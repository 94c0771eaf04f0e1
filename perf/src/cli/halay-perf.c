/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf: measures halay and says what it would do. This file picks the subcommand: one of the operations, which
 * share a file, or one that has a file of its own.
 */
#include "perf/src/cli/perf.h"
#include "perf/src/operation/operation.h"
#include <string.h>

static const struct perf_command *const commands[] = { &perf_roofline_command, &perf_engine_command,
                                                       &perf_tune_command,     &perf_doctor_command,
                                                       &perf_flight_command,   &perf_timeline_merge_command };
enum { COMMANDS = sizeof commands / sizeof *commands, NAMES_MAX = 32 };

enum halay_status perf_environment_init(struct perf_environment *environment)
{
    halay_log_init(&environment->log, HALAY_LOG_WARNING);
    enum halay_status status = halay_config_load(&environment->log, &environment->config);
    if (status != HALAY_OK)
        halay_log_fini(&environment->log);
    return status;
}

void perf_environment_fini(struct perf_environment *environment)
{
    halay_config_fini(&environment->config);
    halay_log_fini(&environment->log);
}

int perf_is_speaker(const struct perf_environment *environment)
{
    return environment->config.rank <= 0;
}

int perf_parse(const struct perf_environment *environment, const struct perf_command *command,
               const struct perf_option *table, int argc, char **argv, int *status)
{
    switch (perf_options_parse(table, command->name, argc, argv, stderr)) {
    case PERF_PARSED:
        return 0;
    case PERF_PARSED_HELP:
        if (perf_is_speaker(environment))
            perf_options_help(table, command, stdout);
        *status = PERF_EXIT_OK;
        return 1;
    default:
        *status = PERF_EXIT_USAGE;
        return 1;
    }
}

const char *perf_plural(char *text, size_t size, int n, const char *word)
{
    snprintf(text, size, "%d %s%s", n, word, n == 1 ? "" : "s");
    return text;
}

static void print_help(FILE *out)
{
    fputs("usage: halay-perf COMMAND [OPTION]...\n"
          "       halayrun -np N halay-perf COMMAND [OPTION]...\n"
          "       mpirun -np N halay-perf COMMAND [OPTION]...\n\n"
          "Measures halay, and says what it would do on this machine.\n\n",
          out);
    for (const struct perf_operation *o = perf_operations; o->command; o++)
        fprintf(out, "  %-15s %s\n", o->command, o->summary);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-15s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n  --help          this text; 'halay-perf COMMAND --help' for one command\n"
          "  --version       the version\n",
          out);
}

static int complain(const char *word)
{
    const char *names[NAMES_MAX] = { "--help", "--version" };
    int count = 2;

    for (const struct perf_operation *o = perf_operations; o->command && count < NAMES_MAX - COMMANDS - 1; o++)
        names[count++] = o->command;
    for (int i = 0; i < COMMANDS; i++)
        names[count++] = commands[i]->name;
    const char *nearest = halay_nearest_word(word, names);
    fprintf(stderr, "halay-perf: unknown %s '%s'", *word == '-' ? "option" : "command", word);
    if (nearest)
        fprintf(stderr, "; did you mean '%s'?\n", nearest);
    else
        fputs("; 'halay-perf --help' lists what there is\n", stderr);
    return PERF_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return PERF_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return PERF_EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("halay-perf %s\n", halay_version());
        return PERF_EXIT_OK;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i]->name))
            return commands[i]->run(argc - 1, argv + 1);
    if (perf_operation_find(argv[1]))
        return perf_run_operation(argc - 1, argv + 1);
    return complain(argv[1]);
}
