/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials: trainings of a search, their progress, and which of them continue at a rung.
 *
 * Asynchronous successive halving (Li et al., A System for Massively Parallel Hyperparameter Tuning, 2020), in its
 * stopping form: a trial's run has rungs, at shares of its length; a trial that reaches a rung continues if its value
 * is among the best 1/eta of all values at that rung so far.
 */
#ifndef HALAY_TFT_TUNE_TRIALS_H
#define HALAY_TFT_TUNE_TRIALS_H

#include "tft/tools/tune/space.h"

enum { TFT_RUNGS_MAX = 8 };

enum tft_trial_state {
    TFT_TRIAL_RUNNING,
    TFT_TRIAL_DONE,    /* it ended by itself */
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
    size_t rungs; /* that it has reached */
    double at_rung[TFT_RUNGS_MAX];
    double seconds; /* of training */
    long long step;
    int exit_code; /* of one that has ended */
};

struct tft_trials {
    struct tft_trial *list; /* owned */
    size_t count, size;
};

/* Adds a trial, which runs; NULL without memory. */
struct tft_trial *tft_trials_add(struct tft_trials *trials, const double *point);
void tft_trials_fini(struct tft_trials *trials);

/* Returns nonzero if a trial has this point. */
int tft_trials_have(const struct tft_trials *trials, const double *point, size_t settings);
/* The trial with the lowest value; `count` if none has one. */
size_t tft_trials_best(const struct tft_trials *trials);
/* Lists trials that have ended, best first: those that got further before others, then by value; those without a
 * value last. order: (count). Returns their number. */
size_t tft_trials_rank(const struct tft_trials *trials, size_t *order);

/* The share of the run at which rung r of `rungs` is: eta^(r - rungs). */
double tft_rung_share(size_t rung, size_t rungs, int eta);
/* Returns nonzero if a trial that has reached a rung (at_rung is set) continues. */
int tft_halving_keeps(const struct tft_trials *trials, size_t trial, size_t rung, int eta);

/* ---- progress ---- */

enum tft_goal { TFT_GOAL_VALID_LOSS, TFT_GOAL_Q_RISK };
extern const char *const tft_goal_words[];

/* How trials are judged. */
struct tft_judging {
    enum tft_goal goal;
    double max_steps, max_time, epochs; /* that end a trial; 0: no limit. All 0: its training chooses */
    int is_by_epochs;                   /* an evaluation is an epoch's end */
    size_t rungs;
    int eta;
};

/*
 * Reads the file of metrics of a trial's training, which may not exist yet: evaluations up to the next rung that the
 * trial has reached, whose value is set; the rung counts once the caller adds it to the trial's. Returns 1 at a rung, 0
 * at the end of the file. Incomplete lines are left.
 */
int tft_progress_take(const char *path, const struct tft_judging *how, struct tft_trial *trial);

#endif
