/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives over the fake transport: the whole matrix with ranks as threads; with shared memory and with messages
 * only; in order and delayed and reordered; on one node and on several, with as many ranks on each and not; in the
 * checking mode.
 */
#include "collectives/group/group.h"
#include "tests/coll/checking.h"
#include "tests/coll/exchanges.h"
#include "tests/coll/matrix.h"
#include "tests/coll/subsets.h"
#include "tests/coll/withdrawals.h"
#include "tests/fake/fake.h"
#include "tests/test.h"
#include <pthread.h>
#include <string.h>

enum { RANKS_MAX = 8 };

struct rank {
    struct halay_fake_hub *hub;
    int rank, quick, brief, only_subsets, checks, failed;
};

/* Wrong use is tested too: its lines are not wanted. */
static void swallow(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_world *world;
    struct halay_group *group;

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    world->config.chunk_bytes = 16384;                     /* several chunks in the large cases */
    world->config.slot_bytes = world->size & 1 ? 0 : 8192; /* small ones are used again and again */
    world->config.spin_us = 20;                            /* the machine may be busy */
    world->config.check = r->checks;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    r->failed = r->checks ? checking_run(group) : 0;
    r->failed += r->only_subsets ? 0 : matrix_run(group, r->quick);
    r->failed += exchanges_run(group);
    int withdraws = (world->size == 3 || world->size == 4) && !r->only_subsets && !r->brief;
    r->failed += withdraws ? withdrawals_run(group, 1) : 0;
    r->failed += subsets_run(group, r->brief);
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

#if defined(__SANITIZE_THREAD__)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

enum { ONLY_SUBSETS = 1, CHECKS = 2 };

/* node: of each rank; NULL: one. */
static void run(int size, const int *node, int is_shared, uint64_t delay, int quick, int what)
{
    struct rank ranks[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    struct halay_fake_hub *hub;
    int failed = 0, is_repeated = test_is_brief() && (SLOW_BUILD || node || what || !is_shared);

    REQUIRE(halay_fake_hub_create(size, &hub) == HALAY_OK);
    halay_fake_hub_set_shared(hub, is_shared);
    halay_fake_hub_set_delay(hub, delay);
    if (node)
        REQUIRE(halay_fake_hub_set_nodes(hub, node) == HALAY_OK);
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank){ .hub = hub,
                                  .rank = r,
                                  .quick = quick,
                                  .brief = is_repeated,
                                  .only_subsets = what & ONLY_SUBSETS,
                                  .checks = (what & CHECKS) != 0 };
        REQUIRE(!pthread_create(&threads[r], NULL, run_rank, &ranks[r]));
    }
    for (int r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
        failed += ranks[r].failed;
    }
    CHECK(!failed, "%d failures: %d ranks, %s, shared %d, delay %llu, %d", failed, size,
          node ? "several nodes" : "one node", is_shared, (unsigned long long)delay, what);
    halay_fake_hub_destroy(hub);
}

/* Paths differ for one rank, two, powers of two and others, below and above four. All types, small counts and large
 * data at one of each kind; the other sizes have the quick matrix. The gate (TEST_SEEDS) takes fewer of them, and with
 * sanitizers (TEST_BRIEF) none: three ranks are whole in test_shm.sh and test_tcp.sh, which it runs beside. */
static int whole(int size, int is_shared)
{
    if (test_is_brief())
        return 0;
    if (getenv("TEST_SEEDS"))
        return size == 2 || size == (is_shared ? 5 : 3);
    return size == 2 || size == 3 || size == 5 || (size == 8 && is_shared);
}

/* The checking mode: its own cases at several rank counts, everything else once by messages and once in nodes. */
static void checking(const int *node_of_4)
{
    const int all = 1;

    run(2, NULL, all, 0, 1, CHECKS | ONLY_SUBSETS);
    run(3, NULL, 0, 77, 1, CHECKS);
    if (SLOW_BUILD)
        return;
    run(4, node_of_4, all, 0, 1, CHECKS);
    run(8, NULL, all, 0, 1, CHECKS | ONLY_SUBSETS);
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 1, 2, 3, 4, 5, 7, 8 };
    static const struct {
        int size, node[RANKS_MAX];
    } layouts[] = { { 4, { 0, 0, 1, 1 } },    { 4, { 0, 0, 0, 1 } }, { 5, { 0, 0, 1, 1, 1 } },
                    { 5, { 0, 1, 0, 2, 1 } }, { 3, { 0, 1, 1 } },    { 8, { 0, 0, 1, 1, 2, 2, 3, 3 } } };
    int quick = SLOW_BUILD || (argc > 1 && !strcmp(argv[1], "--quick"));
    int only_subsets = argc > 1 && !strcmp(argv[1], "--subsets") ? ONLY_SUBSETS : 0;

    enum { FEW = 3 };
    int only_nodes = argc > 1 && !strcmp(argv[1], "--nodes");

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !only_nodes; i++) {
        if (SLOW_BUILD && sizes[i] > FEW)
            continue; /* what races with what, few ranks show, too */
        if (test_is_brief() && sizes[i] > FEW)
            continue; /* one power of two and one other are enough, and layouts have 4, 5 and 8 ranks */
        if (getenv("TEST_SEEDS") && (sizes[i] == 4 || sizes[i] == 7))
            continue; /* between a smaller and a larger one of their kind */
        run(sizes[i], NULL, 1, 0, quick || !whole(sizes[i], 1), only_subsets);
        run(sizes[i], NULL, 0, 0, quick || !whole(sizes[i], 0), only_subsets);
        if (sizes[i] == FEW || !(test_is_brief() || getenv("TEST_SEEDS")))
            run(sizes[i], NULL, 0, 1000 + i, 1, only_subsets);
    }
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (!SLOW_BUILD || layouts[i].size <= FEW)
            run(layouts[i].size, layouts[i].node, 1, i % 2 ? 2000 + i : 0, quick || i, only_subsets);
    checking(layouts[1].node);
    return test_end();
}
