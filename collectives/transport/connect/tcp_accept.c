/* SPDX-License-Identifier: Apache-2.0
 *
 * Accept: pending connections, from accept to proof.
 */
#include "collectives/transport/connect/tcp_accept.h"
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include "collectives/transport/connect/tcp_handover.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES_MIN = 128, HELLO_MS = 5000, REOPEN_US = 50000, ACCEPT_MOST = 16, SILENT_S = 5 };

struct halay_tcp_pending {
    struct halay_tcp_watch watch; /* first: found by its watch; its fd is owned */
    struct halay_tcp_acceptor *acceptor;
    struct halay_tcp_pending *next;
    int is_local;        /* it passes connections that another rank of this host has accepted */
    int was_passed;      /* such a rank has passed it */
    int has_greeted;     /* its hello was right: the proof is next */
    int is_too_late;     /* the rank of this host that it wants has ended */
    int64_t deadline_us; /* of its hello, then of its proof */
    size_t have;
    struct store_handshake handshake;
};

static enum halay_status watch_ports(struct halay_tcp_acceptor *acceptor, uint32_t events)
{
    enum halay_status status = HALAY_OK;

    if (acceptor->port.watch.fd >= 0)
        status = halay_tcp_set_watch(acceptor->route->set, &acceptor->port.watch, events);
    if (status == HALAY_OK && acceptor->local.watch.fd >= 0)
        status = halay_tcp_set_watch(acceptor->route->set, &acceptor->local.watch, events);
    return status;
}

static void listen_again(struct halay_tcp_acceptor *acceptor)
{
    acceptor->reopen_us = 0;
    (void)watch_ports(acceptor, EPOLLIN);
}

/* Takes it out of the table; its descriptor stays. */
static void pending_forget(struct halay_tcp_pending *p)
{
    struct halay_tcp_acceptor *acceptor = p->acceptor;
    struct halay_tcp_pending **at = &acceptor->first;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (!*at)
        acceptor->end = at;
    acceptor->count--;
    (void)halay_tcp_set_watch(acceptor->route->set, &p->watch, 0);
    explicit_bzero(p, sizeof *p);
    free(p);
    if (acceptor->reopen_us)
        listen_again(acceptor);
}

static void pending_end(struct halay_tcp_pending *p)
{
    int fd = p->watch.fd;

    pending_forget(p);
    close(fd);
}

static void pending_drop(struct halay_tcp_pending *p, const char *why)
{
    halay_info(p->acceptor->log, "a pending connection was dropped: %s", why);
    pending_end(p);
}

/* Makes room by dropping the oldest that has not sent a right hello. Zero if all have. */
static int drop_one(struct halay_tcp_acceptor *acceptor, const char *why)
{
    for (struct halay_tcp_pending *p = acceptor->first; p; p = p->next)
        if (!p->has_greeted) {
            pending_drop(p, why);
            return 1;
        }
    return 0;
}

/* The ports are looked at again when a place is free, or after a while. */
static void pause_listening(struct halay_tcp_acceptor *acceptor)
{
    (void)watch_ports(acceptor, 0);
    acceptor->reopen_us = halay_now_us() + REOPEN_US;
}

/* Nonzero if there may be one now. */
static int get_descriptor(struct halay_tcp_acceptor *acceptor)
{
    if (drop_one(acceptor, "out of descriptors"))
        return 1;
    if (!acceptor->is_out && halay_descriptors_allow(acceptor->log, 1, "a connection of another rank") == HALAY_OK)
        return 1;
    acceptor->is_out = 1;
    pause_listening(acceptor);
    return 0;
}

/* Reads to the number of bytes that its phase needs and not one more. Nonzero once they are there. */
static int pending_read(struct halay_tcp_pending *p, unsigned char *to, size_t need)
{
    ssize_t n = recv(p->watch.fd, to + p->have, need - p->have, 0);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n <= 0) {
        pending_drop(p, "it was closed");
        return 0;
    }
    p->have += (size_t)n;
    return p->have == need;
}

static void pending_challenge(struct halay_tcp_pending *p)
{
    const struct halay_tcp_acceptor *acceptor = p->acceptor;

    store_make_challenge(&p->handshake, acceptor->route->key, HALAY_TCP_VERSION);
    /* To another version too: it names ours, then that side closes. A fresh socket takes that little at once. */
    if (send(p->watch.fd, p->handshake.challenge, STORE_HELLO_BYTES, MSG_NOSIGNAL) != STORE_HELLO_BYTES) {
        pending_drop(p, "it takes no answer");
        return;
    }
    p->has_greeted = 1;
    p->deadline_us = halay_deadline_us(acceptor->proof_ms);
    p->have = 0;
}

/* To the rank of this host that it wants. What is closed without an answer tries again, and passes over an address of
 * another host; if that rank has ended, this one answers. */
static void pass_on(struct halay_tcp_pending *p, uint32_t to)
{
    const struct halay_tcp_acceptor *acceptor = p->acceptor;
    int fd = p->watch.fd;

    if (p->was_passed || !acceptor->pass || to >= (uint32_t)acceptor->size) {
        pending_drop(p, "it wants a rank that is not here");
        return;
    }
    switch (acceptor->pass(acceptor->arg, (int)to, fd, p->handshake.hello)) {
    case HALAY_OK:
        pending_forget(p);
        close(fd);
        break;
    case HALAY_ERR_PEER:
        p->is_too_late = 1;
        pending_challenge(p);
        break;
    default:
        pending_drop(p, "the rank that it wants is not of this host, or cannot take it now");
    }
}

static void take_hello(struct halay_tcp_pending *p)
{
    const struct halay_tcp_route *route = p->acceptor->route;
    uint32_t to = halay_tcp_hello_to(p->handshake.hello);

    if (!store_is_hello(&p->handshake, route->key))
        pending_drop(p, "no hello that is signed with this job's secret");
    else if (store_version(p->handshake.hello) == HALAY_TCP_VERSION && to != (uint32_t)route->rank)
        pass_on(p, to);
    else
        pending_challenge(p);
}

/* Returns the byte that answers its proof; -1: none. */
static int answer_to(const struct halay_tcp_pending *p, uint32_t rank)
{
    const struct halay_tcp_acceptor *acceptor = p->acceptor;

    if (p->is_too_late)
        return HALAY_TCP_ENDED;
    switch (acceptor->claim(acceptor->arg, (int)rank, halay_tcp_hello_stream(p->handshake.hello))) {
    case HALAY_TCP_CLAIM_TAKE:
        return HALAY_TCP_TAKEN;
    case HALAY_TCP_CLAIM_REFUSE:
        return HALAY_TCP_YOURS_NOT;
    default:
        return -1;
    }
}

static void take_proof(struct halay_tcp_pending *p)
{
    struct halay_tcp_acceptor *acceptor = p->acceptor;
    const unsigned char *hello = p->handshake.hello;
    uint32_t rank = store_rank(hello);
    int fd = p->watch.fd;

    if (!store_is_proof(&p->handshake, acceptor->route->key)) {
        pending_drop(p, "a wrong proof");
        return;
    }
    if (store_version(hello) != HALAY_TCP_VERSION || rank >= (uint32_t)acceptor->size ||
        rank == (uint32_t)acceptor->route->rank) {
        pending_drop(p, "not another rank of this job, or of another version");
        return;
    }
    int answer = answer_to(p, rank);
    if (answer < 0) {
        pending_drop(p, "a rank that is connected, or lost");
        return;
    }
    int is_told = send(fd, &(char){ (char)answer }, 1, MSG_NOSIGNAL) == 1;
    if (!is_told || answer != HALAY_TCP_TAKEN) {
        pending_drop(p, is_told ? "it is not to connect" : "it takes no answer");
        return;
    }
    struct store_handshake handshake = p->handshake;
    pending_forget(p);
    acceptor->taken(acceptor->arg, (int)rank, fd, &handshake);
    explicit_bzero(&handshake, sizeof handshake);
}

static void take_listener(struct halay_tcp_acceptor *acceptor, int fd)
{
    if (acceptor->port.watch.fd >= 0) {
        close(fd);
        return;
    }
    acceptor->port.watch.fd = fd;
    if (!acceptor->reopen_us)
        (void)watch_ports(acceptor, EPOLLIN);
}

/* Receives what another rank of this host passes: a connection with its hello, or the listener. */
static void take_passed(struct halay_tcp_pending *p)
{
    struct halay_tcp_acceptor *acceptor = p->acceptor;
    int fd;
    ssize_t count = halay_local_receive(p->watch.fd, p->handshake.hello, STORE_HELLO_BYTES, &fd, 1);

    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (fd >= 0 && count == STORE_HELLO_BYTES) {
        (void)halay_tcp_set_watch(acceptor->route->set, &p->watch, 0);
        close(p->watch.fd);
        p->watch.fd = fd;
        p->is_local = 0;
        p->was_passed = 1;
        if (halay_tcp_set_watch(acceptor->route->set, &p->watch, EPOLLIN) == HALAY_OK)
            take_hello(p);
        else
            pending_drop(p, "it cannot be waited for");
        return;
    }
    if (fd >= 0 && count == 1)
        take_listener(acceptor, fd);
    else if (fd >= 0)
        close(fd);
    pending_end(p);
}

static void pending_ready(struct halay_tcp_watch *watch, uint32_t events)
{
    struct halay_tcp_pending *p = (struct halay_tcp_pending *)watch;

    (void)events;
    if (p->is_local) {
        take_passed(p);
    } else if (p->has_greeted) {
        if (pending_read(p, p->handshake.proof, STORE_MAC_BYTES))
            take_proof(p);
    } else if (pending_read(p, p->handshake.hello, STORE_HELLO_BYTES)) {
        take_hello(p);
    }
}

/* Reads what has arrived at once: this rank may make no other turn for a long time, and the connection may be another
 * one's. */
static void pending_add(struct halay_tcp_acceptor *acceptor, int fd, int is_local)
{
    struct halay_tcp_pending *p = calloc(1, sizeof *p);

    if (!p) {
        close(fd); /* it tries again */
        return;
    }
    *p = (struct halay_tcp_pending){ .watch = { .fd = fd, .ready = pending_ready },
                                     .acceptor = acceptor,
                                     .is_local = is_local,
                                     .deadline_us = halay_deadline_us(HELLO_MS) };
    *acceptor->end = p;
    acceptor->end = &p->next;
    acceptor->count++;
    if (halay_tcp_set_watch(acceptor->route->set, &p->watch, EPOLLIN) == HALAY_OK)
        pending_ready(&p->watch, EPOLLIN);
    else
        pending_drop(p, "it cannot be waited for");
}

static void port_ready(struct halay_tcp_watch *watch, uint32_t events)
{
    const struct halay_tcp_port *port = (struct halay_tcp_port *)watch;
    struct halay_tcp_acceptor *acceptor = port->acceptor;
    int is_local = port == &acceptor->local;

    (void)events;
    for (int i = 0; i < ACCEPT_MOST; i++) {
        if (acceptor->count >= acceptor->places && !drop_one(acceptor, "too many at once")) {
            pause_listening(acceptor);
            return;
        }
        int fd = accept4(port->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if ((errno == EMFILE || errno == ENFILE) && get_descriptor(acceptor))
                continue;
            return; /* any other error concerns that connection only, or occurs again */
        }
        if (!is_local || halay_local_is_own_user(fd, NULL))
            pending_add(acceptor, fd, is_local);
        else
            close(fd);
    }
}

static void port_close(struct halay_tcp_acceptor *acceptor, struct halay_tcp_port *port)
{
    if (port->watch.fd < 0)
        return;
    (void)halay_tcp_set_watch(acceptor->route->set, &port->watch, 0);
    close(port->watch.fd);
    port->watch.fd = -1;
}

/* A connection that has sent nothing is left to the system for a while, so that what is accepted can be passed on at
 * once. */
enum halay_status halay_tcp_open_port(struct halay_log *log, const struct halay_network *network,
                                      struct halay_host_port *port)
{
    int count;
    enum halay_status status = halay_listen(log, network, HALAY_ADDRESSES_MAX, &port->fd, port->addresses, &count);

    port->is_open = status == HALAY_OK;
    if (port->is_open)
        (void)!setsockopt(port->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &(int){ SILENT_S }, sizeof(int)); /* it may refuse */
    return status;
}

enum halay_status halay_tcp_acceptor_open(struct halay_tcp_acceptor *acceptor, int port, int local)
{
    acceptor->port = (struct halay_tcp_port){ .watch = { .fd = port, .ready = port_ready }, .acceptor = acceptor };
    acceptor->local = (struct halay_tcp_port){ .watch = { .fd = local, .ready = port_ready }, .acceptor = acceptor };
    acceptor->places = acceptor->size > PLACES_MIN / 2 ? 2 * acceptor->size : PLACES_MIN;
    acceptor->end = &acceptor->first;
    return watch_ports(acceptor, EPOLLIN);
}

void halay_tcp_acceptor_close(struct halay_tcp_acceptor *acceptor)
{
    while (acceptor->first)
        pending_drop(acceptor->first, "this rank leaves");
    port_close(acceptor, &acceptor->port);
    port_close(acceptor, &acceptor->local);
}

int64_t halay_tcp_acceptor_look(struct halay_tcp_acceptor *acceptor, int64_t now_us)
{
    int64_t next = HALAY_NEVER;

    for (struct halay_tcp_pending *p = acceptor->first, *after; p; p = after) {
        after = p->next;
        if (now_us >= p->deadline_us)
            pending_drop(p, p->has_greeted ? "no proof in time" : "no hello in time");
        else if (p->deadline_us < next)
            next = p->deadline_us;
    }
    if (acceptor->reopen_us && now_us >= acceptor->reopen_us)
        listen_again(acceptor);
    return acceptor->reopen_us && acceptor->reopen_us < next ? acceptor->reopen_us : next;
}
