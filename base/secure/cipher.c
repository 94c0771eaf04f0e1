/* SPDX-License-Identifier: Apache-2.0
 *
 * Cipher: libsodium's secret stream, cut into records.
 */
#include "base/secure/cipher.h"
#include "base/store/store_protocol.h"
#include <sodium.h>
#include <stdlib.h>

enum {
    HEADER = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    OVER = crypto_secretstream_xchacha20poly1305_ABYTES,
    LENGTH = 4,
};
_Static_assert((int)HALAY_CIPHER_RECORD_MAX == (int)HEADER + LENGTH + (int)OVER + HALAY_CIPHER_BYTES_MAX,
               "room for a header and the longest record");
_Static_assert((int)crypto_secretstream_xchacha20poly1305_KEYBYTES == (int)HALAY_SECRET_BYTES, "a session's keys fit");

enum phase { NOTHING, BEGUN, ENDED, BROKEN };

struct halay_cipher {
    struct halay_session session; /* until both directions have begun */
    crypto_secretstream_xchacha20poly1305_state sends, receives;
    enum phase sent, received;
};

enum halay_status halay_cipher_create(const struct halay_session *session, struct halay_cipher **out)
{
    struct halay_cipher *cipher = sodium_init() < 0 ? NULL : calloc(1, sizeof *cipher);

    if (!cipher)
        return HALAY_ERR_NO_MEMORY;
    cipher->session = *session;
    *out = cipher;
    return HALAY_OK;
}

void halay_cipher_destroy(struct halay_cipher *cipher)
{
    if (cipher)
        sodium_memzero(cipher, sizeof *cipher);
    free(cipher);
}

size_t halay_cipher_seal(struct halay_cipher *c, const void *bytes, size_t count, int is_last, unsigned char *wire)
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

/* Reads the header, once. */
static enum halay_status open_header(struct halay_cipher *c, const unsigned char *wire, size_t count, size_t *used)
{
    if (count < HEADER)
        return HALAY_OK;
    if (crypto_secretstream_xchacha20poly1305_init_pull(&c->receives, wire, c->session.receives))
        return HALAY_ERR_AUTH;
    c->received = BEGUN;
    *used = HEADER;
    return HALAY_OK;
}

static enum halay_status open_record(struct halay_cipher *c, const unsigned char *wire, size_t count, size_t *used,
                                     void *bytes, size_t *opened)
{
    unsigned char tag;

    if (count < LENGTH)
        return HALAY_OK;
    size_t length = store_read_u32(wire);
    if (length < OVER || length > OVER + (size_t)HALAY_CIPHER_BYTES_MAX)
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

enum halay_status halay_cipher_open(struct halay_cipher *c, const unsigned char *wire, size_t count, size_t *used,
                                    void *bytes, size_t *opened)
{
    enum halay_status status = c->received <= BEGUN || !count ? HALAY_OK : HALAY_ERR_AUTH; /* nothing may follow */

    *used = *opened = 0;
    if (status == HALAY_OK && c->received == NOTHING)
        status = open_header(c, wire, count, used);
    else if (status == HALAY_OK && c->received == BEGUN)
        status = open_record(c, wire, count, used, bytes, opened);
    if (status != HALAY_OK)
        c->received = BROKEN;
    return status;
}

int halay_cipher_has_ended(const struct halay_cipher *c)
{
    return c->received == ENDED;
}
