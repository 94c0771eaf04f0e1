/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of UCX, read from the text in which it lists what a context has: one line a transport and device.
 */
#include "collectives/transport/ucx/ucx_network.h"
#include <stdio.h>
#include <string.h>

/* Is that text, `length` bytes of it, among a list's? */
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

int halay_ucx_devices(const char *listing, const char *interfaces, char *devices, size_t size, int *others)
{
    static const char mark[] = " -- ";
    size_t used = 0;
    int taken = 0;

    *devices = 0;
    *others = 0;
    for (const char *at = strstr(listing, mark); at; at = strstr(at, mark)) {
        at += sizeof mark - 1;
        const char *name = at + strcspn(at, "/\n") + 1;
        size_t length = strcspn(name, " \n");
        int is_tcp = !strncmp(at, "tcp/", 4);
        /* A port of a card is "mlx5_0:1"; memory and devices that are no network have no port. */
        int is_wanted = is_tcp ? is_among(interfaces, name, length) : !!memchr(name, ':', length);
        *others += is_tcp && !is_wanted;
        taken += is_tcp && is_wanted;
        if (is_wanted && !is_among(devices, name, length) && used + length + 2 <= size)
            used += (size_t)snprintf(devices + used, size - used, "%s%.*s", used ? "," : "", (int)length, name);
    }
    return taken;
}
