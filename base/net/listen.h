/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen: a port for other hosts, on the networks and among the ports that the user allows.
 */
#ifndef HALAY_BASE_LISTEN_H
#define HALAY_BASE_LISTEN_H

#include "base/net/address.h"

struct halay_network {
    const char *interface; /* interfaces and prefixes, split by commas: the first of them that this host has an address
                            * in; NULL: all */
    int ports[2];          /* first and last; 0: the system's choice */
};

/* A port that listens, and by which addresses others reach it. Zero-initialised: none. */
struct halay_host_port {
    int is_open;
    int fd; /* owned if is_open */
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
};

/* Listen there: *fd (closed on exec, not blocking) is the caller's; addresses, *count of `max`, are those by which
 * others may reach it (halay_own_addresses), each with its port; max 0: they are not asked for. network may be NULL.
 * HALAY_ERR_CONFIG, logged with what there is: no such interface, or no port of these is free; HALAY_ERR_SYSTEM,
 * logged. */
enum halay_status halay_listen(struct halay_log *log, const struct halay_network *network, int max, int *fd,
                               struct halay_address *addresses, int *count);

/* Listen at this address of this host only, at its port: *fd as above. HALAY_ERR_CONFIG, HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_listen_at(struct halay_log *log, const struct halay_address *address, int *fd);

#endif
