/* SPDX-License-Identifier: Apache-2.0
 *
 * Mesh: the connections of a rank with the others, each made when it is first needed, and which ranks are lost.
 *
 * A connection is made for a send at once; for a receive, if the sender has not connected by then, a while later, so
 * that a sender that is dead is noticed; for optional ones never. All of this is done by turns, none of which blocks.
 *
 * Lost and left: a connection that ends after a BYE was left in order. One that ends without it belonged to a process
 * that has ended: only the system closes it then. One that the system gave up (silence, no way there), and one that
 * cannot be made, belongs to a rank that cannot be reached. Processes of this host are looked after by their
 * descriptors as well (peers.h). What arrived before the end is handed over first.
 *
 * A peer that does not take what it is sent, because its process computes or is stopped, is not silent: its system
 * answers. Linux ends such a connection as well once its time (TCP_USER_TIMEOUT) is over, so connections that take
 * nothing are looked at, and that time does not count while the other end has no room.
 *
 * Busy peers, HALAY_TCP_BUSY_MAX at most, are read and written without asking the set which of them are ready; the set
 * is asked every SET_EVERY turns then, and each turn if none or more are busy.
 */
#ifndef HALAY_TCP_MESH_H
#define HALAY_TCP_MESH_H

#include "collectives/transport/connect/tcp_accept.h"
#include "collectives/transport/tcp/tcp_match.h"
#include "collectives/transport/tcp/tcp_seal.h"
#include "collectives/transport/tcp/tcp_start.h"

enum { HALAY_TCP_BUSY_MAX = 4 };

struct halay_tcp_member {
    struct halay_tcp_peer peer; /* first: found by it */
    struct halay_tcp_mesh *mesh;
    struct halay_tcp_dial *dial;       /* owned; NULL: none */
    struct halay_tcp_connection *made; /* owned: connections, until all are made */
    int made_count;
    int64_t dial_us;                     /* when it begins */
    int is_dialing, is_touched, is_busy; /* in the lists of these names */
    struct halay_tcp_member *next_dialing, *next_touched;
};

struct halay_tcp_mesh {
    struct halay_link *link;   /* borrowed: failed_peer and lost are set here */
    struct halay_peers *watch; /* borrowed */
    int timeout_ms, silence_ms;
    struct halay_tcp_set set;
    struct halay_tcp_route route;
    enum halay_tcp_sealing sealing; /* of connections, once they are made */
    struct halay_tcp_acceptor acceptor;
    struct halay_tcp_record *records; /* owned: [size] */
    struct halay_tcp_member *members; /* owned: [size] */
    struct halay_tcp_member *dialing, *touched;
    struct halay_tcp_member *busy[HALAY_TCP_BUSY_MAX];
    int busy_count, is_crowded; /* crowded: more are busy than have a place */
    unsigned turns, looks;
    int64_t full_us;          /* when connections that take nothing are looked at; 0: all take data */
    int left;                 /* how many have */
    int64_t left_us;          /* when those that are missed count as lost; 0: none is missed */
    enum halay_status status; /* the first error but for lost peers */
};

/* link: rank, size, log and lost are set. Zero-initialised before; fini accepts any state. The start's statuses. */
enum halay_status halay_tcp_mesh_init(struct halay_tcp_mesh *mesh, struct halay_link *link,
                                      const struct halay_tcp_how *how, struct halay_boot *boot,
                                      struct halay_peers *peers);
/* All other ranks connect with rank 0; blocks until they have. HALAY_ERR_TIMEOUT, HALAY_ERR_SYSTEM, HALAY_ERR_VERSION,
 * logged: who is missing, or why rank 0 cannot be reached. */
enum halay_status halay_tcp_mesh_connect(struct halay_tcp_mesh *mesh);
/* On the first rank of a host: the others of this host accept at its port from now on, too. After connect, during which
 * rank 0 accepts anyway and no other rank need be woken up. */
void halay_tcp_mesh_share(struct halay_tcp_mesh *mesh);
/* Tells the others that this rank leaves. */
void halay_tcp_mesh_leave(struct halay_tcp_mesh *mesh);
void halay_tcp_mesh_fini(struct halay_tcp_mesh *mesh);

/* Groups were added to the forgotten ones of the link. */
void halay_tcp_mesh_forget(struct halay_tcp_mesh *mesh, struct halay_group_range groups);

/* A send of this rank was posted, or a receive from it: x. */
void halay_tcp_mesh_touch(struct halay_tcp_mesh *mesh, int rank, const struct halay_transfer *x, int is_receive);
/* Works as link.h's progress. */
enum halay_status halay_tcp_mesh_turn(struct halay_tcp_mesh *mesh);
/* Writes what is queued, and has the set's descriptor become readable for all that arrives from now on. */
void halay_tcp_mesh_settle(struct halay_tcp_mesh *mesh);

#endif
