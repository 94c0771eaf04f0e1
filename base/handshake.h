/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: the two ends of a connection prove to each other that they hold the same secret, before either believes a word of the
 * other. What follows is neither encrypted nor authenticated.
 *
 * The messages are those of the store (base/store_protocol.h): hello, with the purpose in the rank's place, challenge, proof; then
 * one byte of welcome. Their key is derived from the secret for this alone, so that no store takes what was meant for
 * a launcher. Descriptors may block; no call takes longer than its timeout.
 */
#ifndef HALAY_BASE_HANDSHAKE_H
#define HALAY_BASE_HANDSHAKE_H

#include "base/store.h"

/* Bytes of a text that a secret is derived from. */
struct halay_secret_part {
    const void *bytes;
    size_t count;
};

/* A secret from what both ends know: no better than the best kept of its parts. */
enum halay_status halay_derive_secret(struct halay_log *log, const struct halay_secret_part *parts, size_t count,
                                      unsigned char secret[HALAY_SECRET_BYTES]);

/* What the caller says first: once they are there, or the connection has ended, the listener's end waits only for one who holds the
 * secret or repeats what he has heard. */
enum { HALAY_HANDSHAKE_FIRST_BYTES = 80 };

/* The end that has connected; purpose: what for, the other end is told. HALAY_ERR_AUTH: one end has another secret, or does not
 * speak this; HALAY_ERR_VERSION: another version of it; HALAY_ERR_PEER: the other end went away; HALAY_ERR_TIMEOUT,
 * HALAY_ERR_SYSTEM. Nothing is logged. */
enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], unsigned char purpose,
                                       int timeout_ms);
/* The end that has accepted. Likewise; *purpose is set on success. */
enum halay_status halay_handshake_answer(int fd, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms,
                                         unsigned char *purpose);

#endif
