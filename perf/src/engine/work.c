/* SPDX-License-Identifier: Apache-2.0
 *
 * Work: multiplications and additions over a block that fits into the first cache, so that it does not wait for memory,
 * which the engine needs, too.
 */
#include "perf/src/engine/work.h"
#include "perf/src/stats.h"

enum { FLOATS = 2048, ROUNDS_AT_ONCE = 64, CALIBRATIONS = 5 };

static void do_rounds(double rounds)
{
    float block[FLOATS];
    volatile float sink;

    for (int i = 0; i < FLOATS; i++)
        block[i] = (float)i;
    for (double done = 0; done < rounds; done++)
        for (int i = 0; i < FLOATS; i++)
            block[i] = block[i] * 0.5f + 1.0f;
    sink = block[0];
    (void)sink;
}

/* The fastest of several: the slower ones were disturbed. */
void perf_work_calibrate(struct perf_work *work)
{
    double best = 0;

    for (int i = 0; i < CALIBRATIONS; i++) {
        double rounds = ROUNDS_AT_ONCE, seconds = 0;
        for (; seconds < 0.01; rounds *= 2) {
            double start = perf_now();
            do_rounds(rounds);
            seconds = perf_now() - start;
            if (seconds > 0 && rounds / seconds > best)
                best = rounds / seconds;
        }
    }
    work->rounds_per_second = best;
}

void perf_work_do(const struct perf_work *work, double seconds)
{
    do_rounds(work->rounds_per_second * seconds);
}
