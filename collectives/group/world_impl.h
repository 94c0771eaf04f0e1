/* SPDX-License-Identifier: Apache-2.0
 *
 * World, inside view: its tuning table, read by rank 0, the same on all ranks (tuning_share.c).
 */
#ifndef HALAY_WORLD_IMPL_H
#define HALAY_WORLD_IMPL_H

#include "collectives/group/world.h"

/* Fill world->tuning, with the bootstrap; every rank calls it. Rank 0's errors are everybody's; it logs them. Also
 * makes rank 0's HALAY_RING_SEGMENT and HALAY_CHECK everybody's. */
enum halay_status halay_tuning_share(struct halay_world *world);

/* The transport is known: settle what the table says about it (the size of a segment). */
void halay_tuning_settle(struct halay_world *world);

#endif
