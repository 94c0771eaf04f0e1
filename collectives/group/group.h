/* SPDX-License-Identifier: Apache-2.0
 *
 * Group, inside view: what the engine and the algorithms use beyond include/halay_coll.h.
 *
 * A group has HALAY_CHANNELS channels. A collective under way holds one, its number (0, 1, 2, ... in the order of
 * start, the same on every rank) modulo HALAY_CHANNELS; tags, the shared area, scratch memory and the storage of the
 * schedule are the channel's. Nothing is allocated once a channel has seen its largest operation.
 */
#ifndef HALAY_GROUP_H
#define HALAY_GROUP_H

#include "collectives/group/world.h"
#include "halay_coll.h"

/* A group of all ranks of the world; borrows the world. Every rank creates its groups in the same order. A
 * world has HALAY_WORLD_GROUPS of them in its life: HALAY_ERR_UNSUPPORTED after that. */
enum halay_status halay_group_create(struct halay_world *world, struct halay_group **out);
void halay_group_destroy(struct halay_group *group);

/* Do the algorithms that this group may choose sum along the tree over ranks (HALAY_DETERMINISTIC=ranks)? Set before
 * the first collective, equal on all ranks. */
void halay_group_set_deterministic(struct halay_group *group, enum halay_deterministic mode);
/* Averages started from now on are divided by the number of ranks less `absent`. All ranks call it alike. */
void halay_group_set_absent(struct halay_group *group, int ranks);

/* Can what halay_group_alloc gave at ptr outlive the group? HALAY_ERR_ARGUMENT: it gave nothing there;
 * HALAY_ERR_UNSUPPORTED: not with this transport. Any thread. */
enum halay_status halay_group_may_keep(struct halay_group *group, const void *ptr);
/* It does: nobody frees it any more until the world is closed, and then the caller. kept is borrowed until then. */
void halay_group_keep(struct halay_group *group, void *ptr, struct halay_kept *kept);

/* Nonzero if another collective may be started now (a channel is free). */
int halay_group_can_start(const struct halay_group *group);

/* A number that changes whenever a collective of this group advances: a driver that is about to sleep compares it
 * before and after its last check. */
unsigned long halay_group_work(const struct halay_group *group);

/* Close the group with this status: collectives under way end with it. Peers get HALAY_ERR_PEER in those, and in what
 * they start later; what this rank has completed, they complete. culprit: the rank of the group that they are to blame,
 * -1: this one. */
void halay_group_fail(struct halay_group *group, enum halay_status status, int culprit);

/* The same with HALAY_ERR_PEER: that rank of the group is lost, unless somebody's word names another one. */
void halay_group_lost(struct halay_group *group, int rank);

/* Check the peers: closes the group if one is dead, or if something under way still needs one that has given up or
 * left. */
void halay_group_check(struct halay_group *group);

/* The first cause's status, HALAY_OK while the group lives; *rank: the peer it names, or -1. */
enum halay_status halay_group_status(const struct halay_group *group, int *rank);

#endif
