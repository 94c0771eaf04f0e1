/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce of radix 4: four neighbouring blocks of ranks become one at distance 1, 4, 16, ...
 *
 *     ten ranks, root A
 *
 *     A <-- B, C, D      E <-- F, G, H      I <-- J      (a + b) + (c + d), and so on
 *     A <-- E, I                                         (abcd + efgh) + ij
 *
 * Half as many levels as binomial, for three messages at once on each: for small data and many ranks. What is added is
 * the binary tree over ranks all the same: knomial.c. Wide as binomial.
 *
 * Cost: ceil(log4 N) steps for one chunk; the root receives at most 3 log4(N) S bytes. Memory: 16 chunks. Any number of
 * ranks, any count, in and out of place.
 *
 * Source: Wilkins et al., "Generalized collective algorithms for the exascale era", IEEE CLUSTER 2023.
 */
#include "collectives/messages/knomial.h"

const struct halay_algorithm_ops halay_reduce_knomial = HALAY_KNOMIAL_REDUCE(2);
