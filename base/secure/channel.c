/* SPDX-License-Identifier: Apache-2.0
 *
 * Channel: libsodium's secret stream, cut into records.
 */
#include "base/secure/channel.h"
#include "base/store/store_protocol.h"
#include <sodium.h>
#include <stdlib.h>

enum {
    HEADER = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    OVER = crypto_secretstream_xchacha20poly1305_ABYTES,
    LENGTH = 4,
};
_Static_assert((int)HALAY_CHANNEL_RECORD_MAX == (int)HEADER + LENGTH + (int)OVER + HALAY_CHANNEL_BYTES_MAX,
               "room for a header and the longest record");
_Static_assert((int)crypto_secretstream_xchacha20poly1305_KEYBYTES == (int)HALAY_SECRET_BYTES, "a session's keys fit");

enum phase { NOTHING, BEGUN, ENDED, BROKEN };

struct halay_channel {
    struct halay_session session; /* until both directions have begun */
    crypto_secretstream_xchacha20poly1305_state sends, receives;
    enum phase sent, received;
};

enum halay_status halay_channel_create(const struct halay_session *session, struct halay_channel **out)
{
    struct halay_channel *channel = sodium_init() < 0 ? NULL : calloc(1, sizeof *channel);

    if (!channel)
        return HALAY_ERR_NO_MEMORY;
    channel->session = *session;
    *out = channel;
    return HALAY_OK;
}

void halay_channel_destroy(struct halay_channel *channel)
{
    if (channel)
        sodium_memzero(channel, sizeof *channel);
    free(channel);
}

size_t halay_channel_seal(struct halay_channel *c, const void *bytes, size_t count, int is_last, unsigned char *wire)
{
    size_t used = 0;

    if (c->sent == NOTHING) {
        crypto_secretstream_xchacha20poly1305_init_push(&c->sends, wire, c->session.sends);
        used = HEADER;
    }
    store_write_u32(wire + used, (uint32_t)(count + OVER));
    crypto_secretstream_xchacha20poly1305_push(&c->sends, wire + used + LENGTH, NULL, bytes, count, wire + used, LENGTH,
                                               is_last ? crypto_secretstream_xchacha20poly1305_TAG_FINAL : 0);
    c->sent = is_last ? ENDED : BEGUN;
    return used + LENGTH + count + OVER;
}

/* The header, once. */
static enum halay_status begin(struct halay_channel *c, const unsigned char *wire, size_t count, size_t *used)
{
    if (count < HEADER)
        return HALAY_OK;
    if (crypto_secretstream_xchacha20poly1305_init_pull(&c->receives, wire, c->session.receives))
        return HALAY_ERR_AUTH;
    c->received = BEGUN;
    *used = HEADER;
    return HALAY_OK;
}

static enum halay_status open_record(struct halay_channel *c, const unsigned char *wire, size_t count, size_t *used,
                                     void *bytes, size_t *opened)
{
    unsigned char tag;

    if (count < LENGTH)
        return HALAY_OK;
    size_t length = store_read_u32(wire);
    if (length < OVER || length > OVER + (size_t)HALAY_CHANNEL_BYTES_MAX)
        return HALAY_ERR_AUTH;
    if (count - LENGTH < length)
        return HALAY_OK;
    if (crypto_secretstream_xchacha20poly1305_pull(&c->receives, bytes, NULL, &tag, wire + LENGTH, length, wire,
                                                   LENGTH))
        return HALAY_ERR_AUTH;
    if (tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL)
        c->received = ENDED;
    *used = LENGTH + length;
    *opened = length - OVER;
    return HALAY_OK;
}

enum halay_status halay_channel_open(struct halay_channel *c, const unsigned char *wire, size_t count, size_t *used,
                                     void *bytes, size_t *opened)
{
    enum halay_status status = c->received <= BEGUN || !count ? HALAY_OK : HALAY_ERR_AUTH; /* nothing may follow */

    *used = *opened = 0;
    if (status == HALAY_OK && c->received == NOTHING)
        status = begin(c, wire, count, used);
    else if (status == HALAY_OK && c->received == BEGUN)
        status = open_record(c, wire, count, used, bytes, opened);
    if (status != HALAY_OK)
        c->received = BROKEN;
    return status;
}

int halay_channel_has_ended(const struct halay_channel *c)
{
    return c->received == ENDED;
}
