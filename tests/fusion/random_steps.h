/* SPDX-License-Identifier: Apache-2.0
 *
 * Random steps of a training loop: a pattern of random tensors that repeats until replay captures it, and then for a
 * random time, and deviations from it of every kind that makes a rank leave a plan; for test_random_steps.c.
 */
#ifndef HALAY_TEST_RANDOM_STEPS_H
#define HALAY_TEST_RANDOM_STEPS_H

#include "halay.h"
#include <stdint.h>

/* Counts of events on this rank. */
struct random_steps_tally {
    uint64_t schedules, steps, submissions;
    uint64_t planned; /* steps that began with a plan in force */
    uint64_t left;    /* deviations that began with a plan in force */
    uint64_t errors;  /* submissions that ended with an error, as intended */
};

/* Nonzero: every other tensor is on the current device, whose memory the host may touch. Set before the first world. */
extern int random_devices;

/* Runs schedules number `first`, first + 1, ... of a seed: `count` of them, sometimes with a set of random ranks,
 * during which ranks that are not members continue. The same on all ranks of the context. Each submission has to end
 * once, with the right data or an error that the deviation may cause, in the same way on all ranks, and in time: a rank
 * that hangs ends its process with the numbers that repeat it. Adds to the tally; returns the number of checks that
 * have failed so far. */
int random_steps_run(struct halay_context *ctx, uint64_t seed, uint64_t first, uint64_t count,
                     struct random_steps_tally *tally);

#endif
