/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcast of radix 4: those who have the data send them to three others at a time.
 *
 *     ten ranks, root A (ranks count from the root)
 *
 *     A -> E, I                      the children of r at digit k are r + 4^k, r + 2 4^k, r + 3 4^k,
 *     A -> B, C, D   E -> F, G, H    for all k below r's lowest digit that is not 0
 *     I -> J
 *
 * Half as many levels as binomial, for three messages at once on each: for small data and many ranks.
 *
 * Cost: ceil(log4 N) steps for one chunk; the root sends at most 3 log4(N) S bytes. No memory. Any number of ranks, any
 * count.
 *
 * Source: Wilkins et al., "Generalized collective algorithms for the exascale era", IEEE CLUSTER 2023.
 */
#include "collectives/messages/knomial.h"

const struct halay_algorithm_ops halay_broadcast_knomial = HALAY_KNOMIAL_BROADCAST(2);
