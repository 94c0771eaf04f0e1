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

static void derive_launcher_key(const unsigned char *secret, unsigned char key[HALAY_SECRET_BYTES])
{
    store_derive(secret, "launcher", NULL, 0, key);
}

/* The keys of both directions, and the welcome, from the whole handshake and what the two ends have agreed on: the keys
 * of crypto_kx, to the listener and to the caller. */
static void derive_session(const struct store_handshake *h, const unsigned char *key, const unsigned char *in_kx,
                           const unsigned char *out_kx, unsigned char *to_listener, unsigned char *to_caller,
                           unsigned char welcome[STORE_MAC_BYTES])
{
    struct store_direction in, out;

    store_open_directions(h, key, &in, &out);
    store_derive(out.key, "welcome-", out_kx, crypto_kx_SESSIONKEYBYTES, welcome);
    store_derive(in.key, "stream--", in_kx, crypto_kx_SESSIONKEYBYTES, to_listener);
    store_derive(out.key, "stream--", out_kx, crypto_kx_SESSIONKEYBYTES, to_caller);
    sodium_memzero(&in, sizeof in);
    sodium_memzero(&out, sizeof out);
}

/* ---- the caller -------------------------------------------------------------------------------------------------- */

/* Sends the hello and receives the challenge. */
static enum halay_status receive_challenge(int fd, struct store_handshake *h, const unsigned char *key,
                                           int64_t deadline_us)
{
    size_t have = 0;

    enum halay_status status = halay_socket_send(fd, h->hello, STORE_HELLO_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, h->challenge, STORE_HELLO_BYTES, &have, deadline_us);
    if (status != HALAY_OK)
        return status;
    if (store_is_refusal(h) && store_version(h->challenge) != HALAY_HANDSHAKE_VERSION)
        return HALAY_ERR_VERSION; /* its secret may be the same: another version derives other keys */
    if (!store_is_challenge(h, key))
        return HALAY_ERR_AUTH;
    return store_version(h->challenge) == HALAY_HANDSHAKE_VERSION ? HALAY_OK : HALAY_ERR_VERSION;
}

/* Runs all steps up to the welcome. public_key, private_key: this end's. */
static enum halay_status call_listener(int fd, struct store_handshake *h, const unsigned char *key,
                                       const unsigned char *public_key, const unsigned char *private_key,
                                       int64_t deadline_us, struct halay_session *session)
{
    unsigned char welcome[STORE_MAC_BYTES], right[STORE_MAC_BYTES], in[crypto_kx_SESSIONKEYBYTES],
        out[crypto_kx_SESSIONKEYBYTES];
    size_t have = 0;

    enum halay_status status = receive_challenge(fd, h, key, deadline_us);
    if (status == HALAY_OK &&
        crypto_kx_client_session_keys(out, in, public_key, private_key, store_nonce(h->challenge)))
        status = HALAY_ERR_AUTH;
    if (status != HALAY_OK)
        return status;
    store_make_proof(h, key);
    status = halay_socket_send(fd, h->proof, STORE_MAC_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, welcome, sizeof welcome, &have, deadline_us);
    if (status == HALAY_OK) {
        derive_session(h, key, in, out, session->sends, session->receives, right);
        status = sodium_memcmp(welcome, right, sizeof right) ? HALAY_ERR_AUTH : HALAY_OK;
    }
    sodium_memzero(in, sizeof in);
    sodium_memzero(out, sizeof out);
    return status;
}

enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], uint32_t purpose,
                                       int timeout_ms, struct halay_session *session)
{
    unsigned char key[HALAY_SECRET_BYTES], public_key[crypto_kx_PUBLICKEYBYTES], private_key[crypto_kx_SECRETKEYBYTES];
    struct store_handshake h;

    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    derive_launcher_key(secret, key);
    crypto_kx_keypair(public_key, private_key);
    store_make_hello_with(&h, key, HALAY_HANDSHAKE_VERSION, purpose, public_key);
    enum halay_status status =
        call_listener(fd, &h, key, public_key, private_key, halay_deadline_us(timeout_ms), session);
    sodium_memzero(key, sizeof key);
    sodium_memzero(private_key, sizeof private_key);
    return status;
}

/* ---- the listener ------------------------------------------------------------------------------------------------ */

/* Sends without blocking: the buffer of a new connection has room. */
static enum halay_status send_made(int fd, const unsigned char *bytes, size_t count)
{
    return send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count ? HALAY_OK : HALAY_ERR_PEER;
}

static enum halay_status accept_hello(struct halay_answer *a, int fd, const unsigned char *key)
{
    struct store_handshake *h = &a->handshake;
    unsigned char public_key[crypto_kx_PUBLICKEYBYTES];
    int is_other_version = store_version(h->hello) != HALAY_HANDSHAKE_VERSION;

    if (!store_is_hello(h, key)) {
        a->is_other = store_make_refusal(h, HALAY_HANDSHAKE_VERSION);
        if (a->is_other)
            send_made(fd, h->challenge, STORE_HELLO_BYTES);
        return a->is_other && is_other_version ? HALAY_ERR_VERSION : HALAY_ERR_AUTH;
    }
    a->is_known = 1;
    crypto_kx_keypair(public_key, a->key);
    store_make_challenge_with(h, key, HALAY_HANDSHAKE_VERSION, public_key);
    enum halay_status status = send_made(fd, h->challenge, STORE_HELLO_BYTES);
    return status == HALAY_OK && is_other_version ? HALAY_ERR_VERSION : status; /* the caller has our version */
}

static enum halay_status accept_proof(struct halay_answer *a, int fd, const unsigned char *key)
{
    const struct store_handshake *h = &a->handshake;
    unsigned char welcome[STORE_MAC_BYTES], in[crypto_kx_SESSIONKEYBYTES], out[crypto_kx_SESSIONKEYBYTES];

    if (!store_is_proof(h, key) ||
        crypto_kx_server_session_keys(in, out, store_nonce(h->challenge), a->key, store_nonce(h->hello)))
        return HALAY_ERR_AUTH;
    a->is_done = 1;
    derive_session(h, key, in, out, a->session.receives, a->session.sends, welcome);
    sodium_memzero(a->key, sizeof a->key);
    sodium_memzero(in, sizeof in);
    sodium_memzero(out, sizeof out);
    return send_made(fd, welcome, sizeof welcome);
}

/* Receives bytes of the message that is due; *is_whole: it is complete. */
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

uint32_t halay_answer_purpose(const struct halay_answer *a)
{
    return store_rank(a->handshake.hello);
}
