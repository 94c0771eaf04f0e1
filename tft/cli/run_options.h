/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that train share: the keys of a run's configuration on their command lines, and the job: prepared
 * data on the ranks that run together.
 */
#ifndef HALAY_TFT_RUN_OPTIONS_H
#define HALAY_TFT_RUN_OPTIONS_H

#include "halay.h"
#include "tft/cli/options.h"
#include "tft/data/data.h"
#include "tft/run/run_config.h"

/* Keys from another source. */
struct tft_run_source {
    const char *where;      /* for messages */
    const json_t *document; /* NULL: none */
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
 * the environment. Returns a status to exit with, or -1 to go on with *config, checked as a whole.
 */
int tft_run_options_parse(struct halay_log *log, const struct halay_command_line *line,
                          const struct tft_run_source *beside, char **argv, void *values,
                          struct tft_run_config *config);

/* Zero-initialise. */
struct tft_job {
    struct halay_context *ctx; /* owned */
    struct tft_data data;      /* owned */
};

/* Open the data, then join the other ranks; log gets this rank's number, and the engine writes to it. Call fini even
 * after an error, so that the other ranks learn of it. */
enum halay_status tft_job_init(struct halay_log *log, const struct tft_run_config *config, const char *data_path,
                               struct tft_job *job);
/* The same with a table (a file, or a folder of files) that one rank of each host first prepares by a schema. */
enum halay_status tft_job_init_table(struct halay_log *log, const struct tft_run_config *config, const char *schema,
                                     const char *table, struct tft_job *job);
void tft_job_fini(struct tft_job *job);

#endif
