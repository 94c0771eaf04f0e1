/* SPDX-License-Identifier: Apache-2.0
 *
 * Store server: accepts, authenticates and answers, without ever blocking.
 *
 * One epoll set holds the listener, a timer and all connections; its own descriptor is what the owner waits on. A
 * connection is read to the number of bytes that its phase needs and not one more:
 *
 *     HELLO (80) -> challenge -> PROOF (32) -> welcome -> HEAD (4) -> BODY (announced, bounded) -> answer -> HEAD ...
 *
 * Pending: until its proof is right a connection owns no memory but its own struct, has PROOF_MS for it (the timer is
 * set for the oldest, since all have the same time), and there are at most PENDING_MAX of them: one more drops the
 * oldest that has not sent a right hello. If all have, they are ranks that wait for a processor, and no other
 * connection is accepted until one of them is a member or its time is up. Without descriptors and without one to drop,
 * the listener rests for RETRY_MS: any part of the process may close some. Members: nothing is read of a request while
 * an answer is unsent, so that what a connection can make the server hold is one message each way. A get whose key is
 * absent parks the connection: it waits in a list of its key, and costs nothing until that is set.
 *
 * Freeing is put off to the end of progress (a later event of the same batch may still point to the connection).
 * Cleanup: destroy accepts any half-built state.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/net/listen.h"
#include "base/store/store_protocol.h"
#include "base/store/store_table.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { PENDING_MAX = 256, PROOF_MS = 5000, RETRY_MS = 100, EVENTS = 64, ACCEPTS = 64, TURNS = 64, PARKINGS = 4096 };
static const size_t table_bytes = (size_t)256 << 20;

enum phase { HELLO, PROOF, HEAD, BODY, DEAD };

struct connection {
    struct connection *next, *previous; /* in server->pending (oldest first), ->members or ->dead */
    int fd;
    uint32_t watched; /* events that the epoll set watches */
    enum phase phase;
    int64_t deadline_us; /* of the proof */
    struct store_handshake handshake;
    int rank;
    struct store_direction in, out;
    unsigned char head[STORE_HEAD_BYTES];
    unsigned char *body; /* owned: the request under way, head and mac included; NULL before the first */
    size_t body_room;    /* allocated */
    size_t have;         /* bytes of this phase read so far */
    unsigned char key[HALAY_STORE_KEY_MAX];           /* of the newest request */
    size_t key_bytes;                                 /* 0: none yet, or the client has left */
    int is_parked;                                    /* a get waits for its key to be set: */
    struct connection *next_parked, *previous_parked; /* in its list of server->parked */
    uint32_t parked_number;
    unsigned char *reply; /* owned: what is to be sent, NULL if nothing */
    size_t reply_bytes, reply_sent;
};

struct list {
    struct connection *first, *last;
    size_t count;
};

struct halay_store_server {
    struct halay_log *log; /* borrowed */
    unsigned char secret[HALAY_SECRET_BYTES];
    int listener, timer, epoll;
    int is_listening; /* the listener is in the epoll set (not while descriptors have run out) */
    int is_crowded;   /* nor while there are PENDING_MAX that have sent a right hello */
    int is_warned;    /* that descriptors had run out */
    int64_t retry_us; /* when it listens again after that; else HALAY_NEVER */
    char address[HALAY_ADDRESS_TEXT];
    struct list pending, members, dead;
    struct connection *parked[PARKINGS]; /* lists of those that wait for a key, by its hash */
    struct store_table table;
    const char *watched_prefix; /* borrowed; NULL: no watch */
    const char *taken_prefix;   /* borrowed; NULL: all keys are kept */
    enum halay_status (*take)(void *arg, const char *key, const void *value, size_t bytes);
    void *take_arg; /* borrowed */
    void (*was_set)(void *arg, const char *key, const void *value, size_t bytes);
    void *was_set_arg;
    unsigned *connections; /* owned: how often each rank has connected */
    size_t connections_room;
    size_t accepted, requests; /* members and their requests so far */
};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void list_add(struct list *list, struct connection *c)
{
    c->next = NULL;
    c->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = c;
    list->last = c;
    list->count++;
}

static void list_remove(struct list *list, struct connection *c)
{
    *(c->previous ? &c->previous->next : &list->first) = c->next;
    *(c->next ? &c->next->previous : &list->last) = c->previous;
    list->count--;
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static int is_member(const struct connection *c)
{
    return c->phase == HEAD || c->phase == BODY;
}

static void connection_free(struct connection *c)
{
    free(c->body);
    free(c->reply);
    sodium_memzero(c, sizeof *c);
    free(c);
}

static struct connection **parking_of(struct halay_store_server *server, const unsigned char *key, size_t key_bytes)
{
    return &server->parked[halay_hash_more(HALAY_HASH_BEGIN, key, key_bytes) % PARKINGS];
}

static void connection_park(struct halay_store_server *server, struct connection *c, const struct store_message *get)
{
    struct connection **list = parking_of(server, get->key, get->key_bytes);

    c->is_parked = 1;
    c->parked_number = get->number;
    c->previous_parked = NULL;
    c->next_parked = *list;
    if (*list)
        (*list)->previous_parked = c;
    *list = c;
}

static void connection_unpark(struct halay_store_server *server, struct connection *c)
{
    if (!c->is_parked)
        return;
    c->is_parked = 0;
    if (c->previous_parked)
        c->previous_parked->next_parked = c->next_parked;
    else
        *parking_of(server, c->key, c->key_bytes) = c->next_parked;
    if (c->next_parked)
        c->next_parked->previous_parked = c->previous_parked;
}

/* Close it now, free it at the end of progress. */
static void drop_connection(struct halay_store_server *server, struct connection *c)
{
    if (c->phase == DEAD)
        return;
    connection_unpark(server, c);
    list_remove(is_member(c) ? &server->members : &server->pending, c);
    /* Closing alone would leave it in the set while a process that was just forked still holds the descriptor. */
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->phase = DEAD;
    list_add(&server->dead, c);
}

static int epoll_add(struct halay_store_server *server, int *fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = fd };

    return epoll_ctl(server->epoll, EPOLL_CTL_ADD, *fd, &event) == 0;
}

/* Descriptors have run out, or too many connections are pending: bury watches the port again. */
static void stop_listening(struct halay_store_server *server)
{
    if (epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->listener, NULL) == 0)
        server->is_listening = 0;
}

/* code: why nothing can be accepted. */
static void run_out(struct halay_store_server *server, int code)
{
    if (!server->is_warned)
        halay_warning(server->log, "store: cannot accept ranks: %s; they wait until it can (check ulimit -n)",
                      strerror(code));
    server->is_warned = 1;
    server->retry_us = halay_deadline_us(RETRY_MS);
    stop_listening(server);
}

static void connection_bury(struct halay_store_server *server)
{
    int has_room = server->dead.first || halay_deadline_passed(server->retry_us) ||
                   (server->is_crowded && server->pending.count < PENDING_MAX);

    if (has_room && !server->is_listening) {
        server->is_crowded = 0;
        server->is_listening = epoll_add(server, &server->listener);
        server->retry_us = server->is_listening ? HALAY_NEVER : halay_deadline_us(RETRY_MS);
    }
    while (server->dead.first) {
        struct connection *c = server->dead.first;
        list_remove(&server->dead, c);
        connection_free(c);
    }
}

static void watch_connection(struct halay_store_server *server, struct connection *c)
{
    struct epoll_event event = { .events = c->reply ? EPOLLOUT : EPOLLIN, .data.ptr = c };

    if (event.events == c->watched)
        return;
    c->watched = event.events;
    if (epoll_ctl(server->epoll, EPOLL_CTL_MOD, c->fd, &event) < 0)
        drop_connection(server, c);
}

static void connection_flush(struct halay_store_server *server, struct connection *c)
{
    while (c->reply_sent < c->reply_bytes) {
        ssize_t n = send(c->fd, c->reply + c->reply_sent, c->reply_bytes - c->reply_sent, MSG_NOSIGNAL);
        if (n > 0) {
            c->reply_sent += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            watch_connection(server, c);
            return;
        } else if (n == 0 || errno != EINTR) {
            drop_connection(server, c);
            return;
        }
    }
    free(c->reply);
    c->reply = NULL;
    watch_connection(server, c);
}

/* Takes ownership of the bytes. */
static void send_bytes(struct halay_store_server *server, struct connection *c, unsigned char *bytes, size_t count)
{
    c->reply = bytes;
    c->reply_bytes = count;
    c->reply_sent = 0;
    connection_flush(server, c);
}

static void send_answer(struct halay_store_server *server, struct connection *c, enum halay_store_kind kind,
                        uint32_t number, const unsigned char *value, size_t value_bytes)
{
    struct store_message message = { .kind = kind, .number = number, .value = value, .value_bytes = value_bytes };
    unsigned char *wire = malloc(store_message_bytes(&message));

    if (!wire) {
        halay_error(server->log, "store: no memory to answer rank %d", c->rank);
        drop_connection(server, c);
        return;
    }
    store_seal(&c->out, &message, wire);
    send_bytes(server, c, wire, store_message_bytes(&message));
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void wake_parked(struct halay_store_server *server, const unsigned char *key, size_t key_bytes)
{
    const struct store_entry *entry = store_table_get(&server->table, key, key_bytes);

    for (struct connection *c = *parking_of(server, key, key_bytes), *next; c; c = next) {
        next = c->next_parked;
        if (c->key_bytes == key_bytes && !memcmp(c->key, key, key_bytes)) {
            connection_unpark(server, c);
            send_answer(server, c, STORE_VALUE, c->parked_number, entry->value, entry->value_bytes);
        }
    }
}

/* Writes the key of a message as text; 0 if it does not begin with prefix, which may be NULL. */
static int key_of(const struct store_message *m, const char *prefix, char key[HALAY_STORE_KEY_MAX])
{
    size_t length = prefix ? strlen(prefix) : 0;

    if (!length || m->key_bytes < length || memcmp(m->key, prefix, length) != 0)
        return 0;
    snprintf(key, HALAY_STORE_KEY_MAX, "%.*s", (int)m->key_bytes, (const char *)m->key);
    return 1;
}

static void do_set(struct halay_store_server *server, struct connection *c, const struct store_message *m)
{
    char key[HALAY_STORE_KEY_MAX];
    const int is_taken = key_of(m, server->taken_prefix, key);
    const enum halay_status status =
        is_taken ? server->take(server->take_arg, key, m->value, m->value_bytes)
                 : store_table_set(&server->table, m->key, m->key_bytes, m->value, m->value_bytes);

    if (status != HALAY_OK) {
        if (!is_taken)
            halay_error(server->log, "store: no room for %zu bytes of rank %d", m->value_bytes, c->rank);
        send_answer(server, c, STORE_FULL, m->number, NULL, 0);
        return;
    }
    send_answer(server, c, STORE_DONE, m->number, NULL, 0);
    if (is_taken)
        return;
    wake_parked(server, m->key, m->key_bytes);
    if (key_of(m, server->watched_prefix, key))
        server->was_set(server->was_set_arg, key, m->value, m->value_bytes);
}

static void do_get(struct halay_store_server *server, struct connection *c, const struct store_message *m)
{
    const struct store_entry *entry = store_table_get(&server->table, m->key, m->key_bytes);

    if (entry) {
        send_answer(server, c, STORE_VALUE, m->number, entry->value, entry->value_bytes);
        return;
    }
    connection_park(server, c, m);
}

/* Returns nonzero if a client that has not left uses keys with this prefix. Clients that have left are last. */
static int is_prefix_used(const struct halay_store_server *server, const struct store_message *m)
{
    for (const struct connection *c = server->members.first; c; c = c->next)
        if (c->key_bytes >= m->key_bytes && !memcmp(c->key, m->key, m->key_bytes))
            return 1;
    return 0;
}

static void do_leave(struct halay_store_server *server, struct connection *c, const struct store_message *m)
{
    c->key_bytes = 0;
    list_remove(&server->members, c);
    list_add(&server->members, c);
    if (!is_prefix_used(server, m))
        store_table_remove(&server->table, m->key, m->key_bytes);
    send_answer(server, c, STORE_DONE, m->number, NULL, 0);
}

static void connection_misbehaves(struct halay_store_server *server, struct connection *c, const char *what)
{
    halay_warning(server->log, "store: rank %d sent %s; its connection is dropped", c->rank, what);
    drop_connection(server, c);
}

static void take_message(struct halay_store_server *server, struct connection *c, const struct store_message *m)
{
    c->phase = HEAD;
    connection_unpark(server, c); /* a newer request takes the place of a parked one */
    server->requests++;
    memcpy(c->key, m->key, m->key_bytes);
    c->key_bytes = m->key_bytes;
    if (m->kind == STORE_SET)
        do_set(server, c, m);
    else if (m->kind == STORE_GET)
        do_get(server, c, m);
    else
        do_leave(server, c, m);
}

static void take_body(struct halay_store_server *server, struct connection *c)
{
    struct store_message m;
    enum halay_status status = store_unseal(&c->in, c->body, &m);

    if (status == HALAY_ERR_AUTH) {
        connection_misbehaves(server, c, "a message that was changed on its way");
    } else if (status != HALAY_OK || (m.kind != STORE_SET && m.kind != STORE_GET && m.kind != STORE_LEAVE)) {
        connection_misbehaves(server, c, "a malformed message");
    } else {
        take_message(server, c, &m);
    }
}

/* The body's memory is kept for the next request, unless this one was large. */
static int reserve_body(struct connection *c, size_t bytes)
{
    size_t usual = 4096, room = bytes > usual ? bytes : usual;

    if (c->body && c->body_room >= bytes && c->body_room <= 16 * usual)
        return 1;
    free(c->body);
    c->body = malloc(room);
    c->body_room = c->body ? room : 0;
    return c->body != NULL;
}

static void take_head(struct halay_store_server *server, struct connection *c)
{
    size_t bytes;

    if (store_body_bytes(c->head, &bytes) != HALAY_OK) {
        connection_misbehaves(server, c, "a message of impossible length");
        return;
    }
    if (!reserve_body(c, STORE_HEAD_BYTES + bytes + STORE_MAC_BYTES)) {
        halay_error(server->log, "store: no memory for a message of rank %d", c->rank);
        drop_connection(server, c);
        return;
    }
    memcpy(c->body, c->head, STORE_HEAD_BYTES);
    c->phase = BODY;
}

/* ---- handshake --------------------------------------------------------------------------------------------------- */

static void drop_pending(struct halay_store_server *server, struct connection *c, const char *why)
{
    halay_info(server->log, "store: an unauthenticated connection was dropped: %s", why);
    drop_connection(server, c);
}

static void take_hello(struct halay_store_server *server, struct connection *c)
{
    if (!store_is_hello(&c->handshake, server->secret)) {
        /* A program of another job is answered, so that it does not mistake this for an overloaded server. */
        if (store_make_refusal(&c->handshake, STORE_VERSION) &&
            send(c->fd, c->handshake.challenge, STORE_HELLO_BYTES, MSG_NOSIGNAL) < 0)
            halay_debug(server->log, "store: cannot answer a connection of another job: %s", strerror(errno));
        drop_pending(server, c, "no hello that is signed with this job's secret");
        return;
    }
    unsigned char *wire = malloc(STORE_HELLO_BYTES);
    if (!wire) {
        drop_connection(server, c);
        return;
    }
    store_make_challenge(&c->handshake, server->secret, STORE_VERSION);
    memcpy(wire, c->handshake.challenge, STORE_HELLO_BYTES);
    c->phase = PROOF;
    if (store_version(c->handshake.hello) != STORE_VERSION)
        halay_warning(server->log, "store: rank %u speaks version %u of the store's protocol, this is version %d",
                      store_rank(c->handshake.hello), store_version(c->handshake.hello), STORE_VERSION);
    send_bytes(server, c, wire, STORE_HELLO_BYTES); /* of another version too: it names ours, then that side closes */
}

/* How often this rank has connected before; counts this time. */
static int count_connection(struct halay_store_server *server, size_t rank, unsigned *reconnects)
{
    if (rank >= server->connections_room) {
        size_t room = halay_round_up(rank + 1, 256);
        unsigned *grown = realloc(server->connections, room * sizeof *grown);
        if (!grown)
            return 0;
        memset(grown + server->connections_room, 0, (room - server->connections_room) * sizeof *grown);
        server->connections = grown;
        server->connections_room = room;
    }
    *reconnects = server->connections[rank]++;
    return 1;
}

static void take_proof(struct halay_store_server *server, struct connection *c)
{
    unsigned reconnects;
    unsigned char value[4];
    uint32_t rank = store_rank(c->handshake.hello);

    if (!store_is_proof(&c->handshake, server->secret)) {
        drop_pending(server, c, "a wrong proof");
        return;
    }
    if (store_version(c->handshake.hello) != STORE_VERSION || rank > STORE_RANK_MAX ||
        !count_connection(server, rank, &reconnects)) {
        drop_connection(server, c);
        return;
    }
    c->rank = (int)rank;
    store_open_directions(&c->handshake, server->secret, &c->in, &c->out);
    list_remove(&server->pending, c);
    list_add(&server->members, c);
    server->accepted++;
    c->phase = HEAD;
    store_write_u32(value, reconnects);
    send_answer(server, c, STORE_WELCOME, 0, value, sizeof value);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Returns the buffer of this phase, and its size. */
static unsigned char *phase_buffer(struct connection *c, size_t *need)
{
    switch (c->phase) {
    case HELLO:
        *need = STORE_HELLO_BYTES;
        return c->handshake.hello;
    case PROOF:
        *need = STORE_MAC_BYTES;
        return c->handshake.proof;
    case HEAD:
        *need = STORE_HEAD_BYTES;
        return c->head;
    default:
        *need = (size_t)store_read_u32(c->head) + STORE_MAC_BYTES;
        return c->body + STORE_HEAD_BYTES;
    }
}

static void take_request(struct halay_store_server *server, struct connection *c)
{
    c->have = 0;
    switch (c->phase) {
    case HELLO:
        take_hello(server, c);
        return;
    case PROOF:
        take_proof(server, c);
        return;
    case HEAD:
        take_head(server, c);
        return;
    case BODY:
        take_body(server, c);
        return;
    case DEAD:
        return;
    }
}

/* At most TURNS pieces at a time: a client that sends without end must not keep the others waiting. */
static void read_piece(struct halay_store_server *server, struct connection *c)
{
    for (int turn = 0; turn < TURNS && c->phase != DEAD && !c->reply; turn++) {
        size_t need;
        unsigned char *to = phase_buffer(c, &need);
        ssize_t n = recv(c->fd, to + c->have, need - c->have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            drop_connection(server, c);
            return;
        }
        c->have += (size_t)n;
        if (c->have == need)
            take_request(server, c);
    }
}

/* ---- accepting --------------------------------------------------------------------------------------------------- */

/* The timer goes off when the time of the oldest pending connection is up, or the listener has rested. */
static void set_timer(struct halay_store_server *server)
{
    struct itimerspec when = { 0 };
    int64_t us = server->retry_us;

    if (server->pending.first && server->pending.first->deadline_us < us)
        us = server->pending.first->deadline_us;
    if (us != HALAY_NEVER) {
        when.it_value.tv_sec = (time_t)(us / 1000000);
        when.it_value.tv_nsec = (long)(us % 1000000) * 1000;
    }
    timerfd_settime(server->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drop_late(struct halay_store_server *server)
{
    uint64_t expired;

    if (read(server->timer, &expired, sizeof expired) < 0 && errno != EAGAIN)
        halay_warning(server->log, "store: cannot read its timer: %s", strerror(errno));
    while (server->pending.first && halay_deadline_passed(server->pending.first->deadline_us))
        drop_pending(server, server->pending.first, "silent for too long");
}

/* Drops the oldest connection without a correct hello, to make room for a newer one. Returns zero if every connection
 * has sent one, and is about to send its proof. */
static int make_room(struct halay_store_server *server, const char *why)
{
    size_t before = server->pending.count;

    for (struct connection *c = server->pending.first, *next; c; c = next) {
        next = c->next;
        if (c->phase == HELLO)
            read_piece(server, c); /* it may have come meanwhile */
        if (c->phase == HELLO)
            drop_pending(server, c, why);
        if (server->pending.count < before)
            return 1;
    }
    return 0;
}

static void add_pending(struct halay_store_server *server, int fd)
{
    struct connection *c = calloc(1, sizeof *c);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

    if (!c || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(c);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)); /* only speed depends on it */
    c->fd = fd;
    c->watched = EPOLLIN;
    c->deadline_us = halay_deadline_us(PROOF_MS);
    list_add(&server->pending, c);
    read_piece(server, c); /* most often its hello has come already */
}

/* A bounded number at a time, so that a flood does not keep the members waiting: epoll reports the rest again. */
static void accept_clients(struct halay_store_server *server)
{
    for (int i = 0; i < ACCEPTS; i++) {
        if (server->pending.count >= PENDING_MAX && !make_room(server, "too many at once")) {
            server->is_crowded = 1;
            stop_listening(server);
            return;
        }
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            add_pending(server, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            int code = errno;
            if (!make_room(server, "out of descriptors")) {
                run_out(server, code);
                return;
            }
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return; /* EAGAIN: that was all; anything else is this connection's trouble */
        }
    }
}

enum halay_status halay_store_server_progress(struct halay_store_server *server)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(server->epoll, events, EVENTS, 0);

    if (n < 0 && errno != EINTR)
        return halay_fail(server->log, HALAY_ERR_SYSTEM, "store: cannot wait for connections: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        if (events[i].data.ptr == &server->listener) {
            accept_clients(server);
        } else if (events[i].data.ptr == &server->timer) {
            drop_late(server);
        } else if (c->phase != DEAD) {
            if (c->reply)
                connection_flush(server, c);
            if (c->phase != DEAD && !c->reply)
                read_piece(server, c);
        }
    }
    connection_bury(server);
    set_timer(server);
    return HALAY_OK;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static enum halay_status open_epoll(struct halay_store_server *server)
{
    struct halay_address address;

    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (server->epoll < 0 || server->timer < 0 || !epoll_add(server, &server->listener) ||
        !epoll_add(server, &server->timer) || halay_socket_address(server->listener, &address) < 0)
        return halay_fail(server->log, HALAY_ERR_SYSTEM, "store: cannot watch its port: %s", strerror(errno));
    halay_address_text(&address, server->address, sizeof server->address);
    server->is_listening = 1;
    return HALAY_OK;
}

enum halay_status halay_store_server_adopt(struct halay_log *log, int listener,
                                           const unsigned char secret[HALAY_SECRET_BYTES],
                                           struct halay_store_server **out)
{
    struct halay_store_server *server = store_init(log) == HALAY_OK ? calloc(1, sizeof *server) : NULL;

    if (!server) {
        close(listener);
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "store: no memory");
    }
    server->log = log;
    server->listener = listener;
    server->timer = server->epoll = -1;
    server->retry_us = HALAY_NEVER;
    memcpy(server->secret, secret, HALAY_SECRET_BYTES);
    store_table_init(&server->table, table_bytes);

    enum halay_status status = open_epoll(server);
    if (status != HALAY_OK) {
        halay_store_server_destroy(server);
        return status;
    }
    *out = server;
    return HALAY_OK;
}

enum halay_status halay_store_server_create(struct halay_log *log, const unsigned char secret[HALAY_SECRET_BYTES],
                                            struct halay_store_server **out)
{
    const struct halay_address loopback = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } };
    int listener;

    enum halay_status status = halay_listen_at(log, &loopback, &listener);
    return status == HALAY_OK ? halay_store_server_adopt(log, listener, secret, out) : status;
}

const char *halay_store_server_address(const struct halay_store_server *server)
{
    return server->address;
}

void halay_store_server_watch(struct halay_store_server *server, const char *prefix,
                              void (*was_set)(void *arg, const char *key, const void *value, size_t bytes), void *arg)
{
    server->watched_prefix = prefix;
    server->was_set = was_set;
    server->was_set_arg = arg;
}

void halay_store_server_take(struct halay_store_server *server, const char *prefix,
                             enum halay_status (*take)(void *arg, const char *key, const void *value, size_t bytes),
                             void *arg)
{
    server->taken_prefix = prefix;
    server->take = take;
    server->take_arg = arg;
}

enum halay_status halay_store_server_set(struct halay_store_server *server, const char *key, const void *value,
                                         size_t bytes)
{
    size_t key_bytes = strlen(key);

    if (!key_bytes || key_bytes >= HALAY_STORE_KEY_MAX)
        return HALAY_ERR_ARGUMENT;
    enum halay_status status = store_table_set(&server->table, (const unsigned char *)key, key_bytes, value, bytes);
    if (status == HALAY_OK)
        wake_parked(server, (const unsigned char *)key, key_bytes);
    else
        halay_error(server->log, "store: no room for %zu bytes", bytes);
    return status;
}

void halay_store_server_remove(struct halay_store_server *server, const char *prefix)
{
    store_table_remove(&server->table, (const unsigned char *)prefix, strlen(prefix));
}

int halay_store_server_fd(const struct halay_store_server *server)
{
    return server->epoll;
}

size_t halay_store_server_members(const struct halay_store_server *server)
{
    return server->members.count;
}

void halay_store_server_count(const struct halay_store_server *server, struct halay_store_counts *counts)
{
    *counts = (struct halay_store_counts){ .connections = server->accepted,
                                           .requests = server->requests,
                                           .keys = server->table.count };
}

void halay_store_server_destroy(struct halay_store_server *server)
{
    if (!server)
        return;
    while (server->pending.first)
        drop_connection(server, server->pending.first);
    while (server->members.first)
        drop_connection(server, server->members.first);
    connection_bury(server);
    store_table_fini(&server->table);
    free(server->connections);
    int fds[] = { server->listener, server->timer, server->epoll };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    sodium_memzero(server, sizeof *server);
    free(server);
}
