/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: the two ends of a connection prove to each other that they hold the same secret, before either believes a word of the
 * other. What follows is neither encrypted nor authenticated.
 *
 *     caller                                   listener
 *       hello: magic (8), purpose (1), nonce (32)  -->
 *                       <--  challenge: nonce (32), hash (32)
 *       proof: hash (32)  -->
 *                       <--  welcome: 1 byte
 *
 * A hash is BLAKE2b with the secret as its key, over who makes it, the purpose and both nonces, so that nothing that was heard
 * once is of use again. Descriptors may block; no call takes longer than its timeout.
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

/* The end that has connected; purpose: what for, the other end is told. HALAY_ERR_AUTH: the other end has another secret, or does
 * not speak this; HALAY_ERR_TIMEOUT, HALAY_ERR_SYSTEM. Nothing is logged. */
enum halay_status halay_handshake_call(int fd, const unsigned char secret[HALAY_SECRET_BYTES], unsigned char purpose,
                                       int timeout_ms);
/* The end that has accepted. Likewise; *purpose is set on success. */
enum halay_status halay_handshake_answer(int fd, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms,
                                         unsigned char *purpose);

/* All count bytes, within timeout_ms. HALAY_ERR_TIMEOUT, HALAY_ERR_SYSTEM (also: the connection has ended). */
enum halay_status halay_send_all(int fd, const void *bytes, size_t count, int timeout_ms);
enum halay_status halay_receive_all(int fd, void *bytes, size_t count, int timeout_ms);

#endif
