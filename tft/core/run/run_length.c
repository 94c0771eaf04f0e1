/* SPDX-License-Identifier: Apache-2.0
 *
 * How many steps a run has: pure functions.
 */
#include "tft/core/run/run_length.h"
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

/* The step by which the rate goes, out of `steps`: the one made, or the one due by the clock if that is ahead. */
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

/*
 * Learning rate: pure functions.
 */

double tft_learning_rate_at(enum tft_lr_schedule schedule, double highest, uint64_t step, uint64_t total)
{
    double rise = total >= 20 ? (double)(total / 20) : 1, at = (double)step + 1;

    switch (schedule) {
    case TFT_LR_WARMUP:
        return highest * fmin(1, at / rise);
    case TFT_LR_COSINE:
        if (at < rise)
            return highest * at / rise;
        return highest * 0.5 * (1 + cos(M_PI * fmin(1, ((double)step - rise + 1) / ((double)total - rise + 1))));
    default:
        return highest;
    }
}

/* Smoothed losses. Returns how many there are before they diverge. */
static size_t smooth_losses(enum tft_loss kind, const double *losses, size_t steps, double *smoothed)
{
    const double smoothing = 0.9, too_much = 4;
    double sum = 0, weight = 0, lowest = INFINITY;

    for (size_t i = 0; i < steps; i++) {
        sum = smoothing * sum + (1 - smoothing) * losses[i];
        weight = smoothing * weight + (1 - smoothing);
        smoothed[i] = sum / weight;
        if (!isfinite(smoothed[i]) || smoothed[i] > tft_loss_times(kind, lowest, too_much))
            return i;
        lowest = fmin(lowest, smoothed[i]);
    }
    return steps;
}

/* Slope of the smoothed losses around step i against the logarithm of the rate, by least squares. */
static double slope_at(const double *rates, const double *smoothed, size_t good, size_t i)
{
    enum { REACH = 6 };
    size_t first = i > REACH ? i - REACH : 0, end = i + REACH < good ? i + REACH + 1 : good;
    double n = (double)(end - first), x = 0, y = 0, xx = 0, xy = 0;

    for (size_t k = first; k < end; k++) {
        double at = log(rates[k]);
        x += at;
        y += smoothed[k];
        xx += at * at;
        xy += at * smoothed[k];
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

double tft_learning_rate_suggest(enum tft_loss kind, const double *rates, const double *losses, size_t steps)
{
    double smoothed[TFT_RATE_FINDER_STEPS], steepest = 0, rate = 0;
    size_t lowest = 0,
           good = smooth_losses(kind, losses, steps < TFT_RATE_FINDER_STEPS ? steps : TFT_RATE_FINDER_STEPS, smoothed);

    for (size_t i = 1; i + 1 < good; i++) {
        double slope = slope_at(rates, smoothed, good, i);
        if (slope < steepest) {
            steepest = slope;
            rate = rates[i];
        }
        lowest = smoothed[i] < smoothed[lowest] ? i : lowest;
    }
    return rate > 0 ? fmin(rate, rates[lowest] / 10) : 0;
}
