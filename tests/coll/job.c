/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a job of processes, for the scripts beside it. usage: job [--spawn N [LAYOUT]] WHAT
 *
 *     matrix, quick  all cases of matrix.h and subsets.h over the transport that HALAY_TRANSPORT names
 *     subsets        the latter
 *     withdrawals    those of withdrawals.h
 *     checking       the checking mode's own cases, then the quick ones in that mode
 *     allocations    those of allocations.h
 *     huge           more than 2^31 elements
 *     die, stop      the last rank is killed, or stopped, in mid-operation (losses.h); with --spawn a job for each
 *                    algorithm that the transport has, or the layout is for; for stop one of each operation and kind
 *     members        two ranks are killed, one after the other; groups of the others go on
 *     die OPERATION ALGORITHM    that one; without --spawn
 *
 * --spawn N starts N ranks as children, on the nodes that LAYOUT names by a character each (all on one without it),
 * with a store of its own; without it the environment (mpirun, halayrun) says who this is.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/schedule/coll.h"
#include "halay_tools.h"
#include "tests/coll/allocations.h"
#include "tests/coll/checking.h"
#include "tests/coll/exchanges.h"
#include "tests/coll/losses.h"
#include "tests/coll/matrix.h"
#include "tests/coll/subsets.h"
#include "tests/coll/withdrawals.h"
#include "tests/counting.h"
#include "tests/spawn.h"
#include "tests/test.h"
#include <signal.h>
#include <string.h>

enum { RANKS_MAX = 16, SKIP = 77 };

static void to_stdout(void *arg, enum halay_log_level level, const char *line)
{
    (void)level;
    if (*(int *)arg)
        printf("%s\n", line);
}

/* Byte i of rank r is (7 i + 13 r) modulo 256 within a block of a prime length, so that an offset that was cut to 31 or
 * 32 bits lands in another place of it. */
enum { HUGE_BLOCK = 65521 };

static void huge_block(unsigned char *block, int ranks, int first)
{
    for (int i = 0; i < HUGE_BLOCK; i++) {
        block[i] = 0;
        for (int r = first; r < first + ranks; r++)
            block[i] = (unsigned char)(block[i] + 7 * i + 13 * r);
    }
}

static size_t huge_wrong(const unsigned char *data, size_t count, const unsigned char *block)
{
    size_t wrong = 0;

    for (size_t at = 0; at < count; at += HUGE_BLOCK)
        wrong += memcmp(data + at, block, count - at < HUGE_BLOCK ? count - at : HUGE_BLOCK) != 0;
    return wrong;
}

static int huge(struct halay_group *group)
{
    static const char *const algorithms[] = { "two-shot", "ring" };
    static unsigned char mine[HUGE_BLOCK], all[HUGE_BLOCK];
    size_t count = ((size_t)1 << 31) + 17;
    void *data;

    huge_block(mine, 1, halay_group_rank(group));
    huge_block(all, halay_group_size(group), 0);
    REQUIRE(halay_group_alloc(group, count, &data) == HALAY_OK);
    for (size_t k = 0; k < sizeof algorithms / sizeof *algorithms; k++) {
        for (size_t at = 0; at < count; at += HUGE_BLOCK)
            memcpy((unsigned char *)data + at, mine, count - at < HUGE_BLOCK ? count - at : HUGE_BLOCK);
        CHECK(halay_group_set_algorithm(group, "allreduce", algorithms[k]) == HALAY_OK);
        CHECK(halay_group_allreduce(group, data, data, count, HALAY_U8, HALAY_SUM) == HALAY_OK);
        size_t wrong = huge_wrong(data, count, all);
        CHECK(!wrong, "%s: %zu blocks are wrong", algorithms[k], wrong);
    }
    CHECK(halay_group_barrier(group) == HALAY_OK);
    return test_failed;
}

/* algorithm: for die and stop. */
static int run_what(struct halay_group *group, const char *what, const struct halay_algorithm *algorithm)
{
    if (!strcmp(what, "die"))
        return losses_run(group, algorithm, SIGKILL);
    if (!strcmp(what, "stop"))
        return losses_run(group, algorithm, SIGSTOP);
    if (!strcmp(what, "members"))
        return losses_of_members(group);
    if (!strcmp(what, "huge"))
        return huge(group);
    if (!strcmp(what, "subsets"))
        return subsets_run(group, 0);
    if (!strcmp(what, "withdrawals"))
        return withdrawals_run(group, test_is_brief());
    if (!strcmp(what, "allocations"))
        return allocations_run(group);
    if (!strcmp(what, "checking"))
        return checking_run(group) + matrix_run(group, 1) + exchanges_run(group) + subsets_run(group, 0);
    return matrix_run(group, !strcmp(what, "quick")) + exchanges_run(group) + subsets_run(group, 0);
}

static int be_rank(const char *what, const struct halay_algorithm *algorithm)
{
    int wants_log = 1;
    struct halay_world_options options = { .log_write = to_stdout, .log_arg = &wants_log };
    struct halay_world *world;
    struct halay_group *group;

    if (!strcmp(what, "allocations") && !counting_is_possible()) {
        printf("skipped: calls of the allocator cannot be counted here\n");
        return SKIP;
    }
    enum halay_status status = halay_world_open(&options, &world);
    if (status == HALAY_ERR_UNSUPPORTED) {
        printf("skipped: this transport is not built in, or not possible here\n");
        return SKIP;
    }
    if (!CHECK(status == HALAY_OK, "%s", halay_status_string(status)))
        return 1;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    wants_log = 0; /* wrong use and deaths are part of the game */
    int failed = run_what(group, what, algorithm);
    if (!failed)
        printf("rank %d of %d over %s: passed\n", world->rank, world->size, world->data->ops->name);
    halay_group_close(group);
    halay_world_close(world);
    return failed != 0;
}

static int loses(const char *what)
{
    return !strcmp(what, "die") || !strcmp(what, "stop");
}

/* How many, the last ones, end by a signal. */
static int losses(const char *what)
{
    return !strcmp(what, "members") ? 2 : loses(what);
}

/* The children's result: the first failure, else a skip, else 0; those that are to be lost are killed. One that has
 * stopped itself is killed when all others have ended. */
static int spawn(int n, const char *layout, const char *what, const struct halay_algorithm *algorithm)
{
    struct spawn s;
    int result = 0, status, rank;

    spawn_begin(&s, n);
    for (int r = 0; r < n; r++)
        if (!spawn_rank(&s, r)) {
            if (layout)
                spawn_set("HALAY_NODE", layout[r]);
            exit(be_rank(what, algorithm));
        }
    while ((rank = spawn_wait(&s, &status)) >= 0) {
        int is_lost = rank >= n - losses(what);
        int failed = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL || !is_lost;
        if (WIFEXITED(status) && !failed)
            failed = is_lost;
        if (s.left == 1 && !strcmp(what, "stop"))
            kill(s.pids[n - 1], SIGKILL);
        if (failed && (!result || result == SKIP))
            result = failed;
    }
    spawn_end(&s);
    return result;
}

/* Is it the first one of its operation, among those by messages or those in shared memory? */
static int is_first(const struct halay_algorithm *a)
{
    for (const struct halay_algorithm *b = halay_algorithms; b < a; b++)
        if (b->operation == a->operation && b->flags % 2 == a->flags % 2)
            return 0;
    return 1;
}
_Static_assert(HALAY_ALGORITHM_SHARED == 1, "the lowest flag");

/* Is it tried in such a job? Waiting for one who is stopped takes its time: then some stand for all. */
static int is_for(const struct halay_algorithm *a, const char *layout, const char *what)
{
    const char *transport = getenv("HALAY_TRANSPORT");
    int is_shared = transport && !strcmp(transport, "shm");

    if (layout || a->flags & HALAY_ALGORITHM_NODES)
        return layout && a->flags & HALAY_ALGORITHM_NODES;
    if (!strcmp(what, "stop") && !is_first(a))
        return 0;
    return is_shared || !(a->flags & HALAY_ALGORITHM_SHARED);
}

static int lose_with_each(int n, const char *layout, const char *what)
{
    for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++) {
        int result = is_for(a, layout, what) ? spawn(n, layout, what, a) : 0;
        if (!result)
            continue;
        printf("%s: %s by %s\n", what, halay_coll_kind_name(a->operation), a->name);
        return result;
    }
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: job [--spawn N [LAYOUT]] matrix | quick | subsets | withdrawals | checking | allocations | "
                    "die | stop | members | huge\n"
                    "       job die OPERATION ALGORITHM\n");
    return 99;
}

static int spawn_what(int n, const char *layout, const char *what)
{
    if (n < 1 || n > RANKS_MAX || (layout && (int)strlen(layout) != n))
        return usage();
    return loses(what) ? lose_with_each(n, layout, what) : spawn(n, layout, what, NULL);
}

int main(int argc, char **argv)
{
    const struct halay_algorithm *algorithm = NULL;
    enum halay_coll_kind operation;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && argc < 6 && !strcmp(argv[1], "--spawn"))
        return spawn_what(atoi(argv[2]), argc == 5 ? argv[3] : NULL, argv[argc - 1]);
    if (argc == 4 && halay_coll_kind_parse(argv[2], &operation) == HALAY_OK)
        algorithm = halay_algorithm_find(operation, argv[3]);
    if (argc == 4 ? loses(argv[1]) && algorithm : argc == 2 && !loses(argv[1]))
        return be_rank(argv[1], algorithm);
    return usage();
}
