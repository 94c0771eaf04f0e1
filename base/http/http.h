/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP: a small server for programs that answer from memory. libmicrohttpd reads and writes the protocol; here are
 * limits, a list of routes, a token, and answers that may be given later.
 *
 * A request is handed to its route's handler once it is whole; until then, and if it is refused (too long, no such
 * path, no token), the handler hears nothing of it. The handler answers by halay_http_answer, before it returns or
 * later, from any thread. Each exchange is answered exactly once, and belongs to the server again from then on.
 *
 * Refusals have a body that programs can read: {"error": {"reason": "..."}}.
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

/* Called by the server's thread, or in halay_http_turn: short. arg is the configuration's. */
typedef void halay_http_handler(void *arg, struct halay_http_exchange *exchange);

struct halay_http_route {
    const char *method; /* "GET" answers HEAD, too */
    const char *path;   /* as it is asked for, without the query: "/metrics" */
    halay_http_handler *handle;
};

struct halay_http_config {
    const char
        *where; /* "8080" (of 127.0.0.1), "0.0.0.0:8080", "[::]:8080", "unix:PATH"; port 0: the system's choice */
    const char *token; /* every request must say "Authorization: Bearer TOKEN"; NULL: none is asked for */
    const char
        *asks_for; /* without a token only this host is listened to; more is HALAY_ERR_CONFIG, and the error names
                             this. NULL: it may be anywhere */
    const struct halay_http_route *routes; /* borrowed as long as the server lives */
    size_t route_count;
    size_t connections;      /* at once, three quarters of them from one address; more are closed, or wait */
    size_t body_bytes;       /* of one request; longer ones are refused with 413 */
    size_t all_body_bytes;   /* of all requests under way; what comes on top is refused with 503 */
    size_t all_answer_bytes; /* of all answers that are not read yet, but for short ones; 503, and a longer one is never
                                sent, 413; 0: no limit */
    int idle_s;              /* a connection without data for this time is closed; 0: no limit, as of request_s */
    int request_s; /* and one whose request is not whole this time after the connection began, or this time and
                              idle_s after the end of the request before it; or whose answer is not read by then, with a
                              second more for each MiB */
    int has_thread;
    void *arg; /* the handlers' */
};

/* Begin to listen. The server keeps log and config's pointers, but copies where and token. HALAY_ERR_CONFIG, logged:
 * where does not parse, or is taken; HALAY_ERR_UNSUPPORTED, logged: built without libmicrohttpd. The file of a socket
 * that nobody listens at any more is replaced; only its owner may connect to a new one. */
enum halay_status halay_http_open(struct halay_log *log, const struct halay_http_config *config,
                                  struct halay_http_server **server);

/* Where it listens, for people: "http://127.0.0.1:8080", "unix:/run/halay". Lives as long as the server. */
const char *halay_http_where(const struct halay_http_server *server);

/* Without a thread: what to poll for input, and how long at most: milliseconds, -1: as long as you like. */
int halay_http_fd(const struct halay_http_server *server);
int halay_http_timeout_ms(struct halay_http_server *server);
/* Do what can be done without waiting. */
void halay_http_turn(struct halay_http_server *server);

/* Take no new connections; each open one ends with its next answer. */
void halay_http_quiesce(struct halay_http_server *server);
/* Exchanges of which something is still to be read, answered or sent. */
size_t halay_http_exchanges(const struct halay_http_server *server);

/* End all connections, and the thread. Every exchange must have been answered: the owner sees to that first. NULL is
 * none. */
void halay_http_close(struct halay_http_server *server);

/* What was asked. The strings live until the answer. */
const char *halay_http_path(const struct halay_http_exchange *exchange);
const void *halay_http_body(const struct halay_http_exchange *exchange, size_t *size);
/* A header, a word of the query ("" if it has no value); NULL if there is none. In the handler only. */
const char *halay_http_header(struct halay_http_exchange *exchange, const char *name);
const char *halay_http_query(struct halay_http_exchange *exchange, const char *name);

struct halay_http_answer {
    int status;
    const char *content_type; /* NULL: the body is empty */
    const void *body;         /* copied, unless */
    int is_given;             /* it is the server's from now on, which frees it */
    size_t size;
    const char *const *headers; /* more of them: name, value, ..., NULL; NULL: none */
};

/* If there is no memory for it the connection ends without. Returns the status that is sent: a limit may refuse it. */
int halay_http_answer(struct halay_http_exchange *exchange, const struct halay_http_answer *answer);
/* An answer in JSON that says why not. */
void halay_http_refuse(struct halay_http_exchange *exchange, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
