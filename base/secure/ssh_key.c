/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh key: the bytes of OpenSSH's PROTOCOL.key, unencrypted; numbers are big-endian, a string is its length and its
 * bytes:
 *
 *     "openssh-key-v1\0"; strings "none", "none", ""; 1; string: the public key; string: the private part
 *     public key    strings "ssh-ed25519", 32 bytes
 *     private part  a number, twice; strings "ssh-ed25519", the public 32, the secret 64, a comment; 1, 2 ... up to 8
 */
#include "base/secure/ssh_key.h"
#include "base/store/store_protocol.h"
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 512, LINE = 70 };

struct text {
    unsigned char bytes[BYTES];
    size_t count;
};

static void put_blob(struct text *to, const void *bytes, size_t count)
{
    memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
}

static void put_number(struct text *to, uint32_t number)
{
    const unsigned char bytes[4] = { (unsigned char)(number >> 24), (unsigned char)(number >> 16),
                                     (unsigned char)(number >> 8), (unsigned char)number };

    put_blob(to, bytes, sizeof bytes);
}

static void put_string(struct text *to, const void *bytes, size_t count)
{
    put_number(to, (uint32_t)count);
    put_blob(to, bytes, count);
}

static void put_word(struct text *to, const char *word)
{
    put_string(to, word, strlen(word));
}

static void put_public(struct text *to, const unsigned char *key)
{
    put_word(to, "ssh-ed25519");
    put_string(to, key, crypto_sign_ed25519_PUBLICKEYBYTES);
}

static void put_private(struct text *to, const unsigned char *key, const unsigned char *secret_key)
{
    put_number(to, 0x68616c61); /* twice the same: it was decrypted well */
    put_number(to, 0x68616c61);
    put_public(to, key);
    put_string(to, secret_key, crypto_sign_ed25519_SECRETKEYBYTES);
    put_word(to, "halay");
    for (unsigned char i = 1; to->count % 8; i++)
        put_blob(to, &i, 1);
}

static void write_private(const struct text *all, char *to)
{
    char line[2 * BYTES];
    size_t used = (size_t)sprintf(to, "-----BEGIN OPENSSH PRIVATE KEY-----\n");

    sodium_bin2base64(line, sizeof line, all->bytes, all->count, sodium_base64_VARIANT_ORIGINAL);
    for (size_t at = 0, length = strlen(line); at < length; at += LINE)
        used += (size_t)sprintf(to + used, "%.*s\n", LINE, line + at);
    sprintf(to + used, "-----END OPENSSH PRIVATE KEY-----\n");
    sodium_memzero(line, sizeof line);
}

enum halay_status halay_ssh_key(const unsigned char secret[HALAY_SECRET_BYTES], const char label[8],
                                char private_text[HALAY_SSH_PRIVATE_BYTES], char public_text[HALAY_SSH_PUBLIC_BYTES])
{
    unsigned char seed[crypto_sign_ed25519_SEEDBYTES], key[crypto_sign_ed25519_PUBLICKEYBYTES],
        secret_key[crypto_sign_ed25519_SECRETKEYBYTES];
    struct text all = { .count = 0 }, open = { .count = 0 }, closed = { .count = 0 };

    _Static_assert(sizeof seed == HALAY_SECRET_BYTES, "a derived key is a seed");
    if (sodium_init() < 0)
        return HALAY_ERR_SYSTEM;
    store_derive(secret, label, NULL, 0, seed);
    crypto_sign_ed25519_seed_keypair(key, secret_key, seed);
    put_public(&open, key);
    put_private(&closed, key, secret_key);
    put_blob(&all, "openssh-key-v1", sizeof "openssh-key-v1");
    put_word(&all, "none");
    put_word(&all, "none");
    put_word(&all, "");
    put_number(&all, 1);
    put_string(&all, open.bytes, open.count);
    put_string(&all, closed.bytes, closed.count);
    write_private(&all, private_text);
    int used = snprintf(public_text, HALAY_SSH_PUBLIC_BYTES, "ssh-ed25519 ");
    sodium_bin2base64(public_text + used, HALAY_SSH_PUBLIC_BYTES - (size_t)used, open.bytes, open.count,
                      sodium_base64_VARIANT_ORIGINAL);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret_key, sizeof secret_key);
    sodium_memzero(&all, sizeof all);
    sodium_memzero(&closed, sizeof closed);
    return HALAY_OK;
}
