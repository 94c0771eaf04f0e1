/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages over shared memory between one rank and one other.
 */
#ifndef HALAY_SHM_MESSAGE_H
#define HALAY_SHM_MESSAGE_H

#include "collectives/transport/shared_memory.h"
#include "collectives/transport/shm/shm_fifo.h"
#include "collectives/transport/shm/shm_segment.h"

struct halay_shm_queue {
    struct halay_transfer *first, *last;
};

/* A message whose first record has arrived and which is not delivered yet. */
struct halay_shm_incoming {
    struct halay_shm_incoming *next;
    uint32_t serial;
    uint64_t tag;
    size_t total;
    size_t arrived;                  /* bytes, in the transfer's buffer or in stash */
    struct halay_transfer *transfer; /* borrowed; NULL: no receive yet, or it is cancelled */
    int is_dropped;                  /* its receive is cancelled: the rest is dropped */
    const unsigned char *source;     /* LOOK: in the sender's segment; else NULL */
    enum halay_shm_kind owes;        /* GO or DONE, to be put once the ring has room; 0: none */
    unsigned char *stash;            /* owned: bytes that arrived before the receive */
    size_t stash_capacity;
};

struct halay_shm_peer {
    int rank;
    struct halay_shm_entry *entry;      /* borrowed: the peer's, in the board */
    const struct halay_bell_peer *bell; /* borrowed: the peer's */
    struct halay_shm_end in, out;
    uint32_t serial;                     /* of the newest message to it */
    uint64_t ahead;                      /* bytes of FIRST payloads put; less the delivered ones: held at the peer */
    struct halay_shm_queue fresh;        /* sends that have not begun, oldest first */
    struct halay_shm_queue begun;        /* sends that have */
    struct halay_shm_queue posted;       /* receives that match no message yet, oldest first */
    struct halay_shm_incoming *incoming; /* oldest first */
    int owing;                           /* how many of them owe a record */
    int copying;                         /* how many of them are being copied from the peer's segment */
};

/* Fields that all peers of a transport share. */
struct halay_shm_context {
    struct halay_link *link;
    const struct halay_shm_layout *layout;
    unsigned char *segment; /* borrowed: this rank's */
    int has_barrier;
    size_t record_max;                /* bytes of payload of a record, at most */
    struct halay_shm_incoming *spare; /* owned: for reuse */
};

/* Starts a send. */
void halay_shm_send(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x);
/* Starts a send to a peer that has left: it never completes. */
void halay_shm_send_never(struct halay_shm_peer *p, struct halay_transfer *x);
/* Starts a receive. HALAY_ERR_FORMAT: its message has arrived, with another length. */
enum halay_status halay_shm_recv(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x);
void halay_shm_cancel(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x);
/* The groups were just added to the forgotten ones of the link: drops what has come of them. */
void halay_shm_forget(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_group_range groups);

/* Does a bounded part of the work that needs no waiting. HALAY_OK, HALAY_ERR_FORMAT (logged), HALAY_ERR_NO_MEMORY. */
enum halay_status halay_shm_pump(struct halay_shm_context *c, struct halay_shm_peer *p);

/* Returns nonzero if a pump has left work over. */
static inline int halay_shm_has_work(struct halay_shm_peer *p)
{
    return p->copying || halay_shm_has_record(&p->in);
}

/* Returns nonzero if a send waits for room in the peer's ring: the peer must ring. */
int halay_shm_wants_room(const struct halay_shm_peer *p);
/* Returns nonzero if the peer has made room since the last look. If not, after halay_bell_heavy_barrier, the peer sees
 * that this rank wants room. */
int halay_shm_has_room_again(const struct halay_shm_peer *p);

/* Returns nonzero if a transfer waits for a peer that has left (has_left was loaded). */
int halay_shm_is_stuck(struct halay_shm_peer *p);

void halay_shm_peer_fini(struct halay_shm_peer *p);
void halay_shm_context_fini(struct halay_shm_context *c);

#endif
