/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: monotonic microseconds and deadlines.
 *
 * A deadline is a point of the monotonic clock in microseconds; HALAY_NEVER is none. Timeouts of the public interface
 * are in milliseconds, negative for "forever".
 */
#ifndef HALAY_BASE_CLOCK_H
#define HALAY_BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define HALAY_NEVER INT64_MAX

/* Microseconds since some fixed point; the same point for all processes of a host until it is booted again. */
static inline int64_t halay_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The same clock in nanoseconds, for spells that are shorter than a few microseconds. */
static inline int64_t halay_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The deadline that lies timeout_ms ahead; HALAY_NEVER if that is negative. */
static inline int64_t halay_deadline_us(int timeout_ms)
{
    return timeout_ms < 0 ? HALAY_NEVER : halay_now_us() + (int64_t)timeout_ms * 1000;
}

static inline int halay_deadline_passed(int64_t deadline_us)
{
    return deadline_us != HALAY_NEVER && halay_now_us() >= deadline_us;
}

/* Microseconds until the deadline, 0 when it has passed; HALAY_NEVER stays HALAY_NEVER. */
static inline int64_t halay_deadline_left_us(int64_t deadline_us)
{
    if (deadline_us == HALAY_NEVER)
        return HALAY_NEVER;
    int64_t left = deadline_us - halay_now_us();
    return left > 0 ? left : 0;
}

/* The same as poll and epoll_wait take it: milliseconds rounded up, so that a deadline has passed when they time out;
 * -1 for HALAY_NEVER. */
static inline int halay_deadline_left_ms(int64_t deadline_us)
{
    int64_t left = halay_deadline_left_us(deadline_us);

    if (left == HALAY_NEVER)
        return -1;
    return left > (int64_t)INT_MAX * 1000 - 999 ? INT_MAX : (int)((left + 999) / 1000);
}

#endif
