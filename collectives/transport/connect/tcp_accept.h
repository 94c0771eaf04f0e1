/* SPDX-License-Identifier: Apache-2.0
 *
 * Accept: the port of this host, and the connections that have not authenticated themselves yet. Open for as long as
 * the transport is. Never blocks: the set calls it.
 *
 * A pending connection has a place in a table (two for each rank, PLACES_MIN at least) and HELLO_MS to send a right
 * hello, then the time of a start for its proof. When the table is full, or descriptors are, the oldest that has not
 * sent its hello goes; while all have, no more are accepted. A rank that was dropped tries again: it counts itself as
 * connected only when it has the byte that answers its proof.
 */
#ifndef HALAY_TCP_ACCEPT_H
#define HALAY_TCP_ACCEPT_H

#include "base/log.h"
#include "base/net/listen.h"
#include "collectives/transport/connect/tcp_dial.h"

enum halay_tcp_claim { HALAY_TCP_CLAIM_TAKE, HALAY_TCP_CLAIM_REFUSE, HALAY_TCP_CLAIM_DROP };

struct halay_tcp_pending;

struct halay_tcp_port {
    struct halay_tcp_watch watch; /* first: found by its watch; its fd, the listener's, is owned; -1: none */
    struct halay_tcp_acceptor *acceptor;
};

struct halay_tcp_acceptor {
    struct halay_tcp_port port;          /* of this host */
    struct halay_tcp_port local;         /* by which its ranks pass connections (tcp_handover.h) */
    struct halay_log *log;               /* borrowed */
    const struct halay_tcp_route *route; /* borrowed */
    int size, proof_ms;
    /* A rank has proved itself over a connection: TAKE; REFUSE: the one that this rank is making counts; DROP. */
    enum halay_tcp_claim (*claim)(void *arg, int rank, int stream);
    /* TAKE was sent over the connection: fd is the callee's, the handshake is borrowed for the call. */
    void (*taken)(void *arg, int rank, int fd, const struct store_handshake *handshake);
    /* A connection with this hello is for another rank: passes it on; fd stays the caller's. HALAY_ERR_PEER: that rank
     * has ended; another status: it is not of this host, or cannot take it now. NULL: this rank is alone here. */
    enum halay_status (*pass)(void *arg, int to, int fd, const unsigned char *hello);
    void *arg;
    int count, places;
    struct halay_tcp_pending *first, **end; /* owned, oldest first */
    int64_t reopen_us;                      /* the ports are not looked at before; 0: it is */
    int is_out;                             /* no descriptor was free, and no more are allowed; it was logged */
};

/* Opens this host's port; it is the caller's. As halay_listen, logged. */
enum halay_status halay_tcp_open_port(struct halay_log *log, const struct halay_network *network,
                                      struct halay_host_port *port);

/* Takes the listeners, also after an error; -1: none, or another rank of this host is going to pass it. What is not set
 * by it here is set before. HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_tcp_acceptor_open(struct halay_tcp_acceptor *acceptor, int port, int local);
/* Zero-initialised but for the ports' fds, -1, is allowed. */
void halay_tcp_acceptor_close(struct halay_tcp_acceptor *acceptor);

/* Drops connections that are late. Returns when to look again; HALAY_NEVER: not before one arrives. */
int64_t halay_tcp_acceptor_look(struct halay_tcp_acceptor *acceptor, int64_t now_us);

#endif
