/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a job as children of the test program, with a store of their own: what the programs of tests/coll and
 * tests/fusion share that can start themselves (--spawn N).
 *
 *     spawn_begin(&s, n);
 *     for (int r = 0; r < n; r++)
 *         if (!spawn_rank(&s, r))
 *             exit(be_rank(...));                the child
 *     while ((rank = spawn_wait(&s, &status)) >= 0)
 *         ...                                    that rank has ended; what is left of them is s.left
 *     spawn_end(&s);
 */
#ifndef HALAY_TESTS_SPAWN_H
#define HALAY_TESTS_SPAWN_H

#include "base/store/store.h"
#include "tests/test.h"
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SPAWN_RANKS_MAX = 512 };

struct spawn {
    int size, left;
    pid_t pids[SPAWN_RANKS_MAX];
    struct halay_store_server *server;
    struct halay_log log;
    int secret_fd;
};

static inline void spawn_set(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    REQUIRE(!setenv(name, text, 1));
}

static inline void spawn_begin(struct spawn *s, int size)
{
    unsigned char secret[HALAY_SECRET_BYTES];

    REQUIRE(size <= SPAWN_RANKS_MAX);
    /* Its own: local sockets of the start are named by it, and other tests run beside this one. */
    REQUIRE(getrandom(secret, sizeof secret, 0) == (ssize_t)sizeof secret);
    s->size = size;
    s->left = 0;
    s->secret_fd = memfd_create("secret", 0);
    REQUIRE(s->secret_fd >= 0 && write(s->secret_fd, secret, sizeof secret) == (ssize_t)sizeof secret);
    halay_log_init(&s->log, HALAY_LOG_WARNING);
    REQUIRE(halay_store_server_create(&s->log, secret, &s->server) == HALAY_OK);
    fflush(stdout);
}

/* As fork: 0 in the child, which is that rank then. */
static inline pid_t spawn_rank(struct spawn *s, int rank)
{
    pid_t pid = s->pids[rank] = fork();

    REQUIRE(pid >= 0);
    if (pid) {
        s->left++;
        return pid;
    }
    spawn_set("HALAY_RANK", rank);
    spawn_set("HALAY_SIZE", s->size);
    spawn_set("HALAY_STORE_SECRET_FD", s->secret_fd);
    REQUIRE(!setenv("HALAY_STORE_ADDRESS", halay_store_server_address(s->server), 1));
    return 0;
}

/* Serve the store until a rank ends: its number; -1: none is left. */
static inline int spawn_wait(struct spawn *s, int *status)
{
    while (s->left) {
        struct pollfd p = { .fd = halay_store_server_fd(s->server), .events = POLLIN };
        pid_t pid = waitpid(-1, status, WNOHANG);
        for (int r = 0; r < s->size && pid > 0; r++)
            if (s->pids[r] == pid) {
                s->left--;
                return r;
            }
        poll(&p, 1, 5);
        REQUIRE(halay_store_server_progress(s->server) == HALAY_OK);
    }
    return -1;
}

static inline void spawn_end(struct spawn *s)
{
    halay_store_server_destroy(s->server);
    halay_log_fini(&s->log);
    close(s->secret_fd);
}

/* Runs be_rank(what) in each of this number of ranks. Rank 1 kills itself if what is "die"; all others have to pass.
 * Returns test_end(). */
static inline int spawn_ranks(int size, const char *what, int (*be_rank)(const char *what))
{
    int status, rank, dies = !strcmp(what, "die");
    struct spawn s;

    spawn_begin(&s, size);
    for (int r = 0; r < size; r++)
        if (!spawn_rank(&s, r))
            exit(be_rank(what));
    while ((rank = spawn_wait(&s, &status)) >= 0)
        CHECK(dies && rank == 1 ? WIFSIGNALED(status) : status == 0, "rank %d: status %#x", rank, status);
    spawn_end(&s);
    return test_end();
}

#endif
