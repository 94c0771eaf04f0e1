/* SPDX-License-Identifier: Apache-2.0
 *
 * Dissemination barrier: in round k each rank sends a token to the one 2^k further on, after it has received those of
 * all earlier rounds.
 *
 *     five ranks          round 0        round 1        round 2
 *     A sends to          B              C              E
 *     B sends to          C              D              A
 *     C sends to          D              E              B
 *     D sends to          E              A              C
 *     E sends to          A              B              D
 *     A knows of          E              E D C          all
 *
 * Cost: ceil(log2 N) messages of one byte one after another. Any number of ranks.
 * Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 17 (1988).
 */
#include "collectives/messages/steps.h"

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    return 1L << index / 2 < at->ranks && halay_step_token(at, index / 2, index % 2, out);
}

const struct halay_algorithm_ops halay_barrier_dissemination = HALAY_STEPS_OPS(.steps = steps, .lanes = 1);
