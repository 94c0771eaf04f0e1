/* SPDX-License-Identifier: Apache-2.0
 *
 * Timeline: one rank's (base/trace.h), read back, and how far its clock is from another's.
 *
 * No rank can have finished an all-reduce (all-gather, ...) before every rank has started it. So, with theta = b's
 * clock minus a's, each collective that both have gives two bounds:
 *
 *     a's clock     start_a |---------| end_a            start_b - theta <= end_a     theta >= start_b - end_a
 *     b's clock         start_b |---------| end_b        start_a <= end_b - theta     theta <= end_b - start_a
 *
 * and all of them together an interval, whose middle is taken: no further off than half of its width.
 */
#ifndef HALAY_PERF_TIMELINE_H
#define HALAY_PERF_TIMELINE_H

#include "base/log.h"
#include <jansson.h>

/* A collective that tells about clocks. */
struct perf_common {
    long long number;
    double begin_us, end_us;
};

struct perf_timeline {
    json_t *root; /* owned: the whole object */
    int rank;
    const char *host, *boot_id; /* borrowed from root */
    double wall_us;
    struct perf_common *commons; /* owned: by number */
    size_t count;
};

/* Read a timeline, or make one of a flight recorder's file. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, HALAY_ERR_NO_MEMORY;
 * logged. */
enum halay_status perf_timeline_read(struct halay_log *log, const char *path, struct perf_timeline *timeline);
void perf_timeline_fini(struct perf_timeline *timeline); /* zeroed or read */

/* Narrow the interval [*least, *most] of theta by the collectives that both have; how many those are. */
size_t perf_timeline_bounds(const struct perf_timeline *a, const struct perf_timeline *b, double *least, double *most);

/* Take theta from the times of all its events. */
void perf_timeline_shift(struct perf_timeline *timeline, double theta_us);

#endif
