/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection of two ranks for the start: see boot_connection.h. A signature follows what it signs.
 */
#include "collectives/transport/bootstrap/boot_connection.h"
#include "base/net/socket.h"
#include <string.h>
#include <unistd.h>

enum halay_status halay_boot_connection_send(struct halay_boot_connection *c, const void *bytes, size_t count,
                                             int64_t deadline_us)
{
    unsigned char mac[STORE_MAC_BYTES];

    enum halay_status status = halay_socket_send(c->fd, bytes, count, deadline_us);
    if (status != HALAY_OK || !c->is_signed)
        return status;
    store_sign(&c->sends, NULL, 0, bytes, count, mac);
    return halay_socket_send(c->fd, mac, sizeof mac, deadline_us);
}

enum halay_status halay_boot_connection_receive(struct halay_boot_connection *c, void *bytes, size_t count,
                                                int64_t deadline_us)
{
    unsigned char mac[STORE_MAC_BYTES];
    size_t have = 0;

    enum halay_status status = halay_socket_receive(c->fd, bytes, count, &have, deadline_us);
    if (status != HALAY_OK || !c->is_signed)
        return status;
    have = 0;
    status = halay_socket_receive(c->fd, mac, sizeof mac, &have, deadline_us);
    if (status == HALAY_OK && !store_is_signed(&c->receives, NULL, 0, bytes, count, mac))
        return HALAY_ERR_AUTH;
    return status;
}

void halay_boot_connection_close(struct halay_boot_connection *c)
{
    if (c->fd >= 0)
        close(c->fd);
    explicit_bzero(c, sizeof *c);
    c->fd = -1;
}
