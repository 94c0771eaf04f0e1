/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of some ranks, made step by step.
 */
#ifndef HALAY_GROUP_SUBSET_H
#define HALAY_GROUP_SUBSET_H

#include "halay_coll.h"

/*
 * A group of some ranks of parent as halay_group_subset makes it, in steps that never block.
 *
 * start     *making is NULL if this rank is not a member. ranks is borrowed for the call, parent until the end. Members
 *           start what they make in the same order, one at a time for each pair of ranks. Errors as of
 *           halay_group_subset.
 * progress  HALAY_IN_PROGRESS; HALAY_OK once, with the group; else the error, from then on. That a member is
 *           lost closes the parent, which knows the rank. Whoever drives looks at the peers (halay_group_check) from
 *           time to time. No bell rings when a message of this was taken: poll.
 * end       in any state; NULL is allowed
 */
struct halay_group_making;
enum halay_status halay_group_making_start(struct halay_group *parent, const int *ranks, int count,
                                           struct halay_group_making **making);
enum halay_status halay_group_making_progress(struct halay_group_making *making, struct halay_group **group);
void halay_group_making_end(struct halay_group_making *making);

#endif
