/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport: the operations table over streams (tcp_stream.h): what meets what, who is lost, sleeping.
 *
 * A message that comes before its receive is posted is kept. A send is done when the system has taken its last byte.
 *
 * Lost and left: a connection that ends behind a goodbye was left in order. One that ends without one belonged to a
 * process that has ended: only the system closes it then. One that the system gave up (silence, no way there) belongs
 * to a rank that cannot be reached. Processes of this host are looked after by their descriptors as well (peers.h).
 * What came before the end is handed over first.
 *
 * Sleeping. Several threads may doze at once (one that has the role, one that was robbed of it), and a wake must end
 * all of their dozes:
 *
 *     doze   D1  dozers + 1 (lock)                          wake   W1  wakes + 1
 *            D2  wakes is still the token?                         W2  write the eventfd
 *            D3  poll the eventfd and the set of sockets
 *            D4  dozers - 1; the last one empties the eventfd (lock)
 *
 * Nobody empties the eventfd while somebody may be in D3 because of it, so W2 ends every D3 that D2 let pass. A thread
 * that comes to D1 after the last one has emptied it sees W1 in D2, since the write that was emptied came after it. A
 * doze that begins before the last one of another wake has gone returns at once: it may. The set of sockets is polled
 * from outside (nested): that wakes all who poll it. Messages lie in their sockets until a progress takes them, so
 * nothing has to be armed.
 *
 * Threads: wake and doze from any; all else as transport.h says. Cleanup: zero-initialised, tcp_destroy accepts a
 * half-built state.
 */
#include "collectives/transport/tcp/tcp.h"
#include "base/memory.h"
#include "collectives/transport/tcp/tcp_start.h"
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64, LOOK_EVERY = 64, SLEEP_MOST_US = 1000000 };

/* A message that came before its receive. */
struct arrived {
    struct arrived *next;
    uint32_t tag;
    size_t bytes;
    unsigned char payload[];
};

struct tcp_peer {
    struct halay_tcp_stream stream; /* fd -1: not connected with this rank */
    int rank;
    int has_left;     /* its goodbye has come */
    uint32_t watched; /* events that the set of sockets watches */
    struct halay_transfer *sends, **sends_end;
    struct halay_transfer *receives, **receives_end;
    struct arrived *arrived, **arrived_end; /* owned */
};

struct tcp_transport {
    struct halay_transport base;
    struct halay_peers *watch; /* borrowed */
    struct tcp_peer *peers;    /* owned: [size] */
    enum halay_status status;  /* the first error but for lost peers; driver only */
    int left;                  /* peers that have; driver only */
    unsigned looks;            /* progress calls since the last look at the processes; driver only */
    int sockets;               /* owned: epoll */
    int bell;                  /* owned: eventfd */
    int other;                 /* borrowed: what else ends a sleep, -1: nothing */
    _Atomic uint32_t wakes;    /* W1, release; D2, acquire */
    pthread_mutex_t lock;      /* nothing else is taken under it */
    int dozers;                /* guarded by lock */
};

static struct tcp_transport *self_of(struct halay_transport *t)
{
    return (struct tcp_transport *)t;
}

/* ---- queues ---- */

static void append(struct halay_transfer ***end, struct halay_transfer *x)
{
    **end = x;
    *end = &x->next;
}

static void take_out(struct halay_transfer **at, struct halay_transfer ***end, const struct halay_transfer *x)
{
    while (*at && *at != x)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = x->next;
    if (!*at)
        *end = at;
}

static void end_transfer(struct halay_transfer *x)
{
    atomic_store_explicit(&x->state, HALAY_TRANSFER_DONE, memory_order_release);
}

static void fail(struct tcp_transport *self, enum halay_status status, int rank, const char *what)
{
    if (self->status != HALAY_OK)
        return;
    halay_error_at(self->base.log, &HALAY_ERROR_OF_RANK(rank), "rank %d: %s", rank, what);
    self->status = status;
    if (self->base.failed_peer < 0)
        self->base.failed_peer = rank;
    for (int r = 0; r < self->base.size; r++) { /* these are not read any more: they must not keep a sleeper awake */
        struct tcp_peer *p = &self->peers[r];
        if (p->watched)
            (void)epoll_ctl(self->sockets, EPOLL_CTL_DEL, p->stream.fd, NULL); /* it is in there */
        p->watched = 0;
    }
}

/* ---- sending ---- */

/* Writable or not, only while there is something to write. */
static void watch(struct tcp_transport *self, struct tcp_peer *p)
{
    uint32_t wanted = (p->stream.has_ended ? 0u : EPOLLIN) | (p->stream.unsent_bytes ? EPOLLOUT : 0u);
    struct epoll_event event = { .events = wanted, .data.ptr = p };

    if (wanted == p->watched || self->status != HALAY_OK)
        return;
    p->watched = wanted;
    if (epoll_ctl(self->sockets, wanted ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, p->stream.fd, &event) < 0)
        fail(self, HALAY_ERR_SYSTEM, p->rank, strerror(errno));
}

static void push(struct tcp_transport *self, struct tcp_peer *p)
{
    halay_tcp_stream_write(&p->stream);
    while (p->sends && p->sends->moved <= p->stream.written) {
        struct halay_transfer *x = p->sends;
        take_out(&p->sends, &p->sends_end, x);
        end_transfer(x);
    }
    watch(self, p);
}

static void tcp_send(struct halay_transport *t, int peer, uint32_t tag, const void *buf, size_t bytes,
                     struct halay_transfer *x)
{
    struct tcp_transport *self = self_of(t);
    struct tcp_peer *p = &self->peers[peer];

    halay_transfer_post(x, peer, tag, (void *)buf, bytes);
    x->moved = SIZE_MAX;
    append(&p->sends_end, x);
    if (p->stream.has_ended || p->has_left || self->status != HALAY_OK)
        return; /* stays; progress says why */
    if (bytes > HALAY_TCP_MESSAGE_MAX) {
        fail(self, HALAY_ERR_UNSUPPORTED, peer, "a message is too long for the tcp transport");
    } else if (halay_tcp_stream_queue(&p->stream, tag, buf, bytes) != HALAY_OK) {
        fail(self, HALAY_ERR_NO_MEMORY, peer, "no memory for a message");
    } else {
        x->moved = p->stream.queued;
        push(self, p);
    }
}

/* ---- receiving ---- */

static void deliver(struct tcp_transport *self, struct halay_transfer *x, const unsigned char *payload, size_t bytes)
{
    if (bytes != x->bytes) {
        halay_error(self->base.log, "rank %d sent %zu bytes where %zu were expected", x->peer, bytes, x->bytes);
        fail(self, HALAY_ERR_FORMAT, x->peer, "lengths disagree");
        return;
    }
    memcpy(x->buf, payload, bytes);
    end_transfer(x);
}

static void tcp_recv(struct halay_transport *t, int peer, uint32_t tag, void *buf, size_t bytes,
                     struct halay_transfer *x)
{
    struct tcp_transport *self = self_of(t);
    struct tcp_peer *p = &self->peers[peer];

    halay_transfer_post(x, peer, tag, buf, bytes);
    for (struct arrived **at = &p->arrived; *at; at = &(*at)->next) {
        struct arrived *a = *at;
        if (a->tag != tag)
            continue;
        *at = a->next;
        if (!*at)
            p->arrived_end = at;
        deliver(self, x, a->payload, a->bytes);
        free(a);
        return;
    }
    append(&p->receives_end, x);
}

static void keep(struct tcp_transport *self, struct tcp_peer *p, const struct halay_tcp_message *m)
{
    struct arrived *a = malloc(sizeof *a + m->bytes);

    if (!a) {
        fail(self, HALAY_ERR_NO_MEMORY, p->rank, "no memory for a message");
        return;
    }
    a->next = NULL;
    a->tag = m->tag;
    a->bytes = m->bytes;
    memcpy(a->payload, m->payload, m->bytes);
    *p->arrived_end = a;
    p->arrived_end = &a->next;
}

static void take_message(struct tcp_transport *self, struct tcp_peer *p, const struct halay_tcp_message *m)
{
    if (m->tag == HALAY_TCP_GOODBYE) {
        p->has_left = 1;
        self->left++;
        halay_peers_set_left(self->watch, p->rank);
        return;
    }
    for (struct halay_transfer *x = p->receives; x; x = x->next)
        if (x->tag == m->tag) {
            take_out(&p->receives, &p->receives_end, x);
            deliver(self, x, m->payload, m->bytes);
            return;
        }
    keep(self, p, m);
}

static void peer_gone(struct tcp_transport *self, int rank)
{
    self->base.lost[rank] = 1;
    if (self->base.failed_peer < 0)
        self->base.failed_peer = rank;
}

/* The connection has ended, and all that came over it was taken. */
static void look_at_end(struct tcp_transport *self, struct tcp_peer *p)
{
    int error = p->stream.error;
    int is_closed = !error || error == ECONNRESET || error == EPIPE;

    if (p->has_left || self->base.lost[p->rank])
        return;
    halay_peers_set_dead(self->watch, p->rank, !is_closed,
                         is_closed ? "its connection was closed without a goodbye" : strerror(error));
    peer_gone(self, p->rank);
}

/* A bounded piece. Nonzero if something came. */
static int pull(struct tcp_transport *self, struct tcp_peer *p)
{
    struct halay_tcp_message m;
    enum halay_status status = HALAY_OK;
    size_t before = p->stream.received_bytes - p->stream.taken;

    if (halay_tcp_stream_read(&p->stream) != HALAY_OK) {
        fail(self, HALAY_ERR_NO_MEMORY, p->rank, "no memory for what it sends");
        return 0;
    }
    int came = p->stream.received_bytes - p->stream.taken > before;
    while (self->status == HALAY_OK && (status = halay_tcp_stream_next(&p->stream, &m)) == HALAY_OK)
        take_message(self, p, &m);
    if (status == HALAY_ERR_FORMAT || status == HALAY_ERR_AUTH)
        fail(self, status, p->rank, "what it sent is malformed, or was changed on its way");
    if (p->stream.has_ended) {
        watch(self, p);
        look_at_end(self, p);
    }
    return came;
}

/* ---- progress ---- */

/* Does any transfer wait for a peer that has left? */
static int is_stuck(const struct tcp_peer *p)
{
    for (struct halay_transfer *x = p->receives; x; x = x->next)
        if (!x->is_optional)
            return 1;
    for (struct halay_transfer *x = p->sends; x; x = x->next)
        if (!x->is_optional)
            return 1;
    return 0;
}

static void look_at_left(struct tcp_transport *self)
{
    for (int r = 0; r < self->base.size; r++) {
        struct tcp_peer *p = &self->peers[r];
        if (!p->has_left || self->base.lost[r] || !is_stuck(p))
            continue;
        halay_error_at(self->base.log, &HALAY_ERROR_OF_RANK(r), "rank %d has left", r);
        peer_gone(self, r);
    }
}

/* What a process of this host sent before it died lies in its socket, and is read before it counts as lost. */
static void look_at_dead(struct tcp_transport *self)
{
    int dead;

    self->looks = 0;
    if (halay_peers_check(self->watch, &dead) == HALAY_OK)
        return;
    for (int r = 0; r < self->base.size; r++) {
        struct tcp_peer *p = &self->peers[r];
        if (self->base.lost[r] || p->has_left || !halay_peers_is_dead(self->watch, r))
            continue;
        while (p->stream.fd >= 0 && !p->stream.has_ended && self->status == HALAY_OK && pull(self, p))
            ;
        if (!p->has_left)
            peer_gone(self, r);
    }
}

static enum halay_status status_of(const struct tcp_transport *self)
{
    if (self->status != HALAY_OK)
        return self->status;
    return self->base.failed_peer >= 0 ? HALAY_ERR_PEER : HALAY_OK;
}

static enum halay_status tcp_progress(struct halay_transport *t)
{
    struct tcp_transport *self = self_of(t);
    struct epoll_event events[EVENTS];

    if (self->status != HALAY_OK)
        return self->status;
    int n = epoll_wait(self->sockets, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct tcp_peer *p = events[i].data.ptr;
        if (events[i].events & EPOLLOUT)
            push(self, p);
        if (events[i].events & ~(uint32_t)EPOLLOUT && !p->stream.has_ended)
            pull(self, p);
    }
    if (self->left)
        look_at_left(self);
    if (++self->looks >= LOOK_EVERY)
        look_at_dead(self);
    return status_of(self);
}

static void tcp_cancel(struct halay_transport *t, struct halay_transfer *x)
{
    struct tcp_peer *p = &self_of(t)->peers[x->peer];

    if (atomic_load_explicit(&x->state, memory_order_relaxed) == HALAY_TRANSFER_POSTED) {
        take_out(&p->sends, &p->sends_end, x);
        take_out(&p->receives, &p->receives_end, x);
    }
    atomic_store_explicit(&x->state, HALAY_TRANSFER_IDLE, memory_order_relaxed);
}

static enum halay_status tcp_alloc(struct halay_transport *t, size_t bytes, void **out)
{
    *out = halay_aligned_alloc(HALAY_PAGE, bytes);
    if (*out)
        return HALAY_OK;
    halay_error(t->log, "cannot allocate %zu bytes", bytes);
    return HALAY_ERR_NO_MEMORY;
}

static void tcp_free(struct halay_transport *t, void *ptr)
{
    (void)t;
    free(ptr);
}

static void tcp_keep(struct halay_transport *t, void *ptr, struct halay_kept *kept)
{
    (void)t, (void)ptr;
    *kept = (struct halay_kept){ 0 };
}

/* ---- sleep ---- */

static uint32_t tcp_arm(struct halay_transport *t)
{
    return atomic_load_explicit(&self_of(t)->wakes, memory_order_acquire);
}

static void tcp_disarm(struct halay_transport *t)
{
    self_of(t)->looks = LOOK_EVERY; /* time may have passed: the next progress looks at the processes */
}

static int tcp_is_busy(struct halay_transport *t)
{
    (void)t;
    return 0; /* what a progress left lies in its socket, and ends a doze at once */
}

static void tcp_doze(struct halay_transport *t, uint32_t token, long timeout_us)
{
    struct tcp_transport *self = self_of(t);
    struct pollfd fds[] = { { .fd = self->bell, .events = POLLIN },
                            { .fd = self->sockets, .events = POLLIN },
                            { .fd = self->other, .events = POLLIN } };
    long us = timeout_us < 0 || timeout_us > SLEEP_MOST_US ? SLEEP_MOST_US : timeout_us;
    struct timespec timeout = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    uint64_t rung;

    pthread_mutex_lock(&self->lock);
    self->dozers++;
    pthread_mutex_unlock(&self->lock);
    if (atomic_load_explicit(&self->wakes, memory_order_acquire) == token)
        (void)ppoll(fds, sizeof fds / sizeof *fds, &timeout, NULL); /* whatever ends it: the caller looks */
    pthread_mutex_lock(&self->lock);
    if (!--self->dozers && read(self->bell, &rung, sizeof rung) < 0 && errno != EAGAIN)
        halay_warning(t->log, "reading an eventfd: %s", strerror(errno));
    pthread_mutex_unlock(&self->lock);
}

static void tcp_sleep(struct halay_transport *t, uint32_t token, long timeout_us)
{
    tcp_doze(t, token, timeout_us);
    tcp_disarm(t);
}

static void tcp_wake(struct halay_transport *t)
{
    struct tcp_transport *self = self_of(t);
    const uint64_t one = 1;

    atomic_fetch_add_explicit(&self->wakes, 1, memory_order_release);
    if (write(self->bell, &one, sizeof one) < 0 && errno != EAGAIN) /* EAGAIN: rung 2^64 - 1 times over */
        halay_warning(t->log, "writing an eventfd: %s", strerror(errno));
}

void halay_tcp_listen_to(struct halay_transport *t, int fd)
{
    self_of(t)->other = fd;
}

/* ---- start and end ---- */

static void tcp_destroy(struct tcp_transport *self)
{
    for (int r = 0; self->peers && r < self->base.size; r++) {
        struct tcp_peer *p = &self->peers[r];
        halay_tcp_stream_fini(&p->stream);
        for (struct arrived *a = p->arrived, *next; a; a = next) {
            next = a->next;
            free(a);
        }
    }
    if (self->sockets >= 0)
        close(self->sockets);
    if (self->bell >= 0)
        close(self->bell);
    pthread_mutex_destroy(&self->lock);
    free(self->peers);
    free(self->base.lost);
    free(self);
}

/* A socket that is closed with something unread in it takes back what was sent and has not been read yet: what is there
 * is read first. */
static void say_goodbye(struct tcp_peer *p)
{
    struct halay_tcp_stream *stream = &p->stream;

    if (halay_tcp_stream_queue(stream, HALAY_TCP_GOODBYE, NULL, 0) != HALAY_OK)
        return;
    halay_tcp_stream_write(stream);
    if (shutdown(stream->fd, SHUT_WR) < 0)
        return; /* it is not connected any more */
    do
        stream->taken = stream->received_bytes;
    while (halay_tcp_stream_read(stream) == HALAY_OK && stream->received_bytes);
}

static void tcp_close(struct halay_transport *t)
{
    struct tcp_transport *self = self_of(t);

    for (int r = 0; r < t->size; r++)
        if (self->peers[r].stream.fd >= 0 && !self->peers[r].stream.has_ended)
            say_goodbye(&self->peers[r]);
    tcp_destroy(self);
}

static const struct halay_transport_ops tcp_ops = {
    .name = "tcp",
    .send = tcp_send,
    .recv = tcp_recv,
    .progress = tcp_progress,
    .cancel = tcp_cancel,
    .alloc = tcp_alloc,
    .free = tcp_free,
    .keep = tcp_keep,
    .arm = tcp_arm,
    .disarm = tcp_disarm,
    .sleep = tcp_sleep,
    .wake = tcp_wake,
    .is_busy = tcp_is_busy,
    .doze = tcp_doze,
    .close = tcp_close,
};

static enum halay_status peers_allocate(struct tcp_transport *self)
{
    self->peers = calloc((size_t)self->base.size, sizeof *self->peers);
    self->base.lost = calloc((size_t)self->base.size, sizeof *self->base.lost);
    for (int r = 0; self->peers && r < self->base.size; r++) {
        struct tcp_peer *p = &self->peers[r];
        p->stream.fd = -1;
        p->rank = r;
        p->sends_end = &p->sends;
        p->receives_end = &p->receives;
        p->arrived_end = &p->arrived;
    }
    if (self->peers && self->base.lost)
        return HALAY_OK;
    halay_error(self->base.log, "no memory for connections with %d ranks", self->base.size);
    return HALAY_ERR_NO_MEMORY;
}

static enum halay_status open_bell(struct tcp_transport *self)
{
    self->sockets = epoll_create1(EPOLL_CLOEXEC);
    self->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->sockets >= 0 && self->bell >= 0)
        return HALAY_OK;
    halay_error(self->base.log, "cannot wait for connections: %s", strerror(errno));
    return HALAY_ERR_SYSTEM;
}

static enum halay_status watch_all(struct tcp_transport *self)
{
    for (int r = 0; r < self->base.size; r++) {
        struct tcp_peer *p = &self->peers[r];
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
        if (p->stream.fd < 0)
            continue;
        p->watched = EPOLLIN;
        if (epoll_ctl(self->sockets, EPOLL_CTL_ADD, p->stream.fd, &event) < 0) {
            halay_error(self->base.log, "cannot wait for rank %d: %s", r, strerror(errno));
            return HALAY_ERR_SYSTEM;
        }
    }
    return HALAY_OK;
}

static enum halay_status connect_all(struct tcp_transport *self, const struct halay_tcp_how *how,
                                     struct halay_boot *boot)
{
    struct halay_tcp_stream *streams = malloc((size_t)self->base.size * sizeof *streams);

    if (!streams) {
        halay_error(self->base.log, "no memory for connections with %d ranks", self->base.size);
        return HALAY_ERR_NO_MEMORY;
    }
    for (int r = 0; r < self->base.size; r++)
        streams[r] = (struct halay_tcp_stream){ .fd = -1 };
    enum halay_status status = halay_tcp_start(self->base.log, how, boot, self->watch, streams);
    for (int r = 0; r < self->base.size; r++)
        self->peers[r].stream = streams[r];
    free(streams);
    return status;
}

/* "eth0" is among "eth0,eth1". */
static int has_name(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = names; *at; at += strspn(at, ",")) {
        size_t here = strcspn(at, ",");
        if (here == length && !memcmp(at, name, length))
            return 1;
        at += here;
    }
    return 0;
}

void halay_tcp_interfaces(struct halay_transport *t, char *names, size_t size)
{
    const struct tcp_transport *self = self_of(t);
    char name[IF_NAMESIZE];

    *names = 0;
    for (int r = 0; r < t->size; r++) {
        if (self->peers[r].stream.fd < 0 || halay_peers_is_local(self->watch, r))
            continue;
        halay_socket_interface(self->peers[r].stream.fd, name);
        size_t used = strlen(names);
        if (*name && !has_name(names, name) && used + strlen(name) + 2 <= size)
            snprintf(names + used, size - used, "%s%s", used ? "," : "", name);
    }
}

enum halay_status halay_tcp_open(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                 struct halay_peers *peers, struct halay_transport **out)
{
    struct tcp_transport *self = calloc(1, sizeof *self);

    if (!self) {
        halay_error(log, "no memory for the tcp transport");
        return HALAY_ERR_NO_MEMORY;
    }
    self->base = (struct halay_transport){ .ops = &tcp_ops,
                                           .caps = HALAY_TRANSPORT_SLEEPS,
                                           .rank = boot->rank,
                                           .size = boot->size,
                                           .failed_peer = -1,
                                           .log = log };
    self->watch = peers;
    self->sockets = self->bell = self->other = -1;
    pthread_mutex_init(&self->lock, NULL); /* cannot fail on Linux */
    enum halay_status status = peers_allocate(self);
    if (status == HALAY_OK)
        status = open_bell(self);
    if (status == HALAY_OK)
        status = connect_all(self, how, boot);
    if (status == HALAY_OK)
        status = watch_all(self);
    if (status != HALAY_OK) {
        tcp_destroy(self);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
