/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap with a unique id: the store's (boot_store.c) at the address that the id names.
 */
#include "base/clock.h"
#include "base/net/socket.h"
#include "collectives/transport/bootstrap/boot_impl.h"
#include "collectives/transport/bootstrap/unique_id.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESSES_AT = 44, ADDRESS_BYTES = 17, TRY_MS = 1000, PAUSE_MS = 20 };

static const unsigned char head[9] = "halay id\1";

_Static_assert(ADDRESSES_AT + HALAY_UNIQUE_ADDRESSES_MAX * ADDRESS_BYTES <= sizeof(struct halay_unique_id),
               "an id has room for its addresses");

/* ---- its bytes ---- */

void halay_unique_id_write(const struct halay_unique_endpoint *endpoint, struct halay_unique_id *id)
{
    unsigned char *at = id->bytes + ADDRESSES_AT;

    memset(id, 0, sizeof *id);
    memcpy(id->bytes, head, sizeof head);
    id->bytes[9] = (unsigned char)endpoint->count;
    id->bytes[10] = (unsigned char)(endpoint->addresses[0].port >> 8);
    id->bytes[11] = (unsigned char)endpoint->addresses[0].port;
    memcpy(id->bytes + 12, endpoint->secret, HALAY_SECRET_BYTES);
    for (int i = 0; i < endpoint->count; i++, at += ADDRESS_BYTES) {
        *at = endpoint->addresses[i].family == AF_INET ? 4 : 6;
        memcpy(at + 1, endpoint->addresses[i].bytes, 16);
    }
}

int halay_unique_id_read(const struct halay_unique_id *id, struct halay_unique_endpoint *endpoint)
{
    const unsigned char *at = id->bytes + ADDRESSES_AT;

    if (memcmp(id->bytes, head, sizeof head) != 0 || !id->bytes[9] || id->bytes[9] > HALAY_UNIQUE_ADDRESSES_MAX)
        return 0;
    endpoint->count = id->bytes[9];
    memcpy(endpoint->secret, id->bytes + 12, HALAY_SECRET_BYTES);
    for (int i = 0; i < endpoint->count; i++, at += ADDRESS_BYTES) {
        if (*at != 4 && *at != 6)
            return 0;
        endpoint->addresses[i].family = *at == 4 ? AF_INET : AF_INET6;
        endpoint->addresses[i].port = (uint16_t)(id->bytes[10] << 8 | id->bytes[11]);
        memcpy(endpoint->addresses[i].bytes, at + 1, 16);
    }
    return 1;
}

/* ---- the start ---- */

static int answers(const struct halay_address *address, const char *network, int64_t deadline_us)
{
    struct sockaddr_storage to;
    socklen_t length = halay_address_sockaddr(address, &to);
    int64_t most_us = halay_deadline_us(TRY_MS);
    int fd;

    if (halay_socket_connect((const struct sockaddr *)&to, length, network,
                             most_us < deadline_us ? most_us : deadline_us, &fd) != HALAY_OK)
        return 0;
    close(fd);
    return 1;
}

/* The first address that answers, as text. */
static enum halay_status find_address(struct halay_log *log, const struct halay_unique_endpoint *endpoint,
                                      const char *network, int64_t deadline_us, struct halay_boot_watch *watch,
                                      char *text, size_t size)
{
    do {
        enum halay_status status = halay_boot_look(log, watch, -1);
        if (status != HALAY_OK)
            return status;
        for (int i = 0; i < endpoint->count; i++) {
            halay_address_text(&endpoint->addresses[i], text, size);
            if (answers(&endpoint->addresses[i], network, deadline_us))
                return HALAY_OK;
        }
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    } while (!halay_deadline_passed(deadline_us));
    return halay_fail(
        log, HALAY_ERR_TIMEOUT,
        "no answer at the addresses of the unique id (%s, %d addresses): has the process that made it ended, or was "
        "the id used for a start before?",
        text, endpoint->count);
}

enum halay_status halay_boot_unique_create(struct halay_log *log, const struct halay_unique_id *id, const char *network,
                                           int rank, int size, int timeout_ms, struct halay_boot_watch *watch,
                                           struct halay_boot **out)
{
    struct halay_unique_endpoint endpoint;
    struct halay_store_access access = { 0 };
    char address[HALAY_ADDRESS_TEXT];
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    unsigned starts;

    if (!halay_unique_id_read(id, &endpoint) || size < 1 || rank < 0 || rank >= size)
        return halay_fail(log, HALAY_ERR_ARGUMENT,
                          "a start with a unique id: rank %d of %d is not possible, or the id is not one that "
                          "halay_unique_id_create has made",
                          rank, size);
    enum halay_status status = find_address(log, &endpoint, network, deadline_us, watch, address, sizeof address);
    if (status == HALAY_OK)
        status =
            halay_store_client_open(log, address, network, endpoint.secret, rank, timeout_ms, &access.client, &starts);
    memcpy(access.secret, endpoint.secret, sizeof access.secret);
    explicit_bzero(&endpoint, sizeof endpoint);
    if (status == HALAY_OK)
        status = halay_boot_store_create_unique(log, rank, size, &access, starts, out);
    explicit_bzero(access.secret, sizeof access.secret);
    return status;
}
