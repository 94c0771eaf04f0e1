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

/* Keys from elsewhere. */
struct tft_run_source {
    const char *where;      /* for messages */
    const json_t *document; /* NULL: none */
};

/*
 * Parse a command line of options and keys of the configuration; these are kept meanwhile, and taken after the file,
 * what is beside it and the environment. options: log, command, help and list are set, the rest is filled in. file:
 * where the list puts the name of the configuration's file; NULL there: none. beside: a second file, which overrides
 * the first; may be NULL. rest: as tft_options_parse has it. keys (may be NULL): how many the command line has. Returns
 * a status to exit with, or -1 to go on with *config, checked as a whole.
 */
int tft_run_options_parse(struct tft_options *options, const char *const *file, const struct tft_run_source *beside,
                          int argc, char **argv, int *rest, size_t *keys, struct tft_run_config *config);

/* Zero-initialise. */
struct tft_job {
    struct halay_context *ctx; /* owned */
    struct tft_data data;      /* owned */
};

/* Open the data, then join the other ranks; log gets this one's number, and where it writes to the engine's lines go
 * too. fini is called whatever happens, so that they hear of a failure. */
enum halay_status tft_job_init(struct halay_log *log, const struct tft_run_config *config, const char *data_path,
                               struct tft_job *job);
/* The same with a table (a file, or a folder of them) that a rank of each host first prepares by a schema, all
 * alike. */
enum halay_status tft_job_init_table(struct halay_log *log, const struct tft_run_config *config, const char *schema,
                                     const char *table, struct tft_job *job);
void tft_job_fini(struct tft_job *job);

#endif
