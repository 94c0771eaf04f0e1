/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen: bound to one address of the network, if one is named, so that no other network reaches the port; else to
 * all of both families. Ports are tried in order.
 */
#include "base/net/listen.h"
#include "base/number_text.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The socket, or -1 (errno). */
static int open_at(const struct sockaddr_storage *at, socklen_t length)
{
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* Connections of a job that has just ended may still know its port. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
        (at->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int)) < 0) ||
        bind(fd, (const struct sockaddr *)at, length) < 0 || listen(fd, SOMAXCONN) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* On the first of the ports that is free. */
static int open_among(struct halay_address at, const int ports[2])
{
    struct sockaddr_storage place;
    int fd = -1;

    for (int port = ports[0]; fd < 0 && port <= ports[1]; port++) {
        at.port = (uint16_t)port;
        fd = open_at(&place, halay_address_sockaddr(&at, &place));
        if (fd < 0 && errno != EADDRINUSE)
            break;
    }
    return fd;
}

/* "lo 127.0.0.1, eth0 10.0.0.1": all there are. */
static void list_addresses(char *text, size_t size)
{
    char one[HALAY_ADDRESS_TEXT];
    struct halay_address address;
    struct ifaddrs *all;

    *text = 0;
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_flags & IFF_UP && halay_address_take(i->ifa_addr, 0, &address) &&
            inet_ntop(address.family, address.bytes, one, sizeof one))
            halay_append(text, size, "%s%s %s", *text ? ", " : "", i->ifa_name, one);
    freeifaddrs(all);
}

static enum halay_status find_address(struct halay_log *log, const char *list, struct halay_address *address)
{
    char text[1024];
    int found = halay_network_find(list, 0, address);

    if (found > 0)
        return HALAY_OK;
    if (found < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot list this host's addresses: %s", strerror(errno));
    list_addresses(text, sizeof text);
    return halay_fail(log, HALAY_ERR_CONFIG, "this host has no address in network '%.200s'; it has: %s", list, text);
}

static enum halay_status fail_listen(struct halay_log *log, const struct halay_network *network)
{
    if (errno != EADDRINUSE)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot listen for other hosts: %s", strerror(errno));
    return halay_fail(log, HALAY_ERR_CONFIG, "cannot listen for other hosts: none of the ports %d-%d is free",
                      network->ports[0], network->ports[1]);
}

enum halay_status halay_listen(struct halay_log *log, const struct halay_network *network, int max, int *out,
                               struct halay_address *addresses, int *count)
{
    static const struct halay_network anywhere = { 0 };
    struct halay_address at = { .family = AF_INET6 };
    struct halay_address bound;
    enum halay_status status = HALAY_OK;

    network = network ? network : &anywhere;
    if (network->interface)
        status = find_address(log, network->interface, &at);
    if (status != HALAY_OK)
        return status;
    int fd = open_among(at, network->ports);
    if (fd < 0 && !network->interface && errno != EADDRINUSE) { /* a system without IPv6 */
        at.family = AF_INET;
        fd = open_among(at, network->ports);
    }
    if (fd < 0)
        return fail_listen(log, network);
    if (halay_socket_address(fd, &bound) < 0)
        status = fail_listen(log, network);
    else
        at.port = bound.port;
    if (status == HALAY_OK && max && !network->interface)
        status = halay_own_addresses(log, NULL, at.port, max, addresses, count);
    if (status != HALAY_OK) {
        close(fd);
        return status;
    }
    if (max && network->interface) {
        addresses[0] = at;
        *count = 1;
    }
    *out = fd;
    return HALAY_OK;
}

enum halay_status halay_listen_at(struct halay_log *log, const struct halay_address *address, int *out)
{
    const struct halay_network network = { NULL, { address->port, address->port } };
    int fd = open_among(*address, network.ports);

    if (fd < 0)
        return fail_listen(log, &network);
    *out = fd;
    return HALAY_OK;
}
