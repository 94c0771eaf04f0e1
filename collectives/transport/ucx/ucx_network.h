/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of UCX's network devices a rank may use.
 *
 * UCX takes any network that is up and holds every address for reachable: also those of a bridge of containers, which
 * every host has, and of a card that leads elsewhere. So its TCP is kept to networks by which other hosts were reached,
 * or that the user names. Ports of RDMA cards are always allowed.
 */
#ifndef HALAY_UCX_NETWORK_H
#define HALAY_UCX_NETWORK_H

#include <stddef.h>

/* Counts TCP's devices and the ports of RDMA cards among the devices that UCX lists ("flags -- tcp/eth0",
 * ucp_context_print_info). Memory, of the host or of a GPU, is neither. */
void halay_ucx_networks(const char *listing, int *tcp, int *cards);

/* A value for NET_DEVICES: of the devices that UCX lists those of TCP that are among `interfaces` ("eth0,eth1"), and
 * all ports of RDMA cards. Returns how many of TCP are taken; others: how many of TCP are not. A list that doesn't fit
 * into size bytes is cut. */
int halay_ucx_devices(const char *listing, const char *interfaces, char *devices, size_t size, int *others);

#endif
