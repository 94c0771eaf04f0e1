/* SPDX-License-Identifier: Apache-2.0
 *
 * The bootstrap of an elastic job where the store is slow: each answer takes a while, and a rank comes late. Ranks are
 * threads, and reach each other by the store only, as those of different hosts do.
 */
#include "../test.h"
#include "base/clock.h"
#include "base/store/elastic_keys.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/elastic_client.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZE = 3, ROUNDS = 3, ANSWER_MS = 20, LATE_MS = 500, TIMEOUT_MS = 20000 };

struct rank {
    pthread_t thread;
    int rank;
    char address[64];
    int secret_fd;
    enum halay_status status;
    int wrong;
};

int __real_connect(int fd, const struct sockaddr *to, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t length);

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t length)
{
    if (to->sa_family != AF_UNIX)
        return __real_connect(fd, to, length);
    errno = ECONNREFUSED;
    return -1;
}

static enum halay_status exchange(struct rank *self, struct halay_boot *boot)
{
    enum halay_status status = HALAY_OK;

    for (int round = 0; round < ROUNDS && status == HALAY_OK; round++) {
        int mine = 100 * round + self->rank, all[SIZE];
        if (round && self->rank == SIZE - 1)
            poll(NULL, 0, LATE_MS);
        status = halay_boot_allgather(boot, &mine, sizeof mine, all, TIMEOUT_MS);
        for (int r = 0; r < SIZE && status == HALAY_OK; r++)
            self->wrong += all[r] != 100 * round + r;
    }
    return status;
}

static void *rank_main(void *arg)
{
    struct rank *self = arg;
    struct halay_log log;
    struct halay_elastic_client *client;
    struct halay_boot *boot;
    struct halay_config config = { .rank = self->rank,
                                   .size = SIZE,
                                   .store_address = self->address,
                                   .store_secret_fd = self->secret_fd,
                                   .start_timeout_ms = TIMEOUT_MS };

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(halay_elastic_client_open(&log, &config, &client) == HALAY_OK);
    self->status = halay_elastic_client_register(client, -1, 0);
    if (self->status == HALAY_OK)
        self->status = halay_elastic_client_boot(client, &boot);
    if (self->status == HALAY_OK) {
        self->status = exchange(self, boot);
        boot->ops->destroy(boot);
    }
    halay_elastic_client_close(client);
    halay_log_fini(&log);
    return NULL;
}

struct service {
    pthread_t thread;
    struct halay_store_server *server;
    atomic_int is_over;
};

static void *serve(void *arg)
{
    struct service *self = arg;

    while (!atomic_load(&self->is_over)) {
        struct pollfd fd = { .fd = halay_store_server_fd(self->server), .events = POLLIN };
        poll(&fd, 1, ANSWER_MS);
        poll(NULL, 0, ANSWER_MS);
        CHECK(halay_store_server_progress(self->server) == HALAY_OK);
    }
    return NULL;
}

static void give_place(struct halay_store_server *server, int rank)
{
    const struct halay_worker worker = { .worker = rank };
    const struct halay_place place = { HALAY_VERDICT_PLACE, 1, rank, SIZE };
    unsigned char bytes[HALAY_PLACE_BYTES];
    char key[HALAY_STORE_KEY_MAX];

    halay_place_write(&place, bytes);
    halay_elastic_place_key(&worker, key);
    REQUIRE(halay_store_server_set(server, key, bytes, sizeof bytes) == HALAY_OK);
}

int main(void)
{
    struct halay_log log;
    struct service service = { 0 };
    struct rank ranks[SIZE] = { 0 };
    unsigned char secret[HALAY_SECRET_BYTES];

    REQUIRE(getrandom(secret, sizeof secret, 0) == (ssize_t)sizeof secret);
    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(halay_store_server_create(&log, secret, &service.server) == HALAY_OK);
    for (int r = 0; r < SIZE; r++) {
        ranks[r].rank = r;
        ranks[r].secret_fd = memfd_create("secret", 0);
        REQUIRE(write(ranks[r].secret_fd, secret, sizeof secret) == (ssize_t)sizeof secret);
        snprintf(ranks[r].address, sizeof ranks->address, "%s", halay_store_server_address(service.server));
        give_place(service.server, r);
    }
    REQUIRE(pthread_create(&service.thread, NULL, serve, &service) == 0);
    for (int r = 0; r < SIZE; r++)
        REQUIRE(pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) == 0);
    for (int r = 0; r < SIZE; r++) {
        pthread_join(ranks[r].thread, NULL);
        CHECK(ranks[r].status == HALAY_OK && !ranks[r].wrong, "rank %d: %s, %d wrong", r,
              halay_status_string(ranks[r].status), ranks[r].wrong);
        close(ranks[r].secret_fd);
    }
    atomic_store(&service.is_over, 1);
    pthread_join(service.thread, NULL);
    halay_store_server_destroy(service.server);
    halay_log_fini(&log);
    return test_end();
}
