/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP in a build without libmicrohttpd: no server can be opened, so nothing else is ever called.
 */
#include "base/http/http.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Defines a function that is never called. */
#define NEVER(head, ...)    \
    head                    \
    {                       \
        return __VA_ARGS__; \
    }

enum halay_status halay_http_open(struct halay_log *log, const struct halay_http_config *config,
                                  struct halay_http_server **server)
{
    return halay_fail(log, HALAY_ERR_UNSUPPORTED,
                      "cannot listen at '%s': built without libmicrohttpd (Debian: libmicrohttpd-dev)", config->where);
}

NEVER(const char *halay_http_where(const struct halay_http_server *server), "")
NEVER(int halay_http_fd(const struct halay_http_server *server), -1)
NEVER(int halay_http_timeout_ms(struct halay_http_server *server), -1)
NEVER(void halay_http_turn(struct halay_http_server *server))
NEVER(void halay_http_quiesce(struct halay_http_server *server))
NEVER(size_t halay_http_exchanges(const struct halay_http_server *server), 0)
NEVER(void halay_http_close(struct halay_http_server *server))
NEVER(const void *halay_http_body(const struct halay_http_exchange *exchange, size_t *size), (*size = 0, NULL))
NEVER(const char *halay_http_header(struct halay_http_exchange *exchange, const char *name), NULL)
NEVER(const char *halay_http_query(struct halay_http_exchange *exchange, const char *name), NULL)
NEVER(int halay_http_answer(struct halay_http_exchange *exchange, const struct halay_http_answer *answer),
      answer->status)
NEVER(void halay_http_refuse(struct halay_http_exchange *exchange, int status, const char *format, ...))
