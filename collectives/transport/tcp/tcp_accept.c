/* SPDX-License-Identifier: Apache-2.0
 *
 * Accept: pending connections, from accept to proof.
 */
#include "collectives/transport/tcp/tcp_accept.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES_MIN = 128, HELLO_MS = 5000, REOPEN_US = 50000, ACCEPT_MOST = 16 };

struct halay_tcp_pending {
    struct halay_tcp_watch watch; /* first: found by its watch; its fd is owned */
    struct halay_tcp_door *door;
    struct halay_tcp_pending *next;
    int has_greeted;     /* its hello was right: the proof is next */
    int64_t deadline_us; /* of its hello, then of its proof */
    size_t have;
    struct store_handshake handshake;
};

static void listen_again(struct halay_tcp_door *door)
{
    door->reopen_us = 0;
    (void)halay_tcp_set_watch(door->route->set, &door->watch, EPOLLIN);
}

/* Takes it out of the table; its descriptor stays. */
static void pending_forget(struct halay_tcp_pending *p)
{
    struct halay_tcp_door *door = p->door;
    struct halay_tcp_pending **at = &door->first;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (!*at)
        door->end = at;
    door->count--;
    (void)halay_tcp_set_watch(door->route->set, &p->watch, 0);
    explicit_bzero(p, sizeof *p);
    free(p);
    if (door->reopen_us)
        listen_again(door);
}

static void pending_drop(struct halay_tcp_pending *p, const char *why)
{
    int fd = p->watch.fd;

    halay_info(p->door->log, "a pending connection was dropped: %s", why);
    pending_forget(p);
    close(fd);
}

/* Makes room by dropping the oldest that has not sent a right hello. Zero if all have. */
static int drop_one(struct halay_tcp_door *door, const char *why)
{
    for (struct halay_tcp_pending *p = door->first; p; p = p->next)
        if (!p->has_greeted) {
            pending_drop(p, why);
            return 1;
        }
    return 0;
}

/* The port is looked at again when a place is free, or after a while. */
static void pause_listening(struct halay_tcp_door *door)
{
    (void)halay_tcp_set_watch(door->route->set, &door->watch, 0);
    door->reopen_us = halay_now_us() + REOPEN_US;
}

static void run_out(struct halay_tcp_door *door)
{
    if (drop_one(door, "out of descriptors"))
        return;
    if (!door->has_warned)
        halay_warning(door->log, "out of descriptors: no rank can connect before some are closed (ulimit -n)");
    door->has_warned = 1;
    pause_listening(door);
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

static void take_hello(struct halay_tcp_pending *p)
{
    const struct halay_tcp_door *door = p->door;

    if (!store_is_hello(&p->handshake, door->route->key)) {
        pending_drop(p, "no hello that is signed with this job's secret");
        return;
    }
    store_make_challenge(&p->handshake, door->route->key, HALAY_TCP_VERSION);
    /* To another version too: it names ours, then that side closes. A fresh socket takes that little at once. */
    if (send(p->watch.fd, p->handshake.challenge, STORE_HELLO_BYTES, MSG_NOSIGNAL) != STORE_HELLO_BYTES) {
        pending_drop(p, "it takes no answer");
        return;
    }
    p->has_greeted = 1;
    p->deadline_us = halay_deadline_us(door->proof_ms);
    p->have = 0;
}

static void take_proof(struct halay_tcp_pending *p)
{
    struct halay_tcp_door *door = p->door;
    const unsigned char *hello = p->handshake.hello;
    uint32_t rank = store_rank(hello), me = (uint32_t)door->route->rank;
    int fd = p->watch.fd;

    if (!store_is_proof(&p->handshake, door->route->key)) {
        pending_drop(p, "a wrong proof");
        return;
    }
    if (store_version(hello) != HALAY_TCP_VERSION || rank >= (uint32_t)door->size || rank == me ||
        halay_tcp_hello_to(hello) != me) {
        pending_drop(p, "not a rank of this job that wants this one, or of another version");
        return;
    }
    enum halay_tcp_claim claim = door->claim(door->arg, (int)rank);
    if (claim == HALAY_TCP_CLAIM_DROP) {
        pending_drop(p, "a rank that is connected, or lost");
        return;
    }
    char answer = claim == HALAY_TCP_CLAIM_TAKE ? HALAY_TCP_TAKEN : HALAY_TCP_YOURS_NOT;
    int is_told = send(fd, &answer, 1, MSG_NOSIGNAL) == 1;
    if (!is_told || claim != HALAY_TCP_CLAIM_TAKE) {
        pending_drop(p, is_told ? "the other one counts" : "it takes no answer");
        return;
    }
    struct store_handshake handshake = p->handshake;
    pending_forget(p);
    door->taken(door->arg, (int)rank, fd, &handshake);
    explicit_bzero(&handshake, sizeof handshake);
}

static void pending_ready(struct halay_tcp_watch *watch, uint32_t events)
{
    struct halay_tcp_pending *p = (struct halay_tcp_pending *)watch;

    (void)events;
    if (p->has_greeted) {
        if (pending_read(p, p->handshake.proof, STORE_MAC_BYTES))
            take_proof(p);
    } else if (pending_read(p, p->handshake.hello, STORE_HELLO_BYTES)) {
        take_hello(p);
    }
}

static void pending_add(struct halay_tcp_door *door, int fd)
{
    struct halay_tcp_pending *p = calloc(1, sizeof *p);

    if (!p) {
        close(fd); /* it tries again */
        return;
    }
    *p = (struct halay_tcp_pending){ .watch = { .fd = fd, .ready = pending_ready },
                                     .door = door,
                                     .deadline_us = halay_deadline_us(HELLO_MS) };
    *door->end = p;
    door->end = &p->next;
    door->count++;
    if (halay_tcp_set_watch(door->route->set, &p->watch, EPOLLIN) != HALAY_OK)
        pending_drop(p, "it cannot be waited for");
}

static void door_ready(struct halay_tcp_watch *watch, uint32_t events)
{
    struct halay_tcp_door *door = (struct halay_tcp_door *)watch;

    (void)events;
    for (int i = 0; i < ACCEPT_MOST; i++) {
        if (door->count >= door->places && !drop_one(door, "too many at once")) {
            pause_listening(door);
            return;
        }
        int fd = accept4(door->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                run_out(door);
            return; /* any other error concerns that connection only, or occurs again */
        }
        pending_add(door, fd);
    }
}

enum halay_status halay_tcp_door_open(struct halay_tcp_door *door, int listener)
{
    door->watch = (struct halay_tcp_watch){ .fd = listener, .ready = door_ready };
    door->places = door->size > PLACES_MIN / 2 ? 2 * door->size : PLACES_MIN;
    door->end = &door->first;
    return halay_tcp_set_watch(door->route->set, &door->watch, EPOLLIN);
}

void halay_tcp_door_close(struct halay_tcp_door *door)
{
    while (door->first)
        pending_drop(door->first, "this rank leaves");
    if (door->watch.fd < 0)
        return;
    (void)halay_tcp_set_watch(door->route->set, &door->watch, 0);
    close(door->watch.fd);
    door->watch.fd = -1;
}

int64_t halay_tcp_door_look(struct halay_tcp_door *door, int64_t now_us)
{
    int64_t next = HALAY_NEVER;

    for (struct halay_tcp_pending *p = door->first, *after; p; p = after) {
        after = p->next;
        if (now_us >= p->deadline_us)
            pending_drop(p, p->has_greeted ? "no proof in time" : "no hello in time");
        else if (p->deadline_us < next)
            next = p->deadline_us;
    }
    if (door->reopen_us && now_us >= door->reopen_us)
        listen_again(door);
    return door->reopen_us && door->reopen_us < next ? door->reopen_us : next;
}
