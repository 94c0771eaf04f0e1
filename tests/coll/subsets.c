/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of some ranks: overlapping ones with collectives in flight at once, waited for in an order that goes around in
 * a circle; far more of them at once than shared memory has
 * room for, and with numbers that no tag of 16 bits holds; groups by colour; the whole matrix on one whose ranks are in
 * another order; lists that are wrong or differ; one that fails while the others live on.
 */
#include "tests/coll/subsets.h"
#include "collectives/group/channel.h"
#include "tests/coll/matrix.h"
#include "tests/test.h"
#include <string.h>

enum {
    RANKS_MAX = 16,
    COUNT = 30011,
    IN_FLIGHT = 3,
    MADE = 80,
    OPEN = 5,
    MANY = 70, /* more than the fake's shared memory has room for */
};

struct run {
    struct halay_group *all;
    int rank, size, brief;
    float *shared, *private; /* OPEN * COUNT each */
};

static struct halay_group *subset(struct run *run, const int *ranks, int count)
{
    struct halay_group *group = run->all;
    int member = 0;

    enum halay_status status = halay_group_subset(run->all, ranks, count, &group);
    if (!CHECK(status == HALAY_OK, "rank %d: %s", run->rank, halay_status_string(status)))
        return NULL;
    for (int i = 0; i < count; i++)
        if (ranks[i] == run->rank) {
            member = 1;
            CHECK(group && halay_group_rank(group) == i && halay_group_size(group) == count, "rank %d", run->rank);
            CHECK(halay_group_local_size(group) >= 1 && halay_group_local_size(group) <= count);
        }
    CHECK(member || !group, "rank %d is no member", run->rank);
    return group;
}

/* What rank r of the job gives as element i. */
static float given(int r, int i, int seed)
{
    return (float)((r * 31 + i * 7 + seed) % 1024);
}

static void fill(const struct run *run, float *data, int count, int seed)
{
    for (int i = 0; i < count; i++)
        data[i] = given(run->rank, i, seed);
}

static int holds_sum(const float *data, int count, const int *ranks, int members, int seed)
{
    for (int i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < members; r++)
            sum += given(ranks[r], i, seed);
        if (data[i] != sum)
            return 0;
    }
    return 1;
}

/* ---- {0,1}, {1,2}, {2,0} ---- */

struct pair {
    int ranks[2];
    struct halay_group *group; /* NULL: not a member */
    struct halay_coll *c[IN_FLIGHT];
    float *data[IN_FLIGHT];
};

/* half: of the memory, another one for each pair of a rank's. */
static void pair_start(struct run *run, struct pair *p, int number, int half, int round)
{
    for (int k = 0; k < IN_FLIGHT; k++) {
        int count = k == 1 ? COUNT : 5 + k;
        float *memory = round % 2 == run->rank % 2 ? run->shared : run->private;
        p->data[k] = memory + half * 2 * COUNT + (k == 1 ? 0 : COUNT + k * 64);
        fill(run, p->data[k], count, number + k);
        CHECK(halay_group_allreduce_start(p->group, p->data[k], p->data[k], (size_t)count, HALAY_F32, HALAY_SUM,
                                          &p->c[k]) == HALAY_OK);
    }
}

static void pair_finish(const struct run *run, struct pair *p, int number)
{
    for (int k = 0; k < IN_FLIGHT; k++) {
        enum halay_status status = halay_coll_wait(p->c[k], -1);
        CHECK(status == HALAY_OK && holds_sum(p->data[k], k == 1 ? COUNT : 5 + k, p->ranks, 2, number + k),
              "rank %d, pair %d: %s", run->rank, number, halay_status_string(status));
        halay_coll_end(p->c[k]);
    }
}

/* Rank r first waits for the pair with its right neighbour, whose own first wait is for another one, and so around. */
static void overlapping_pairs(struct run *run)
{
    struct pair pairs[3] = { { .ranks = { 0, 1 } }, { .ranks = { 1, 2 } }, { .ranks = { 2, 0 } } };
    int first = run->rank, second = (run->rank + 2) % 3;

    if (run->size < 3)
        return;
    for (int i = 0; i < 3; i++)
        pairs[i].group = subset(run, pairs[i].ranks, 2);
    for (int round = 0; round < 4 && run->rank < 3 && pairs[first].group && pairs[second].group; round++) {
        pair_start(run, &pairs[second], second, 0, round);
        pair_start(run, &pairs[first], first, 1, round);
        if (round < 2) {
            pair_finish(run, &pairs[first], first);
            pair_finish(run, &pairs[second], second);
            continue;
        }
        for (int left = 1; left;) { /* driven without a wait */
            left = 0;
            for (int k = 0; k < IN_FLIGHT; k++)
                left |= (halay_coll_progress(pairs[first].c[k]) == HALAY_IN_PROGRESS) |
                        (halay_coll_progress(pairs[second].c[k]) == HALAY_IN_PROGRESS);
        }
        pair_finish(run, &pairs[second], second);
        pair_finish(run, &pairs[first], first);
    }
    for (int i = 0; i < 3; i++)
        halay_group_close(pairs[i].group);
}

/* ---- ids are used again ---- */

static void use(struct run *run, struct halay_group *group, const int *ranks, int members, int seed)
{
    int count = seed % 7 ? 100 + seed : COUNT;
    float *data = seed % 3 ? run->shared : run->private;

    fill(run, data, count, seed);
    CHECK(halay_group_allreduce(group, data, data, (size_t)count, HALAY_F32, HALAY_SUM) == HALAY_OK);
    CHECK(holds_sum(data, count, ranks, members, seed), "rank %d, group %d", run->rank, seed);
    int root = seed % members;
    fill(run, data, count, seed);
    CHECK(halay_group_broadcast(group, data, (size_t)count, HALAY_F32, root) == HALAY_OK);
    CHECK(holds_sum(data, count, &ranks[root], 1, seed), "rank %d, group %d, broadcast", run->rank, seed);
    if (seed % 2)
        CHECK(halay_group_barrier(group) == HALAY_OK);
}

/* Members change from one to the next; who is done closes and goes on at once, the last OPEN stay open for a while. */
static void one_after_the_other(struct run *run)
{
    struct halay_group *open[OPEN] = { NULL };

    for (int i = 0; i < MADE; i++) {
        int ranks[RANKS_MAX], members = 1 + i % run->size;
        for (int r = 0; r < members; r++)
            ranks[r] = (i / 2 + r * (i % 2 ? 1 : run->size - 1)) % run->size;
        halay_group_close(open[i % OPEN]);
        open[i % OPEN] = subset(run, ranks, members);
        if (open[i % OPEN])
            use(run, open[i % OPEN], ranks, members, i);
    }
    for (int i = 0; i < OPEN; i++)
        halay_group_close(open[i]);
}

static size_t areas_taken(const struct run *run)
{
    size_t count = 0;

    for (const struct halay_group_end *end = run->all->world->ends; end; end = end->next)
        count++;
    return count;
}

/* Groups that have no room in shared memory go by messages. All are over when their members have closed them, and
 * numbers go on. */
static void many_at_once(struct run *run)
{
    struct halay_group *groups[MANY];
    int ranks[RANKS_MAX], every = run->brief ? 35 : 10;
    uint32_t first = run->all->world->next_group;

    for (int r = 0; r < run->size; r++)
        ranks[r] = r;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            groups[i] = subset(run, ranks, run->size);
        for (int i = every - 1; i < MANY; i += every)
            use(run, groups[i], ranks, run->size, i);
        for (int i = 0; i < MANY; i++)
            halay_group_close(groups[i]);
        CHECK(halay_group_barrier(run->all) == HALAY_OK); /* all have closed them */
        run->all->world->next_group += 70000;
    }
    CHECK(run->all->world->next_group >= first + 2 * (MANY + 70000));
    halay_group_close(subset(run, ranks, run->size));
    CHECK(halay_group_barrier(run->all) == HALAY_OK);
    halay_group_close(subset(run, ranks, run->size)); /* sweeps */
    CHECK(areas_taken(run) <= 2, "%zu groups are not over", areas_taken(run));
}

/* ---- other order, other origin ---- */

static void of_a_subset(struct run *run)
{
    int ranks[RANKS_MAX], inner[RANKS_MAX], world[RANKS_MAX], members = run->size - run->size / 3;

    for (int r = 0; r < members; r++)
        ranks[r] = run->size - 1 - r;
    struct halay_group *outer = subset(run, ranks, members), *group = NULL;
    if (!outer)
        return;
    if ((run->size == 3 || run->size == 5) && !run->brief)
        CHECK(matrix_run(outer, 1) == 0, "rank %d", run->rank);
    int count = (members + 1) / 2;
    for (int r = 0; r < count; r++) {
        inner[r] = (2 * r + 1) % members;
        world[r] = ranks[inner[r]];
    }
    if (members % 2 && members > 1)
        inner[count - 1] = members - 1, world[count - 1] = ranks[members - 1];
    CHECK(halay_group_subset(outer, inner, count, &group) == HALAY_OK);
    halay_group_close(outer); /* in any order */
    if (group)
        use(run, group, world, count, 3);
    halay_group_close(group);
}

/* ---- wrong lists ---- */

static void wrong_lists(struct run *run)
{
    static const int twice[] = { 0, 0 }, negative[] = { -1 };
    int outside[1] = { run->size }, there[2] = { 0, 1 }, back[2] = { 1, 0 }, longer[3] = { 0, 1, 2 };
    struct halay_group *group = NULL;

    CHECK(halay_group_subset(run->all, NULL, 1, &group) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_subset(run->all, there, 0, &group) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_subset(run->all, twice, 2, &group) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_subset(run->all, negative, 1, &group) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_subset(run->all, outside, 1, &group) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_subset(NULL, there, 1, &group) == HALAY_ERR_ARGUMENT && !group);
    if (run->rank < 2 && run->size >= 2)
        CHECK(halay_group_subset(run->all, run->rank ? back : there, 2, &group) == HALAY_ERR_ARGUMENT && !group);
    if (run->rank < 2 && run->size >= 3)
        CHECK(halay_group_subset(run->all, run->rank ? longer : there, run->rank ? 3 : 2, &group) ==
              HALAY_ERR_ARGUMENT);
}

/* ---- by colour ---- */

/* The ranks are those of the job, in order of their numbers in the group. */
static void expect_members(struct run *run, struct halay_group *group, const int *ranks, int count, int seed)
{
    if (!CHECK(group && halay_group_size(group) == count, "rank %d: %d members", run->rank,
               group ? halay_group_size(group) : 0))
        return;
    CHECK(ranks[halay_group_rank(group)] == run->rank, "rank %d is number %d", run->rank, halay_group_rank(group));
    use(run, group, ranks, count, seed);
    halay_group_close(group);
}

/* Odd and even ranks, downwards; the last rank is in neither. */
static void split_by_parity(struct run *run)
{
    struct halay_group *group = run->all;
    int ranks[RANKS_MAX], count = 0, is_out = run->rank == run->size - 1;

    CHECK(halay_group_split(run->all, is_out ? HALAY_COLOR_NONE : run->rank % 2, -run->rank, &group) == HALAY_OK);
    for (int r = run->size - 2; r >= 0; r--)
        if (r % 2 == run->rank % 2)
            ranks[count++] = r;
    if (is_out)
        CHECK(!group);
    else
        expect_members(run, group, ranks, count, 40);
}

/* Rank 0 names a colour of its own; the others go by host, all keys being equal. */
static void split_by_host(struct run *run)
{
    const struct halay_world *world = run->all->world;
    struct halay_group *group = NULL;
    int ranks[RANKS_MAX], count = 0;

    CHECK(halay_group_split(run->all, run->rank ? HALAY_COLOR_HOST : 0, 5, &group) == HALAY_OK);
    for (int r = 0; r < run->size; r++)
        if (run->rank ? r && world->node_of[r] == world->node_of[run->rank] : !r)
            ranks[count++] = r;
    if (group)
        CHECK(halay_group_local_size(group) == count);
    expect_members(run, group, ranks, count, 50);
}

static void by_color(struct run *run)
{
    struct halay_group *group = NULL;

    CHECK(halay_group_split(run->all, -3, 0, &group) == HALAY_ERR_ARGUMENT && !group);
    CHECK(halay_group_split(NULL, 0, 0, &group) == HALAY_ERR_ARGUMENT && !group);
    CHECK(halay_group_split(run->all, 0, 0, NULL) == HALAY_ERR_ARGUMENT);
    split_by_parity(run);
    split_by_host(run);
}

/* ---- one fails, the others live on ---- */

static void one_fails(struct run *run)
{
    int pair[2] = { 0, 1 }, rest[RANKS_MAX];
    struct halay_coll *c;

    if (run->size < 2)
        return;
    for (int r = 0; r < run->size; r++)
        rest[r] = r;
    struct halay_group *failing = subset(run, pair, 2), *living = subset(run, rest, run->size);
    if (failing && run->rank == 0) {
        CHECK(halay_group_allreduce_start(failing, run->shared, run->shared, COUNT, HALAY_F32, HALAY_SUM, &c) ==
              HALAY_OK);
        halay_coll_end(c);
        CHECK(halay_group_barrier(failing) == HALAY_ERR_CANCELED);
    } else if (failing) {
        int named = -1;
        enum halay_status status =
            halay_group_allreduce(failing, run->shared, run->shared, COUNT, HALAY_F32, HALAY_SUM);
        if (status == HALAY_OK) /* all that rank 0 had to send was on its way when it gave up */
            status = halay_group_barrier(failing);
        CHECK(status == HALAY_ERR_PEER, "%s", halay_status_string(status));
        CHECK(halay_group_status(failing, &named) == HALAY_ERR_PEER && named == 0, "named %d", named);
    }
    if (living)
        use(run, living, rest, run->size, 5);
    halay_group_close(failing);
    halay_group_close(living);
    enum halay_status status = halay_group_barrier(run->all);
    char text[200];
    halay_group_last_error(run->all, text, sizeof text);
    CHECK(status == HALAY_OK, "rank %d: %s", run->rank, text);
}

int subsets_run(struct halay_group *group, int brief)
{
    struct run run = { .all = group, .rank = halay_group_rank(group), .size = halay_group_size(group), .brief = brief };
    size_t bytes = OPEN * COUNT * sizeof(float);
    void *shared;

    REQUIRE(run.size <= RANKS_MAX && halay_group_alloc(group, bytes, &shared) == HALAY_OK);
    run.shared = shared;
    run.private = malloc(bytes);
    REQUIRE(run.private);
    wrong_lists(&run);
    overlapping_pairs(&run);
    one_after_the_other(&run);
    CHECK(halay_group_barrier(group) == HALAY_OK);
    many_at_once(&run);
    of_a_subset(&run);
    by_color(&run);
    CHECK(halay_group_barrier(group) == HALAY_OK);
    one_fails(&run);
    halay_group_free(group, shared);
    free(run.private);
    return test_failed;
}
