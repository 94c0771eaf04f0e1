/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport: the operations table over a mesh of connections (tcp_mesh.h), and sleeping.
 *
 * Sleeping. Several threads may doze at once (one that has the role, one that was robbed of it), and a wake must end
 * all of their dozes:
 *
 *     doze   D1  dozers + 1 (lock)                          wake   W1  wakes + 1
 *            D2  wakes is still the token?                         W2  write the eventfd
 *            D3  poll the eventfd and the set of sockets
 *            D4  dozers - 1; the last one empties the eventfd (lock)
 *
 * Nobody empties the eventfd while a thread may be in D3 because of it, so W2 ends every D3 that D2 let pass. A thread
 * that comes to D1 after the last one has emptied it sees W1 in D2, since the write that was emptied came after it. A
 * doze that begins before the last one of another wake has gone returns at once: it may. The set of sockets is polled
 * from outside (nested): that wakes all who poll it. Messages stay in their sockets until a progress takes them, so
 * nothing has to be armed but what is queued to be written, which is_busy, sleep and fd_arm see to.
 *
 * Threads: wake and doze from any; all else as transport.h says. Cleanup: zero-initialised, tcp_destroy accepts a
 * half-built state.
 */
#include "collectives/transport/tcp/tcp.h"
#include "base/memory.h"
#include "collectives/transport/tcp/tcp_mesh.h"
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SLEEP_MOST_US = 1000000 };

struct tcp_transport {
    struct halay_transport base;
    struct halay_tcp_mesh mesh; /* driver only */
    int bell;                   /* owned: eventfd */
    int other;                  /* borrowed: what else ends a sleep, -1: nothing */
    _Atomic uint32_t wakes;     /* W1, release; D2, acquire */
    pthread_mutex_t lock;       /* nothing else is taken under it */
    int dozers;                 /* guarded by lock */
};

static struct tcp_transport *self_of(struct halay_transport *t)
{
    return (struct tcp_transport *)t;
}

static struct halay_tcp_peer *peer_of(struct halay_transport *t, int rank)
{
    return &self_of(t)->mesh.members[rank].peer;
}

/* What is short goes out at once, with what is queued: its receiver may be waiting for it. */
static void tcp_send(struct halay_transport *t, int peer, uint32_t tag, const void *buf, size_t bytes,
                     struct halay_transfer *x)
{
    struct halay_tcp_peer *p = peer_of(t, peer);

    halay_tcp_peer_send(p, peer, tag, buf, bytes, x);
    halay_tcp_mesh_touch(&self_of(t)->mesh, peer, x, 0);
    if (p->connection && bytes <= HALAY_TCP_EAGER_BYTES && halay_tcp_connection_is_writing(p->connection))
        halay_tcp_connection_flush(p->connection);
}

static void tcp_recv(struct halay_transport *t, int peer, uint32_t tag, void *buf, size_t bytes,
                     struct halay_transfer *x)
{
    halay_tcp_peer_receive(peer_of(t, peer), peer, tag, buf, bytes, x);
    if (!halay_transfer_is_done(x))
        halay_tcp_mesh_touch(&self_of(t)->mesh, peer, x, 1);
}

static enum halay_status tcp_progress(struct halay_transport *t)
{
    return halay_tcp_mesh_turn(&self_of(t)->mesh);
}

static void tcp_cancel(struct halay_transport *t, struct halay_transfer *x)
{
    halay_tcp_peer_cancel(peer_of(t, x->peer), x);
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
    self_of(t)->mesh.looks = UINT32_MAX - 1; /* time may have passed: the next progress looks at the processes */
}

/* What a progress left lies in its socket, and ends a doze at once. */
static int tcp_is_busy(struct halay_transport *t)
{
    halay_tcp_mesh_settle(&self_of(t)->mesh);
    return 0;
}

static void tcp_doze(struct halay_transport *t, uint32_t token, long timeout_us)
{
    struct tcp_transport *self = self_of(t);
    struct pollfd fds[] = { { .fd = self->bell, .events = POLLIN },
                            { .fd = self->mesh.set.epoll, .events = POLLIN },
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
    halay_tcp_mesh_settle(&self_of(t)->mesh);
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

static int tcp_event_fd(struct halay_transport *t)
{
    return self_of(t)->mesh.set.epoll;
}

static int tcp_fd_arm(struct halay_transport *t)
{
    halay_tcp_mesh_settle(&self_of(t)->mesh);
    return 1;
}

void halay_tcp_listen_to(struct halay_transport *t, int fd)
{
    self_of(t)->other = fd;
}

/* ---- start and end ---- */

static void tcp_destroy(struct tcp_transport *self)
{
    halay_tcp_mesh_fini(&self->mesh);
    if (self->bell >= 0)
        close(self->bell);
    pthread_mutex_destroy(&self->lock);
    free(self->base.lost);
    free(self);
}

static void tcp_close(struct halay_transport *t)
{
    halay_tcp_mesh_leave(&self_of(t)->mesh);
    tcp_destroy(self_of(t));
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
    .event_fd = tcp_event_fd,
    .fd_arm = tcp_fd_arm,
    .close = tcp_close,
};

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
        const struct halay_tcp_connection *c = self->mesh.members[r].peer.connection;
        if (!c || halay_peers_is_local(self->mesh.watch, r))
            continue;
        halay_socket_interface(c->watch.fd, name);
        size_t used = strlen(names);
        if (*name && !has_name(names, name) && used + strlen(name) + 2 <= size)
            snprintf(names + used, size - used, "%s%s", used ? "," : "", name);
    }
}

static enum halay_status tcp_init(struct tcp_transport *self, const struct halay_tcp_how *how, struct halay_boot *boot,
                                  struct halay_peers *peers)
{
    struct halay_log *log = self->base.log;

    self->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->base.lost = calloc((size_t)self->base.size, sizeof *self->base.lost);
    /* In any case: the others wait for what this rank tells them. */
    enum halay_status status = halay_tcp_mesh_init(&self->mesh, &self->base, how, boot, peers);
    if (!self->base.lost) {
        halay_error(log, "no memory for connections with %d ranks", self->base.size);
        return HALAY_ERR_NO_MEMORY;
    }
    if (self->bell < 0) {
        halay_error(log, "cannot open an eventfd: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    return status == HALAY_OK && how->meets ? halay_tcp_mesh_meet(&self->mesh) : status;
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
    self->other = -1;
    pthread_mutex_init(&self->lock, NULL); /* cannot fail on Linux */
    enum halay_status status = tcp_init(self, how, boot, peers);
    if (status != HALAY_OK) {
        tcp_destroy(self);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
