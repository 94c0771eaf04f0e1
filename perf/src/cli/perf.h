/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf: what its subcommands share.
 */
#ifndef HALAY_PERF_H
#define HALAY_PERF_H

#include "base/config.h"
#include "base/log.h"
#include "halay_types.h"
#include "perf/src/cli/options.h"

/* The program's exit statuses. */
enum { PERF_EXIT_OK = 0, PERF_EXIT_FAILED = 1, PERF_EXIT_USAGE = 2 };

extern const struct perf_command perf_roofline_command;       /* cmd_operation.c */
extern const struct perf_command perf_engine_command;         /* cmd_engine.c */
extern const struct perf_command perf_flight_command;         /* cmd_flight.c */
extern const struct perf_command perf_timeline_merge_command; /* cmd_timeline_merge.c */
extern const struct perf_command perf_tune_command;           /* cmd_tune.c */
extern const struct perf_command perf_doctor_command;         /* cmd_doctor.c */

/* The commands that are operations: operation.h has their table. argv[0] is one's name; the program's exit status. */
int perf_run_operation(int argc, char **argv);

/* The environment as the library will read it. */
struct perf_environment {
    struct halay_log log;
    struct halay_config config;
};

/* HALAY_ERR_CONFIG after a line that says what does not parse. */
enum halay_status perf_environment_init(struct perf_environment *environment);
void perf_environment_fini(struct perf_environment *environment);

/* Is this the rank that speaks for all, as far as can be told before the ranks have met? Under mpirun every rank takes
 * itself for the first one. */
int perf_is_speaker(const struct perf_environment *environment);

/* Parse by the table. Nonzero and the exit status: help was printed, or what is wrong, by every rank, as a launcher may
 * end the others when the first one gives up. */
int perf_parse(const struct perf_environment *environment, const struct perf_command *command,
               const struct perf_option *table, int argc, char **argv, int *status);

/* "2 ranks", "1 host": n and the word, with an s unless n is 1. */
const char *perf_plural(char *text, size_t size, int n, const char *word);

#endif
