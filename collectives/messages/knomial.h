/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees of a radix that is a power of two, for a reduce and a broadcast: binomial is radix 2.
 */
#ifndef HALAY_KNOMIAL_H
#define HALAY_KNOMIAL_H

#include "collectives/messages/steps.h"

int halay_knomial_reduce(const struct halay_place *at, int index, struct halay_step *out);
int halay_knomial_reduce_buffer(const struct halay_place *at, int index);
int halay_knomial_broadcast(const struct halay_place *at, int index, struct halay_step *out);

/* The ops of an algorithm whose radix is 2^bits. */
#define HALAY_KNOMIAL_REDUCE(bits_)                                                                        \
    HALAY_STEPS_OPS(.steps = halay_knomial_reduce, .buffer = halay_knomial_reduce_buffer, .bits = (bits_), \
                    HALAY_STEPS_PIPELINED(2))
#define HALAY_KNOMIAL_BROADCAST(bits_) \
    HALAY_STEPS_OPS(.steps = halay_knomial_broadcast, .bits = (bits_), HALAY_STEPS_PIPELINED(4))

#endif
