/* SPDX-License-Identifier: Apache-2.0
 *
 * Match: which send matches which receive, of the messages between this rank and one peer.
 *
 *     sender                                       receiver
 *     at most EAGER_BYTES:  ------ DATA ------->   into its receive's buffer; before that is posted: kept
 *     more:                 <----- CTS{id} -----   as soon as the receive is posted and there is a connection
 *                           - BULK{id, offset} ->  straight into the buffer
 *                           ------ RTS ------->    if it has no CTS yet: so that a receiver that expects something
 *                                                  else learns of it
 *
 * Collectives post ahead, so the CTS is there before the sender asks for it: a large message takes no round trip, no
 * memory of the receiver's and one copy.
 *
 * Order: a send of which an earlier one with the same tag has not begun waits for it. So what begins to arrive under a
 * tag belongs to the first receive of that tag, whatever its length, and lengths that disagree are found.
 *
 * Streams: a peer may have several connections, where a network limits each. Messages take the first, and so do the
 * chunks of a short one that was announced, after its RTS; the chunks of a large one, which is not announced then, take
 * one of them all, by the number of its CTS. They may arrive before or after a later message of the same tag, which is
 * for the first receive that has sent no CTS then. Groups that the receiver forgets are answered by a CTS of number 0,
 * whose length is how many more follow the one of its tag: their large messages end unsent.
 *
 * Window: DATA is sent while less than WINDOW_UNITS of it (in units of UNIT_BYTES) are not taken yet. Messages beyond
 * that are announced by an RTS and wait for a CTS, as large messages do, so that no tag holds up another one. The
 * receiver gives credit back with what it sends, or by a frame of its own once it owes a quarter. It keeps EARLY_BYTES
 * of early messages beyond that, since those of a group that was given up are dropped only when it is forgotten.
 * Messages of the engine are signed, not limited, and always DATA.
 */
#ifndef HALAY_TCP_MATCH_H
#define HALAY_TCP_MATCH_H

#include "collectives/transport/tcp/tcp_connection.h"

enum { HALAY_TCP_EAGER_BYTES = 64 << 10 };

struct halay_tcp_early; /* a message that arrived, or was announced, before its receive was posted */

struct halay_tcp_queue {
    struct halay_transfer *first, **end; /* by next */
};

struct halay_tcp_grant { /* a CTS that matches no send yet */
    struct halay_tcp_grant *next;
    uint64_t tag, id, bytes;
};

struct halay_tcp_peer {
    int rank;
    int has_left;                               /* its BYE was received over each connection */
    int streams, byes;                          /* connections, 0: not all are made; those with a BYE received */
    uint64_t lost;                              /* the rank that it left because of, and 1; 0: none */
    int wanted;                                 /* transfers that are posted and not optional */
    const struct halay_forgotten *forgotten;    /* borrowed: the link's */
    struct halay_forgotten refused;             /* owned: the groups that the other rank has forgotten */
    struct halay_log *log;                      /* borrowed */
    struct halay_tcp_connection *connection;    /* owned, with those after it; NULL: not all are made yet */
    struct halay_tcp_queue sends;               /* that have not begun */
    struct halay_tcp_queue receives;            /* that nothing has come for */
    struct halay_tcp_queue arriving;            /* large receives with a chunk received */
    struct halay_transfer *into;                /* the receive that a DATA arrives in at the moment, */
    struct halay_tcp_early *into_early;         /* or what it is kept in; NULL: none, or it was cancelled */
    struct halay_tcp_early *early, **early_end; /* owned */
    struct halay_tcp_early *spare;              /* owned: for the next ones */
    size_t early_bytes, spare_bytes;
    struct halay_tcp_grant *grants, **grants_end; /* owned, in order of arrival */
    struct halay_tcp_grant *unused;               /* owned */
    uint64_t last_id;                             /* of this rank's own CTS */
    uint32_t in_flight, owed;                     /* units of DATA: sent and not credited; taken and not credited */
    unsigned long completed;                      /* transfers so far: whether anything has happened */
    const char *why;                              /* of the first error; NULL: none */
    enum halay_status status;
};

/* Zero-initialised before. fini: connection is closed, too. */
void halay_tcp_peer_init(struct halay_tcp_peer *peer, const struct halay_link *link, int rank);
void halay_tcp_peer_fini(struct halay_tcp_peer *peer);

/* Post, and cancel, as link.h's slots of these names. What can go out is queued, not written. */
void halay_tcp_peer_send(struct halay_tcp_peer *peer, int to, uint64_t tag, const void *buf, size_t bytes,
                         struct halay_transfer *x);
void halay_tcp_peer_receive(struct halay_tcp_peer *peer, int from, uint64_t tag, void *buf, size_t bytes,
                            struct halay_transfer *x);
void halay_tcp_peer_cancel(struct halay_tcp_peer *peer, struct halay_transfer *x);

/* The groups were just added to the forgotten ones: drops what is kept of them. */
void halay_tcp_peer_forget(struct halay_tcp_peer *peer, struct halay_group_range groups);

/* There is a connection now: everything that waited for it is queued. */
void halay_tcp_peer_connected(struct halay_tcp_peer *peer);

/* Begin what can begin: something was written, and sends wait. */
void halay_tcp_peer_push(struct halay_tcp_peer *peer);

/* Handles the calls of peers' connections; their arg is the peer. */
extern const struct halay_tcp_handler halay_tcp_peer_handler;

#endif
