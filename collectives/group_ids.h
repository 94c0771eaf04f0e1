/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of groups: which a rank has in use, and when one may be used again.
 *
 * An id names tags and areas. Groups of all ranks have ids of their own, in the order in which they are made. The others
 * are agreed on by their members (group_subset.c) among the ids that are free at each of them, so two groups may have the
 * same id as long as no rank is in both. An id is free again at a rank
 *
 *     when it has closed the group after collectives that were all complete (so none of its messages is under way), and
 *     when each member that shares memory with it has closed it too, and so looks at its areas no more.
 *
 * After a failure neither can be known: such an id stays taken. The second is seen in the areas themselves: a peer's
 * `closed` is set, or its `generation`, which counts how often the peer has given the id up, is another one than it was.
 * A rank clears its areas when it gives an id up, and stores the next generation: they are clean before the id is
 * proposed again. What a peer sees in between (both zero) says "not closed yet" or "closed", both of which are right.
 *
 * Driver only. Zero-initialised storage.
 */
#ifndef HALAY_GROUP_IDS_H
#define HALAY_GROUP_IDS_H

#include "collectives/transport/transport.h"

struct halay_area; /* shared.h */

/* One member that shares memory with this rank: its area of channel 0, and the generation of its id then. */
struct halay_group_witness {
    struct halay_area *area; /* borrowed from the transport */
    uint32_t generation;
};

/* What is kept of a closed group until all witnesses have closed it. */
struct halay_group_end {
    struct halay_group_end *next;
    int id;
    int count;
    struct halay_group_witness witness[];
};

struct halay_group_ids {
    int made;       /* groups of all ranks so far */
    int last;       /* the newest id that was agreed on */
    uint32_t taken; /* bit i: id i is in use, or never to be used again; ids of some ranks' groups only */
    uint32_t generation[HALAY_GROUPS_MAX];
    struct halay_group_end *ends; /* owned */
};

/* The id of a group of all ranks. HALAY_ERR_UNSUPPORTED: there have been HALAY_WORLD_GROUPS. */
enum halay_status halay_group_ids_take(struct halay_group_ids *ids, struct halay_log *log, int *id);

/* The next id after `last` that `taken` does not have; -1 if there is none. */
int halay_group_ids_choose(uint32_t taken, int last);

/* The group with end->id is closed here, after collectives that were all complete. Keeps end. */
void halay_group_ids_close(struct halay_group_ids *ids, struct halay_group_end *end);

/* Give up the ids that may be used again. shared: where this rank's areas are; NULL if it has none. */
void halay_group_ids_sweep(struct halay_group_ids *ids, struct halay_transport *shared);

void halay_group_ids_fini(struct halay_group_ids *ids);

#endif
