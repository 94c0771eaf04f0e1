/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a group: what one member keeps of it until all others have closed it too.
 *
 * Members that share memory look at each other's areas. Each counts in the areas of the others when it looks at them no
 * more (area.h: leavers); a rank gives its own back when all have. Members that share none send each other a close
 * notice, the last message of the group between these two. It also reports to a waiting peer that this one has given
 * up. Receives are posted at the first check for it.
 *
 * Numbers name tags and are never used again, so a group that failed is forgotten at once: what still arrives for it
 * finds no receive. Its areas stay until all members have left it, or until the world ends.
 *
 * Driver only.
 */
#ifndef HALAY_GROUP_END_H
#define HALAY_GROUP_END_H

#include "collectives/transport/route.h"

struct halay_area; /* area.h */

/* How a member's group ended: a status, HALAY_ERR_CLOSED: in peace. */
struct halay_close_notice {
    uint32_t status;
    int32_t failed_rank;               /* the member that is to blame, or -1 */
    uint32_t is_dead;                  /* that member is dead */
    uint64_t finished[HALAY_CHANNELS]; /* of each, it has done its part of lower numbers: they no longer need it */
};

/* One that shares no memory with this rank. */
struct halay_member_end {
    int rank, peer; /* its number in the group, and in the world */
    struct halay_close_notice sent, received;
    struct halay_transfer sending, receiving; /* over world->data */
    int is_receiving;
};

struct halay_group_end {
    struct halay_group_end *next;
    uint32_t number;                    /* names the tags of notices, sends and receives */
    uint32_t collectives;               /* names those of its collectives; set when the group is closed */
    int is_spoilt;                      /* it failed: notices are not waited for */
    int has_p2p;                        /* messages of it may have met no receive */
    int is_forgotten;                   /* by the links: what arrives of it is dropped */
    int sharers, apart_count;           /* other members that share memory with this rank, and that do not */
    struct halay_shared_memory *memory; /* borrowed; NULL: this rank has no areas */
    uint64_t offset;                    /* owned: of its areas; HALAY_PRIVATE: without room no member uses any */
    struct halay_area *mine;            /* borrowed: channel 0's */
    struct halay_member_end *apart;     /* owned: [apart_count] */
};

/* For a group of at most this number of members, without any yet. Takes areas from memory, if that isn't NULL. */
enum halay_status halay_group_end_create(int members, struct halay_shared_memory *memory, struct halay_group_end **out);
/* Takes back what is posted over data. gives_areas: no other rank looks at its areas, now or later. NULL is allowed. */
void halay_group_end_destroy(struct halay_group_end *end, struct halay_link *data, int gives_areas);
/* Close notices: send ours, post receives for those of the others, and read one: nonzero with *notice if that member's
 * has arrived. Never block. */
void halay_group_end_send(struct halay_group_end *end, struct halay_link *data,
                          const struct halay_close_notice *notice);
void halay_group_end_receive(struct halay_group_end *end, struct halay_link *data);
int halay_group_end_received(struct halay_group_end *end, int rank, struct halay_close_notice *notice);

/* Destroys those of the list that are over, and frees their areas. Has the links forget those that failed: messages of
 * a failed group may still be on their way, while of one that ended well each has had its receive. */
void halay_group_ends_sweep(struct halay_group_end **ends, const struct halay_route *route);
/* Destroys all: the world ends. data: NULL if the list is empty. */
void halay_group_ends_fini(struct halay_group_end **ends, struct halay_link *data);

#endif
