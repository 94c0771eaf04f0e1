/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of the tcp transport.
 *
 * An unused connection does not show whether its other end is alive, so the systems ask each other every second; one
 * that is silent for how->silence_ms, with a question or with data unanswered, is given up by them. The sizes of the
 * system's buffers are left to it: it adapts them to the connection, and stops doing so once they are set.
 */
#include "collectives/transport/tcp/tcp_start.h"
#include "base/machine/descriptors.h"
#include "collectives/transport/connect/tcp_accept.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_EVERY_S = 1, SPARE_DESCRIPTORS = 16, NOT_SENT_BYTES = 512 << 10 };

static enum halay_status exchange_records(struct halay_log *log, struct halay_boot *boot,
                                          const struct halay_tcp_record *mine, int timeout_ms,
                                          struct halay_tcp_record **records)
{
    struct halay_tcp_record *all = calloc((size_t)boot->size, sizeof *all);

    if (!all)
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory for the addresses of %d ranks", boot->size);
    *records = all;
    return halay_boot_allgather(boot, mine, sizeof *mine, all, timeout_ms);
}

static enum halay_status check_ports(struct halay_log *log, const struct halay_tcp_record *records, int size,
                                     const struct halay_peers *peers)
{
    for (int r = 0; r < size; r++)
        if (!records[r].is_ready)
            return halay_fail(log, HALAY_ERR_SYSTEM,
                              "rank %d on '%s' has opened no port for the other ranks: its log has the reason", r,
                              halay_peers_host(peers, r));
    return HALAY_OK;
}

/* Returns the cipher that all of these ranks have; they are alike in whether they encrypt. */
static enum halay_tcp_sealing settle_sealing(const struct halay_tcp_record *records, int size, int is_sealed)
{
    int have_aes = 1;

    for (int r = 0; r < size; r++)
        have_aes &= records[r].has_aes;
    return !is_sealed ? HALAY_TCP_CLEAR : have_aes ? HALAY_TCP_AES : HALAY_TCP_CHACHA;
}

static void derive_key(struct halay_boot *boot, const unsigned char *salt, unsigned char *key)
{
    unsigned char secret[HALAY_SECRET_BYTES] = { 0 };

    if (boot->ops->secret)
        boot->ops->secret(boot, secret);
    store_derive(secret, "control-", salt, HALAY_SECRET_BYTES, key);
    explicit_bzero(secret, sizeof secret);
}

/* Rank 0 has a connection with each other rank, these may have. */
static enum halay_status allow_descriptors(struct halay_log *log, int rank, int size, int streams)
{
    char what[64];

    snprintf(what, sizeof what, "connections of rank %d with %d ranks", rank, size - 1);
    return halay_descriptors_allow(log, (size_t)streams * ((size_t)size - 1) + SPARE_DESCRIPTORS, what);
}

static int choose_streams(const struct halay_tcp_how *how, const struct halay_address *address)
{
    char name[IF_NAMESIZE];

    if (how->streams)
        return how->streams;
    halay_address_interface(address, name);
    return halay_interface_flows(name);
}

/* The first rank of a host opens the port, or has it from the start. */
static enum halay_status open_port(const struct halay_tcp_how *how, struct halay_boot *boot, int *port,
                                   struct halay_tcp_record *mine)
{
    enum halay_status status =
        boot->port.is_open ? HALAY_OK : halay_tcp_open_port(boot->log, &how->network, &boot->port);

    if (status != HALAY_OK)
        return status;
    *port = boot->port.fd;
    boot->port.is_open = 0;
    memcpy(mine->addresses, boot->port.addresses, sizeof mine->addresses);
    return HALAY_OK;
}

static enum halay_status open_listeners(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                        const struct halay_peers *peers, struct halay_tcp_listeners *listeners,
                                        struct halay_tcp_record *mine)
{
    int locals = 0, is_first = 1, rank = boot->rank, size = boot->size;
    enum halay_status status = allow_descriptors(log, rank, size, 1);

    for (int r = 0; r < size; r++)
        if (r != rank && halay_peers_is_local(peers, r)) {
            locals++;
            is_first &= r > rank;
        }
    if (status == HALAY_OK && is_first)
        status = open_port(how, boot, &listeners->port, mine);
    if (status == HALAY_OK && rank == 0)
        mine->streams = (unsigned char)choose_streams(how, &mine->addresses[0]);
    if (status == HALAY_OK && locals)
        status = halay_local_listen(log, "for connections of this host", SOMAXCONN, mine->name, &listeners->local);
    mine->is_ready = status == HALAY_OK;
    return status;
}

/* The addresses of its host's port into each rank's record. */
static enum halay_status share_addresses(struct halay_log *log, const struct halay_peers *peers, int size,
                                         struct halay_tcp_record *records)
{
    int *node = malloc((size_t)size * 2 * sizeof *node), *first = node + size;

    if (!node)
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory for the addresses of %d ranks", size);
    halay_peers_nodes(peers, node);
    for (int r = size - 1; r >= 0; r--)
        first[node[r]] = r;
    for (int r = 0; r < size; r++)
        if (first[node[r]] != r)
            memcpy(records[r].addresses, records[first[node[r]]].addresses, sizeof records[r].addresses);
    free(node);
    return HALAY_OK;
}

enum halay_status halay_tcp_start(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                  const struct halay_peers *peers, struct halay_tcp_route *route,
                                  struct halay_tcp_listeners *listeners, struct halay_tcp_record **records,
                                  enum halay_tcp_sealing *sealing)
{
    struct halay_tcp_record mine = { 0 };

    *listeners = (struct halay_tcp_listeners){ -1, -1 };
    enum halay_status status = store_init(log);
    if (status == HALAY_OK) {
        if (boot->rank == 0)
            store_draw(mine.salt, sizeof mine.salt);
        mine.has_aes = halay_seal_has_aes() != 0;
        status = open_listeners(log, how, boot, peers, listeners, &mine);
    }
    /* Without a port the others receive none, and fail at once. */
    enum halay_status exchanged = exchange_records(log, boot, &mine, how->timeout_ms, records);
    explicit_bzero(&mine, sizeof mine);
    if (status != HALAY_OK || exchanged != HALAY_OK)
        return status != HALAY_OK ? status : exchanged;
    derive_key(boot, (*records)[0].salt, route->key);
    if (how->is_sealed && !boot->ops->secret && boot->rank == 0)
        halay_warning(log, "HALAY_ENCRYPT=1: keys come by the start over '%s', which does not encrypt",
                      boot->ops->name);
    explicit_bzero((*records)[0].salt, sizeof(*records)[0].salt);
    status = check_ports(log, *records, boot->size, peers);
    if (status == HALAY_OK)
        status = share_addresses(log, peers, boot->size, *records);
    route->streams = (*records)[0].streams;
    if (status == HALAY_OK)
        status = allow_descriptors(log, boot->rank, boot->size, route->streams);
    if (status == HALAY_OK && how->network.interface) { /* the one of the named network: connections come from it */
        route->source = (*records)[boot->rank].addresses[0];
        route->source.port = 0;
    }
    *sealing = settle_sealing(*records, boot->size, how->is_sealed);
    return status;
}

void halay_tcp_set_patience(int fd, int silence_ms)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

int halay_tcp_is_held(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t length = sizeof info;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && !info.tcpi_unacked;
}

/* The time decides, not the number of questions, which the system limits to 127. */
enum halay_status halay_tcp_set_up(struct halay_log *log, int fd, int silence_ms)
{
    const int questions = silence_ms / 1000 / ASK_EVERY_S;
    const struct {
        int level, name, value;
    } options[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, ASK_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, ASK_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, questions < 127 ? questions : 127 },
        { IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms },
        { IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOT_SENT_BYTES },
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value) < 0)
            return halay_fail(log, HALAY_ERR_SYSTEM, "cannot set up a connection between ranks: %s", strerror(errno));
    return HALAY_OK;
}
