/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that train share: the keys of a run's configuration on their command lines, and prepared data on
 * the ranks that run together.
 */
#ifndef HALAY_TFT_RUN_OPTIONS_H
#define HALAY_TFT_RUN_OPTIONS_H

#include "tft/tools/cli/options.h"
#include "tft/tools/cli/session.h"
#include <jansson.h>

/* Keys from another source. */
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
 * Parse a command line of options and keys of the configuration, which has to begin with a struct tft_run_keys. The
 * line's keys are taken after the file, what is beside it (a second file, which overrides the first; may be NULL) and
 * the environment. Returns a status to exit with, or -1 to go on with *config, checked as a whole (halay_tft_free).
 */
int tft_run_options_parse(struct halay_log *log, const struct halay_command_line *line,
                          const struct tft_run_source *beside, char **argv, void *values, char **config);

/* Set a key of a configuration to a value that is one. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_run_options_set(struct halay_log *log, char **config, const char *key, long long value);
/* The number that a key of a configuration has; 0: none. */
double tft_run_options_number(const char *config, const char *key);

/* tft_command_run, in a job that is as deterministic as the configuration and the environment say. */
int tft_run_options_run(struct halay_log *log, const char *config, tft_command_work *work, void *request);

/* Open the data, then join the other ranks. */
enum halay_status tft_job_open(struct halay_log *log, struct halay_tft *tft, const char *path,
                               struct halay_tft_data **data);
/* The same with a table (a file, or a folder of files) that one rank of each host first prepares by a schema. */
enum halay_status tft_job_open_table(struct halay_log *log, struct halay_tft *tft, const char *schema,
                                     const char *table, struct halay_tft_data **data);

#endif
