/* SPDX-License-Identifier: Apache-2.0
 *
 * How many steps a run has, so that a schedule that needs to know it ends where the run does, whichever limit ends it.
 *
 * Of a run with a limit of time it is known late. The first step is left out, as it meets a cold machine; then the
 * pace is measured until a tenth of the time and ten steps are gone, and meanwhile the number is what the pace so far
 * says. Then it is fixed, for nineteen twentieths of the time. From then on the rate is a function of the step alone,
 * and the run ends before its time is up. Where it gets slower than that, its share of the time is ahead of its share
 * of the steps, and the schedule goes by the former: the run is stopped by its limit of time, with a rate that has
 * fallen.
 *
 * Pure: all ranks hear the same seconds, and come to the same rate.
 */
#ifndef HALAY_TFT_PLAN_H
#define HALAY_TFT_PLAN_H

#include "tft/run/run_config.h"

struct tft_limits {
    enum tft_schedule schedule;
    uint64_t steps; /* at most */
    double seconds; /* at most; 0: no limit */
};

/* Where a run stands. */
struct tft_moment {
    uint64_t step;  /* steps done */
    double seconds; /* that they took */
};

/* What is kept of it with the state of a training; all 0 where nobody needs to know. */
struct tft_plan {
    struct tft_moment began; /* the pace is measured from here; step 0: not yet */
    uint64_t steps;          /* that there is time for; 0: not fixed yet */
    double seconds;          /* the limit that they were fixed for */
};

/* After a step: fix the number if it is time to; 1 if that was just done. */
int tft_plan_update(const struct tft_limits *limits, const struct tft_moment *now, struct tft_plan *plan);
/* When a run goes on: with another limit of time the number changes in proportion. */
void tft_plan_resume(const struct tft_limits *limits, struct tft_plan *plan);
/* Steps of the run, as far as that is known. */
uint64_t tft_plan_steps(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now);
int tft_plan_is_over(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now);
/* The rate of the next step. */
double tft_plan_rate(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now,
                     double highest, int halvings);

#endif
