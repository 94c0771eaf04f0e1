/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP: a small server for programs that answer from memory. libmicrohttpd implements the protocol; this server adds
 * limits, a list of routes, a token, and asynchronous answers.
 *
 * The handler of a route gets complete requests only, and none that is refused (too long, unknown path, no token). It
 * answers by halay_http_answer, before it returns or later, from any thread. Each exchange is answered exactly once,
 * and belongs to the server again from then on.
 *
 * Refusals have a body for programs: {"error": {"reason": "..."}}.
 *
 * A server has a thread of its own, or none: then its owner polls halay_http_fd and calls halay_http_turn.
 */
#ifndef HALAY_BASE_HTTP_H
#define HALAY_BASE_HTTP_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>

struct halay_http_server;
struct halay_http_exchange;

/* Called by the server's thread, or in halay_http_turn; must be short. arg is the configuration's. */
typedef void halay_http_handler(void *arg, struct halay_http_exchange *exchange);

struct halay_http_route {
    const char *method; /* "GET" answers HEAD, too */
    const char *path;   /* without the query: "/metrics" */
    halay_http_handler *handle;
};

struct halay_http_config {
    const char
        *where; /* "8080" (of 127.0.0.1), "0.0.0.0:8080", "[::]:8080", "unix:PATH"; port 0: the system's choice */
    const char *token;    /* every request needs "Authorization: Bearer TOKEN"; NULL: no token */
    const char *asks_for; /* the option that sets a token: without one, an address that other hosts reach is
                             HALAY_ERR_CONFIG, and the error names the option; NULL: any address is allowed */
    const struct halay_http_route *routes; /* borrowed as long as the server lives */
    size_t route_count;
    size_t connections;      /* at once, three quarters of them from one address; others are closed, or wait */
    size_t body_bytes;       /* of one request; longer ones are refused with 413 */
    size_t all_body_bytes;   /* of all requests under way; requests above it are refused with 503 */
    size_t all_answer_bytes; /* of all unread answers except short ones; above it 503, or 413 for a single longer one;
                                0: no limit */
    int idle_s;              /* a connection without data for this time is closed; 0: no limit, as of request_s */
    int request_s; /* and one whose request is not whole this time after the connection began, or this time and
                              idle_s after the end of the request before it; or whose answer is not read by then, with a
                              second more for each MiB */
    int has_thread;
    void *arg; /* the handlers' */
};

/* Starts to listen. The server borrows log and config's pointers, but copies where and token. HALAY_ERR_CONFIG, logged:
 * where does not parse, or is in use; HALAY_ERR_UNSUPPORTED, logged: built without libmicrohttpd. Replaces a socket's
 * file that no process listens at; only its owner may connect to the new one. */
enum halay_status halay_http_open(struct halay_log *log, const struct halay_http_config *config,
                                  struct halay_http_server **server);

/* Returns the address for messages: "http://127.0.0.1:8080", "unix:/run/halay". Valid as long as the server. */
const char *halay_http_where(const struct halay_http_server *server);

/* Without a thread: the descriptor to poll for input, and the longest time in milliseconds, -1: no limit. */
int halay_http_fd(const struct halay_http_server *server);
int halay_http_timeout_ms(struct halay_http_server *server);
/* Does all work that needs no waiting. */
void halay_http_turn(struct halay_http_server *server);

/* Stops accepting connections; each open one ends with its next answer. */
void halay_http_quiesce(struct halay_http_server *server);
/* Returns the number of exchanges that are not read, answered and sent completely. */
size_t halay_http_exchanges(const struct halay_http_server *server);

/* Ends all connections, and the thread. The owner must have answered every exchange. NULL is allowed. */
void halay_http_close(struct halay_http_server *server);

/* The body of the request, valid until the answer. */
const void *halay_http_body(const struct halay_http_exchange *exchange, size_t *size);
/* A header, and an argument of the query ("" without a value); NULL if absent. In the handler only. */
const char *halay_http_header(struct halay_http_exchange *exchange, const char *name);
const char *halay_http_query(struct halay_http_exchange *exchange, const char *name);

struct halay_http_answer {
    int status;
    const char *content_type; /* NULL: the body is empty */
    const void *body;         /* copied, unless is_given */
    int is_given;             /* the server takes and frees body */
    size_t size;
    const char *const *headers; /* further ones: name, value, ..., NULL; NULL: none */
};

/* Answers. Returns the status that is sent: a limit may refuse the answer. Without memory the connection just ends. */
int halay_http_answer(struct halay_http_exchange *exchange, const struct halay_http_answer *answer);
/* Answers with a reason in JSON. */
void halay_http_refuse(struct halay_http_exchange *exchange, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
