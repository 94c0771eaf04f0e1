/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts: messages of the transports over a message library (mpi, ucx), cut into parts that travel in memory of ours, so
 * that a transfer can be taken back at any moment.
 *
 * A back end that itself puts what arrives in its place, and can stop doing so at once (ucx: places_itself), is given
 * the place instead; the text about receives below is then about the other one only.
 *
 * A library like MPI holds a buffer until its request is complete, and a request whose peer has died may never be. So
 * it is given only memory that the transport gave out itself and can keep (parts_memory.h): what a collective lands in,
 * and for sends what alloc gave. Any other buffer is copied: a part that is sent is copied out first, a part that
 * arrives is copied in when it is complete, in cache, while the wire carries the others. Taking a transfer back cuts
 * the parts loose ("set aside"): their memory stays with the library until the request ends, if it does, and the
 * caller's buffer and transfer are free at once.
 *
 *     message      0 ............. P-1 | P ............ 2P-1 | 2P ... end       P = part_bytes
 *     parts             whole                whole              shorter than P, perhaps empty: the end
 *
 * The back end compares a part's length with what is expected before the library may write it anywhere (Open MPI 4.1
 * writes on after a receive that is too short). A part shorter than P ends a message, so two ends that disagree about
 * the length always notice: some part is longer or shorter than its receiver expects. P is not a multiple of a large
 * power of two, so that the empty end is rare. At most HALAY_PARTS_WINDOW parts of a message are with the library.
 * Messages of one (direction, peer, tag) hand out their parts one message after the other; the library keeps the order
 * of parts of one (sender, receiver, tag).
 *
 * Memory of parts is kept for reuse, by power of two: nothing is allocated once the peak has been seen.
 *
 * A peer that leaves in order sends a close notice; what still waits for it a grace later (what it sent before has
 * arrived by then) fails with HALAY_ERR_PEER. A peer that the library lost is given the same grace: for its notice, and
 * for the watch over processes to find who died; peers that gave up because of that one must not be blamed.
 *
 * Errors: the first one is kept; from then on nothing is handed out and halay_parts_pump returns it. A peer that is
 * lost concerns what is for it alone, though halay_parts_pump returns HALAY_ERR_PEER then.
 * Threads: as the transport: one at a time.
 */
#ifndef HALAY_PARTS_H
#define HALAY_PARTS_H

#include "collectives/transport/link.h"
#include "collectives/transport/module.h"
#include "collectives/transport/parts_memory.h"
#include <stdint.h>

enum { HALAY_PARTS_WINDOW = 4, HALAY_PARTS_CLASSES = 32 };

struct halay_message;

/* A part with the library, or in reserve. */
struct halay_part {
    struct halay_message *message; /* borrowed until complete; NULL: set aside, whatever arrives is dropped */
    struct halay_link *link;       /* borrowed: whose it is */
    int peer;
    uint64_t tag;
    int is_send;
    int is_optional;                 /* its transfer is */
    size_t offset, bytes;            /* of the message */
    unsigned char *memory;           /* what the library is given: owned, or in the block */
    struct halay_parts_block *block; /* in use by this part; NULL: memory is owned, and copied */
    int size_class; /* owned memory has HALAY_PAGE << size_class bytes; HALAY_PARTS_CLASSES: none is owned */
    int is_with_library;
    struct halay_part *all;  /* the next of all parts there are */
    struct halay_part *next; /* in reserve; else the back end's own, as are these: */
    void *request;
    size_t index;
    enum halay_status result;
    size_t arrived;
    int is_request, costs;
    unsigned char header[24] __attribute__((aligned(8)));
};

struct halay_parts_ops {
    /* Give a part to the library. HALAY_IN_PROGRESS: the back end reports its end with halay_parts_end, later, never
     * from within; HALAY_OK: it is complete already, with *arrived bytes (receives); HALAY_ERR_PEER: the peer is lost,
     * and that has been logged; else an error, logged. On error the part is not with the library. */
    enum halay_status (*post)(struct halay_link *link, struct halay_part *part, size_t *arrived);
    /* A part was set aside: end its request if possible without waiting. Its end is reported later, as usual. */
    void (*set_aside)(struct halay_link *link, struct halay_part *part);
};

/* LOST: the library can't reach it any more, and no close notice has arrived, or not yet. */
enum halay_parts_presence { HALAY_PARTS_HERE, HALAY_PARTS_LOST, HALAY_PARTS_LEFT };

struct halay_parts_peer {
    enum halay_parts_presence presence;
    int64_t absent_us;  /* since when it isn't here */
    const char *why;    /* it was lost; static storage */
    int is_unconnected; /* sends to it wait; the back end's */
    size_t waiting;     /* transfers with it that are posted and not optional */
};

/* A transport over a message library: the first member of each such transport. */
struct halay_parts {
    struct halay_link link;
    const struct halay_parts_ops *ops;
    const struct halay_host *host; /* borrowed until close */
    size_t part_bytes;
    int places_itself; /* set by the back end after init: receives have memory == their place */
    struct halay_parts_memory memory;
    enum halay_status status;       /* the first error but for lost peers */
    struct halay_parts_peer *peers; /* owned: size of them */
    int left, lost;                 /* peers */
    unsigned looks;                 /* pumps since the newest of these */
    struct halay_message *waiting;  /* messages with parts to hand out, oldest first */
    struct halay_message *spare;    /* messages in reserve */
    struct halay_part *reserve[HALAY_PARTS_CLASSES + 1];
    struct halay_part *all; /* owned */
};

/* Everything of parts->link is filled in, for boot's ranks. Zero-initialised storage of the caller's; fini accepts any
 * half-built state. HALAY_ERR_NO_MEMORY, logged. */
enum halay_status halay_parts_init(struct halay_parts *parts, const struct halay_link_ops *slots,
                                   const struct halay_parts_ops *ops, const struct halay_host *host,
                                   const struct halay_boot *boot, size_t part_bytes);
/* Frees everything except parts that a library which is still running holds: it may write into them at any time. */
void halay_parts_fini(struct halay_parts *parts, int library_goes_on);

/* Slots of a transport whose first member is its parts. */
void halay_parts_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                      struct halay_transfer *x);
void halay_parts_recv(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes,
                      struct halay_transfer *x);
void halay_parts_cancel(struct halay_link *link, struct halay_transfer *x);
enum halay_status halay_parts_alloc(struct halay_link *link, size_t bytes, int in_transit, void **out);
void halay_parts_free(struct halay_link *link, void *ptr);
void halay_parts_keep(struct halay_link *link, void *ptr, struct halay_kept *kept);

/* The first step of progress: is a peer known to be dead? The first error from then on, but for lost peers. */
enum halay_status halay_parts_check(struct halay_parts *parts);

/* Hand out what there is room for, after the library has been looked at. The first error from then on. */
enum halay_status halay_parts_pump(struct halay_parts *parts);

/* The library is done with a part: `arrived` bytes are in its memory (receives), or status is what went wrong
 * (logged, unless it is HALAY_ERR_PEER: the peer is lost then). The part goes back into reserve. */
void halay_parts_end(struct halay_parts *parts, struct halay_part *part, enum halay_status status, size_t arrived);

/* A part for the back end's own use, with memory for that many bytes: at `place`, if that is held memory (it is in use
 * until the part is given back), or its own (`block` is NULL). bytes 0: no memory. NULL: out of memory, not logged. */
struct halay_part *halay_parts_take(struct halay_parts *parts, void *place, size_t bytes);
void halay_parts_give(struct halay_parts *parts, struct halay_part *part);

/* The back end's lists of parts, by `next`, oldest first: appends; takes out the oldest with this tag, or `it` if that
 * is not NULL. Returns NULL if the list has none. */
void halay_parts_list_put(struct halay_part **list, struct halay_part *part);
struct halay_part *halay_parts_list_take(struct halay_part **list, uint64_t tag, const struct halay_part *it);

/* Keep the first error. Returns the kept one. */
enum halay_status halay_parts_fail(struct halay_parts *parts, enum halay_status status);

/* A peer's close notice has arrived. */
void halay_parts_peer_left(struct halay_parts *parts, int peer);
/* The library can't reach a peer any more; why: static storage. */
void halay_parts_peer_lost(struct halay_parts *parts, int peer, const char *why);

#endif
