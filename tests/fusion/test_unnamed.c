/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives without a name, which are identified by the order of calls: the n-th of a kind in a process set matches
 * the n-th on the other ranks, whatever is in flight on each of them. Their names are reused, so that the ranks keep a
 * bounded number and agree by id. Ranks are threads, over the fake transport.
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <sched.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TURNS = 3 };
#else
enum { TURNS = 30 };
#endif

enum { AT_ONCE = 100, CALLS = TURNS * HALAY_UNNAMED_MAX };

static struct halay_counters counters_of(struct rank_run *run)
{
    struct halay_counters counters = { .struct_size = sizeof counters };

    CHECK(halay_counters_read(run->ctx, &counters) == HALAY_OK);
    return counters;
}

static size_t names_known(struct rank_run *run)
{
    pthread_mutex_lock(&run->ctx->lock);
    size_t names = run->ctx->all.names.count;
    pthread_mutex_unlock(&run->ctx->lock);
    return names;
}

/* Checks that the ranks agree by name on each name once. */
static void check_kept(struct rank_run *run, const struct halay_counters *before, uint64_t calls)
{
    struct halay_counters after = counters_of(run);
    uint64_t told = after.negotiations - before->negotiations, by_id = after.cache_hits - before->cache_hits;

    CHECK(names_known(run) <= HALAY_UNNAMED_MAX + 1, "%zu names are known", names_known(run));
    CHECK(told <= HALAY_UNNAMED_MAX, "sent by name: %llu of %llu", (unsigned long long)told, (unsigned long long)calls);
    /* A submission that a plan takes over, or gives back, counts there and when it is sent. */
    CHECK(told + by_id <= 2 * calls, "%llu by name, %llu by id", (unsigned long long)told, (unsigned long long)by_id);
}

static float sum_of(int size, int call)
{
    return (float)(size * (size + 1) / 2 + size * (call % 1000));
}

/* ---- one after the other, and many in flight ---- */

static void body_alone(struct rank_run *run)
{
    struct halay_counters before = counters_of(run);

    for (int i = 0; i < CALLS; i++) {
        float value = (float)(run->rank + 1 + i % 1000);
        CHECK(halay_allreduce(run->ctx, NULL, NULL, &value, 1, HALAY_F32, HALAY_SUM) == HALAY_OK &&
                  value == sum_of(run->size, i),
              "call %d", i);
    }
    check_kept(run, &before, CALLS);
}

struct flight {
    struct halay_request *request;
    float value;
    int call;
};

static void end_flight(struct rank_run *run, struct flight *f)
{
    if (!f->request)
        return;
    CHECK(halay_wait(f->request, -1) == HALAY_OK && f->value == sum_of(run->size, f->call), "call %d", f->call);
    halay_request_free(f->request);
    f->request = NULL;
}

/* The number in flight differs between ranks at each call. */
static void body_in_flight(struct rank_run *run)
{
    struct halay_counters before = counters_of(run);
    struct flight flights[AT_ONCE] = { 0 };
    struct random random = { (uint64_t)run->rank + 1 };

    for (int i = 0; i < CALLS; i++) {
        struct flight *f = &flights[i % AT_ONCE];
        end_flight(run, f);
        *f = (struct flight){ .value = (float)(run->rank + 1 + i % 1000), .call = i };
        CHECK(halay_allreduce_async(run->ctx, NULL, NULL, &f->value, 1, HALAY_F32, HALAY_SUM, &f->request) == HALAY_OK);
        if (random_below(&random, 200) == 0)
            for (int k = 0; k < AT_ONCE; k++)
                end_flight(run, &flights[k]);
        if (random_below(&random, 50) == 0)
            sched_yield();
    }
    for (int k = 0; k < AT_ONCE; k++)
        end_flight(run, &flights[k]);
    check_kept(run, &before, CALLS);
}

/* ---- more than there are names ---- */

static void wait_for_word(struct rank_run *run, int from)
{
    char word = (char)from;

    if (run->rank != from)
        CHECK(halay_receive(run->ctx, NULL, &word, 1, HALAY_I8, from, 7) == HALAY_OK);
    for (int r = 0; run->rank == from && r < run->size; r++)
        if (r != from)
            CHECK(halay_send(run->ctx, NULL, &word, 1, HALAY_I8, r, 7) == HALAY_OK);
}

static enum halay_status add_ranks(struct rank_run *run, float *value, struct halay_request **request)
{
    *value = (float)(run->rank + 1);
    return halay_allreduce_async(run->ctx, NULL, NULL, value, 1, HALAY_F32, HALAY_SUM, request);
}

/* A call that is refused does not count: the next one has its number. */
static void body_too_many(struct rank_run *run)
{
    static float values[RANKS_MAX][HALAY_UNNAMED_MAX + 1];
    struct halay_request *requests[HALAY_UNNAMED_MAX + 1];
    float *value = values[run->rank];
    int last = HALAY_UNNAMED_MAX;

    if (run->rank)
        wait_for_word(run, 0);
    for (int i = 0; i < last; i++)
        REQUIRE(add_ranks(run, &value[i], &requests[i]) == HALAY_OK);
    if (run->rank == 0) {
        CHECK(add_ranks(run, &value[last], &requests[last]) == HALAY_ERR_DUPLICATE);
        CHECK(halay_allreduce(run->ctx, NULL, (char *)value + 1, value + last, 1, HALAY_F32, HALAY_SUM) ==
              HALAY_ERR_ARGUMENT);
        wait_for_word(run, 0);
    }
    CHECK(halay_wait_all(requests, (size_t)last, -1) == HALAY_OK);
    CHECK(add_ranks(run, &value[last], &requests[last]) == HALAY_OK);
    CHECK(halay_wait(requests[last], -1) == HALAY_OK);
    for (int i = 0; i <= last; i++) {
        CHECK(value[i] == (float)(run->size * (run->size + 1) / 2), "%d", i);
        halay_request_free(requests[i]);
    }
}

/* ---- numbering ---- */

/* Kinds and process sets count separately, and named ones do not count. */
static void body_kinds(struct rank_run *run)
{
    int ranks[RANKS_MAX] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct halay_process_set *set;
    struct halay_request *requests[4];
    float values[4], sum = (float)(run->size * (run->size + 1) / 2);

    REQUIRE(halay_process_set_create(run->ctx, ranks, (size_t)run->size, &set) == HALAY_OK);
    for (int step = 0; step < 20; step++) {
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .collective = HALAY_ALLREDUCE,
                                          .dimensions = 1,
                                          .shape = { 1 },
                                          .out = &values[3],
                                          .set = set };
        for (int i = 0; i < 4; i++)
            values[i] = (float)(run->rank + 1);
        for (int i = 0; i < 4; i++)
            switch ((i + run->rank) % 4) {
            case 0:
                CHECK(add_ranks(run, &values[0], &requests[0]) == HALAY_OK);
                break;
            case 1:
                CHECK(halay_broadcast_async(run->ctx, NULL, &values[1], 1, HALAY_F32, 0, &requests[1]) == HALAY_OK);
                break;
            case 2:
                CHECK(halay_allreduce_async(run->ctx, "named", NULL, &values[2], 1, HALAY_F32, HALAY_SUM,
                                            &requests[2]) == HALAY_OK);
                break;
            default:
                CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &requests[3]) == HALAY_OK);
            }
        CHECK(halay_wait_all(requests, 4, -1) == HALAY_OK);
        CHECK(values[0] == sum && values[1] == 1 && values[2] == sum && values[3] == sum);
        for (int i = 0; i < 4; i++)
            halay_request_free(requests[i]);
        CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    }
}

/* A mismatch ends in the same way on all ranks, and does not affect the next ones. */
static void body_mismatch(struct rank_run *run)
{
    float values[3] = { 1, 1, 1 };

    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < 5; i++) {
            size_t count = i == 3 && run->rank == 0 ? 2 : 1;
            enum halay_status wanted = i == 3 && run->size > 1 ? HALAY_ERR_MISMATCH : HALAY_OK;
            enum halay_status status = halay_allreduce(run->ctx, NULL, NULL, values, count, HALAY_F32, HALAY_MAX);
            CHECK(status == wanted, "%d, %d: %d", turn, i, (int)status);
        }
}

/* A rank that has joined does not submit the others' collectives: counting begins again. */
static void body_join(struct rank_run *run)
{
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 3 + turn * run->rank; i++) {
            float value = 1;
            CHECK(halay_allreduce(run->ctx, NULL, NULL, &value, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
            CHECK(i >= 3 || value == (float)run->size, "%g", (double)value);
        }
        CHECK(halay_join(run->ctx, NULL) == HALAY_OK);
    }
}

static void body_refused(struct rank_run *run)
{
    struct halay_tensor *tensor;
    float value = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .collective = HALAY_ALLREDUCE, .dimensions = 1, .shape = { 1 }, .out = &value
    };

    CHECK(halay_register(run->ctx, &info, &tensor) == HALAY_ERR_ARGUMENT, "a registered tensor has a name");
}

int main(void)
{
    struct rank_run quiet = { .body = body_too_many, .expected = "" };

    for (int size = 1; size <= 3; size++) {
        ranks_run(size, 0, &(struct rank_run){ .body = body_alone }, NULL, NULL);
        ranks_run(size, 0, &(struct rank_run){ .body = body_in_flight }, NULL, NULL);
        ranks_run(size, 0, &(struct rank_run){ .body = body_kinds }, NULL, NULL);
        ranks_run(size, 0, &(struct rank_run){ .body = body_join }, NULL, NULL);
    }
    for (int size = 2; size <= 4; size += 2)
        ranks_run(size, 0, &quiet, NULL, NULL);
    quiet.body = body_mismatch;
    ranks_run(3, 0, &quiet, NULL, NULL);
    quiet.body = body_refused;
    ranks_run(1, 0, &quiet, NULL, NULL);
    return test_end();
}
