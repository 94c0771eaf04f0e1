/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake transport conforms: strict, delayed by several seeds, without shared memory, without sleep; it kills, and it
 * drops.
 */
#include "../test.h"
#include "conformance.h"
#include "tests/fake/fake.h"
#include <pthread.h>
#include <unistd.h>

enum what { RUN, DEATH, LEAVE };

struct rank {
    pthread_t thread;
    struct halay_fake_hub *hub;
    int rank;
    unsigned seed;
    enum what what;
};

static void kill_it(void *arg)
{
    struct rank *r = arg;

    halay_fake_hub_kill(r->hub, r->rank);
}

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_log log;
    struct halay_bell bell;
#if defined(__SANITIZE_THREAD__) /* every access is looked at */
    struct conformance c = { .bell = &bell, .seed = r->seed, .large = 100000, .iterations = 100 };
#else
    struct conformance c = { .bell = &bell, .seed = r->seed, .large = 200000, .iterations = 200 };
#endif

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.rank = r->rank;
    if (r->what != RUN)
        log.write = drop_line; /* errors are what is wanted */
    halay_bell_init(&bell, &log);
    REQUIRE(halay_fake_open(r->hub, r->rank, &log, &bell, &c.link) == HALAY_OK);
    REQUIRE(halay_fake_boot_create(r->hub, r->rank, &log, &c.boot) == HALAY_OK);
    if (r->what == RUN)
        conformance_run(&c);
    else if (r->what == DEATH)
        conformance_death(&c, halay_fake_hub_size(r->hub) - 1, kill_it, r);
    else
        conformance_leave(&c);
    if (c.link)
        c.link->ops->close(c.link);
    c.boot->ops->destroy(c.boot);
    halay_bell_fini(&bell);
    halay_log_fini(&log);
    return NULL;
}

static void run(int size, int is_shared, unsigned seed, enum what what)
{
    struct rank *ranks = calloc((size_t)size, sizeof *ranks);
    struct halay_fake_hub *hub;

    REQUIRE(ranks && halay_fake_hub_create(size, &hub) == HALAY_OK);
    halay_fake_hub_set_shared(hub, is_shared);
    halay_fake_hub_set_delay(hub, seed);
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank){ .hub = hub, .rank = r, .seed = seed, .what = what };
        REQUIRE(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]) == 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(ranks[r].thread, NULL);
    halay_fake_hub_destroy(hub);
    free(ranks);
}

/* What is lost never comes; the rest does. */
static void check_drop(void)
{
    struct halay_fake_hub *hub;
    struct halay_link *link[2];
    struct halay_bell bells[2];
    struct halay_transfer out[2] = { 0 }, in[2] = { 0 };
    unsigned char a = 1, b = 2, from0 = 0, from1 = 0;

    REQUIRE(halay_fake_hub_create(2, &hub) == HALAY_OK);
    for (int r = 0; r < 2; r++) {
        halay_bell_init(&bells[r], NULL);
        REQUIRE(halay_fake_open(hub, r, NULL, &bells[r], &link[r]) == HALAY_OK);
    }
    halay_fake_hub_drop(hub, 0, 1);
    link[0]->ops->send(link[0], 1, 5, &a, 1, &out[0]);
    link[1]->ops->send(link[1], 0, 5, &b, 1, &out[1]);
    link[1]->ops->recv(link[1], 0, 5, &from0, 1, &in[1]);
    link[0]->ops->recv(link[0], 1, 5, &from1, 1, &in[0]);
    for (int i = 0; i < 100; i++)
        for (int r = 0; r < 2; r++)
            CHECK(link[r]->ops->progress(link[r]) == HALAY_OK);
    CHECK(halay_transfer_is_done(&in[0]) && from1 == 2);
    CHECK(halay_transfer_is_done(&out[0]) && !halay_transfer_is_done(&in[1]) && from0 == 0);
    link[1]->ops->cancel(link[1], &in[1]);
    for (int r = 0; r < 2; r++) {
        link[r]->ops->close(link[r]);
        halay_bell_fini(&bells[r]);
    }
    halay_fake_hub_destroy(hub);
}

int main(void)
{
    static const int sizes[] = { 1, 2, 3, 4, 5, 7, 8 };

    alarm(300); /* a test that hangs fails */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        run(sizes[i], 1, (unsigned)i % 3, RUN);
    run(3, 0, 17, RUN);
    run(2, 0, 18, RUN);
    run(4, 1, 19, DEATH);
    run(2, 0, 0, DEATH);
    run(4, 1, 0, LEAVE);
    run(3, 1, 20, LEAVE);
    check_drop();
    CHECK(conformance_failed() == 0);
    return test_end();
}
