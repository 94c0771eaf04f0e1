/* SPDX-License-Identifier: Apache-2.0
 *
 * Socket: blocking calls over a stream socket, each with a deadline (base/clock.h). Whether the descriptor itself
 * blocks does not matter. Nothing is logged: only the caller knows who the peer is.
 *
 * HALAY_ERR_TIMEOUT: the deadline has passed. HALAY_ERR_PEER: the other end has ended the connection, or the way there
 * is broken. HALAY_ERR_SYSTEM: nothing of the kind; errno says what.
 */
#ifndef HALAY_BASE_SOCKET_H
#define HALAY_BASE_SOCKET_H

#include "halay_types.h"
#include <stdint.h>
#include <sys/socket.h>

/* A new connection (closed on exec, not blocking, without Nagle's delay) to this address; *fd belongs to the caller.
 * Refused or unreachable is HALAY_ERR_SYSTEM, too. */
enum halay_status halay_socket_connect(const struct sockaddr *to, socklen_t length, int64_t deadline_us, int *fd);

/* Send all count bytes. After an error it is not known how many were sent. */
enum halay_status halay_socket_send(int fd, const void *bytes, size_t count, int64_t deadline_us);

/* Until *have of the count bytes are there; it counts on from what it is at the start, so that a call that timed out
 * can be repeated and nothing is lost. */
enum halay_status halay_socket_receive(int fd, void *bytes, size_t count, size_t *have, int64_t deadline_us);

#endif
