/* SPDX-License-Identifier: Apache-2.0
 *
 * Cipher: encrypts and authenticates all bytes between two ends of a connection after their handshake (handshake.h).
 * Pure: bytes to records and back; the caller sends and receives them.
 *
 * Each direction has a key of its own, which seals its records by ChaCha20-Poly1305 (seal.h):
 *
 *     head   4   little-endian: twice the number of bytes, and 1 in the last record; authenticated with them
 *     mac   16
 *     bytes
 *
 * A record that was changed, repeated, dropped, moved, or sent back to its sender is HALAY_ERR_AUTH, and so are all
 * records after it. The last one is marked: a stream that ends without it has been cut. A session's keys are for one
 * cipher at each end: a second one would use the same nonces.
 */
#ifndef HALAY_BASE_CIPHER_H
#define HALAY_BASE_CIPHER_H

#include "base/secure/handshake.h"

enum { HALAY_CIPHER_BYTES_MAX = 1 << 16, HALAY_CIPHER_RECORD_MAX = 4 + 16 + HALAY_CIPHER_BYTES_MAX };

struct halay_cipher;

/* One end, both directions. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_cipher_create(const struct halay_session *session, struct halay_cipher **cipher);
void halay_cipher_destroy(struct halay_cipher *cipher); /* wipes the keys; NULL is allowed */

/* Encrypts at most HALAY_CIPHER_BYTES_MAX bytes as a record; is_last: no record follows. wire has room for
 * HALAY_CIPHER_RECORD_MAX. Returns the number of bytes to send. */
size_t halay_cipher_seal(struct halay_cipher *cipher, const void *bytes, size_t count, int is_last,
                         unsigned char *wire);
/* Decrypts the first record of wire: uses *used of its count bytes (0: incomplete) and writes *opened bytes. bytes has
 * room for HALAY_CIPHER_BYTES_MAX, and holds nothing of use after HALAY_ERR_AUTH. */
enum halay_status halay_cipher_open(struct halay_cipher *cipher, const unsigned char *wire, size_t count, size_t *used,
                                    void *bytes, size_t *opened);
/* Returns nonzero after the last record of the other end. */
int halay_cipher_has_ended(const struct halay_cipher *cipher);

#endif
