/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees of a radix that is a power of two, for a reduce and a broadcast: binomial is radix 2.
 */
#ifndef HALAY_KNOMIAL_H
#define HALAY_KNOMIAL_H

#include "collectives/schedule/step.h"

/* Steps of a schedule; the radix is 2^bits. */
int halay_knomial_reduce(const struct halay_place *at, int bits, int index, struct halay_step *out);
int halay_knomial_reduce_buffer(const struct halay_place *at, int bits, int index);
int halay_knomial_broadcast(const struct halay_place *at, int bits, int index, struct halay_step *out);

#endif
