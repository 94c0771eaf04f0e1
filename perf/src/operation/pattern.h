/* SPDX-License-Identifier: Apache-2.0
 *
 * Pattern: what the ranks put into their buffers and what must come out, so that every element can be checked.
 */
#ifndef HALAY_PERF_PATTERN_H
#define HALAY_PERF_PATTERN_H

#include "halay_types.h"
#include <stddef.h>

/* Element i of rank r is ((i + r) mod PERIOD) + 1: the sums are small whole numbers, exact in every type up to some 50
 * ranks, and no element is what its neighbour is. So the elements of rank r from the i-th on are those of rank 0 from
 * the (i + r)-th on: that number is called the phase. What the ranks' elements reduce to from the i-th on has phase i.
 * Bools take turns instead: 0, 1, 0, 1, 0. */
struct perf_pattern {
    enum halay_dtype dtype;
    double tolerance;       /* of what was reduced, relative; 0: every bit counts */
    unsigned char *plain;   /* owned: rank 0's elements, PERIOD more than are copied at once */
    unsigned char *reduced; /* owned: what all ranks' reduce to; NULL: nothing is reduced */
    unsigned char *zeros;   /* owned: a value that only bools have */
};

/* For operations that only move data; reductions need perf_pattern_reduce too. */
enum halay_status perf_pattern_init(struct perf_pattern *pattern, enum halay_dtype dtype);
enum halay_status perf_pattern_reduce(struct perf_pattern *pattern, enum halay_reduction op, int size);
void perf_pattern_fini(struct perf_pattern *pattern); /* zeroed or initialised */

/* Write count elements of that phase, or zeros: ordinary stores by this thread, so that the lines are in its cache and
 * not in a peer's. */
void perf_pattern_fill(const struct perf_pattern *pattern, size_t phase, void *buffer, size_t count);
void perf_pattern_clear(const struct perf_pattern *pattern, void *buffer, size_t count);

/* How many of the elements differ from those of that phase, as given or as reduced. */
size_t perf_pattern_wrong(const struct perf_pattern *pattern, size_t phase, const void *buffer, size_t count);
size_t perf_pattern_wrong_reduced(const struct perf_pattern *pattern, size_t phase, const void *buffer, size_t count);

#endif
