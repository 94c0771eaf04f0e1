/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that drive the engine, over the fake transport: a wait keeps its deadline while every step finds work; calls
 * that would block in a callback are refused; a submission receives no messages; deferred wakes are few and recent.
 */
#include "base/clock.h"
#include "fusion/engine/driver.h"
#include "halay_elastic.h"
#include "tests/fusion/ranks.h"
#include <sched.h>
#include <unistd.h>

static int does_waiter_drive(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    int does = ctx->driver->role.driver == HALAY_ROLE_WAITER || ctx->driver->role.driver == HALAY_ROLE_WAITER_ASLEEP;
    pthread_mutex_unlock(&ctx->lock);
    return does;
}

/* ---- a deadline ---- */

enum { DEADLINE_MS = 300, PATIENCE_US = 10 * 1000000 };

/* A tensor of rank 0 alone, which its callback submits again: every step finds work. */
struct endless {
    struct halay_tensor *tensor;
    float data;
    pthread_t waiting;
    int64_t begun_us;
    int is_late; /* the thread that waits, too long */
    _Atomic int is_enough, is_over;
};

static void go_on(void *arg, enum halay_status status, const char *text)
{
    struct endless *e = arg;

    (void)text;
    if (pthread_equal(pthread_self(), e->waiting) && halay_now_us() > e->begun_us + PATIENCE_US)
        e->is_late = 1;
    if (status != HALAY_OK || e->is_late || e->is_enough || halay_submit(e->tensor, go_on, e, NULL) != HALAY_OK)
        e->is_over = 1;
}

static _Atomic int has_waited;

/* The cycle begins when rank 1 submits "begin", so during the wait of rank 0, which then has the role. (On a machine so
 * busy that the wait has ended by then, the engine's own thread drives, and the test shows nothing.) */
static void body_deadline(struct rank_run *run)
{
    struct rank_run *first = run - run->rank; /* ranks_run's array */
    int alone[] = { 0 };
    struct halay_process_set *set = NULL;
    struct halay_request *never, *begin;
    struct endless e = { .waiting = pthread_self() };
    float x = 0;

    REQUIRE(run->rank || halay_process_set_create(run->ctx, alone, 1, &set) == HALAY_OK);
    REQUIRE(halay_barrier(run->ctx, NULL) == HALAY_OK);
    if (run->rank == 1) {
        while (!does_waiter_drive(first->ctx))
            sched_yield();
        CHECK(halay_barrier(run->ctx, "begin") == HALAY_OK);
        while (!has_waited)
            sched_yield();
        CHECK(halay_allreduce(run->ctx, "never", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
        return;
    }
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "endless", .dimensions = 1, .shape = { 1 }, .out = &e.data, .set = set
    };
    REQUIRE(halay_register(run->ctx, &info, &e.tensor) == HALAY_OK);
    CHECK(halay_allreduce_async(run->ctx, "never", NULL, &x, 1, HALAY_F32, HALAY_SUM, &never) == HALAY_OK);
    info = (struct halay_tensor_info){ .struct_size = sizeof info, .name = "begin", .collective = HALAY_BARRIER };
    CHECK(halay_submit_named(run->ctx, &info, go_on, &e, &begin) == HALAY_OK);
    e.begun_us = halay_now_us();
    CHECK(halay_wait(never, DEADLINE_MS) == HALAY_ERR_TIMEOUT);
    CHECK(!e.is_late, "a wait of %d ms has not ended after %d s", DEADLINE_MS, PATIENCE_US / 1000000);
    has_waited = 1;
    CHECK(halay_wait(never, -1) == HALAY_OK);
    e.is_enough = 1;
    while (!e.is_over)
        sched_yield();
    halay_request_free(never);
    halay_request_free(begin);
    CHECK(halay_unregister(e.tensor) == HALAY_OK);
}

/* ---- in a callback ---- */

struct called {
    struct halay_context *ctx;
    struct halay_process_set *set;
    struct halay_request *pending, *ended;
    _Atomic int times;
};

static void try_to_block(void *arg, enum halay_status status, const char *text)
{
    struct called *c = arg;
    struct halay_context *ctx = c->ctx;
    struct halay_process_set *set;
    int ranks[] = { halay_rank(ctx) };
    float x = 0;

    (void)text;
    int is_pending = halay_test(c->pending) == HALAY_IN_PROGRESS; /* not where all requests end at once */
    const enum halay_status said[] = {
        is_pending ? halay_wait(c->pending, -1) : HALAY_ERR_UNSUPPORTED,
        is_pending ? halay_wait(c->pending, 0) : HALAY_ERR_UNSUPPORTED,
        halay_allreduce(ctx, "in a callback", NULL, &x, 1, HALAY_F32, HALAY_SUM),
        halay_barrier(ctx, "in a callback"),
        halay_join(ctx, NULL),
        halay_process_set_create(ctx, ranks, 1, &set),
        halay_process_set_remove(c->set),
        halay_elastic_begin(ctx, NULL),
        halay_elastic_commit(ctx, NULL),
        halay_elastic_restore(ctx, NULL),
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        CHECK(said[i] == HALAY_ERR_UNSUPPORTED, "call %zu: %s", i, halay_status_string(said[i]));
    CHECK(halay_wait(c->ended, -1) == HALAY_OK, "it has ended, so it does not block");
    CHECK(is_pending || status != HALAY_OK);
    halay_fini(ctx); /* has no effect */
    CHECK(halay_size(ctx) == 2);
    c->times++;
}

static struct called called[2]; /* [rank] */

/* In callbacks on the engine's thread, on a waiting thread and, by the request that no other rank submits, in
 * halay_fini. */
static void body_callback(struct rank_run *run)
{
    struct called *c = &called[run->rank];
    struct halay_tensor_info info = { .struct_size = sizeof info, .name = "calls back", .collective = HALAY_BARRIER };
    const char *own[] = { "rank 0 alone", "rank 1 alone" };
    int ranks[] = { 0, 1 };

    c->ctx = run->ctx;
    REQUIRE(halay_process_set_create(run->ctx, ranks, 2, &c->set) == HALAY_OK);
    REQUIRE(halay_barrier_async(run->ctx, "ends", &c->ended) == HALAY_OK);
    REQUIRE(halay_wait(c->ended, -1) == HALAY_OK);
    REQUIRE(halay_barrier_async(run->ctx, own[run->rank], &c->pending) == HALAY_OK);
    CHECK(halay_submit_named(run->ctx, &info, try_to_block, c, NULL) == HALAY_OK);
    while (c->times < 1)
        sched_yield();
    struct halay_request *request;
    CHECK(halay_submit_named(run->ctx, &info, try_to_block, c, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK && c->times == 2);
    halay_request_free(request);
    info.name = own[!run->rank];
    info.set = c->set; /* not the tensor of all ranks */
    CHECK(halay_submit_named(run->ctx, &info, try_to_block, c, NULL) == HALAY_OK);
    CHECK(halay_barrier(run->ctx, "before anybody leaves") == HALAY_OK);
}

static void check_callbacks(void)
{
    ranks_run(2, 0, &(struct rank_run){ .body = body_callback, .expected = "" }, NULL, NULL);
    for (int r = 0; r < 2; r++)
        CHECK(called[r].times == 3, "rank %d: %d callbacks", r, called[r].times);
}

/* ---- a submission ---- */

/* The control transport of a rank, and the thread that must not use it. */
struct watched {
    struct halay_link_ops ops;
    const struct halay_link_ops *true_ops;
    _Atomic pthread_t submitter; /* 0: no thread submits */
    _Atomic int calls;           /* its calls of the transport */
};

static struct watched watched[2]; /* [rank] */

static enum halay_status progress_watched(struct halay_link *link)
{
    struct watched *w = &watched[link->rank];

    w->calls += w->submitter == pthread_self();
    return w->true_ops->progress(link);
}

static void send_watched(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                         struct halay_transfer *x)
{
    struct watched *w = &watched[link->rank];

    w->calls += w->submitter == pthread_self();
    w->true_ops->send(link, peer, tag, buf, bytes, x);
}

static void watch_link(struct rank_run *run, struct halay_config *config)
{
    struct halay_world *world = (struct halay_world *)((char *)config - offsetof(struct halay_world, config));
    struct watched *w = &watched[run->rank];

    w->true_ops = world->data->ops;
    w->ops = *w->true_ops;
    w->ops.progress = progress_watched;
    w->ops.send = send_watched;
    world->data->ops = &w->ops;
}

static int is_asleep(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    int sleeps = halay_role_thread_sleeps(ctx->driver->role);
    pthread_mutex_unlock(&ctx->lock);
    return sleeps;
}

static void count_end(void *arg, enum halay_status status, const char *text)
{
    (void)text;
    CHECK(status == HALAY_OK);
    ++*(_Atomic int *)arg;
}

/*
 * A submission neither sends nor receives: it wakes the engine's thread, which sleeps here. With a callback, so that no
 * wait is expected.
 */
static void body_submission(struct rank_run *run)
{
    enum { TIMES = 50, COUNT = 5000 };
    static float data[2][COUNT];
    struct watched *w = &watched[run->rank];
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "x", .dimensions = 1, .shape = { COUNT }, .out = data[run->rank]
    };
    _Atomic int ended = 0;

    for (int i = 0; i < TIMES; i++) {
        CHECK(halay_barrier(run->ctx, "together") == HALAY_OK);
        while (!is_asleep(run->ctx))
            sched_yield();
        w->submitter = pthread_self();
        CHECK(halay_submit_named(run->ctx, &info, count_end, &ended, NULL) == HALAY_OK);
        w->submitter = 0;
        while (ended <= i)
            sched_yield();
    }
}

static void check_submissions(void)
{
    ranks_run(2, 0, &(struct rank_run){ .body = body_submission, .configure_rank = watch_link }, NULL, NULL);
    for (int r = 0; r < 2; r++)
        CHECK(!watched[r].calls, "rank %d: %d calls of the transport", r, watched[r].calls);
}

/* ---- deferred wakes ---- */

enum { DEFERRED_ROUNDS = 8 };

/* Submissions whose wake is deferred: their number and bytes. */
static size_t count_deferred(struct halay_context *ctx, size_t *bytes)
{
    pthread_mutex_lock(&ctx->lock);
    size_t count = ctx->driver->is_wake_deferred ? ctx->queue.submitted.count : 0;
    *bytes = 0;
    for (size_t i = 0; i < count; i++)
        *bytes += ctx->queue.submitted.events[i].request->bytes;
    pthread_mutex_unlock(&ctx->lock);
    return count;
}

struct burst {
    size_t tensors, bytes; /* of each tensor */
};

/* Tensors that were always followed at once by another submission or a wait. After the last of them the program does
 * something else. The deferred submissions are then recent, and have few bytes. */
static void body_deferred(struct rank_run *run)
{
    const struct burst *burst = run->arg;
    struct halay_tensor **tensors = calloc(burst->tensors, sizeof *tensors);
    struct halay_request **requests = calloc(burst->tensors, sizeof *requests);
    int64_t *began_us = calloc(burst->tensors, sizeof *began_us), *ended_us = calloc(burst->tensors, sizeof *ended_us);
    void *data = calloc(1, burst->bytes);
    char name[32];

    REQUIRE(tensors && requests && began_us && ended_us && data);
    for (size_t i = 0; i < burst->tensors; i++) {
        snprintf(name, sizeof name, "burst %zu", i);
        struct halay_tensor_info info = { .struct_size = sizeof info, .name = name, .collective = HALAY_BROADCAST };
        info.dimensions = 1;
        info.shape[0] = burst->bytes / sizeof(float);
        info.out = data;
        REQUIRE(halay_register(run->ctx, &info, &tensors[i]) == HALAY_OK);
    }
    for (int round = 0; round < DEFERRED_ROUNDS; round++) {
        size_t bytes = 0;
        for (size_t i = 0; i < burst->tensors; i++) {
            began_us[i] = halay_now_us();
            CHECK(halay_submit(tensors[i], NULL, NULL, &requests[i]) == HALAY_OK);
            ended_us[i] = halay_now_us();
        }
        size_t deferred = round < DEFERRED_ROUNDS / 2 ? 0 : count_deferred(run->ctx, &bytes), last = burst->tensors - 1;
        CHECK(!deferred || began_us[last] - ended_us[burst->tensors - deferred] < HALAY_DEFERRED_US,
              "the wakes of %zu tensors are deferred", deferred);
        CHECK(deferred < 2 || bytes <= HALAY_DEFERRED_BYTES, "%zu bytes are deferred", bytes);
        for (size_t i = 0; i < burst->tensors; i++) {
            CHECK(halay_wait(requests[i], -1) == HALAY_OK);
            halay_request_free(requests[i]);
        }
    }
    for (size_t i = 0; i < burst->tensors; i++)
        CHECK(halay_unregister(tensors[i]) == HALAY_OK);
    free(data);
    free(ended_us);
    free(began_us);
    free(requests);
    free(tensors);
}

static void check_deferred(struct burst burst)
{
    ranks_run(1, 0, &(struct rank_run){ .body = body_deferred, .arg = &burst }, NULL, NULL);
}

int main(void)
{
    alarm(300);
    ranks_run(2, 0, &(struct rank_run){ .body = body_deadline }, NULL, NULL);
    check_callbacks();
    check_submissions();
    check_deferred((struct burst){ .tensors = 2000, .bytes = 4 });
    check_deferred((struct burst){ .tensors = 20, .bytes = HALAY_DEFERRED_BYTES / 4 });
    return test_end();
}
