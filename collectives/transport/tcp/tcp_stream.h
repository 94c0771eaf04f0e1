/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream: one connection of the tcp transport, both directions, after its handshake. Never blocks.
 *
 * A message on the wire, numbers little-endian:
 *
 *      0  bytes  4   of the payload, at most HALAY_TCP_MESSAGE_MAX; checked before anything is allocated
 *      4  tag    4   GOODBYE: the sender leaves in order, nothing follows
 *      8  payload
 *      8 + bytes  mac  32   keyed with the session's key of this direction, over a count of messages and all above
 *
 * The handshake is the store's (base/store/store_protocol.h) under a key of its own.
 */
#ifndef HALAY_TCP_STREAM_H
#define HALAY_TCP_STREAM_H

#include "base/store/store_protocol.h"

#define HALAY_TCP_GOODBYE UINT32_MAX

enum { HALAY_TCP_MESSAGE_MAX = 4 << 20 }; /* bytes of one message */

/* Zero-initialised but for fd, which is -1 where there is no connection; fini accepts any state. */
struct halay_tcp_stream {
    int fd; /* owned */
    struct store_direction in, out;
    unsigned char *received; /* owned: what has come and was not taken yet, from `taken` on */
    size_t received_room, received_bytes, taken;
    unsigned char *unsent; /* owned: what the system has not taken yet, from `sent` on */
    size_t unsent_room, unsent_bytes, sent;
    uint64_t queued, written; /* bytes of all messages so far; written: taken by the system */
    int error;                /* the first errno of the connection, 0: none */
    int has_ended;            /* nothing more can come */
};

struct halay_tcp_message {
    uint32_t tag;
    const unsigned char *payload; /* borrowed until the next call for this stream */
    size_t bytes;
};

void halay_tcp_stream_fini(struct halay_tcp_stream *stream);

/* Sign and queue a message; written reaches queued once it is sent. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tcp_stream_queue(struct halay_tcp_stream *stream, uint32_t tag, const void *payload,
                                         size_t bytes);
/* Give the system what it takes. What can't be sent any more is dropped: that the peer is lost shows when it is
 * read. */
void halay_tcp_stream_write(struct halay_tcp_stream *stream);
/* Take what has come, a bounded piece. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tcp_stream_read(struct halay_tcp_stream *stream);
/* The next whole message that was read. HALAY_OK; HALAY_IN_PROGRESS: there is none; HALAY_ERR_FORMAT,
 * HALAY_ERR_AUTH. */
enum halay_status halay_tcp_stream_next(struct halay_tcp_stream *stream, struct halay_tcp_message *message);

#endif
