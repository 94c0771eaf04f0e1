/* SPDX-License-Identifier: Apache-2.0
 *
 * Work: computing of a known amount, as a program's between two submissions: a fixed number of operations, so that it
 * takes longer where something else takes the processor meanwhile.
 */
#ifndef HALAY_PERF_WORK_H
#define HALAY_PERF_WORK_H

struct perf_work {
    double rounds_per_second; /* of this processor while nothing disturbs it */
};

/* Measure this processor's speed; takes a tenth of a second. */
void perf_work_calibrate(struct perf_work *work);
/* Compute for so many seconds, if nothing disturbs it. */
void perf_work_do(const struct perf_work *work, double seconds);

#endif
