/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of each kind, asked over sockets: what is answered at once and later, refused, cut off; what it replaces and
 * leaves behind.
 */
#include "base/clock.h"
#include "base/http/http.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BODY_MAX = 1000, ANSWER_MAX = 8192, WAIT_MS = 60000 };

struct later {
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct halay_http_exchange *exchange;
};

static struct later later = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL };

static void hello(void *arg, struct halay_http_exchange *exchange)
{
    const char *name = halay_http_query(exchange, "name"), *accept = halay_http_header(exchange, "Accept");
    char text[200];
    struct halay_http_answer answer = { .status = 200, .content_type = "text/plain", .body = text };

    (void)arg;
    answer.size =
        (size_t)snprintf(text, sizeof text, "/hello for %s, %s", name ? name : "nobody", accept ? accept : "anything");
    halay_http_answer(exchange, &answer);
}

static void echo(void *arg, struct halay_http_exchange *exchange)
{
    struct halay_http_answer answer = { .status = 200, .content_type = "application/octet-stream" };

    (void)arg;
    answer.body = halay_http_body(exchange, &answer.size);
    halay_http_answer(exchange, &answer);
}

static void keep(void *arg, struct halay_http_exchange *exchange)
{
    (void)arg;
    pthread_mutex_lock(&later.lock);
    later.exchange = exchange;
    pthread_cond_signal(&later.came);
    pthread_mutex_unlock(&later.lock);
}

static void quoted(void *arg, struct halay_http_exchange *exchange)
{
    size_t size;
    const char *body = halay_http_body(exchange, &size);

    (void)arg;
    halay_http_refuse(exchange, 422, "not '%.*s'", (int)size, body);
}

/* 64 MiB, or as many as are asked for: more than a socket holds. */
static void lengthy(void *arg, struct halay_http_exchange *exchange)
{
    struct halay_http_answer answer = { .status = 200, .content_type = "text/plain", .is_given = 1 };

    (void)arg;
    const char *mib = halay_http_query(exchange, "mib");
    answer.size = (size_t)(mib ? atoi(mib) : 64) << 20;
    answer.body = calloc(1, answer.size);
    REQUIRE(answer.body);
    halay_http_answer(exchange, &answer);
}

static const struct halay_http_route routes[] = {
    { "GET", "/hello", hello },    { "POST", "/echo", echo },      { "POST", "/keep", keep },
    { "POST", "/quoted", quoted }, { "GET", "/lengthy", lengthy },
};

/* A name for a socket that no file has. */
static void name_socket(char *where)
{
    int fd = mkstemp(where + strlen("unix:"));

    REQUIRE(fd >= 0 && !unlink(where + strlen("unix:")));
    close(fd);
}

static struct halay_http_config config_of(const char *where)
{
    return (struct halay_http_config){ .where = where,
                                       .routes = routes,
                                       .route_count = sizeof routes / sizeof *routes,
                                       .connections = 10,
                                       .body_bytes = BODY_MAX,
                                       .all_body_bytes = (size_t)64 << 10,
                                       .idle_s = 1,
                                       .request_s = 1,
                                       .has_thread = 1 };
}

static int dial(const struct halay_http_server *server)
{
    const char *where = halay_http_where(server);
    struct sockaddr_in port = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_un file = { .sun_family = AF_UNIX };
    int is_file = !strncmp(where, "unix:", 5), fd = socket(is_file ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

    REQUIRE(fd >= 0);
    if (is_file)
        strncpy(file.sun_path, where + 5, sizeof file.sun_path - 1);
    else
        port.sin_port = htons((uint16_t)atoi(strrchr(where, ':') + 1));
    if (is_file ? connect(fd, (struct sockaddr *)&file, sizeof file)
                : connect(fd, (struct sockaddr *)&port, sizeof port)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void say(int fd, const char *text)
{
    size_t left = strlen(text);

    while (left) {
        ssize_t sent = send(fd, text, left, MSG_NOSIGNAL);

        if (sent <= 0)
            return; /* the other side has heard enough */
        text += sent;
        left -= (size_t)sent;
    }
}

/* Read until the other side ends the connection; a server without a thread is driven meanwhile. */
static void hear(int fd, struct halay_http_server *driven, char *text)
{
    int64_t deadline = halay_deadline_us(WAIT_MS);
    size_t have = 0;
    ssize_t got = 1;

    while (got && have < ANSWER_MAX - 1 && !halay_deadline_passed(deadline)) {
        struct pollfd events[2] = { { .fd = fd, .events = POLLIN } };

        if (driven) {
            events[1] = (struct pollfd){ .fd = halay_http_fd(driven), .events = POLLIN };
            halay_http_turn(driven);
        }
        if (poll(events, driven ? 2 : 1, driven ? 10 : 1000) < 0 || !(events[0].revents))
            continue;
        got = recv(fd, text + have, ANSWER_MAX - 1 - have, 0);
        if (got < 0)
            break;
        have += (size_t)got;
    }
    text[have] = '\0';
}

static const char *ask(struct halay_http_server *server, int is_driven, const char *request)
{
    static char text[ANSWER_MAX];
    int fd = dial(server);

    text[0] = '\0';
    REQUIRE(fd >= 0);
    say(fd, request);
    hear(fd, is_driven ? server : NULL, text);
    close(fd);
    return text;
}

static int is_answer(const char *text, const char *status, const char *part)
{
    return !strncmp(text, "HTTP/1.1 ", 9) && !strncmp(text + 9, status, strlen(status)) && strstr(text, part);
}

#define END "Host: h\r\nConnection: close\r\n\r\n"

static void routes_are_found(struct halay_http_server *server, int is_driven)
{
    const char *text;

    text = ask(server, is_driven, "GET /hello?name=you&x HTTP/1.1\r\nAccept: text/csv\r\n" END);
    CHECK(is_answer(text, "200", "/hello for you, text/csv"), "%s", text);
    text = ask(server, is_driven, "GET /hello HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "200", "for nobody, anything"), "%s", text);
    text = ask(server, is_driven, "GET http://h:80/hello?name=you HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "200", "/hello for you"), "%s", text);
    text = ask(server, is_driven, "GET http://h HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "404", "unknown path"), "%s", text);
    text = ask(server, is_driven, "HEAD /hello HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "200", "Content-Length: ") && !strstr(text, "nobody"), "%s", text);
    text = ask(server, is_driven, "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n" END "a\nb c");
    CHECK(is_answer(text, "200", "a\nb c"), "%s", text);
    text = ask(server, is_driven,
               "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" END "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    CHECK(is_answer(text, "200", "abcde"), "%s", text);
    text = ask(server, is_driven, "GET /nothing HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "404", "unknown path; expected GET /hello, POST /echo"), "%s", text);
    text = ask(server, is_driven, "DELETE /echo HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "405", "Allow: POST"), "%s", text);
    text = ask(server, is_driven, "POST /quoted HTTP/1.1\r\nContent-Length: 3\r\n" END "\"a\n");
    CHECK(is_answer(text, "422", "{\"error\":{\"reason\":\"not '\\\"a\\n'\"}}"), "%s", text);
    text = ask(server, is_driven, "POST /quoted HTTP/1.1\r\nContent-Length: 1\r\n" END "\xff");
    CHECK(is_answer(text, "422", "{\"error\":{\"reason\":\"not '?'\"}}"), "%s", text);
    text = ask(server, is_driven, "garbage\r\n\r\n\r\n");
    CHECK(!is_answer(text, "200", ""), "%s", text);
}

/* Whatever a proxy in front makes of a second length, what follows is not taken for a request. */
static void two_lengths_are_refused(struct halay_http_server *server)
{
    static const char *const lengths[] = { "Content-Length: 4\r\nContent-Length: 40\r\n",
                                           "Content-Length: 4\r\ncontent-length: 4\r\n",
                                           "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                                           "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" };
    char request[300];

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\nHost: h\r\n%s\r\n4\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n", lengths[i]);
        const char *text = ask(server, 0, request);
        CHECK(is_answer(text, "400", "two lengths") && !strstr(text, "HTTP/1.1 200"), "%s", text);
    }
}

static void drip(const struct halay_http_server *server)
{
    int64_t deadline = halay_deadline_us(WAIT_MS);
    int fd = dial(server), ended = 0;
    char byte;

    REQUIRE(fd >= 0);
    say(fd, "POST /echo HTTP/1.1\r\nContent-Length: 900\r\n" END);
    while (!ended && !halay_deadline_passed(deadline)) {
        struct pollfd event = { .fd = fd, .events = POLLIN };

        say(fd, "x");
        ended = poll(&event, 1, 100) > 0 && recv(fd, &byte, 1, 0) <= 0;
    }
    CHECK(ended);
    close(fd);
}

static void long_bodies_are_refused(struct halay_http_server *server)
{
    static char request[4 * BODY_MAX];
    char body[BODY_MAX + 2];
    const char *text;

    text = ask(server, 0, "POST /echo HTTP/1.1\r\nContent-Length: 99999999999\r\n" END);
    CHECK(is_answer(text, "413", "longer than 1000 bytes"), "%s", text);
    memset(body, 'x', sizeof body);
    body[BODY_MAX + 1] = '\0';
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" END "%x\r\n%s\r\n0\r\n\r\n", BODY_MAX + 1, body);
    text = ask(server, 0, request);
    CHECK(is_answer(text, "413", "longer than 1000 bytes"), "%s", text);
    /* One that never ends is cut off. */
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" END "%x\r\n%s\r\n%x\r\n%s\r\n", BODY_MAX + 1, body,
             BODY_MAX + 1, body);
    text = ask(server, 0, request);
    CHECK(!*text, "%s", text);
    /* So is one that stops, and one that drips. */
    text = ask(server, 0, "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n" END "abc");
    CHECK(!is_answer(text, "200", ""), "%s", text);
    drip(server);
}

static void crowds_are_refused(void)
{
    struct halay_http_config config = config_of("0");
    struct halay_http_server *server;
    const char *text;

    config.all_body_bytes = 4000; /* less than the first piece of room */
    REQUIRE(!halay_http_open(NULL, &config, &server));
    text = ask(server, 0, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" END "abc");
    CHECK(is_answer(text, "503", "Retry-After: 1"), "%s", text);
    halay_http_close(server);
}

static struct halay_http_exchange *kept(void)
{
    struct halay_http_exchange *exchange;

    pthread_mutex_lock(&later.lock);
    while (!later.exchange)
        pthread_cond_wait(&later.came, &later.lock);
    exchange = later.exchange;
    later.exchange = NULL;
    pthread_mutex_unlock(&later.lock);
    return exchange;
}

/* Answered by another thread than the server's, also while the server takes nothing new. */
static void answers_come_later(void)
{
    struct halay_http_config config = config_of("127.0.0.1:0");
    struct halay_http_answer answer = { .status = 202, .content_type = "text/plain" };
    struct halay_http_server *server;
    struct halay_http_exchange *exchange;
    char text[ANSWER_MAX];
    size_t size;
    int fd;

    REQUIRE(!halay_http_open(NULL, &config, &server));
    fd = dial(server);
    REQUIRE(fd >= 0);
    say(fd, "POST /keep HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nword");
    exchange = kept();
    answer.body = halay_http_body(exchange, &size);
    answer.size = size;
    CHECK(size == 4 && halay_http_exchanges(server) == 1);
    halay_http_quiesce(server);
    CHECK(dial(server) < 0);
    halay_http_answer(exchange, &answer);
    hear(fd, NULL, text); /* it ends, though nobody asked for that */
    CHECK(is_answer(text, "202", "word") && strstr(text, "Connection: close"), "%s", text);
    close(fd);
    halay_http_close(server);
}

static void tokens_are_asked_for(struct halay_log *log, const char *said)
{
    struct halay_http_config config = config_of("0");
    struct halay_http_server *server;
    const char *text;

    config.token = "s3cret";
    REQUIRE(!halay_http_open(NULL, &config, &server));
    text = ask(server, 0, "GET /hello HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "401", "WWW-Authenticate: Bearer"), "%s", text);
    text = ask(server, 0, "GET /hello HTTP/1.1\r\nAuthorization: Bearer s3cre\r\n" END);
    CHECK(is_answer(text, "401", ""), "%s", text);
    text = ask(server, 0, "GET /nothing HTTP/1.1\r\nAuthorization: Bearer S3cret\r\n" END);
    CHECK(is_answer(text, "401", "") && !strstr(text, "/hello"), "%s", text);
    text = ask(server, 0, "GET /hello HTTP/1.1\r\nAuthorization: Bearer s3cret\r\n" END);
    CHECK(is_answer(text, "200", ""), "%s", text);
    halay_http_close(server);

    /* Where other hosts can connect, one may be a must. */
    config.asks_for = "a key";
    for (int i = 0; i < 6; i++) {
        static const char *const places[] = { "0.0.0.0:0", "[::]:0", "127.0.0.1:0", "localhost:0", "[::1]:0", "0" };
        for (config.token = NULL;; config.token = "s3cret") {
            config.where = places[i];
            enum halay_status status = halay_http_open(log, &config, &server);
            if (!status)
                halay_http_close(server);
            if (!strchr(places[i], '[')) /* IPv6 may be missing */
                CHECK(!status == (config.token || i > 1) && (!status || strstr(said, "give a key")), "'%s' %s",
                      places[i], said);
            else if (i == 1 && !config.token)
                CHECK(status);
            if (config.token)
                break;
        }
    }
}

/* Written by the server's thread, read by the test's. */
static _Atomic size_t suspended;
/* The server that MHD_resume_connection waits for, to lose its exchange before that returns; NULL: none. */
static struct halay_http_server *_Atomic loses;

/* Calls what libmicrohttpd defines by a name that is defined here, too. */
static void call_real(const char *name, void *connection)
{
    void (*real)(void *);

    *(void **)&real = dlsym(RTLD_NEXT, name);
    REQUIRE(real);
    real(connection);
}

void MHD_suspend_connection(void *connection);
void MHD_resume_connection(void *connection);

void MHD_suspend_connection(void *connection)
{
    call_real("MHD_suspend_connection", connection);
    suspended++;
}

/* What may happen right after a connection is resumed is made to happen. */
void MHD_resume_connection(void *connection)
{
    struct halay_http_server *server = loses;
    int64_t deadline = halay_deadline_us(WAIT_MS);

    call_real("MHD_resume_connection", connection);
    while (server && halay_http_exchanges(server) && !halay_deadline_passed(deadline))
        sched_yield();
}

/* The exchange is the server's as soon as its connection is resumed, and freed at once if the client has left. The
 * address sanitizer sees a touch of it after that; without one, the answer holds nothing that the server waits for. */
static void clients_leave_before_answers(void)
{
    struct halay_http_config config = config_of("127.0.0.1:0");
    const struct linger reset = { .l_onoff = 1 };
    struct halay_http_server *server;

    config.idle_s = 0; /* without limit: the connection ends by its client alone */
    REQUIRE(!halay_http_open(NULL, &config, &server));
    for (int i = 0; i < 3; i++) {
        const size_t before = suspended;
        int fd = dial(server);

        REQUIRE(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
        say(fd, "POST /keep HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nword");
        struct halay_http_exchange *exchange = kept();
        while (suspended == before)
            sched_yield();
        close(fd);
        loses = server;
        halay_http_answer(exchange, &(struct halay_http_answer){ .status = 200 });
        loses = NULL;
        CHECK(!halay_http_exchanges(server));
    }
    halay_http_close(server);
}

/* Heads that never end: of the first request of a connection, and of a later one. */
static void dripping_heads_are_cut_off(void)
{
    struct halay_http_config config = config_of("127.0.0.1:0");

    for (config.has_thread = 0; config.has_thread < 2; config.has_thread++) {
        struct halay_http_server *server;
        struct pollfd events[3];
        int fds[2], open = 2;
        int64_t deadline = halay_deadline_us(WAIT_MS);

        REQUIRE(!halay_http_open(NULL, &config, &server));
        for (int i = 0; i < 2; i++) {
            fds[i] = dial(server);
            REQUIRE(fds[i] >= 0);
            say(fds[i],
                i ? "GET /hello HTTP/1.1\r\nHost: h\r\n\r\nGET /hello HTTP/1.1\r\nX: " : "GET /hello HTTP/1.1\r\nX: ");
            events[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
        }
        while (open && !halay_deadline_passed(deadline)) {
            char bytes[400];

            if (!config.has_thread)
                halay_http_turn(server);
            poll(events, 2, 50);
            for (int i = 0; i < 2; i++) {
                if (events[i].fd >= 0 && events[i].revents && recv(fds[i], bytes, sizeof bytes, 0) <= 0) {
                    events[i].fd = -1;
                    open--;
                }
                say(fds[i], "x");
            }
        }
        CHECK(!open, "%d", config.has_thread);
        close(fds[0]);
        close(fds[1]);
        halay_http_close(server);
    }
}

/* An answer that its client does not read takes memory: those on top are refused, until it is read. */
static void unread_answers_are_limited(void)
{
    char where[] = "unix:/tmp/test_http.XXXXXX", bytes[1 << 16];
    struct halay_http_config config = config_of(where);
    struct halay_http_server *server;
    int64_t deadline = halay_deadline_us(WAIT_MS);

    name_socket(where);
    config.all_answer_bytes = (size_t)100 << 20;
    config.idle_s = config.request_s = 0; /* without limit */
    REQUIRE(!halay_http_open(NULL, &config, &server));
    int fd = dial(server);
    REQUIRE(fd >= 0);
    say(fd, "GET /lengthy HTTP/1.1\r\n" END);
    CHECK(recv(fd, bytes, 8, MSG_WAITALL) == 8 && !memcmp(bytes, "HTTP/1.1", 8));
    const char *text = ask(server, 0, "GET /lengthy HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "503", "not read yet") && strstr(text, "Retry-After: 1"), "%s", text);
    text = ask(server, 0, "GET /lengthy?mib=101 HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "413", "ask for less"), "%s", text);
    text = ask(server, 0, "GET /hello HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "200", "for nobody"), "%s", text);
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        ;
    close(fd);
    while (halay_http_exchanges(server) && !halay_deadline_passed(deadline))
        sched_yield();
    text = ask(server, 0, "GET /lengthy HTTP/1.1\r\n" END);
    CHECK(is_answer(text, "200", ""), "%s", text);
    halay_http_close(server);
}

/* An answer must be read in time, too, or its connection ends. */
static void unread_answers_are_cut_off(void)
{
    char where[] = "unix:/tmp/test_http.XXXXXX";
    struct halay_http_config config = config_of(where);
    struct halay_http_server *server;

    name_socket(where);
    config.idle_s = 0; /* without limit */
    REQUIRE(!halay_http_open(NULL, &config, &server));
    struct pollfd end = { .fd = dial(server) };
    REQUIRE(end.fd >= 0);
    say(end.fd, "GET /lengthy?mib=1 HTTP/1.1\r\n" END);
    CHECK(poll(&end, 1, WAIT_MS) == 1 && end.revents & POLLHUP);
    close(end.fd);
    halay_http_close(server);
}

/* However many connections one address opens, another's is answered. */
static void addresses_leave_room(void)
{
    enum { MANY = 20 };
    struct halay_http_config config = config_of("127.0.0.1:0");
    const struct sockaddr_in other = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1) };
    struct sockaddr_in port = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct halay_http_server *server;
    char text[ANSWER_MAX];
    int fds[MANY], fd = socket(AF_INET, SOCK_STREAM, 0);

    config.idle_s = config.request_s = 0; /* without limit */
    REQUIRE(!halay_http_open(NULL, &config, &server));
    for (int i = 0; i < MANY; i++)
        fds[i] = dial(server);
    port.sin_port = htons((uint16_t)atoi(strrchr(halay_http_where(server), ':') + 1));
    REQUIRE(fd >= 0 && !bind(fd, (const struct sockaddr *)&other, sizeof other));
    REQUIRE(!connect(fd, (struct sockaddr *)&port, sizeof port));
    say(fd, "GET /hello HTTP/1.1\r\n" END);
    hear(fd, NULL, text);
    CHECK(is_answer(text, "200", "for nobody"), "%s", text);
    close(fd);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    halay_http_close(server);
}

static void note(void *arg, enum halay_log_level level, const char *line)
{
    if (level == HALAY_LOG_ERROR)
        snprintf(arg, ANSWER_MAX, "%s", line);
}

static void places(struct halay_log *log, const char *said)
{
    static const char *const wrong[] = { "",      "x",        "-1",    "65536", "1.2.3.4", ":80",
                                         "::1:0", "[::1:80]", "unix:", "h:",    "80 ",     "no.such.host.invalid:80" };
    struct halay_http_config config = config_of("");
    struct halay_http_server *server, *second;
    char path[] = "/tmp/test_http.XXXXXX", where[64];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat info;
    size_t i;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.where = wrong[i];
        CHECK(halay_http_open(log, &config, &server) == HALAY_ERR_CONFIG, "'%s'", wrong[i]);
    }
    snprintf(where, sizeof where, "unix:%s", path);
    config.where = where;
    /* What is no socket stays as it is. */
    CHECK(halay_http_open(log, &config, &server) == HALAY_ERR_CONFIG && strstr(said, path) && !access(path, F_OK));
    close(fd);
    unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, sizeof path);
    REQUIRE(fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof address));
    close(fd); /* as after a kill: the file is there, and nobody listens */
    CHECK(halay_http_open(log, &config, &server) == HALAY_OK, "%s", said);
    CHECK(!stat(path, &info) && (info.st_mode & 0777) == 0600, "%o", info.st_mode);
    CHECK(halay_http_open(log, &config, &second) == HALAY_ERR_CONFIG && strstr(said, "in use"), "%s", said);
    CHECK(is_answer(ask(server, 0, "GET /hello HTTP/1.1\r\n" END), "200", ""));
    halay_http_close(server);
    CHECK(access(path, F_OK));
    config.where = "[::1]:0";
    if (!halay_http_open(log, &config, &server)) { /* where there is IPv6 */
        CHECK(!strncmp(halay_http_where(server), "http://[::1]:", 13), "%s", halay_http_where(server));
        halay_http_close(server);
    }
}

int main(void)
{
    char said[ANSWER_MAX] = "";
    struct halay_log log;
    struct halay_http_config config = config_of("0");
    struct halay_http_server *server;
    enum halay_status status;

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.write = note;
    log.arg = said;
    status = halay_http_open(&log, &config, &server);
    if (status == HALAY_ERR_UNSUPPORTED) {
        printf("%s\n", said);
        return 77;
    }
    REQUIRE(!status);
    routes_are_found(server, 0);
    two_lengths_are_refused(server);
    long_bodies_are_refused(server);
    halay_http_close(server);
    config.has_thread = 0;
    REQUIRE(!halay_http_open(&log, &config, &server));
    CHECK(halay_http_timeout_ms(server) >= -1);
    routes_are_found(server, 1);
    halay_http_close(server);
    crowds_are_refused();
    answers_come_later();
    clients_leave_before_answers();
    dripping_heads_are_cut_off();
    unread_answers_are_limited();
    unread_answers_are_cut_off();
    addresses_leave_room();
    tokens_are_asked_for(&log, said);
    places(&log, said);
    halay_log_fini(&log);
    return test_end();
}
