/* SPDX-License-Identifier: Apache-2.0
 *
 * How many steps a run has: pure functions.
 */
#include "tft/run/run_length.h"
#include "tft/run/schedule.h"
#include <math.h>

enum { STEPS_MEASURED = 10 };
static const double measured = 0.1, enough = 0.5, filled = 0.95; /* of the time */

static int needs_number(const struct tft_limits *limits)
{
    return limits->seconds > 0 && (limits->schedule == TFT_SCHEDULE_WARMUP || limits->schedule == TFT_SCHEDULE_COSINE);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* By the pace since it began, which has made a step since. */
static uint64_t steps_that_fit(const struct tft_limits *limits, const struct tft_moment *began,
                               const struct tft_moment *now)
{
    double pace = (double)(now->step - began->step) / fmax(now->seconds - began->seconds, 1e-9);
    double left = fmax(filled * limits->seconds - now->seconds, 0);

    return now->step + (uint64_t)ceil(fmin(pace * left, 1e18));
}

int tft_plan_update(const struct tft_limits *limits, const struct tft_moment *now, struct tft_plan *plan)
{
    if (!needs_number(limits) || plan->steps)
        return 0;
    if (!plan->began.step)
        plan->began = *now;
    uint64_t steps = now->step - plan->began.step;
    double share = now->seconds / limits->seconds;
    if (!steps || share < measured || (steps < STEPS_MEASURED && share < enough))
        return 0;
    plan->steps = steps_that_fit(limits, &plan->began, now);
    plan->seconds = limits->seconds;
    return 1;
}

void tft_plan_resume(const struct tft_limits *limits, struct tft_plan *plan)
{
    if (!needs_number(limits))
        *plan = (struct tft_plan){ 0 };
    if (!plan->steps || plan->seconds == limits->seconds)
        return;
    double before = filled * plan->seconds - plan->began.seconds, left = filled * limits->seconds - plan->began.seconds;
    double steps = (double)(plan->steps - plan->began.step) * fmax(left, 0) / fmax(before, 1e-9);
    plan->steps = plan->began.step + (uint64_t)fmin(ceil(steps), 1e18);
    plan->seconds = limits->seconds;
}

uint64_t tft_plan_steps(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now)
{
    if (plan->steps)
        return least(plan->steps, limits->steps);
    if (!plan->began.step || now->step <= plan->began.step)
        return limits->steps;
    return least(steps_that_fit(limits, &plan->began, now), limits->steps);
}

int tft_plan_is_over(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now)
{
    return now->step >= (plan->steps ? least(plan->steps, limits->steps) : limits->steps) ||
           (limits->seconds > 0 && now->seconds >= limits->seconds);
}

/* The step where the schedule stands, of so many; the clock may be ahead of those that were made. */
static uint64_t place_of(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now,
                         uint64_t steps)
{
    const struct tft_moment *began = &plan->began;

    if (!plan->steps || steps <= began->step)
        return now->step;
    double share = (now->seconds - began->seconds) / fmax(limits->seconds - began->seconds, 1e-9);
    uint64_t by_time = began->step + (uint64_t)(fmin(fmax(share, 0), 1) * (double)(steps - began->step));
    return now->step > by_time ? now->step : by_time;
}

double tft_plan_rate(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now,
                     double highest, int halvings)
{
    uint64_t steps = tft_plan_steps(limits, plan, now);

    return tft_schedule_rate(limits->schedule, highest, place_of(limits, plan, now, steps), steps, halvings);
}
