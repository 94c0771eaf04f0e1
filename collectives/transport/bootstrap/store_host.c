/* SPDX-License-Identifier: Apache-2.0
 *
 * Store host: the thread.
 */
#include "collectives/transport/bootstrap/store_host.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LOOK_MS = 1000 };

struct host {
    struct halay_log log;
    struct halay_store_server *server; /* owned */
    size_t clients;                    /* 0: unknown */
    int linger_ms;
    int end; /* owned: an event, given at the end; -1: none */
};

static void host_destroy(struct host *host)
{
    if (host->server)
        halay_store_server_destroy(host->server);
    if (host->end >= 0) {
        eventfd_write(host->end, 1); /* cannot fail: it is the only one */
        close(host->end);
    }
    halay_log_fini(&host->log);
    free(host);
}

static int have_all_left(const struct host *host)
{
    struct halay_store_counts counts;

    halay_store_server_count(host->server, &counts);
    return host->clients && counts.connections >= host->clients && !halay_store_server_members(host->server);
}

static void *serve(void *arg)
{
    struct host *host = arg;
    struct pollfd p = { .fd = halay_store_server_fd(host->server), .events = POLLIN };
    int64_t end_us = host->clients ? halay_deadline_us(host->linger_ms) : HALAY_NEVER;

    while (!halay_deadline_passed(end_us) && !have_all_left(host)) {
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
static enum halay_status start_thread(struct halay_log *log, struct host *host)
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
    return halay_fail(log, HALAY_ERR_SYSTEM, "no thread to serve the store of the start: %s", strerror(error));
}

/* Makes the event, once for the thread and once for the caller. */
static enum halay_status open_event(struct halay_log *log, struct host *host, int *end)
{
    *end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    host->end = *end < 0 ? -1 : fcntl(*end, F_DUPFD_CLOEXEC, 0);
    if (host->end >= 0)
        return HALAY_OK;
    halay_error(log, "no descriptor for the end of the store of the start: %s", strerror(errno));
    if (*end >= 0)
        close(*end);
    return HALAY_ERR_SYSTEM;
}

enum halay_status halay_store_host_start(struct halay_log *log, int listener,
                                         const unsigned char secret[HALAY_SECRET_BYTES], size_t clients, int linger_ms,
                                         int *end)
{
    struct host *host = calloc(1, sizeof *host);

    if (!host) {
        close(listener);
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory to serve the store of the start");
    }
    host->end = -1;
    halay_log_init(&host->log, HALAY_LOG_WARNING);
    host->clients = clients;
    host->linger_ms = linger_ms > LOOK_MS ? linger_ms : LOOK_MS;
    enum halay_status status = halay_store_server_adopt(&host->log, listener, secret, &host->server);
    if (status == HALAY_OK && end)
        status = open_event(log, host, end);
    const int has_event = status == HALAY_OK && end;
    if (status == HALAY_OK)
        status = start_thread(log, host);
    if (status == HALAY_OK)
        return HALAY_OK;
    if (has_event)
        close(*end);
    host_destroy(host);
    return status;
}
