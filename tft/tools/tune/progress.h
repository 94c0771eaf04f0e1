/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a trial has come: what its training writes into metrics.jsonl.
 */
#ifndef HALAY_TFT_TUNE_PROGRESS_H
#define HALAY_TFT_TUNE_PROGRESS_H

#include "tft/tools/tune/trials.h"

enum tft_goal { TFT_GOAL_VALID_LOSS, TFT_GOAL_Q_RISK };
extern const char *const tft_goal_words[];

/* How trials are judged. */
struct tft_judging {
    enum tft_goal goal;
    double max_steps, max_time, epochs; /* of a trial: its length, by what ends it first; 0: no limit. All 0: what its
                                           training says */
    int is_by_epochs;                   /* an evaluation is an epoch's end */
    size_t rungs;
    int eta;
};

/*
 * Take what a file of metrics says, which may not be there yet, into a trial: evaluations up to the next rung that it
 * has come to, whose value is set; the rung counts once the caller adds it to the trial's. 1: it has come to one. 0:
 * there is nothing more to read. Lines that are not whole yet are left.
 */
int tft_progress_take(const char *path, const struct tft_judging *how, struct tft_trial *trial);

#endif
