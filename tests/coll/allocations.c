/* SPDX-License-Identifier: Apache-2.0
 *
 * Each algorithm, small and large, on shared and private memory, blocking and with as many in flight as there may be: a
 * round of all that is repeated until some rounds in a row were without a call of the allocator on any rank. How many
 * messages arrive before they are asked for differs from round to round, so what holds them may grow once more in a
 * later one; what is allocated each time never comes to an end.
 */
#include "tests/coll/allocations.h"
#include "collectives/api/calls.h"
#include "collectives/choose/algorithms.h"
#include "collectives/choose/select.h"
#include "collectives/group/channel.h"
#include "halay_tools.h"
#include "tests/coll/pieces.h"
#include "tests/counting.h"
#include "tests/test.h"
#include <string.h>

enum { RANKS_MAX = 16, SMALL = 3, LARGE = 60000, PIECES = 5, ROUNDS_MAX = 60, QUIET = 3 };

struct run {
    struct halay_group *group;
    int size;
    float *memory[2][2]; /* [shared, private][in, out]: LARGE each */
    size_t counts[RANKS_MAX];
    struct halay_piece pieces[PIECES];
};

/* Number k of a round: sizes and kinds of memory take turns. */
static enum halay_status start(struct run *run, const struct halay_algorithm *a, int k, struct halay_coll **c)
{
    struct halay_group *g = run->group;
    float *in = run->memory[k & 1][0], *out = run->memory[k & 1][1];
    size_t count = k & 2 ? LARGE : SMALL, part = count / (size_t)run->size;
    int root = k % run->size, has_list = k & 4;

    for (int r = 0; r < run->size; r++)
        run->counts[r] = part + (size_t)(r == 0 && part && a->operation != HALAY_COLL_ALLTOALL);
    for (int i = 0; i < PIECES; i++)
        run->pieces[i] = (struct halay_piece){ .data = in + (size_t)i * (count / PIECES), .count = count / PIECES };
    switch (a->operation) {
    case HALAY_COLL_ALLREDUCE:
        if (has_list)
            return allreduce_pieces_start(g, run->pieces, PIECES, HALAY_F32, HALAY_SUM, c);
        return halay_group_allreduce_start(g, in, k & 8 ? in : out, count, HALAY_F32, HALAY_SUM, c);
    case HALAY_COLL_ALLREDUCE_ADASUM:
        return halay_group_allreduce_adasum_start(g, in, out, run->counts, (size_t)run->size - 1, HALAY_F32, c);
    case HALAY_COLL_REDUCE:
        return halay_group_reduce_start(g, in, out, count, HALAY_F32, HALAY_SUM, root, c);
    case HALAY_COLL_REDUCE_SCATTER:
        if (has_list)
            return halay_group_reduce_scatterv_start(g, in, out, run->counts, HALAY_F32, HALAY_SUM, c);
        return halay_group_reduce_scatter_start(g, in, out, part, HALAY_BF16, HALAY_AVERAGE, c);
    case HALAY_COLL_BROADCAST:
        if (has_list)
            return halay_group_broadcast_pieces_start(g, run->pieces, PIECES, root, c);
        return halay_group_broadcast_start(g, in, count, HALAY_F32, root, c);
    case HALAY_COLL_ALLGATHER:
        if (has_list)
            return halay_group_allgatherv_start(g, in, out, run->counts, HALAY_F32, c);
        return halay_group_allgather_start(g, in, out, part, HALAY_F32, c);
    case HALAY_COLL_ALLTOALL:
        if (has_list)
            return halay_group_alltoallv_start(g, in, run->counts, out, run->counts, HALAY_F32, c);
        return halay_group_alltoall_start(g, in, out, part, HALAY_F32, c);
    default:
        return halay_group_barrier_start(g, c);
    }
}

/* Over every channel, twice: so each has seen the smallest and the largest. */
static void go_round(struct run *run, const struct halay_algorithm *a)
{
    for (int k = 0; k < 2 * HALAY_CHANNELS; k++) {
        struct halay_coll *c = NULL;
        if (!CHECK(start(run, a, k, &c) == HALAY_OK, "%s %s", halay_coll_kind_name(a->operation), a->name))
            return;
        CHECK(halay_coll_wait(c, -1) == HALAY_OK, "%s %s", halay_coll_kind_name(a->operation), a->name);
        halay_coll_end(c);
    }
}

/* All channels at once, each with an element of its own. */
static void go_flying(struct run *run)
{
    struct halay_coll *c[HALAY_CHANNELS] = { NULL };

    for (int k = 0; k < HALAY_CHANNELS; k++)
        CHECK(halay_group_allreduce_start(run->group, run->memory[1][0] + k, run->memory[1][1] + k, 1, HALAY_F32,
                                          HALAY_SUM, &c[k]) == HALAY_OK);
    for (int k = HALAY_CHANNELS; k--;) {
        CHECK(halay_coll_wait(c[k], -1) == HALAY_OK);
        halay_coll_end(c[k]);
    }
}

/* Rounds until some were quiet everywhere; a: NULL: those in flight. */
static void until_quiet(struct run *run, const struct halay_algorithm *a)
{
    int quiet = 0;

    for (int round = 0; round < ROUNDS_MAX && quiet < QUIET && !test_failed; round++) {
        if (round)
            counting_start();
        if (a)
            go_round(run, a);
        else
            go_flying(run);
        long mine = round ? counting_stop() : 1;
        int64_t all = mine;
        CHECK(halay_group_allreduce(run->group, &all, &all, 1, HALAY_I64, HALAY_SUM) == HALAY_OK);
        quiet = all ? 0 : quiet + 1;
    }
    if (!CHECK(quiet == QUIET, "%s %s allocates again and again", a ? halay_coll_kind_name(a->operation) : "allreduce",
               a ? a->name : "in flight"))
        counting_show(halay_group_rank(run->group));
}

static void every_algorithm(struct run *run)
{
    const char *why;

    for (size_t i = 0; i < halay_algorithm_count && !test_failed; i++) {
        const struct halay_algorithm *a = &halay_algorithms[i];
        const char *operation = halay_coll_kind_name(a->operation);
        if (halay_select_allows(a, halay_group_size(run->group), run->group->sharing, HALAY_DETERMINISTIC_OFF, &why) !=
            HALAY_OK)
            continue;
        REQUIRE(halay_group_set_algorithm(run->group, operation, a->name) == HALAY_OK);
        until_quiet(run, a);
        REQUIRE(halay_group_set_algorithm(run->group, operation, "auto") == HALAY_OK);
    }
    until_quiet(run, NULL);
}

int allocations_run(struct halay_group *group)
{
    struct run run = { .group = group, .size = halay_group_size(group) };
    void *shared[2];

    REQUIRE(run.size <= RANKS_MAX);
    for (int i = 0; i < 2; i++) {
        REQUIRE(halay_group_alloc(group, (LARGE + RANKS_MAX) * sizeof(float), &shared[i]) == HALAY_OK);
        run.memory[0][i] = shared[i];
        run.memory[1][i] = malloc((LARGE + RANKS_MAX) * sizeof(float));
        REQUIRE(run.memory[1][i]);
        for (int m = 0; m < 2; m++)
            memset(run.memory[m][i], 0, (LARGE + RANKS_MAX) * sizeof(float));
    }
    every_algorithm(&run);
    for (int i = 0; i < 2; i++) {
        CHECK(halay_group_free(group, shared[i]) == HALAY_OK);
        free(run.memory[1][i]);
    }
    return test_failed;
}
