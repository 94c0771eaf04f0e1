/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of a search, which are the same for the same seed and trial: splitmix64 (Steele, Lea and Flood, Fast
 * Splittable Pseudorandom Number Generators, 2014).
 */
#ifndef HALAY_TFT_TUNE_RANDOM_H
#define HALAY_TFT_TUNE_RANDOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
