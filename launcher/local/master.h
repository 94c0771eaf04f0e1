/* SPDX-License-Identifier: Apache-2.0
 *
 * Master: where programs meet that find each other by MASTER_ADDR and MASTER_PORT, as PyTorch's do with env://. It is
 * on rank 0's host, and rank 0 listens there; halayrun only finds an address and a port.
 */
#ifndef HALAY_LAUNCHER_MASTER_H
#define HALAY_LAUNCHER_MASTER_H

#include "base/net/listen.h"

struct master {
    char address[HALAY_ADDRESS_TEXT]; /* numbers, without a port; "": not known */
    int port;                         /* 0: not known */
};

/* Finds a port of this host that is free now, and an address: that of the network's interface, if one is named, else
 * the one from which `towards` is reached, "10.0.0.1:4000" or "[fd00::1]:4000"; NULL: the first of this host's.
 * Errors as halay_listen's. */
enum halay_status master_find(struct halay_log *log, const struct halay_network *network, const char *towards,
                              struct master *master);

/* The address in "10.0.0.1:4000", "[fd00::1]:4000". */
void master_cut_port(const char *text, char address[HALAY_ADDRESS_TEXT]);

#endif
