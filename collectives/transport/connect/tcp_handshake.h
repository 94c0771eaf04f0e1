/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake of a connection between two ranks: that of the store (base/store/store_protocol.h) under a key of its own.
 *
 *     one that connects                     one that accepts
 *        ---- hello (from, to) ------------>
 *        <--- challenge --------------------
 *        ---- proof ----------------------->   over one connection only: the first address that gave a challenge
 *        <--- one byte ---------------------   TAKEN; YOURS_NOT: use the connection that I am making; ENDED: another
 *                                              rank of its host reports it
 *
 * Both at once. A rank that has sent its proof is bound to that connection. If both are, the one of the lower rank
 * counts: the lower rank answers the other's proof with YOURS_NOT, the higher one gives its own up. Of a rank that is
 * not bound the other's proof ends its own attempts, so of two ranks of which only one can reach the other each
 * connects.
 *
 * The key is derived from the job's secret and the salt of rank 0, so a connection of another world of the same job
 * does not fit. Where the bootstrap has no secret, the salt is one, and travels by the bootstrap only.
 */
#ifndef HALAY_TCP_HANDSHAKE_H
#define HALAY_TCP_HANDSHAKE_H

#include "base/store/store_protocol.h"

enum { HALAY_TCP_VERSION = 4, HALAY_TCP_TAKEN = 0, HALAY_TCP_YOURS_NOT = 1, HALAY_TCP_ENDED = 2 };

/* The hello of rank `from` to rank `to`, for a stream of theirs; the last bytes of its nonce are both. */
void halay_tcp_make_hello(struct store_handshake *h, const unsigned char *key, int from, int to, int stream);
/* Returns the rank that a hello is for; any number if it is not a hello. */
uint32_t halay_tcp_hello_to(const unsigned char *hello);
int halay_tcp_hello_stream(const unsigned char *hello);

#endif
