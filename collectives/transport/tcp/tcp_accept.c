/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's side of the start: a port that is open until every rank has come.
 *
 * Strangers, as in the store: a connection has a place in a table (two for each rank) and HELLO_MS to say a right
 * hello, then until the start's end for its proof. When the table is full the oldest that has not said hello goes, and
 * if all have, the oldest. A rank that was dropped tries again: it counts itself as connected only when it has the byte
 * that answers its proof. A rank that comes twice takes the place of its first connection, which it has given up.
 */
#include "base/clock.h"
#include "collectives/transport/tcp/tcp_start.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS_MIN = 128, HELLO_MS = 5000, RETRY_MS = 50 };

struct stranger {
    int fd;              /* owned */
    int has_greeted;     /* its hello was right: the proof is next */
    int64_t deadline_us; /* of its hello, then of its proof */
    size_t have;
    struct store_handshake handshake;
};

struct reception {
    struct halay_log *log;
    const unsigned char *key;
    int listener, size;
    struct halay_tcp_stream *streams;
    int missing;
    int64_t deadline_us;        /* of the start */
    int is_out;                 /* of descriptors, with no connection to drop: the port is tried again after RETRY_MS */
    int has_said;               /* that it is out */
    int count;                  /* of strangers, oldest first */
    int places;                 /* of strangers */
    struct stranger *strangers; /* owned: places of them */
    struct pollfd *fds;         /* owned: one for each of them, and the listener's */
};

static void forget(struct reception *r, int i)
{
    explicit_bzero(&r->strangers[i].handshake, sizeof r->strangers[i].handshake);
    memmove(&r->strangers[i], &r->strangers[i + 1], (size_t)(r->count - i - 1) * sizeof *r->strangers);
    r->count--;
}

static void drop(struct reception *r, int i, const char *why)
{
    halay_info(r->log, "a stranger was dropped from the engine's port: %s", why);
    close(r->strangers[i].fd);
    forget(r, i);
}

/* Which one to drop for a newer one: the oldest without a correct hello, so that a flood does not push out a rank that
 * is about to send its proof. */
static int least_known(const struct reception *r)
{
    for (int i = 0; i < r->count; i++)
        if (!r->strangers[i].has_greeted)
            return i;
    return 0;
}

static void run_out(struct reception *r)
{
    if (r->count) {
        drop(r, least_known(r), "out of descriptors");
        return;
    }
    if (!r->has_said)
        halay_warning(r->log, "out of descriptors: rank 0 cannot accept the other hosts' ranks before some are closed "
                              "(ulimit -n)");
    r->is_out = r->has_said = 1;
}

static void take_in(struct reception *r)
{
    int fd = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            run_out(r);
        return; /* anything else is that connection's trouble, or comes again */
    }
    if (r->count == r->places)
        drop(r, least_known(r), "too many at once");
    r->strangers[r->count++] = (struct stranger){ .fd = fd, .deadline_us = halay_deadline_us(HELLO_MS) };
}

/* Nonzero if the stranger is still one. */
static int take_hello(struct reception *r, int i)
{
    struct stranger *s = &r->strangers[i];

    if (!store_is_hello(&s->handshake, r->key)) {
        drop(r, i, "no hello that is signed with this job's secret");
        return 0;
    }
    store_make_challenge(&s->handshake, r->key, HALAY_TCP_VERSION);
    /* To another version too: it names ours, then that side closes. A fresh socket takes that little at once. */
    if (send(s->fd, s->handshake.challenge, STORE_HELLO_BYTES, MSG_NOSIGNAL) != STORE_HELLO_BYTES) {
        drop(r, i, "it takes no answer");
        return 0;
    }
    s->has_greeted = 1;
    s->deadline_us = r->deadline_us;
    s->have = 0;
    return 1;
}

static void take_proof(struct reception *r, int i)
{
    struct stranger *s = &r->strangers[i];
    uint32_t rank = store_rank(s->handshake.hello);

    if (!store_is_proof(&s->handshake, r->key)) {
        drop(r, i, "a wrong proof");
        return;
    }
    if (store_version(s->handshake.hello) != HALAY_TCP_VERSION || rank < 1 || rank >= (uint32_t)r->size) {
        drop(r, i, "no rank of this job, or of another version");
        return;
    }
    if (send(s->fd, &(char){ 0 }, 1, MSG_NOSIGNAL) != 1) {
        drop(r, i, "it takes no answer");
        return;
    }
    struct halay_tcp_stream *stream = &r->streams[rank];
    if (stream->fd < 0)
        r->missing--;
    else
        close(stream->fd);
    stream->fd = s->fd;
    store_open_directions(&s->handshake, r->key, &stream->in, &stream->out);
    forget(r, i);
}

/* Read to the number of bytes that its phase needs and not one more. */
static void hear(struct reception *r, int i)
{
    struct stranger *s = &r->strangers[i];
    size_t need = s->has_greeted ? STORE_MAC_BYTES : STORE_HELLO_BYTES;
    unsigned char *to = s->has_greeted ? s->handshake.proof : s->handshake.hello;

    ssize_t n = recv(s->fd, to + s->have, need - s->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        drop(r, i, "it went away");
        return;
    }
    s->have += (size_t)n;
    if (s->have < need)
        return;
    if (s->has_greeted)
        take_proof(r, i);
    else if (take_hello(r, i))
        hear(r, i);
}

static void drop_late(struct reception *r)
{
    for (int i = r->count - 1; i >= 0; i--) /* backwards: dropping one moves the later ones */
        if (halay_deadline_passed(r->strangers[i].deadline_us))
            drop(r, i, r->strangers[i].has_greeted ? "no proof in time" : "no hello in time");
}

/* The next moment at which a connection is late. */
static int64_t next_deadline(const struct reception *r)
{
    int64_t next = r->deadline_us;

    for (int i = 0; i < r->count; i++)
        next = r->strangers[i].deadline_us < next ? r->strangers[i].deadline_us : next;
    return next;
}

static enum halay_status say_who_is_missing(const struct reception *r)
{
    for (int rank = 1; rank < r->size; rank++)
        if (r->streams[rank].fd < 0)
            halay_error(r->log, "rank %d has not connected with rank 0 (HALAY_START_TIMEOUT)", rank);
    return HALAY_ERR_TIMEOUT;
}

/* One wait, and what it brought. */
static enum halay_status receive(struct reception *r)
{
    struct pollfd *fds = r->fds;
    int count = r->count;

    fds[count] = (struct pollfd){ .fd = r->is_out ? -1 : r->listener, .events = POLLIN };
    for (int i = 0; i < count; i++)
        fds[i] = (struct pollfd){ .fd = r->strangers[i].fd, .events = POLLIN };
    int most_ms = halay_deadline_left_ms(next_deadline(r));
    if (r->is_out && most_ms > RETRY_MS)
        most_ms = RETRY_MS;
    r->is_out = 0;
    if (poll(fds, (nfds_t)count + 1, most_ms) < 0 && errno != EINTR) {
        halay_error(r->log, "cannot wait for the other hosts' ranks: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    for (int i = count - 1; i >= 0; i--) /* backwards: dropping one moves the later ones */
        if (fds[i].revents)
            hear(r, i);
    if (fds[count].revents)
        take_in(r);
    drop_late(r);
    return HALAY_OK;
}

enum halay_status halay_tcp_accept_all(struct halay_log *log, int listener, const unsigned char *key, int size,
                                       int64_t deadline_us, struct halay_tcp_stream *streams)
{
    struct reception r = { .log = log,
                           .key = key,
                           .listener = listener,
                           .size = size,
                           .streams = streams,
                           .missing = size - 1,
                           .deadline_us = deadline_us,
                           .places = size > STRANGERS_MIN / 2 ? 2 * size : STRANGERS_MIN };
    enum halay_status status = HALAY_OK;

    r.strangers = calloc((size_t)r.places, sizeof *r.strangers);
    r.fds = calloc((size_t)r.places + 1, sizeof *r.fds);
    if (!r.strangers || !r.fds) {
        halay_error(log, "out of memory: connections of %d ranks", size);
        status = HALAY_ERR_NO_MEMORY;
    }
    while (r.missing && status == HALAY_OK)
        status = halay_deadline_passed(deadline_us) ? say_who_is_missing(&r) : receive(&r);
    while (r.count)
        drop(&r, 0, "every rank has come");
    free(r.fds);
    free(r.strangers);
    return status;
}
