/* SPDX-License-Identifier: Apache-2.0
 *
 * Unique id: made by a process that then serves the store of the start, on a thread of its own (the one other than the
 * engine's; docs/reference/threading.md). A rank that served it inside halay_init would have to do so in all of its
 * waits, and until the last of the others has read what it needs.
 *
 * The thread owns all that it uses and no thread waits for it: it ends when no rank has been connected for as long as a
 * rank waits at the start, once there was one.
 */
#include "collectives/transport/bootstrap/unique_id.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error_text.h"
#include "base/net/listen.h"
#include "halay_types.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 1000 };

struct host {
    struct halay_log log;
    struct halay_store_server *server; /* owned */
    int linger_ms;
};

static void host_destroy(struct host *host)
{
    if (host->server)
        halay_store_server_destroy(host->server);
    halay_log_fini(&host->log);
    free(host);
}

static void *serve(void *arg)
{
    struct host *host = arg;
    struct pollfd p = { .fd = halay_store_server_fd(host->server), .events = POLLIN };
    int64_t end_us = HALAY_NEVER;

    while (!halay_deadline_passed(end_us)) {
        poll(&p, 1, end_us == HALAY_NEVER ? -1 : LOOK_MS);
        if (halay_store_server_progress(host->server) != HALAY_OK)
            break;
        if (halay_store_server_members(host->server))
            end_us = halay_deadline_us(host->linger_ms);
    }
    host_destroy(host);
    return NULL;
}

/* It takes no signal: those are the program's. Owns the host from success on. */
static enum halay_status start_thread(struct host *host)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;

    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &detached, serve, host);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (!error)
        return HALAY_OK;
    halay_error(&host->log, "no thread for the start with a unique id: %s", strerror(error));
    return HALAY_ERR_SYSTEM;
}

static enum halay_status open_server(struct host *host, const struct halay_config *config,
                                     struct halay_unique_endpoint *endpoint)
{
    const struct halay_network network = { config->network_interface, { config->ports[0], config->ports[1] } };
    int listener;

    host->linger_ms = config->start_timeout_ms > LOOK_MS ? config->start_timeout_ms : LOOK_MS;
    enum halay_status status = halay_store_draw_secret(&host->log, endpoint->secret);
    if (status == HALAY_OK)
        status = halay_listen(&host->log, &network, HALAY_UNIQUE_ADDRESSES_MAX, &listener, endpoint->addresses,
                              &endpoint->count);
    if (status != HALAY_OK)
        return status;
    return halay_store_server_adopt(&host->log, listener, endpoint->secret, &host->server);
}

enum halay_status halay_unique_id_create(struct halay_unique_id *id)
{
    struct halay_unique_endpoint endpoint = { .count = 0 };
    struct halay_unique_id made;
    struct halay_config config;

    if (!id)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_unique_id_create: no place for the id");
    struct host *host = calloc(1, sizeof *host);
    if (!host)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    halay_log_init(&host->log, HALAY_LOG_WARNING);
    enum halay_status status = halay_config_load(&host->log, &config);
    if (status == HALAY_OK) {
        status = open_server(host, &config, &endpoint);
        halay_config_fini(&config);
    }
    if (status == HALAY_OK) {
        halay_unique_id_write(&endpoint, &made);
        status = start_thread(host);
    }
    if (status == HALAY_OK)
        *id = made;
    else
        host_destroy(host);
    explicit_bzero(&endpoint, sizeof endpoint);
    explicit_bzero(&made, sizeof made);
    return halay_returns(status);
}
