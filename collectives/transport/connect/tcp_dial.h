/* SPDX-License-Identifier: Apache-2.0
 *
 * Dial: one rank's attempts to connect with another, at all of its addresses, each STAGGER_MS after the one before or
 * as soon as one has failed (RFC 8305). Never blocks: a set calls it, and its owner looks at it now and then.
 *
 * An address may belong to another machine here (every host has a 127.0.0.1, many a 172.17.0.1): what answers there
 * does not know the key and is passed over. Refused everywhere is the end; closed in the middle is tried again, since a
 * port under a flood of connections drops some.
 */
#ifndef HALAY_TCP_DIAL_H
#define HALAY_TCP_DIAL_H

#include "base/log.h"
#include "base/net/address.h"
#include "collectives/transport/connect/tcp_handshake.h"
#include "collectives/transport/connect/tcp_set.h"

struct halay_tcp_dial;

struct halay_tcp_route { /* what all dials of a transport have in common; borrowed by them */
    struct halay_tcp_set *set;
    unsigned char key[HALAY_SECRET_BYTES];
    int rank;
    int streams;                 /* connections of two ranks on different hosts */
    struct halay_address source; /* the address to connect from; family 0: the system's choice */
};

/* Tries these addresses, HALAY_ADDRESSES_MAX or up to one of family 0. Returns NULL without memory. */
struct halay_tcp_dial *halay_tcp_dial_begin(const struct halay_tcp_route *route, const struct halay_address *addresses,
                                            int to, int stream, int64_t deadline_us);
void halay_tcp_dial_end(struct halay_tcp_dial *dial); /* NULL is allowed */

/* HALAY_OK: a connection is made, to be taken; HALAY_IN_PROGRESS: look again at *next_us; HALAY_ERR_CLOSED: the other
 * rank is making one, which counts; else the connection failed: HALAY_ERR_SYSTEM, HALAY_ERR_TIMEOUT, HALAY_ERR_VERSION;
 * HALAY_ERR_PEER: that rank has ended; HALAY_ERR_NO_MEMORY, logged: this process has no descriptor left. */
enum halay_status halay_tcp_dial_look(struct halay_tcp_dial *dial, int64_t now_us, int64_t *next_us);
/* Returns nonzero if its proof has been sent. */
int halay_tcp_dial_is_bound(const struct halay_tcp_dial *dial);
/* The connection: its descriptor is the caller's, the handshake is borrowed until end. */
int halay_tcp_dial_take(struct halay_tcp_dial *dial, const struct store_handshake **handshake);
/* Writes why the connection failed: "no answer at any of its addresses (10.0.0.1:4000)". */
void halay_tcp_dial_explain(const struct halay_tcp_dial *dial, char *text, size_t size);

#endif
