/* SPDX-License-Identifier: Apache-2.0
 *
 * A density over a space's points, from some of them: a mixture of one kernel for each point and a uniform one, all of
 * the same weight (Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011; of all keys jointly, so that
 * values that are good together stay together, as in Falkner et al., BOHB, 2018). A kernel is a normal distribution
 * cut off at 0 and 1 along an ordered key; along another one it prefers its own value.
 */
#ifndef HALAY_TFT_TUNE_PARZEN_H
#define HALAY_TFT_TUNE_PARZEN_H

#include "tft/tools/tune/trials.h"
#include <math.h>
#include <stdint.h>

/* Random numbers of a search, the same for the same seed and trial: splitmix64 (Steele, Lea and Flood, Fast Splittable
 * Pseudorandom Number Generators, 2014). */
struct tft_random {
    uint64_t state;
};

static inline uint64_t tft_random_bits(struct tft_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A sequence of its own for each seed and number. */
static inline struct tft_random tft_random_begin(uint64_t seed, uint64_t number)
{
    struct tft_random random = { seed };

    random.state = tft_random_bits(&random) ^ (number * 0xd1342543de82ef95u + 1);
    return random;
}

/* In [0, 1). */
static inline double tft_random_share(struct tft_random *random)
{
    return (double)(tft_random_bits(random) >> 11) * 0x1p-53;
}

/* One of count. */
static inline size_t tft_random_of(struct tft_random *random, size_t count)
{
    return (size_t)(tft_random_share(random) * (double)count);
}

/* From the standard normal distribution (Box and Muller). */
static inline double tft_random_normal(struct tft_random *random)
{
    double radius = sqrt(-2 * log(1 - tft_random_share(random)));

    return radius * cos(2 * 3.14159265358979323846 * tft_random_share(random));
}

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
