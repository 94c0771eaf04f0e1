/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection of two ranks for the start. What goes to another host is signed with the key of the handshake that has
 * made the connection, so that it can't be changed, repeated or dropped on its way; local sockets need none.
 */
#ifndef HALAY_BOOT_CONNECTION_H
#define HALAY_BOOT_CONNECTION_H

#include "base/store/store_protocol.h"
#include <stddef.h>
#include <stdint.h>

struct halay_boot_connection {
    int fd; /* owned; -1: there is none */
    int is_signed;
    struct store_direction sends, receives; /* if it is */
};

/* Sends all of it. HALAY_ERR_TIMEOUT, HALAY_ERR_PEER, HALAY_ERR_SYSTEM. */
enum halay_status halay_boot_connection_send(struct halay_boot_connection *c, const void *bytes, size_t count,
                                             int64_t deadline_us);
/* Receives what one call has sent, of that many bytes. HALAY_ERR_AUTH: it was changed on its way; else as send. */
enum halay_status halay_boot_connection_receive(struct halay_boot_connection *c, void *bytes, size_t count,
                                                int64_t deadline_us);
void halay_boot_connection_close(struct halay_boot_connection *c);

#endif
