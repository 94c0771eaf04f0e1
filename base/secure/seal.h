/* SPDX-License-Identifier: Apache-2.0
 *
 * Seal: encrypts and authenticates the records of one direction of a connection, where both ends already have a key
 * for it: AES-256-GCM on processors that compute it, else ChaCha20-Poly1305. That takes three times as long: much where
 * ranks send each other gigabytes, little where halayruns talk (cipher.h).
 *
 * The nonce is the count of records, so a record that was changed, repeated, dropped, moved or sent back to its sender
 * does not open. After REKEY_RECORDS the key is replaced by a hash of itself: no key seals more than 64 GiB.
 */
#ifndef HALAY_BASE_SEAL_H
#define HALAY_BASE_SEAL_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

enum { HALAY_SEAL_KEY_BYTES = 32, HALAY_SEAL_MAC_BYTES = 16, HALAY_SEAL_SCHEDULE_BYTES = 512 };
#define HALAY_SEAL_REKEY_RECORDS ((uint64_t)1 << 20)

struct halay_seal {
    _Alignas(16) unsigned char schedule[HALAY_SEAL_SCHEDULE_BYTES]; /* of AES */
    unsigned char key[HALAY_SEAL_KEY_BYTES];
    uint64_t count; /* records so far */
    int is_aes;
};

/* Returns nonzero if this processor computes AES-256-GCM. Before anything else here: store_init. */
int halay_seal_has_aes(void);
void halay_seal_init(struct halay_seal *seal, const unsigned char key[HALAY_SEAL_KEY_BYTES], int is_aes);
void halay_seal_fini(struct halay_seal *seal); /* wipes the key */

/* Writes `bytes` encrypted bytes to `to`, which may be `plain`, and a mac over them and the head, which is sent in
 * clear. */
void halay_seal_close(struct halay_seal *seal, const unsigned char *head, size_t head_bytes, const unsigned char *plain,
                      size_t bytes, unsigned char *to, unsigned char mac[HALAY_SEAL_MAC_BYTES]);
/* The opposite; `to` may be `sealed`. HALAY_ERR_AUTH: it is not the next record of the other end; `to` holds nothing of
 * use, and no record opens any more. */
enum halay_status halay_seal_open(struct halay_seal *seal, const unsigned char *head, size_t head_bytes,
                                  const unsigned char *sealed, size_t bytes, const unsigned char *mac,
                                  unsigned char *to);

#endif
