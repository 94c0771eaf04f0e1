/* SPDX-License-Identifier: Apache-2.0
 *
 * Store: two clients and a server thread; then everything that a port on a network meets: strangers with garbage, half
 * a handshake, floods, wrong secrets and versions; members that send malformed messages, are killed, or vanish while
 * they wait. After each of them an honest client is served as before.
 */
#include "base/clock.h"
#include "base/net/listen.h"
#include "base/store/store_protocol.h"
#include "base/store/store_table.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 }; /* of what must happen: long, since machines are slow; never a measure */

static const unsigned char secret[HALAY_SECRET_BYTES] = "the secret of this job is here!";
static const unsigned char other_secret[HALAY_SECRET_BYTES] = "the secret of another is there!";

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line; /* the newest error stays in log.last_error.text */
}

/* ---- a server in a thread of its own
 * ------------------------------------------------------------------------------ */

struct service {
    struct halay_log log;
    struct halay_store_server *server;
    pthread_t thread;
    int stop;
};

static void *serve(void *arg)
{
    struct service *s = arg;
    struct pollfd fds[] = { { .fd = halay_store_server_fd(s->server), .events = POLLIN },
                            { .fd = s->stop, .events = POLLIN } };

    while (!fds[1].revents) {
        REQUIRE(poll(fds, 2, -1) > 0 || errno == EINTR);
        CHECK(halay_store_server_progress(s->server) == HALAY_OK);
    }
    return NULL;
}

static void service_start(struct service *s)
{
    halay_log_init(&s->log, HALAY_LOG_ERROR);
    s->log.write = keep_line;
    s->stop = eventfd(0, EFD_CLOEXEC);
    REQUIRE(s->stop >= 0 && halay_store_server_create(&s->log, secret, &s->server) == HALAY_OK);
    REQUIRE(!pthread_create(&s->thread, NULL, serve, s));
}

static void service_stop(struct service *s)
{
    REQUIRE(eventfd_write(s->stop, 1) == 0 && !pthread_join(s->thread, NULL));
    halay_store_server_destroy(s->server);
    close(s->stop);
    halay_log_fini(&s->log);
}

static const char *address(const struct service *s)
{
    return halay_store_server_address(s->server);
}

/* ---- clients
 * ------------------------------------------------------------------------------------------------------ */

static struct halay_store_client *open_client(const char *where, int rank, struct halay_log *log)
{
    struct halay_store_client *client;
    unsigned reconnects;

    REQUIRE(halay_store_client_open(log, where, NULL, secret, rank, PATIENCE_MS, &client, &reconnects) == HALAY_OK);
    return client;
}

/* Is an honest client served? */
static void check_served(const struct service *s, struct halay_log *log, const char *after)
{
    struct halay_store_client *client = open_client(address(s), 7, log);
    int value = 0;

    CHECK(halay_store_set(client, "served", &(int){ 42 }, sizeof(int)) == HALAY_OK, "%s", after);
    CHECK(halay_store_get(client, "served", &value, sizeof value, PATIENCE_MS) == HALAY_OK && value == 42, "%s", after);
    halay_store_client_close(client);
}

static int raw_connect(const char *where)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t)atoi(strchr(where, ':') + 1));
    REQUIRE(fd >= 0);
    struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
    REQUIRE(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    return connect(fd, (struct sockaddr *)&to, sizeof to) ? (close(fd), -1) : fd;
}

static void raw_send(int fd, const void *bytes, size_t count)
{
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);

    (void)n; /* the other side may have closed already */
}

static int raw_receive(int fd, void *bytes, size_t count)
{
    return recv(fd, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

/* How many bytes come until the connection is closed. */
static size_t count_until_closed(int fd)
{
    char byte;
    size_t count = 0;

    while (recv(fd, &byte, 1, 0) == 1)
        count++;
    return count;
}

/* Nothing more comes, and the connection is closed. */
static int is_closed(int fd)
{
    char byte;
    ssize_t n;

    while ((n = recv(fd, &byte, 1, 0)) < 0 && errno == EINTR) /* as when this process was stopped, and goes on */
        ;
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* A member that can send what it likes. */
struct raw {
    int fd;
    struct store_handshake h;
    struct store_direction in, out;
};

/* As far as the challenge. */
static int raw_greet(struct raw *raw, const char *where, uint32_t version, uint32_t rank)
{
    raw->fd = raw_connect(where);
    REQUIRE(raw->fd >= 0);
    store_make_hello(&raw->h, secret, version, rank);
    raw_send(raw->fd, raw->h.hello, STORE_HELLO_BYTES);
    return raw_receive(raw->fd, raw->h.challenge, STORE_HELLO_BYTES) && store_is_challenge(&raw->h, secret);
}

static void raw_send_proof(struct raw *raw)
{
    store_make_proof(&raw->h, secret);
    raw_send(raw->fd, raw->h.proof, STORE_MAC_BYTES);
    store_open_directions(&raw->h, secret, &raw->out, &raw->in);
}

static int raw_is_welcome(struct raw *raw)
{
    unsigned char welcome[STORE_HEAD_BYTES + STORE_BODY_MIN + 4 + STORE_MAC_BYTES];
    struct store_message message;

    return raw_receive(raw->fd, welcome, sizeof welcome) && store_unseal(&raw->in, welcome, &message) == HALAY_OK &&
           message.kind == STORE_WELCOME;
}

static int raw_prove(struct raw *raw)
{
    raw_send_proof(raw);
    return raw_is_welcome(raw);
}

static int raw_open(struct raw *raw, const char *where, uint32_t version, uint32_t rank)
{
    return raw_greet(raw, where, version, rank) && raw_prove(raw);
}

static size_t raw_seal(struct raw *raw, enum halay_store_kind kind, const char *key, size_t key_bytes,
                       unsigned char *wire)
{
    struct store_message message = { .kind = kind,
                                     .number = 1,
                                     .key = (const unsigned char *)key,
                                     .key_bytes = key_bytes,
                                     .value = (const unsigned char *)"value",
                                     .value_bytes = kind == STORE_SET ? 5 : 0 };

    store_seal(&raw->out, &message, wire);
    return store_message_bytes(&message);
}

/* ---- tests
 * -------------------------------------------------------------------------------------------------------- */

struct getter {
    struct halay_store_client *client;
    int value;
    enum halay_status status;
};

static void *get_early(void *arg)
{
    struct getter *g = arg;

    g->status = halay_store_get(g->client, "early", &g->value, sizeof g->value, PATIENCE_MS);
    return NULL;
}

static void check_two_clients(const struct service *s, struct halay_log *log)
{
    struct getter g = { .client = open_client(address(s), 0, log) };
    struct halay_store_client *b = open_client(address(s), 1, log);
    char *large = malloc(HALAY_STORE_VALUE_MAX + 1), *back = malloc(HALAY_STORE_VALUE_MAX);
    char long_key[HALAY_STORE_KEY_MAX + 1];
    pthread_t thread;
    int value = 0;

    REQUIRE(large && back);
    REQUIRE(!pthread_create(&thread, NULL, get_early, &g));
    CHECK(halay_store_set(b, "early", &(int){ 11 }, sizeof(int)) == HALAY_OK);
    REQUIRE(!pthread_join(thread, NULL));
    CHECK(g.status == HALAY_OK && g.value == 11, "%s", halay_status_string(g.status));
    CHECK(halay_store_set(b, "early", &(int){ 12 }, sizeof(int)) == HALAY_OK);
    CHECK(halay_store_get(g.client, "early", &value, sizeof value, PATIENCE_MS) == HALAY_OK && value == 12, "replaced");
    CHECK(halay_store_set(b, "nothing", NULL, 0) == HALAY_OK);
    CHECK(halay_store_get(g.client, "nothing", NULL, 0, PATIENCE_MS) == HALAY_OK);

    memset(large, 'L', HALAY_STORE_VALUE_MAX + 1);
    CHECK(halay_store_set(b, "large", large, HALAY_STORE_VALUE_MAX) == HALAY_OK);
    CHECK(halay_store_get(g.client, "large", back, HALAY_STORE_VALUE_MAX, PATIENCE_MS) == HALAY_OK);
    CHECK(!memcmp(large, back, HALAY_STORE_VALUE_MAX));
    CHECK(halay_store_set(b, "large", large, HALAY_STORE_VALUE_MAX + 1) == HALAY_ERR_ARGUMENT);
    memset(long_key, 'k', sizeof long_key);
    long_key[HALAY_STORE_KEY_MAX] = 0;
    CHECK(halay_store_set(b, long_key, "x", 1) == HALAY_ERR_ARGUMENT &&
          halay_store_set(b, "", "x", 1) == HALAY_ERR_ARGUMENT);
    CHECK(strstr(log->last_error.text, "key '' has 0 bytes and its value 1; expected 1 to "), "%s",
          log->last_error.text);
    long_key[HALAY_STORE_KEY_MAX - 1] = 0;
    CHECK(halay_store_set(b, long_key, "x", 1) == HALAY_OK);

    value = 5;
    CHECK(halay_store_get(b, "large", &value, sizeof value, PATIENCE_MS) == HALAY_ERR_FORMAT && value == 5);
    CHECK(strstr(log->last_error.text, "'large' has 1048576 bytes, 4 were expected"), "%s", log->last_error.text);
    CHECK(halay_store_get(b, "early", &value, sizeof value, PATIENCE_MS) == HALAY_OK && value == 12, "still usable");
    halay_store_client_close(g.client);
    halay_store_client_close(b);
    free(large);
    free(back);
}

/* A get that was given up leaves both clients usable, and its late answer is taken for no other. */
static void check_timeout(const struct service *s, struct halay_log *log)
{
    struct halay_store_client *a = open_client(address(s), 0, log), *b = open_client(address(s), 1, log);
    int value = 0;

    CHECK(halay_store_get(a, "late", &value, sizeof value, 20) == HALAY_ERR_TIMEOUT);
    CHECK(halay_store_set(b, "late", &(int){ 1 }, sizeof(int)) == HALAY_OK);
    CHECK(halay_store_set(b, "other", &(int){ 2 }, sizeof(int)) == HALAY_OK);
    CHECK(halay_store_get(a, "other", &value, sizeof value, PATIENCE_MS) == HALAY_OK && value == 2, "%d", value);
    CHECK(halay_store_get(a, "never", &value, sizeof value, 0) == HALAY_ERR_TIMEOUT && value == 2);
    CHECK(halay_store_get(a, "late", &value, sizeof value, PATIENCE_MS) == HALAY_OK && value == 1, "%d", value);
    halay_store_client_close(a);
    halay_store_client_close(b);
}

static void check_generations(const struct service *s, struct halay_log *log)
{
    struct halay_store_client *client;
    unsigned reconnects;

    for (unsigned i = 0; i < 3; i++) {
        REQUIRE(halay_store_client_open(log, address(s), NULL, secret, 1000, PATIENCE_MS, &client, &reconnects) ==
                HALAY_OK);
        CHECK(reconnects == i, "%u", reconnects);
        halay_store_client_close(client);
    }
    REQUIRE(halay_store_client_open(log, address(s), NULL, secret, 1001, PATIENCE_MS, &client, &reconnects) ==
            HALAY_OK);
    CHECK(reconnects == 0);
    halay_store_client_close(client);
    CHECK(halay_store_client_open(log, address(s), NULL, secret, -1, 100, &client, &reconnects) == HALAY_ERR_ARGUMENT);
    CHECK(strstr(log->last_error.text, "-1 is not a rank; expected 0 to "), "%s", log->last_error.text);
    CHECK(halay_store_client_open(log, address(s), NULL, secret, STORE_RANK_MAX + 1, 100, &client, &reconnects) ==
          HALAY_ERR_ARGUMENT);
}

static void check_wrong_secret(const struct service *s, struct halay_log *log)
{
    struct halay_store_client *client;
    unsigned reconnects;

    CHECK(halay_store_client_open(log, address(s), NULL, other_secret, 0, PATIENCE_MS, &client, &reconnects) ==
          HALAY_ERR_AUTH);
    CHECK(strstr(log->last_error.text, "refuses this process, which does not hold"), "%s", log->last_error.text);
}

static void check_addresses(struct halay_log *log)
{
    static const char *const bad[] = {
        "",       ":",  "127.0.0.1",          "127.0.0.1:",      ":1",          "somewhere:1", "127.0.0.1:x", "[::1:1",
        "[::1]1", "::", "127.0.0.1:99999999", "127.0.0.1:65537", "127.0.0.1:0", "127.0.0.1:-1"
    };
    struct halay_store_client *client;
    unsigned reconnects;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(halay_store_client_open(log, bad[i], NULL, secret, 0, 100, &client, &reconnects) != HALAY_OK, "'%s'",
              bad[i]);
        CHECK(strstr(log->last_error.text, "is not an address; expected one like 127.0.0.1:40000"), "%s",
              log->last_error.text);
    }
    CHECK(halay_store_client_open(log, "127.0.0.1:1", NULL, secret, 0, PATIENCE_MS, &client, &reconnects) ==
          HALAY_ERR_SYSTEM);
    CHECK(strstr(log->last_error.text, "'127.0.0.1:1': Connection refused; does the launcher run"), "%s",
          log->last_error.text);
    const struct halay_address loopback = { .family = AF_INET6, .bytes = { [15] = 1 } };
    struct halay_store_server *server;
    int listener;
    if (halay_listen_at(log, &loopback, &listener) == HALAY_OK) { /* where there is IPv6 */
        CHECK(halay_store_server_adopt(log, listener, secret, &server) == HALAY_OK);
        CHECK(!strncmp(halay_store_server_address(server), "[::1]:", 6));
        halay_store_server_destroy(server);
    }
}

/* Plays a server that answers the hello with what `secret` and `version` make of it. */
struct impostor {
    int listener;
    const unsigned char *secret;
    uint32_t version;
    int is_silent;
};

static void *impersonate(void *arg)
{
    struct impostor *i = arg;
    struct store_handshake h;
    int fd = accept(i->listener, NULL, NULL);

    REQUIRE(fd >= 0 && raw_receive(fd, h.hello, STORE_HELLO_BYTES));
    if (!i->is_silent) {
        store_make_challenge(&h, i->secret, i->version);
        raw_send(fd, h.challenge, STORE_HELLO_BYTES);
    }
    char byte;
    CHECK(recv(fd, &byte, 1, 0) == 0, "nothing follows: the client has left");
    close(fd);
    return NULL;
}

static void check_impostor(struct halay_log *log, const unsigned char *its_secret, uint32_t version, int is_silent,
                           enum halay_status expected, const char *text)
{
    struct sockaddr_in bound = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof bound;
    struct impostor i = { socket(AF_INET, SOCK_STREAM, 0), its_secret, version, is_silent };
    struct halay_store_client *client;
    unsigned reconnects;
    pthread_t thread;
    char where[32];

    REQUIRE(!bind(i.listener, (struct sockaddr *)&bound, length) && !listen(i.listener, 1));
    REQUIRE(!getsockname(i.listener, (struct sockaddr *)&bound, &length));
    snprintf(where, sizeof where, "127.0.0.1:%d", ntohs(bound.sin_port));
    REQUIRE(!pthread_create(&thread, NULL, impersonate, &i));
    enum halay_status status =
        halay_store_client_open(log, where, NULL, secret, 0, is_silent ? 100 : PATIENCE_MS, &client, &reconnects);
    CHECK(status == expected, "%s", halay_status_string(status));
    CHECK(strstr(log->last_error.text, text), "%s", log->last_error.text);
    REQUIRE(!pthread_join(thread, NULL));
    close(i.listener);
}

static void check_other_version(const struct service *s, struct halay_log *log)
{
    struct raw raw;

    CHECK(!raw_open(&raw, address(s), STORE_VERSION + 1, 0), "no welcome");
    CHECK(store_is_challenge(&raw.h, secret) && store_version(raw.h.challenge) == STORE_VERSION,
          "but it named its own");
    CHECK(is_closed(raw.fd));
    close(raw.fd);
    check_served(s, log, "other version");
}

static void check_garbage(const struct service *s, struct halay_log *log)
{
    static const char *const texts[] = { "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                         "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "SSH-2.0-x\r\n", "halaykv\n" };
    unsigned char bytes[4096];
    unsigned seed = 12345;

    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
        if (round % 2) /* the right beginning */
            memcpy(bytes, "halaykv\n\1\0\0\0", 12);
        if (round % 5 == 0)
            memset(bytes, 0xff, sizeof bytes);
        int fd = raw_connect(address(s));
        REQUIRE(fd >= 0);
        raw_send(fd, bytes, 1 + (size_t)round * 83);
        shutdown(fd, SHUT_WR);
        size_t answered = count_until_closed(fd);
        CHECK(!answered || (round % 2 && answered == STORE_HELLO_BYTES), "round %d: answered %zu bytes", round,
              answered);
        close(fd);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int fd = raw_connect(address(s));
        REQUIRE(fd >= 0);
        raw_send(fd, texts[i], strlen(texts[i]));
        shutdown(fd, SHUT_WR);
        CHECK(is_closed(fd), "answered '%s'", texts[i]);
        close(fd);
    }
    check_served(s, log, "garbage");
}

/* What was heard on the wire does not help: neither a hello said again nor a challenge thrown back. */
static void check_replay(const struct service *s, struct halay_log *log)
{
    struct raw honest;
    unsigned char challenge[STORE_HELLO_BYTES];

    REQUIRE(raw_open(&honest, address(s), STORE_VERSION, 3));
    int fd = raw_connect(address(s));
    raw_send(fd, honest.h.hello, STORE_HELLO_BYTES);
    CHECK(raw_receive(fd, challenge, sizeof challenge) && memcmp(challenge, honest.h.challenge, sizeof challenge));
    raw_send(fd, honest.h.proof, STORE_MAC_BYTES);
    CHECK(is_closed(fd), "an old proof");
    close(fd);

    fd = raw_connect(address(s));
    raw_send(fd, honest.h.challenge, STORE_HELLO_BYTES);
    CHECK(count_until_closed(fd) <= STORE_HELLO_BYTES, "a reflected challenge"); /* a refusal at most */
    close(fd);
    close(honest.fd);
    check_served(s, log, "replay");
}

enum fault { CHANGED, REPEATED, LONG, SHORT, KIND, ANSWER, NO_KEY, LONG_KEY, KEY_PAST_END, FAULTS };

/* The mac of the first message of a session, whatever its bytes. */
static void sign(const struct store_direction *channel, unsigned char *wire, size_t bytes)
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, channel->key, sizeof channel->key, STORE_MAC_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)"message-\0\0\0\0\0\0\0\0", 16);
    crypto_generichash_update(&state, wire, bytes);
    crypto_generichash_final(&state, wire + bytes, STORE_MAC_BYTES);
}

static void check_fault(const struct service *s, enum fault fault)
{
    unsigned char wire[1024];
    char key[300];
    struct raw raw;
    size_t bytes = 0;

    memset(key, 'k', sizeof key);
    REQUIRE(raw_open(&raw, address(s), STORE_VERSION, 4));
    if (fault == KIND) {
        bytes = raw_seal(&raw, (enum halay_store_kind)99, key, 3, wire);
    } else if (fault == ANSWER) {
        bytes = raw_seal(&raw, STORE_WELCOME, key, 0, wire);
    } else if (fault == NO_KEY || fault == LONG_KEY) {
        bytes = raw_seal(&raw, STORE_SET, key, fault == NO_KEY ? 0 : 256, wire);
    } else if (fault == KEY_PAST_END) {
        bytes = raw_seal(&raw, STORE_GET, key, 3, wire);
        wire[12] = 200; /* and the mac of a holder over it */
        sign(&raw.out, wire, bytes - STORE_MAC_BYTES);
    } else {
        bytes = raw_seal(&raw, STORE_SET, key, 3, wire);
    }
    if (fault == CHANGED)
        wire[bytes - STORE_MAC_BYTES - 1] ^= 1;
    if (fault == LONG)
        store_write_u32(wire, 0xffffffffu);
    if (fault == SHORT)
        store_write_u32(wire, STORE_BODY_MIN - 1);
    raw_send(raw.fd, wire, bytes);
    if (fault == REPEATED) {
        unsigned char done[STORE_HEAD_BYTES + STORE_BODY_MIN + STORE_MAC_BYTES];
        CHECK(raw_receive(raw.fd, done, sizeof done));
        raw_send(raw.fd, wire, bytes);
    }
    CHECK(is_closed(raw.fd), "fault %d", fault);
    close(raw.fd);
}

/* Members that stop in the middle: killed in half a message, and killed while parked. */
static void check_killed(const struct service *s, struct halay_log *log)
{
    unsigned char wire[256];
    struct halay_store_client *client = open_client(address(s), 5, log);

    for (int parked = 0; parked < 2; parked++) {
        int ready[2];
        REQUIRE(!pipe(ready));
        pid_t child = fork();
        if (child == 0) {
            struct raw raw;
            if (!raw_open(&raw, address(s), STORE_VERSION, 6))
                _exit(99);
            size_t bytes = raw_seal(&raw, parked ? STORE_GET : STORE_SET, "of the dead", 11, wire);
            raw_send(raw.fd, wire, parked ? bytes : bytes / 2);
            if (write(ready[1], "", 1) != 1)
                _exit(99);
            pause();
        }
        char byte;
        int status;
        REQUIRE(child > 0 && read(ready[0], &byte, 1) == 1 && !kill(child, SIGKILL));
        REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        CHECK(halay_store_set(client, "of the dead", "x", 1) == HALAY_OK);
        close(ready[0]);
        close(ready[1]);
    }
    halay_store_client_close(client);
    check_served(s, log, "killed clients");
}

/* A client that has said a right hello is not dropped for strangers that have not, before its proof. */
static void check_flood_before_proof(const struct service *s)
{
    enum { FLOOD = 300, SURELY_DROPPED = 40 };
    int strangers[FLOOD];
    struct raw honest;

    REQUIRE(raw_greet(&honest, address(s), STORE_VERSION, 5));
    for (int i = 0; i < FLOOD; i++)
        strangers[i] = raw_connect(address(s));
    CHECK(is_closed(strangers[SURELY_DROPPED]), "the oldest strangers make room");
    CHECK(raw_prove(&honest), "a rank was dropped between its hello and its proof");
    for (int i = 0; i < FLOOD; i++)
        close(strangers[i]);
    close(honest.fd);
}

/* More ranks than there are places have said a right hello and wait for a processor: all get in. */
static void check_crowd(const struct service *s, struct halay_log *log)
{
    enum { PLACES = 256, RANKS = 300 };
    static struct raw ranks[RANKS];
    int greeted = 0, proved = 0;

    for (int i = 0; i < RANKS; i++) {
        ranks[i].fd = raw_connect(address(s));
        REQUIRE(ranks[i].fd >= 0);
        store_make_hello(&ranks[i].h, secret, STORE_VERSION, (uint32_t)i);
        raw_send(ranks[i].fd, ranks[i].h.hello, STORE_HELLO_BYTES);
    }
    for (int i = 0; i < PLACES; i++)
        greeted += raw_receive(ranks[i].fd, ranks[i].h.challenge, STORE_HELLO_BYTES);
    for (int i = 0; i < PLACES; i++)
        raw_send_proof(&ranks[i]);
    for (int i = PLACES; i < RANKS; i++) {
        greeted += raw_receive(ranks[i].fd, ranks[i].h.challenge, STORE_HELLO_BYTES);
        raw_send_proof(&ranks[i]);
    }
    for (int i = 0; i < RANKS; i++)
        proved += store_is_challenge(&ranks[i].h, secret) && raw_is_welcome(&ranks[i]);
    CHECK(greeted == RANKS && proved == RANKS, "%d of %d ranks greeted, %d let in", greeted, RANKS, proved);
    for (int i = 0; i < RANKS; i++)
        close(ranks[i].fd);
    check_served(s, log, "a crowd of ranks");
}

/* A server that closes this number of connections before it has answered, and after; then it is a store. */
struct busy {
    struct service service;
    int listener, closes;
};

static void *close_some(void *arg)
{
    struct busy *b = arg;
    struct store_handshake h;

    for (int i = 0, fd; i < b->closes && (fd = accept(b->listener, NULL, NULL)) >= 0; i++) {
        if (i % 3 && raw_receive(fd, h.hello, STORE_HELLO_BYTES) && i % 3 == 2) {
            store_make_challenge(&h, secret, STORE_VERSION);
            raw_send(fd, h.challenge, STORE_HELLO_BYTES);
            raw_receive(fd, h.proof, STORE_MAC_BYTES);
        }
        close(fd);
    }
    return NULL;
}

static void *close_some_and_serve(void *arg)
{
    struct busy *b = arg;

    close_some(b);
    fcntl(b->listener, F_SETFL, O_NONBLOCK);
    REQUIRE(halay_store_server_adopt(&b->service.log, b->listener, secret, &b->service.server) == HALAY_OK);
    return serve(&b->service);
}

static void busy_start(struct busy *b, void *(*run)(void *), char *where, size_t size)
{
    struct sockaddr_in bound = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof bound;

    halay_log_init(&b->service.log, HALAY_LOG_ERROR);
    b->service.log.write = keep_line;
    b->service.stop = eventfd(0, EFD_CLOEXEC);
    b->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(!bind(b->listener, (struct sockaddr *)&bound, length) && !listen(b->listener, 16));
    REQUIRE(!getsockname(b->listener, (struct sockaddr *)&bound, &length));
    snprintf(where, size, "127.0.0.1:%d", ntohs(bound.sin_port));
    REQUIRE(!pthread_create(&b->service.thread, NULL, run, b));
}

static void check_busy(struct halay_log *log)
{
    struct busy later = { .closes = 7 }, never = { .closes = INT_MAX };
    struct halay_store_client *client;
    unsigned reconnects;
    char where[32];

    busy_start(&later, close_some_and_serve, where, sizeof where);
    enum halay_status status = halay_store_client_open(log, where, NULL, secret, 3, PATIENCE_MS, &client, &reconnects);
    CHECK(status == HALAY_OK, "%s: %s", halay_status_string(status), log->last_error.text);
    if (status == HALAY_OK) {
        CHECK(halay_store_set(client, "key", "x", 1) == HALAY_OK);
        halay_store_client_close(client);
    } else {
        shutdown(later.listener, SHUT_RDWR); /* nothing will connect any more: the harness breaks */
    }
    service_stop(&later.service);

    busy_start(&never, close_some, where, sizeof where);
    status = halay_store_client_open(log, where, NULL, secret, 3, 1000, &client, &reconnects);
    CHECK(status == HALAY_ERR_TIMEOUT && strstr(log->last_error.text, "it is overloaded"), "%s: %s",
          halay_status_string(status), log->last_error.text);
    REQUIRE(!shutdown(never.listener, SHUT_RDWR) && !pthread_join(never.service.thread, NULL));
    close(never.listener);
    close(never.service.stop);
    halay_log_fini(&never.service.log);
}

/* Gets that wait for many keys, several for each; some go or ask for another key before a set names theirs. */
static void check_parked(const struct service *s)
{
    enum { KEYS = 12, EACH = 5, ALL = KEYS * EACH };
    static struct raw raws[ALL];
    unsigned char wire[256], value[STORE_HEAD_BYTES + STORE_BODY_MIN + 5 + STORE_MAC_BYTES];
    unsigned char done[STORE_HEAD_BYTES + STORE_BODY_MIN + STORE_MAC_BYTES];
    struct store_message m;
    struct raw setter;
    char key[16];

    REQUIRE(raw_open(&setter, address(s), STORE_VERSION, 9));
    for (int i = 0; i < ALL; i++) {
        REQUIRE(raw_open(&raws[i], address(s), STORE_VERSION, 9));
        for (int again = 0; again <= (i % EACH == 1); again++) { /* the second of each key asks twice */
            int length = snprintf(key, sizeof key, "parked %d", again || i % EACH != 1 ? i % KEYS : KEYS);
            raw_send(raws[i].fd, wire, raw_seal(&raws[i], STORE_GET, key, (size_t)length, wire));
        }
        if (i % EACH == 2) /* the third goes */
            close(raws[i].fd);
    }
    for (int k = 0; k < KEYS; k++) {
        int length = snprintf(key, sizeof key, "parked %d", k);
        raw_send(setter.fd, wire, raw_seal(&setter, STORE_SET, key, (size_t)length, wire));
        CHECK(raw_receive(setter.fd, done, sizeof done));
        for (int i = k; i < ALL; i += KEYS)
            CHECK(i % EACH == 2 || (raw_receive(raws[i].fd, value, sizeof value) &&
                                    store_unseal(&raws[i].in, value, &m) == HALAY_OK && m.value_bytes == 5),
                  "key %d, client %d", k, i);
    }
    for (int i = 0; i < ALL; i++)
        if (i % EACH != 2)
            close(raws[i].fd);
    close(setter.fd);
}

static void check_flood(const struct service *s, struct halay_log *log)
{
    enum { HELD = 400, ALL = 4000 };
    static int held[HELD];

    memset(held, -1, sizeof held);
    for (int i = 0; i < ALL; i++) {
        int *slot = &held[i % HELD];
        if (*slot >= 0)
            close(*slot);
        *slot = raw_connect(address(s));
        REQUIRE(*slot >= 0);
        if (i % 3 == 0)
            raw_send(*slot, "halaykv\n", 8);
        if (i % 1000 == 500)
            check_served(s, log, "a flood");
    }
    check_served(s, log, "a flood");
    for (int i = 0; i < HELD; i++)
        close(held[i]);
}

/* Descriptors run out: strangers go, members stay. */
static void check_descriptors(const struct service *s, struct halay_log *log)
{
    struct halay_store_client *client = open_client(address(s), 8, log);
    struct rlimit usual, tight;
    int next = dup(0), done[2];

    REQUIRE(next >= 0 && !close(next) && !pipe(done) && !getrlimit(RLIMIT_NOFILE, &usual));
    tight = usual;
    tight.rlim_cur = (rlim_t)next + 6;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(done[1]);
        for (int i = 0; i < 60; i++)
            if (raw_connect(address(s)) < 0)
                _exit(99);
        _exit(read(done[0], &byte, 1) != 0);
    }
    REQUIRE(child > 0 && !setrlimit(RLIMIT_NOFILE, &tight));
    for (int i = 0; i < 20; i++)
        CHECK(halay_store_set(client, "tight", &i, sizeof i) == HALAY_OK, "%d", i);
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &usual));
    close(done[1]);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(done[0]);
    halay_store_client_close(client);
    check_served(s, log, "no descriptors");
}

/* Driven here, without a thread: descriptors run out while the server has no connection. It accepts again when there
 * are some, though none of its own has ended. */
static void check_descriptors_return(struct halay_log *log)
{
    struct halay_store_server *server;
    struct rlimit usual, tight;
    struct raw raw;

    REQUIRE(halay_store_server_create(log, secret, &server) == HALAY_OK);
    raw.fd = raw_connect(halay_store_server_address(server));
    int next = dup(0);
    REQUIRE(raw.fd >= 0 && next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &usual));
    tight = usual;
    tight.rlim_cur = (rlim_t)next;
    struct pollfd fds[] = { { .fd = halay_store_server_fd(server), .events = POLLIN },
                            { .fd = raw.fd, .events = POLLIN } };
    REQUIRE(poll(fds, 1, PATIENCE_MS) == 1 && !setrlimit(RLIMIT_NOFILE, &tight));
    CHECK(halay_store_server_progress(server) == HALAY_OK);
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &usual));

    store_make_hello(&raw.h, secret, STORE_VERSION, 0);
    raw_send(raw.fd, raw.h.hello, STORE_HELLO_BYTES);
    while (poll(fds, 2, PATIENCE_MS) > 0 && !fds[1].revents)
        REQUIRE(halay_store_server_progress(server) == HALAY_OK);
    CHECK(fds[1].revents && raw_receive(raw.fd, raw.h.challenge, STORE_HELLO_BYTES) &&
              store_is_challenge(&raw.h, secret),
          "not accepted once there were descriptors again");
    close(raw.fd);
    halay_store_server_destroy(server);
}

/* Driven here, without a thread: a parked get leaves the server with nothing to do. */
static void check_sleep(struct halay_log *log)
{
    struct halay_store_server *server;
    struct getter g;
    pthread_t thread;

    REQUIRE(halay_store_server_create(log, secret, &server) == HALAY_OK);
    struct pollfd fd = { .fd = halay_store_server_fd(server), .events = POLLIN };
    CHECK(poll(&fd, 1, 0) == 0, "nobody there");

    int raw = raw_connect(halay_store_server_address(server));
    struct store_handshake h;
    REQUIRE(raw >= 0 && poll(&fd, 1, PATIENCE_MS) == 1);
    REQUIRE(halay_store_server_progress(server) == HALAY_OK);
    CHECK(poll(&fd, 1, 0) == 0, "a silent stranger");
    store_make_hello(&h, secret, STORE_VERSION, 0);
    raw_send(raw, h.hello, STORE_HELLO_BYTES);
    REQUIRE(poll(&fd, 1, PATIENCE_MS) == 1 && halay_store_server_progress(server) == HALAY_OK);
    REQUIRE(raw_receive(raw, h.challenge, STORE_HELLO_BYTES) && store_is_challenge(&h, secret));
    store_make_proof(&h, secret);
    raw_send(raw, h.proof, STORE_MAC_BYTES);
    REQUIRE(poll(&fd, 1, PATIENCE_MS) == 1 && halay_store_server_progress(server) == HALAY_OK);
    struct raw member = { .fd = raw, .h = h };
    unsigned char wire[256];
    store_open_directions(&h, secret, &member.out, &member.in);
    raw_send(raw, wire, raw_seal(&member, STORE_GET, "absent", 6, wire));
    REQUIRE(poll(&fd, 1, PATIENCE_MS) == 1 && halay_store_server_progress(server) == HALAY_OK);
    CHECK(poll(&fd, 1, 0) == 0, "a parked get");
    close(raw);
    REQUIRE(poll(&fd, 1, PATIENCE_MS) == 1 && halay_store_server_progress(server) == HALAY_OK);
    CHECK(poll(&fd, 1, 0) == 0, "it has gone");
    halay_store_server_destroy(server);

    /* A server that ends lets nobody wait. */
    struct service s;
    service_start(&s);
    g.client = open_client(address(&s), 0, log);
    REQUIRE(!pthread_create(&thread, NULL, get_early, &g));
    service_stop(&s);
    REQUIRE(!pthread_join(thread, NULL));
    CHECK(g.status == HALAY_ERR_SYSTEM, "%s", halay_status_string(g.status));
    CHECK(halay_store_set(g.client, "x", "x", 1) == HALAY_ERR_SYSTEM, "stays broken");
    halay_store_client_close(g.client);
}

/* A table grows with its entries, and forgets none. */
static void check_table_grows(void)
{
    enum { KEYS = 5000 };
    struct store_table table;
    unsigned char key[16];
    int found = 0;

    store_table_init(&table, (size_t)1 << 30);
    for (int i = 0; i < KEYS; i++) {
        size_t length = (size_t)snprintf((char *)key, sizeof key, "key %d", i);
        REQUIRE(store_table_set(&table, key, length, (unsigned char *)&i, sizeof i) == HALAY_OK);
    }
    CHECK(table.count == KEYS && table.bucket_count >= KEYS, "%zu entries in %zu buckets", table.count,
          table.bucket_count);
    for (int i = 0; i < KEYS; i++) {
        size_t length = (size_t)snprintf((char *)key, sizeof key, "key %d", i);
        const struct store_entry *entry = store_table_get(&table, key, length);
        found += entry && entry->value_bytes == sizeof i && !memcmp(entry->value, &i, sizeof i);
    }
    CHECK(found == KEYS, "%d of %d", found, KEYS);
    store_table_remove(&table, (const unsigned char *)"key 1", 5);
    CHECK(table.count == KEYS - 1111, "%zu", table.count);
    store_table_fini(&table);
}

static void check_table(void)
{
    struct store_table table;
    unsigned char key[8] = "key", value[100] = { 1 };

    store_table_init(&table, 1000);
    CHECK(!store_table_get(&table, key, 3));
    CHECK(store_table_set(&table, key, 3, value, 100) == HALAY_OK &&
          store_table_get(&table, key, 3)->value_bytes == 100);
    CHECK(!store_table_get(&table, key, 2));
    size_t bytes = table.bytes;
    for (int i = 0; i < 100; i++)
        CHECK(store_table_set(&table, key, 3, value, (size_t)i) == HALAY_OK, "replacing adds nothing");
    CHECK(table.bytes == bytes - 1);
    int kept = 0;
    for (key[0] = 1; key[0] < 100; key[0]++)
        kept += store_table_set(&table, key, 3, value, 50) == HALAY_OK;
    CHECK(kept > 3 && kept < 20 && table.bytes <= 1000, "%d", kept);
    store_table_remove(&table, (const unsigned char *)"k", 1);
    CHECK(!store_table_get(&table, (const unsigned char *)"key", 3), "what begins so has gone");
    key[0] = 1;
    CHECK(store_table_get(&table, key, 3), "nothing else has");
    store_table_remove(&table, key, 0);
    CHECK(!store_table_get(&table, key, 3) && table.bytes == 0, "everything begins with nothing");
    store_table_fini(&table);
    CHECK(table.bytes == 0 && !store_table_get(&table, key, 3));
}

static void check_secret(struct halay_log *log)
{
    unsigned char read_back[HALAY_SECRET_BYTES] = { 0 };
    unsigned char drawn[HALAY_SECRET_BYTES];
    int fd;

    REQUIRE(halay_store_create_secret(log, drawn, &fd) == HALAY_OK);
    CHECK(halay_store_read_secret(log, fd, read_back) == HALAY_OK && !memcmp(drawn, read_back, sizeof drawn));
    CHECK(pwrite(fd, "x", 1, 0) < 0 && ftruncate(fd, 0) < 0, "sealed");
    close(fd);
    memset(read_back, 0, sizeof read_back);
    fd = memfd_create("secret", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, secret, 31) == 31);
    CHECK(halay_store_read_secret(log, fd, read_back) == HALAY_ERR_FORMAT && !read_back[0], "short");
    REQUIRE(pwrite(fd, secret, 32, 0) == 32 && fcntl(fd, F_SETFD, 0) == 0); /* inherited, as a rank's is */
    for (int i = 0; i < 2; i++)
        CHECK(halay_store_read_secret(log, fd, read_back) == HALAY_OK && !memcmp(read_back, secret, 32),
              "again and again");
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "no program that the rank starts gets it");
    REQUIRE(write(fd, secret, 32) == 32);
    CHECK(halay_store_read_secret(log, fd, read_back) == HALAY_ERR_FORMAT, "long");
    close(fd);
    CHECK(halay_store_read_secret(log, fd, read_back) == HALAY_ERR_SYSTEM, "closed");
}

/* A look at a store, which does not count there. */
static void check_probe(void)
{
    struct halay_store_counts before, after;
    struct service service, *s = &service;

    service_start(s);
    halay_store_server_count(s->server, &before);
    CHECK(halay_store_probe(address(s), secret, 5000) == HALAY_OK);
    CHECK(halay_store_probe(address(s), other_secret, 5000) == HALAY_ERR_AUTH);
    CHECK(halay_store_probe("127.0.0.1:1", secret, 5000) == HALAY_ERR_SYSTEM);
    halay_store_server_count(s->server, &after);
    CHECK(after.connections == before.connections);
    service_stop(s);
}

int main(void)
{
    struct halay_log log;
    struct service s;

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.write = keep_line;
    check_table();
    check_table_grows();
    check_secret(&log);
    check_addresses(&log);
    check_descriptors_return(&log);
    check_sleep(&log);
    check_probe();
    service_start(&s);
    int silent = raw_connect(address(&s)), half = raw_connect(address(&s)), unproved = raw_connect(address(&s));
    struct store_handshake h;
    raw_send(half, "halaykv\n half a hello", 20);
    store_make_hello(&h, secret, STORE_VERSION, 0);
    raw_send(unproved, h.hello, STORE_HELLO_BYTES);

    check_two_clients(&s, &log);
    check_timeout(&s, &log);
    check_generations(&s, &log);
    check_wrong_secret(&s, &log);
    check_impostor(&log, other_secret, STORE_VERSION, 0, HALAY_ERR_AUTH, "it is not the store of this job");
    check_impostor(&log, secret, 9, 0, HALAY_ERR_VERSION,
                   "speaks version 9 of the store's protocol, this is version 2");
    check_impostor(&log, secret, STORE_VERSION, 1, HALAY_ERR_TIMEOUT, "has not answered within 100 ms; check");
    check_other_version(&s, &log);
    check_garbage(&s, &log);
    check_replay(&s, &log);
    for (int fault = 0; fault < FAULTS; fault++)
        check_fault(&s, (enum fault)fault);
    check_served(&s, &log, "members' faults");
    check_killed(&s, &log);

    CHECK(is_closed(silent), "a silent stranger is dropped after its time");
    CHECK(is_closed(half), "so is one in half a hello");
    CHECK(raw_receive(unproved, h.challenge, STORE_HELLO_BYTES) && is_closed(unproved), "and one that proves nothing");
    close(silent);
    close(half);
    close(unproved);
    check_parked(&s);
    check_crowd(&s, &log);
    check_busy(&log);
    check_flood(&s, &log);
    check_flood_before_proof(&s);
    check_descriptors(&s, &log);
    service_stop(&s);
    halay_log_fini(&log);
    return test_end();
}
