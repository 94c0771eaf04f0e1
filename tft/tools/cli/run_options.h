/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that train share: the keys of a run's configuration on their command lines, and prepared data on
 * the ranks that run together.
 */
#ifndef HALAY_TFT_RUN_OPTIONS_H
#define HALAY_TFT_RUN_OPTIONS_H

#include "tft/tools/cli/session.h"
#include <jansson.h>
#include <stdint.h>

/* Keys of another source than file, environment and command line. */
struct tft_run_source {
    const char *where; /* for messages */
    json_t *document;  /* borrowed; NULL: none */
};

/* The keys of a command line, in its order; they override the file. */
struct tft_run_keys {
    const char *file; /* --config; NULL: none */
    size_t count;
    struct {
        const struct halay_option *option;
        const char *value; /* borrowed */
    } given[128];
};

/*
 * Parses a command line of options and keys of the configuration; values begins with a struct tft_run_keys. Keys are
 * taken from the file, the other source (NULL: none), the environment and the line, each overriding the one before.
 * Returns -1 to continue with *config, checked as a whole (halay_tft_free), or a status to exit with.
 */
int tft_run_options_parse(struct halay_log *log, const struct halay_command_line *line,
                          const struct tft_run_source *beside, char **argv, void *values, char **config);

/* Sets a key of a configuration to a valid value. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_run_options_set(struct halay_log *log, char **config, const char *key, long long value);
/* Returns the number of a key of a configuration; 0 if it has none. */
double tft_run_options_number(const char *config, const char *key);

/* tft_command_run with `deterministic` and `device` of the configuration. */
int tft_run_options_run(struct halay_log *log, const char *config, tft_command_work *work, void *request);

/* Joins the other ranks and opens the data on all of them: an error of one, with its host's name, is the error of all.
 * is_elastic: opens the data, then joins, since the others may be at work already. */
enum halay_status tft_job_open(struct halay_log *log, struct halay_tft *tft, const char *path, int is_elastic,
                               struct halay_tft_data **data);
/* The same with a table (a file, or a folder of files) that one rank of each host first prepares by a schema. */
enum halay_status tft_job_open_table(struct halay_log *log, struct halay_tft *tft, const char *schema,
                                     const char *table, struct halay_tft_data **data);

/* Prepares a table by a schema into options->path; unless is_quiet, prints what happened to the rows (cmd_prepare.c).
 * */
enum halay_status tft_prepare(struct halay_log *log, struct halay_tft *tft, const struct halay_tft_table *table,
                              const struct halay_tft_prepare_options *options, int is_quiet);

/* Progress on standard error: on a terminal one line that is rewritten; elsewhere a plain line every ten seconds.
 * Zero-initialise. */
struct tft_progress_lines {
    int64_t printed_us;
};

/* Callbacks of trainings; arg is a struct tft_progress_lines. A message is always a line of its own. */
void tft_progress_lines_step(void *arg, const struct halay_tft_progress *progress);
void tft_progress_lines_say(void *arg, const char *text);

#endif
