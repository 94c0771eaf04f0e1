/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses by which other hosts may reach this one. All are offered; the others try which of them work, so that no
 * setting has to name an interface.
 */
#include "base/net/address.h"
#include "base/parse.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VENDOR_AMAZON = 0x1d0f, VENDOR_GOOGLE = 0x1ae0, FLOWS_MAX = 8, FLOWS_UNKNOWN = 4 };

int halay_address_take(const struct sockaddr *from, int port, struct halay_address *to)
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

int halay_addresses_choose(const struct halay_own_address *own, int count, int max, struct halay_address *addresses)
{
    int has_loopback = 0, n = 0;

    for (int i = 0; i < count; i++)
        has_loopback |= own[i].kind == HALAY_INTERFACE_LOOPBACK;
    for (int kind = HALAY_INTERFACE_DEFAULT; kind <= HALAY_INTERFACE_LOOPBACK; kind++) {
        int places = kind < HALAY_INTERFACE_LOOPBACK ? max - has_loopback : max;
        for (int i = 0; i < count && n < places; i++)
            if ((int)own[i].kind == kind)
                addresses[n++] = own[i].address;
    }
    return n;
}

/* The interface of IPv4's default route with the smallest metric; "" without one. */
static void default_interface(char name[IF_NAMESIZE])
{
    char line[256], one[IF_NAMESIZE];
    unsigned long destination, mask, metric, least = ULONG_MAX;
    FILE *routes = fopen("/proc/net/route", "re");

    *name = 0;
    while (routes && fgets(line, sizeof line, routes))
        if (sscanf(line, "%15s %lx %*x %*x %*d %*d %lu %lx", one, &destination, &metric, &mask) == 4 && !destination &&
            !mask && metric < least) {
            least = metric;
            memcpy(name, one, sizeof one);
        }
    if (routes)
        fclose(routes);
}

static int has_entry(const char *name, const char *entry)
{
    char path[64 + IF_NAMESIZE];

    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, entry);
    return !access(path, F_OK);
}

static enum halay_interface_kind kind_of(const struct ifaddrs *from, const char *route)
{
    char name[IF_NAMESIZE];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(from->ifa_name, ":"), from->ifa_name); /* "eth0:1" is eth0 */
    if (from->ifa_flags & IFF_LOOPBACK)
        return HALAY_INTERFACE_LOOPBACK;
    if (!(from->ifa_flags & IFF_RUNNING))
        return HALAY_INTERFACE_BRIDGE;
    if (!strcmp(name, route))
        return HALAY_INTERFACE_DEFAULT;
    if (has_entry(name, "bridge"))
        return HALAY_INTERFACE_BRIDGE;
    return has_entry(name, "device") ? HALAY_INTERFACE_PHYSICAL : HALAY_INTERFACE_OTHER;
}

int halay_network_has(const char *word, size_t length, const char *interface, const struct halay_address *address)
{
    struct halay_prefix prefix;
    int whole, rest;

    if (!memchr(word, '/', length))
        return strlen(interface) == length && !memcmp(interface, word, length);
    if (halay_parse_prefix(word, length, &prefix) != HALAY_OK || prefix.family != address->family)
        return 0;
    whole = prefix.bits / 8;
    rest = prefix.bits % 8;
    return !memcmp(prefix.bytes, address->bytes, (size_t)whole) &&
           (!rest || !((prefix.bytes[whole] ^ address->bytes[whole]) >> (8 - rest)));
}

int halay_network_find(const char *list, int family, struct halay_address *address)
{
    struct ifaddrs *all;
    int found = 0;

    if (getifaddrs(&all) < 0)
        return -1;
    for (const char *word = list; *word && !found; word += strspn(word, ",")) {
        size_t length = strcspn(word, ",");
        for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
            found = i->ifa_addr && i->ifa_flags & IFF_UP && halay_address_take(i->ifa_addr, 0, address) &&
                    (!family || address->family == family) && halay_network_has(word, length, i->ifa_name, address);
        word += length;
    }
    freeifaddrs(all);
    return found;
}

/* own: HALAY_ADDRESSES_ALL of them. route: of the default route, for their kinds; NULL: these are not asked for. */
static enum halay_status list_own(struct halay_log *log, const char *network, int port, const char *route,
                                  struct halay_own_address *own, int *count)
{
    struct ifaddrs *all;
    int n = 0;

    if (getifaddrs(&all) < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot list this host's addresses: %s", strerror(errno));
    for (struct ifaddrs *i = all; i && n < HALAY_ADDRESSES_ALL; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_flags & IFF_UP && halay_address_take(i->ifa_addr, port, &own[n].address) &&
            (!network || halay_network_has(network, strlen(network), i->ifa_name, &own[n].address)))
            own[n++].kind = route ? kind_of(i, route) : HALAY_INTERFACE_OTHER;
    freeifaddrs(all);
    *count = n;
    return HALAY_OK;
}

enum halay_status halay_own_addresses(struct halay_log *log, const char *network, int port, int max,
                                      struct halay_address *addresses, int *count)
{
    struct halay_own_address own[HALAY_ADDRESSES_ALL];
    char route[IF_NAMESIZE];
    int n;

    default_interface(route);
    enum halay_status status = list_own(log, network, port, route, own, &n);
    if (status != HALAY_OK)
        return status;
    *count = halay_addresses_choose(own, n, max, addresses);
    if (n > *count)
        halay_warning(log,
                      "this host has %d addresses; other hosts get %d of them, likely ones first: "
                      "HALAY_NETWORK_INTERFACE (halayrun --network-interface) names the interface that counts",
                      n, *count);
    return HALAY_OK;
}

enum halay_status halay_addresses_list(struct halay_log *log, const char *network, struct halay_address *addresses,
                                       int *count)
{
    struct halay_own_address own[HALAY_ADDRESSES_ALL];
    enum halay_status status = list_own(log, network, 0, NULL, own, count);

    for (int i = 0; status == HALAY_OK && i < *count; i++)
        addresses[i] = own[i].address;
    return status;
}

int halay_address_is_loopback(const struct halay_address *address)
{
    if (address->family == AF_INET)
        return address->bytes[0] == IN_LOOPBACKNET;
    return address->family == AF_INET6 && IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)(const void *)address->bytes);
}

int halay_address_is_among(const struct sockaddr *address, const struct halay_address *list, int count)
{
    struct halay_address wanted;

    if (!halay_address_take(address, 0, &wanted))
        return 0;
    for (int i = 0; i < count; i++)
        if (list[i].family == wanted.family && !memcmp(list[i].bytes, wanted.bytes, sizeof wanted.bytes))
            return 1;
    return 0;
}

/* Turns ::ffff:10.0.0.1, as a socket for both families reports 10.0.0.1, back into that. */
static void address_unmap(struct halay_address *address)
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

    if (address->family != AF_INET6 || memcmp(address->bytes, mapped, sizeof mapped) != 0)
        return;
    address->family = AF_INET;
    memmove(address->bytes, address->bytes + sizeof mapped, 4);
    memset(address->bytes + 4, 0, sizeof address->bytes - 4);
}

void halay_address_interface(const struct halay_address *address, char name[IF_NAMESIZE])
{
    struct halay_address has;
    struct ifaddrs *all;

    *name = 0;
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i && !*name; i = i->ifa_next)
        if (i->ifa_addr && halay_address_take(i->ifa_addr, 0, &has) && has.family == address->family &&
            !memcmp(has.bytes, address->bytes, sizeof has.bytes))
            snprintf(name, IF_NAMESIZE, "%.*s", (int)strcspn(i->ifa_name, ":"), i->ifa_name); /* "eth0:1" is eth0 */
    freeifaddrs(all);
}

int halay_socket_address(int fd, struct halay_address *address)
{
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;

    if (getsockname(fd, (struct sockaddr *)&bound, &length) < 0)
        return -1;
    (void)halay_address_take((const struct sockaddr *)&bound, 0, address);
    address->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                      : ((struct sockaddr_in *)&bound)->sin_port);
    return 0;
}

void halay_socket_interface(int fd, char name[IF_NAMESIZE])
{
    struct halay_address address;

    *name = 0;
    if (halay_socket_address(fd, &address) < 0)
        return;
    address_unmap(&address);
    halay_address_interface(&address, name);
}

/* A number of /sys/class/net, or -1. */
static long read_entry(const char *name, const char *entry)
{
    char text[32];
    const int found = halay_read_line(text, sizeof text, "", "/sys/class/net/%s/%s", name, entry);

    return found ? strtol(text, NULL, 0) : -1;
}

int halay_flows_of(long vendor, long speed_mbit)
{
    long cap = vendor == VENDOR_AMAZON ? 5000 : vendor == VENDOR_GOOGLE ? 10000 : 0;

    if (!cap)
        return 1;
    if (speed_mbit <= 0)
        return FLOWS_UNKNOWN;
    long flows = (speed_mbit + cap - 1) / cap;
    return flows < FLOWS_MAX ? (int)flows : FLOWS_MAX;
}

int halay_interface_flows(const char *name)
{
    return halay_flows_of(read_entry(name, "device/vendor"), read_entry(name, "speed"));
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

int halay_address_parse(const char *text, struct addrinfo **found)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    const int is_bracketed = *text == '[';
    const char *colon = strrchr(text, ':'), *start = text + is_bracketed, *end = colon ? colon - is_bracketed : start;
    char host[64];
    long port; /* getaddrinfo takes larger ones, modulo 65536 */

    if (end <= start || (is_bracketed && *end != ']') || (size_t)(end - start) >= sizeof host)
        return 0;
    snprintf(host, sizeof host, "%.*s", (int)(end - start), start);
    return halay_parse_long(colon + 1, 1, 65535, &port) == HALAY_OK && !getaddrinfo(host, colon + 1, &hints, found);
}
