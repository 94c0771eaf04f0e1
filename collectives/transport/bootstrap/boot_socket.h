/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of the start: local connections from ranks of a host to one of them, a parent. Names follow from the job's
 * secret. A child binds its end to a name that ends with its rank, so that accept identifies it. Both ends belong to
 * one user (the kernel attaches that); any other connection is closed.
 *
 * References: unix(7).
 */
#ifndef HALAY_BOOT_SOCKET_H
#define HALAY_BOOT_SOCKET_H

#include "base/log.h"
#include <sys/socket.h>
#include <sys/un.h>

struct halay_boot_socket {
    int fd;                        /* owned; -1: not open */
    struct sockaddr_un child_name; /* what the names of children's ends begin with */
};

/* what: names one parent's listener, the same on parent and children. Returns nonzero if it listens; else errno. */
int halay_boot_socket_listen(struct halay_boot_socket *self, const unsigned char *secret, const char *what);
/* Returns a connection, which is the caller's, or -1 with errno: EAGAIN while the listener's queue is full. */
int halay_boot_socket_connect(const unsigned char *secret, const char *what, int rank);
/* Returns the next child's connection, which is the caller's, or -1 if none waits. */
int halay_boot_socket_accept(struct halay_boot_socket *self, struct halay_log *log, int *rank);
void halay_boot_socket_close(struct halay_boot_socket *self);

#endif
