/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial broadcast: those who have the data send them on at distance 1/2, 1/4, ... of the ranks.
 *
 *     five ranks, root A (ranks count from the root)
 *
 *     A ----------> E          A's children: E C B, the one with the largest tree first
 *     A ----> C                the child of r at bit k is r + 2^k, for all k below r's lowest one bit
 *     A -> B   C -> D
 *
 * Large data go in chunks. It is knomial.c with radix 2.
 *
 * Cost: ceil(log2 N) steps for one chunk; the root sends at most log2(N) S bytes. No memory. Any number of ranks, any
 * count.
 */
#include "collectives/messages/knomial.h"

const struct halay_algorithm_ops halay_broadcast_binomial = HALAY_KNOMIAL_BROADCAST(1);
