/* SPDX-License-Identifier: Apache-2.0
 *
 * Work: computing of a known amount, like a program's between two submissions: a fixed number of operations, which take
 * longer while other threads take the processor.
 */
#ifndef HALAY_PERF_WORK_H
#define HALAY_PERF_WORK_H

struct perf_work {
    double rounds_per_second; /* of this processor while nothing disturbs it */
};

/* Measures this processor's speed; takes a tenth of a second. */
void perf_work_calibrate(struct perf_work *work);
/* Computes for this number of seconds, if it is not disturbed. */
void perf_work_do(const struct perf_work *work, double seconds);

#endif
