/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf: what its subcommands share.
 */
#ifndef HALAY_PERF_H
#define HALAY_PERF_H

#include "base/config.h"
#include "base/log.h"
#include "base/options.h"
#include "halay_coll.h"

/* What one command is. */
struct perf_command {
    const char *name;
    const char *summary;              /* one line */
    const char *synopsis, *notes;     /* as in struct halay_command_line */
    const struct halay_option *table; /* likewise */
    int (*run)(char **argv);          /* argv[0] is the command; the program's exit status */
};

extern const struct perf_command perf_roofline_command;       /* cmd_operation.c */
extern const struct perf_command perf_engine_command;         /* cmd_engine.c */
extern const struct perf_command perf_flight_command;         /* cmd_flight.c */
extern const struct perf_command perf_timeline_merge_command; /* cmd_timeline_merge.c */
extern const struct perf_command perf_tune_command;           /* cmd_tune.c */
extern const struct perf_command perf_doctor_command;         /* cmd_doctor.c */

/* The commands that are operations: operation.h has their table. argv[0] is one's name; the program's exit status. */
int perf_run_operation(char **argv);

/* The environment as the library will read it. */
struct perf_environment {
    struct halay_log log;
    struct halay_config config;
};

/* HALAY_ERR_CONFIG after a line that names what does not parse. */
enum halay_status perf_environment_init(struct perf_environment *environment);
void perf_environment_fini(struct perf_environment *environment);

/* Is this the rank that prints, as far as is known before the ranks meet? Under mpirun every rank believes it is the
 * first. */
int perf_is_speaker(const struct perf_environment *environment);

/* Parse by the command's table. Nonzero and the exit status if help or an error was printed. Every rank prints the
 * error, as a launcher may end the others when the first one gives up. */
int perf_parse(const struct perf_environment *environment, const struct perf_command *command, char **argv,
               void *values, int *status);

/* Every rank tells whether it has failed: HALAY_ERR_SYSTEM on all if one has, so that none waits for it. */
enum halay_status perf_agree(struct halay_group *group, int has_failed);

/* The program's exit status after an error: EXIT_USAGE for wrong use that only the library could find. */
int perf_exit_status(enum halay_status status);

/* A line on standard error: "halay-perf COMMAND: " and the text. */
void perf_say(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "2 ranks", "1 host": n and the word, with an s unless n is 1. */
const char *perf_plural(char *text, size_t size, int n, const char *word);

#endif
