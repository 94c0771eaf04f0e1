/* SPDX-License-Identifier: Apache-2.0
 *
 * Master: the port is closed again, and rank 0 may need seconds until it listens there. So it is not one of those that
 * the system gives to a program that asks for any port: they begin at 32768, as a rule. Among the user's ports it is
 * the last that is free, since ranks that listen take the first ones.
 */
#include "launcher/local/master.h"
#include "launcher/where/reach.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FIRST = 20000, LAST = 32767, TRIES = 32 };

/* 0: it is not free. */
static int try_port(struct halay_log *log, const char *interface, int port, struct halay_address *address)
{
    const struct halay_network one = { interface, { port, port } };
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    int fd, count = 0;

    if (halay_listen(log, &one, HALAY_ADDRESSES_MAX, &fd, addresses, &count) != HALAY_OK)
        return 0;
    close(fd);
    *address = addresses[0];
    return count > 0;
}

static int try_ports(const char *interface, const int ports[2], struct halay_address *address)
{
    unsigned char random[2 * TRIES];

    for (int port = ports[1]; ports[1] && port >= ports[0]; port--)
        if (try_port(NULL, interface, port, address))
            return 1;
    if (ports[1] || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return 0;
    for (int i = 0; i < TRIES; i++)
        if (try_port(NULL, interface, FIRST + (random[2 * i] << 8 | random[2 * i + 1]) % (LAST - FIRST + 1), address))
            return 1;
    return 0;
}

enum halay_status master_find(struct halay_log *log, const struct halay_network *network, const char *towards,
                              struct master *master)
{
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    char text[HALAY_ADDRESS_TEXT];
    int fd, count;

    if (!try_ports(network->interface, network->ports, &addresses[0])) { /* for its error, or any port */
        enum halay_status status = halay_listen(log, network, HALAY_ADDRESSES_MAX, &fd, addresses, &count);
        if (status != HALAY_OK)
            return status;
        close(fd);
    }
    halay_address_text(&addresses[0], text, sizeof text);
    master->port = addresses[0].port;
    if (network->interface || !towards || !reach_from(towards, master->address))
        master_cut_port(text, master->address);
    return HALAY_OK;
}

void master_cut_port(const char *text, char address[HALAY_ADDRESS_TEXT])
{
    const char *colon = strrchr(text, ':');
    int is_bracketed = *text == '[';

    snprintf(address, HALAY_ADDRESS_TEXT, "%.*s", (int)(colon ? colon - text : (long)strlen(text)) - 2 * is_bracketed,
             text + is_bracketed);
}
