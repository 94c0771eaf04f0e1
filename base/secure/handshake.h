/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: the two ends of a connection prove to each other that they hold the same secret, before either believes a
 * word of the other, and agree on keys for what follows (cipher.h).
 *
 * The messages are those of the store (base/store/store_protocol.h): hello, with the purpose in the rank's place,
 * challenge, proof; then a welcome, 32 bytes that only the holder of the secret can have made. Their key is derived
 * from the secret for this alone, so that no store takes what was meant for a launcher. A hello of this protocol with
 * another secret is answered by a challenge without a proof of its own (zeros); anything else by closing.
 *
 * The nonces of hello and challenge are public keys of X25519, made for this connection and forgotten with it
 * (libsodium's crypto_kx). The session's keys come from what the two agree on and from the secret: without the secret
 * no process can put keys of its own in between, and the secret alone does not decrypt an earlier recording.
 */
#ifndef HALAY_BASE_HANDSHAKE_H
#define HALAY_BASE_HANDSHAKE_H

#include "base/store/store_protocol.h"

enum { HALAY_HANDSHAKE_VERSION = 2 };

/* Keys of one connection, one for each direction: what one end sends with, the other receives with. */
struct halay_session {
    unsigned char sends[HALAY_SECRET_BYTES], receives[HALAY_SECRET_BYTES];
};

/* The end that has connected; purpose: what for, the other end is told. The descriptor may block; the call takes no
 * longer than its timeout. HALAY_ERR_AUTH: the other end has another secret, or does not speak this; HALAY_ERR_VERSION:
 * another version of it; HALAY_ERR_PEER: it has closed the connection without a word; HALAY_ERR_TIMEOUT,
 * HALAY_ERR_SYSTEM. Nothing is logged. */
enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], uint32_t purpose,
                                       int timeout_ms, struct halay_session *session);

/* The end that has accepted, step by step. Begins with zeros; nothing is owned. */
struct halay_answer {
    struct store_handshake handshake;
    struct halay_session session;          /* once it is done */
    unsigned char key[HALAY_SECRET_BYTES]; /* this end's private one, from the hello to the proof */
    size_t have;                           /* bytes of the message under way */
    int is_known; /* its hello is correct: it holds the secret, or replays the hello of one that does */
    int is_other; /* its hello is one of this protocol, with another secret */
    int is_done;
};

/* As far as it goes without waiting. HALAY_OK: more has to come, or, with is_done, that was all. HALAY_ERR_AUTH,
 * HALAY_ERR_VERSION, HALAY_ERR_PEER: it is over. */
enum halay_status halay_answer_progress(struct halay_answer *answer, int fd,
                                        const unsigned char secret[HALAY_SECRET_BYTES]);
/* What the other end of a finished one has called for. */
uint32_t halay_answer_purpose(const struct halay_answer *answer);

#endif
