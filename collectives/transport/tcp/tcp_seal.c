/* SPDX-License-Identifier: Apache-2.0
 *
 * Seal: records out of and into a buffer each.
 */
#include "collectives/transport/tcp/tcp_seal.h"
#include "base/store/store_protocol.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ALONE_BYTES = 8 << 10 }; /* a part of this size has its own records: less costs more to seal than to copy */

enum halay_status halay_tcp_seal_create(const unsigned char *send_key, const unsigned char *receive_key, int is_aes,
                                        struct halay_tcp_seal **out)
{
    struct halay_tcp_seal *seal = calloc(1, sizeof *seal);

    if (!seal)
        return HALAY_ERR_NO_MEMORY;
    seal->out = malloc(HALAY_TCP_SEAL_BYTES);
    seal->in = malloc(HALAY_TCP_SEAL_BYTES);
    if (!seal->out || !seal->in) {
        halay_tcp_seal_destroy(seal);
        return HALAY_ERR_NO_MEMORY;
    }
    halay_seal_init(&seal->sends, send_key, is_aes);
    halay_seal_init(&seal->receives, receive_key, is_aes);
    *out = seal;
    return HALAY_OK;
}

void halay_tcp_seal_destroy(struct halay_tcp_seal *seal)
{
    if (!seal)
        return;
    halay_seal_fini(&seal->sends);
    halay_seal_fini(&seal->receives);
    free(seal->out);
    free(seal->in);
    free(seal);
}

/* ---- out ---- */

/* 0: all is taken; -1: not all, with errno. */
static int push(struct halay_tcp_seal *seal, int fd)
{
    size_t rest = seal->out_to - seal->out_from;
    ssize_t n = send(fd, seal->out + seal->out_from, rest, MSG_NOSIGNAL);

    if (n < 0)
        return -1;
    seal->out_from += (size_t)n;
    if ((size_t)n < rest) {
        errno = EAGAIN;
        return -1;
    }
    seal->out_from = seal->out_to = 0;
    return 0;
}

/* Seals these bytes, which may be where the record's belong. */
static void add_record(struct halay_tcp_seal *seal, const unsigned char *plain, size_t bytes)
{
    unsigned char *head = seal->out + seal->out_to, *to = head + HALAY_TCP_RECORD_HEAD;

    store_write_u32(head, (uint32_t)bytes);
    halay_seal_close(&seal->sends, head, HALAY_TCP_RECORD_HEAD, plain, bytes, to, to + bytes);
    seal->out_to += bytes + HALAY_TCP_RECORD_OVER;
}

/* Copies parts that are short to where the next record's bytes belong. Returns how many bytes. */
static size_t gather(const struct halay_tcp_seal *seal, const struct iovec *parts, size_t count)
{
    unsigned char *to = seal->out + seal->out_to + HALAY_TCP_RECORD_HEAD;
    size_t bytes = 0;

    for (; count && parts->iov_len < ALONE_BYTES && bytes + parts->iov_len <= HALAY_TCP_RECORD_MAX; parts++, count--) {
        memcpy(to + bytes, parts->iov_base, parts->iov_len);
        bytes += parts->iov_len;
    }
    return bytes;
}

ssize_t halay_tcp_seal_write(struct halay_tcp_seal *seal, int fd, const struct iovec *parts, size_t count)
{
    size_t sealed = 0, gone = 0; /* in all, and of the first part */

    if (halay_tcp_seal_is_writing(seal) && push(seal, fd) < 0)
        return -1;
    while (count && HALAY_TCP_SEAL_BYTES - seal->out_to >= HALAY_TCP_RECORD_MAX + HALAY_TCP_RECORD_OVER) {
        const unsigned char *from = parts->iov_base;
        size_t bytes = gone ? 0 : gather(seal, parts, count);
        if (bytes) {
            add_record(seal, seal->out + seal->out_to + HALAY_TCP_RECORD_HEAD, bytes);
        } else {
            bytes = parts->iov_len - gone < HALAY_TCP_RECORD_MAX ? parts->iov_len - gone : HALAY_TCP_RECORD_MAX;
            add_record(seal, from + gone, bytes);
        }
        sealed += bytes;
        for (gone += bytes; count && gone >= parts->iov_len; parts++, count--)
            gone -= parts->iov_len;
    }
    if (sealed && push(seal, fd) < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return -1;
    return (ssize_t)sealed;
}

/* ---- in ---- */

ssize_t halay_tcp_seal_receive(struct halay_tcp_seal *seal, int fd)
{
    seal->in_to -= seal->in_from;
    memmove(seal->in, seal->in + seal->in_from, seal->in_to);
    seal->in_from = 0;
    ssize_t got = recv(fd, seal->in + seal->in_to, HALAY_TCP_SEAL_BYTES - seal->in_to, 0);
    if (got > 0)
        seal->in_to += (size_t)got;
    return got;
}

enum halay_status halay_tcp_seal_next(const struct halay_tcp_seal *seal, size_t *bytes)
{
    size_t here = seal->in_to - seal->in_from;

    *bytes = 0;
    if (here < HALAY_TCP_RECORD_HEAD)
        return HALAY_OK;
    uint32_t length = store_read_u32(seal->in + seal->in_from);
    if (!length || length > HALAY_TCP_RECORD_MAX)
        return HALAY_ERR_FORMAT;
    if (here >= length + HALAY_TCP_RECORD_OVER)
        *bytes = length;
    return HALAY_OK;
}

enum halay_status halay_tcp_seal_open(struct halay_tcp_seal *seal, unsigned char *to)
{
    const unsigned char *head = seal->in + seal->in_from, *sealed = head + HALAY_TCP_RECORD_HEAD;
    size_t bytes = store_read_u32(head);

    seal->in_from += bytes + HALAY_TCP_RECORD_OVER;
    return halay_seal_open(&seal->receives, head, HALAY_TCP_RECORD_HEAD, sealed, bytes, sealed + bytes, to);
}
