/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of the start between hosts: see boot_hosts.h.
 */
#include "collectives/transport/bootstrap/boot_hosts.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum halay_status halay_boot_hosts_open(struct halay_boot_hosts *self, const struct halay_boot *boot,
                                        const unsigned char *secret, const char *name, const char *interface)
{
    if (self->is_open)
        return HALAY_OK;
    enum halay_status status = store_init(boot->log);
    if (status != HALAY_OK)
        return status;
    self->is_open = 1;
    self->route = (struct halay_tcp_route){ .set = &self->set, .rank = boot->rank };
    self->acceptor = (struct halay_tcp_acceptor){
        .port.watch.fd = -1, .local.watch.fd = -1, .log = boot->log, .route = &self->route, .size = boot->size
    };
    store_derive(secret, "meeting-", (const unsigned char *)name, strlen(name), self->route.key);
    if (interface && halay_network_find(interface, 0, &self->route.source) != 1)
        self->route.source.family = 0; /* the system chooses; who listens there says what is wrong */
    return halay_tcp_set_init(boot->log, &self->set);
}

/* ---- who accepts ---- */

/* Turns Nagle's delay off: the other end waits for each message. */
static void send_at_once(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)); /* else it is only slower */
}

static enum halay_tcp_claim claim(void *arg, int rank, int stream)
{
    const struct halay_boot_hosts *self = arg;

    (void)stream;
    return self->expects(self->arg, rank) ? HALAY_TCP_CLAIM_TAKE : HALAY_TCP_CLAIM_DROP;
}

static void taken(void *arg, int rank, int fd, const struct store_handshake *handshake)
{
    struct halay_boot_hosts *self = arg;
    struct halay_boot_connection connection = { .fd = fd, .is_signed = 1 };

    send_at_once(fd);
    store_open_directions(handshake, self->route.key, &connection.receives, &connection.sends);
    self->taken(self->arg, rank, &connection);
    explicit_bzero(&connection, sizeof connection);
}

enum halay_status halay_boot_hosts_accept(struct halay_boot_hosts *self, int port, int timeout_ms)
{
    int fd = fcntl(port, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return halay_fail(self->acceptor.log, HALAY_ERR_SYSTEM, "cannot accept connections of other hosts: %s",
                          strerror(errno));
    self->accepts = 1;
    self->acceptor.proof_ms = timeout_ms;
    self->acceptor.claim = claim;
    self->acceptor.taken = taken;
    self->acceptor.arg = self;
    return halay_tcp_acceptor_open(&self->acceptor, fd, -1);
}

int halay_boot_hosts_fd(const struct halay_boot_hosts *self)
{
    return self->accepts ? self->set.epoll : -1;
}

void halay_boot_hosts_turn(struct halay_boot_hosts *self)
{
    if (!self->accepts)
        return;
    halay_tcp_set_turn(&self->set);
    (void)halay_tcp_acceptor_look(&self->acceptor, halay_now_us()); /* the caller looks again soon */
}

void halay_boot_hosts_shut(struct halay_boot_hosts *self)
{
    if (self->accepts)
        halay_tcp_acceptor_close(&self->acceptor);
    self->accepts = 0;
}

/* ---- who connects ---- */

enum halay_status halay_boot_hosts_dial(struct halay_boot_hosts *self, const struct halay_address *addresses, int rank,
                                        int64_t deadline_us)
{
    self->dial = halay_tcp_dial_begin(&self->route, addresses, rank, 0, deadline_us);
    return self->dial ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_boot_hosts_look(struct halay_boot_hosts *self, int wait_ms, struct halay_boot_connection *out,
                                        char *why, size_t size)
{
    struct pollfd ready = { .fd = self->set.epoll, .events = POLLIN };
    const struct store_handshake *handshake;
    int64_t next_us, end_us = halay_deadline_us(wait_ms);
    enum halay_status status;

    while ((status = halay_tcp_dial_look(self->dial, halay_now_us(), &next_us)) == HALAY_IN_PROGRESS &&
           !halay_deadline_passed(end_us)) {
        (void)!poll(&ready, 1, halay_deadline_left_ms(next_us < end_us ? next_us : end_us)); /* the clock decides */
        halay_tcp_set_turn(&self->set);
    }
    if (status == HALAY_OK) {
        *out = (struct halay_boot_connection){ .fd = halay_tcp_dial_take(self->dial, &handshake), .is_signed = 1 };
        send_at_once(out->fd);
        store_open_directions(handshake, self->route.key, &out->sends, &out->receives);
    } else if (status != HALAY_IN_PROGRESS) {
        halay_tcp_dial_explain(self->dial, why, size);
    }
    return status;
}

void halay_boot_hosts_fini(struct halay_boot_hosts *self)
{
    if (!self->is_open)
        return;
    halay_tcp_dial_end(self->dial);
    halay_boot_hosts_shut(self);
    halay_tcp_set_fini(&self->set);
    explicit_bzero(self, sizeof *self);
}
