/* SPDX-License-Identifier: Apache-2.0
 *
 * Handover: the ranks of a host share one port.
 *
 * The first rank of a host opens the port and passes the listener on, so each rank accepts, and a rank that computes
 * does not delay the others. Which rank a connection is for is in its hello: the rank that has accepted it passes it to
 * that one. Each rank has a local socket for this, an abstract one of a random name; both ends of a connection to it
 * belong to one user (the kernel attaches that).
 *
 *     message                    with the descriptor of
 *     the hello, all of it       a connection
 *     one byte                   the listener
 */
#ifndef HALAY_TCP_HANDOVER_H
#define HALAY_TCP_HANDOVER_H

#include "base/net/local_socket.h"

/* Passes a descriptor, which stays the caller's, and a message to the process with that local socket. Zero: it cannot
 * take it now, or has ended; errno. */
int halay_tcp_hand_over(const char name[HALAY_LOCAL_NAME_BYTES], int fd, const void *bytes, size_t count);

#endif
