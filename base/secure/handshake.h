/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: the two ends of a connection prove to each other that they hold the same secret, before either trusts
 * the other, and agree on keys for the connection (cipher.h).
 *
 * The messages are those of the store (base/store/store_protocol.h): hello, with the purpose in the rank's place,
 * challenge, proof; then a welcome, 32 bytes that only the holder of the secret can have made. Their key is derived
 * from the secret for this alone, so that a store refuses the hello of a launcher. A hello of this protocol with
 * another secret is answered by a challenge without a proof of its own (zeros); anything else by closing.
 *
 * The nonces of hello and challenge are public keys of X25519, made for this connection and destroyed with it
 * (libsodium's crypto_kx). The session's keys derive from that exchange and from the secret: without the secret no
 * process can interpose keys of its own, and the secret alone does not decrypt an earlier recording.
 */
#ifndef HALAY_BASE_HANDSHAKE_H
#define HALAY_BASE_HANDSHAKE_H

#include "base/store/store_protocol.h"

enum { HALAY_HANDSHAKE_VERSION = 3 };

/* Keys of one connection, one for each direction: what one end sends with, the other receives with. */
struct halay_session {
    unsigned char sends[HALAY_SECRET_BYTES], receives[HALAY_SECRET_BYTES];
};

/* Runs the handshake of the end that has connected; the other end gets the purpose. The descriptor may block; the call
 * returns within its timeout. HALAY_ERR_AUTH: the other end has another secret, or another protocol; HALAY_ERR_VERSION:
 * another version; HALAY_ERR_PEER: it closed the connection without a message; HALAY_ERR_TIMEOUT, HALAY_ERR_SYSTEM.
 * Nothing is logged. */
enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], uint32_t purpose,
                                       int timeout_ms, struct halay_session *session);

/* The handshake of the end that has accepted, step by step. Starts as zeros; nothing is owned. */
struct halay_answer {
    struct store_handshake handshake;
    struct halay_session session;          /* valid if is_done */
    unsigned char key[HALAY_SECRET_BYTES]; /* this end's private one, from the hello to the proof */
    size_t have;                           /* bytes of the message under way */
    int is_known; /* its hello is correct: it holds the secret, or replays the hello of one that does */
    int is_other; /* its hello is one of this protocol, with another secret */
    int is_done;
};

/* Proceeds without blocking. HALAY_OK: incomplete, or, with is_done, complete. HALAY_ERR_AUTH, HALAY_ERR_VERSION,
 * HALAY_ERR_PEER: failed. */
enum halay_status halay_answer_progress(struct halay_answer *answer, int fd,
                                        const unsigned char secret[HALAY_SECRET_BYTES]);
/* Returns the purpose of the other end, after is_done. */
uint32_t halay_answer_purpose(const struct halay_answer *answer);

#endif
