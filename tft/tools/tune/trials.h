/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials: trainings of a search, what is known of each, and which of them is worth going on.
 *
 * Asynchronous successive halving (Li et al., A System for Massively Parallel Hyperparameter Tuning, 2020), in its
 * stopping form: a trial's run has rungs, at shares of its length; one that comes to a rung goes on if its value is
 * among the best 1/eta of all values that the rung has seen so far.
 */
#ifndef HALAY_TFT_TUNE_TRIALS_H
#define HALAY_TFT_TUNE_TRIALS_H

#include "tft/tools/tune/space.h"

enum { TFT_RUNGS_MAX = 8 };

enum tft_trial_state {
    TFT_TRIAL_RUNNING,
    TFT_TRIAL_DONE,    /* it came to its end */
    TFT_TRIAL_STOPPED, /* at a rung */
    TFT_TRIAL_CUT,     /* the budget was used up */
    TFT_TRIAL_FAILED,
};
extern const char *const tft_trial_states[]; /* their names, with NULL at the end */

struct tft_trial {
    double point[TFT_SETTINGS_MAX];
    enum tft_trial_state state;
    double value; /* the lowest so far; infinite: none */
    double share; /* of its run that is done */
    size_t rungs; /* that it has come to */
    double at_rung[TFT_RUNGS_MAX];
    double seconds; /* of training */
    long long step;
    int exit_code; /* of one that has ended */
};

struct tft_trials {
    struct tft_trial *list; /* owned */
    size_t count, size;
};

/* One more, which runs; NULL without memory. */
struct tft_trial *tft_trials_add(struct tft_trials *trials, const double *point);
void tft_trials_fini(struct tft_trials *trials);

/* Has one of them this point? */
int tft_trials_have(const struct tft_trials *trials, const double *point, size_t settings);
/* The trial with the lowest value; `count` if none has one. */
size_t tft_trials_best(const struct tft_trials *trials);
/* Trials that have ended, best first: those that came further before others, then by value; those without one last.
 * order: (count); returns how many. */
size_t tft_trials_rank(const struct tft_trials *trials, size_t *order);

/* Where rung r of `rungs` lies: at eta^(r - rungs) of the run. */
double tft_rung_share(size_t rung, size_t rungs, int eta);
/* Does a trial that has come to a rung (at_rung is set) go on? */
int tft_halving_keeps(const struct tft_trials *trials, size_t trial, size_t rung, int eta);

#endif
