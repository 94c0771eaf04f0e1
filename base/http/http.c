/* SPDX-License-Identifier: Apache-2.0
 *
 * An exchange begins with its request's head (exchange_create), grows with the body (body_append), is handled when that
 * is complete, and ends when libmicrohttpd has sent the answer (end_exchange). Only the thread that runs libmicrohttpd
 * queues answers: a later answer is stored in the exchange, and its suspended connection is resumed.
 *
 * libmicrohttpd's own time limit restarts with each byte. So each connection has a time at which its request must be
 * complete, which each turn checks, or a thread of its own.
 *
 *     reading -> handling -> answered          the handler answers
 *                        \-> waiting -> answered    another thread does, later
 */
#include "base/http/http.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "base/http/http_where.h"
#include "base/number_text.h"
#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_ROOM = 4096, REASON_TEXT = 1024, TURN_MS_MAX = 60000, SHORT_ANSWER = 16 << 10 };

struct halay_http_server {
    struct halay_log *log;
    struct halay_http_config config; /* where and token are owned, the rest as in http.h */
    struct halay_http_place place;   /* fd is libmicrohttpd's while it listens */
    struct MHD_Daemon *daemon;
    _Atomic int is_quiescing;  /* relaxed: an answer of that moment may have either form */
    _Atomic size_t exchanges;  /* relaxed: a count */
    _Atomic size_t body_bytes; /* of all exchanges, as answer_bytes; relaxed: a count */
    _Atomic size_t answer_bytes;
    pthread_mutex_t lock;   /* guards phase and response of exchanges; no call of libmicrohttpd that waits within */
    struct peer *peers;     /* guarded by lock, as what they hold and due_us */
    int64_t due_us;         /* no peer's is earlier */
    pthread_t thread;       /* looks at peers */
    int has_thread, end_fd; /* owned; written to end the thread */
};

/* A connection; owned by libmicrohttpd's context for it. */
struct peer {
    struct halay_http_server *server; /* borrowed */
    int fd;                           /* borrowed */
    int64_t due_us;                   /* when its request must be complete; INT64_MAX: it is */
    struct peer *next, **link;
};

enum phase { READING, HANDLING, WAITING, ANSWERED };

struct halay_http_exchange {
    struct halay_http_server *server; /* borrowed */
    struct MHD_Connection *connection;
    const struct halay_http_route *route;
    char *body; /* owned */
    size_t size, room;
    int is_too_long;               /* the rest of the body is read and dropped */
    int is_crowded;                /* the same, as all bodies together are too long */
    enum phase phase;              /* guarded by server.lock */
    struct MHD_Response *response; /* owned, NULL without memory; guarded by server.lock */
    unsigned int status;           /* guarded by server.lock */
    size_t answer_bytes;           /* guarded by server.lock */
};

static void free_given(const struct halay_http_answer *answer)
{
    if (answer->is_given)
        free((void *)(uintptr_t)answer->body);
}

static struct MHD_Response *make_response(struct halay_http_server *server, const struct halay_http_answer *answer)
{
    struct MHD_Response *response;
    const char *const *header = answer->headers;
    int is_ok;

    response = MHD_create_response_from_buffer(answer->size, (void *)(uintptr_t)answer->body,
                                               answer->is_given ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_MUST_COPY);
    if (!response) {
        free_given(answer);
        return NULL;
    }
    is_ok = !answer->content_type || MHD_add_response_header(response, "Content-Type", answer->content_type);
    for (; header && header[0]; header += 2)
        is_ok = is_ok && MHD_add_response_header(response, header[0], header[1]);
    if (atomic_load_explicit(&server->is_quiescing, memory_order_relaxed))
        is_ok = is_ok && MHD_add_response_header(response, "Connection", "close");
    if (is_ok)
        return response;
    MHD_destroy_response(response);
    return NULL;
}

/* {"error": {"reason": TEXT}}, to be freed; NULL without memory. */
static char *reason_json(const char *text)
{
    json_t *error = json_pack("{s:{s:s}}", "error", "reason", text);
    char *json = error ? json_dumps(error, JSON_COMPACT) : NULL;

    json_decref(error);
    return json;
}

static void send_refusal(struct halay_http_exchange *exchange, int status, const char *const *headers, const char *text)
{
    char *json = reason_json(text);
    struct halay_http_answer answer = { .status = status, .headers = headers };

    if (json) {
        answer.content_type = "application/json";
        answer.body = json;
        answer.size = strlen(json);
    }
    halay_http_answer(exchange, &answer);
    free(json);
}

static int refuse_crowd(struct halay_http_exchange *exchange, const char *text)
{
    static const char *const headers[] = { "Retry-After", "1", NULL };

    send_refusal(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, headers, text);
    return MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* Reserves memory for an answer until it is read. Returns zero if that is above the limit. */
static int reserve_answer(struct halay_http_server *server, size_t size)
{
    const size_t max = server->config.all_answer_bytes;
    const size_t before = atomic_fetch_add_explicit(&server->answer_bytes, size, memory_order_relaxed);

    if (!max || size <= SHORT_ANSWER || (size <= max && before <= max - size))
        return 1;
    atomic_fetch_sub_explicit(&server->answer_bytes, size, memory_order_relaxed);
    return 0;
}

static int refuse_answer(struct halay_http_exchange *exchange, size_t size)
{
    const size_t max = exchange->server->config.all_answer_bytes;

    if (size <= max)
        return refuse_crowd(exchange, "too many bytes of answers are not read yet; try again later");
    halay_http_refuse(exchange, MHD_HTTP_CONTENT_TOO_LARGE,
                      "the answer has %zu bytes, at most %zu are sent: ask for less", size, max);
    return MHD_HTTP_CONTENT_TOO_LARGE;
}

int halay_http_answer(struct halay_http_exchange *exchange, const struct halay_http_answer *answer)
{
    struct halay_http_server *server = exchange->server;

    if (!reserve_answer(server, answer->size)) {
        free_given(answer);
        return refuse_answer(exchange, answer->size);
    }
    struct MHD_Response *response = make_response(server, answer);
    pthread_mutex_lock(&server->lock);
    exchange->answer_bytes = answer->size;
    struct MHD_Connection *suspended = exchange->phase == WAITING ? exchange->connection : NULL;
    exchange->response = response;
    exchange->status = (unsigned int)answer->status;
    exchange->phase = ANSWERED;
    pthread_mutex_unlock(&server->lock);
    /* The server's thread may already have freed the exchange. */
    if (suspended)
        MHD_resume_connection(suspended);
    return answer->status;
}

void halay_http_refuse(struct halay_http_exchange *exchange, int status, const char *format, ...)
{
    char text[REASON_TEXT];
    va_list args;

    va_start(args, format);
    halay_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    halay_text_mend(text);
    send_refusal(exchange, status, NULL, text);
}

static int has_token(const struct halay_http_server *server, struct MHD_Connection *connection)
{
    static const char bearer[] = "Bearer ";
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    const char *token = server->config.token;
    size_t length = token ? strlen(token) : 0;

    return !token ||
           (given && !strncmp(given, bearer, sizeof bearer - 1) && strlen(given) == sizeof bearer - 1 + length &&
            !sodium_memcmp(given + sizeof bearer - 1, token, length));
}

/* "GET /a, POST /b" */
static void list_routes(const struct halay_http_server *server, char *text, size_t size)
{
    size_t i, at = 0;

    for (i = 0; i < server->config.route_count && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s %s", i ? ", " : "", server->config.routes[i].method,
                               server->config.routes[i].path);
}

static int is_method(const char *asked, const char *method)
{
    return !strcmp(asked, method) || (!strcmp(asked, "HEAD") && !strcmp(method, "GET"));
}

/* Returns the route, or NULL after a refusal with status 404 or 405. */
static const struct halay_http_route *find_route(struct halay_http_exchange *exchange, const char *method,
                                                 const char *path)
{
    const struct halay_http_server *server = exchange->server;
    const struct halay_http_route *route = server->config.routes, *end = route + server->config.route_count;
    const char *headers[] = { "Allow", NULL, NULL };
    char text[REASON_TEXT], list[REASON_TEXT - 64];

    for (; route < end; route++) {
        if (strcmp(path, route->path))
            continue;
        if (is_method(method, route->method))
            return route;
        headers[1] = route->method;
    }
    list_routes(server, list, sizeof list);
    snprintf(text, sizeof text, headers[1] ? "unknown method for this path; expected %s" : "unknown path; expected %s",
             list);
    send_refusal(exchange, headers[1] ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND, headers[1] ? headers : NULL,
                 text);
    return NULL;
}

static void refuse_long(struct halay_http_exchange *exchange)
{
    halay_http_refuse(exchange, MHD_HTTP_CONTENT_TOO_LARGE, "the body is longer than %zu bytes",
                      exchange->server->config.body_bytes);
}

static enum MHD_Result note_length(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    (void)value;
    *(int *)arg += !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding");
    return MHD_YES;
}

/* Returns nonzero if the body has two lengths: a proxy may use the other one, and see a part as the next request. */
static int has_two_lengths(struct MHD_Connection *connection)
{
    int lengths = 0;

    MHD_get_connection_values(connection, MHD_HEADER_KIND, note_length, &lengths);
    return lengths > 1;
}

/* Returns "/path" for "http://host:80/path", which proxies request. */
static const char *without_host(const char *path)
{
    static const char scheme[] = "http://";

    if (strncasecmp(path, scheme, sizeof scheme - 1))
        return path;
    path += sizeof scheme - 1;
    return path + strcspn(path, "/");
}

/* Finds the route by the head, or refuses before the body is read. */
static void handle_head(struct halay_http_exchange *exchange, const char *method, const char *path)
{
    static const char *const ask[] = { "WWW-Authenticate", "Bearer", NULL };
    const char *length = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Content-Length");

    if (!has_token(exchange->server, exchange->connection))
        send_refusal(exchange, MHD_HTTP_UNAUTHORIZED, ask, "the request lacks this server's token");
    else if (has_two_lengths(exchange->connection))
        halay_http_refuse(exchange, MHD_HTTP_BAD_REQUEST, "the request has two lengths");
    else if ((exchange->route = find_route(exchange, method, without_host(path))) && length &&
             strtoull(length, NULL, 10) > exchange->server->config.body_bytes)
        refuse_long(exchange);
}

/* Makes room for more bytes of the body; returns zero without memory. */
static int body_grow(struct halay_http_exchange *exchange, size_t more)
{
    struct halay_http_server *server = exchange->server;
    size_t room = exchange->room ? exchange->room : FIRST_ROOM, extra;
    char *body;

    if (exchange->size + more <= exchange->room)
        return 1;
    while (room < exchange->size + more)
        room *= 2;
    extra = room - exchange->room;
    if (atomic_fetch_add_explicit(&server->body_bytes, extra, memory_order_relaxed) + extra >
            server->config.all_body_bytes ||
        !(body = realloc(exchange->body, room))) {
        atomic_fetch_sub_explicit(&server->body_bytes, extra, memory_order_relaxed);
        return 0;
    }
    exchange->body = body;
    exchange->room = room;
    return 1;
}

/* Appends bytes to the body. Returns zero if too many follow a refusal: the connection must end. */
static int body_append(struct halay_http_exchange *exchange, const char *bytes, size_t count)
{
    const struct halay_http_config *config = &exchange->server->config;

    if (exchange->is_too_long || exchange->is_crowded) {
        exchange->size += count;
        return exchange->size <= 2 * config->body_bytes;
    }
    if (exchange->size + count > config->body_bytes)
        exchange->is_too_long = 1;
    else if (!body_grow(exchange, count))
        exchange->is_crowded = 1;
    else
        memcpy(exchange->body + exchange->size, bytes, count);
    exchange->size += count;
    return 1;
}

/* ---- time ---- */

static struct peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Sets the time at which the connection's next request must be complete. */
static void set_due_locked(struct peer *peer, int seconds)
{
    if (!peer || !peer->server->config.request_s)
        return;
    peer->due_us = halay_now_us() + (int64_t)seconds * 1000000;
    if (peer->due_us < peer->server->due_us)
        peer->server->due_us = peer->due_us;
}

static void add_peer(struct halay_http_server *server, int fd, void **own)
{
    struct peer *peer = *own = malloc(sizeof *peer);

    if (!peer) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    pthread_mutex_lock(&server->lock);
    *peer =
        (struct peer){ .server = server, .fd = fd, .due_us = INT64_MAX, .next = server->peers, .link = &server->peers };
    if (peer->next)
        peer->next->link = &peer->next;
    server->peers = peer;
    set_due_locked(peer, server->config.request_s);
    pthread_mutex_unlock(&server->lock);
}

/* Called by libmicrohttpd at each connection's begin, and at its end before its socket is closed. */
static void note_connection(void *arg, struct MHD_Connection *connection, void **own,
                            enum MHD_ConnectionNotificationCode code)
{
    struct halay_http_server *server = arg;
    struct peer *peer = *own;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        add_peer(server, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, own);
    } else if (peer) {
        pthread_mutex_lock(&server->lock);
        *peer->link = peer->next;
        if (peer->next)
            peer->next->link = peer->link;
        pthread_mutex_unlock(&server->lock);
        *own = NULL;
        free(peer);
    }
}

/* Ends connections whose requests have taken too long; to libmicrohttpd the client has closed them. */
static void end_late(struct halay_http_server *server)
{
    const int64_t now = halay_now_us();

    pthread_mutex_lock(&server->lock);
    const int is_late = now >= server->due_us;
    if (is_late)
        server->due_us = INT64_MAX;
    for (struct peer *peer = is_late ? server->peers : NULL; peer; peer = peer->next) {
        if (peer->due_us <= now) {
            shutdown(peer->fd, SHUT_RDWR);
            peer->due_us = INT64_MAX;
        }
        if (peer->due_us < server->due_us)
            server->due_us = peer->due_us;
    }
    pthread_mutex_unlock(&server->lock);
}

/* Returns milliseconds until a request is late, -1 without requests. */
static int late_ms(struct halay_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    const int64_t due = server->due_us;
    pthread_mutex_unlock(&server->lock);
    const int64_t ms = (due - halay_now_us()) / 1000 + 1;
    return due == INT64_MAX ? -1 : ms < 0 ? 0 : ms < TURN_MS_MAX ? (int)ms : TURN_MS_MAX;
}

/* ---- exchanges ---- */

static enum MHD_Result queue_answer_locked(struct halay_http_exchange *exchange)
{
    const struct halay_http_config *config = &exchange->server->config;
    enum MHD_Result result;

    if (!exchange->response)
        return MHD_NO;
    set_due_locked(peer_of(exchange->connection),
                   config->idle_s + config->request_s + (int)(exchange->answer_bytes >> 20));
    result = MHD_queue_response(exchange->connection, exchange->status, exchange->response);
    MHD_destroy_response(exchange->response);
    exchange->response = NULL;
    return result;
}

/* Handles a complete request; suspends its connection if the handler has not answered. */
static enum MHD_Result handle_request(struct halay_http_exchange *exchange)
{
    struct halay_http_server *server = exchange->server;
    enum MHD_Result result = MHD_YES;

    struct peer *peer = peer_of(exchange->connection);

    pthread_mutex_lock(&server->lock);
    if (peer)
        peer->due_us = INT64_MAX;
    const int is_new = exchange->phase == READING;
    if (is_new)
        exchange->phase = HANDLING;
    pthread_mutex_unlock(&server->lock);
    if (is_new) {
        if (exchange->is_too_long)
            refuse_long(exchange);
        else if (exchange->is_crowded)
            refuse_crowd(exchange, "too many bytes of requests are waiting; try again later");
        else
            exchange->route->handle(server->config.arg, exchange);
    }
    pthread_mutex_lock(&server->lock);
    if (exchange->phase == ANSWERED) {
        result = queue_answer_locked(exchange);
    } else {
        exchange->phase = WAITING;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&server->lock);
    return result;
}

static struct halay_http_exchange *exchange_create(struct halay_http_server *server, struct MHD_Connection *connection)
{
    struct halay_http_exchange *exchange = calloc(1, sizeof *exchange);

    if (!exchange)
        return NULL;
    exchange->server = server;
    exchange->connection = connection;
    atomic_fetch_add_explicit(&server->exchanges, 1, memory_order_relaxed);
    return exchange;
}

/* Called by libmicrohttpd for a request's head, then for parts of its body, then at its end. */
static enum MHD_Result receive_request(void *arg, struct MHD_Connection *connection, const char *path,
                                       const char *method, const char *version, const char *bytes, size_t *count,
                                       void **own)
{
    struct halay_http_exchange *exchange = *own;

    (void)version;
    if (!exchange) {
        *own = exchange = exchange_create(arg, connection);
        if (!exchange)
            return MHD_NO;
        handle_head(exchange, method, path);
        pthread_mutex_lock(&exchange->server->lock);
        const enum MHD_Result result = exchange->phase == ANSWERED ? queue_answer_locked(exchange) : MHD_YES;
        pthread_mutex_unlock(&exchange->server->lock);
        return result;
    }
    if (!*count)
        return handle_request(exchange);
    if (!body_append(exchange, bytes, *count))
        return MHD_NO;
    *count = 0;
    return MHD_YES;
}

static void end_exchange(void *arg, struct MHD_Connection *connection, void **own,
                         enum MHD_RequestTerminationCode reason)
{
    struct halay_http_server *server = arg;
    struct halay_http_exchange *exchange = *own;

    (void)reason;
    if (!exchange)
        return;
    *own = NULL;
    pthread_mutex_lock(&server->lock);
    set_due_locked(peer_of(connection), server->config.idle_s + server->config.request_s);
    const size_t answer_bytes = exchange->answer_bytes;
    pthread_mutex_unlock(&server->lock);
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    atomic_fetch_sub_explicit(&server->answer_bytes, answer_bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&server->body_bytes, exchange->room, memory_order_relaxed);
    atomic_fetch_sub_explicit(&server->exchanges, 1, memory_order_relaxed);
    free(exchange->body);
    free(exchange);
}

__attribute__((format(printf, 2, 0))) static void log_line(void *arg, const char *format, va_list args)
{
    struct halay_http_server *server = arg;
    char line[REASON_TEXT];

    halay_vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    halay_debug(server->log, "http: %s", line);
}

/* ---- life ---- */

static enum halay_status start_daemon(struct halay_http_server *server)
{
    const struct halay_http_config *config = &server->config;
    unsigned int flags = MHD_USE_EPOLL | MHD_USE_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    /* A quarter is kept for other addresses. */
    const unsigned int connections = (unsigned int)config->connections, of_address = connections - connections / 4;

    if (config->has_thread)
        flags |= MHD_USE_INTERNAL_POLLING_THREAD;
    server->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, receive_request, server, MHD_OPTION_EXTERNAL_LOGGER, log_line, server,
                         MHD_OPTION_LISTEN_SOCKET, server->place.fd, MHD_OPTION_CONNECTION_LIMIT, connections,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, of_address, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned int)config->idle_s, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
                         MHD_OPTION_NOTIFY_COMPLETED, end_exchange, server, MHD_OPTION_END);
    if (server->daemon)
        return HALAY_OK;
    return halay_fail(server->log, HALAY_ERR_SYSTEM, "cannot start the http server at '%s': %s", server->place.text,
                      strerror(errno));
}

static void *watch_peers(void *arg)
{
    struct halay_http_server *server = arg;
    struct pollfd end = { .fd = server->end_fd, .events = POLLIN };

    while (!end.revents) {
        const int ms = late_ms(server), longest = server->config.request_s * 1000; /* no later one is due before */
        poll(&end, 1, ms < 0 || ms > longest ? longest : ms);
        end_late(server);
    }
    return NULL;
}

static enum halay_status start_watch(struct halay_http_server *server)
{
    server->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int error = server->end_fd < 0 ? errno : pthread_create(&server->thread, NULL, watch_peers, server);
    server->has_thread = !error;
    if (!error)
        return HALAY_OK;
    return halay_fail(server->log, HALAY_ERR_SYSTEM, "cannot start a thread for the http server at '%s': %s",
                      server->place.text, strerror(error));
}

static enum halay_status server_start(struct halay_http_server *server)
{
    const int watches = server->config.has_thread && server->config.request_s;
    sigset_t all, before;

    /* Signals are handled by the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum halay_status status = start_daemon(server);
    if (!status && watches)
        status = start_watch(server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static void end_thread(struct halay_http_server *server)
{
    if (!server->has_thread)
        return;
    eventfd_write(server->end_fd, 1); /* cannot fail: it is 0 */
    pthread_join(server->thread, NULL);
    server->has_thread = 0;
}

static void server_destroy(struct halay_http_server *server)
{
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    halay_http_place_fini(&server->place);
    if (server->end_fd >= 0)
        close(server->end_fd);
    pthread_mutex_destroy(&server->lock);
    free((char *)(uintptr_t)server->config.token);
    free(server);
}

enum halay_status halay_http_open(struct halay_log *log, const struct halay_http_config *config,
                                  struct halay_http_server **out)
{
    struct halay_http_server *server = calloc(1, sizeof *server);
    enum halay_status status;

    if (!server)
        return HALAY_ERR_NO_MEMORY;
    server->log = log;
    server->config = *config;
    server->config.where = NULL; /* place has it */
    server->config.token = config->token ? strdup(config->token) : NULL;
    server->place.fd = server->end_fd = -1;
    server->due_us = INT64_MAX;
    pthread_mutex_init(&server->lock, NULL);
    status = config->token && !server->config.token ? HALAY_ERR_NO_MEMORY
                                                    : halay_http_place_open(log, config->where, &server->place);
    if (!status && !server->place.is_local && config->asks_for && !config->token)
        status = halay_fail(log, HALAY_ERR_CONFIG, "other hosts can reach %s without a token; give %s",
                            server->place.text, config->asks_for);
    if (!status)
        status = server_start(server);
    if (status) {
        server_destroy(server);
        return status;
    }
    *out = server;
    return HALAY_OK;
}

const char *halay_http_where(const struct halay_http_server *server)
{
    return server->place.text;
}

int halay_http_fd(const struct halay_http_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);

    return info ? info->epoll_fd : -1;
}

int halay_http_timeout_ms(struct halay_http_server *server)
{
    MHD_UNSIGNED_LONG_LONG ms;
    const int is_limited = MHD_get_timeout(server->daemon, &ms) == MHD_YES, late = late_ms(server);
    const int own = !is_limited ? -1 : ms < TURN_MS_MAX ? (int)ms : TURN_MS_MAX;

    return late < 0 || (own >= 0 && own < late) ? own : late;
}

void halay_http_turn(struct halay_http_server *server)
{
    if (MHD_run(server->daemon) != MHD_YES)
        halay_debug(server->log, "http: a turn failed");
    end_late(server);
}

void halay_http_quiesce(struct halay_http_server *server)
{
    if (atomic_exchange_explicit(&server->is_quiescing, 1, memory_order_relaxed))
        return;
    /* The socket stays open until the server is destroyed, since its thread may use it; it refuses connections. */
    if (MHD_quiesce_daemon(server->daemon) != MHD_INVALID_SOCKET)
        shutdown(server->place.fd, SHUT_RDWR);
}

size_t halay_http_exchanges(const struct halay_http_server *server)
{
    return atomic_load_explicit(&server->exchanges, memory_order_relaxed);
}

void halay_http_close(struct halay_http_server *server)
{
    if (!server)
        return;
    if (!atomic_load_explicit(&server->is_quiescing, memory_order_relaxed))
        halay_http_quiesce(server);
    end_thread(server);
    server_destroy(server);
}

const void *halay_http_body(const struct halay_http_exchange *exchange, size_t *size)
{
    *size = exchange->size;
    return exchange->size ? exchange->body : "";
}

const char *halay_http_header(struct halay_http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *halay_http_query(struct halay_http_exchange *exchange, const char *name)
{
    const char *value = NULL;
    size_t size;

    if (MHD_lookup_connection_value_n(exchange->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &size) !=
        MHD_YES)
        return NULL;
    return value ? value : "";
}
