/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport: the operations table over a mesh of connections (tcp_mesh.h).
 *
 * Messages stay in their sockets until a progress takes them, so nothing has to be armed before a sleep but what is
 * queued to be written. The set of sockets is watched from outside (nested), which wakes all threads that poll it.
 *
 * Cleanup: zero-initialised, tcp_destroy accepts a half-built state.
 */
#include "collectives/transport/tcp/tcp.h"
#include "base/memory.h"
#include "collectives/transport/tcp/tcp_mesh.h"
#include <net/if.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tcp_transport {
    struct halay_link base;
    struct halay_tcp_mesh mesh; /* driver only */
};

static struct tcp_transport *self_of(struct halay_link *link)
{
    return (struct tcp_transport *)link;
}

static struct halay_tcp_peer *peer_of(struct halay_link *link, int rank)
{
    return &self_of(link)->mesh.members[rank].peer;
}

/* Sends a short message at once, with all that is queued: its receiver may be waiting for it. */
static void tcp_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                     struct halay_transfer *x)
{
    struct halay_tcp_peer *p = peer_of(link, peer);

    halay_tcp_peer_send(p, peer, tag, buf, bytes, x);
    halay_tcp_mesh_touch(&self_of(link)->mesh, peer, x, 0);
    if (p->connection && bytes <= HALAY_TCP_EAGER_BYTES && halay_tcp_connection_is_writing(p->connection))
        halay_tcp_connection_flush(p->connection);
}

static void tcp_recv(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes, struct halay_transfer *x)
{
    halay_tcp_peer_receive(peer_of(link, peer), peer, tag, buf, bytes, x);
    if (!halay_transfer_is_done(x))
        halay_tcp_mesh_touch(&self_of(link)->mesh, peer, x, 1);
}

static enum halay_status tcp_progress(struct halay_link *link)
{
    return halay_tcp_mesh_turn(&self_of(link)->mesh);
}

static void tcp_cancel(struct halay_link *link, struct halay_transfer *x)
{
    halay_tcp_peer_cancel(peer_of(link, x->peer), x);
}

static void tcp_forget(struct halay_link *link, struct halay_group_range groups)
{
    halay_forgotten_add(&link->forgotten, groups);
    halay_tcp_mesh_forget(&self_of(link)->mesh, groups);
}

/* ---- sleep ---- */

static long tcp_arm(struct halay_link *link)
{
    struct tcp_transport *self = self_of(link);

    halay_tcp_mesh_settle(&self->mesh);
    self->mesh.looks = UINT32_MAX - 1; /* time passes: the next progress looks at the processes */
    return HALAY_RINGS;
}

static int tcp_event_fd(struct halay_link *link)
{
    return self_of(link)->mesh.set.epoll;
}

/* ---- start and end ---- */

static void tcp_destroy(struct tcp_transport *self)
{
    halay_tcp_mesh_fini(&self->mesh);
    halay_forgotten_fini(&self->base.forgotten);
    free(self->base.lost);
    free(self);
}

static void tcp_close(struct halay_link *link)
{
    halay_tcp_mesh_leave(&self_of(link)->mesh);
    tcp_destroy(self_of(link));
}

static const struct halay_link_ops tcp_ops = {
    .name = "tcp",
    .send = tcp_send,
    .recv = tcp_recv,
    .progress = tcp_progress,
    .cancel = tcp_cancel,
    .forget = tcp_forget,
    .arm = tcp_arm,
    .event_fd = tcp_event_fd,
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

void halay_tcp_interfaces(struct halay_link *link, char *names, size_t size)
{
    const struct tcp_transport *self = self_of(link);
    char name[IF_NAMESIZE];

    *names = 0;
    for (int r = 0; r < link->size; r++) {
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

    self->base.lost = calloc((size_t)self->base.size, sizeof *self->base.lost);
    /* In any case: the others wait for this rank's record. */
    enum halay_status status = halay_tcp_mesh_init(&self->mesh, &self->base, how, boot, peers);
    if (!self->base.lost)
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory for connections with %d ranks", self->base.size);
    if (status == HALAY_OK && how->connects)
        status = halay_tcp_mesh_connect(&self->mesh);
    if (status == HALAY_OK)
        halay_tcp_mesh_share(&self->mesh);
    return status;
}

enum halay_status halay_tcp_open(struct halay_log *log, const struct halay_tcp_how *how, struct halay_boot *boot,
                                 struct halay_peers *peers, struct halay_link **out)
{
    struct tcp_transport *self = calloc(1, sizeof *self);

    if (!self)
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory for the tcp transport");
    self->base =
        (struct halay_link){ .ops = &tcp_ops, .rank = boot->rank, .size = boot->size, .failed_peer = -1, .log = log };
    enum halay_status status = tcp_init(self, how, boot, peers);
    if (status != HALAY_OK) {
        tcp_destroy(self);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
