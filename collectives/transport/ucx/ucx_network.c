/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of UCX, read from the text in which it lists what a context has: one line a transport and device.
 */
#include "collectives/transport/ucx/ucx_network.h"
#include <stdio.h>
#include <string.h>

/* Returns nonzero if the list has this name of `length` bytes. */
static int is_among(const char *list, const char *name, size_t length)
{
    for (const char *at = list; *at; at += strspn(at, ",")) {
        size_t here = strcspn(at, ",");
        if (here == length && !memcmp(at, name, length))
            return 1;
        at += here;
    }
    return 0;
}

static const char mark[] = " -- "; /* before each device */

/* Reads a device's name; returns nonzero if it is one of TCP's. A port of a card is "mlx5_0:1"; memory and devices
 * without a network have no port. */
static int device_read(const char *at, const char **name, size_t *length, int *is_port)
{
    *name = at + strcspn(at, "/\n") + 1;
    *length = strcspn(*name, " \n");
    *is_port = !!memchr(*name, ':', *length);
    return !strncmp(at, "tcp/", 4);
}

void halay_ucx_networks(const char *listing, int *tcp, int *cards)
{
    const char *name;
    size_t length;
    int is_port;

    *tcp = *cards = 0;
    for (const char *at = strstr(listing, mark); at; at = strstr(at, mark)) {
        at += sizeof mark - 1;
        int is_tcp = device_read(at, &name, &length, &is_port);
        *tcp += is_tcp;
        *cards += !is_tcp && is_port;
    }
}

int halay_ucx_devices(const char *listing, const char *interfaces, char *devices, size_t size, int *others)
{
    const char *name;
    size_t length;
    int is_port;
    size_t used = 0;
    int taken = 0;

    *devices = 0;
    *others = 0;
    for (const char *at = strstr(listing, mark); at; at = strstr(at, mark)) {
        at += sizeof mark - 1;
        int is_tcp = device_read(at, &name, &length, &is_port);
        int is_wanted = is_tcp ? is_among(interfaces, name, length) : is_port;
        *others += is_tcp && !is_wanted;
        taken += is_tcp && is_wanted;
        if (is_wanted && !is_among(devices, name, length) && used + length + 2 <= size)
            used += (size_t)snprintf(devices + used, size - used, "%s%.*s", used ? "," : "", (int)length, name);
    }
    return taken;
}
