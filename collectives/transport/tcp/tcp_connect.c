/* SPDX-License-Identifier: Apache-2.0
 *
 * The others' side of the start: rank 0's addresses, each STAGGER_MS after the one before or as soon as one has failed,
 * so that rank 0 of a large job is not asked several times by each rank (RFC 8305). The first that proves to be rank 0
 * is taken, and gets the only proof: a second one would make rank 0 take that connection instead.
 *
 * An address may belong to somebody else here (every host has a 127.0.0.1, many a 172.17.0.1): what answers there
 * does not know the key and is passed over. Refused everywhere is the end; closed in the middle is tried again, since a
 * port under a flood of strangers, or of ranks, drops those that came first.
 */
#include "base/clock.h"
#include "collectives/transport/tcp/tcp_start.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS = 50, STAGGER_MS = 50 };

struct attempt {
    int fd; /* owned; -1: over, or not begun */
    int is_connected;
    int has_proved; /* what comes next is the byte that says that it was taken */
    size_t have;    /* of the challenge */
    struct store_handshake handshake;
};

struct search {
    struct halay_log *log;
    const struct halay_tcp_invitation *invitation;
    const unsigned char *key;
    int rank;
    int count;        /* attempts */
    int begun, left;  /* of them: the first ones; those that are not over */
    int64_t next_us;  /* when the next begins */
    int was_closed;   /* some address answered and closed */
    int error;        /* the last errno of one that did not answer */
    uint32_t version; /* rank 0's, if it is another one */
    char text[64];    /* the address that was taken */
    struct attempt attempts[HALAY_ADDRESSES_MAX];
};

static void give_up(struct search *s, struct attempt *a, int error)
{
    close(a->fd);
    a->fd = -1;
    s->left--;
    s->next_us = 0;
    if (error)
        s->error = error;
    else
        s->was_closed = 1;
}

static void begin(struct search *s, int i)
{
    struct attempt *a = &s->attempts[i];
    struct sockaddr_storage to;
    socklen_t length = halay_address_sockaddr(&s->invitation->addresses[i], &to);

    s->next_us = halay_deadline_us(STAGGER_MS);
    *a = (struct attempt){ .fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) };
    if (a->fd < 0) {
        s->error = errno;
        return;
    }
    s->left++;
    if (connect(a->fd, (struct sockaddr *)&to, length) < 0 && errno != EINPROGRESS && errno != EINTR)
        give_up(s, a, errno);
}

/* Begins the next attempt if it is due, and further ones while none is under way. */
static void begin_due(struct search *s)
{
    int is_due = halay_deadline_passed(s->next_us);

    while (s->begun < s->count && (is_due || !s->left)) {
        begin(s, s->begun++);
        is_due = 0;
    }
}

/* Connected, or not. */
static void greet(struct search *s, struct attempt *a)
{
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error) {
        give_up(s, a, error);
        return;
    }
    a->is_connected = 1;
    store_make_hello(&a->handshake, s->key, HALAY_TCP_VERSION, (uint32_t)s->rank);
    if (send(a->fd, a->handshake.hello, STORE_HELLO_BYTES, MSG_NOSIGNAL) != STORE_HELLO_BYTES)
        give_up(s, a, 0);
}

/* It is rank 0. */
static void prove(struct search *s, struct attempt *a)
{
    s->begun = s->count;
    for (int i = 0; i < s->count; i++)
        if (s->attempts[i].fd >= 0 && &s->attempts[i] != a)
            give_up(s, &s->attempts[i], EALREADY);
    store_make_proof(&a->handshake, s->key);
    if (send(a->fd, a->handshake.proof, STORE_MAC_BYTES, MSG_NOSIGNAL) == STORE_MAC_BYTES)
        a->has_proved = 1;
    else
        give_up(s, a, 0);
}

static void take_challenge(struct search *s, struct attempt *a)
{
    if (!store_is_challenge(&a->handshake, s->key)) {
        give_up(s, a, ECONNREFUSED); /* somebody else's port */
    } else if (store_version(a->handshake.challenge) != HALAY_TCP_VERSION) {
        s->version = store_version(a->handshake.challenge);
        give_up(s, a, EPROTO);
    } else {
        prove(s, a);
    }
}

/* Nonzero once rank 0 has taken our proof. Not a byte more is read than its phase needs. */
static int hear(struct search *s, struct attempt *a)
{
    char taken;
    ssize_t n = a->has_proved ? recv(a->fd, &taken, 1, 0)
                              : recv(a->fd, a->handshake.challenge + a->have, STORE_HELLO_BYTES - a->have, 0);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n <= 0) {
        give_up(s, a, 0);
        return 0;
    }
    if (a->has_proved)
        return 1;
    a->have += (size_t)n;
    if (a->have == STORE_HELLO_BYTES)
        take_challenge(s, a);
    return 0;
}

/* One wait, and what it brought: the attempt that has come through, or NULL. */
static struct attempt *turn(struct search *s, int64_t deadline_us)
{
    struct pollfd fds[HALAY_ADDRESSES_MAX];
    int64_t until_us = s->begun < s->count && s->next_us < deadline_us ? s->next_us : deadline_us;

    for (int i = 0; i < s->count; i++) {
        const struct attempt *a = &s->attempts[i];
        fds[i] = (struct pollfd){ .fd = a->fd, .events = a->is_connected ? POLLIN : POLLOUT };
    }
    if (poll(fds, (nfds_t)s->count, halay_deadline_left_ms(until_us)) <= 0)
        return NULL; /* the time is up, or a signal came: the caller looks at the clock */
    for (int i = 0; i < s->count; i++) {
        struct attempt *a = &s->attempts[i];
        if (a->fd < 0 || !fds[i].revents)
            continue;
        if (!a->is_connected)
            greet(s, a);
        else if (hear(s, a))
            return a;
    }
    return NULL;
}

/* All addresses, once. NULL: none was it. */
static struct attempt *try_all(struct search *s, int64_t deadline_us)
{
    struct attempt *through = NULL;

    s->was_closed = s->begun = s->left = 0;
    for (int i = 0; i < s->count; i++)
        s->attempts[i].fd = -1;
    for (begin_due(s); s->left && !through && !halay_deadline_passed(deadline_us); begin_due(s))
        through = turn(s, deadline_us);
    for (int i = 0; i < s->count; i++)
        if (s->attempts[i].fd >= 0 && &s->attempts[i] != through)
            close(s->attempts[i].fd);
    return through;
}

static enum halay_status explain(const struct search *s, const char *host, int is_late)
{
    char tried[HALAY_ADDRESSES_MAX * 64] = "", one[64];

    for (int i = 0; i < s->count; i++) {
        halay_address_text(&s->invitation->addresses[i], one, sizeof one);
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s%s", i ? ", " : "", one);
    }
    if (s->version) {
        halay_error(s->log, "rank 0 on '%s' speaks version %u of the engine's protocol, this is version %d", host,
                    s->version, HALAY_TCP_VERSION);
        return HALAY_ERR_VERSION;
    }
    if (!s->count) {
        halay_error(s->log, "rank 0 on '%s' has opened no port for the other ranks: its log says why", host);
        return HALAY_ERR_SYSTEM;
    }
    halay_error(s->log, "cannot reach rank 0 on '%s' at any of its addresses (%s): %s", host, tried,
                is_late || !s->error ? "no answer" : strerror(s->error));
    return is_late ? HALAY_ERR_TIMEOUT : HALAY_ERR_SYSTEM;
}

enum halay_status halay_tcp_connect(struct halay_log *log, const struct halay_tcp_invitation *invitation,
                                    const unsigned char *key, int rank, const char *host, int64_t deadline_us,
                                    struct halay_tcp_stream *stream)
{
    struct search s = { .log = log, .invitation = invitation, .key = key, .rank = rank };
    struct attempt *through;
    int is_late;

    while (s.count < HALAY_ADDRESSES_MAX && invitation->addresses[s.count].family)
        s.count++;
    for (;;) {
        through = try_all(&s, deadline_us);
        is_late = halay_deadline_passed(deadline_us);
        if (through || is_late || !s.was_closed)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = (long)PAUSE_MS * 1000000 }, NULL);
    }
    enum halay_status status = through ? HALAY_OK : explain(&s, host, is_late);
    if (through) {
        stream->fd = through->fd;
        store_open_directions(&through->handshake, key, &stream->out, &stream->in);
        halay_address_text(&invitation->addresses[through - s.attempts], s.text, sizeof s.text);
        halay_debug(log, "rank 0 on '%s' reached at %s", host, s.text);
    }
    explicit_bzero(&s, sizeof s);
    return status;
}
