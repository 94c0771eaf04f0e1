/* SPDX-License-Identifier: Apache-2.0
 *
 * How many steps a run has. A learning rate that warms up or falls must know, so that it ends where the run does,
 * whichever limit ends the run, and so must validations, which come at even distances.
 *
 * With a limit of time the number is not known at first. The first step is left out, since the machine is cold; then
 * the pace is measured until a tenth of the time and ten steps have passed, and until then the number is estimated from
 * the pace so far. Then it is fixed, at what fits in nineteen twentieths of the time. From then on the rate depends on
 * the step alone, and the run ends before its time is up. If the run slows down, its share of the time runs ahead of
 * its share of the steps, and the rate follows the time: the limit of time then stops the run at a rate that has
 * fallen.
 *
 * Pure: all ranks get the same seconds and find the same rate.
 */
#ifndef HALAY_TFT_RUN_LENGTH_H
#define HALAY_TFT_RUN_LENGTH_H

#include "tft/core/kernels/loss.h"
#include "tft/core/run/run_config.h"

/* More steps than any run has: where only time limits it. */
#define TFT_STEPS_UNLIMITED UINT64_MAX

struct tft_limits {
    enum tft_lr_schedule schedule;
    uint64_t steps;  /* at most */
    double seconds;  /* at most; 0: no limit */
    double reserved; /* of these, for what follows the last step */
};

/* A moment of a run. */
struct tft_moment {
    uint64_t step;  /* steps done */
    double seconds; /* they took */
};

/* The part that a checkpoint keeps; all 0 without a limit of time. */
struct tft_run_length {
    struct tft_moment began; /* the pace is measured from here; step 0: not yet */
    uint64_t steps;          /* for which there is time; 0: not fixed yet */
    double seconds;          /* the limit for which they were fixed */
};

/* After a step: fix the number if it is time to. Returns 1 if it was fixed just now. */
int tft_run_length_fix(const struct tft_limits *limits, const struct tft_moment *now, struct tft_run_length *length);
/* When a run resumes: with another limit of time the number changes in proportion. */
void tft_run_length_resume(const struct tft_limits *limits, struct tft_run_length *length);
/* Steps of the run, as far as they are known. */
uint64_t tft_run_length_steps(const struct tft_limits *limits, const struct tft_run_length *length,
                              const struct tft_moment *now);
int tft_run_length_is_over(const struct tft_limits *limits, const struct tft_run_length *length,
                           const struct tft_moment *now);
/* Steps between two validations where none are given: a twentieth of the run, at least 50; 0: not known yet. */
uint64_t tft_run_length_part(const struct tft_limits *limits, const struct tft_run_length *length);
/* Steps of a run that nothing else limits: eight times all windows, but 500 to 10,000 steps. */
uint64_t tft_run_length_suited(size_t windows, size_t batch);
/* Returns the number of models that share a training of this many seconds: three where an epoch has few steps, since
 * there the seed matters most; two from ten minutes on; one otherwise. */
size_t tft_run_length_members(double seconds, size_t windows, size_t batch);
/* Returns nonzero if a model of this width learns less in this number of steps than one of half of it in the same
 * time. */
int tft_run_length_is_short(uint64_t steps, size_t width);
/* The rate of the next step. */
double tft_run_length_rate(const struct tft_limits *limits, const struct tft_run_length *length,
                           const struct tft_moment *now, double highest);

/*
 * Learning rate: a function of the progress of the run (tft/core/run/run_length.h).
 */

/*
 * The rate of a step (from 0) of `total`.
 *   warmup   rises linearly over the first twentieth of the steps, then stays
 *   cosine   rises as warmup does, then falls along half a cosine to 0 at the end
 */
double tft_learning_rate_at(enum tft_lr_schedule schedule, double highest, uint64_t step, uint64_t total);

/*
 * The rate to train with, given the losses of steps at growing rates: where the smoothed loss falls most steeply
 * against the logarithm of the rate, but at most a tenth of the rate where it is lowest, since larger steps may be too
 * large for a whole training. Smoothing is exponential (0.9, bias-corrected); slopes are those of lines fitted to 13
 * points. Everything after four times the lowest loss, or after a loss that is not finite, is ignored. steps: at most
 * TFT_RATE_FINDER_STEPS. 0 if the loss never falls. Pure.
 */
enum { TFT_RATE_FINDER_STEPS = 100 };
double tft_learning_rate_suggest(enum tft_loss kind, const double *rates, const double *losses, size_t steps);

#endif
