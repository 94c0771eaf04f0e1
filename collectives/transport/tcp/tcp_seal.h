/* SPDX-License-Identifier: Apache-2.0
 *
 * Seal: the bytes of a connection between two ranks, encrypted and authenticated (HALAY_ENCRYPT). Frames know nothing
 * of it; they are cut into records:
 *
 *     length    4   little-endian, 1 to RECORD_MAX; authenticated with the record, in clear
 *     record    length bytes, encrypted
 *     mac      16
 *
 * A payload is sealed out of its own buffer, in records of its own, and a record within a payload opens into that
 * payload's place: on both sides the cipher takes the place of a copy. What is short is gathered in one record.
 */
#ifndef HALAY_TCP_SEAL_H
#define HALAY_TCP_SEAL_H

#include "base/secure/seal.h"
#include <sys/types.h>
#include <sys/uio.h>

enum {
    HALAY_TCP_RECORD_MAX = 64 << 10,
    HALAY_TCP_RECORD_HEAD = 4,
    HALAY_TCP_RECORD_OVER = HALAY_TCP_RECORD_HEAD + HALAY_SEAL_MAC_BYTES,
    /* Two records: they are sealed and sent while they are in the processor's second cache. */
    HALAY_TCP_SEAL_BYTES = 2 * (HALAY_TCP_RECORD_MAX + HALAY_TCP_RECORD_OVER),
};

enum halay_tcp_sealing {
    HALAY_TCP_CLEAR,
    HALAY_TCP_CHACHA, /* ChaCha20-Poly1305 */
    HALAY_TCP_AES,    /* AES-256-GCM: every rank's processor computes it */
};

struct halay_tcp_seal {
    struct halay_seal sends, receives;
    unsigned char *out, *in; /* owned: SEAL_BYTES each */
    size_t out_from, out_to; /* sealed, and not taken by the system yet */
    size_t in_from, in_to;   /* received, and not opened yet */
};

/* With keys that no other connection has. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tcp_seal_create(const unsigned char *send_key, const unsigned char *receive_key, int is_aes,
                                        struct halay_tcp_seal **out);
void halay_tcp_seal_destroy(struct halay_tcp_seal *seal); /* NULL is allowed */

/* Nonzero if something is sealed that the system has not taken yet. */
static inline int halay_tcp_seal_is_writing(const struct halay_tcp_seal *seal)
{
    return seal->out_from < seal->out_to;
}
/* Seals the first of these bytes, and gives the system what it takes. Returns how many were sealed, which need not be
 * all; -1: none, with the system's errno. Nothing is sealed before the system has taken all that was sealed before. */
ssize_t halay_tcp_seal_write(struct halay_tcp_seal *seal, int fd, const struct iovec *parts, size_t count);
/* Reads from the socket with one call. Returns as recv. */
ssize_t halay_tcp_seal_receive(struct halay_tcp_seal *seal, int fd);
/* *bytes: what the next record holds; 0: not all of it is there. HALAY_ERR_FORMAT: no record is that long. */
enum halay_status halay_tcp_seal_next(const struct halay_tcp_seal *seal, size_t *bytes);
/* Opens that record into `to`. HALAY_ERR_AUTH: it was changed on its way. */
enum halay_status halay_tcp_seal_open(struct halay_tcp_seal *seal, unsigned char *to);

#endif
