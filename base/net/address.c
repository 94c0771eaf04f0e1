/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses by which other hosts may reach this one. All are offered: which of them can be reached, the others find out
 * by trying, so that nobody has to name an interface.
 */
#include "base/net/address.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

/* Zero if it is of no use to others. */
static int take_address(const struct sockaddr *from, int port, struct halay_address *to)
{
    *to = (struct halay_address){ .family = from->sa_family, .port = (uint16_t)port };
    if (from->sa_family == AF_INET) {
        memcpy(to->bytes, &((const struct sockaddr_in *)from)->sin_addr, 4);
        return 1;
    }
    if (from->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *address = &((const struct sockaddr_in6 *)from)->sin6_addr;
    memcpy(to->bytes, address, 16);
    return !IN6_IS_ADDR_LINKLOCAL(address); /* useless without the name of the other side's interface */
}

enum halay_status halay_own_addresses(struct halay_log *log, const char *interface, int port,
                                      struct halay_address *addresses, int *count)
{
    struct ifaddrs *all;
    int n = 0;

    if (getifaddrs(&all) < 0) {
        halay_error(log, "cannot list this host's addresses: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    for (int is_loopback = 0; is_loopback < 2; is_loopback++)
        for (struct ifaddrs *i = all; i && n < HALAY_ADDRESSES_MAX; i = i->ifa_next)
            if (i->ifa_addr && i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK) == !is_loopback &&
                (!interface || !strcmp(interface, i->ifa_name)))
                n += take_address(i->ifa_addr, port, &addresses[n]);
    freeifaddrs(all);
    *count = n;
    return HALAY_OK;
}

int halay_address_is_among(const struct sockaddr *address, const struct halay_address *list, int count)
{
    struct halay_address wanted;

    if (!take_address(address, 0, &wanted))
        return 0;
    for (int i = 0; i < count; i++)
        if (list[i].family == wanted.family && !memcmp(list[i].bytes, wanted.bytes, sizeof wanted.bytes))
            return 1;
    return 0;
}

socklen_t halay_address_sockaddr(const struct halay_address *address, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (address->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(address->port);
        memcpy(&in->sin_addr, address->bytes, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(address->port);
    memcpy(&in->sin6_addr, address->bytes, 16);
    return sizeof *in;
}

void halay_address_text(const struct halay_address *address, char *text, size_t size)
{
    char name[INET6_ADDRSTRLEN] = "?";

    inet_ntop(address->family, address->bytes, name, sizeof name);
    snprintf(text, size, address->family == AF_INET6 ? "[%s]:%d" : "%s:%d", name, address->port);
}
