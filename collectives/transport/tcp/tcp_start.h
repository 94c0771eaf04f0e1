/* SPDX-License-Identifier: Apache-2.0
 *
 * How the connections of the tcp transport are made: addresses (base/net/address.h), rank 0's side (tcp_accept.c), the
 * others' (tcp_connect.c), and the whole (tcp_start.c).
 *
 *     rank 0: listens (base/net/listen.h)         the others
 *        ---- bootstrap: where, and a salt ---->
 *        <--- hello (rank) ---------------------   to rank 0's addresses, one after another
 *        ---- challenge ----------------------->   the first that answers is the one; the others are closed
 *        <--- proof ----------------------------   to that one only
 *        ---- one byte ------------------------>   the ones that are closed begin again
 *     closes the port when all have come
 *
 * The key of the handshake comes from the job's secret and the salt, so a connection of another world of the same job
 * does not fit. Where the bootstrap has no secret, the salt is one, and travels by the bootstrap only.
 */
#ifndef HALAY_TCP_START_H
#define HALAY_TCP_START_H

#include "collectives/transport/meet/boot.h"
#include "collectives/transport/meet/peers.h"
#include "collectives/transport/tcp/tcp_how.h"
#include "collectives/transport/tcp/tcp_stream.h"

enum { HALAY_TCP_VERSION = 2 };

/* What rank 0 tells the others. */
struct halay_tcp_invitation {
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    unsigned char salt[HALAY_SECRET_BYTES];
};

/* Rank 0: until every other rank has come; streams: [size], of the others. Closes nothing but strangers.
 * HALAY_ERR_TIMEOUT, logged: who is missing. */
enum halay_status halay_tcp_accept_all(struct halay_log *log, int listener, const unsigned char *key, int size,
                                       int64_t deadline_us, struct halay_tcp_stream *streams);
/* The others: the connection with rank 0. HALAY_ERR_SYSTEM, HALAY_ERR_TIMEOUT, HALAY_ERR_VERSION, logged. */
enum halay_status halay_tcp_connect(struct halay_log *log, const struct halay_tcp_invitation *invitation,
                                    const unsigned char *key, int rank, const char *host, int64_t deadline_us,
                                    struct halay_tcp_stream *stream);

/* All of it; streams: [size], fd -1 for a rank that is not connected with this one. */
enum halay_status halay_tcp_start(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                  const struct halay_peers *peers, struct halay_tcp_stream *streams);

#endif
