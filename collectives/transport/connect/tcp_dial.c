/* SPDX-License-Identifier: Apache-2.0
 *
 * Dial: attempts and what ends them.
 */
#include "collectives/transport/connect/tcp_dial.h"
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_US = 50000, STAGGER_US = 50000 };

struct attempt {
    struct halay_tcp_watch watch; /* first: found by its watch. fd owned; -1: over, or not begun */
    struct halay_tcp_dial *dial;
    int is_connected;
    int has_proved; /* the next byte answers the proof */
    size_t have;    /* of the challenge */
    struct store_handshake handshake;
};

struct halay_tcp_dial {
    const struct halay_tcp_route *route; /* borrowed */
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    int to, stream;
    int count;       /* addresses */
    int begun, left; /* of them: the first ones; those that are not over */
    int64_t next_us; /* when the next attempt, or the next round, begins */
    int64_t deadline_us;
    int was_closed;          /* something answered and closed */
    int error;               /* the last errno of one that did not answer */
    uint32_t version;        /* the other rank's, if it is another one */
    struct attempt *through; /* that has come through */
    enum halay_status status;
    struct attempt attempts[HALAY_ADDRESSES_MAX];
};

static void give_up(struct attempt *a, int error)
{
    struct halay_tcp_dial *dial = a->dial;

    (void)halay_tcp_set_watch(dial->route->set, &a->watch, 0);
    close(a->watch.fd);
    a->watch.fd = -1;
    dial->left--;
    dial->next_us = 0;
    if (error)
        dial->error = error;
    else
        dial->was_closed = 1;
}

static void send_hello(struct attempt *a)
{
    const struct halay_tcp_route *route = a->dial->route;
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(a->watch.fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error) {
        give_up(a, error);
        return;
    }
    a->is_connected = 1;
    halay_tcp_make_hello(&a->handshake, route->key, route->rank, a->dial->to, a->dial->stream);
    if (send(a->watch.fd, a->handshake.hello, STORE_HELLO_BYTES, MSG_NOSIGNAL) != STORE_HELLO_BYTES ||
        halay_tcp_set_watch(route->set, &a->watch, EPOLLIN) != HALAY_OK)
        give_up(a, 0);
}

/* It is the right rank: the other attempts are over. */
static void attempt_prove(struct attempt *a)
{
    struct halay_tcp_dial *dial = a->dial;

    dial->begun = dial->count;
    for (int i = 0; i < dial->count; i++)
        if (dial->attempts[i].watch.fd >= 0 && &dial->attempts[i] != a)
            give_up(&dial->attempts[i], EALREADY);
    store_make_proof(&a->handshake, dial->route->key);
    if (send(a->watch.fd, a->handshake.proof, STORE_MAC_BYTES, MSG_NOSIGNAL) == STORE_MAC_BYTES)
        a->has_proved = 1;
    else
        give_up(a, 0);
}

static void take_challenge(struct attempt *a)
{
    if (!store_is_challenge(&a->handshake, a->dial->route->key)) {
        give_up(a, ECONNREFUSED); /* another program's port */
    } else if (store_version(a->handshake.challenge) != HALAY_TCP_VERSION) {
        a->dial->version = store_version(a->handshake.challenge);
        give_up(a, EPROTO);
    } else {
        attempt_prove(a);
    }
}

static void take_answer(struct attempt *a, char answer)
{
    struct halay_tcp_dial *dial = a->dial;

    if (answer == HALAY_TCP_TAKEN) {
        dial->through = a;
        dial->status = HALAY_OK;
        (void)halay_tcp_set_watch(dial->route->set, &a->watch, 0);
    } else {
        dial->status = answer == HALAY_TCP_ENDED ? HALAY_ERR_PEER : HALAY_ERR_CLOSED;
        give_up(a, 0);
    }
}

/* Not a byte more is read than the phase needs. */
static void attempt_ready(struct halay_tcp_watch *watch, uint32_t events)
{
    struct attempt *a = (struct attempt *)watch;
    char answer;

    (void)events;
    if (!a->is_connected) {
        send_hello(a);
        return;
    }
    ssize_t n = a->has_proved ? recv(watch->fd, &answer, 1, 0)
                              : recv(watch->fd, a->handshake.challenge + a->have, STORE_HELLO_BYTES - a->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        give_up(a, 0);
    } else if (a->has_proved) {
        take_answer(a, answer);
    } else {
        a->have += (size_t)n;
        if (a->have == STORE_HELLO_BYTES)
            take_challenge(a);
    }
}

/* From the named interface's address, if it is of this family. Nothing is lost if the system refuses. */
static void bind_source(int fd, const struct halay_address *source, int family)
{
    struct sockaddr_storage from;

    if (source->family == family)
        (void)!bind(fd, (struct sockaddr *)&from, halay_address_sockaddr(source, &from));
}

/* Raises the limit of descriptors if that helps. */
static int open_socket(struct halay_tcp_dial *dial, int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 || errno != EMFILE)
        return fd;
    if (halay_descriptors_allow(dial->route->set->log, 1, "a connection with another rank") == HALAY_OK)
        return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!dial->left)
        dial->status = HALAY_ERR_NO_MEMORY;
    errno = EMFILE;
    return -1;
}

static void attempt_begin(struct halay_tcp_dial *dial, int i, int64_t now_us)
{
    struct attempt *a = &dial->attempts[i];
    struct sockaddr_storage to;
    socklen_t length = halay_address_sockaddr(&dial->addresses[i], &to);

    dial->next_us = now_us + STAGGER_US;
    *a = (struct attempt){ .watch.fd = open_socket(dial, to.ss_family), .watch.ready = attempt_ready, .dial = dial };
    if (a->watch.fd < 0) {
        dial->error = errno;
        return;
    }
    dial->left++;
    bind_source(a->watch.fd, &dial->route->source, to.ss_family);
    if (connect(a->watch.fd, (struct sockaddr *)&to, length) < 0 && errno != EINPROGRESS && errno != EINTR)
        give_up(a, errno);
    else if (halay_tcp_set_watch(dial->route->set, &a->watch, EPOLLOUT) != HALAY_OK)
        give_up(a, EMFILE);
}

/* All addresses from the start. */
static void round_begin(struct halay_tcp_dial *dial, int64_t at_us)
{
    dial->was_closed = dial->begun = dial->left = 0;
    dial->next_us = at_us;
}

struct halay_tcp_dial *halay_tcp_dial_begin(const struct halay_tcp_route *route, const struct halay_address *addresses,
                                            int to, int stream, int64_t deadline_us)
{
    struct halay_tcp_dial *dial = calloc(1, sizeof *dial);

    if (!dial)
        return NULL;
    dial->route = route;
    dial->to = to;
    dial->stream = stream;
    dial->deadline_us = deadline_us;
    dial->status = HALAY_IN_PROGRESS;
    while (dial->count < HALAY_ADDRESSES_MAX && addresses[dial->count].family) {
        dial->addresses[dial->count] = addresses[dial->count];
        dial->attempts[dial->count++].watch.fd = -1;
    }
    return dial;
}

void halay_tcp_dial_end(struct halay_tcp_dial *dial)
{
    if (!dial)
        return;
    for (int i = 0; i < dial->count; i++)
        if (dial->attempts[i].watch.fd >= 0)
            give_up(&dial->attempts[i], EALREADY);
    explicit_bzero(dial, sizeof *dial);
    free(dial);
}

enum halay_status halay_tcp_dial_look(struct halay_tcp_dial *dial, int64_t now_us, int64_t *next_us)
{
    int is_bound = halay_tcp_dial_is_bound(dial);

    if (dial->status == HALAY_IN_PROGRESS && now_us >= dial->deadline_us)
        dial->status = dial->version ? HALAY_ERR_VERSION : HALAY_ERR_TIMEOUT;
    for (int is_due = now_us >= dial->next_us; dial->status == HALAY_IN_PROGRESS && dial->begun < dial->count &&
                                               !is_bound && (is_due || (!dial->left && dial->begun));
         is_due = 0)
        attempt_begin(dial, dial->begun++, now_us);
    if (dial->status == HALAY_IN_PROGRESS && dial->begun == dial->count && !dial->left) {
        if (dial->version)
            dial->status = HALAY_ERR_VERSION;
        else if (dial->was_closed)
            round_begin(dial, now_us + PAUSE_US);
        else
            dial->status = HALAY_ERR_SYSTEM;
    }
    *next_us = dial->begun < dial->count && dial->next_us < dial->deadline_us ? dial->next_us : dial->deadline_us;
    return dial->status;
}

int halay_tcp_dial_is_bound(const struct halay_tcp_dial *dial)
{
    for (int i = 0; i < dial->count; i++)
        if (dial->attempts[i].watch.fd >= 0 && dial->attempts[i].has_proved)
            return 1;
    return 0;
}

int halay_tcp_dial_take(struct halay_tcp_dial *dial, const struct store_handshake **handshake)
{
    int fd = dial->through->watch.fd;

    *handshake = &dial->through->handshake;
    dial->through->watch.fd = -1;
    return fd;
}

void halay_tcp_dial_explain(const struct halay_tcp_dial *dial, char *text, size_t size)
{
    char tried[HALAY_ADDRESSES_MAX * HALAY_ADDRESS_TEXT] = "", one[HALAY_ADDRESS_TEXT];

    if (dial->status == HALAY_ERR_VERSION) {
        snprintf(text, size, "it speaks version %u of the protocol between ranks, this is version %d", dial->version,
                 HALAY_TCP_VERSION);
        return;
    }
    if (dial->status == HALAY_ERR_NO_MEMORY) {
        snprintf(text, size, "no descriptor is free for a connection with it (ulimit -n)");
        return;
    }
    if (dial->status == HALAY_ERR_PEER) {
        snprintf(text, size, "it has ended, according to another rank of its host");
        return;
    }
    for (int i = 0; i < dial->count; i++) {
        halay_address_text(&dial->addresses[i], one, sizeof one);
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s%s", i ? ", " : "", one);
    }
    snprintf(text, size, "%s at any of its addresses (%s)",
             dial->status == HALAY_ERR_TIMEOUT || !dial->error ? "no answer" : strerror(dial->error), tried);
}
