/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial reduce: sums of neighbours are joined at distance 1, 2, 4, ... on the way to the root.
 *
 *     five ranks, root A                     the same, root C
 *
 *     A <-- B    ab                          A <-- B    ab
 *     C <-- D    cd                          C <-- D    cd
 *     A <-- C    ab + cd                     C <-- A    ab + cd: what arrives from the left is the first operand
 *     A <-- E    (ab + cd) + e               C <-- E    (ab + cd) + e
 *
 * So the sums are those of the binary tree over ranks (cut at the largest power of two below N), for any root:
 * knomial.c with radix 2. Wide: f16 and bf16 travel as f32 partial sums and are rounded once, by the root. Large counts
 * go in chunks.
 *
 * Cost: ceil(log2 N) steps for one chunk; the root receives at most log2(N) S bytes (f16 and bf16: twice that). Memory:
 * 16 chunks. Any number of ranks, any count, in and out of place.
 */
#include "collectives/messages/knomial.h"

const struct halay_algorithm_ops halay_reduce_binomial = HALAY_KNOMIAL_REDUCE(1);
