/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate: pure functions.
 */
#include "tft/schedule.h"
#include <math.h>

double tft_schedule_rate(enum tft_schedule schedule, double highest, uint64_t step, uint64_t total, int halvings)
{
    double rise = total >= 20 ? (double)(total / 20) : 1, at = (double)step + 1;

    switch (schedule) {
    case TFT_SCHEDULE_WARMUP:
        return highest * fmin(1, at / rise);
    case TFT_SCHEDULE_COSINE:
        if (at < rise)
            return highest * at / rise;
        return highest * 0.5 * (1 + cos(M_PI * fmin(1, ((double)step - rise + 1) / ((double)total - rise + 1))));
    case TFT_SCHEDULE_PLATEAU:
        return ldexp(highest, -halvings);
    default:
        return highest;
    }
}

double tft_schedule_scale(enum tft_lr_scaling scaling, double rate, int ranks)
{
    return scaling == TFT_LR_LINEAR ? rate * ranks : scaling == TFT_LR_SQRT ? rate * sqrt(ranks) : rate;
}
