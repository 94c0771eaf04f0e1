/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of this host, by which others may reach it. All are offered; which of them can be reached, the others find
 * out by trying.
 */
#ifndef HALAY_BASE_ADDRESS_H
#define HALAY_BASE_ADDRESS_H

#include "base/log.h"
#include "halay_types.h"
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HALAY_ADDRESSES_MAX = 16, HALAY_ADDRESSES_ALL = 256, HALAY_ADDRESS_TEXT = 64 };

struct halay_address {
    uint16_t family; /* AF_INET or AF_INET6; 0: none */
    uint16_t port;   /* in the order of the host */
    unsigned char bytes[16];
};

/* By how likely it is that other hosts reach an interface. An idle one has no link (IFF_RUNNING). */
enum halay_interface_kind {
    HALAY_INTERFACE_DEFAULT, /* has the default route */
    HALAY_INTERFACE_PHYSICAL,
    HALAY_INTERFACE_OTHER,
    HALAY_INTERFACE_BRIDGE, /* or idle */
    HALAY_INTERFACE_LOOPBACK
};

struct halay_own_address {
    struct halay_address address;
    enum halay_interface_kind kind;
};

/* Lists this host's addresses for other hosts, at most `max` (a warning if there are more), in the order of
 * halay_addresses_choose, without link-local ones, which need an interface. network: only those
 * that halay_network_has; NULL: all. *count: their number. */
enum halay_status halay_own_addresses(struct halay_log *log, const char *network, int port, int max,
                                      struct halay_address *addresses, int *count);
/* Lists all of them, HALAY_ADDRESSES_ALL at most, in the system's order: to test if an address is this host's. */
enum halay_status halay_addresses_list(struct halay_log *log, const char *network, struct halay_address *addresses,
                                       int *count);
/* Copies the likeliest `max` of them, in order; the last one is a loopback if the host has one: its own ranks may need
 * it. Returns their number. */
int halay_addresses_choose(const struct halay_own_address *own, int count, int max, struct halay_address *addresses);
/* Returns nonzero if the word, an interface's name or a prefix ("10.0.0.0/8"), is of `length` letters and names this
 * address of this interface. */
int halay_network_has(const char *word, size_t length, const char *interface, const struct halay_address *address);
/* Sets address to the first of this family (0: either) in the first of these networks, split by commas, that has one.
 * Returns 1, 0: this host has none, or -1 (errno). */
int halay_network_find(const char *list, int family, struct halay_address *address);
/* Converts an address of the system. Returns zero if other hosts cannot use it. */
int halay_address_take(const struct sockaddr *from, int port, struct halay_address *to);
int halay_address_is_loopback(const struct halay_address *address); /* it reaches no other host */
/* Returns nonzero if the list has this address, with any port. */
int halay_address_is_among(const struct sockaddr *address, const struct halay_address *list, int count);
/* Sets address, with its port, to the one that this socket is bound to. Returns 0, or -1 (errno). */
int halay_socket_address(int fd, struct halay_address *address);
/* Sets name to the interface with the address that this socket is bound to, "eth0"; "" if unknown. */
void halay_socket_interface(int fd, char name[IF_NAMESIZE]);
/* The same for the interface with this address. */
void halay_address_interface(const struct halay_address *address, char name[IF_NAMESIZE]);
/* Returns the number of connections that use all of an interface: clouds limit each one (Amazon to 5 Gbit/s outside of
 * a placement group, Google to 10). 1 elsewhere, 4 if the speed is unknown, 8 at most. The first is pure: vendor of
 * the PCI device, -1 without one. */
int halay_flows_of(long vendor, long speed_mbit);
int halay_interface_flows(const char *name);
/* Converts to the system's form. */
socklen_t halay_address_sockaddr(const struct halay_address *address, struct sockaddr_storage *out);
/* "10.0.0.1:4000", "[::1]:4000" */
void halay_address_text(const struct halay_address *address, char *text, size_t size);
/* The opposite, as getaddrinfo has it: *found is freed by freeaddrinfo. Returns 0 if the text is neither. */
int halay_address_parse(const char *text, struct addrinfo **found);

#endif
