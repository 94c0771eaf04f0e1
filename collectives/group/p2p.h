/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives in a group.
 */
#ifndef HALAY_P2P_H
#define HALAY_P2P_H

#include "collectives/group/channel.h"
#include "collectives/group/group_end.h"
#include "halay_coll.h"

/* A send or receive, as the program calls it. */
struct halay_p2p_call {
    int is_send;
    void *data; /* only read if it is sent; borrowed until the end */
    size_t count;
    enum halay_dtype dtype;
    int peer; /* another rank of the group */
    uint32_t tag;
};

_Static_assert(HALAY_TAG_MAX < 1 << HALAY_CHANNEL_SHIFT, "a tag has its part of the link's");

/* Starts it; *coll is driven and ended as a collective's. bytes: those of count elements. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_p2p_start(struct halay_group *group, const struct halay_p2p_call *call, size_t bytes,
                                  struct halay_coll **coll);
/* Advances those under way, once the links have been progressed. */
void halay_p2p_progress(struct halay_group *group);
/* Takes back what is posted, or lists it (struct halay_posted). */
void halay_p2p_cancel(struct halay_group *group);
/* Ends all of them with this status; they have been taken back. */
void halay_p2p_fail(struct halay_group *group, enum halay_status status);
/* Returns nonzero if one under way cannot complete because a member has ended its group in this way. */
int halay_p2p_misses(struct halay_group *group, int rank, const struct halay_close_notice *notice);
/* Releases the handle of one that has ended; HALAY_ERR_ARGUMENT if that was done before. */
enum halay_status halay_p2p_release(struct halay_coll *coll);
/* Describes the oldest one under way: "send to rank 3 under tag 7". "" if none is. */
void halay_p2p_print(const struct halay_group *group, char *text, size_t size);
void halay_p2p_free_all(struct halay_group *group);

#endif
