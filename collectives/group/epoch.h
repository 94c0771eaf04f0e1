/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs: a group is renewed after some of its collectives were withdrawn (group.h).
 *
 * Withdrawn collectives leave messages that no rank will receive, and counters in shared memory that differ from rank
 * to rank. So the members agree on new ones: in the next epoch the group's tags have another number, and each channel's
 * counters are as if all that was withdrawn had run.
 *
 *     each member                             the one that merges (any process)
 *       ends or withdraws all that
 *       is under way in the group
 *       propose  --------------------------->  the highest of each value, of all members
 *       renew    <---------------------------  the same values for all
 *
 * Between propose and renew a member starts nothing in the group. A member may start collectives as soon as it has
 * renewed, though others have not: what arrives there early waits.
 *
 * HALAY_EPOCH_NUMBER of two groups that share a rank must differ. If such groups are renewed at the same time, the
 * process that merges raises the second number above the first one.
 *
 * Driver only.
 */
#ifndef HALAY_EPOCH_H
#define HALAY_EPOCH_H

#include "collectives/transport/link.h"
#include "halay_coll.h"

enum { HALAY_EPOCH_CHUNKS, HALAY_EPOCH_ONESHOTS, HALAY_EPOCH_BARRIERS, HALAY_EPOCH_COUNTS }; /* of a channel */
enum {
    HALAY_EPOCH_NUMBER,   /* the group's, for tags */
    HALAY_EPOCH_NEXT,     /* number of the next collective */
    HALAY_EPOCH_COUNTERS, /* of channel k: from HALAY_EPOCH_COUNTERS + k * HALAY_EPOCH_COUNTS on */
    HALAY_EPOCH_VALUES = HALAY_EPOCH_COUNTERS + HALAY_EPOCH_COUNTS * HALAY_CHANNELS
};

/* The values that all members must agree on. */
struct halay_group_epoch {
    uint64_t value[HALAY_EPOCH_VALUES];
};

/* Fills in the lowest values that this rank could enter. Nothing is under way in the group: everything has been ended
 * or withdrawn. */
void halay_group_epoch_propose(struct halay_group *group, struct halay_group_epoch *out);
/* Enters the epoch that all members have proposed to. All channels are free then, and the next collective has the
 * number HALAY_EPOCH_NEXT. HALAY_ERR_UNSUPPORTED: all numbers are used, and the group is closed. Of a group that is
 * closed, its status; it is called all the same, so that what arrives of this epoch is dropped. */
enum halay_status halay_group_renew(struct halay_group *group, const struct halay_group_epoch *agreed);

#endif
