/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's wire format: what server and client send each other over TCP. Numbers are little-endian.
 *
 * Handshake. Its three messages have this form in every version, so that two versions can name each other.
 *
 *     client -> server  hello       server -> client  challenge     client -> server  proof
 *      0  magic      8               0  magic      8                 0  mac       32
 *      8  version    4               8  version    4
 *     12  rank       4              12  zero       4
 *     16  nonce     32              16  nonce     32
 *     48  mac       32              48  mac       32
 *
 * Each mac is a hash keyed with the job's secret over a label (its role), all messages before it, and the message
 * itself. A hello with a wrong mac gets no answer but a close: an unauthenticated peer learns nothing. A recorded hello
 * can be sent again, a proof cannot, since it covers the server's nonce; the challenge covers the client's, and so
 * proves the server. After a challenge of another version than one's own, both close.
 *
 * Messages, after the handshake. The server's first is a welcome; then the client asks and the server answers.
 *
 *      0  length     4   of the body: 12 to BODY_MAX, checked before anything is allocated
 *      4  kind       1   of enum halay_store_kind                                  \
 *      5  zero       3                                                              |
 *      8  number     4   of the request; its answer has the same; a welcome has 0    > body
 *     12  key bytes  2   1 to 255 in a request, 0 in an answer                      |
 *     14  zero       2                                                              |
 *     16  key, then value                                                          /
 *      4 + length  mac  32   keyed with the session's key of this direction, over a count of messages, length and body
 *
 *   kind        from     key  value
 *   set         client   yes  up to HALAY_STORE_VALUE_MAX bytes
 *   get         client   yes  none; answered when the key is there
 *   leave       client   yes  none; the key is a prefix (store.h)
 *   welcome     server   no   reconnects, 4 bytes
 *   done        server   no   none: the key is set, or left
 *   value       server   no   the key's value
 *   full        server   no   none: the key is not set, the store holds too much already
 *
 * A client has one request outstanding; a newer one takes the place of a get that is still unanswered. Sessions' keys
 * come from the secret and the whole handshake, so a message can neither be made up, changed, repeated, dropped nor
 * moved to another session. Nothing is encrypted: values are addresses, and what halay.run sends.
 */
#ifndef HALAY_BASE_STORE_PROTOCOL_H
#define HALAY_BASE_STORE_PROTOCOL_H

#include "base/store/store.h"
#include <stdint.h>

enum {
    STORE_VERSION = 2,
    STORE_NONCE_BYTES = 32,
    STORE_MAC_BYTES = 32,
    STORE_HELLO_BYTES = 80, /* of a challenge too */
    STORE_HEAD_BYTES = 4,
    STORE_BODY_MIN = 12,
    STORE_RANK_MAX = (1 << 20) - 1,
    STORE_SIGNED_HEAD_MAX = 32,
};
#define STORE_BODY_MAX (STORE_BODY_MIN + (size_t)HALAY_STORE_KEY_MAX - 1 + HALAY_STORE_VALUE_MAX)
#define STORE_MESSAGE_MAX (STORE_HEAD_BYTES + STORE_BODY_MAX + STORE_MAC_BYTES)

enum halay_store_kind { STORE_SET = 1, STORE_GET, STORE_WELCOME, STORE_DONE, STORE_VALUE, STORE_FULL, STORE_LEAVE };

/* Both sides of one handshake, in order. */
struct store_handshake {
    unsigned char hello[STORE_HELLO_BYTES];
    unsigned char challenge[STORE_HELLO_BYTES];
    unsigned char proof[STORE_MAC_BYTES];
};

/* Make a message of the handshake from those before it, with random nonces. */
void store_make_hello(struct store_handshake *h, const unsigned char *secret, uint32_t version, uint32_t rank);
void store_make_challenge(struct store_handshake *h, const unsigned char *secret, uint32_t version);
void store_make_proof(struct store_handshake *h, const unsigned char *secret);
/* The same with a nonce of the caller's: bytes that no handshake has had before, like a public key just made. */
void store_make_hello_with(struct store_handshake *h, const unsigned char *secret, uint32_t version, uint32_t rank,
                           const unsigned char nonce[STORE_NONCE_BYTES]);
void store_make_challenge_with(struct store_handshake *h, const unsigned char *secret, uint32_t version,
                               const unsigned char nonce[STORE_NONCE_BYTES]);
/* Makes an invalid challenge for a caller that speaks this protocol with another secret; 0: it does not speak it. */
int store_make_refusal(struct store_handshake *h, uint32_t version);
int store_is_refusal(const struct store_handshake *h); /* not authenticated: any peer can make one */

/* Nonzero if its sender holds the secret (and, but for the hello, answered this very handshake). In constant time. */
int store_is_hello(const struct store_handshake *h, const unsigned char *secret);
int store_is_challenge(const struct store_handshake *h, const unsigned char *secret);
int store_is_proof(const struct store_handshake *h, const unsigned char *secret);

uint32_t store_version(const unsigned char *hello_or_challenge);
uint32_t store_rank(const unsigned char *hello);
const unsigned char *store_nonce(const unsigned char *hello_or_challenge); /* borrowed; STORE_NONCE_BYTES */

/* Key and count that protect the messages of one direction after the handshake. */
struct store_direction {
    unsigned char key[STORE_MAC_BYTES];
    uint64_t count; /* messages so far */
};

void store_open_directions(const struct store_handshake *h, const unsigned char *secret,
                           struct store_direction *to_server, struct store_direction *to_client);

/* A parsed message; key and value point into the buffer that it was read from. */
struct store_message {
    enum halay_store_kind kind;
    uint32_t number;
    const unsigned char *key;
    size_t key_bytes;
    const unsigned char *value;
    size_t value_bytes;
};

/* Returns the bytes of the message on the wire. */
size_t store_message_bytes(const struct store_message *message);
/* Writes the message to wire, and counts it. */
void store_seal(struct store_direction *direction, const struct store_message *message, unsigned char *wire);
/* Reads the length of the body from a head; HALAY_ERR_FORMAT if it is out of range. */
enum halay_status store_body_bytes(const unsigned char *head, size_t *bytes);
/* Checks (HALAY_ERR_AUTH) and parses (HALAY_ERR_FORMAT) a whole message whose head has been checked. Writes only the
 * count on error. */
enum halay_status store_unseal(struct store_direction *direction, const unsigned char *wire,
                               struct store_message *message);

/* ---- the same protection for connections between ranks (collectives/transport/tcp/tcp.h) ---- */

/* Before anything else here is called: HALAY_OK, or HALAY_ERR_SYSTEM, logged. */
enum halay_status store_init(struct halay_log *log);
/* Draws random bytes for a key or a nonce. */
void store_draw(unsigned char *bytes, size_t count);
/* Derives a key from a secret, for one purpose (the label) and one occasion (the salt). */
void store_derive(const unsigned char *secret, const char label[8], const unsigned char *salt, size_t salt_bytes,
                  unsigned char key[HALAY_SECRET_BYTES]);
/* The mac that follows a message, its head (STORE_SIGNED_HEAD_MAX at most) and then its payload, on the wire; both
 * count it. The second is nonzero if it is that one. */
void store_sign(struct store_direction *direction, const unsigned char *head, size_t head_bytes,
                const unsigned char *payload, size_t bytes, unsigned char mac[STORE_MAC_BYTES]);
int store_is_signed(struct store_direction *direction, const unsigned char *head, size_t head_bytes,
                    const unsigned char *payload, size_t bytes, const unsigned char *mac);

uint32_t store_read_u32(const unsigned char *from);
void store_write_u32(unsigned char *to, uint32_t value);

#endif
