/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport: the engine's messages where ranks are on several hosts. Connections with rank 0 only; a rank with
 * nothing to do sleeps on all of them at once.
 *
 *     rank 1 ---.
 *     rank 2 --- rank 0     n - 1 connections; rank 0 listens while they are made, and not any more afterwards
 *     rank 3 ---'
 *
 * It carries what is short and seldom; data go over ucx or mpi. Each connection is authenticated with the job's secret,
 * and so is each message (tcp_stream.h). Nothing is encrypted.
 */
#ifndef HALAY_TCP_H
#define HALAY_TCP_H

#include "collectives/transport/meet/boot.h"
#include "collectives/transport/meet/peers.h"
#include "collectives/transport/tcp/tcp_how.h"
#include "collectives/transport/transport.h"

/*
 * Connect all ranks of boot with rank 0; every rank calls it, it blocks until all have come. log and peers are borrowed
 * until close, boot for the call. send and recv are for rank 0 on one side only. Losses are reported to peers.
 * The bootstrap's statuses; HALAY_ERR_SYSTEM: no port, or none of rank 0's addresses can be reached; HALAY_ERR_TIMEOUT:
 * somebody did not come. Each rank returns its own status: they are to be compared.
 */
enum halay_status halay_tcp_open(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                 struct halay_peers *peers, struct halay_transport **out);

/* The networks of this host that the connections with ranks of other hosts take, as "eth0,eth1"; "" if there is no such
 * connection, or nothing is known. */
void halay_tcp_interfaces(struct halay_transport *t, char *names, size_t size);

/* From now on a readable fd ends a sleep too. Borrowed until close; not while anybody sleeps. */
void halay_tcp_listen_to(struct halay_transport *t, int fd);

#endif
