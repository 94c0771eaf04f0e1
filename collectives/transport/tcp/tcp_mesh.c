/* SPDX-License-Identifier: Apache-2.0
 *
 * Mesh: peers, their connections, and what ends them.
 */
#include "collectives/transport/tcp/tcp_mesh.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_EVERY = 64,
    SET_EVERY = 16,
    RECEIVE_PATIENCE_US = 50000,   /* a sender connects within that time, or is asked */
    REFUSED_PATIENCE_US = 1000000, /* the same for a rank that has announced one */
    CONNECT_POLL_MS = 100,
    DRAIN_TURNS = 1000,
    LEFT_PATIENCE_US = 300000, /* a rank that left because of a death is missed after that is known */
    LAST_WORDS_MS = 100,       /* for the system to take a BYE */
};

static struct halay_tcp_member *member_of(struct halay_tcp_mesh *mesh, int rank)
{
    return &mesh->members[rank];
}

/* ---- failure ---- */

static void mesh_fail(struct halay_tcp_mesh *mesh, enum halay_status status, int rank, const char *why)
{
    if (mesh->status != HALAY_OK)
        return;
    halay_error_at(mesh->link->log, &HALAY_ERROR_OF_RANK(rank), "rank %d: %s", rank, why);
    mesh->status = status;
    if (mesh->link->failed_peer < 0)
        mesh->link->failed_peer = rank;
    for (int r = 0; r < mesh->link->size; r++) { /* these are not read any more: they must not keep a sleeper awake */
        for (struct halay_tcp_connection *c = member_of(mesh, r)->peer.connection; c; c = c->next)
            (void)halay_tcp_set_watch(&mesh->set, &c->watch, 0);
    }
}

static void lose_rank(struct halay_tcp_mesh *mesh, int rank)
{
    mesh->link->lost[rank] = 1;
    if (mesh->link->failed_peer < 0)
        mesh->link->failed_peer = rank;
}

/* The connection has ended, and all that arrived over it was taken. */
static void note_end(struct halay_tcp_mesh *mesh, const struct halay_tcp_peer *peer,
                     const struct halay_tcp_connection *c)
{
    int error = c->error, is_closed = !error || error == ECONNRESET || error == EPIPE;

    if (c->has_left || mesh->link->lost[peer->rank])
        return;
    halay_peers_set_dead(mesh->watch, peer->rank, !is_closed,
                         error ? strerror(error) : "it was closed without a close notice");
    lose_rank(mesh, peer->rank);
}

/* ---- connections ---- */

/* Connections that take nothing are looked at four times before the system would end them. */
static void look_at_full_at(struct halay_tcp_mesh *mesh, int64_t now_us)
{
    mesh->full_us = now_us + (int64_t)mesh->silence_ms * 1000 / 4;
    if (mesh->full_us < mesh->set.timer_us)
        halay_tcp_set_alarm(&mesh->set, mesh->full_us);
}

static void look_at_full(struct halay_tcp_mesh *mesh, int64_t now_us)
{
    mesh->full_us = 0;
    for (int r = 0; r < mesh->link->size; r++)
        for (struct halay_tcp_connection *c = member_of(mesh, r)->peer.connection; c; c = c->next) {
            int is_full = c->is_full && halay_tcp_connection_is_writing(c);
            int is_held = is_full && halay_tcp_is_held(c->watch.fd);
            if (is_held != c->is_held)
                halay_tcp_set_patience(c->watch.fd, is_held ? 0 : mesh->silence_ms);
            c->is_held = is_held;
            if (is_full)
                look_at_full_at(mesh, now_us);
        }
}

/* Writable or not, only while there is something to write. */
static void watch_connection(struct halay_tcp_mesh *mesh, struct halay_tcp_connection *c)
{
    uint32_t wanted = (c->has_ended ? 0u : EPOLLIN) | (halay_tcp_connection_is_writing(c) ? EPOLLOUT : 0u);

    if (mesh->status == HALAY_OK && halay_tcp_set_watch(&mesh->set, &c->watch, wanted) != HALAY_OK)
        mesh_fail(mesh, HALAY_ERR_SYSTEM, ((struct halay_tcp_peer *)c->arg)->rank, "it cannot be waited for");
    if (wanted & EPOLLOUT && c->is_full && !mesh->full_us)
        look_at_full_at(mesh, halay_now_us());
}

static void watch_all(struct halay_tcp_mesh *mesh, struct halay_tcp_member *m)
{
    for (struct halay_tcp_connection *c = m->peer.connection; c; c = c->next)
        watch_connection(mesh, c);
}

/* A rank left because it has lost another one, with which this rank may have no connection of its own. */
static void note_reason(struct halay_tcp_mesh *mesh, const struct halay_tcp_peer *peer)
{
    int lost = peer->lost > 0 && peer->lost <= (uint64_t)mesh->link->size ? (int)peer->lost - 1 : mesh->link->rank;
    char why[64];

    if (lost == mesh->link->rank || mesh->link->lost[lost] || member_of(mesh, lost)->peer.has_left)
        return;
    snprintf(why, sizeof why, "reported by rank %d", peer->rank);
    halay_peers_set_dead(mesh->watch, lost, 0, why);
    lose_rank(mesh, lost);
}

static int serve_connection(struct halay_tcp_peer *peer, struct halay_tcp_connection *c)
{
    int came = 0;

    if (halay_tcp_connection_is_writing(c))
        halay_tcp_connection_flush(c);
    if (!c->has_ended)
        came = halay_tcp_connection_read(c);
    if (peer->sends.first)
        halay_tcp_peer_push(peer);
    if (halay_tcp_connection_is_writing(c) && !c->is_full)
        halay_tcp_connection_flush(c);
    return came;
}

/* One of several has ended: reads what has arrived over the others before the rank counts as lost. */
static void peer_drain(struct halay_tcp_peer *peer)
{
    int has_ended = 0, came = 1;

    for (const struct halay_tcp_connection *c = peer->connection; c; c = c->next)
        has_ended |= c->has_ended;
    for (int i = 0; has_ended && came && i < DRAIN_TURNS; i++) {
        came = 0;
        for (struct halay_tcp_connection *c = peer->connection; c; c = c->next)
            came |= serve_connection(peer, c);
    }
}

/* Makes one peer's part of a turn. Returns nonzero if anything arrived. */
static int member_serve(struct halay_tcp_mesh *mesh, struct halay_tcp_member *m)
{
    struct halay_tcp_peer *peer = &m->peer;
    int had_left = peer->has_left, came = 0;

    if (mesh->status != HALAY_OK)
        return 0;
    for (struct halay_tcp_connection *c = peer->connection; c; c = c->next)
        came |= serve_connection(peer, c);
    if (peer->streams > 1)
        peer_drain(peer);
    if (peer->has_left && !had_left) {
        mesh->left++;
        halay_peers_set_left(mesh->watch, peer->rank);
        note_reason(mesh, peer);
    }
    if (peer->status != HALAY_OK)
        mesh_fail(mesh, peer->status, peer->rank, peer->why ? peer->why : "what it sent is malformed");
    for (struct halay_tcp_connection *c = peer->connection; c; c = c->next) {
        if (c->status != HALAY_OK)
            mesh_fail(mesh, c->status, peer->rank, "what it sent is malformed, or was changed on its way");
        if (c->has_ended || c->error == ENOMEM) {
            watch_connection(mesh, c);
            note_end(mesh, peer, c);
        }
    }
    return came;
}

static void connection_ready(struct halay_tcp_watch *w, uint32_t events)
{
    struct halay_tcp_connection *c = (struct halay_tcp_connection *)w;
    struct halay_tcp_member *m = c->arg;

    member_serve(m->mesh, m);
    if (events & EPOLLOUT || !m->is_busy)
        watch_connection(m->mesh, c);
    for (struct halay_tcp_connection *other = m->peer.connection->next; other; other = other->next)
        watch_connection(m->mesh, other);
}

/* Returns the number of connections with a rank: several where a network limits each. */
static int streams_with(const struct halay_tcp_mesh *mesh, int rank)
{
    return halay_peers_is_local(mesh->watch, rank) ? 1 : mesh->route.streams;
}

static void dial_stop(struct halay_tcp_member *m)
{
    halay_tcp_dial_end(m->dial);
    m->dial = NULL;
}

static void member_touch(struct halay_tcp_member *m)
{
    if (m->is_touched || !m->peer.connection)
        return;
    m->is_touched = 1;
    m->next_touched = m->mesh->touched;
    m->mesh->touched = m;
}

static void make_busy(struct halay_tcp_member *m)
{
    struct halay_tcp_mesh *mesh = m->mesh;

    if (m->is_busy)
        return;
    if (mesh->busy_count == HALAY_TCP_BUSY_MAX) {
        mesh->is_crowded = 1;
        return;
    }
    mesh->busy[mesh->busy_count++] = m;
    m->is_busy = 1;
}

/* The last one that was missing. */
static void all_connected(struct halay_tcp_mesh *mesh, struct halay_tcp_member *m)
{
    m->peer.connection = m->made;
    m->peer.streams = m->made_count;
    m->made = NULL;
    watch_all(mesh, m);
    halay_debug(mesh->link->log, "connected with rank %d on '%s'", m->peer.rank,
                halay_peers_host(mesh->watch, m->peer.rank));
    halay_tcp_peer_connected(&m->peer);
    member_touch(m);
    if (m->peer.wanted)
        make_busy(m);
}

static void append_made(struct halay_tcp_member *m, struct halay_tcp_connection *c)
{
    struct halay_tcp_connection **at = &m->made;

    while (*at)
        at = &(*at)->next;
    *at = c;
    m->made_count++;
}

/* Over fd, which is owned. */
static void member_connected(struct halay_tcp_mesh *mesh, struct halay_tcp_member *m, int fd,
                             const struct store_handshake *handshake, int has_dialed)
{
    struct halay_tcp_connection *c = malloc(sizeof *c);

    if (!c || halay_tcp_connection_init(c, fd, &halay_tcp_peer_handler, m) != HALAY_OK) {
        if (c)
            halay_tcp_connection_fini(c);
        else
            close(fd);
        free(c);
        mesh_fail(mesh, HALAY_ERR_NO_MEMORY, m->peer.rank, "no memory for a connection");
        return;
    }
    c->watch.ready = connection_ready;
    store_open_directions(handshake, mesh->route.key, has_dialed ? &c->signs : &c->checks,
                          has_dialed ? &c->checks : &c->signs);
    append_made(m, c);
    if (mesh->sealing && halay_tcp_connection_seal(c, mesh->sealing == HALAY_TCP_AES) != HALAY_OK)
        mesh_fail(mesh, HALAY_ERR_NO_MEMORY, m->peer.rank, "no memory for encryption");
    if (halay_tcp_set_up(mesh->link->log, fd, mesh->silence_ms) != HALAY_OK)
        mesh_fail(mesh, HALAY_ERR_SYSTEM, m->peer.rank, "its connection cannot be set up");
    if (m->made_count == streams_with(mesh, m->peer.rank))
        all_connected(mesh, m);
}

static enum halay_tcp_claim member_claim(void *arg, int rank, int stream)
{
    struct halay_tcp_mesh *mesh = arg;
    const struct halay_tcp_member *m = member_of(mesh, rank);

    if (m->peer.connection || stream != m->made_count || mesh->link->lost[rank] || mesh->status != HALAY_OK)
        return HALAY_TCP_CLAIM_DROP; /* tried again, if it is the stream that is early */
    if (m->dial && halay_tcp_dial_is_bound(m->dial) && mesh->link->rank < rank)
        return HALAY_TCP_CLAIM_REFUSE;
    return HALAY_TCP_CLAIM_TAKE;
}

static void dial_at(struct halay_tcp_member *m, int64_t at_us);

/* The other rank makes the next stream, too, as a rule. */
static void member_taken(void *arg, int rank, int fd, const struct store_handshake *handshake)
{
    struct halay_tcp_mesh *mesh = arg;
    struct halay_tcp_member *m = member_of(mesh, rank);

    dial_stop(m);
    member_connected(mesh, m, fd, handshake, 0);
    m->dial_us = halay_now_us() + RECEIVE_PATIENCE_US;
    dial_at(m, m->dial_us);
}

static enum halay_status member_pass(void *arg, int to, int fd, const unsigned char *hello)
{
    const struct halay_tcp_mesh *mesh = arg;

    if (!halay_peers_is_local(mesh->watch, to))
        return HALAY_ERR_UNSUPPORTED;
    if (halay_tcp_hand_over(mesh->records[to].name, fd, hello, STORE_HELLO_BYTES))
        return HALAY_OK;
    return errno == ECONNREFUSED ? HALAY_ERR_PEER : HALAY_ERR_SYSTEM;
}

void halay_tcp_mesh_share(struct halay_tcp_mesh *mesh)
{
    for (int r = 0; r < mesh->link->size && mesh->acceptor.port.watch.fd >= 0; r++)
        if (r != mesh->link->rank && halay_peers_is_local(mesh->watch, r) &&
            !halay_tcp_hand_over(mesh->records[r].name, mesh->acceptor.port.watch.fd, "", 1))
            halay_info(mesh->link->log, "rank %d does not share the port: %s", r, strerror(errno));
}

/* ---- making connections ---- */

/* Begins no later than at_us. */
static void dial_at(struct halay_tcp_member *m, int64_t at_us)
{
    struct halay_tcp_mesh *mesh = m->mesh;

    if (m->peer.connection || mesh->link->lost[m->peer.rank])
        return;
    if (!m->is_dialing) {
        m->is_dialing = 1;
        m->dial_us = at_us;
        m->next_dialing = mesh->dialing;
        mesh->dialing = m;
        halay_tcp_set_alarm(&mesh->set, at_us < mesh->set.timer_us ? at_us : mesh->set.timer_us);
    } else if (at_us < m->dial_us) {
        m->dial_us = at_us;
    }
}

static void give_up(struct halay_tcp_member *m)
{
    char why[1280];

    halay_tcp_dial_explain(m->dial, why, sizeof why);
    halay_peers_set_dead(m->mesh->watch, m->peer.rank, 1, why);
    lose_rank(m->mesh, m->peer.rank);
}

/* Nonzero if there is more to do, at *next_us. */
static int dial_turn(struct halay_tcp_member *m, int64_t now_us, int64_t *next_us)
{
    struct halay_tcp_mesh *mesh = m->mesh;
    const struct store_handshake *handshake;
    int fd;

    if (m->peer.connection || mesh->link->lost[m->peer.rank] || mesh->status != HALAY_OK)
        return 0;
    *next_us = m->dial_us;
    if (!m->dial && now_us < m->dial_us)
        return 1;
    if (!m->dial)
        m->dial = halay_tcp_dial_begin(&mesh->route, mesh->records[m->peer.rank].addresses, m->peer.rank, m->made_count,
                                       now_us + (int64_t)mesh->timeout_ms * 1000);
    if (!m->dial) {
        mesh_fail(mesh, HALAY_ERR_NO_MEMORY, m->peer.rank, "no memory for a connection");
        return 0;
    }
    switch (halay_tcp_dial_look(m->dial, now_us, next_us)) {
    case HALAY_IN_PROGRESS:
        return 1;
    case HALAY_OK:
        fd = halay_tcp_dial_take(m->dial, &handshake);
        member_connected(mesh, m, fd, handshake, 1);
        dial_stop(m);
        *next_us = m->dial_us = now_us;
        return !m->peer.connection && mesh->status == HALAY_OK;
    case HALAY_ERR_CLOSED:
        dial_stop(m);
        *next_us = m->dial_us = now_us + REFUSED_PATIENCE_US;
        return 1;
    case HALAY_ERR_NO_MEMORY:
        mesh_fail(mesh, HALAY_ERR_SYSTEM, m->peer.rank, "no descriptor is free for a connection with it (ulimit -n)");
        return 0;
    default:
        give_up(m);
        return 0;
    }
}

/* Connections that are being made, from both sides. */
static void making_turn(struct halay_tcp_mesh *mesh)
{
    int64_t now_us = halay_now_us(), alarm_us = halay_tcp_acceptor_look(&mesh->acceptor, now_us), next_us;

    for (struct halay_tcp_member **at = &mesh->dialing, *m; (m = *at);) {
        if (dial_turn(m, now_us, &next_us)) {
            alarm_us = next_us < alarm_us ? next_us : alarm_us;
            at = &m->next_dialing;
            continue;
        }
        dial_stop(m);
        m->is_dialing = 0;
        *at = m->next_dialing;
    }
    if (mesh->full_us && now_us >= mesh->full_us)
        look_at_full(mesh, now_us);
    if (mesh->full_us && mesh->full_us < alarm_us)
        alarm_us = mesh->full_us;
    if (mesh->left_us && mesh->left_us < alarm_us)
        alarm_us = mesh->left_us > now_us ? mesh->left_us : alarm_us;
    halay_tcp_set_alarm(&mesh->set, alarm_us);
}

/* Nonzero if there is something to do at some time. */
static int is_timed(const struct halay_tcp_mesh *mesh)
{
    return mesh->set.timer_us != HALAY_NEVER || mesh->dialing || mesh->acceptor.first || mesh->acceptor.reopen_us;
}

/* ---- turns ---- */

void halay_tcp_mesh_touch(struct halay_tcp_mesh *mesh, int rank, const struct halay_transfer *x, int is_receive)
{
    struct halay_tcp_member *m = member_of(mesh, rank);
    const struct halay_tcp_connection *c = m->peer.connection;

    if (!c && !x->is_optional)
        dial_at(m, is_receive ? halay_now_us() + RECEIVE_PATIENCE_US : 0);
    if (!c)
        return;
    member_touch(m);
    if (!x->is_optional)
        make_busy(m);
}

void halay_tcp_mesh_forget(struct halay_tcp_mesh *mesh, struct halay_group_range groups)
{
    for (int r = 0; r < mesh->link->size; r++) {
        halay_tcp_peer_forget(&mesh->members[r].peer, groups);
        member_touch(&mesh->members[r]);
    }
}

/* Whatever was queued since the last turn. */
static void flush_touched(struct halay_tcp_mesh *mesh)
{
    for (struct halay_tcp_member *m = mesh->touched, *next; m; m = next) {
        next = m->next_touched;
        m->is_touched = 0;
        for (struct halay_tcp_connection *c = m->peer.connection; c; c = c->next) {
            if (halay_tcp_connection_is_writing(c))
                halay_tcp_connection_flush(c);
            if (!m->is_busy && halay_tcp_connection_is_writing(c))
                watch_connection(mesh, c);
        }
    }
    mesh->touched = NULL;
}

static void serve_busy(struct halay_tcp_mesh *mesh)
{
    for (int i = 0; i < mesh->busy_count;) {
        struct halay_tcp_member *m = mesh->busy[i];
        member_serve(mesh, m);
        if (m->peer.wanted && !m->peer.connection->has_ended) {
            i++;
            continue;
        }
        mesh->busy[i] = mesh->busy[--mesh->busy_count];
        m->is_busy = 0;
        mesh->is_crowded = 0;
        watch_all(mesh, m);
    }
}

/* Reads what a process of this host sent before it died from its socket, then counts it as lost. */
static void look_at_dead(struct halay_tcp_mesh *mesh)
{
    int dead;

    mesh->looks = 0;
    if (halay_peers_check(mesh->watch, &dead) == HALAY_OK)
        return;
    for (int r = 0; r < mesh->link->size; r++) {
        struct halay_tcp_member *m = member_of(mesh, r);
        if (mesh->link->lost[r] || m->peer.has_left || !halay_peers_is_dead(mesh->watch, r))
            continue;
        while (m->peer.connection && !m->peer.connection->has_ended && member_serve(mesh, m))
            ;
        if (!m->peer.has_left)
            lose_rank(mesh, r);
    }
}

/* Nonzero if a transfer waits for a peer that has left. */
static int is_stuck(const struct halay_tcp_mesh *mesh, int rank)
{
    const struct halay_tcp_peer *peer = &mesh->members[rank].peer;

    return peer->has_left && !mesh->link->lost[rank] && peer->wanted;
}

static void look_at_left(struct halay_tcp_mesh *mesh)
{
    int stuck = -1;

    for (int r = 0; r < mesh->link->size && stuck < 0; r++)
        if (is_stuck(mesh, r))
            stuck = r;
    if (stuck < 0 || !mesh->left_us) {
        mesh->left_us = stuck < 0 ? 0 : halay_now_us() + LEFT_PATIENCE_US;
        if (mesh->left_us && mesh->left_us < mesh->set.timer_us)
            halay_tcp_set_alarm(&mesh->set, mesh->left_us);
        return;
    }
    if (halay_now_us() < mesh->left_us)
        return;
    for (int r = stuck; r < mesh->link->size; r++)
        if (is_stuck(mesh, r)) {
            halay_error_at(mesh->link->log, &HALAY_ERROR_OF_RANK(r), "rank %d has left", r);
            lose_rank(mesh, r);
        }
    mesh->left_us = 0;
}

static enum halay_status status_of(const struct halay_tcp_mesh *mesh)
{
    if (mesh->status != HALAY_OK)
        return mesh->status;
    return mesh->link->failed_peer >= 0 ? HALAY_ERR_PEER : HALAY_OK;
}

enum halay_status halay_tcp_mesh_turn(struct halay_tcp_mesh *mesh)
{
    if (mesh->status != HALAY_OK)
        return mesh->status;
    if (mesh->touched)
        flush_touched(mesh);
    serve_busy(mesh);
    if (!mesh->busy_count || mesh->is_crowded || ++mesh->turns % SET_EVERY == 0)
        halay_tcp_set_turn(&mesh->set);
    if (mesh->left)
        look_at_left(mesh);
    if (is_timed(mesh))
        making_turn(mesh);
    if (++mesh->looks >= LOOK_EVERY)
        look_at_dead(mesh);
    return status_of(mesh);
}

void halay_tcp_mesh_settle(struct halay_tcp_mesh *mesh)
{
    if (mesh->status != HALAY_OK)
        return;
    flush_touched(mesh);
    for (int i = 0; i < mesh->busy_count; i++)
        watch_all(mesh, mesh->busy[i]);
}

/* ---- start and end ---- */

static enum halay_status members_allocate(struct halay_tcp_mesh *mesh)
{
    mesh->members = calloc((size_t)mesh->link->size, sizeof *mesh->members);
    if (!mesh->members)
        return halay_fail(mesh->link->log, HALAY_ERR_NO_MEMORY, "no memory for connections with %d ranks",
                          mesh->link->size);
    for (int r = 0; r < mesh->link->size; r++) {
        halay_tcp_peer_init(&mesh->members[r].peer, mesh->link, r);
        mesh->members[r].mesh = mesh;
    }
    return HALAY_OK;
}

enum halay_status halay_tcp_mesh_init(struct halay_tcp_mesh *mesh, struct halay_link *link,
                                      const struct halay_tcp_how *how, struct halay_boot *boot,
                                      struct halay_peers *peers)
{
    struct halay_tcp_listeners listeners;

    *mesh = (struct halay_tcp_mesh){
        .link = link,
        .watch = peers,
        .timeout_ms = how->timeout_ms,
        .silence_ms = how->silence_ms,
        .set = { .epoll = -1, .timer = -1 },
        .route = { .set = &mesh->set, .rank = link->rank },
        .acceptor = { .port.watch.fd = -1,
                      .local.watch.fd = -1,
                      .log = link->log,
                      .route = &mesh->route,
                      .size = link->size,
                      .proof_ms = how->timeout_ms,
                      .claim = member_claim,
                      .taken = member_taken,
                      .pass = member_pass,
                      .arg = mesh },
    };
    enum halay_status status = members_allocate(mesh);
    if (status == HALAY_OK)
        status = halay_tcp_set_init(link->log, &mesh->set);
    /* The others wait for this rank's record whether it can continue or not. */
    enum halay_status started =
        halay_tcp_start(link->log, how, boot, peers, &mesh->route, &listeners, &mesh->records, &mesh->sealing);
    if (status == HALAY_OK)
        status = started;
    if (status == HALAY_OK)
        return halay_tcp_acceptor_open(&mesh->acceptor, listeners.port, listeners.local);
    if (listeners.port >= 0)
        close(listeners.port);
    if (listeners.local >= 0)
        close(listeners.local);
    return status;
}

/* Rank 0: how many have not come; the others: whether it has. */
static int count_missing(const struct halay_tcp_mesh *mesh)
{
    int missing = 0;

    if (mesh->link->rank)
        return !mesh->members[0].peer.connection;
    for (int r = 1; r < mesh->link->size; r++)
        missing += !mesh->members[r].peer.connection;
    return missing;
}

static enum halay_status report_missing(const struct halay_tcp_mesh *mesh)
{
    for (int r = 1; r < mesh->link->size && !mesh->link->rank; r++)
        if (!mesh->members[r].peer.connection)
            halay_error(mesh->link->log, "rank %d has not connected with rank 0 (HALAY_START_TIMEOUT)", r);
    return HALAY_ERR_TIMEOUT;
}

static void wait_a_while(struct halay_tcp_mesh *mesh, int ms)
{
    struct pollfd ready = { .fd = mesh->set.epoll, .events = POLLIN };

    (void)!poll(&ready, 1, ms); /* a signal: the clock is looked at */
    halay_tcp_set_turn(&mesh->set);
}

/* The next connection with rank 0, unless that makes it. HALAY_ERR_CLOSED: it does. */
static enum halay_status connect_stream(struct halay_tcp_mesh *mesh, struct halay_tcp_member *m, int64_t deadline_us)
{
    const struct store_handshake *handshake;
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    int64_t next_us;

    m->dial = halay_tcp_dial_begin(&mesh->route, mesh->records[0].addresses, 0, m->made_count, deadline_us);
    while (m->dial && (status = halay_tcp_dial_look(m->dial, halay_now_us(), &next_us)) == HALAY_IN_PROGRESS)
        wait_a_while(mesh, halay_deadline_left_ms(next_us));
    if (m->dial && status == HALAY_OK) {
        int fd = halay_tcp_dial_take(m->dial, &handshake);
        member_connected(mesh, m, fd, handshake, 1);
    }
    return status == HALAY_IN_PROGRESS ? HALAY_ERR_CLOSED : status;
}

/* A rank that cannot reach rank 0 logs it by itself. */
static enum halay_status connect_rank_0(struct halay_tcp_mesh *mesh, int64_t deadline_us)
{
    struct halay_tcp_member *m = member_of(mesh, 0);
    char why[1280] = "no memory";

    while (!m->peer.connection && mesh->status == HALAY_OK) {
        enum halay_status status = connect_stream(mesh, m, deadline_us);
        if (m->dial)
            halay_tcp_dial_explain(m->dial, why, sizeof why);
        dial_stop(m);
        if (status == HALAY_ERR_CLOSED)
            wait_a_while(mesh, CONNECT_POLL_MS);
        else if (status != HALAY_OK)
            return halay_fail(mesh->link->log, status, "cannot reach rank 0 on '%s': %s",
                              halay_peers_host(mesh->watch, 0), why);
    }
    return mesh->status;
}

enum halay_status halay_tcp_mesh_connect(struct halay_tcp_mesh *mesh)
{
    struct pollfd ready = { .fd = mesh->set.epoll, .events = POLLIN };
    int64_t deadline_us = halay_deadline_us(mesh->timeout_ms);

    if (mesh->link->rank)
        return connect_rank_0(mesh, deadline_us);
    while (count_missing(mesh) && mesh->status == HALAY_OK) {
        if (halay_deadline_passed(deadline_us))
            return report_missing(mesh);
        if (mesh->acceptor.is_out)
            return HALAY_ERR_SYSTEM;
        (void)!poll(&ready, 1, CONNECT_POLL_MS); /* a signal: the clock is looked at */
        halay_tcp_set_turn(&mesh->set);
        making_turn(mesh);
    }
    return mesh->status;
}

/* A socket that is closed with something unread in it takes back what was sent and has not been read yet: what is there
 * is read first. */
static void leave_peer(struct halay_tcp_mesh *mesh, struct halay_tcp_connection *c, int lost)
{
    const struct halay_tcp_frame bye = { .kind = HALAY_TCP_BYE, .flags = HALAY_TCP_SIGNED, .id = (uint64_t)(lost + 1) };
    struct pollfd writable = { .fd = c->watch.fd, .events = POLLOUT };
    unsigned char dropped[4096];

    if (halay_tcp_connection_send(c, &bye, NULL, 0, NULL) != HALAY_OK)
        return;
    halay_tcp_connection_flush(c);
    while (halay_tcp_connection_is_writing(c) && poll(&writable, 1, LAST_WORDS_MS) > 0)
        halay_tcp_connection_flush(c);
    (void)halay_tcp_set_watch(&mesh->set, &c->watch, 0);
    if (shutdown(c->watch.fd, SHUT_WR) < 0)
        return; /* it is not connected any more */
    while (recv(c->watch.fd, dropped, sizeof dropped, 0) > 0)
        ;
}

void halay_tcp_mesh_leave(struct halay_tcp_mesh *mesh)
{
    int lost = mesh->link->size - 1;

    while (lost >= 0 && !halay_peers_is_dead(mesh->watch, lost))
        lost--;
    for (int r = 0; r < mesh->link->size; r++)
        for (struct halay_tcp_connection *c = member_of(mesh, r)->peer.connection; c; c = c->next)
            if (!c->has_ended)
                leave_peer(mesh, c, lost);
}

void halay_tcp_mesh_fini(struct halay_tcp_mesh *mesh)
{
    for (int r = 0; mesh->members && r < mesh->link->size; r++) {
        struct halay_tcp_member *m = &mesh->members[r];
        dial_stop(m);
        for (struct halay_tcp_connection *c = m->peer.connection; c; c = c->next)
            (void)halay_tcp_set_watch(&mesh->set, &c->watch, 0);
        if (m->made)
            m->peer.connection = m->made; /* to be closed */
        halay_tcp_peer_fini(&m->peer);
    }
    if (mesh->route.set)
        halay_tcp_acceptor_close(&mesh->acceptor);
    halay_tcp_set_fini(&mesh->set);
    free(mesh->members);
    free(mesh->records);
    explicit_bzero(mesh->route.key, sizeof mesh->route.key);
    mesh->members = NULL;
    mesh->records = NULL;
}
