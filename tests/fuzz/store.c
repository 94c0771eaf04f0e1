/* SPDX-License-Identifier: Apache-2.0
 *
 * The store given any bytes: as a stranger's, and as the messages of a member and of a server, signed or not. Nothing
 * may crash, leak or wait; what was set is what an honest member then gets. One thread drives the server and both its
 * members.
 *
 *     reader         the rest of the input
 *     STRANGER       what is said instead of a hello
 *     PROOF          what is said instead of a proof
 *     MEMBER         version and rank of a hello; then messages, each of 2 bytes of length and the body
 *     UNSIGNED       what a member says after the handshake
 *     SERVER         the messages of a store, from the welcome on, to a client that sets, gets and gets
 */
#include "base/store/store_protocol.h"
#include "tests/fuzz/drive.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGER, PROOF, MEMBER, UNSIGNED, SERVER, READERS };
enum { BODY_MOST = 0xffff, PATIENCE_MS = 60000 };

static const unsigned char secret[HALAY_SECRET_BYTES] = "the secret of this job is here!";

static void ignore_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void require(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* ---- connections ---- */

static void hurry(int fd)
{
    require(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)), "no hurry");
}

/* An address of this host, another one each time: ended connections keep their ports for a minute, and a million of
 * them would leave none. */
static struct sockaddr_in own_address(void)
{
    static uint32_t host;

    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010000 + host++ % 0x10000) };
}

static int connect_to(int port)
{
    struct sockaddr_in from = own_address();
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    require(fd >= 0 && !setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){ 1 }, sizeof(int)) &&
                !bind(fd, (struct sockaddr *)&from, sizeof from) && !connect(fd, (struct sockaddr *)&to, sizeof to),
            strerror(errno));
    /* Closed without a trace where this end goes first. */
    require(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger)),
            "no linger");
    hurry(fd);
    return fd;
}

static void say(int fd, const void *bytes, size_t count)
{
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);

    (void)n; /* the other side may have closed already */
}

/* Drive the server until that many bytes have come; 0: the connection has ended before. */
static int hear(struct halay_store_server *server, int fd, void *bytes, size_t count)
{
    struct pollfd ready[] = { { .fd = fd, .events = POLLIN },
                              { .fd = server ? halay_store_server_fd(server) : -1, .events = POLLIN } };

    for (size_t have = 0; have < count;) {
        ssize_t n = recv(fd, (unsigned char *)bytes + have, count - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 0;
        have += n > 0 ? (size_t)n : 0;
        require(n > 0 || poll(ready, 2, PATIENCE_MS) > 0, "neither an answer nor an end");
        require(!server || halay_store_server_progress(server) == HALAY_OK, "the server has ended");
    }
    return 1;
}

/* ---- a member ---- */

struct member {
    struct halay_store_server *server;
    int fd;
    struct store_handshake h;
    struct store_direction in, out;
    unsigned char answer[STORE_HEAD_BYTES + STORE_BODY_MIN + BODY_MOST + STORE_MAC_BYTES];
    struct store_message message; /* the newest answer, in it */
};

/* 0: the connection has ended. */
static int take_answer(struct member *m)
{
    size_t body;

    if (!hear(m->server, m->fd, m->answer, STORE_HEAD_BYTES))
        return 0;
    require(store_body_bytes(m->answer, &body) == HALAY_OK && body < BODY_MOST, "an answer of impossible length");
    require(hear(m->server, m->fd, m->answer + STORE_HEAD_BYTES, body + STORE_MAC_BYTES), "half an answer");
    require(store_unseal(&m->in, m->answer, &m->message) == HALAY_OK, "a wrong answer");
    return 1;
}

/* Everything has been said: it is heard to the end, and dropped. */
static void expect_end(struct member *m)
{
    unsigned char byte;

    shutdown(m->fd, SHUT_WR);
    while (hear(m->server, m->fd, &byte, 1))
        ;
}

static void connect_member(struct halay_store_server *server, struct member *m)
{
    m->server = server;
    m->fd = connect_to(atoi(strchr(halay_store_server_address(server), ':') + 1));
}

/* As far as the challenge. */
static void greet(struct member *m, uint32_t version, uint32_t rank)
{
    store_make_hello(&m->h, secret, version, rank);
    say(m->fd, m->h.hello, STORE_HELLO_BYTES);
    require(hear(m->server, m->fd, m->h.challenge, STORE_HELLO_BYTES) && store_is_challenge(&m->h, secret),
            "no challenge");
}

/* 0: refused. */
static int join(struct member *m, uint32_t version, uint32_t rank)
{
    greet(m, version, rank);
    store_make_proof(&m->h, secret);
    say(m->fd, m->h.proof, STORE_MAC_BYTES);
    store_open_directions(&m->h, secret, &m->out, &m->in);
    return take_answer(m) && m->message.kind == STORE_WELCOME;
}

static void ask(struct member *m, const struct store_message *request)
{
    size_t bytes = store_message_bytes(request);
    unsigned char *wire = malloc(bytes);

    require(wire != NULL, "no memory");
    store_seal(&m->out, request, wire);
    say(m->fd, wire, bytes);
    free(wire);
}

/* The next of the input's bodies; nonzero if there is one. */
static int next_body(const uint8_t **at, const uint8_t *end, size_t *bytes)
{
    if (end - *at < 2)
        return 0;
    *bytes = (size_t)(*at)[0] | (size_t)(*at)[1] << 8;
    *at += 2;
    *bytes = *bytes < (size_t)(end - *at) ? *bytes : (size_t)(end - *at);
    return 1;
}

/* A message with this body, which may be no right one; returned is its length with the mac. */
static size_t sign(struct store_direction *channel, const uint8_t *body, size_t bytes, unsigned char *wire)
{
    store_write_u32(wire, (uint32_t)bytes);
    memcpy(wire + STORE_HEAD_BYTES, body, bytes);
    store_sign(channel, NULL, 0, wire, STORE_HEAD_BYTES + bytes, wire + STORE_HEAD_BYTES + bytes);
    return STORE_HEAD_BYTES + bytes + STORE_MAC_BYTES;
}

/* ---- readers ---- */

/* That its request to set something is done; answers to gets before may come first. */
static void expect_done(struct member *m, uint32_t number)
{
    do
        require(take_answer(m), "no answer");
    while (m->message.kind == STORE_VALUE);
    require(m->message.kind == STORE_DONE && m->message.number == number, "another answer");
}

static void set(struct member *m, const struct store_message *request)
{
    ask(m, request);
    expect_done(m, request->number);
}

/* What was set is there. */
static void check_kept(struct member *m, const struct store_message *was_set)
{
    struct store_message get = { .kind = STORE_GET, .number = 7, .key = was_set->key, .key_bytes = was_set->key_bytes };

    ask(m, &get);
    require(take_answer(m) && m->message.kind == STORE_VALUE && m->message.number == 7, "what was set is not there");
    require(m->message.value_bytes == was_set->value_bytes &&
                !memcmp(m->message.value, was_set->value, was_set->value_bytes),
            "what was set is something else");
}

/* Nonzero if all were requests, and so the member still is one. */
static int say_messages(struct member *m, struct member *honest, const uint8_t *at, const uint8_t *end)
{
    static unsigned char wire[STORE_HEAD_BYTES + BODY_MOST + STORE_MAC_BYTES];
    struct store_message request;
    size_t bytes;

    for (; next_body(&at, end, &bytes); at += bytes) {
        struct store_direction mirror = m->out;
        say(m->fd, wire, sign(&m->out, at, bytes, wire));
        if (store_unseal(&mirror, wire, &request) != HALAY_OK ||
            (request.kind != STORE_SET && request.kind != STORE_GET))
            return 0;
        if (request.kind == STORE_GET)
            continue;
        expect_done(m, request.number);
        check_kept(honest, &request);
    }
    return 1;
}

static void talk(struct member *m, struct member *honest, int reader, const uint8_t *at, const uint8_t *end)
{
    static const struct store_message last = {
        STORE_SET, 9, (const unsigned char *)"last", 4, (const unsigned char *)"word", 4
    };

    if (reader == MEMBER) {
        if (end - at >= 8 && join(m, store_read_u32(at), store_read_u32(at + 4)) &&
            say_messages(m, honest, at + 8, end))
            set(m, &last);
    } else {
        if (reader == PROOF)
            greet(m, STORE_VERSION, 3);
        if (reader == UNSIGNED)
            require(join(m, STORE_VERSION, 3), "refused");
        say(m->fd, at, (size_t)(end - at));
    }
    expect_end(m);
}

static void try_server(struct halay_log *log, int reader, const uint8_t *at, const uint8_t *end)
{
    static const struct store_message word = {
        STORE_SET, 1, (const unsigned char *)"honest", 6, (const unsigned char *)"word", 4
    };
    static struct member honest, other;
    struct halay_store_server *server;

    require(halay_store_server_create(log, secret, &server) == HALAY_OK, "no server");
    connect_member(server, &honest);
    require(join(&honest, STORE_VERSION, 0), "the honest member is refused");
    connect_member(server, &other);
    talk(&other, &honest, reader, at, end);
    set(&honest, &word);
    check_kept(&honest, &word);
    close(other.fd);
    close(honest.fd);
    halay_store_server_destroy(server);
}

struct impostor {
    int listener;
    const uint8_t *at, *end;
};

/* A store up to the welcome; then what the input says, signed. It takes one connection: a client that tries again is
 * refused, and gives up. */
static void *impersonate(void *arg)
{
    static unsigned char wire[STORE_HEAD_BYTES + BODY_MOST + STORE_MAC_BYTES];
    struct impostor *i = arg;
    struct store_handshake h;
    struct store_direction in, out;
    size_t bytes;
    char rest[512];
    int fd = accept(i->listener, NULL, NULL);

    close(i->listener);
    require(fd >= 0 && hear(NULL, fd, h.hello, STORE_HELLO_BYTES), "no hello");
    hurry(fd);
    store_make_challenge(&h, secret, STORE_VERSION);
    say(fd, h.challenge, STORE_HELLO_BYTES);
    require(hear(NULL, fd, h.proof, STORE_MAC_BYTES) && store_is_proof(&h, secret), "no proof");
    store_open_directions(&h, secret, &in, &out);
    for (; next_body(&i->at, i->end, &bytes); i->at += bytes)
        say(fd, wire, sign(&out, i->at, bytes, wire));
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
    close(fd);
    return NULL;
}

static void try_client(struct halay_log *log, const uint8_t *at, const uint8_t *end)
{
    struct sockaddr_in bound = own_address();
    socklen_t length = sizeof bound;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct halay_store_client *client;
    char where[32], host[INET_ADDRSTRLEN], value[16];
    unsigned reconnects;
    pthread_t thread;

    require(!bind(listener, (struct sockaddr *)&bound, length) && !listen(listener, 1) &&
                !getsockname(listener, (struct sockaddr *)&bound, &length),
            "no listener");
    struct impostor impostor = { listener, at, end };
    require(!pthread_create(&thread, NULL, impersonate, &impostor), "no thread");
    snprintf(where, sizeof where, "%s:%d", inet_ntop(AF_INET, &bound.sin_addr, host, sizeof host),
             ntohs(bound.sin_port));
    if (halay_store_client_open(log, where, NULL, secret, 0, PATIENCE_MS, &client, &reconnects) == HALAY_OK) {
        (void)halay_store_set(client, "key", "value", 5);
        (void)halay_store_get(client, "key", value, 5, PATIENCE_MS);
        (void)halay_store_get(client, "more", value, sizeof value, PATIENCE_MS);
        halay_store_client_close(client);
    }
    require(!pthread_join(thread, NULL), "no end of the thread");
}

/* libFuzzer's clock is not to interrupt calls here; what waits too long ends by itself (PATIENCE_MS). */
static void hold_alarms(void)
{
    sigset_t alarms;

    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    require(!pthread_sigmask(SIG_BLOCK, &alarms, NULL), "no mask");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct halay_log log;

    if (length < 1 || length > BODY_MOST / 2)
        return 0;
    hold_alarms();
    halay_log_init(&log, HALAY_LOG_WARNING);
    log.write = ignore_line;
    require(store_init(&log) == HALAY_OK, "no libsodium");
    int reader = bytes[0] % READERS;
    if (reader == SERVER)
        try_client(&log, bytes + 1, bytes + length);
    else
        try_server(&log, reader, bytes + 1, bytes + length);
    halay_log_fini(&log);
    return 0;
}

/* ---- seeds ---- */

struct script {
    unsigned char bytes[1024];
    size_t length;
};

static void put_body(struct script *s, enum halay_store_kind kind, uint32_t number, const char *key, const char *value)
{
    struct store_message m = {
        kind, number, (const unsigned char *)key, strlen(key), (const unsigned char *)value, strlen(value)
    };
    struct store_direction channel = { { 0 }, 0 };
    unsigned char wire[512];
    size_t bytes = store_message_bytes(&m) - STORE_HEAD_BYTES - STORE_MAC_BYTES;

    store_seal(&channel, &m, wire);
    s->bytes[s->length++] = (unsigned char)bytes;
    s->bytes[s->length++] = (unsigned char)(bytes >> 8);
    memcpy(s->bytes + s->length, wire + STORE_HEAD_BYTES, bytes);
    s->length += bytes;
}

void fuzz_make_seeds(fuzz_add_seed *add)
{
    struct store_handshake h;
    struct script member = { { STORE_VERSION, 0, 0, 0, 3 }, 8 }, waits = { { STORE_VERSION, 0, 0, 0, 4 }, 8 },
                  server = { .length = 0 };

    memset(&h, 0, sizeof h);
    memcpy(h.hello, "halaykv\n\1\0\0\0\3", 13); /* no nonce that is drawn: the same seeds each time */
    add(STRANGER, h.hello, STORE_HELLO_BYTES);
    add(STRANGER, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    add(PROOF, h.hello, STORE_MAC_BYTES);
    put_body(&member, STORE_SET, 1, "key", "value");
    put_body(&member, STORE_GET, 2, "key", "");
    put_body(&member, STORE_SET, 3, "key", "another value of the same key");
    put_body(&member, STORE_SET, 4, "empty", "");
    add(MEMBER, member.bytes, member.length);
    put_body(&waits, STORE_GET, 1, "never", "");
    put_body(&waits, STORE_GET, 2, "honest", "");
    add(MEMBER, waits.bytes, waits.length);
    add(UNSIGNED, member.bytes + 8, member.length - 8);
    put_body(&server, STORE_WELCOME, 0, "", "\1\2\3\4");
    put_body(&server, STORE_DONE, 1, "", "");
    put_body(&server, STORE_VALUE, 1, "", "late!");
    put_body(&server, STORE_VALUE, 2, "", "value");
    put_body(&server, STORE_VALUE, 3, "", "of sixteen bytes");
    add(SERVER, server.bytes, server.length);
}
