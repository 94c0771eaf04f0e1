/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of the engine's tests: from a seed that is printed, and taken from the first argument if there is one.
 */
#ifndef HALAY_TEST_RANDOM_H
#define HALAY_TEST_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
    /* splitmix64: https://prng.di.unimi.it/splitmix64.c (public domain); every seed is as good as another */
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline size_t random_below(struct random *r, size_t bound)
{
    return (size_t)(random_next(r) % bound);
}

/* The seed of this run: the first argument, TEST_RANDOM of the environment, or the clock. Printed, so that a failure
 * can be repeated. */
static inline uint64_t random_seed(int argc, char **argv)
{
    const char *given = argc > 1 ? argv[1] : getenv("TEST_RANDOM");
    struct timespec t;
    uint64_t seed;

    if (given) {
        seed = strtoull(given, NULL, 0);
    } else {
        clock_gettime(CLOCK_REALTIME, &t);
        seed = (uint64_t)t.tv_sec * 1000003u ^ (uint64_t)t.tv_nsec;
    }
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

#endif
