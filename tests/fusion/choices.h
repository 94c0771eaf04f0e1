/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices of a test that explores all orders of events: every sequence of choices, one after the other, or random ones.
 */
#ifndef HALAY_TEST_CHOICES_H
#define HALAY_TEST_CHOICES_H

#include "tests/fusion/random.h"
#include "tests/test.h"

enum { CHOICES_MOST = 400 };

/* Zero-initialise, but for most. */
struct choices {
    size_t at, count, most; /* most: a sequence with more choices than these is wrong; at most CHOICES_MOST */
    unsigned char taken[CHOICES_MOST], of[CHOICES_MOST];
    struct random *random; /* NULL: all */
};

static inline int choose(struct choices *c, int of)
{
    if (c->random)
        return (int)random_below(c->random, (uint64_t)of);
    REQUIRE(c->at < c->most);
    if (c->at == c->count) {
        c->taken[c->count] = 0;
        c->of[c->count++] = (unsigned char)of;
    }
    return c->taken[c->at++];
}

/* Zero: that was the last one. */
static inline int next_sequence(struct choices *c)
{
    while (c->count && c->taken[c->count - 1] + 1 == c->of[c->count - 1])
        c->count--;
    if (c->count)
        c->taken[c->count - 1]++;
    c->at = 0;
    return c->count > 0;
}

#endif
