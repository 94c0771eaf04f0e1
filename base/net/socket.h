/* SPDX-License-Identifier: Apache-2.0
 *
 * Socket: blocking calls over a stream socket, each with a deadline (base/clock.h). Whether the descriptor itself
 * blocks does not matter. Nothing is logged: only the caller knows who the peer is.
 *
 * HALAY_ERR_TIMEOUT: the deadline has passed. HALAY_ERR_PEER: the other end has ended the connection, or the network is
 * broken. HALAY_ERR_SYSTEM: another error, in errno.
 */
#ifndef HALAY_BASE_SOCKET_H
#define HALAY_BASE_SOCKET_H

#include "halay_types.h"
#include <stdint.h>
#include <sys/socket.h>

/* Binds a socket that will be connected to `to` to this host's address in the first of these networks (address.h) that
 * has one of its family. Does nothing for a loopback, without such an address, and for NULL. Returns -1 (errno) if the
 * system refuses. */
int halay_socket_bind(int fd, const struct sockaddr *to, const char *network);

/* A new connection (closed on exec, not blocking, without Nagle's delay) to this address, from one in that network as
 * above; *fd belongs to the caller. Refused or unreachable is HALAY_ERR_SYSTEM, too. */
enum halay_status halay_socket_connect(const struct sockaddr *to, socklen_t length, const char *network,
                                       int64_t deadline_us, int *fd);

/* Sends all count bytes. After an error the number of bytes sent is unknown. */
enum halay_status halay_socket_send(int fd, const void *bytes, size_t count, int64_t deadline_us);

/* Receives until *have is count. *have counts on from its value at the start, so that a call that timed out can be
 * repeated without a loss. */
enum halay_status halay_socket_receive(int fd, void *bytes, size_t count, size_t *have, int64_t deadline_us);

#endif
