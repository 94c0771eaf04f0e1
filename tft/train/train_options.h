/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a training besides its configuration and data: where it writes, how it begins.
 */
#ifndef HALAY_TFT_TRAIN_OPTIONS_H
#define HALAY_TFT_TRAIN_OPTIONS_H

#include <stdio.h>

struct tft_train_options {
    const char *folder;      /* the run's */
    const char *checkpoints; /* the folder of its checkpoints */
    const char *metrics;     /* the folder of metrics.jsonl; NULL: the run's */
    int elastic;             /* continue when ranks are lost: halay_elastic.h */
    int resume;              /* resume from the newest of them, if there is one */
    int watches_continue;    /* SIGCONT too is a request to stop (tft/run/interrupt.h) */
    int finds_rate; /* look for a learning rate (tft/train/rate_finder.h) and write nothing; folders are not used */
    FILE *report;   /* where it says what it found */
};

#endif
