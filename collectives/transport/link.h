/* SPDX-License-Identifier: Apache-2.0
 *
 * Link: moves messages between the ranks of one job. Each transport gives the world one; the memory that the ranks of a
 * host share is apart from it (shared_memory.h), and so is sleeping (bell.h).
 *
 * It has no thread, no policy and no idea of collectives: the holder of the driver's lock calls it (one thread at a
 * time, but for slots with "any thread"). Starting a transfer never blocks and never completes it inside the call
 * that another rank depends on; progress does what can be done without waiting.
 *
 * A message goes from one rank to another under a tag. Of the messages with the same sender, receiver and tag the n-th
 * sent matches the n-th received, and their lengths must agree. Messages under different tags overtake each other
 * freely: one whose receive is not posted yet must not hold up the others. Zero bytes are not sent: callers skip them.
 *
 * Tags have 64 bits:
 *     63..32 group    31..24 channel    23..0 the algorithm's own (lane, phase, ...), or the program's (group/p2p.c)
 *
 * Groups:
 *     0         of all ranks, until it is renewed
 *     1         the engine's messages (fusion/protocol/messenger.c)
 *     2         agreement on a group of some ranks (group_subset.c)
 *     3         sends and receives of the group of all ranks
 *     4 ..      of some ranks. Each has two of these, one after the other: of its close notices, sends and receives,
 *               and of its collectives until it is renewed
 *     2^31 ..   of groups that are renewed: of their collectives in one later epoch each (group/epoch.h)
 * Two groups with one number share no rank; a number is never used again.
 *
 * Sleep. A rank sleeps on one bell, whichever links it has. What arrives over shared memory rings it, what arrives
 * elsewhere makes a descriptor readable that it watches (event_fd).
 */
#ifndef HALAY_LINK_H
#define HALAY_LINK_H

#include "base/log.h"
#include "collectives/transport/forgotten.h"
#include "halay_types.h"
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HALAY_WORLD_GROUP,
    HALAY_CONTROL_GROUP,
    HALAY_AGREEMENT_GROUP,
    HALAY_P2P_GROUP,
    HALAY_GROUPS_FIRST,
    HALAY_CHANNEL_SHIFT = 24,
    HALAY_CHANNELS = 8,  /* collectives in flight in one group */
    HALAY_TAG_BITS = 18, /* the algorithm's own part of a tag */
};

#define HALAY_EPOCHS_FIRST ((uint32_t)1 << 31)

static inline uint64_t halay_tag(uint32_t group, int channel, uint32_t own)
{
    return (uint64_t)group << 32 | (uint64_t)channel << HALAY_CHANNEL_SHIFT | own;
}

enum halay_transfer_state { HALAY_TRANSFER_IDLE, HALAY_TRANSFER_POSTED, HALAY_TRANSFER_DONE };

struct halay_link;
struct halay_shared_memory; /* shared_memory.h */

/* One send or receive under way. The caller owns the storage and may neither move nor reuse it while it is posted. */
struct halay_transfer {
    _Atomic(enum halay_transfer_state)
        state; /* POSTED by send/recv; DONE by the thread that completes it (release), seen by
                                                 halay_transfer_is_done (acquire) */
    int peer;
    uint64_t tag;
    unsigned char *buf; /* borrowed until DONE or cancelled */
    size_t bytes;
    struct halay_link *link;     /* borrowed: set by halay_route_send and its like (route.h) */
    int is_optional;             /* set by the owner before it is posted: the peer may leave first without an error */
    size_t moved;                /* the transport's own: bytes moved so far */
    void *handle;                /* the transport's own: request of the library below */
    struct halay_transfer *next; /* the transport's own: queue of what is posted */
    uint64_t *arrivals;          /* set by the owner after recv, or NULL: counts receives when they are done */
};

static inline int halay_transfer_is_done(const struct halay_transfer *x)
{
    return __atomic_load_n((const enum halay_transfer_state *)&x->state, __ATOMIC_ACQUIRE) == HALAY_TRANSFER_DONE;
}

/* For transports: what send and recv do first. is_optional is the owner's and stays. */
static inline void halay_transfer_post(struct halay_transfer *x, int peer, uint64_t tag, void *buf, size_t bytes)
{
    x->peer = peer;
    x->tag = tag;
    x->buf = (unsigned char *)buf;
    x->bytes = bytes;
    x->moved = 0;
    x->handle = NULL;
    x->next = NULL;
    x->arrivals = NULL;
    __atomic_store_n((enum halay_transfer_state *)&x->state, HALAY_TRANSFER_POSTED, __ATOMIC_RELAXED);
}

/* For transports: x is done, and what it received is in its buffer. */
static inline void halay_transfer_end(struct halay_transfer *x)
{
    if (x->arrivals)
        ++*x->arrivals;
    __atomic_store_n((enum halay_transfer_state *)&x->state, HALAY_TRANSFER_DONE, __ATOMIC_RELEASE);
}

/* Memory of alloc that outlives what gave it. */
struct halay_kept {
    size_t mapped; /* bytes that munmap gives back; 0: free does */
    int is_lost;   /* must not be freed, as the library below may still use it; stored by close */
};

#define HALAY_RINGS LONG_MAX /* what arm returns: no need to look before the bell rings */

struct halay_link {
    const struct halay_link_ops *ops;
    struct halay_shared_memory *memory; /* owned: what its ranks share; NULL: nothing */
    int rank;
    int size;
    int failed_peer;     /* -1, or the rank that made an operation return HALAY_ERR_PEER; first cause kept */
    unsigned char *lost; /* owned, [rank]: nonzero: so did this one, or it is of no use any more either; driver only */
    struct halay_forgotten forgotten; /* owned: by forget; driver only */
    struct halay_log *log;            /* borrowed until close */
};

struct halay_link_ops {
    const char *name; /* "shm", "mpi", "ucx", "tcp" */

    /* Start to send bytes (> 0) from buf to peer (!= rank), or to receive them into buf. buf is borrowed until the
     * transfer is done or cancelled. An error of the library below is kept and returned by the next progress. */
    void (*send)(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                 struct halay_transfer *x);
    void (*recv)(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes, struct halay_transfer *x);

    /* Do what can be done without waiting. HALAY_OK, or an error, the same one from then on: HALAY_ERR_PEER from the
     * moment a peer is known to be dead, or to have left while a transfer with it is posted that cannot complete any
     * more and is not optional (failed_peer is the first of them, lost has all), HALAY_ERR_FORMAT if lengths
     * disagree. After HALAY_ERR_PEER transfers with ranks that are not lost continue; after another error none does. */
    enum halay_status (*progress)(struct halay_link *link);

    /* Take a transfer back, posted or not, done or not: after return neither x nor its buffer is touched again by this
     * rank, or written by a peer, unless alloc gave it in_transit. What a peer sends later for a cancelled receive is
     * kept or dropped, never written into buf. A peer may still read the buffer of a cancelled send that had begun (shm
     * copies large messages out of the sender's memory), and complete its receive with what the owner writes there:
     * contents of a group that is closed.
     * What was sent to a (peer, tag) before matches as always; of what was sent after it, nothing is received. So no
     * more goes under the tags of a group with cancelled transfers, once all of them have been cancelled: the group is
     * closed, or has another number. */
    void (*cancel)(struct halay_link *link, struct halay_transfer *x);

    /* No transfer of these groups is posted, and none will be. What has arrived for them is dropped, as is what arrives
     * later, as if it had been received: its memory is free, and its sender's transfer completes if it was not
     * cancelled. */
    void (*forget)(struct halay_link *link, struct halay_group_range groups);

    /* Memory from which messages are sent without a copy, 4096-aligned. in_transit: it receives messages too, such as a
     * collective's scratch: after a cancel the link may still use it, so that nothing has to be copied on the way
     * there. free takes what alloc gave, or NULL, at any time once no transfer with it is posted; the link keeps it for
     * as long as something may still arrive there. Any thread. NULL (all three): any memory is as good.
     * HALAY_ERR_NO_MEMORY. */
    enum halay_status (*alloc)(struct halay_link *link, size_t bytes, int in_transit, void **out);
    void (*free)(struct halay_link *link, void *ptr);
    /* Keeps memory of alloc when the link is closed, as plain memory of this process; kept, borrowed until close, has
     * how to free it then. */
    void (*keep)(struct halay_link *link, void *ptr, struct halay_kept *kept);

    /* The last step before a sleep on the bell, after the last progress: how long the rank may sleep, in us, before it
     * progresses this link again. 0: progress first. HALAY_RINGS: until the bell rings, as news of this link
     * will make it do. */
    long (*arm)(struct halay_link *link);
    /* The descriptor that news make readable once arm has returned HALAY_RINGS; the same until close. NULL: without
     * one, either news ring the bell themselves, or arm limits the sleep while something is under way. */
    int (*event_fd)(struct halay_link *link);

    /* Release everything. No transfer is posted. Peers that still wait for this rank get HALAY_ERR_PEER ("has left").
     * Never blocks for a peer. What was sent and is done reaches its receiver all the same. link is freed. */
    void (*close)(struct halay_link *link);
};

#endif
