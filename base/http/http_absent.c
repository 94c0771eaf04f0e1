/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP in a build without libmicrohttpd: no server can be opened, so nothing else is ever called.
 */
#include "base/http/http.h"

enum halay_status halay_http_open(struct halay_log *log, const struct halay_http_config *config,
                                  struct halay_http_server **server)
{
    (void)server;
    return halay_fail(log, HALAY_ERR_UNSUPPORTED,
                      "cannot listen at '%s': built without libmicrohttpd (Debian: libmicrohttpd-dev)", config->where);
}

const char *halay_http_where(const struct halay_http_server *server)
{
    (void)server;
    return "";
}

int halay_http_fd(const struct halay_http_server *server)
{
    (void)server;
    return -1;
}

int halay_http_timeout_ms(struct halay_http_server *server)
{
    (void)server;
    return -1;
}

void halay_http_turn(struct halay_http_server *server)
{
    (void)server;
}

void halay_http_quiesce(struct halay_http_server *server)
{
    (void)server;
}

size_t halay_http_exchanges(const struct halay_http_server *server)
{
    (void)server;
    return 0;
}

void halay_http_close(struct halay_http_server *server)
{
    (void)server;
}

const void *halay_http_body(const struct halay_http_exchange *exchange, size_t *size)
{
    (void)exchange;
    *size = 0;
    return NULL;
}

const char *halay_http_header(struct halay_http_exchange *exchange, const char *name)
{
    (void)exchange;
    (void)name;
    return NULL;
}

const char *halay_http_query(struct halay_http_exchange *exchange, const char *name)
{
    (void)exchange;
    (void)name;
    return NULL;
}

int halay_http_answer(struct halay_http_exchange *exchange, const struct halay_http_answer *answer)
{
    (void)exchange;
    return answer->status;
}

void halay_http_refuse(struct halay_http_exchange *exchange, int status, const char *format, ...)
{
    (void)exchange;
    (void)status;
    (void)format;
}
