/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft train, step by step, for a program that adds to its command line: parse, complete, join, tft_train.
 */
#ifndef HALAY_TFT_CMD_TRAIN_H
#define HALAY_TFT_CMD_TRAIN_H

#include "tft/cli/run_options.h"
#include "tft/train/train_options.h"

/* Zero-initialise. */
struct tft_train_command {
    struct tft_run_keys keys;         /* first: run_options.h */
    const char *data, *schema;        /* borrowed; NULL: not given */
    struct tft_train_options options; /* folder and checkpoints likewise, until they are completed */
    struct tft_run_config config;
    char *checkpoints; /* owned: the run's own folder of them, if no other was given */
};

/* Its options, each with the member of the command that it sets. */
extern const struct halay_command_line tft_train_line;

/* As tft_run_options_parse. */
int tft_train_command_parse(struct halay_log *log, const struct tft_run_source *beside, char **argv,
                            struct tft_train_command *command);
/* Refuse what is missing or contradicts itself, and find the folder of checkpoints. A status to exit with, or -1. */
int tft_train_command_complete(struct halay_log *log, struct tft_train_command *command);
/* Open the data and join the other ranks (tft_job_init). */
enum halay_status tft_train_command_join(struct halay_log *log, const struct tft_train_command *command,
                                         struct tft_job *job);
void tft_train_command_fini(struct tft_train_command *command);

#endif
