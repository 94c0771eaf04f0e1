/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach: finds by trying which of another host's addresses can be reached from here. Names of interfaces do not tell.
 */
#ifndef HALAY_LAUNCHER_REACH_H
#define HALAY_LAUNCHER_REACH_H

#include "base/log.h"
#include "base/net/address.h"
#include <stddef.h>

/* Connects to all addresses ("10.0.0.1:4000", "[fd00::1]:4000", NULL at the end) at once, from this host's address in
 * that network (base/net/socket.h; NULL: any). Returns the index of the first that accepts; the connection is closed
 * again. -1 if none does within timeout_ms, which it blocks for at most. An address that this host has, too, like
 * 172.17.0.1 on hosts with containers, counts only if no other is reached: another program may listen there. why: the
 * outcome of each so far, "10.0.0.1:4000 reached, [fd00::1]:4000 Network is unreachable". */
int reach_first(struct halay_log *log, char *const *addresses, const char *network, int timeout_ms, char *why,
                size_t size);

/* The address of this host from which it would reach that one, as numbers, without a port. 0: it has no way there. */
int reach_from(const char *address, char from[HALAY_ADDRESS_TEXT]);

/* Writes the address at the other end of a connection, as numbers, without a port. Returns 0 if it has none. */
int reach_peer(int fd, char text[HALAY_ADDRESS_TEXT]);

#endif
