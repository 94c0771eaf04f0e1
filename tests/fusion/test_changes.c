/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets that are made and removed without blocking, over the fake transport: in different orders, canceled and
 * timed out in every interleaving, in the stall report; and calls that wait while halay_fini runs.
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <poll.h>
#include <sched.h>

enum { WAIT_MS = 60000, ROUNDS = 40 };

static struct halay_request *create_set(struct rank_run *run, const int *ranks, size_t count, int timeout_ms)
{
    struct halay_request *request;

    REQUIRE(halay_process_set_create_async(run->ctx, ranks, count, timeout_ms, &request) == HALAY_OK);
    return request;
}

/* Ends a request. text NULL: any text. *set (NULL: not wanted): the set that was made. */
static enum halay_status end_change(struct halay_request *request, const char *text, struct halay_process_set **set)
{
    struct halay_result result = { .struct_size = sizeof result };
    enum halay_status status = halay_wait(request, WAIT_MS);

    CHECK(!text || !strcmp(halay_request_text(request), text), "'%s', not '%s'", halay_request_text(request),
          text ? text : "");
    CHECK(halay_request_result(request, &result) == status && (status == HALAY_OK || !result.set));
    if (set)
        *set = result.set;
    halay_request_free(request);
    return status;
}

static void use_set(struct halay_context *ctx, struct halay_process_set *set)
{
    float x = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "used", .dimensions = 1, .shape = { 1 }, .out = &x, .set = set
    };
    struct halay_request *request;

    REQUIRE(set && halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK && x == (float)halay_process_set_size(set), "%g", (double)x);
    halay_request_free(request);
}

/* Each rank asks for all sets before it waits, in an order of its own. */
static void body_orders(struct rank_run *run)
{
    int lists[3][3] = { { 0, 1 }, { 1, 2 }, { 0, 1, 2 } };
    size_t counts[3] = { 2, 2, 3 };
    struct halay_request *requests[3] = { NULL };
    struct halay_process_set *sets[3];

    for (int k = 0; k < 3; k++) {
        int i = (k + run->rank) % 3, is_member = i == 2 || run->rank == lists[i][0] || run->rank == lists[i][1];
        requests[i] = is_member ? create_set(run, lists[i], counts[i], 0) : NULL;
        if (is_member) {
            struct halay_request *twice;
            enum halay_status status = halay_process_set_create_async(run->ctx, lists[i], counts[i], 0, &twice);
            CHECK(status == HALAY_ERR_DUPLICATE || status == HALAY_OK); /* OK: the set has been made in the meantime */
            if (status == HALAY_OK) {
                CHECK(halay_cancel(twice) == HALAY_OK);
                halay_request_free(twice);
            }
        }
    }
    for (int i = 0; i < 3; i++)
        if (requests[i]) {
            CHECK(end_change(requests[i], "", &sets[i]) == HALAY_OK);
            use_set(run->ctx, sets[i]);
        }
}

/* The first of two ranks withdraws its call; the other one gets the error when it calls, and the third rank gets
 * nothing. */
static void body_withdrawn(struct rank_run *run)
{
    int ranks[] = { 0, 1 };
    struct halay_process_set *set;
    struct halay_request *request;
    static const char *const texts[] = {
        "process sets [0,1]: canceled by rank 0; not submitted by rank 1",
        "process sets [0,1]: timed out after 0.05 s on rank 0; not submitted by rank 1"
    };

    for (int by_time = 0; by_time < 2; by_time++) {
        enum halay_status want = by_time ? HALAY_ERR_TIMEOUT : HALAY_ERR_CANCELED;
        if (run->rank == 0) {
            request = create_set(run, ranks, 2, by_time ? 50 : 0);
            if (!by_time)
                CHECK(halay_cancel(request) == HALAY_OK);
            CHECK(end_change(request, texts[by_time], NULL) == want);
        }
        CHECK(halay_barrier(run->ctx, "given up") == HALAY_OK);
        if (run->rank == 1)
            CHECK(end_change(create_set(run, ranks, 2, 0), texts[by_time], NULL) == want);
        CHECK(halay_barrier(run->ctx, "ended") == HALAY_OK);
    }
    if (run->rank < 2) {
        CHECK(end_change(create_set(run, ranks, 2, 0), "", &set) == HALAY_OK);
        if (run->rank == 0) {
            CHECK(halay_process_set_remove_async(set, 50, &request) == HALAY_OK);
            CHECK(end_change(request,
                             "process sets without 1: timed out after 0.05 s on rank 0; not submitted by rank 1",
                             NULL) == HALAY_ERR_TIMEOUT);
        }
    }
    CHECK(halay_barrier(run->ctx, "not removed") == HALAY_OK);
    if (run->rank < 2) {
        if (run->rank == 1)
            CHECK(halay_process_set_remove(set) == HALAY_ERR_TIMEOUT);
        use_set(run->ctx, set);
        CHECK(halay_process_set_remove_async(set, 0, &request) == HALAY_OK &&
              end_change(request, "", NULL) == HALAY_OK);
        CHECK(halay_process_set_remove_async(set, 0, &request) == HALAY_ERR_ARGUMENT);
    }
}

/* The result on each rank in each round. It must be the same for all members. */
static enum halay_status told[RANKS_MAX][ROUNDS];

static void pause_randomly(struct random *random)
{
    for (uint64_t n = random_below(random, 3) ? random_below(random, 20) : 0; n; n--)
        sched_yield();
    if (!random_below(random, 12))
        poll(NULL, 0, (int)random_below(random, 3));
}

static void body_random(struct rank_run *run)
{
    struct random random = { *(uint64_t *)run->arg * 100 + (uint64_t)run->rank };
    int ranks[] = { 0, 1, 2 };
    struct halay_process_set *set;

    for (int round = 0; round < ROUNDS; round++) {
        size_t count = (size_t)run->size - (size_t)(round % 2);
        if (run->rank >= (int)count)
            continue;
        int how = (int)random_below(&random, 5);
        pause_randomly(&random);
        struct halay_request *request = create_set(run, ranks, count, how == 1 ? 1 : 0);
        pause_randomly(&random);
        if (how > 2)
            CHECK(halay_cancel(request) == HALAY_OK);
        told[run->rank][round] = end_change(request, NULL, &set);
        if (told[run->rank][round] == HALAY_OK) {
            use_set(run->ctx, set);
            CHECK(halay_process_set_remove(set) == HALAY_OK);
        }
    }
}

static void check_random(int size, uint64_t seed)
{
    size_t given_up = 0;

    ranks_run(size, seed, &(struct rank_run){ .body = body_random, .arg = &seed, .expected = "" }, NULL, NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (int r = 0; r < size - round % 2; r++) {
            CHECK(told[r][round] == told[0][round], "round %d: rank %d %d, rank 0 %d", round, r, told[r][round],
                  told[0][round]);
            given_up += told[r][round] != HALAY_OK;
        }
    CHECK(given_up, "nothing was given up in time");
}

/* ---- each rank waits for a set that the other one asks for later ---- */

static struct {
    _Atomic int is_about_sets, are_waits; /* bits of [rank] */
} stalled;

static void note_stall(struct rank_run *run, const char *line)
{
    static const char *const about[] = { "process sets [0,1]: submitted by rank 0, missing: rank 1",
                                         "process sets [0,1,2]: submitted by ranks 1, 2, missing: rank 0" };
    static const char *const waits[] = { "rank 0 submitted 'process sets [0,1]' last,",
                                         "rank 1 submitted 'process sets [0,1,2]' last," };

    (void)run;
    for (int i = 0; i < 2; i++) {
        if (strstr(line, about[i]))
            stalled.is_about_sets |= 1 << i;
        if (strstr(line, waits[i]) && strstr(line, i ? "waits for 'process sets [0,1,2]'" : "waits for 'process sets"))
            stalled.are_waits |= 1 << i;
    }
}

static void configure_stall(struct halay_config *config, void *arg)
{
    (void)arg;
    config->stall_check_ms = 100;
}

static void body_stall(struct rank_run *run)
{
    int two[] = { 0, 1 }, three[] = { 0, 1, 2 };
    struct halay_request *request = run->rank ? create_set(run, three, 3, 0) : create_set(run, two, 2, 0);

    while (stalled.is_about_sets != 3 || stalled.are_waits != 3)
        halay_wait(request, 20); /* the call lasts until another rank has seen the report, and continued */
    struct halay_request *other = run->rank == 0   ? create_set(run, three, 3, 0)
                                  : run->rank == 1 ? create_set(run, two, 2, 0)
                                                   : NULL;
    CHECK(end_change(request, "", NULL) == HALAY_OK);
    if (other)
        CHECK(end_change(other, "", NULL) == HALAY_OK);
}

/* ---- halay_fini while other threads are in calls ---- */

static struct {
    _Atomic int ended; /* calls of rank 0 */
    enum halay_status status[3];
} leaving;

static void *make_set(void *arg)
{
    int ranks[] = { 0, 1 };
    struct halay_process_set *set;

    leaving.status[0] = halay_process_set_create(((struct rank_run *)arg)->ctx, ranks, 2, &set);
    leaving.ended++;
    return NULL;
}

static void *reduce_in_set(void *arg)
{
    float x = 1;

    leaving.status[1] =
        halay_allreduce(((struct rank_run *)arg)->ctx, "of rank 0 alone", &x, &x, 1, HALAY_F32, HALAY_SUM);
    leaving.ended++;
    return NULL;
}

static void *make_same_set(void *arg)
{
    int ranks[] = { 1, 0 };
    struct halay_process_set *set;

    leaving.status[2] =
        halay_process_set_create(((struct rank_run *)arg)->ctx, ranks, 2, &set); /* waits in the queue */
    leaving.ended++;
    return NULL;
}

static void body_leaving(struct rank_run *run)
{
    void *(*const calls[])(void *arg) = { make_set, reduce_in_set, make_same_set };
    struct halay_counters counters = { .struct_size = sizeof counters };
    pthread_t threads[3];

    if (run->rank) {
        while (leaving.ended < 3) /* then it leaves: halay_fini of rank 0 waits for it */
            poll(NULL, 0, 1);
        return;
    }
    for (int i = 0; i < 3; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, calls[i], run));
    do
        REQUIRE(halay_counters_read(run->ctx, &counters) == HALAY_OK);
    while (counters.in_flight < 2);
    poll(NULL, 0, 20); /* so that all of them usually wait */
    halay_fini(run->ctx);
    run->ctx = NULL;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(leaving.status[i] == HALAY_ERR_CLOSED, "%d: %d", i, leaving.status[i]);
    }
}

int main(void)
{
    for (uint64_t delay = 0; delay < 3; delay++) {
        ranks_run(3, delay * 7, &(struct rank_run){ .body = body_orders }, NULL, NULL);
        ranks_run(2 + delay % 2, delay * 5, &(struct rank_run){ .body = body_withdrawn, .expected = "" }, NULL, NULL);
    }
    for (uint64_t seed = 1; seed < 4; seed++)
        check_random(2 + (int)(seed % 2), seed);
    ranks_run(3, 0, &(struct rank_run){ .body = body_stall, .configure = configure_stall, .sink = note_stall }, NULL,
              NULL);
    for (int i = 0; i < 10; i++) {
        leaving.ended = 0;
        ranks_run(2, 0, &(struct rank_run){ .body = body_leaving, .expected = "" }, NULL, NULL);
    }
    return test_end();
}
