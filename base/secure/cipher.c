/* SPDX-License-Identifier: Apache-2.0
 *
 * Cipher: both directions of a connection, sealed and cut into records.
 */
#include "base/secure/cipher.h"
#include "base/secure/seal.h"
#include "base/store/store_protocol.h"
#include <sodium.h>
#include <stdlib.h>

enum { HEAD = 4, OVER = HEAD + HALAY_SEAL_MAC_BYTES };
_Static_assert((int)HALAY_CIPHER_RECORD_MAX == (int)OVER + HALAY_CIPHER_BYTES_MAX, "room for the longest record");
_Static_assert((int)HALAY_SEAL_KEY_BYTES == (int)HALAY_SECRET_BYTES, "a session's keys fit");

struct halay_cipher {
    struct halay_seal sends, receives;
    enum { OPEN, ENDED, BROKEN } received;
};

enum halay_status halay_cipher_create(const struct halay_session *session, struct halay_cipher **out)
{
    struct halay_cipher *cipher = sodium_init() < 0 ? NULL : calloc(1, sizeof *cipher);

    if (!cipher)
        return HALAY_ERR_NO_MEMORY;
    halay_seal_init(&cipher->sends, session->sends, 0);
    halay_seal_init(&cipher->receives, session->receives, 0);
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
    store_write_u32(wire, (uint32_t)count << 1 | !!is_last);
    halay_seal_close(&c->sends, wire, HEAD, bytes, count, wire + OVER, wire + HEAD);
    return OVER + count;
}

static enum halay_status open_record(struct halay_cipher *c, const unsigned char *wire, size_t count, size_t *used,
                                     void *bytes, size_t *opened)
{
    const uint32_t head = store_read_u32(wire);
    const size_t length = head >> 1;

    if (length > HALAY_CIPHER_BYTES_MAX)
        return HALAY_ERR_AUTH;
    if (count < OVER + length)
        return HALAY_OK;
    if (halay_seal_open(&c->receives, wire, HEAD, wire + OVER, length, wire + HEAD, bytes) != HALAY_OK)
        return HALAY_ERR_AUTH;
    c->received = head & 1 ? ENDED : OPEN;
    *used = OVER + length;
    *opened = length;
    return HALAY_OK;
}

enum halay_status halay_cipher_open(struct halay_cipher *c, const unsigned char *wire, size_t count, size_t *used,
                                    void *bytes, size_t *opened)
{
    enum halay_status status = c->received == OPEN || !count ? HALAY_OK : HALAY_ERR_AUTH; /* nothing may follow */

    *used = *opened = 0;
    if (c->received == OPEN && count >= HEAD)
        status = open_record(c, wire, count, used, bytes, opened);
    if (status != HALAY_OK)
        c->received = BROKEN;
    return status;
}

int halay_cipher_has_ended(const struct halay_cipher *c)
{
    return c->received == ENDED;
}
