/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf: measures halay, and shows what it would do. This file picks the subcommand: one of the operations, which
 * share a file, or one with a file of its own.
 */
#include "perf/src/cli/perf.h"
#include "perf/src/operation/operation.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct perf_command *const commands[] = { &perf_roofline_command, &perf_engine_command,
                                                       &perf_tune_command,     &perf_doctor_command,
                                                       &perf_flight_command,   &perf_timeline_merge_command };
enum { COMMANDS = sizeof commands / sizeof *commands, ROWS_MAX = 32 };

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

int perf_parse(const struct perf_environment *environment, const struct perf_command *command, char **argv,
               void *values, int *status)
{
    char name[64], why[512];
    const struct halay_command_line options = { .command = name,
                                                .synopsis = command->synopsis,
                                                .about = command->summary,
                                                .notes = command->notes,
                                                .table = command->table,
                                                .joins_values = 1 };

    snprintf(name, sizeof name, "halay-perf %s", command->name);
    enum halay_parsed parsed =
        halay_command_line_parse(&options, argv, values, perf_is_speaker(environment) ? stdout : NULL, why, sizeof why);
    if (parsed == HALAY_PARSED_WRONG)
        fprintf(stderr, "%s: %s\n", name, why);
    *status = parsed == HALAY_PARSED_WRONG ? EXIT_USAGE : EXIT_SUCCESS;
    return parsed != HALAY_PARSED;
}

enum halay_status perf_agree(struct halay_group *group, int has_failed)
{
    int32_t any = has_failed;
    enum halay_status status = halay_group_allreduce(group, &any, &any, 1, HALAY_I32, HALAY_MAX);

    return status == HALAY_OK && any ? HALAY_ERR_SYSTEM : status;
}

int perf_exit_status(enum halay_status status)
{
    const int is_usage = status == HALAY_ERR_ARGUMENT || status == HALAY_ERR_CONFIG || status == HALAY_ERR_UNSUPPORTED;

    return is_usage ? EXIT_USAGE : EXIT_FAILURE;
}

void perf_say(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "halay-perf %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

const char *perf_plural(char *text, size_t size, int n, const char *word)
{
    snprintf(text, size, "%d %s%s", n, word, n == 1 ? "" : "s");
    return text;
}

/* A row for each command. */
static void list_commands(struct halay_option rows[ROWS_MAX])
{
    int count = 0;

    rows[count++] = (struct halay_option){ .name = "Operations" };
    for (const struct perf_operation *o = perf_operations; o->command && count < ROWS_MAX - COMMANDS - 4; o++)
        rows[count++] = (struct halay_option){ .name = o->command, .help = o->summary, .kind = HALAY_OPTION_COMMAND };
    rows[count++] = (struct halay_option){ .name = "Other commands" };
    for (int i = 0; i < COMMANDS; i++)
        rows[count++] = (struct halay_option){ .name = commands[i]->name,
                                               .help = commands[i]->summary,
                                               .kind = HALAY_OPTION_COMMAND };
    rows[count++] = (struct halay_option){ .name = "Options" };
    rows[count++] =
        (struct halay_option){ .name = "--version", .help = "print the version", .kind = HALAY_OPTION_FLAG };
    rows[count] = (struct halay_option){ .name = NULL };
}

static int run_named(const char *name, char **argv)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i]->run(argv);
    return perf_run_operation(argv);
}

static int run(int argc, char **argv)
{
    struct halay_option rows[ROWS_MAX];
    const struct halay_command_line options = {
        .command = "halay-perf",
        .synopsis = "COMMAND [OPTION]...",
        .about = "Measures halay, and shows what it would do on this machine.\n"
                 "With several ranks: halayrun -np N halay-perf COMMAND, or mpirun -np N halay-perf COMMAND.",
        .table = rows,
        .notes = "'halay-perf COMMAND --help' explains a command.",
    };
    struct halay_option_given given;
    char **next = argv + 1, why[512];

    list_commands(rows);
    if (argc < 2) {
        halay_command_line_print_help(&options, stderr);
        return EXIT_USAGE;
    }
    if (!halay_option_read(&options, &next, &given, why, sizeof why)) {
        fprintf(stderr, "halay-perf: %s\n", why);
        return EXIT_USAGE;
    }
    if (given.option->kind == HALAY_OPTION_COMMAND)
        return run_named(given.option->name, next - 1);
    if (given.option->kind == HALAY_OPTION_HELP)
        halay_command_line_print_help(&options, stdout);
    else if (given.option->kind == HALAY_OPTION_LIST)
        halay_command_line_print_list(&options, stdout);
    else
        printf("halay-perf %s\n", halay_version());
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);

    if ((fflush(stdout) || ferror(stdout)) && !status) {
        fprintf(stderr, "halay-perf: cannot write to standard output\n");
        status = EXIT_FAILURE;
    }
    return status;
}
