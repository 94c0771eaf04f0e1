/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: the store's three messages and a byte, over a socket.
 */
#include "base/handshake.h"
#include "base/clock.h"
#include "base/socket.h"
#include "base/store_protocol.h"
#include <sodium.h>

enum halay_status halay_derive_secret(struct halay_log *log, const struct halay_secret_part *parts, size_t count,
                                      unsigned char secret[HALAY_SECRET_BYTES])
{
    crypto_generichash_state state;

    if (sodium_init() < 0 || crypto_generichash_init(&state, NULL, 0, HALAY_SECRET_BYTES)) {
        halay_error(log, "libsodium cannot be initialised");
        return HALAY_ERR_SYSTEM;
    }
    for (size_t i = 0; i < count; i++) { /* with its length, so that no two lists of parts are one text */
        unsigned char length[8];
        for (int b = 0; b < 8; b++)
            length[b] = (unsigned char)((unsigned long long)parts[i].count >> 8 * b);
        crypto_generichash_update(&state, length, sizeof length);
        crypto_generichash_update(&state, parts[i].bytes, parts[i].count);
    }
    crypto_generichash_final(&state, secret, HALAY_SECRET_BYTES);
    sodium_memzero(&state, sizeof state);
    return HALAY_OK;
}

_Static_assert(HALAY_HANDSHAKE_FIRST_BYTES == (int)STORE_HELLO_BYTES, "the hello is what comes first");

static void derive_key(const unsigned char *secret, unsigned char key[HALAY_SECRET_BYTES])
{
    store_derive(secret, "launcher", NULL, 0, key);
}

/* Up to the proof, and the welcome that it gets. */
static enum halay_status call(int fd, struct store_handshake *h, const unsigned char *key, unsigned char purpose,
                              int64_t deadline_us)
{
    unsigned char welcome;
    size_t have = 0;

    store_make_hello(h, key, STORE_VERSION, purpose);
    enum halay_status status = halay_socket_send(fd, h->hello, STORE_HELLO_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, h->challenge, STORE_HELLO_BYTES, &have, deadline_us);
    if (status == HALAY_ERR_PEER)
        return HALAY_ERR_AUTH; /* that is how a stranger's hello is answered */
    if (status != HALAY_OK)
        return status;
    if (!store_is_challenge(h, key))
        return HALAY_ERR_AUTH;
    if (store_version(h->challenge) != STORE_VERSION)
        return HALAY_ERR_VERSION;
    store_make_proof(h, key);
    have = 0;
    status = halay_socket_send(fd, h->proof, STORE_MAC_BYTES, deadline_us);
    return status == HALAY_OK ? halay_socket_receive(fd, &welcome, 1, &have, deadline_us) : status;
}

enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], unsigned char purpose,
                                       int timeout_ms)
{
    unsigned char key[HALAY_SECRET_BYTES];
    struct store_handshake h;

    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    derive_key(secret, key);
    enum halay_status status = call(fd, &h, key, purpose, halay_deadline_us(timeout_ms));
    sodium_memzero(key, sizeof key);
    return status;
}

static enum halay_status answer(int fd, struct store_handshake *h, const unsigned char *key, int64_t deadline_us)
{
    size_t have = 0;

    enum halay_status status = halay_socket_receive(fd, h->hello, STORE_HELLO_BYTES, &have, deadline_us);
    if (status == HALAY_OK && !store_is_hello(h, key))
        status = HALAY_ERR_AUTH;
    if (status != HALAY_OK)
        return status;
    store_make_challenge(h, key, STORE_VERSION);
    status = halay_socket_send(fd, h->challenge, STORE_HELLO_BYTES, deadline_us);
    if (status == HALAY_OK && store_version(h->hello) != STORE_VERSION)
        status = HALAY_ERR_VERSION; /* the caller has been told ours */
    have = 0;
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, h->proof, STORE_MAC_BYTES, &have, deadline_us);
    if (status != HALAY_OK)
        return status;
    return store_is_proof(h, key) ? halay_socket_send(fd, "w", 1, deadline_us) : HALAY_ERR_AUTH;
}

enum halay_status halay_handshake_answer(int fd, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms,
                                         unsigned char *purpose)
{
    unsigned char key[HALAY_SECRET_BYTES];
    struct store_handshake h;

    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    derive_key(secret, key);
    enum halay_status status = answer(fd, &h, key, halay_deadline_us(timeout_ms));
    sodium_memzero(key, sizeof key);
    if (status == HALAY_OK)
        *purpose = (unsigned char)store_rank(h.hello);
    return status;
}
