/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's wire format: messages to bytes and back, and their keyed hashes (BLAKE2b, libsodium's
 * crypto_generichash). Pure but for the nonces. Nothing here trusts a length that it has not compared with a bound.
 */
#include "base/store/store_protocol.h"
#include <sodium.h>
#include <string.h>

static const unsigned char magic[8] = { 'h', 'a', 'l', 'a', 'y', 'k', 'v', '\n' };
enum { VERSION_AT = 8, RANK_AT = 12, NONCE_AT = 16, MAC_AT = 48 };
enum { KIND_AT = 4, NUMBER_AT = 8, KEY_BYTES_AT = 12, KEY_AT = 16 };

uint32_t store_read_u32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

void store_write_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* ---- handshake --------------------------------------------------------------------------------------------------- */

/* Labels have one length, so that no label with what follows it can be read as another. */
static void keyed_hash(const unsigned char *key, const char label[8], const unsigned char *a, size_t a_bytes,
                       const unsigned char *b, size_t b_bytes, unsigned char hash[STORE_MAC_BYTES])
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, key, HALAY_SECRET_BYTES, STORE_MAC_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)label, 8);
    crypto_generichash_update(&state, a, a_bytes);
    crypto_generichash_update(&state, b, b_bytes);
    crypto_generichash_final(&state, hash, STORE_MAC_BYTES);
}

static void hello_mac(const struct store_handshake *h, const unsigned char *secret, unsigned char *mac)
{
    keyed_hash(secret, "hello---", h->hello, MAC_AT, NULL, 0, mac);
}

static void challenge_mac(const struct store_handshake *h, const unsigned char *secret, unsigned char *mac)
{
    keyed_hash(secret, "challeng", h->hello, STORE_HELLO_BYTES, h->challenge, MAC_AT, mac);
}

static void proof_mac(const struct store_handshake *h, const unsigned char *secret, unsigned char *mac)
{
    keyed_hash(secret, "proof---", h->hello, STORE_HELLO_BYTES, h->challenge, STORE_HELLO_BYTES, mac);
}

static void write_opening(unsigned char *to, uint32_t version, uint32_t rank, const unsigned char *nonce)
{
    memcpy(to, magic, sizeof magic);
    store_write_u32(to + VERSION_AT, version);
    store_write_u32(to + RANK_AT, rank);
    memcpy(to + NONCE_AT, nonce, STORE_NONCE_BYTES);
}

void store_make_hello_with(struct store_handshake *h, const unsigned char *secret, uint32_t version, uint32_t rank,
                           const unsigned char nonce[STORE_NONCE_BYTES])
{
    write_opening(h->hello, version, rank, nonce);
    hello_mac(h, secret, h->hello + MAC_AT);
}

void store_make_challenge_with(struct store_handshake *h, const unsigned char *secret, uint32_t version,
                               const unsigned char nonce[STORE_NONCE_BYTES])
{
    write_opening(h->challenge, version, 0, nonce);
    challenge_mac(h, secret, h->challenge + MAC_AT);
}

void store_make_hello(struct store_handshake *h, const unsigned char *secret, uint32_t version, uint32_t rank)
{
    unsigned char nonce[STORE_NONCE_BYTES];

    randombytes_buf(nonce, sizeof nonce);
    store_make_hello_with(h, secret, version, rank, nonce);
}

void store_make_challenge(struct store_handshake *h, const unsigned char *secret, uint32_t version)
{
    unsigned char nonce[STORE_NONCE_BYTES];

    randombytes_buf(nonce, sizeof nonce);
    store_make_challenge_with(h, secret, version, nonce);
}

void store_make_proof(struct store_handshake *h, const unsigned char *secret)
{
    proof_mac(h, secret, h->proof);
}

int store_make_refusal(struct store_handshake *h, uint32_t version)
{
    memset(h->challenge, 0, sizeof h->challenge);
    memcpy(h->challenge, magic, sizeof magic);
    store_write_u32(h->challenge + VERSION_AT, version);
    return !memcmp(h->hello, magic, sizeof magic);
}

int store_is_refusal(const struct store_handshake *h)
{
    return !memcmp(h->challenge, magic, sizeof magic) && sodium_is_zero(h->challenge + NONCE_AT, STORE_NONCE_BYTES);
}

int store_is_hello(const struct store_handshake *h, const unsigned char *secret)
{
    unsigned char mac[STORE_MAC_BYTES];

    if (memcmp(h->hello, magic, sizeof magic))
        return 0;
    hello_mac(h, secret, mac);
    return sodium_memcmp(mac, h->hello + MAC_AT, sizeof mac) == 0;
}

int store_is_challenge(const struct store_handshake *h, const unsigned char *secret)
{
    unsigned char mac[STORE_MAC_BYTES];

    if (memcmp(h->challenge, magic, sizeof magic))
        return 0;
    challenge_mac(h, secret, mac);
    return sodium_memcmp(mac, h->challenge + MAC_AT, sizeof mac) == 0;
}

int store_is_proof(const struct store_handshake *h, const unsigned char *secret)
{
    unsigned char mac[STORE_MAC_BYTES];

    proof_mac(h, secret, mac);
    return sodium_memcmp(mac, h->proof, sizeof mac) == 0;
}

uint32_t store_version(const unsigned char *hello_or_challenge)
{
    return store_read_u32(hello_or_challenge + VERSION_AT);
}

uint32_t store_rank(const unsigned char *hello)
{
    return store_read_u32(hello + RANK_AT);
}

const unsigned char *store_nonce(const unsigned char *hello_or_challenge)
{
    return hello_or_challenge + NONCE_AT;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

void store_open_directions(const struct store_handshake *h, const unsigned char *secret,
                           struct store_direction *to_server, struct store_direction *to_client)
{
    to_server->count = to_client->count = 0;
    keyed_hash(secret, "toserver", h->hello, STORE_HELLO_BYTES, h->challenge, STORE_HELLO_BYTES, to_server->key);
    keyed_hash(secret, "toclient", h->hello, STORE_HELLO_BYTES, h->challenge, STORE_HELLO_BYTES, to_client->key);
}

/* Over a count of messages, then head and payload, which follow each other on the wire. */
void store_sign(struct store_direction *direction, const unsigned char *head, size_t head_bytes,
                const unsigned char *payload, size_t bytes, unsigned char mac[STORE_MAC_BYTES])
{
    unsigned char counted[8 + STORE_SIGNED_HEAD_MAX];

    store_write_u32(counted, (uint32_t)direction->count);
    store_write_u32(counted + 4, (uint32_t)(direction->count >> 32));
    if (head_bytes)
        memcpy(counted + 8, head, head_bytes);
    direction->count++;
    keyed_hash(direction->key, "message-", counted, 8 + head_bytes, payload, bytes, mac);
}

int store_is_signed(struct store_direction *direction, const unsigned char *head, size_t head_bytes,
                    const unsigned char *payload, size_t bytes, const unsigned char *mac)
{
    unsigned char right[STORE_MAC_BYTES];

    store_sign(direction, head, head_bytes, payload, bytes, right);
    return sodium_memcmp(right, mac, sizeof right) == 0;
}

static size_t body_bytes(const struct store_message *message)
{
    return STORE_BODY_MIN + message->key_bytes + message->value_bytes;
}

size_t store_message_bytes(const struct store_message *message)
{
    return STORE_HEAD_BYTES + body_bytes(message) + STORE_MAC_BYTES;
}

void store_seal(struct store_direction *direction, const struct store_message *message, unsigned char *wire)
{
    size_t body = body_bytes(message);

    memset(wire, 0, KEY_AT);
    store_write_u32(wire, (uint32_t)body);
    wire[KIND_AT] = (unsigned char)message->kind;
    store_write_u32(wire + NUMBER_AT, message->number);
    wire[KEY_BYTES_AT] = (unsigned char)message->key_bytes;
    wire[KEY_BYTES_AT + 1] = (unsigned char)(message->key_bytes >> 8);
    if (message->key_bytes)
        memcpy(wire + KEY_AT, message->key, message->key_bytes);
    if (message->value_bytes)
        memcpy(wire + KEY_AT + message->key_bytes, message->value, message->value_bytes);
    store_sign(direction, NULL, 0, wire, STORE_HEAD_BYTES + body, wire + STORE_HEAD_BYTES + body);
}

enum halay_status store_body_bytes(const unsigned char *head, size_t *bytes)
{
    size_t length = store_read_u32(head);

    if (length < STORE_BODY_MIN || length > STORE_BODY_MAX)
        return HALAY_ERR_FORMAT;
    *bytes = length;
    return HALAY_OK;
}

enum halay_status store_unseal(struct store_direction *direction, const unsigned char *wire,
                               struct store_message *message)
{
    size_t body;

    if (store_body_bytes(wire, &body) != HALAY_OK)
        return HALAY_ERR_FORMAT;
    if (!store_is_signed(direction, NULL, 0, wire, STORE_HEAD_BYTES + body, wire + STORE_HEAD_BYTES + body))
        return HALAY_ERR_AUTH;

    size_t key_bytes = (size_t)wire[KEY_BYTES_AT] | (size_t)wire[KEY_BYTES_AT + 1] << 8;
    unsigned kind = wire[KIND_AT];
    int is_request = kind == STORE_SET || kind == STORE_GET || kind == STORE_LEAVE;
    if (kind < STORE_SET || kind > STORE_LEAVE || key_bytes > body - STORE_BODY_MIN ||
        key_bytes >= HALAY_STORE_KEY_MAX || is_request != (key_bytes > 0) ||
        body - STORE_BODY_MIN - key_bytes > HALAY_STORE_VALUE_MAX)
        return HALAY_ERR_FORMAT;
    *message = (struct store_message){ .kind = (enum halay_store_kind)kind,
                                       .number = store_read_u32(wire + NUMBER_AT),
                                       .key = wire + KEY_AT,
                                       .key_bytes = key_bytes,
                                       .value = wire + KEY_AT + key_bytes,
                                       .value_bytes = body - STORE_BODY_MIN - key_bytes };
    return HALAY_OK;
}

/* ---- for connections between ranks ------------------------------------------------------------------------------- */

enum halay_status store_init(struct halay_log *log)
{
    if (sodium_init() >= 0)
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_SYSTEM, "libsodium cannot be initialised");
}

void store_draw(unsigned char *bytes, size_t count)
{
    randombytes_buf(bytes, count);
}

void store_derive(const unsigned char *secret, const char label[8], const unsigned char *salt, size_t salt_bytes,
                  unsigned char key[HALAY_SECRET_BYTES])
{
    keyed_hash(secret, label, salt, salt_bytes, NULL, 0, key);
}
