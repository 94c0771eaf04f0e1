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

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>

enum { HALAY_TCP_NAME_BYTES = 32 };

/* Opens a local socket: its name, *fd (closed on exec, not blocking) is the caller's. HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_tcp_local_open(struct halay_log *log, char name[HALAY_TCP_NAME_BYTES], int *fd);
/* Passes a descriptor, which stays the caller's, and a message to the process with that local socket. Zero: it cannot
 * take it now, or has ended; errno. */
int halay_tcp_hand_over(const char name[HALAY_TCP_NAME_BYTES], int fd, const void *bytes, size_t count);
/* Returns nonzero if the other end of a local connection belongs to this process's user. */
int halay_tcp_is_own_user(int fd);
/* Reads what came over a local connection: *count of at most `room` bytes. Returns the descriptor, the caller's then,
 * or -1: none came with it (errno EPROTO), or nothing came (EAGAIN, another errno). */
int halay_tcp_take_over(int local, void *bytes, size_t room, size_t *count);

#endif
