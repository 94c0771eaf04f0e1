/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of the start between hosts. The first rank of a host connects with its parent in the tree, the first rank
 * of another host; that one accepts at its host's port. Neither side blocks: who waits polls the descriptor.
 *
 * Addresses, pending connections and attempts: collectives/transport/connect. The key follows from the secret and the
 * start's name, so a connection of another start does not fit.
 */
#ifndef HALAY_BOOT_HOSTS_H
#define HALAY_BOOT_HOSTS_H

#include "base/net/listen.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/boot_connection.h"
#include "collectives/transport/connect/tcp_accept.h"

/* Zero-initialised; fini accepts any state. */
struct halay_boot_hosts {
    struct halay_tcp_set set;
    struct halay_tcp_route route;
    struct halay_tcp_acceptor acceptor;
    struct halay_tcp_dial *dial; /* owned; NULL: none has begun */
    int is_open, accepts;
    int (*expects)(void *arg, int rank); /* nonzero: a connection of that rank is to be taken */
    void (*taken)(void *arg, int rank, const struct halay_boot_connection *connection); /* which is the callee's */
    void *arg;
};

/* For the n-th start of a job, which has this name. interface: as in struct halay_network. HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_boot_hosts_open(struct halay_boot_hosts *self, const struct halay_boot *boot,
                                        const unsigned char *secret, const char *name, const char *interface);
/* Accepts at this port, which stays the caller's; expects, taken and arg are set before. HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_boot_hosts_accept(struct halay_boot_hosts *self, int port, int timeout_ms);
/* A descriptor that is readable when turn has something to do; -1: nothing is waited for. */
int halay_boot_hosts_fd(const struct halay_boot_hosts *self);
/* Reads pending connections, and calls taken for those that are complete. */
void halay_boot_hosts_turn(struct halay_boot_hosts *self);
/* No further connection is taken. */
void halay_boot_hosts_shut(struct halay_boot_hosts *self);

/* Begins to connect with a rank at one of these addresses (HALAY_ADDRESSES_MAX, or up to one of family 0), then looks,
 * at most wait_ms. HALAY_OK: *out is the caller's; HALAY_IN_PROGRESS: look again. Otherwise it is not to be reached,
 * why says by what: HALAY_ERR_SYSTEM, HALAY_ERR_TIMEOUT, HALAY_ERR_VERSION, HALAY_ERR_NO_MEMORY. */
enum halay_status halay_boot_hosts_dial(struct halay_boot_hosts *self, const struct halay_address *addresses, int rank,
                                        int64_t deadline_us);
enum halay_status halay_boot_hosts_look(struct halay_boot_hosts *self, int wait_ms, struct halay_boot_connection *out,
                                        char *why, size_t size);
void halay_boot_hosts_fini(struct halay_boot_hosts *self);

#endif
