/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap in a step of SLURM's, without PMI: rank 0 serves a store (store_host.h) on its node, the first of the step,
 * at the first free one of some ports that follow from the step's number; the others look there until one of these
 * ports answers that has the secret.
 *
 *     secret    of the user (base/secure/user_secret.h), the step, and the number of this start in its process
 *     ports     of HALAY_PORTS, or else of 20000 to 31999, below those that systems give to connections; the first one
 *               to try is a hash of the step's number
 *
 * So steps on one node rarely want the same port, and one that is taken, by whatever program, only costs a look. Each
 * start of a process has a store of its own, which ends with it. A store that has had this rank before is that of the
 * program that the step's tasks ran before this one.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/secure/user_secret.h"
#include "collectives/transport/bootstrap/boot_impl.h"
#include "collectives/transport/bootstrap/store_host.h"
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    FIRST_PORT = 20000,
    LAST_PORT = 31999,
    TRIES = 8,      /* ports, without HALAY_PORTS */
    TRIES_MAX = 64, /* with them */
    PROBE_MS = 1000,
    PAUSE_MS = 20,
    PAUSE_MAX_MS = 500
};

struct slurm_start {
    struct halay_log *log;               /* borrowed, as what follows */
    const struct halay_config *config;   /* */
    const struct halay_slurm_step *step; /* */
    int first, count, offset, tries;     /* the range of ports, where in it to begin, how many to try */
    unsigned char secret[HALAY_SECRET_BYTES];
    char refused[HALAY_ADDRESS_TEXT];  /* a store with another secret, or that has had this rank before; "": none */
    int was_before;                    /* the latter */
    struct halay_store_client *client; /* owned */
    int host_end;                      /* owned, of halay_store_host_start; -1: none */
};

/* ---- ports and secret ---- */

static void start_plan_ports(struct slurm_start *start)
{
    const int *ports = start->config->ports;
    const uint32_t hash = halay_hash_more(HALAY_HASH_BEGIN, start->step->name, strlen(start->step->name));

    start->first = ports[0] ? ports[0] : FIRST_PORT;
    start->count = ports[0] ? ports[1] - ports[0] + 1 : LAST_PORT - FIRST_PORT + 1;
    start->offset = (int)(hash % (uint32_t)start->count);
    start->tries = ports[0] ? TRIES_MAX : TRIES;
    if (start->tries > start->count)
        start->tries = start->count;
}

static int start_port(const struct slurm_start *start, int try)
{
    return start->first + (start->offset + try) % start->count;
}

static enum halay_status start_make_secret(struct slurm_start *start)
{
    static _Atomic unsigned starts; /* of this process: ranks make them in the same order; relaxed, only a number */
    unsigned char key[HALAY_SECRET_BYTES];
    char name[96];

    snprintf(name, sizeof name, "halay srun 1 %s %u", start->step->name,
             atomic_fetch_add_explicit(&starts, 1, memory_order_relaxed));
    enum halay_status status = halay_user_secret_key(start->log, start->config->secret, key);
    const struct halay_secret_part parts[] = { { name, strlen(name) }, { key, sizeof key } };
    if (status == HALAY_OK)
        status = halay_derive_secret(start->log, parts, sizeof parts / sizeof *parts, start->secret);
    explicit_bzero(key, sizeof key);
    return status;
}

/* ---- rank 0 ---- */

/* The other ranks know its node by name only, so that it listens on all of its networks. */
static enum halay_status start_serve(struct slurm_start *start)
{
    int listener;

    for (int try = 0; try < start->tries; try++) {
        const int port = start_port(start, try);
        const struct halay_network network = { NULL, { port, port } };
        if (halay_listen(NULL, &network, 0, &listener, NULL, NULL) == HALAY_OK)
            return halay_store_host_start(start->log, listener, start->secret, (size_t)start->step->size,
                                          start->config->start_timeout_ms, &start->host_end);
    }
    return halay_fail(start->log, HALAY_ERR_CONFIG,
                      "rank 0 of the step cannot listen for the others: none of %d ports from %d on is free; give a "
                      "range of free ones, HALAY_PORTS=20000-20100",
                      start->tries, start_port(start, 0));
}

/* ---- the look for rank 0 ---- */

/* Returns nonzero once the store is found and this rank connected. */
static int start_try(struct slurm_start *start, const char *address, int left_ms)
{
    unsigned before;

    enum halay_status status = halay_store_probe(address, start->secret, left_ms < PROBE_MS ? left_ms : PROBE_MS);
    if (status == HALAY_OK)
        status = halay_store_client_open(start->log, address, NULL, start->secret, start->step->rank, left_ms,
                                         &start->client, &before);
    if (status == HALAY_OK && !before)
        return 1;
    if (status == HALAY_OK || status == HALAY_ERR_AUTH) {
        snprintf(start->refused, sizeof start->refused, "%s", address);
        start->was_before = status == HALAY_OK;
    }
    if (status == HALAY_OK) {
        halay_store_client_close(start->client);
        start->client = NULL;
    }
    return 0;
}

/* Tries all ports of this address. */
static int start_try_host(struct slurm_start *start, const struct sockaddr *host, int64_t deadline_us)
{
    char address[HALAY_ADDRESS_TEXT];
    struct halay_address at;

    for (int try = 0; try < start->tries; try++) {
        const int left_ms = halay_deadline_left_ms(deadline_us);
        if (!left_ms || !halay_address_take(host, start_port(start, try), &at))
            return 0;
        halay_address_text(&at, address, sizeof address);
        if (start_try(start, address, left_ms < 0 ? start->config->start_timeout_ms : left_ms))
            return 1;
    }
    return 0;
}

static enum halay_status start_fail(const struct slurm_start *start, int resolved)
{
    const struct halay_slurm_step *step = start->step;

    if (resolved)
        return halay_fail(start->log, HALAY_ERR_TIMEOUT, "step %s: cannot find an address of '%s', where rank 0 is: %s",
                          step->name, step->host, gai_strerror(resolved));
    if (*start->refused && start->was_before)
        return halay_fail(start->log, HALAY_ERR_TIMEOUT,
                          "step %s: rank 0 of another start answers at '%s', and no other within %d ms; do all ranks "
                          "start the same programs in the same order?",
                          step->name, start->refused, start->config->start_timeout_ms);
    if (*start->refused)
        return halay_fail(start->log, HALAY_ERR_TIMEOUT,
                          "step %s: rank 0 has not answered within %d ms; what answers at '%s' does not hold this "
                          "rank's secret: where nodes do not share the home folder, give all ranks the same "
                          "HALAY_SECRET",
                          step->name, start->config->start_timeout_ms, start->refused);
    return halay_fail(start->log, HALAY_ERR_TIMEOUT,
                      "step %s: rank 0 has not answered on '%s' within %d ms, at %d ports from %d on; has it started "
                      "halay, and is no firewall between? (HALAY_START_TIMEOUT, HALAY_PORTS)",
                      step->name, step->host, start->config->start_timeout_ms, start->tries, start_port(start, 0));
}

static enum halay_status start_find(struct slurm_start *start, struct halay_boot_watch *watch)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const int64_t deadline_us = halay_deadline_us(start->config->start_timeout_ms);
    struct addrinfo *found = NULL;
    int pause_ms = PAUSE_MS, resolved;

    do {
        enum halay_status status = halay_boot_look(start->log, watch, 0);
        if (status != HALAY_OK)
            return status;
        *start->refused = 0; /* that of the newest look counts */
        resolved = getaddrinfo(start->step->host, NULL, &hints, &found);
        for (struct addrinfo *at = resolved ? NULL : found; at && !start->client; at = at->ai_next)
            start_try_host(start, at->ai_addr, deadline_us);
        if (!resolved)
            freeaddrinfo(found);
        if (start->client)
            return HALAY_OK;
        nanosleep(&(struct timespec){ .tv_nsec = pause_ms * 1000000L }, NULL);
        pause_ms = pause_ms < PAUSE_MAX_MS / 2 ? 2 * pause_ms : PAUSE_MAX_MS;
    } while (!halay_deadline_passed(deadline_us));
    return start_fail(start, resolved);
}

enum halay_status halay_boot_slurm_create(struct halay_log *log, const struct halay_config *config,
                                          const struct halay_slurm_step *step, struct halay_boot_watch *watch,
                                          struct halay_boot **out)
{
    struct slurm_start start = { .log = log, .config = config, .step = step, .host_end = -1 };
    struct halay_store_access access = { 0 };

    start_plan_ports(&start);
    enum halay_status status = start_make_secret(&start);
    if (status == HALAY_OK && step->rank == 0)
        status = start_serve(&start);
    if (status == HALAY_OK)
        status = start_find(&start, watch);
    access.client = start.client;
    memcpy(access.secret, start.secret, sizeof access.secret);
    if (status == HALAY_OK)
        status = halay_boot_store_create_slurm(log, config, step, &access, start.host_end, out);
    else if (start.host_end >= 0)
        close(start.host_end);
    explicit_bzero(start.secret, sizeof start.secret);
    explicit_bzero(access.secret, sizeof access.secret);
    return status;
}
