/* SPDX-License-Identifier: Apache-2.0
 *
 * Group, inside view: what the engine and the algorithms use beyond include/halay_coll.h.
 *
 * A group has HALAY_CHANNELS channels. A collective under way holds one, its number (the same on every rank)
 * modulo HALAY_CHANNELS; tags, the shared area, scratch memory and the storage of the schedule are the channel's.
 * Nothing is allocated once a channel has seen its largest operation.
 *
 * Numbers are 0, 1, 2, ... in the order of start, unless the caller gives them (halay_group_start_at). Collectives of
 * one channel start in the order of their numbers, on every rank. Those of different channels do not depend on each
 * other: a rank may start number 5 before number 3, and another one number 3 before number 5.
 */
#ifndef HALAY_GROUP_H
#define HALAY_GROUP_H

#include "collectives/group/world.h"
#include "halay_coll.h"

/* Creates a group of all ranks of the world; borrows the world. A world has one, the first of its
 * groups. halay_group_close ends it. */
enum halay_status halay_group_create(struct halay_world *world, struct halay_group **out);

/* Sets which algorithms this group may choose. HALAY_DETERMINISTIC=ranks: those that sum along the tree over ranks;
 * run: all-reduces that add each element in the same order, whatever its place and their number. Called before the
 * first collective, with the same mode on all ranks. */
void halay_group_set_deterministic(struct halay_group *group, enum halay_deterministic mode);
/* Divides averages that start from now on by the number of ranks less this many. All ranks pass the same. */
void halay_group_set_absent(struct halay_group *group, int ranks);

/* Returns HALAY_OK if the memory that halay_group_alloc gave at ptr can outlive the group; HALAY_ERR_ARGUMENT if ptr is
 * not from this group, HALAY_ERR_UNSUPPORTED if this transport cannot keep memory. Any thread. */
enum halay_status halay_group_may_keep(struct halay_group *group, const void *ptr);
/* Takes that memory from the group: the caller frees it after the world is closed. kept is borrowed until then. */
void halay_group_keep(struct halay_group *group, void *ptr, struct halay_kept *kept);

/* Registers memory of the program's that local ranks are to reduce in place, and ends that (include/halay.h). Any
 * thread. HALAY_ERR_UNSUPPORTED, logged: local ranks share no memory; otherwise as in shared_memory.h. */
enum halay_status halay_group_register(struct halay_group *group, void *ptr, size_t bytes);
enum halay_status halay_group_unregister(struct halay_group *group, void *ptr);

/* Returns the number of the next collective: one more than that of the last one, or what halay_group_start_at set. */
uint64_t halay_group_next(const struct halay_group *group);
/* Returns nonzero if the next collective can start now, because its channel is free. */
int halay_group_can_start(const struct halay_group *group);
/* Returns nonzero if the collective of that number can start now: its channel is free, and all lower numbers of this
 * channel have been started. */
int halay_group_can_start_at(const struct halay_group *group, uint64_t number);
/* Gives the next collective that is started this number, and those after it the numbers that follow, as always. It must
 * be possible to start it when it is started. A start that is refused for its arguments takes no number. Numbering is
 * plain again once all lower numbers have been started. The number of the last collective of a channel, once that has
 * ended, is possible, too: together they are one collective, which can be withdrawn until its first part has ended. All
 * ranks divide it into the same parts. */
void halay_group_start_at(struct halay_group *group, uint64_t number);

/* Ends a collective, in the place of halay_coll_end, that some rank of the group has not entered and will not enter:
 * then no rank has completed it. Its inputs are unchanged; what is only output is undefined. All buffers are the
 * caller's again. The group stays open, and its other collectives continue. Every rank that has entered it withdraws
 * it. Its channel cannot be used before halay_group_renew (epoch.h). Never waits for a rank to do the same. */
void halay_coll_withdraw(struct halay_coll *c);

/* Returns a number that changes whenever a collective of this group advances: a driver that is about to sleep compares
 * it before and after its last check. */
unsigned long halay_group_work(const struct halay_group *group);

/* Closes the group with this status: collectives under way end with it. Peers get HALAY_ERR_PEER in those, and in what
 * they start later; what this rank has completed, they complete. failed_rank: the rank of the group that peers report
 * as the cause, -1: this one. */
void halay_group_fail(struct halay_group *group, enum halay_status status, int failed_rank);

/* Closes the group with HALAY_ERR_PEER because that rank is lost, unless a peer's close notice names another cause. */
void halay_group_lost(struct halay_group *group, int rank);

/* Checks the peers: closes the group if one is dead, or if a collective under way still needs one that has given up or
 * left. */
void halay_group_check(struct halay_group *group);

/* Returns the status of the first cause, HALAY_OK while the group is open; *rank (NULL: not wanted): the peer that it
 * names, or -1. Looks at nothing else; any thread. */
enum halay_status halay_group_failure(const struct halay_group *group, int *rank);

#endif
