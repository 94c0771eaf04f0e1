/* SPDX-License-Identifier: Apache-2.0
 *
 * Stats: what becomes of a row of measured times. Pure functions.
 */
#ifndef HALAY_PERF_STATS_H
#define HALAY_PERF_STATS_H

#include <stddef.h>

/* The p-th percentile (0 to 100) by linear interpolation between neighbours; values are sorted in place. 0 if count is
 * 0. */
double perf_percentile(double *values, size_t count, double p);
/* The same for the middle. */
double perf_median(double *values, size_t count);

/* Gigabytes (1e9) per second; 0 if no time was measured. */
double perf_bandwidth_gbs(size_t bytes, double seconds);

/* Seconds since a fixed moment, the same for all processes of a host, in steps of a nanosecond. */
double perf_now(void);

#endif
