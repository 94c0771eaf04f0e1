/* SPDX-License-Identifier: Apache-2.0
 *
 * A density over a space's points, from some of them: a mixture of one kernel for each point and a uniform one, all of
 * the same weight (Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011; of all keys jointly, so that
 * values that are good together stay together, as in Falkner et al., BOHB, 2018). A kernel is a normal distribution
 * cut off at 0 and 1 along an ordered key; along another one it prefers its own value.
 */
#ifndef HALAY_TFT_TUNE_PARZEN_H
#define HALAY_TFT_TUNE_PARZEN_H

#include "tft/tools/tune/random.h"
#include "tft/tools/tune/trials.h"

struct tft_parzen {
    const struct tft_space *space;   /* borrowed, as the next two */
    const struct tft_trials *trials; /* whose points these are: */
    const size_t *members;           /* (count) */
    size_t count;
    double width; /* of a normal distribution */
};

/* dimensions: how many keys the density is looked at along: all of them, or 1. */
struct tft_parzen tft_parzen_of(const struct tft_space *space, const struct tft_trials *trials, const size_t *members,
                                size_t count, size_t dimensions);
double tft_parzen_log_density(const struct tft_parzen *parzen, const double *point);
/* Along one key alone, at a coordinate. */
double tft_parzen_density_along(const struct tft_parzen *parzen, size_t setting, double coordinate);
/* A point from it, snapped. */
void tft_parzen_draw(const struct tft_parzen *parzen, struct tft_random *random, double *point);

#endif
