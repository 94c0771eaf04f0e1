/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that is killed or stopped in mid-operation. Who does not need it may complete what is under way and finds out
 * in the barrier behind it, which nobody can complete.
 */
#include "tests/coll/losses.h"
#include "collectives/choose/algorithms.h"
#include "halay_tools.h"
#include "tests/coll/operation.h"
#include "tests/test.h"
#include <signal.h>
#include <string.h>

enum { PART = 70000, BEFORE = 5, PATIENCE_MS = 60000 };

static enum halay_status wait_for(enum halay_status status, struct halay_coll **c)
{
    if (status == HALAY_OK) {
        status = halay_coll_wait(*c, PATIENCE_MS);
        halay_coll_end(*c);
    }
    return status;
}

static enum halay_status barrier(struct halay_group *group)
{
    struct halay_coll *c = NULL;
    enum halay_status status = halay_group_barrier_start(group, &c);

    return wait_for(status, &c);
}

static enum halay_status lose(struct halay_group *group, enum halay_coll_kind operation, float *data, float *all,
                              int signal)
{
    int victim = halay_group_size(group) - 1;
    enum halay_status status = HALAY_OK;
    struct halay_coll *c = NULL;

    for (int i = 0; i < BEFORE && status == HALAY_OK; i++)
        status = wait_for(operation_start(group, operation, data, all, PART, victim, &c), &c);
    if (status == HALAY_OK)
        status = operation_start(group, operation, data, all, PART, victim, &c);
    if (halay_group_rank(group) == victim) {
        if (status == HALAY_OK)
            halay_coll_progress(c);
        raise(signal);
    }
    /* What the victim had sent may have died with it: the others may miss it one collective earlier. */
    status = wait_for(status, &c);
    return status == HALAY_OK ? barrier(group) : status;
}

int losses_run(struct halay_group *group, const struct halay_algorithm *algorithm, int signal)
{
    size_t bytes = (size_t)halay_group_size(group) * PART * sizeof(float);
    int victim = halay_group_size(group) - 1, named = -1;
    const char *operation = halay_coll_kind_name(algorithm->operation);
    void *data, *all;
    char text[256];

    REQUIRE(halay_group_alloc(group, bytes, &data) == HALAY_OK && halay_group_alloc(group, bytes, &all) == HALAY_OK);
    memset(data, 0, bytes);
    REQUIRE(halay_group_set_algorithm(group, operation, algorithm->name) == HALAY_OK);
    enum halay_status status = lose(group, algorithm->operation, data, all, signal);
    halay_group_last_error(group, text, sizeof text);
    CHECK(status == HALAY_ERR_PEER, "%s %s: '%s', '%s'", operation, algorithm->name, halay_status_string(status), text);
    CHECK(halay_group_status(group, &named) == HALAY_ERR_PEER && named == victim, "%s %s names rank %d: '%s'",
          operation, algorithm->name, named, text);
    CHECK(barrier(group) == HALAY_ERR_PEER);
    CHECK(signal != SIGSTOP || strstr(text, "is stopped") || strstr(text, "is lost"), "says '%s'", text);
    return test_failed;
}

/* ---- groups that the lost rank is not in ---- */

enum { AFTER = 5, COUNT = 5000, RANKS_MAX = 16 };

/* The group can do everything, and does it right. */
static void works(struct halay_group *group, float *data, float *all)
{
    int size = halay_group_size(group);
    struct halay_coll *c = NULL;

    for (int k = 0; k < AFTER; k++) {
        for (int operation = 0; operation < HALAY_COLL_COUNT; operation++)
            CHECK(wait_for(operation_start(group, (enum halay_coll_kind)operation, data, all, PART, k % size, &c),
                           &c) == HALAY_OK,
                  "rank %d of %d: %s", halay_group_rank(group), size,
                  halay_coll_kind_name((enum halay_coll_kind)operation));
        for (int i = 0; i < COUNT; i++)
            data[i] = (float)(halay_group_rank(group) + i + k);
        CHECK(halay_group_allreduce(group, data, data, COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK);
        for (int i = 0; i < COUNT; i++)
            if (!CHECK(data[i] == (float)(size * (i + k) + size * (size - 1) / 2), "element %d: %g", i,
                       (double)data[i]))
                break;
        memset(data, 0, COUNT * sizeof *data);
    }
}

/* The last member of `dying` is killed; `living` is of all others. */
static void lose_member(struct halay_group *dying, struct halay_group *living, float *data, float *all)
{
    int victim = halay_group_size(dying) - 1, named = -1;
    enum halay_status status = lose(dying, HALAY_COLL_ALLREDUCE, data, all, SIGKILL);

    CHECK(status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    CHECK(halay_group_status(dying, &named) == HALAY_ERR_PEER && named == victim, "named %d, not %d", named, victim);
    works(living, data, all);
    CHECK(halay_group_status(living, NULL) == HALAY_OK);
}

int losses_of_members(struct halay_group *group)
{
    int size = halay_group_size(group), ranks[RANKS_MAX];
    struct halay_group *most = NULL, *rest = NULL;
    size_t bytes = (size_t)size * PART * sizeof(float);
    void *data, *all;

    REQUIRE(size >= 4 && size <= RANKS_MAX);
    for (int r = 0; r < size; r++)
        ranks[r] = r;
    REQUIRE(halay_group_alloc(group, bytes, &data) == HALAY_OK && halay_group_alloc(group, bytes, &all) == HALAY_OK);
    memset(data, 0, bytes);
    CHECK(halay_group_subset(group, ranks, size - 1, &most) == HALAY_OK);
    CHECK(halay_group_subset(group, ranks, size - 2, &rest) == HALAY_OK);
    CHECK(halay_group_barrier(group) == HALAY_OK);
    lose_member(group, most, data, all);
    lose_member(most, rest, data, all);
    halay_group_close(most);
    works(rest, data, all);
    halay_group_close(rest);
    return test_failed;
}
