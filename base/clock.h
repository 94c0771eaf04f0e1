/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock: monotonic microseconds and deadlines.
 *
 * A deadline is a time of the monotonic clock in microseconds; HALAY_NEVER never passes. Timeouts of the public
 * interface are in milliseconds, negative for "forever".
 */
#ifndef HALAY_BASE_CLOCK_H
#define HALAY_BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define HALAY_NEVER INT64_MAX

/* Returns microseconds since a fixed point, the same for all processes of a host until it reboots. */
static inline int64_t halay_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Returns the same clock in nanoseconds, for intervals shorter than a few microseconds. */
static inline int64_t halay_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the deadline timeout_ms ahead; HALAY_NEVER if that is negative. */
static inline int64_t halay_deadline_us(int timeout_ms)
{
    return timeout_ms < 0 ? HALAY_NEVER : halay_now_us() + (int64_t)timeout_ms * 1000;
}

static inline int halay_deadline_passed(int64_t deadline_us)
{
    return deadline_us != HALAY_NEVER && halay_now_us() >= deadline_us;
}

/* Returns microseconds until the deadline, 0 if it has passed; HALAY_NEVER stays HALAY_NEVER. */
static inline int64_t halay_deadline_left_us(int64_t deadline_us)
{
    if (deadline_us == HALAY_NEVER)
        return HALAY_NEVER;
    int64_t left = deadline_us - halay_now_us();
    return left > 0 ? left : 0;
}

/* Returns the same for poll and epoll_wait: milliseconds rounded up, so that the deadline has passed when they time
 * out; -1 for HALAY_NEVER. */
static inline int halay_deadline_left_ms(int64_t deadline_us)
{
    int64_t left = halay_deadline_left_us(deadline_us);

    if (left == HALAY_NEVER)
        return -1;
    return left > (int64_t)INT_MAX * 1000 - 999 ? INT_MAX : (int)((left + 999) / 1000);
}

#endif
