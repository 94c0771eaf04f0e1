/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: three messages of fixed length and a byte.
 */
#include "base/handshake.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

enum { MAGIC_BYTES = 8, NONCE_BYTES = 32, HASH_BYTES = 32, HELLO_BYTES = MAGIC_BYTES + 1 + NONCE_BYTES };
static const char magic[MAGIC_BYTES + 1] = "halayHS1";
enum side { CALLER = 'c', LISTENER = 'l' };

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

static enum halay_status await(int fd, short events, int64_t deadline_us)
{
    struct pollfd p = { .fd = fd, .events = events };

    for (;;) {
        int n = poll(&p, 1, halay_deadline_left_ms(deadline_us));
        if (n > 0)
            return HALAY_OK;
        if (n == 0)
            return HALAY_ERR_TIMEOUT;
        if (errno != EINTR)
            return HALAY_ERR_SYSTEM;
    }
}

enum halay_status halay_send_all(int fd, const void *bytes, size_t count, int timeout_ms)
{
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    const char *at = bytes;

    while (count) {
        ssize_t n = send(fd, at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            count -= (size_t)n;
        } else if (errno == EAGAIN) {
            enum halay_status status = await(fd, POLLOUT, deadline_us);
            if (status)
                return status;
        } else if (errno != EINTR) {
            return HALAY_ERR_SYSTEM;
        }
    }
    return HALAY_OK;
}

enum halay_status halay_receive_all(int fd, void *bytes, size_t count, int timeout_ms)
{
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    char *at = bytes;

    while (count) {
        ssize_t n = recv(fd, at, count, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            count -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            enum halay_status status = await(fd, POLLIN, deadline_us);
            if (status)
                return status;
        } else if (n == 0 || errno != EINTR) {
            return HALAY_ERR_SYSTEM;
        }
    }
    return HALAY_OK;
}

/* hello: the caller's, with its nonce; nonce: the listener's. */
static void make_hash(const unsigned char secret[HALAY_SECRET_BYTES], enum side side,
                      const unsigned char hello[HELLO_BYTES], const unsigned char nonce[NONCE_BYTES],
                      unsigned char hash[HASH_BYTES])
{
    unsigned char text[1 + HELLO_BYTES + NONCE_BYTES];

    text[0] = (unsigned char)side;
    memcpy(text + 1, hello, HELLO_BYTES);
    memcpy(text + 1 + HELLO_BYTES, nonce, NONCE_BYTES);
    crypto_generichash(hash, HASH_BYTES, text, sizeof text, secret, HALAY_SECRET_BYTES);
}

enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], unsigned char purpose,
                                       int timeout_ms)
{
    unsigned char hello[HELLO_BYTES], challenge[NONCE_BYTES + HASH_BYTES], hash[HASH_BYTES], welcome;
    enum halay_status status;

    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    memcpy(hello, magic, MAGIC_BYTES);
    hello[MAGIC_BYTES] = purpose;
    randombytes_buf(hello + MAGIC_BYTES + 1, NONCE_BYTES);
    status = halay_send_all(fd, hello, sizeof hello, timeout_ms);
    if (!status)
        status = halay_receive_all(fd, challenge, sizeof challenge, timeout_ms);
    if (status)
        return status;
    make_hash(secret, LISTENER, hello, challenge, hash);
    if (sodium_memcmp(hash, challenge + NONCE_BYTES, sizeof hash))
        return HALAY_ERR_AUTH;
    make_hash(secret, CALLER, hello, challenge, hash);
    status = halay_send_all(fd, hash, sizeof hash, timeout_ms);
    if (!status)
        status = halay_receive_all(fd, &welcome, 1, timeout_ms);
    return status;
}

enum halay_status halay_handshake_answer(int fd, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms,
                                         unsigned char *purpose)
{
    unsigned char hello[HELLO_BYTES], challenge[NONCE_BYTES + HASH_BYTES], proof[HASH_BYTES], hash[HASH_BYTES];
    enum halay_status status;

    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    status = halay_receive_all(fd, hello, sizeof hello, timeout_ms);
    if (!status && memcmp(hello, magic, MAGIC_BYTES))
        status = HALAY_ERR_AUTH;
    if (status)
        return status;
    randombytes_buf(challenge, NONCE_BYTES);
    make_hash(secret, LISTENER, hello, challenge, challenge + NONCE_BYTES);
    status = halay_send_all(fd, challenge, sizeof challenge, timeout_ms);
    if (!status)
        status = halay_receive_all(fd, proof, sizeof proof, timeout_ms);
    if (status)
        return status;
    make_hash(secret, CALLER, hello, challenge, hash);
    if (sodium_memcmp(hash, proof, sizeof hash))
        return HALAY_ERR_AUTH;
    *purpose = hello[MAGIC_BYTES];
    return halay_send_all(fd, "w", 1, timeout_ms);
}
