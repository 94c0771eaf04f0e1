/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft train, step by step, for a program that adds to its command line: parse, complete, open, run.
 */
#ifndef HALAY_TFT_CMD_TRAIN_H
#define HALAY_TFT_CMD_TRAIN_H

#include "tft/tools/cli/run_options.h"

/* Zero-initialise. */
struct tft_train_command {
    struct tft_run_keys keys;               /* first: run_options.h */
    const char *data, *schema;              /* borrowed; NULL: not given */
    struct halay_tft_train_options options; /* its texts are borrowed; its configuration is the next */
    char *config;                           /* owned: once the line is parsed */
    int finds_rate;
    int watches_continue; /* SIGCONT too is a request to stop */
    struct tft_progress_lines lines;
};

/* Its options, each with the member of the command that it sets. */
extern const struct halay_command_line tft_train_line;

/* As tft_run_options_parse. */
int tft_train_command_parse(struct halay_log *log, const struct tft_run_source *beside, char **argv,
                            struct tft_train_command *command);
/* Refuse what is missing or contradicts itself. A status to exit with, or -1. */
int tft_train_command_complete(struct halay_log *log, const struct tft_train_command *command);
/* Open the data and join the other ranks (tft_job_open). */
enum halay_status tft_train_command_open(struct halay_log *log, struct halay_tft *tft,
                                         const struct tft_train_command *command, struct halay_tft_data **data);
/* Trains, with progress on standard error; signals ask it to stop. */
enum halay_status tft_train_command_run(struct halay_log *log, struct halay_tft *tft, struct tft_train_command *command,
                                        struct halay_tft_data *data);
void tft_train_command_fini(struct tft_train_command *command);

#endif
