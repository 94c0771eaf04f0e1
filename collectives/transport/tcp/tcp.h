/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport: messages between all ranks, over one connection a pair that is made when it is first needed. It
 * carries the engine's messages where ranks are on several hosts, and collectives' data.
 *
 *     tcp.c          the operations table, sleeping
 *     tcp_mesh       the connections of a rank, who is lost
 *     tcp_match      which send matches which receive: DATA, CTS, BULK
 *     tcp_connection frames out of and into one socket
 *     tcp_frame      a frame's head
 *     tcp_seal       frames' bytes encrypted, if wanted
 *     tcp_dial       making a connection           \
 *     tcp_accept     the port, pending connections  > tcp_handshake
 *     tcp_handover   one port for all ranks of a host
 *     tcp_start      ports, addresses, the key, options
 *     tcp_set        one wait for all descriptors
 *
 * Each connection is authenticated with the job's secret, and so is each of the engine's messages. With how->is_sealed
 * everything is, and is encrypted.
 */
#ifndef HALAY_TCP_H
#define HALAY_TCP_H

#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/link.h"
#include "collectives/transport/tcp/tcp_how.h"

/*
 * Every rank calls it, and it blocks until all have; with how->connects until all are connected with rank 0. log and
 * peers are borrowed until close, boot for the call. Losses are reported to peers. The bootstrap's statuses;
 * HALAY_ERR_SYSTEM: no port, or rank 0 cannot be reached at any of its addresses; HALAY_ERR_TIMEOUT: some rank did not
 * come. Each rank returns its own status: they are to be compared.
 */
enum halay_status halay_tcp_open(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                 struct halay_peers *peers, struct halay_link **out);

/* The networks of this host that the connections made so far with ranks of other hosts take, as "eth0,eth1"; ""
 * without such a connection, or if they are unknown. */
void halay_tcp_interfaces(struct halay_link *link, char *names, size_t size);

#endif
