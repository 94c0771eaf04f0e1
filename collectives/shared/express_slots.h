/* SPDX-License-Identifier: Apache-2.0
 *
 * Express: all-reduces of small vectors in shared memory outside the order of the group's collectives, which hold no
 * channel. Each goes through a pair of slots of its own, whose rounds are numbered 1, 2, 3, ... the same on all ranks:
 *
 *     put     this rank's data and the round's number into its slot; never waits, and neither needs the others
 *     take    when all have put: the sum of all slots, the same bits on every rank
 *
 * A rank puts round k + 1 only when its round k is over. One driver at a time, as for the group.
 */
#ifndef HALAY_EXPRESS_H
#define HALAY_EXPRESS_H

#include "collectives/group/area.h"
#include "halay_coll.h"

enum { HALAY_EXPRESS_RANKS = 8 };

/* Returns the group's pairs of slots, the same on all ranks: 0 unless a few ranks share memory and may choose their
 * algorithm. */
size_t halay_express_pairs(const struct halay_group *group);

/* Puts `bytes` (HALAY_EXPRESS_BYTES at most). Wakes the sleepers if no other rank is missing. */
void halay_express_put(struct halay_group *group, size_t pair, uint64_t round, const void *data, size_t bytes);

/* Returns zero, and writes nothing, if a rank has not put that round yet. Not for adasum. */
int halay_express_take(struct halay_group *group, size_t pair, uint64_t round, void *out, size_t count,
                       enum halay_dtype dtype, enum halay_reduction op);

#endif
