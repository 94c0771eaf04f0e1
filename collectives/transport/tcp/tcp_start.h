/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of the tcp transport: the host's port, where each rank is reached, the key of the handshakes, and how
 * connections behave.
 */
#ifndef HALAY_TCP_START_H
#define HALAY_TCP_START_H

#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/connect/tcp_dial.h"
#include "collectives/transport/connect/tcp_handover.h"
#include "collectives/transport/tcp/tcp_how.h"
#include "collectives/transport/tcp/tcp_seal.h"

/* A rank's message to all others. */
struct halay_tcp_record {
    struct halay_address addresses[HALAY_ADDRESSES_MAX]; /* of its host's port */
    unsigned char salt[HALAY_SECRET_BYTES];              /* rank 0's; zeros of the others */
    char name[HALAY_LOCAL_NAME_BYTES];                   /* of its local socket, if its host has several ranks */
    unsigned char is_ready;
    unsigned char streams; /* rank 0's counts */
    unsigned char has_aes; /* its processor has */
};

struct halay_tcp_listeners { /* -1: none */
    int port;                /* the first rank of each host has it */
    int local;
};

/* Opens this host's port, this rank's local socket, and learns where the others are: the listeners, also after an
 * error, and *records ([size]) are the caller's; key and source of route are set. Every rank calls it, and
 * each returns its own status: they are to be compared. HALAY_ERR_SYSTEM: some rank has no port; HALAY_ERR_MISMATCH:
 * some seal, others don't; the bootstrap's; logged. */
enum halay_status halay_tcp_start(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                  const struct halay_peers *peers, struct halay_tcp_route *route,
                                  struct halay_tcp_listeners *listeners, struct halay_tcp_record **records,
                                  enum halay_tcp_sealing *sealing);

/* Sets the options of a connection. HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_tcp_set_up(struct halay_log *log, int fd, int silence_ms);
/* Sets for how long what was sent may stay unanswered; 0: as long as the system tries. */
void halay_tcp_set_patience(int fd, int silence_ms);
/* Returns nonzero if the other end has acknowledged all that was sent: of what waits here, it has no room for more. */
int halay_tcp_is_held(int fd);

#endif
