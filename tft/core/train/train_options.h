/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a training besides its configuration and data: where it writes, how it begins, what listens to it.
 */
#ifndef HALAY_TFT_TRAIN_OPTIONS_H
#define HALAY_TFT_TRAIN_OPTIONS_H

#include "halay_tft.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/run_config.h"
#include <stdio.h>

/* Gets what rank 0's training announces; each may be NULL. Called on the thread that trains. */
struct tft_listener {
    void (*step)(void *arg, const struct halay_tft_progress *progress);
    void (*evaluation)(void *arg, const char *json); /* the line of metrics.jsonl */
    void (*say)(void *arg, const char *text);        /* a line for people */
    void *arg;
};

/* Returns the number of a rank's compute threads: the configuration's, or its share of its host's cores; one for a
 * device of its own. */
int tft_trainer_threads(struct halay_log *log, const struct halay_context *ctx, const struct tft_run_config *config);
/* Prints a line for people, if the listener takes such. */
void tft_say(const struct tft_listener *listener, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct tft_train_options {
    const char *folder;      /* the run's */
    const char *checkpoints; /* the folder of its checkpoints */
    const char *metrics;     /* the folder of metrics.jsonl; NULL: the run's */
    int folder_ends;         /* the folder is removed after the training: messages do not name it */
    int elastic;             /* continue when ranks are lost: halay_elastic.h */
    int holds_out;           /* a refit leaves out the rows from this split (enum tft_split) on; 0: none */
    int is_member;           /* not the first: the first's training chooses and calibrates for all */
    int resume;              /* resume from the newest of them, if there is one */
    struct tft_stop *stop;   /* borrowed; NULL: it is not asked to stop */
    struct tft_listener listener;
    int finds_rate; /* look for a learning rate and write nothing; folders are not used */
    FILE *report;   /* where rank 0 prints what it found */
    double *rate;   /* what it found; 0: nothing */
};

#endif
