/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: the store's three messages and a welcome, over a socket.
 */
#include "base/secure/handshake.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include <errno.h>
#include <sodium.h>
#include <sys/socket.h>

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

static void derive_launcher_key(const unsigned char *secret, unsigned char key[HALAY_SECRET_BYTES])
{
    store_derive(secret, "launcher", NULL, 0, key);
}

/* The keys of both directions, and the welcome, from the whole handshake. */
static void derive_session(const struct store_handshake *h, const unsigned char *key, unsigned char *to_listener,
                           unsigned char *to_caller, unsigned char welcome[STORE_MAC_BYTES])
{
    struct store_direction in, out;

    store_open_directions(h, key, &in, &out);
    if (welcome)
        store_derive(out.key, "welcome-", NULL, 0, welcome);
    if (to_listener)
        store_derive(in.key, "stream--", NULL, 0, to_listener);
    if (to_caller)
        store_derive(out.key, "stream--", NULL, 0, to_caller);
    sodium_memzero(&in, sizeof in);
    sodium_memzero(&out, sizeof out);
}

/* ---- the caller -------------------------------------------------------------------------------------------------- */

/* Up to the proof, and the welcome that it gets. */
static enum halay_status call(int fd, struct store_handshake *h, const unsigned char *key, uint32_t purpose,
                              int64_t deadline_us, struct halay_session *session)
{
    unsigned char welcome[STORE_MAC_BYTES], right[STORE_MAC_BYTES];
    size_t have = 0;

    store_make_hello(h, key, STORE_VERSION, purpose);
    enum halay_status status = halay_socket_send(fd, h->hello, STORE_HELLO_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, h->challenge, STORE_HELLO_BYTES, &have, deadline_us);
    if (status != HALAY_OK)
        return status;
    if (!store_is_challenge(h, key))
        return HALAY_ERR_AUTH;
    if (store_version(h->challenge) != STORE_VERSION)
        return HALAY_ERR_VERSION;
    store_make_proof(h, key);
    have = 0;
    status = halay_socket_send(fd, h->proof, STORE_MAC_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, welcome, sizeof welcome, &have, deadline_us);
    if (status != HALAY_OK)
        return status;
    derive_session(h, key, session->sends, session->receives, right);
    return sodium_memcmp(welcome, right, sizeof right) ? HALAY_ERR_AUTH : HALAY_OK;
}

enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], uint32_t purpose,
                                       int timeout_ms, struct halay_session *session)
{
    unsigned char key[HALAY_SECRET_BYTES];
    struct store_handshake h;

    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    derive_launcher_key(secret, key);
    enum halay_status status = call(fd, &h, key, purpose, halay_deadline_us(timeout_ms), session);
    sodium_memzero(key, sizeof key);
    return status;
}

/* ---- the listener ------------------------------------------------------------------------------------------------ */

/* A connection on which little or nothing was sent yet has room for it. */
static enum halay_status send_made(int fd, const unsigned char *bytes, size_t count)
{
    return send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count ? HALAY_OK : HALAY_ERR_PEER;
}

static enum halay_status accept_hello(struct halay_answer *a, int fd, const unsigned char *key)
{
    struct store_handshake *h = &a->handshake;

    if (!store_is_hello(h, key)) {
        a->is_other = store_make_refusal(h);
        if (a->is_other)
            send_made(fd, h->challenge, STORE_HELLO_BYTES);
        return HALAY_ERR_AUTH;
    }
    a->is_known = 1;
    store_make_challenge(h, key, STORE_VERSION);
    enum halay_status status = send_made(fd, h->challenge, STORE_HELLO_BYTES);
    if (status == HALAY_OK && store_version(h->hello) != STORE_VERSION)
        status = HALAY_ERR_VERSION; /* the caller has been told ours */
    return status;
}

static enum halay_status accept_proof(struct halay_answer *a, int fd, const unsigned char *key)
{
    unsigned char welcome[STORE_MAC_BYTES];

    if (!store_is_proof(&a->handshake, key))
        return HALAY_ERR_AUTH;
    a->is_done = 1;
    derive_session(&a->handshake, key, NULL, NULL, welcome);
    return send_made(fd, welcome, sizeof welcome);
}

/* Until the message that is due is there; *is_whole says so. */
static enum halay_status receive_due(struct halay_answer *a, int fd, unsigned char *to, size_t need, int *is_whole)
{
    while (a->have < need) {
        ssize_t n = recv(fd, to + a->have, need - a->have, MSG_DONTWAIT);
        if (n > 0)
            a->have += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return HALAY_ERR_PEER;
        else if (errno == EAGAIN)
            break;
    }
    *is_whole = a->have == need;
    return HALAY_OK;
}

enum halay_status halay_answer_progress(struct halay_answer *a, int fd, const unsigned char secret[HALAY_SECRET_BYTES])
{
    unsigned char key[HALAY_SECRET_BYTES];
    enum halay_status status = HALAY_OK;

    derive_launcher_key(secret, key);
    for (int is_whole = 1; status == HALAY_OK && is_whole && !a->is_done;) {
        int is_known = a->is_known;
        status = receive_due(a, fd, is_known ? a->handshake.proof : a->handshake.hello,
                             is_known ? STORE_MAC_BYTES : STORE_HELLO_BYTES, &is_whole);
        if (status != HALAY_OK || !is_whole)
            continue;
        a->have = 0;
        status = is_known ? accept_proof(a, fd, key) : accept_hello(a, fd, key);
    }
    sodium_memzero(key, sizeof key);
    return status;
}

void halay_answer_take(const struct halay_answer *a, const unsigned char secret[HALAY_SECRET_BYTES],
                       struct halay_session *session, uint32_t *purpose)
{
    unsigned char key[HALAY_SECRET_BYTES];

    derive_launcher_key(secret, key);
    derive_session(&a->handshake, key, session->receives, session->sends, NULL);
    sodium_memzero(key, sizeof key);
    *purpose = store_rank(a->handshake.hello);
}
