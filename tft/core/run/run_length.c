/* SPDX-License-Identifier: Apache-2.0
 *
 * How many steps a run has: pure functions.
 */
#include "tft/core/run/run_length.h"
#include "tft/core/run/learning_rate.h"
#include <math.h>

enum { STEPS_MEASURED = 10, PARTS = 20, PART_LEAST = 50, ROUNDS = 8, SUITED_LEAST = 500, SUITED_MOST = 10000 };
static const double measured = 0.1, enough = 0.5, filled = 0.95; /* of the time */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Seconds that steps may take. */
static double seconds_of(const struct tft_limits *limits)
{
    return limits->seconds - limits->reserved;
}

/* At the pace since it began; at least one step must have been made since. */
static uint64_t steps_that_fit(const struct tft_limits *limits, const struct tft_moment *began,
                               const struct tft_moment *now)
{
    double pace = (double)(now->step - began->step) / fmax(now->seconds - began->seconds, 1e-9);
    double left = fmax(filled * seconds_of(limits) - now->seconds, 0);

    return now->step + (uint64_t)ceil(fmin(pace * left, 1e18));
}

int tft_run_length_fix(const struct tft_limits *limits, const struct tft_moment *now, struct tft_run_length *length)
{
    if (!(limits->seconds > 0) || length->steps)
        return 0;
    if (!length->began.step)
        length->began = *now;
    uint64_t steps = now->step - length->began.step;
    double share = now->seconds / limits->seconds;
    if (!steps || share < measured || (steps < STEPS_MEASURED && share < enough))
        return 0;
    length->steps = steps_that_fit(limits, &length->began, now);
    length->seconds = limits->seconds;
    return 1;
}

void tft_run_length_resume(const struct tft_limits *limits, struct tft_run_length *length)
{
    if (!(limits->seconds > 0))
        *length = (struct tft_run_length){ 0 };
    if (!length->steps || length->seconds == limits->seconds)
        return;
    double before = filled * length->seconds - length->began.seconds,
           left = filled * limits->seconds - length->began.seconds;
    double steps = (double)(length->steps - length->began.step) * fmax(left, 0) / fmax(before, 1e-9);
    length->steps = length->began.step + (uint64_t)fmin(ceil(steps), 1e18);
    length->seconds = limits->seconds;
}

uint64_t tft_run_length_steps(const struct tft_limits *limits, const struct tft_run_length *length,
                              const struct tft_moment *now)
{
    if (length->steps)
        return min_u64(length->steps, limits->steps);
    if (!length->began.step || now->step <= length->began.step)
        return limits->steps;
    return min_u64(steps_that_fit(limits, &length->began, now), limits->steps);
}

int tft_run_length_is_over(const struct tft_limits *limits, const struct tft_run_length *length,
                           const struct tft_moment *now)
{
    return now->step >= (length->steps ? min_u64(length->steps, limits->steps) : limits->steps) ||
           (limits->seconds > 0 && now->seconds >= seconds_of(limits));
}

uint64_t tft_run_length_part(const struct tft_limits *limits, const struct tft_run_length *length)
{
    if (limits->seconds > 0 && !length->steps)
        return 0;
    uint64_t part = min_u64(length->steps ? length->steps : limits->steps, limits->steps) / PARTS;

    return part > PART_LEAST ? part : PART_LEAST;
}

uint64_t tft_run_length_suited(size_t windows, size_t batch)
{
    uint64_t steps = (uint64_t)windows / batch * ROUNDS;

    return steps < SUITED_LEAST ? SUITED_LEAST : min_u64(steps, SUITED_MOST);
}

size_t tft_run_length_members(double seconds, size_t windows, size_t batch)
{
    enum { FEW_STEPS = 16, FEW_SECONDS = 30, SECONDS = 600 };

    if (windows <= FEW_STEPS * batch && seconds >= FEW_SECONDS)
        return 3;
    return seconds >= SECONDS ? 2 : 1;
}

int tft_run_length_is_short(uint64_t steps, size_t width)
{
    enum { STEPS_A_COLUMN = 5, WIDTH_LEAST = 16 };

    return width > WIDTH_LEAST && steps < STEPS_A_COLUMN * (uint64_t)width;
}

/* The step by which the rate goes, out of so many: the one made, or the one due by the clock if that is ahead. */
static uint64_t schedule_step(const struct tft_limits *limits, const struct tft_run_length *length,
                              const struct tft_moment *now, uint64_t steps)
{
    const struct tft_moment *began = &length->began;

    if (!length->steps || steps <= began->step)
        return now->step;
    double share = (now->seconds - began->seconds) / fmax(seconds_of(limits) - began->seconds, 1e-9);
    uint64_t by_time = began->step + (uint64_t)(fmin(fmax(share, 0), 1) * (double)(steps - began->step));
    return now->step > by_time ? now->step : by_time;
}

double tft_run_length_rate(const struct tft_limits *limits, const struct tft_run_length *length,
                           const struct tft_moment *now, double highest)
{
    uint64_t steps = tft_run_length_steps(limits, length, now);

    if (steps == TFT_STEPS_UNLIMITED) /* the first two steps, by which the pace is found */
        steps = SUITED_LEAST;
    return tft_learning_rate_at(limits->schedule, highest, schedule_step(limits, length, now, steps), steps);
}
