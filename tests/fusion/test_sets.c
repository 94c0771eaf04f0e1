/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets over the fake transport: every operation within them, the same name in several at once, refused calls
 * and their texts, making and removing them together, sets that rank 0 only coordinates, joins, stalls. The rows of
 * Horovod's parallel tests that concern process sets are among them. Random programs have sets too (program.c).
 */
#include "fusion/api/open.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/negotiate.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/set_change.h"
#include "fusion/run/execution.h"
#include "fusion/run/sets.h"
#include "halay_tools.h"
#include "tests/fusion/ranks.h"
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

enum { COUNT = 1000, WAIT_MS = 60000, SETS_MAX = 1001 };

static int is_among(const struct halay_context *ctx, const int *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i] == halay_rank(ctx))
            return 1;
    return 0;
}

/* Returns the newest set. */
static struct halay_process_set *newest_set(struct halay_context *ctx)
{
    int numbers[SETS_MAX];
    size_t count = halay_process_set_numbers(ctx, numbers, SETS_MAX);

    REQUIRE(count && count <= SETS_MAX);
    return halay_process_set_find(ctx, numbers[count - 1]);
}

/* Makes a set. Called on all ranks; those that are not members look it up. */
static struct halay_process_set *create_set(struct halay_context *ctx, const int *ranks, size_t count)
{
    struct halay_process_set *set = NULL;

    if (is_among(ctx, ranks, count)) {
        enum halay_status status = halay_process_set_create(ctx, ranks, count, &set);
        REQUIRE(status == HALAY_OK && set);
    }
    REQUIRE(halay_barrier(ctx, "made") == HALAY_OK);
    set = set ? set : newest_set(ctx);
    REQUIRE(halay_barrier(ctx, "found") == HALAY_OK); /* before it is removed */
    return set;
}

/* Removes a set. Called on all ranks. */
static enum halay_status remove_set(struct halay_context *ctx, struct halay_process_set *set)
{
    enum halay_status status = halay_process_set_is_included(set) ? halay_process_set_remove(set) : HALAY_OK;

    REQUIRE(halay_barrier(ctx, "removed") == HALAY_OK);
    return status;
}

static enum halay_status wait_and_free(struct halay_request *request)
{
    enum halay_status status = halay_wait(request, WAIT_MS);

    halay_request_free(request);
    return status;
}

static enum halay_status run_one(struct halay_context *ctx, const struct halay_tensor_info *info)
{
    struct halay_request *request;
    enum halay_status status = halay_submit_named(ctx, info, NULL, NULL, &request);

    return status == HALAY_OK ? wait_and_free(request) : status;
}

static struct halay_tensor_info info_of(struct halay_process_set *set, const char *name,
                                        enum halay_collective operation, size_t rows, const float *in, float *out)
{
    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = name,
                                       .collective = operation,
                                       .dimensions = 1,
                                       .shape = { rows },
                                       .in = in,
                                       .out = out,
                                       .set = set };
}

/* The sum of the members' ranks + 1. */
static float sum_of(const struct halay_process_set *set)
{
    int ranks[RANKS_MAX];
    float sum = 0;

    halay_process_set_ranks(set, ranks);
    for (int r = 0; r < halay_process_set_size(set); r++)
        sum += (float)(ranks[r] + 1);
    return sum;
}

/* ---- every operation ---- */

static void check_allreduce(struct rank_run *run, struct halay_process_set *set)
{
    struct halay_tensor_info info;
    float data[3], mean[1] = { (float)run->rank + 1 };
    float want = sum_of(set);

    for (int i = 0; i < 3; i++)
        data[i] = (float)(run->rank + 1);
    info = info_of(set, "sum", HALAY_ALLREDUCE, 3, NULL, data);
    info.reduction = HALAY_SUM;
    CHECK(run_one(run->ctx, &info) == HALAY_OK && data[0] == want && data[2] == want, "%g, not %g", data[0], want);
    info = info_of(set, "mean", HALAY_ALLREDUCE, 1, NULL, mean);
    info.reduction = HALAY_AVERAGE;
    CHECK(run_one(run->ctx, &info) == HALAY_OK);
    want /= (float)halay_process_set_size(set);
    CHECK(mean[0] - want < 1e-5f && want - mean[0] < 1e-5f, "the average is %g, not %g", mean[0], want);
    struct halay_member members[2] = { { .out = data, .dimensions = 1, .shape = { 1 } },
                                       { .out = data + 1, .dimensions = 1, .shape = { 2 } } };
    data[0] = data[1] = data[2] = 2;
    info = (struct halay_tensor_info){ .struct_size = sizeof info,
                                       .name = "group",
                                       .reduction = HALAY_SUM,
                                       .members = members,
                                       .member_count = 2,
                                       .member_bytes = sizeof(struct halay_member),
                                       .set = set };
    want = 2 * (float)halay_process_set_size(set);
    CHECK(run_one(run->ctx, &info) == HALAY_OK && data[0] == want && data[1] == want && data[2] == want);
}

/* A reduce-scatter whose last member gets two rows, the others one. */
static void check_splits(struct rank_run *run, struct halay_process_set *set)
{
    int size = halay_process_set_size(set), own = halay_process_set_rank(set);
    float data[RANKS_MAX + 1], out[2];
    size_t splits[RANKS_MAX];

    for (int i = 0; i <= size; i++)
        data[i] = (float)(i + 1);
    for (int r = 0; r < size; r++)
        splits[r] = r == size - 1 ? 2 : 1;
    struct halay_tensor_info info =
        info_of(set, "scatter by splits", HALAY_REDUCE_SCATTER, (size_t)size + 1, data, out);
    info.reduction = HALAY_SUM;
    info.splits = splits;
    CHECK(run_one(run->ctx, &info) == HALAY_OK);
    for (size_t i = 0; i < splits[own]; i++)
        CHECK(out[i] == (float)(((size_t)own + i + 1) * (size_t)size));
}

/* The root is a rank of the job; all other ranks are numbers in the set. */
static void check_rows(struct rank_run *run, struct halay_process_set *set)
{
    int ranks[RANKS_MAX], size = halay_process_set_size(set), own = halay_process_set_rank(set);
    struct halay_result result = { .struct_size = sizeof result };
    float data[RANKS_MAX * RANKS_MAX], out[RANKS_MAX * RANKS_MAX];
    struct halay_tensor_info info;
    struct halay_request *request;
    size_t splits[RANKS_MAX], first;

    halay_process_set_ranks(set, ranks);
    data[0] = (float)run->rank;
    info = info_of(set, "from last", HALAY_BROADCAST, 1, NULL, data);
    info.root = ranks[size - 1];
    CHECK(run_one(run->ctx, &info) == HALAY_OK && data[0] == (float)ranks[size - 1]);

    for (int i = 0; i <= own; i++)
        data[i] = (float)run->rank;
    info = info_of(set, "gather", HALAY_ALLGATHER, (size_t)own + 1, data, NULL);
    REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK && halay_request_result(request, &result) == HALAY_OK);
    CHECK(result.shape[0] == (size_t)(size * (size + 1) / 2));
    for (int r = 0, at = 0; r < size; r++) {
        CHECK(result.rows[r] == (size_t)r + 1);
        for (int i = 0; i <= r; i++, at++)
            CHECK(((float *)result.data)[at] == (float)ranks[r]);
    }
    halay_request_free(request);

    size_t rows = (size_t)size + 1; /* the first one gets two */
    for (size_t i = 0; i < rows; i++)
        data[i] = (float)(i + 1);
    info = info_of(set, "scatter", HALAY_REDUCE_SCATTER, rows, data, out);
    info.reduction = HALAY_SUM;
    CHECK(run_one(run->ctx, &info) == HALAY_OK);
    size_t mine = halay_scatter_rows(rows, size, own, &first);
    for (size_t i = 0; i < mine; i++)
        CHECK(out[i] == (float)((first + i + 1) * (size_t)size));

    for (int r = 0; r < size; r++) {
        splits[r] = 1;
        data[r] = (float)(100 * run->rank + ranks[r]);
    }
    info = info_of(set, "exchange", HALAY_ALLTOALL, (size_t)size, data, out);
    info.out_bytes = sizeof out;
    info.splits = splits;
    CHECK(run_one(run->ctx, &info) == HALAY_OK);
    for (int r = 0; r < size; r++)
        CHECK(out[r] == (float)(100 * ranks[r] + run->rank));
    info = info_of(set, "barrier", HALAY_BARRIER, 0, NULL, NULL);
    CHECK(run_one(run->ctx, &info) == HALAY_OK);
}

/* One name in flight in all sets at once, large enough to take a while, submitted in each rank's own order. */
static void check_at_once(struct rank_run *run, struct halay_process_set *const *sets, size_t count)
{
    struct halay_request *requests[8];
    static _Thread_local float data[8][COUNT];

    for (int step = 0; step < 3; step++) {
        for (size_t k = 0; k < count; k++) {
            size_t i = run->rank % 2 ? count - 1 - k : k;
            requests[i] = NULL;
            if (!halay_process_set_is_included(sets[i]))
                continue;
            for (size_t n = 0; n < COUNT; n++)
                data[i][n] = (float)(run->rank + 1);
            struct halay_tensor_info info = info_of(sets[i], "at once", HALAY_ALLREDUCE, COUNT, NULL, data[i]);
            info.reduction = HALAY_SUM;
            REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &requests[i]) == HALAY_OK);
        }
        for (size_t i = 0; i < count; i++) {
            if (!requests[i])
                continue;
            CHECK(wait_and_free(requests[i]) == HALAY_OK);
            CHECK(data[i][0] == sum_of(sets[i]) && data[i][COUNT - 1] == sum_of(sets[i]), "set %zu: %g", i, data[i][0]);
        }
    }
}

static void check_queries(struct rank_run *run, struct halay_process_set *all, struct halay_process_set *last_two)
{
    int numbers[2], ranks[RANKS_MAX];

    CHECK(halay_process_set_number(all) == 0 && halay_process_set_size(all) == run->size);
    CHECK(halay_process_set_rank(all) == run->rank && halay_process_set_is_included(all));
    CHECK(halay_process_set_numbers(run->ctx, numbers, 2) >= 2 && numbers[0] == 0 && numbers[1] == 1);
    CHECK(halay_process_set_find(run->ctx, 99) == NULL);
    CHECK(halay_process_set_find(run->ctx, halay_process_set_number(last_two)) == last_two);
    halay_process_set_ranks(last_two, ranks);
    for (int r = 0; r < halay_process_set_size(last_two); r++) {
        CHECK(ranks[r] == run->size - halay_process_set_size(last_two) + r, "ascending");
        CHECK((ranks[r] == run->rank) == (halay_process_set_rank(last_two) == r));
    }
}

static void body_operations(struct rank_run *run)
{
    int size = run->size, backwards[RANKS_MAX], ends[] = { size - 1, 0 }, two[] = { size - 1, size - 2 },
        one = size - 1;
    struct halay_process_set *sets[5];

    for (int r = 0; r < size; r++)
        backwards[r] = size - 1 - r;
    sets[0] = halay_process_set_find(run->ctx, 0);
    sets[1] = create_set(run->ctx, backwards, (size_t)size);
    sets[2] = create_set(run->ctx, ends, size > 1 ? 2 : 1);
    sets[3] = create_set(run->ctx, two, size > 1 ? 2 : 1);
    sets[4] = create_set(run->ctx, &one, 1);
    check_queries(run, sets[0], sets[3]);
    for (int step = 0; step < 2; step++)
        for (int i = 0; i < 5; i++)
            if (halay_process_set_is_included(sets[i])) {
                check_allreduce(run, sets[i]);
                check_rows(run, sets[i]);
                check_splits(run, sets[i]);
            }
    check_at_once(run, sets, 5);
    for (int i = 4; i > 0; i--)
        CHECK(remove_set(run->ctx, sets[i]) == HALAY_OK);
    check_allreduce(run, sets[0]);
}

/* ---- refused calls ---- */

/* The ranks of a set disagree: its members get the text, other ranks nothing. */
static void check_mismatch(struct rank_run *run, struct halay_process_set *set)
{
    float data[4] = { 0 };
    struct halay_request *request;
    struct halay_tensor_info info =
        info_of(set, "shape", HALAY_ALLREDUCE, run->rank == run->size - 1 ? 4 : 3, NULL, data);
    char want[200];

    if (!halay_process_set_is_included(set))
        return;
    REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_ERR_MISMATCH);
    snprintf(want, sizeof want, "tensor 'shape' of process set %d: rank %d has shape [4], rank %d has [3]",
             halay_process_set_number(set), run->size - 1, run->size - 2);
    CHECK(!strcmp(halay_request_text(request), want), "'%s'", halay_request_text(request));
    halay_request_free(request);
    info.shape[0] = 2;
    CHECK(run_one(run->ctx, &info) == HALAY_OK);
}

static void expect_text(struct rank_run *run, const char *text)
{
    int lines = run->expected_lines;
    const char *error = lines ? strstr(run->expected_line, "error: ") : NULL;

    CHECK(lines == 1 && error && !strcmp(error + 7, text), "%d lines, '%s', not '%s'", lines, run->expected_line, text);
    run->expected_lines = 0;
}

/* Each rank refuses arguments that it cannot read. */
static void check_wild_lists(struct rank_run *run)
{
    int zero = 0;
    struct halay_rank_list none = { NULL, 1 };
    struct halay_rank_list wild[] = { { &zero, 1 }, { &zero, SIZE_MAX / 2 }, { &zero, SIZE_MAX / 2 + 1 } };
    struct halay_process_set *set = NULL;

    CHECK(halay_process_set_create(run->ctx, NULL, 1, &set) == HALAY_ERR_ARGUMENT && !set);
    expect_text(run, "process sets: ranks is NULL, their number is not 0");
    CHECK(halay_process_set_create(run->ctx, &zero, SIZE_MAX, &set) == HALAY_ERR_ARGUMENT && !set);
    expect_text(run, "process sets: more than 8000 ranks");
    CHECK(halay_process_sets_create_static(run->ctx, NULL, 1) == HALAY_ERR_ARGUMENT);
    expect_text(run, "process sets: lists is NULL, their number is not 0");
    CHECK(halay_process_sets_create_static(run->ctx, &none, 1) == HALAY_ERR_ARGUMENT);
    expect_text(run, "process sets: ranks is NULL, their number is not 0");
    CHECK(halay_process_sets_create_static(run->ctx, wild, 3) == HALAY_ERR_ARGUMENT);
    expect_text(run, "process sets: more than 8000 ranks");
}

/* Errors for a rank that is not a member, or a root that is not. */
static void check_membership(struct rank_run *run, struct halay_process_set *set)
{
    int size = run->size;
    struct halay_context *ctx = run->ctx;
    struct halay_tensor *tensor;
    struct halay_request *request;
    float data[2] = { 1, 1 };
    char want[200];

    struct halay_tensor_info info = info_of(set, "t", HALAY_ALLREDUCE, 2, NULL, data);
    if (!halay_process_set_is_included(set)) {
        snprintf(want, sizeof want, "tensor 't' of process set 1 [%d,%d]: this rank is not a member of its process set",
                 size - 2, size - 1);
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
        expect_text(run, want);
        CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
        expect_text(run, want);
    } else if (size > 2) {
        info.collective = HALAY_BROADCAST;
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
        snprintf(want, sizeof want, "tensor 't' of process set 1 [%d,%d]: root %d is not a member of its process set",
                 size - 2, size - 1, info.root);
        expect_text(run, want);
    }
}

/* Each rank gets its own error. */
static void check_impossible_sets(struct rank_run *run)
{
    int size = run->size, others[] = { (run->rank + 1) % size };
    int beyond[] = { 0, size }, twice[] = { 1, 0, 1 };
    struct halay_context *ctx = run->ctx;
    struct halay_process_set *none = NULL;
    char want[200];

    CHECK(halay_process_set_create(ctx, others, 1, &none) == HALAY_ERR_ARGUMENT && !none);
    snprintf(want, sizeof want, "process sets: rank %d is not in the list: only its members create a set", run->rank);
    expect_text(run, want);
    CHECK(halay_process_set_create(ctx, beyond, 2, &none) == HALAY_ERR_ARGUMENT && !none);
    snprintf(want, sizeof want, "process sets: %d is not a rank: the job has %d, from 0 on", size, size);
    expect_text(run, want);
    CHECK(halay_process_set_create(ctx, twice, 3, &none) == HALAY_ERR_ARGUMENT && !none);
    expect_text(run, "process sets: rank 1 is in the list twice");
    CHECK(halay_process_set_create(ctx, NULL, 0, &none) == HALAY_ERR_ARGUMENT && !none);
    expect_text(run, "process sets: a set has at least one rank");
    check_wild_lists(run);
    CHECK(halay_process_set_remove(halay_process_set_find(ctx, 0)) == HALAY_ERR_ARGUMENT);
    expect_text(run, "process set 0 cannot be removed: it is the set of all ranks");
}

/* The last rank has an operation of the set in flight when both members ask for its removal. */
static void check_busy_set(struct rank_run *run, struct halay_process_set *set)
{
    int size = run->size;
    struct halay_context *ctx = run->ctx;
    struct halay_request *request = NULL;
    float data[2] = { 1, 1 };
    char want[200];

    struct halay_tensor_info info = info_of(set, "late", HALAY_ALLREDUCE, 2, NULL, data);
    if (!halay_process_set_is_included(set)) {
        CHECK(halay_process_set_remove(set) == HALAY_ERR_ARGUMENT);
        expect_text(run, "process set 1 cannot be removed: this rank is not a member of it");
        return;
    }
    if (run->rank == size - 1)
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_process_set_remove(set) == HALAY_ERR_MISMATCH);
    snprintf(want, sizeof want, "process sets: rank %d removes 1, in which it has tensors in flight, rank %d removes 1",
             size - 1, size - 2);
    expect_text(run, want);
    if (run->rank == size - 2)
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(wait_and_free(request) == HALAY_OK);
}

/* A tensor that was registered in a set that is removed can still be unregistered. */
static void check_removed_set(struct rank_run *run, struct halay_process_set *set)
{
    int size = run->size, is_member = halay_process_set_is_included(set);
    struct halay_context *ctx = run->ctx;
    struct halay_request *request;
    struct halay_tensor *tensor;
    float data[2] = { 1, 1 };
    char want[200];

    struct halay_tensor_info info = info_of(set, "registered", HALAY_ALLREDUCE, 2, NULL, data);
    if (is_member)
        CHECK(halay_register(ctx, &info, &tensor) == HALAY_OK);
    CHECK(remove_set(ctx, set) == HALAY_OK && !halay_process_set_find(ctx, 1));
    snprintf(want, sizeof want, "tensor 'registered' of process set 1 [%d,%d]: its process set has been removed",
             size - 2, size - 1);
    if (is_member) {
        CHECK(halay_submit(tensor, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
        expect_text(run, want);
        CHECK(halay_unregister(tensor) == HALAY_OK);
        CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
        expect_text(run, want);
    }
    CHECK(halay_process_set_remove(set) == HALAY_ERR_ARGUMENT);
    expect_text(run, is_member ? "process set 1 cannot be removed: it has been removed, or is being removed"
                               : "process set 1 cannot be removed: this rank is not a member of it");
}

static void body_refused(struct rank_run *run)
{
    int ranks[] = { run->size - 1, run->size - 2 };
    struct halay_context *ctx = run->ctx;
    struct halay_process_set *set = create_set(ctx, ranks, 2);
    struct halay_request *request;
    float data[2] = { 1, 1 };

    run->expected_lines = 0;
    check_mismatch(run, set);
    CHECK(halay_barrier(ctx, NULL) == HALAY_OK); /* rank 0 has called it, too, member or not */
    run->expected_lines = 0;
    check_membership(run, set);
    check_impossible_sets(run);
    check_busy_set(run, set);
    check_removed_set(run, set);
    CHECK(halay_process_set_number(create_set(ctx, ranks, 2)) == 2, "numbers are not used again");

    /* A reserved name. */
    struct halay_tensor_info info = info_of(NULL, "process sets", HALAY_ALLREDUCE, 2, NULL, data);
    run->expected_lines = 0;
    CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
    expect_text(run, "tensor 'process sets': names that begin so are reserved for halay_process_set_create");
}

/* A rank can be in any number of sets, also where its shared memory has no room for all of them. With sanitizers
 * (TEST_BRIEF) fewer, since their cost grows with the square. */
static void body_many(struct rank_run *run)
{
    struct halay_process_set *sets[SETS_MAX - 1];
    int ranks[] = { 0, run->size - 1 }, most = run->arg && !test_is_brief() ? SETS_MAX - 1 : 80;
    size_t count = run->size > 1 ? 2 : 1;

    for (int i = 0; i < most; i++)
        sets[i] = create_set(run->ctx, ranks, count);
    for (int i = 0; i < most; i += 19)
        if (halay_process_set_is_included(sets[i]))
            check_allreduce(run, sets[i]);
    for (int i = 0; i < most; i++)
        CHECK(halay_process_set_find(run->ctx, halay_process_set_number(sets[i])) == sets[i]);
    REQUIRE(halay_barrier(run->ctx, "all found") == HALAY_OK);
    for (int i = 0; i < most; i++) {
        CHECK(remove_set(run->ctx, sets[i]) == HALAY_OK);
        CHECK(!halay_process_set_find(run->ctx, halay_process_set_number(sets[i])));
    }
}

/* In a job of one rank. The removal of a set may overtake items about it; numbers beyond 16 bits work like the first
 * ones. */
static void body_numbers(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct halay_item late = { .kind = HALAY_ITEM_FLUSH, .set = 1 }, never = { .kind = HALAY_ITEM_FLUSH, .set = 2 };
    int zero = 0;

    CHECK(halay_process_set_remove(create_set(ctx, &zero, 1)) == HALAY_OK);
    CHECK(halay_negotiate_receive(ctx, 0, &late) == HALAY_OK);
    CHECK(halay_negotiate_receive(ctx, 0, &never) == HALAY_ERR_FORMAT);
    pthread_mutex_lock(&ctx->lock);
    ctx->execution->sets_made = UINT16_MAX - 1;
    pthread_mutex_unlock(&ctx->lock);
    for (int number = UINT16_MAX; number <= UINT16_MAX + 2; number++) {
        struct halay_process_set *set = create_set(ctx, &zero, 1);
        CHECK(halay_process_set_number(set) == number && halay_process_set_find(ctx, number) == set);
        check_allreduce(run, set);
    }
}

/* ---- rank 0 only coordinates ---- */

/* Rank 0's program makes no call that would drive its engine. If the engine did not listen, each tensor would take
 * about a second. */
static void body_coordinated(struct rank_run *run)
{
    enum { TENSORS = 300 };
    _Atomic int *done = run->arg;
    int ranks[] = { 1, 2 }, before = *done;
    struct halay_process_set *set = create_set(run->ctx, ranks, 2);
    float x = 1;

    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    if (!run->rank) {
        while (*done < before + 2)
            sched_yield();
    } else if (run->rank < 3) {
        struct halay_tensor_info info = info_of(set, "x", HALAY_ALLREDUCE, 1, NULL, &x);
        info.reduction = HALAY_MAX;
        for (int i = 0; i < TENSORS && !test_failed; i++) {
            struct halay_request *request;
            REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
            CHECK(halay_wait(request, WAIT_MS) == HALAY_OK);
            halay_request_free(request);
        }
        ++*done;
    }
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    CHECK(remove_set(run->ctx, set) == HALAY_OK);
}

/* ---- at the same time as other operations ---- */

enum { NEW_TENSORS = 30, NEW_STEPS = 20 };

/* Tensors of all ranks, new ones each time: long messages to rank 0 and back. */
static void *submit_new(void *arg)
{
    struct halay_context *ctx = arg;
    struct halay_request *requests[NEW_TENSORS];
    float data[NEW_TENSORS];
    char name[HALAY_NAME_MAX + 1];

    for (int step = 0; step < NEW_STEPS; step++) {
        for (int i = 0; i < NEW_TENSORS; i++) {
            snprintf(name, sizeof name, "new.%0200d", step * NEW_TENSORS + i);
            data[i] = 1;
            enum halay_status status =
                halay_allreduce_async(ctx, name, NULL, &data[i], 1, HALAY_F32, HALAY_SUM, &requests[i]);
            REQUIRE(status == HALAY_OK);
        }
        for (int i = 0; i < NEW_TENSORS; i++) {
            CHECK(wait_and_free(requests[i]) == HALAY_OK);
            CHECK(data[i] == (float)halay_size(ctx));
        }
    }
    return NULL;
}

static void body_busy(struct rank_run *run)
{
    pthread_t thread;

    REQUIRE(!pthread_create(&thread, NULL, submit_new, run->ctx));
    for (int i = 0; i < 6; i++) {
        int ranks[] = { i % run->size, (i + 1) % run->size };
        struct halay_process_set *set = create_set(run->ctx, ranks, run->size > 1 ? 2 : 1);
        if (halay_process_set_is_included(set))
            check_allreduce(run, set);
        CHECK(remove_set(run->ctx, set) == HALAY_OK);
    }
    pthread_join(thread, NULL);
}

/* ---- made by their members ---- */

/* All members are in the same set: they have the same number, and a sum in the set has the right result. */
static void check_same_set(struct halay_context *ctx, struct halay_process_set *set)
{
    float x[] = { (float)halay_process_set_number(set), 1 };
    float number = x[0];
    struct halay_tensor_info info = info_of(set, "same", HALAY_ALLREDUCE, 2, NULL, x);

    info.reduction = HALAY_SUM;
    CHECK(run_one(ctx, &info) == HALAY_OK && x[1] == (float)halay_process_set_size(set));
    CHECK(x[0] == number * x[1], "members of set %g have other sets", (double)number);
}

struct making {
    struct halay_context *ctx;
    const int *ranks;
    size_t count;
    int times; /* TIMES_MAX at most */
};

enum { TIMES_MAX = 70 };

static void *make_several(void *arg)
{
    const struct making *m = arg;
    struct halay_process_set *sets[TIMES_MAX];

    for (int i = 0; i < m->times && is_among(m->ctx, m->ranks, m->count); i++) {
        REQUIRE(halay_process_set_create(m->ctx, m->ranks, m->count, &sets[i]) == HALAY_OK);
        check_same_set(m->ctx, sets[i]);
    }
    for (int i = m->times; i-- > 0 && is_among(m->ctx, m->ranks, m->count);)
        CHECK(halay_process_set_remove(sets[i]) == HALAY_OK);
    return NULL;
}

/* Threads make several sets at the same time, each rank in another order: of the same ranks, of some of them, of all
 * but some. The last rank is in all sets, of which more than 200 at a time have it as an argument. */
static void body_at_once(struct rank_run *run)
{
    enum { THREADS = 3 };
    int all[RANKS_MAX], ends[] = { 0, run->size - 1 }, times = run->arg ? TIMES_MAX : 4;
    struct making makings[THREADS] = { { run->ctx, all, (size_t)run->size, times },
                                       { run->ctx, ends, 2, times },
                                       { run->ctx, all + 1, (size_t)run->size - 1, times } };
    pthread_t threads[THREADS];

    for (int r = 0; r < run->size; r++)
        all[r] = r;
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, make_several, &makings[(i + run->rank) % THREADS]));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    CHECK(halay_process_set_numbers(run->ctx, NULL, 0) == 1);
}

/* The same ranks in two threads: the calls have some order on each rank, and are matched in that order. */
static void *make_one(void *arg)
{
    const struct making *m = arg;
    struct halay_process_set *set;

    REQUIRE(halay_process_set_create(m->ctx, m->ranks, m->count, &set) == HALAY_OK);
    return set;
}

static void body_same_ranks(struct rank_run *run)
{
    enum { THREADS = 4 };
    int last[] = { run->size - 2, run->size - 1 };
    struct making making = { run->ctx, last, 2, 1 };
    pthread_t threads[THREADS];
    void *set;

    for (int i = 0; i < THREADS && is_among(run->ctx, last, 2); i++)
        REQUIRE(!pthread_create(&threads[i], NULL, make_one, &making));
    for (int i = 0; i < THREADS && is_among(run->ctx, last, 2); i++)
        REQUIRE(!pthread_join(threads[i], &set) && set);
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    CHECK(halay_process_set_numbers(run->ctx, NULL, 0) == THREADS + 1);
    for (int number = 1; number <= THREADS && is_among(run->ctx, last, 2); number++)
        check_same_set(run->ctx, halay_process_set_find(run->ctx, number));
}

/* The other ranks' programs do nothing meanwhile, rank 0's among them. */
static void body_alone(struct rank_run *run)
{
    _Atomic int *done = run->arg;
    int last[] = { run->size - 2, run->size - 1 }, before = *done;
    struct halay_process_set *set;

    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    if (is_among(run->ctx, last, 2)) {
        for (int i = 0; i < 3; i++) {
            REQUIRE(halay_process_set_create(run->ctx, last, 2, &set) == HALAY_OK);
            check_same_set(run->ctx, set);
            CHECK(halay_process_set_remove(set) == HALAY_OK);
        }
        ++*done;
    }
    while (*done < before + 2)
        sched_yield();
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
}

/* ---- a rank leaves ---- */

/* While a set waits for it; rank 0 is in no set. The job ends on all ranks, with the cause. */
static void body_left(struct rank_run *run)
{
    int last = run->size - 1, ranks[] = { last, last - 1 };
    struct halay_process_set *set = create_set(run->ctx, ranks, 2);
    struct halay_request *request;
    float x = 1, y = 1;
    char want[40], text[100];

    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    run->expected_lines = 0;
    if (run->rank == last)
        return;
    struct halay_tensor_info info = info_of(set, "x", HALAY_ALLREDUCE, 1, NULL, &x);
    if (run->rank == last - 1 && halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK)
        CHECK(wait_and_free(request) == HALAY_ERR_PEER);
    CHECK(halay_allreduce(run->ctx, "y", NULL, &y, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    snprintf(want, sizeof want, "rank %d has left", last);
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, want), "'%s'", text);
}

/* ---- joins ---- */

static char flights[] = "/tmp/halay-sets.XXXXXX", flight[64];

static void record_flight(struct halay_config *config, void *arg)
{
    (void)arg;
    free(config->flight);
    config->flight = strdup(flight);
    config->flight_bytes = 1 << 16;
}

static void remove_flights(void)
{
    for (int rank = 0; rank < 4; rank++) {
        char *path = halay_rank_path(flight, rank, 0);
        REQUIRE(path && !unlink(path));
        free(path);
    }
    REQUIRE(!rmdir(flights));
}

/* The collectives of a rank that has joined are recorded as those of their set. */
static void check_recorded(const struct rank_run *run, int number)
{
    const struct halay_ring *ring = run->ctx->recorder->flight;
    struct halay_record record;
    int starts = 0;

    for (uint64_t i = 1; ring && i <= halay_ring_begun(ring); i++)
        if (halay_ring_get(ring, i, &record) && record.kind == HALAY_RECORD_STARTED)
            starts += record.set == number;
    CHECK(!ring || starts == 1, "%d", starts);
}

/* The last rank has joined. A set with it cannot be made; one of the other ranks can, and can be removed. */
static void check_sets_of_joined(struct rank_run *run, const int *ranks)
{
    struct halay_process_set *set = NULL;
    char want[200];
    int rest[RANKS_MAX];

    for (int r = 0; r < run->size - 1; r++)
        rest[r] = r;
    if (run->rank == run->size - 2) {
        CHECK(halay_process_set_create(run->ctx, ranks, 2, &set) == HALAY_ERR_UNSUPPORTED && !set);
        snprintf(want, sizeof want, "process sets: only all-reduces and barriers are possible while rank %d has joined",
                 run->size - 1);
        expect_text(run, want);
    }
    CHECK(halay_process_set_create(run->ctx, rest, (size_t)run->size - 1, &set) == HALAY_OK);
    CHECK(halay_process_set_size(set) == run->size - 1 && halay_process_set_remove(set) == HALAY_OK);
}

/* The last rank has joined: it takes part in its sets, and refuses operations that need its data. */
static void body_join(struct rank_run *run)
{
    _Atomic int *refused = run->arg;
    int size = run->size, ranks[] = { size - 2, size - 1 }, before = *refused;
    struct halay_process_set *set = create_set(run->ctx, ranks, 2), *none = NULL;
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *join;
    float x = 5, all = 1;

    run->expected_lines = 0;
    if (run->rank == size - 1) {
        CHECK(halay_join_async(run->ctx, &join) == HALAY_OK);
        CHECK(halay_process_set_create(run->ctx, ranks, 2, &none) == HALAY_ERR_UNSUPPORTED && !none);
        expect_text(run, "process sets: this rank has joined, and the others have not yet");
        CHECK(halay_process_set_remove(set) == HALAY_ERR_UNSUPPORTED);
        expect_text(run, "process sets: this rank has joined, and the others have not yet");
        ++*refused;
        CHECK(halay_wait(join, WAIT_MS) == HALAY_OK && halay_request_result(join, &result) == HALAY_OK);
        CHECK(result.last_joined < size - 1);
        halay_request_free(join);
        check_recorded(run, halay_process_set_number(set));
    } else {
        struct halay_tensor_info info = info_of(set, "x", HALAY_ALLREDUCE, 1, NULL, &x);
        info.reduction = HALAY_SUM;
        if (run->rank == size - 2)
            CHECK(run_one(run->ctx, &info) == HALAY_OK && x == 5);
        CHECK(halay_allreduce(run->ctx, "all", NULL, &all, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
        CHECK(all == (float)size - 1);
        while (*refused == before)
            sched_yield(); /* it must still have joined */
        check_sets_of_joined(run, ranks);
        CHECK(halay_join_async(run->ctx, &join) == HALAY_OK && wait_and_free(join) == HALAY_OK);
    }
    CHECK(remove_set(run->ctx, set) == HALAY_OK);
}

/* ---- sets that are made at the start ---- */

static void set_text(struct halay_config *config, void *arg)
{
    free(config->process_sets);
    config->process_sets = strdup(" 0 - 1 ; 1,0;0");
    if (arg)
        config->deterministic = HALAY_DETERMINISTIC_RUN;
}

static void body_static(struct rank_run *run)
{
    int ends[] = { run->size - 1, 0 };
    struct halay_rank_list lists[] = { { ends, 2 }, { ends, 1 } };

    REQUIRE(halay_process_sets_create_static(run->ctx, lists, 2) == HALAY_OK);
    CHECK(halay_process_set_numbers(run->ctx, NULL, 0) == 6);
    for (int number = 1; number <= 5; number++) {
        struct halay_process_set *set = halay_process_set_find(run->ctx, number);
        REQUIRE(set);
        CHECK(halay_process_set_size(set) == (number == 2 || number == 5 ? 1 : 2), "set %d", number);
        if (halay_process_set_is_included(set)) {
            check_allreduce(run, set);
            check_rows(run, set);
            check_splits(run, set);
        }
    }
}

/* ---- pure parts ---- */

static void check_parsing(void)
{
    static const char *const wrong[] = { "", ",", "1,", "1;", "a", "1-", "3-1", "-1", "1 2", "1;;2", "99999999999" };
    size_t payload[16], count;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(halay_set_change_parse(wrong[i], NULL, &count), "'%s'", wrong[i]);
    CHECK(!halay_set_change_parse("3,0-2 ; 7", NULL, &count) && count == 7);
    CHECK(!halay_set_change_parse("3,0-2 ; 7", payload, &count) && count == 7);
    CHECK(payload[0] == 4 && payload[1] == 3 && payload[2] == 0 && payload[4] == 2 && payload[5] == 1 &&
          payload[6] == 7);
}

static void check_words(void)
{
    static const uint64_t bad[][4] = { { 0, 5, 1, 2 }, { 0, UINT64_MAX, 1, 2 }, { 9, 1, 1, 1 }, { 0, 1, 1, 0 } };
    char text[200];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(halay_set_change_fault(bad[i], 4, 4, text, sizeof text), "%zu", i);
        halay_set_change_print(bad[i], 4, text, sizeof text);
    }
    halay_set_change_print((uint64_t[]){ 0, 2, 1, 3, 1, 0 }, 6, text, sizeof text);
    CHECK(!strcmp(text, "makes [1,3] [0]"), "'%s'", text);
}

/* ---- the coordinator's view ---- */

struct bench {
    struct halay_log log;
    char lines[8][300];
    int count;
};

static void bench_log(void *arg, enum halay_log_level level, const char *line)
{
    struct bench *b = arg;

    (void)level;
    REQUIRE(b->count < 8);
    snprintf(b->lines[b->count++], sizeof *b->lines, "%s", line);
}

static enum halay_status drop_item(void *arg, int rank, const struct halay_item *item)
{
    (void)arg;
    (void)rank;
    (void)item;
    return HALAY_OK;
}

/* One report for all sets, with ranks of the job. */
static void check_stall(void)
{
    struct bench b = { .count = 0 };
    static const int ranks[] = { 1, 3 };
    struct halay_coordinator *parent, *child;

    halay_log_init(&b.log, HALAY_LOG_WARNING);
    b.log.write = bench_log;
    b.log.arg = &b;
    struct halay_coordinator_options options = {
        .size = 4, .threshold = 1 << 20, .ids_max = 4, .log = &b.log, .emit = drop_item, .arg = &b
    };
    REQUIRE(halay_coordinator_create(&options, &parent) == HALAY_OK);
    options.parent = parent;
    options.size = 2;
    options.number = 7;
    options.ranks = ranks;
    REQUIRE(halay_coordinator_create(&options, &child) == HALAY_OK);
    struct halay_item item = { .kind = HALAY_ITEM_ANNOUNCE,
                               .name = "t",
                               .name_length = 1,
                               .signature = { .dimensions = 1, .shape = { 4 }, .prescale = 1, .postscale = 1 } };
    struct halay_item own = { .kind = HALAY_ITEM_DOING, .name = "" };
    struct halay_item answer = {
        .kind = HALAY_ITEM_DOING, .doing = HALAY_DOING_WAITS, .name = "u", .name_length = 1, .set = 7
    };
    struct halay_straggler s;
    CHECK(halay_coordinator_receive(child, 0, &item, 1000000) == HALAY_OK);
    CHECK(halay_coordinator_waiting(parent) == 1);
    CHECK(halay_coordinator_look_for_stalls(parent, 12000000, 10000000, 0, &own) == HALAY_OK && !b.count);
    CHECK(halay_coordinator_receive(parent, 3, &answer, 12000000) == HALAY_OK);
    CHECK(halay_coordinator_look_for_stalls(parent, 12000000, 10000000, 0, &own) == HALAY_OK && b.count == 2);
    CHECK(strstr(b.lines[0], "stalled for 11 s: tensor 't' of process set 7: submitted by rank 1, missing: rank 3"),
          "'%s'", b.lines[0]);
    CHECK(strstr(b.lines[1], "stalled: rank 3 has submitted nothing; its program waits for 'u' of process set 7"),
          "'%s'", b.lines[1]);
    CHECK(halay_coordinator_receive(child, 1, &item, 2000000) == HALAY_OK && !halay_coordinator_waiting(parent));
    halay_coordinator_straggler(parent, 3, &s);
    CHECK(s.tensors == 1 && s.times_last == 1 && s.late_ns == 1000000000);
    halay_coordinator_destroy(child);
    halay_coordinator_destroy(parent);
    halay_log_fini(&b.log);
}

/* The items that a coordinator emitted, by kind. */
struct said {
    struct halay_log log;
    int items[HALAY_ITEM_KINDS];
    char text[200]; /* of the last item that has some */
};

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static enum halay_status count_item(void *arg, int rank, const struct halay_item *item)
{
    struct said *said = arg;

    (void)rank;
    said->items[item->kind]++;
    if (item->text_length)
        snprintf(said->text, sizeof said->text, "%.*s", (int)item->text_length, item->text);
    return HALAY_OK;
}

static struct halay_coordinator *open_coordinator(struct said *said, struct halay_coordinator *parent, const int *ranks,
                                                  int size)
{
    struct halay_coordinator_options options = { .size = size,
                                                 .parent = parent,
                                                 .number = parent ? 7 : 0,
                                                 .ranks = ranks,
                                                 .threshold = 1 << 20,
                                                 .ids_max = 4,
                                                 .log = &said->log,
                                                 .emit = count_item,
                                                 .arg = said };
    struct halay_coordinator *c;

    REQUIRE(halay_coordinator_create(&options, &c) == HALAY_OK);
    return c;
}

static void announce_tensor(struct halay_coordinator *c, int rank, const char *name, enum halay_collective operation,
                            size_t count)
{
    struct halay_item item = { .kind = HALAY_ITEM_ANNOUNCE,
                               .name = name,
                               .name_length = strlen(name),
                               .signature = { .collective = (uint8_t)operation, .prescale = 1, .postscale = 1 } };

    item.signature.dimensions = operation == HALAY_ALLREDUCE;
    item.signature.shape[0] = count;
    CHECK(halay_coordinator_receive(c, rank, &item, 0) == HALAY_OK);
}

static void decide_all(struct halay_coordinator *c)
{
    int emitted;

    CHECK(halay_coordinator_decide(c, 1, &emitted) == HALAY_OK);
}

/* The sets that a step of rank 0 visits: those with something to decide, not all. */
enum { MANY_RANKS = 256, MANY_SETS = 200 };

struct looks {
    int count, is_idle;
};

static struct looks looks;

static int count_look(const void *arg)
{
    (void)arg;
    looks.count++;
    return looks.is_idle;
}

/* Returns the number of sets visited. */
static int decide_children(struct halay_coordinator *parent, int is_idle)
{
    int emitted;

    looks = (struct looks){ .is_idle = is_idle };
    CHECK(halay_coordinator_decide_children(parent, count_look, &emitted) == HALAY_OK);
    return looks.count;
}

static void announce_on_all(struct halay_coordinator *c)
{
    for (int r = 0; r < MANY_RANKS; r++)
        announce_tensor(c, r, "t", HALAY_ALLREDUCE, 4);
}

static void check_news(void)
{
    struct halay_coordinator *sets[MANY_SETS];
    struct said said = { .text = "" };
    int ranks[MANY_RANKS];

    halay_log_init(&said.log, HALAY_LOG_ERROR);
    struct halay_coordinator *parent = open_coordinator(&said, NULL, NULL, MANY_RANKS);
    for (int r = 0; r < MANY_RANKS; r++)
        ranks[r] = r;
    for (int i = 0; i < MANY_SETS; i++)
        sets[i] = open_coordinator(&said, parent, ranks, MANY_RANKS);
    CHECK(decide_children(parent, 1) == 0);
    announce_on_all(sets[150]);
    CHECK(decide_children(parent, 1) == 1 && said.items[HALAY_ITEM_BUCKET] == 1);
    CHECK(decide_children(parent, 1) == 0);

    announce_on_all(sets[0]);
    announce_on_all(sets[199]);
    CHECK(decide_children(parent, 0) == 2 && said.items[HALAY_ITEM_BUCKET] == 1, "agreed, and not run");
    CHECK(decide_children(parent, 0) == 2, "until nothing else is under way");
    announce_on_all(sets[3]);
    halay_coordinator_destroy(sets[0]);
    CHECK(decide_children(parent, 1) == 2 && said.items[HALAY_ITEM_BUCKET] == 3);
    CHECK(decide_children(parent, 1) == 0);
    for (int i = 1; i < MANY_SETS; i++)
        halay_coordinator_destroy(sets[i]);
    halay_coordinator_destroy(parent);
    halay_log_fini(&said.log);
}

/* A set that is made while a rank has joined, or has left, takes that over. */
static void check_late_set(void)
{
    static const int ranks[] = { 1, 2 }, others[] = { 0, 1 };
    struct said said = { .text = "" };

    halay_log_init(&said.log, HALAY_LOG_ERROR);
    said.log.write = drop_line;
    struct halay_coordinator *parent = open_coordinator(&said, NULL, NULL, 3);
    announce_tensor(parent, 2, HALAY_JOIN_NAME, HALAY_JOIN, 0);
    struct halay_coordinator *set = open_coordinator(&said, parent, ranks, 2);
    announce_tensor(set, 0, "t", HALAY_ALLREDUCE, 4);
    CHECK(!halay_coordinator_waiting(parent), "rank 2 takes part");
    decide_all(set);
    CHECK(said.items[HALAY_ITEM_AGREE] == 1 && said.items[HALAY_ITEM_BUCKET] == 1);
    announce_tensor(parent, 0, HALAY_JOIN_NAME, HALAY_JOIN, 0);
    announce_tensor(parent, 1, HALAY_JOIN_NAME, HALAY_JOIN, 0);
    decide_all(parent);
    announce_tensor(set, 0, "u", HALAY_ALLREDUCE, 4);
    CHECK(halay_coordinator_waiting(parent) == 1, "no rank has joined any more");
    announce_tensor(set, 1, "u", HALAY_ALLREDUCE, 4);
    decide_all(set);

    CHECK(halay_coordinator_receive(parent, 0, &(struct halay_item){ .kind = HALAY_ITEM_BYE }, 0) == HALAY_OK);
    struct halay_coordinator *late = open_coordinator(&said, parent, others, 2);
    CHECK(!said.items[HALAY_ITEM_FAIL]);
    announce_tensor(late, 1, "t", HALAY_ALLREDUCE, 4);
    CHECK(said.items[HALAY_ITEM_FAIL] == 1 && !strcmp(said.text, "rank 0 has left"), "'%s'", said.text);
    halay_coordinator_destroy(late);
    halay_coordinator_destroy(set);
    halay_coordinator_destroy(parent);
    halay_log_fini(&said.log);
}

/* An entry becomes one of a change of sets if ranks submit it as such, by any item. */
static void check_changing(void)
{
    struct said said = { .text = "" };
    uint64_t payload[] = { HALAY_SET_MAKE, 1, 0 };
    struct halay_item change = {
        .kind = HALAY_ITEM_ANNOUNCE,
        .name = "x",
        .name_length = 1,
        .signature = { .collective = HALAY_CHANGE_SETS, .prescale = 1, .postscale = 1, .payload_count = 3 },
        .payload = payload,
        .payload_count = 3
    };
    struct halay_item again = { .kind = HALAY_ITEM_READY, .range = { 0, 1 } };

    halay_log_init(&said.log, HALAY_LOG_ERROR);
    said.log.write = drop_line;
    struct halay_coordinator *c = open_coordinator(&said, NULL, NULL, 2);
    for (int rank = 0; rank < 2; rank++)
        CHECK(halay_coordinator_receive(c, rank, &change, 0) == HALAY_OK);
    decide_all(c);
    announce_tensor(c, 0, "x", HALAY_ALLREDUCE, 4);
    announce_tensor(c, 1, "x", HALAY_ALLREDUCE, 5);
    CHECK(!strcmp(said.text, "tensor 'x': rank 1 has shape [5], rank 0 has [4]"), "'%s'", said.text);
    announce_tensor(c, 1, HALAY_JOIN_NAME, HALAY_JOIN, 0);
    CHECK(halay_coordinator_receive(c, 0, &again, 0) == HALAY_OK);
    CHECK(!strncmp(said.text, "process sets: only ", 19), "'%s'", said.text);
    halay_coordinator_destroy(c);
    halay_log_fini(&said.log);
}

/* Only the members are asked for a set: other ranks that have left or joined are not reported as missing. */
static void check_forming(void)
{
    struct said said = { .text = "" };
    uint64_t payload[] = { HALAY_SET_FORM, 2, 1, 2 };
    struct halay_item form = {
        .kind = HALAY_ITEM_ANNOUNCE,
        .name = "process sets [1,2]",
        .name_length = 18,
        .signature = { .collective = HALAY_CHANGE_SETS, .prescale = 1, .postscale = 1, .payload_count = 4 },
        .payload = payload,
        .payload_count = 4
    };
    struct halay_item own = { .kind = HALAY_ITEM_DOING, .name = "" };

    halay_log_init(&said.log, HALAY_LOG_ERROR);
    said.log.write = drop_line;
    struct halay_coordinator *c = open_coordinator(&said, NULL, NULL, 4);
    CHECK(halay_coordinator_receive(c, 0, &(struct halay_item){ .kind = HALAY_ITEM_BYE }, 0) == HALAY_OK);
    CHECK(halay_coordinator_receive(c, 2, &form, 1000000) == HALAY_OK && halay_coordinator_waiting(c) == 1);
    CHECK(halay_coordinator_look_for_stalls(c, 12000000, 10000000, 0, &own) == HALAY_OK);
    CHECK(said.items[HALAY_ITEM_ASK] == 1, "%d ranks are asked", said.items[HALAY_ITEM_ASK]);
    CHECK(halay_coordinator_receive(c, 1, &form, 0) == HALAY_OK && !halay_coordinator_waiting(c));
    decide_all(c);
    CHECK(said.items[HALAY_ITEM_BUCKET] == 1 && !said.items[HALAY_ITEM_FAIL]);
    struct halay_item again = { .kind = HALAY_ITEM_READY, .range = { 0, 1 } };
    CHECK(halay_coordinator_receive(c, 3, &again, 0) == HALAY_ERR_FORMAT, "it is not a member");
    CHECK(halay_coordinator_receive(c, 1, &again, 0) == HALAY_OK);
    CHECK(halay_coordinator_receive(c, 2, &(struct halay_item){ .kind = HALAY_ITEM_BYE }, 0) == HALAY_OK);
    CHECK(said.items[HALAY_ITEM_FAIL] == 1 && !strcmp(said.text, "rank 2 has left"), "'%s'", said.text);
    halay_coordinator_destroy(c);
    halay_log_fini(&said.log);
}

static void check_ranks(int size, uint64_t delay, void (*body)(struct rank_run *run), void *arg, const char *expected,
                        void (*configure)(struct halay_config *config, void *arg))
{
    ranks_run(size, delay, &(struct rank_run){ .body = body, .arg = arg, .expected = expected, .configure = configure },
              NULL, NULL);
}

/* ---- a member that does not take part in making the group ---- */

/* The action of the last rank with its first message about the new group: all other ranks wait for it, or soon will. */
static void (*absence)(void);
static struct rank_run *absent, *_Atomic waiting[RANKS_MAX];
static struct halay_link_ops ops_of_absent;
static const struct halay_link_ops *true_ops;

static int is_about_group(uint64_t tag)
{
    return tag == halay_tag(HALAY_AGREEMENT_GROUP, 0, 0); /* its proposal, which is the first message */
}

static void send_of_absent(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                           struct halay_transfer *x)
{
    if (is_about_group(tag))
        absence();
    true_ops->send(link, peer, tag, buf, bytes, x);
}

static void make_absent(struct rank_run *run, struct halay_config *config)
{
    struct halay_world *world = (struct halay_world *)((char *)config - offsetof(struct halay_world, config));

    config->peer_timeout_ms = 2000;
    if (run->rank != run->size - 1)
        return;
    absent = run;
    true_ops = world->data->ops;
    ops_of_absent = *true_ops;
    ops_of_absent.send = send_of_absent;
    world->data->ops = &ops_of_absent;
}

static void die_silently(void)
{
    halay_fake_hub_kill(absent->hub, absent->rank);
}

/* Alive and silent until all others have timed out: one that had not would still make the group. */
static void be_slow(void)
{
    for (int r = 0; r < absent->size - 1; r++)
        while (!waiting[r] || halay_context_status(waiting[r]->ctx, NULL, 0) == HALAY_OK)
            sched_yield();
}

static _Atomic int told;

/* Every rank gets an error that names the missing one, whether it waits in the set or only coordinates it (rank 0, with
 * three ranks). */
static void body_absent(struct rank_run *run)
{
    int last = run->size - 1, ranks[] = { last - 1, last };
    struct halay_process_set *set = NULL;
    char text[200];

    waiting[run->rank] = run;
    CHECK(run->rank < last - 1 || halay_process_set_create(run->ctx, ranks, 2, &set) != HALAY_OK);
    while (halay_context_status(run->ctx, text, sizeof text) == HALAY_OK)
        CHECK(halay_barrier(run->ctx, NULL) == HALAY_ERR_PEER);
    CHECK(run->rank == last || !strcmp(text, run->arg), "rank %d: '%s'", run->rank, text);
    told++;
    while (told < run->size)
        sched_yield();
}

static void check_absent(int size, void (*how)(void), char *text)
{
    absence = how;
    told = 0;
    for (int r = 0; r < size; r++)
        waiting[r] = NULL;
    ranks_run(size, 0,
              &(struct rank_run){ .body = body_absent, .arg = text, .expected = "", .configure_rank = make_absent },
              NULL, NULL);
}

/* ---- a tensor of a set whose group is being made ---- */

/* The proposal of rank 1, held back until its own bucket of the new set waits for the group. */
static struct {
    struct halay_link *link; /* NULL: none is held back */
    int peer;
    uint64_t tag;
    const void *data;
    size_t bytes;
    struct halay_transfer transfer;
    int was_early;
} kept;

static void send_later(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                       struct halay_transfer *x)
{
    if (!is_about_group(tag)) {
        true_ops->send(link, peer, tag, buf, bytes, x);
        return;
    }
    kept.link = link;
    kept.peer = peer;
    kept.tag = tag;
    kept.data = buf;
    kept.bytes = bytes;
}

static enum halay_status progress_kept(struct halay_link *link)
{
    const struct halay_process_set *set = kept.link ? halay_process_set_by_number(absent->ctx, 1) : NULL;

    if (set && set->waiting) {
        kept.was_early = !set->group;
        true_ops->send(kept.link, kept.peer, kept.tag, kept.data, kept.bytes, &kept.transfer);
        kept.link = NULL;
    }
    return true_ops->progress(link);
}

static void keep_proposal(struct rank_run *run, struct halay_config *config)
{
    struct halay_world *world = (struct halay_world *)((char *)config - offsetof(struct halay_world, config));

    if (run->rank != 1)
        return;
    absent = run;
    true_ops = world->data->ops;
    ops_of_absent = *true_ops;
    ops_of_absent.send = send_later;
    ops_of_absent.progress = progress_kept;
    world->data->ops = &ops_of_absent;
}

/* Looks the set up by its number while another thread is still making it. */
static void *submit_early(void *arg)
{
    struct rank_run *run = arg;
    struct halay_process_set *set;
    struct halay_request *request;
    float x = 1;

    while (!(set = halay_process_set_find(run->ctx, 1)))
        sched_yield();
    struct halay_tensor_info info = info_of(set, "early", HALAY_ALLREDUCE, 1, NULL, &x);
    REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(wait_and_free(request) == HALAY_OK);
    CHECK(x == 2, "%g", (double)x);
    return NULL;
}

static void body_early(struct rank_run *run)
{
    int ranks[] = { 0, 1 };
    pthread_t thread;

    REQUIRE(!pthread_create(&thread, NULL, submit_early, run));
    struct halay_process_set *set = create_set(run->ctx, ranks, 2);
    pthread_join(thread, NULL);
    CHECK(remove_set(run->ctx, set) == HALAY_OK);
}

static void check_early(void)
{
    ranks_run(2, 0, &(struct rank_run){ .body = body_early, .configure_rank = keep_proposal }, NULL, NULL);
    CHECK(kept.was_early, "the group was there before the tensor");
}

int main(void)
{
    _Atomic int done = 0;

    REQUIRE(mkdtemp(flights));
    snprintf(flight, sizeof flight, "%s/%%r", flights);
    check_parsing();
    check_words();
    check_stall();
    check_news();
    check_late_set();
    check_changing();
    check_forming();
    check_ranks(1, 0, body_numbers, NULL, "", NULL);
    check_ranks(3, 0, body_many, &done, "", NULL);
    check_ranks(3, 0, body_at_once, &done, NULL, NULL);
    for (int size = 1; size <= 4; size++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            check_ranks(size, delay * 5, body_operations, NULL, NULL, NULL);
            check_ranks(size, delay * 6, body_many, NULL, "", NULL);
            check_ranks(size, delay * 12, body_busy, NULL, NULL, NULL);
            if (size > 1) {
                check_ranks(size, delay * 15, body_same_ranks, NULL, NULL, NULL);
                check_ranks(size, delay * 7, body_refused, NULL, "", NULL);
                check_ranks(size, delay * 8, body_join, &done, "", delay ? record_flight : NULL);
                check_ranks(size, delay * 9, body_static, delay ? &done : NULL, NULL, set_text);
            }
            if (size > 2) {
                check_ranks(size, delay * 10, body_coordinated, &done, NULL, NULL);
                check_ranks(size, delay * 11, body_left, NULL, "", NULL);
                check_ranks(size, delay * 13, body_at_once, NULL, NULL, NULL);
                check_ranks(size, delay * 14, body_alone, &done, NULL, NULL);
            }
        }
    check_early();
    check_absent(2, die_silently, (char[]){ "rank 1 has died" });
    check_absent(3, die_silently, (char[]){ "rank 2 has died" });
    check_absent(3, be_slow, (char[]){ "rank 2 has not answered for 2 s" });
    remove_flights();
    return test_end();
}
