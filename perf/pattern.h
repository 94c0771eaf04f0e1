/* SPDX-License-Identifier: Apache-2.0
 *
 * Pattern: what the ranks put into their buffers and what must come out, so that every element can be checked.
 */
#ifndef HALAY_PERF_PATTERN_H
#define HALAY_PERF_PATTERN_H

#include "halay_types.h"
#include <stddef.h>

/* Element i of rank r is ((i + r) mod PERIOD) + 1: the sums are small whole numbers, exact in every type up to some 50
 * ranks, and no element is what it was before or what its neighbour is. */
struct perf_pattern {
    enum halay_dtype dtype;
    size_t period;           /* elements in each of the two blocks */
    double tolerance;        /* relative; 0: every bit counts */
    unsigned char *mine;     /* owned: what this rank puts in */
    unsigned char *expected; /* owned: what comes out */
};

enum halay_status perf_pattern_init(struct perf_pattern *pattern, enum halay_dtype dtype, enum halay_op op, int rank,
                                    int size);
void perf_pattern_fini(struct perf_pattern *pattern); /* zeroed or initialised */

/* Write this rank's elements: ordinary stores by this thread, so that the lines are in its cache and not in a
 * peer's. */
void perf_pattern_fill(const struct perf_pattern *pattern, void *buffer, size_t count);

/* How many of the elements are not what must come out. */
size_t perf_pattern_wrong(const struct perf_pattern *pattern, const void *buffer, size_t count);

#endif
