/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of groups: which a rank has in use, and when one may be used again.
 *
 * An id names tags and areas. Groups of all ranks have ids of their own, in the order in which they are made. The
 * others are agreed on by their members (group_subset.c) among the ids that are free at each of them, so two groups may
 * have the same id as long as no rank is in both. An id is free again at a rank
 *
 *     when it has closed the group after collectives that were all complete (so none of its messages is under way), and
 *     when all other members have closed it too: those that share memory with it then look at its areas no more.
 *
 * After a failure the first can't be known: such an id stays taken. The second is seen in the areas themselves: a
 * peer's `closed` is set, or its `releases`, which counts how often the peer has given the id up, is another number
 * than it was. A rank clears its areas when it gives an id up, and counts it afterwards: they are clean before the id
 * is proposed again. What a peer sees in between (both zero) says "not closed yet" or "closed", both of which are
 * right.
 *
 * Members that share no memory say farewell in a message, the last one of the group between these two. It also tells
 * who still waits there that the peer has given up. Receives are posted when somebody has reason to look.
 *
 * Driver only. Zero-initialised storage.
 */
#ifndef HALAY_GROUP_IDS_H
#define HALAY_GROUP_IDS_H

#include "collectives/transport/shared_memory.h"

struct halay_area; /* area.h */

/* A bit for each id. */
struct halay_id_set {
    uint64_t words[HALAY_GROUPS_MAX / 64];
};

static inline int halay_id_set_has(const struct halay_id_set *set, int id)
{
    return (int)(set->words[id / 64] >> id % 64 & 1);
}

static inline void halay_id_set_put(struct halay_id_set *set, int id, int has)
{
    uint64_t bit = UINT64_C(1) << id % 64;

    set->words[id / 64] = has ? set->words[id / 64] | bit : set->words[id / 64] & ~bit;
}

static inline void halay_id_set_add(struct halay_id_set *set, const struct halay_id_set *more)
{
    for (int i = 0; i < HALAY_GROUPS_MAX / 64; i++)
        set->words[i] |= more->words[i];
}

/* One member that shares memory with this rank: its area of channel 0, and its releases then. */
struct halay_group_witness {
    struct halay_area *area; /* borrowed from the transport */
    uint32_t releases;
};

/* How a member's group ended: a status, HALAY_ERR_CLOSED: in peace. */
struct halay_close_notice {
    uint32_t status;
    int32_t failed_rank; /* the member that is to blame, or -1 */
    uint64_t finished;   /* it has done its part of all collectives with lower numbers: they no longer need it */
};

/* One that does not. */
struct halay_farewell {
    int rank, peer; /* its number in the group, and in the world */
    struct halay_close_notice said, heard;
    struct halay_transfer saying, hearing; /* over world->data */
    int is_listening;
};

/* What is kept of a group until all members have closed it. */
struct halay_group_end {
    struct halay_group_end *next;
    int id;
    int is_spoilt; /* it failed: the id is not used again */
    int witnesses, farewells;
    struct halay_group_witness *witness; /* owned */
    struct halay_farewell *farewell;     /* owned */
};

struct halay_group_ids {
    int made;                            /* groups of all ranks so far */
    int last;                            /* the newest id that was agreed on */
    int limit;                           /* ids from here on are not used, on any rank; 0: all are */
    struct halay_id_set taken;           /* in use, or never to be used again; ids of some ranks' groups only */
    uint32_t releases[HALAY_GROUPS_MAX]; /* [id]: how often this rank has given it up */
    struct halay_group_end *ends;        /* owned */
};

/* The id of a group of all ranks. HALAY_ERR_UNSUPPORTED: there have been HALAY_WORLD_GROUPS. */
enum halay_status halay_group_ids_take(struct halay_group_ids *ids, struct halay_log *log, int *id);

/* No more ids than a transport carries; 0: no limit. */
void halay_group_ids_limit(struct halay_group_ids *ids, int limit);

/* How many groups of some ranks a rank can be in at a time. */
int halay_group_ids_most(const struct halay_group_ids *ids);

/* The next id after ids->last that `taken` does not have; -1 if there is none. */
int halay_group_ids_choose(const struct halay_group_ids *ids, const struct halay_id_set *taken);

/* For a group of at most so many members, without any yet. */
enum halay_status halay_group_end_create(int members, struct halay_group_end **out);
/* Takes back what is posted over data. NULL is allowed. */
void halay_group_end_destroy(struct halay_group_end *end, struct halay_link *data);
/* Close notices: send ours, post receives for those of the others, and read one: nonzero with *notice if that member's
 * has arrived. Never block. */
void halay_group_end_send(struct halay_group_end *end, struct halay_link *data,
                          const struct halay_close_notice *notice);
void halay_group_end_receive(struct halay_group_end *end, struct halay_link *data);
int halay_group_end_received(struct halay_group_end *end, int rank, struct halay_close_notice *notice);

/* The group with end->id is closed here. Keeps end. */
void halay_group_ids_close(struct halay_group_ids *ids, struct halay_group_end *end);

/* Give up the ids that may be used again. data: the world's; shared: where this rank's areas are, NULL if it has
 * none. */
void halay_group_ids_sweep(struct halay_group_ids *ids, struct halay_link *data, struct halay_shared_memory *shared);

/* Closed groups whose ids will be free once the other members have closed them too. */
int halay_group_ids_waiting(const struct halay_group_ids *ids);

/* data: NULL if no group has ever been closed. */
void halay_group_ids_fini(struct halay_group_ids *ids, struct halay_link *data);

#endif
