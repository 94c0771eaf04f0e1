/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of halay-perf. A figure is the median over the iterations of the slowest rank's time: the median because
 * one interrupted iteration must not count, the slowest because a collective has ended when every rank has it.
 */
#include "perf/src/stats.h"
#include <stdlib.h>
#include <time.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double perf_percentile(double *values, size_t count, double p)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, compare);
    double place = p / 100 * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return values[count - 1];
    return values[below] + (place - (double)below) * (values[below + 1] - values[below]);
}

double perf_median(double *values, size_t count)
{
    return perf_percentile(values, count, 50);
}

double perf_bandwidth_gbs(size_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
}

double perf_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
