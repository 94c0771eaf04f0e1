/* SPDX-License-Identifier: Apache-2.0
 *
 * Connection: frames out of and into one socket, after its handshake. Never blocks, and copies as little as it can: a
 * payload is written from its own buffer, and read into its place if the reader has one.
 *
 *     out   frames, in the order of halay_tcp_connection_send; then chunks of large messages, at most CHUNK_BYTES
 *           each: a frame that is queued meanwhile overtakes those that have not begun
 *     in    head into staging -> handler.begin gives the payload's place -> handler.end
 *
 * A signed frame is followed by a mac, keyed with the session's key of its direction, over a count of signed frames and
 * all of the frame (store_sign).
 *
 * A sealed connection (tcp_seal.h) has the same frames. A frame of it is sent once the system has taken all of its
 * records.
 */
#ifndef HALAY_TCP_CONNECTION_H
#define HALAY_TCP_CONNECTION_H

#include "base/store/store_protocol.h"
#include "collectives/transport/connect/tcp_set.h"
#include "collectives/transport/link.h"
#include "collectives/transport/tcp/tcp_frame.h"
#include "collectives/transport/tcp/tcp_seal.h"

struct halay_tcp_out; /* a frame that is to be written */

/* Calls of the connection to its owner. Called inside read and flush; may queue frames, but neither reads nor ends the
 * connection. */
struct halay_tcp_handler {
    /* The head of a DATA or BULK has come: *to is where its payload belongs, NULL: it is dropped. It stays borrowed
     * until end, or halay_tcp_connection_redirect. An error ends reading. */
    enum halay_status (*begin)(void *arg, const struct halay_tcp_frame *frame, unsigned char **to);
    /* All of a frame has come, and is what its sender signed. length: of RTS and CTS. An error ends reading. */
    enum halay_status (*end)(void *arg, const struct halay_tcp_frame *frame, uint64_t length);
    /* The credit that a frame which is made now can carry. */
    uint32_t (*credit)(void *arg);
    /* The system has taken the last byte of this message. */
    void (*sent)(void *arg, struct halay_transfer *x);
};

struct halay_tcp_outs {
    struct halay_tcp_out *first, **end;
};

struct halay_tcp_connection {
    struct halay_tcp_watch watch;            /* its fd is owned */
    const struct halay_tcp_handler *handler; /* borrowed, with arg, until fini */
    void *arg;
    int error;                         /* the first errno of the connection; 0: none */
    int has_ended;                     /* nothing more can come */
    int has_left;                      /* its BYE was received */
    struct halay_tcp_connection *next; /* of the same peer, whose it is */
    int is_full;                       /* the system takes nothing more at the moment */
    int is_held;                       /* the other end has no room, which may last: set by the owner */
    enum halay_status status;    /* of what was read; an error of the handler's, HALAY_ERR_FORMAT, HALAY_ERR_AUTH */
    struct halay_tcp_seal *seal; /* owned; NULL: all is in clear */
    /* out */
    struct store_direction signs, checks;
    struct halay_tcp_outs frames, chunks;
    struct halay_tcp_out *current; /* the one of which a part was written; in one of the lists */
    struct halay_tcp_out *unused;  /* owned */
    struct halay_tcp_outs sealed;  /* that are sent once the seal's records are */
    int chunk_count;
    struct halay_transfer *bulks, **bulks_end; /* large messages of which chunks are to be cut; by next */
    /* in */
    unsigned char *staging; /* owned */
    size_t from, to;        /* what was read and not taken yet */
    int has_head;
    struct halay_tcp_frame frame;
    unsigned char head[HALAY_TCP_HEAD_BYTES], length[HALAY_TCP_LENGTH_BYTES];
    unsigned char *place; /* of its payload */
    size_t have;          /* bytes of it */
};

/* Over fd, which is owned from then on, also after an error. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tcp_connection_init(struct halay_tcp_connection *c, int fd,
                                            const struct halay_tcp_handler *handler, void *arg);
/* All that follows is sealed, with keys derived from those of signs and checks. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tcp_connection_seal(struct halay_tcp_connection *c, int is_aes);
void halay_tcp_connection_fini(struct halay_tcp_connection *c); /* zero-initialised but for fd, -1, is allowed */

/* Queue a frame; kind, flags, tag and id of it count. payload: that of DATA, borrowed until x is sent or cancelled;
 * length: the payload of RTS and CTS. x NULL: no transfer ends. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tcp_connection_send(struct halay_tcp_connection *c, const struct halay_tcp_frame *frame,
                                            const void *payload, uint64_t length, struct halay_transfer *x);
/* Queue a message that is sent in chunks with this id. */
void halay_tcp_connection_send_bulk(struct halay_tcp_connection *c, struct halay_transfer *x, uint64_t id);
/* Returns nonzero if the first byte of a message that is sent in chunks, with this tag, still waits here: a frame that
 * is queued now would overtake it. */
int halay_tcp_connection_holds(const struct halay_tcp_connection *c, uint64_t tag);
/* Nothing of x or its buffer is touched any more; a part of a frame that was begun is sent from a copy.
 * HALAY_ERR_NO_MEMORY: the rest of the frame cannot be sent, and the connection is of no use any more. */
enum halay_status halay_tcp_connection_cancel(struct halay_tcp_connection *c, const struct halay_transfer *x);

/* Give the system what it takes. Nonzero if it took something. */
int halay_tcp_connection_flush(struct halay_tcp_connection *c);
/* Returns nonzero if anything is left to write. */
static inline int halay_tcp_connection_is_writing(const struct halay_tcp_connection *c)
{
    return (c->frames.first || c->chunks.first || c->bulks || (c->seal && halay_tcp_seal_is_writing(c->seal))) &&
           !c->error;
}
/* Reads what has arrived, a bounded piece. Returns nonzero if anything was read. */
int halay_tcp_connection_read(struct halay_tcp_connection *c);
/* Reads the rest of the payload that arrives in `from` into `to`, where the caller has copied what was there; NULL:
 * drops it. */
void halay_tcp_connection_redirect(struct halay_tcp_connection *c, const unsigned char *from, unsigned char *to);
/* Returns the bytes read so far of the payload that arrives in `place`; SIZE_MAX: none does. */
size_t halay_tcp_connection_has(const struct halay_tcp_connection *c, const unsigned char *place);

#endif
