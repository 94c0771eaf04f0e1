/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream: bytes of one connection to messages and back.
 *
 * Messages are copied: a partly sent one cannot be taken back from a stream, and what arrives is nobody's business
 * before its mac was checked. Both buffers grow to the largest that was needed and stay.
 */
#include "collectives/transport/tcp/tcp_stream.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 8, TAG_AT = 4, READ_BYTES = 64 << 10 };

static int grow(unsigned char **buffer, size_t *room, size_t bytes)
{
    size_t wanted = *room ? *room : READ_BYTES;

    while (wanted < bytes)
        wanted *= 2;
    if (wanted == *room)
        return 1;
    unsigned char *grown = realloc(*buffer, wanted);
    if (!grown)
        return 0;
    *buffer = grown;
    *room = wanted;
    return 1;
}

void halay_tcp_stream_fini(struct halay_tcp_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream->received);
    free(stream->unsent);
    explicit_bzero(stream, sizeof *stream);
    stream->fd = -1;
}

enum halay_status halay_tcp_stream_queue(struct halay_tcp_stream *stream, uint32_t tag, const void *payload,
                                         size_t bytes)
{
    size_t whole = HEAD_BYTES + bytes + STORE_MAC_BYTES;

    if (!grow(&stream->unsent, &stream->unsent_room, stream->unsent_bytes + whole))
        return HALAY_ERR_NO_MEMORY;
    unsigned char *wire = stream->unsent + stream->unsent_bytes;
    store_write_u32(wire, (uint32_t)bytes);
    store_write_u32(wire + TAG_AT, tag);
    if (bytes)
        memcpy(wire + HEAD_BYTES, payload, bytes);
    store_sign(&stream->out, wire, HEAD_BYTES + bytes, wire + HEAD_BYTES + bytes);
    stream->unsent_bytes += whole;
    stream->queued += whole;
    return HALAY_OK;
}

static void note_error(struct halay_tcp_stream *stream)
{
    if (!stream->error)
        stream->error = errno;
}

void halay_tcp_stream_write(struct halay_tcp_stream *stream)
{
    while (stream->sent < stream->unsent_bytes) {
        ssize_t n = send(stream->fd, stream->unsent + stream->sent, stream->unsent_bytes - stream->sent, MSG_NOSIGNAL);
        if (n >= 0) {
            stream->sent += (size_t)n;
            stream->written += (uint64_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            note_error(stream);
            break;
        }
    }
    stream->sent = stream->unsent_bytes = 0;
}

enum halay_status halay_tcp_stream_read(struct halay_tcp_stream *stream)
{
    if (stream->taken) { /* make room at the end */
        stream->received_bytes -= stream->taken;
        memmove(stream->received, stream->received + stream->taken, stream->received_bytes);
        stream->taken = 0;
    }
    if (!grow(&stream->received, &stream->received_room, stream->received_bytes + READ_BYTES))
        return HALAY_ERR_NO_MEMORY;
    ssize_t n =
        recv(stream->fd, stream->received + stream->received_bytes, stream->received_room - stream->received_bytes, 0);
    if (n > 0) {
        stream->received_bytes += (size_t)n;
    } else if (n == 0) {
        stream->has_ended = 1;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        note_error(stream);
        stream->has_ended = 1;
    }
    return HALAY_OK;
}

enum halay_status halay_tcp_stream_next(struct halay_tcp_stream *stream, struct halay_tcp_message *message)
{
    const unsigned char *wire = stream->received + stream->taken;
    size_t have = stream->received_bytes - stream->taken;

    if (have < HEAD_BYTES)
        return HALAY_IN_PROGRESS;
    size_t bytes = store_read_u32(wire);
    if (bytes > HALAY_TCP_MESSAGE_MAX)
        return HALAY_ERR_FORMAT;
    if (have < HEAD_BYTES + bytes + STORE_MAC_BYTES)
        return HALAY_IN_PROGRESS;
    if (!store_is_signed(&stream->in, wire, HEAD_BYTES + bytes, wire + HEAD_BYTES + bytes))
        return HALAY_ERR_AUTH;
    *message = (struct halay_tcp_message){ .tag = store_read_u32(wire + TAG_AT),
                                           .payload = wire + HEAD_BYTES,
                                           .bytes = bytes };
    stream->taken += HEAD_BYTES + bytes + STORE_MAC_BYTES;
    return HALAY_OK;
}
