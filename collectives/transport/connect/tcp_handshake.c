/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: hellos that name both ranks.
 */
#include "collectives/transport/connect/tcp_handshake.h"

enum { TO_AT = STORE_NONCE_BYTES - 4, STREAM_AT = TO_AT - 1 };

void halay_tcp_make_hello(struct store_handshake *h, const unsigned char *key, int from, int to, int stream)
{
    unsigned char nonce[STORE_NONCE_BYTES];

    store_draw(nonce, STREAM_AT);
    nonce[STREAM_AT] = (unsigned char)stream;
    store_write_u32(nonce + TO_AT, (uint32_t)to);
    store_make_hello_with(h, key, HALAY_TCP_VERSION, (uint32_t)from, nonce);
}

uint32_t halay_tcp_hello_to(const unsigned char *hello)
{
    return store_read_u32(store_nonce(hello) + TO_AT);
}

int halay_tcp_hello_stream(const unsigned char *hello)
{
    return store_nonce(hello)[STREAM_AT];
}
