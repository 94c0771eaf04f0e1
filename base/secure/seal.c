/* SPDX-License-Identifier: Apache-2.0
 *
 * Seal: libsodium's two AEADs with one interface.
 */
#include "base/secure/seal.h"
#include "base/store/store_protocol.h"
#include <sodium.h>
#include <string.h>

enum { NONCE_BYTES = 12 };
_Static_assert(sizeof(crypto_aead_aes256gcm_state) <= HALAY_SEAL_SCHEDULE_BYTES, "the schedule fits");
_Static_assert((int)crypto_aead_aes256gcm_ABYTES == (int)HALAY_SEAL_MAC_BYTES &&
                   (int)crypto_aead_chacha20poly1305_ietf_ABYTES == (int)HALAY_SEAL_MAC_BYTES,
               "both have a mac of this size");
_Static_assert((int)crypto_aead_aes256gcm_NPUBBYTES == (int)NONCE_BYTES &&
                   (int)crypto_aead_chacha20poly1305_ietf_NPUBBYTES == (int)NONCE_BYTES,
               "both have a nonce of this size");

int halay_seal_has_aes(void)
{
    return crypto_aead_aes256gcm_is_available();
}

static void schedule(struct halay_seal *seal)
{
    if (seal->is_aes)
        crypto_aead_aes256gcm_beforenm((void *)seal->schedule, seal->key);
}

void halay_seal_init(struct halay_seal *seal, const unsigned char key[HALAY_SEAL_KEY_BYTES], int is_aes)
{
    memcpy(seal->key, key, sizeof seal->key);
    seal->count = 0;
    seal->is_aes = is_aes;
    schedule(seal);
}

void halay_seal_fini(struct halay_seal *seal)
{
    sodium_memzero(seal, sizeof *seal);
}

/* Counts a record, whose nonce it writes. */
static void begin(struct halay_seal *seal, unsigned char nonce[NONCE_BYTES])
{
    unsigned char next[HALAY_SEAL_KEY_BYTES];

    if (seal->count && seal->count % HALAY_SEAL_REKEY_RECORDS == 0) {
        store_derive(seal->key, "rekey---", NULL, 0, next);
        memcpy(seal->key, next, sizeof next);
        sodium_memzero(next, sizeof next);
        schedule(seal);
    }
    memset(nonce, 0, NONCE_BYTES);
    store_write_u32(nonce, (uint32_t)seal->count);
    store_write_u32(nonce + 4, (uint32_t)(seal->count >> 32));
    seal->count++;
}

void halay_seal_close(struct halay_seal *seal, const unsigned char *head, size_t head_bytes, const unsigned char *plain,
                      size_t bytes, unsigned char *to, unsigned char mac[HALAY_SEAL_MAC_BYTES])
{
    unsigned char nonce[NONCE_BYTES];

    begin(seal, nonce);
    if (seal->is_aes)
        crypto_aead_aes256gcm_encrypt_detached_afternm(to, mac, NULL, plain, bytes, head, head_bytes, NULL, nonce,
                                                       (const void *)seal->schedule);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(to, mac, NULL, plain, bytes, head, head_bytes, NULL, nonce,
                                                           seal->key);
}

enum halay_status halay_seal_open(struct halay_seal *seal, const unsigned char *head, size_t head_bytes,
                                  const unsigned char *sealed, size_t bytes, const unsigned char *mac,
                                  unsigned char *to)
{
    unsigned char nonce[NONCE_BYTES];
    int result;

    begin(seal, nonce);
    if (seal->is_aes)
        result = crypto_aead_aes256gcm_decrypt_detached_afternm(to, NULL, sealed, bytes, mac, head, head_bytes, nonce,
                                                                (const void *)seal->schedule);
    else
        result = crypto_aead_chacha20poly1305_ietf_decrypt_detached(to, NULL, sealed, bytes, mac, head, head_bytes,
                                                                    nonce, seal->key);
    return result ? HALAY_ERR_AUTH : HALAY_OK;
}
