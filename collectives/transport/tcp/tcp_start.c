/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of the tcp transport: the key, the invitation, the connections and how they behave.
 *
 * A connection that nobody uses tells nothing about its other end, so the systems ask each other every second; one that
 * is silent for how->silence_ms, with a question or with data unanswered, is given up by them.
 */
#include "collectives/transport/tcp/tcp_start.h"
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASK_EVERY_S = 1, SPARE_DESCRIPTORS = 16 };

static enum halay_status exchange(struct halay_log *log, struct halay_boot *boot,
                                  struct halay_tcp_invitation *invitation, int timeout_ms)
{
    struct halay_tcp_invitation *all = calloc((size_t)boot->size, sizeof *all);

    if (!all) {
        halay_error(log, "no memory for the addresses of %d ranks", boot->size);
        return HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status = boot->ops->allgather(boot, invitation, sizeof *invitation, all, timeout_ms);
    if (status == HALAY_OK)
        *invitation = all[0];
    explicit_bzero(all, (size_t)boot->size * sizeof *all);
    free(all);
    return status;
}

static void derive_key(struct halay_boot *boot, const struct halay_tcp_invitation *invitation, unsigned char *key)
{
    unsigned char secret[HALAY_SECRET_BYTES] = { 0 };

    if (boot->ops->secret)
        boot->ops->secret(boot, secret);
    store_derive(secret, "control-", invitation->salt, sizeof invitation->salt, key);
    explicit_bzero(secret, sizeof secret);
}

/* The time decides, not the number of questions, which the system limits to 127. */
static enum halay_status set_up(struct halay_log *log, int fd, int silence_ms)
{
    const int questions = silence_ms / 1000 / ASK_EVERY_S;
    const struct {
        int level, name, value;
    } options[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, ASK_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, ASK_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, questions < 127 ? questions : 127 },
        { IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms },
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value) < 0) {
            halay_error(log, "cannot set up a connection between hosts: %s", strerror(errno));
            return HALAY_ERR_SYSTEM;
        }
    return HALAY_OK;
}

/* Rank 0: room for a connection with each other rank, and a port. */
static enum halay_status open_port(struct halay_log *log, const struct halay_network *network, int size,
                                   struct halay_tcp_invitation *invitation, int *listener)
{
    char what[64];
    int count;

    snprintf(what, sizeof what, "connections of rank 0 with %d ranks", size - 1);
    enum halay_status status = halay_descriptors_allow(log, (size_t)(size - 1) + SPARE_DESCRIPTORS, what);
    if (status != HALAY_OK)
        return status;
    store_draw(invitation->salt, sizeof invitation->salt);
    return halay_listen(log, network, HALAY_ADDRESSES_MAX, listener, invitation->addresses, &count);
}

enum halay_status halay_tcp_start(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                  const struct halay_peers *peers, struct halay_tcp_stream *streams)
{
    int64_t deadline_us = halay_deadline_us(how->timeout_ms);
    struct halay_tcp_invitation invitation = { 0 };
    unsigned char key[HALAY_SECRET_BYTES];
    int listener = -1;

    enum halay_status status = store_init(log);
    if (status == HALAY_OK && boot->rank == 0)
        status = open_port(log, &how->network, boot->size, &invitation, &listener);
    /* Without a port the others are offered none, and fail at once. */
    enum halay_status exchanged = exchange(log, boot, &invitation, how->timeout_ms);
    if (status == HALAY_OK)
        status = exchanged;
    derive_key(boot, &invitation, key);
    if (status == HALAY_OK)
        status = boot->rank ? halay_tcp_connect(log, &invitation, key, boot->rank, halay_peers_host(peers, 0),
                                                deadline_us, streams)
                            : halay_tcp_accept_all(log, listener, key, boot->size, deadline_us, streams);
    for (int r = 0; r < boot->size && status == HALAY_OK; r++)
        if (streams[r].fd >= 0)
            status = set_up(log, streams[r].fd, how->silence_ms);
    if (listener >= 0)
        close(listener);
    explicit_bzero(key, sizeof key);
    explicit_bzero(&invitation, sizeof invitation);
    return status;
}
