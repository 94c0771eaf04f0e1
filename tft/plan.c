/* SPDX-License-Identifier: Apache-2.0
 *
 * How many steps a run has: pure functions.
 */
#include "tft/plan.h"
#include "tft/schedule.h"
#include <math.h>

static const double measured = 0.1, filled = 0.95; /* shares of the time: what is measured, what the steps fill */

static int needs_number(const struct tft_limits *limits)
{
    return limits->seconds > 0 && (limits->schedule == TFT_SCHEDULE_WARMUP || limits->schedule == TFT_SCHEDULE_COSINE);
}

/* The share of the time that is gone. */
static double spent(const struct tft_limits *limits, const struct tft_moment *now)
{
    return needs_number(limits) ? fmin(1, now->seconds / limits->seconds) : 0;
}

/* By the pace so far. */
static uint64_t steps_that_fit(const struct tft_limits *limits, const struct tft_moment *now)
{
    double steps = ceil(filled * (double)now->step / spent(limits, now));

    return steps < 1e18 ? (uint64_t)fmax(steps, (double)now->step) : (uint64_t)1e18;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int tft_plan_update(const struct tft_limits *limits, const struct tft_moment *now, struct tft_plan *plan)
{
    if (plan->steps || !(spent(limits, now) >= measured))
        return 0;
    *plan = (struct tft_plan){ steps_that_fit(limits, now), limits->seconds };
    return 1;
}

void tft_plan_resume(const struct tft_limits *limits, struct tft_plan *plan)
{
    if (!needs_number(limits))
        *plan = (struct tft_plan){ 0 };
    if (!plan->steps || plan->seconds == limits->seconds)
        return;
    plan->steps = (uint64_t)fmin(ceil((double)plan->steps * (limits->seconds / plan->seconds)), 1e18);
    plan->seconds = limits->seconds;
}

uint64_t tft_plan_steps(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now)
{
    if (plan->steps)
        return least(plan->steps, limits->steps);
    return spent(limits, now) > 0 && now->step ? least(steps_that_fit(limits, now), limits->steps) : limits->steps;
}

int tft_plan_is_over(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now)
{
    return now->step >= (plan->steps ? least(plan->steps, limits->steps) : limits->steps) ||
           (limits->seconds > 0 && now->seconds >= limits->seconds);
}

double tft_plan_rate(const struct tft_limits *limits, const struct tft_plan *plan, const struct tft_moment *now,
                     double highest, int halvings)
{
    uint64_t steps = tft_plan_steps(limits, plan, now);
    uint64_t by_time = (uint64_t)(spent(limits, now) * (double)steps);

    return tft_schedule_rate(limits->schedule, highest, now->step > by_time ? now->step : by_time, steps, halvings);
}
