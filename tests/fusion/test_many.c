/* SPDX-License-Identifier: Apache-2.0
 *
 * Several requests at once: halay_submit_many accepts all or none, halay_wait_all and halay_wait_any report which
 * requests have ended and their statuses, and the completion descriptor wakes an event loop. Ranks are threads, over
 * the fake transport.
 */
#include "tests/fusion/ranks.h"
#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { MANY = 300, COUNT = 5, LONG_MS = 60000 };

static void fill_infos(float *data, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(rank + 1) + (float)i;
}

static int is_sum(const float *data, size_t count, int size)
{
    for (size_t i = 0; i < count; i++)
        if (data[i] != (float)(size * (size + 1) / 2) + (float)size * (float)i)
            return 0;
    return 1;
}

static struct halay_tensor *add_tensor(struct rank_run *run, const char *name, float *data)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = name,
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F32,
                                      .dimensions = 1,
                                      .shape = { COUNT },
                                      .out = data };
    struct halay_tensor *tensor = NULL;

    REQUIRE(halay_register(run->ctx, &info, &tensor) == HALAY_OK);
    return tensor;
}

static void add_tensors(struct rank_run *run, size_t count, float data[][COUNT], struct halay_tensor **tensors)
{
    char name[32];

    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "many.%zu", i);
        tensors[i] = add_tensor(run, name, data[i]);
    }
}

static void free_requests(struct halay_request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        halay_request_free(requests[i]);
        requests[i] = NULL;
    }
}

/* ---- all at once ---- */

static void count_call(void *arg, enum halay_status status, const char *text)
{
    (void)text;
    if (status == HALAY_OK)
        atomic_fetch_add((_Atomic size_t *)arg, 1);
}

static void body_together(struct rank_run *run)
{
    static const size_t counts[] = { 0, 1, 2, 7, MANY };
    static float all[RANKS_MAX][MANY][COUNT];
    float(*data)[COUNT] = all[run->rank];
    struct halay_tensor *tensors[MANY];
    struct halay_request *requests[MANY] = { NULL };
    _Atomic size_t calls;

    add_tensors(run, MANY, data, tensors);
    for (size_t k = 0; k < 2 * sizeof counts / sizeof *counts; k++) {
        size_t count = counts[k / 2];
        atomic_store(&calls, 0);
        for (size_t i = 0; i < count; i++)
            fill_infos(data[i], COUNT, run->rank);
        CHECK(halay_submit_many(tensors, count, k % 2 ? count_call : NULL, &calls, requests) == HALAY_OK);
        CHECK(halay_wait_all(requests, MANY, LONG_MS) == HALAY_OK, "the rest is NULL");
        CHECK(halay_wait_all(requests, count, 0) == HALAY_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(is_sum(data[i], COUNT, run->size) && halay_test(requests[i]) == HALAY_OK);
        CHECK(calls == (k % 2 ? count : 0), "%zu of %zu callbacks", (size_t)calls, count);
        free_requests(requests, MANY);
    }
    fill_infos(data[0], COUNT, run->rank);
    atomic_store(&calls, 0);
    CHECK(halay_submit_many(tensors, 1, count_call, &calls, NULL) == HALAY_OK); /* the program wants no requests */
    while (!calls)
        sched_yield();
}

/* ---- all or none ---- */

static void body_refused(struct rank_run *run)
{
    float data[4][COUNT], other_data[COUNT];
    struct halay_tensor *tensors[4], *twice[4], *mixed[2];
    struct halay_request *first, *untouched = (void *)data, *requests[4];
    struct halay_counters before = { .struct_size = sizeof before }, after = before;
    struct rank_run other = { .size = 1 };
    _Atomic size_t calls = 0;

    add_tensors(run, 4, data, tensors);
    memcpy(twice, tensors, sizeof twice);
    twice[3] = tensors[1];
    for (int i = 0; i < 4; i++)
        requests[i] = untouched;
    CHECK(halay_submit(tensors[2], NULL, NULL, &first) == HALAY_OK);
    CHECK(halay_counters_read(run->ctx, &before) == HALAY_OK);
    CHECK(halay_submit_many(twice, 4, count_call, &calls, requests) == HALAY_ERR_DUPLICATE); /* in flight, or ended */
    twice[2] = tensors[0];
    CHECK(halay_submit_many(twice, 4, count_call, &calls, requests) == HALAY_ERR_DUPLICATE);
    CHECK(halay_submit_many(NULL, 4, count_call, &calls, requests) == HALAY_ERR_ARGUMENT);
    CHECK(halay_submit_many(tensors, 4, NULL, NULL, NULL) == HALAY_ERR_ARGUMENT);
    CHECK(halay_counters_read(run->ctx, &after) == HALAY_OK && after.submissions == before.submissions);
    for (int i = 0; i < 4; i++)
        CHECK(requests[i] == untouched);
    CHECK(halay_wait(first, LONG_MS) == HALAY_OK);
    halay_request_free(first);
    CHECK(calls == 0);
    CHECK(halay_submit_many(tensors, 4, NULL, NULL, requests) == HALAY_OK, "refused submissions left no trace");
    CHECK(halay_wait_all(requests, 4, LONG_MS) == HALAY_OK);

    REQUIRE(halay_init(&(struct halay_options){ .struct_size = sizeof(struct halay_options), .bootstrap = "self" },
                       &other.ctx) == HALAY_OK);
    mixed[0] = tensors[0];
    mixed[1] = add_tensor(&other, "elsewhere", other_data);
    CHECK(halay_submit_many(mixed, 2, count_call, &calls, NULL) == HALAY_ERR_ARGUMENT);
    CHECK(halay_submit(mixed[1], NULL, NULL, &first) == HALAY_OK);
    CHECK(halay_wait_all((struct halay_request *[]){ requests[0], first }, 2, 0) == HALAY_ERR_ARGUMENT);
    halay_request_free(first);
    free_requests(requests, 4);
    halay_fini(other.ctx);
}

/* ---- errors and time-outs ---- */

static void body_errors(struct rank_run *run)
{
    float data[4][COUNT] = { { 0 } };
    struct halay_request *requests[5] = { NULL };
    char name[32];
    size_t index = 99;

    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "error.%zu", i); /* number 1 differs in its type, number 2 in its length */
        CHECK(halay_allreduce_async(run->ctx, name, NULL, data[i], i == 2 && run->rank ? 1 : 2,
                                    i == 1 && run->rank ? HALAY_I32 : HALAY_F32, HALAY_SUM,
                                    &requests[i + 1]) == HALAY_OK);
    }
    CHECK(halay_wait_all(requests, 5, LONG_MS) == (run->size > 1 ? HALAY_ERR_MISMATCH : HALAY_OK));
    CHECK(halay_wait_all(requests, 2, LONG_MS) == HALAY_OK);
    CHECK(halay_test(requests[4]) == HALAY_OK, "all have ended");
    CHECK(halay_wait_any(requests, 5, 0, &index) == HALAY_OK && index == 1, "index %zu", index);
    CHECK(halay_wait_any(requests + 2, 3, 0, &index) == halay_test(requests[2]) && index == 0, "index %zu", index);
    CHECK(halay_wait_any(requests, 1, 0, &index) == HALAY_ERR_ARGUMENT && index == 0, "none but NULL");
    CHECK(halay_wait_any(requests, 0, 0, &index) == HALAY_ERR_ARGUMENT);
    CHECK(halay_wait_any(NULL, 2, 0, &index) == HALAY_ERR_ARGUMENT);
    CHECK(halay_wait_all(NULL, 2, 0) == HALAY_ERR_ARGUMENT && halay_wait_all(NULL, 0, 0) == HALAY_OK);
    free_requests(requests, 5);
}

/* ---- any ---- */

/* Rank 0 submits a and b; the others submit b, and a when rank 0 has noticed the end of b. */
static void body_any(struct rank_run *run)
{
    float a[COUNT], b[COUNT];
    _Atomic int *is_seen = run->arg;
    struct halay_request *requests[3] = { NULL };
    size_t index = 99;

    if (run->size == 1)
        return;
    for (int round = 0; round < 50; round++) {
        fill_infos(a, COUNT, run->rank);
        fill_infos(b, COUNT, run->rank);
        if (run->rank == 0)
            CHECK(halay_allreduce_async(run->ctx, "a", NULL, a, COUNT, HALAY_F32, HALAY_SUM, &requests[0]) == HALAY_OK);
        CHECK(halay_allreduce_async(run->ctx, "b", NULL, b, COUNT, HALAY_F32, HALAY_SUM, &requests[2]) == HALAY_OK);
        CHECK(halay_wait_any(requests, 3, LONG_MS, &index) == HALAY_OK && index == 2, "index %zu", index);
        CHECK(is_sum(b, COUNT, run->size));
        if (run->rank == 0) {
            CHECK(halay_wait_any(requests, 2, 0, &index) == HALAY_ERR_TIMEOUT && index == 2, "index %zu", index);
            CHECK(halay_wait_all(requests, 3, 0) == HALAY_ERR_TIMEOUT);
            atomic_store(is_seen, round + 1);
        } else {
            while (atomic_load(is_seen) <= round)
                sched_yield();
            CHECK(halay_allreduce_async(run->ctx, "a", NULL, a, COUNT, HALAY_F32, HALAY_SUM, &requests[0]) == HALAY_OK);
        }
        halay_request_free(requests[2]);
        requests[2] = NULL;
        CHECK(halay_wait_any(requests, 3, LONG_MS, &index) == HALAY_OK && index == 0, "index %zu", index);
        CHECK(is_sum(a, COUNT, run->size));
        free_requests(requests, 3);
    }
}

/* ---- several threads ---- */

enum { THREADS = 3, OF_EACH = 20, ROUNDS = 30 };

struct worker {
    struct rank_run *run;
    int number;
    float data[OF_EACH][COUNT];
};

/* One thread waits for all, another for one after the other, the third counts by a callback. */
static void *run_thread(void *arg)
{
    struct worker *w = arg;
    struct halay_tensor *tensors[OF_EACH];
    struct halay_request *requests[OF_EACH];
    char name[32];

    for (size_t i = 0; i < OF_EACH; i++) {
        snprintf(name, sizeof name, "worker.%d.%zu", w->number, i);
        tensors[i] = add_tensor(w->run, name, w->data[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        _Atomic size_t calls = 0;
        size_t index = 0;
        for (size_t i = 0; i < OF_EACH; i++)
            fill_infos(w->data[i], COUNT, w->run->rank);
        CHECK(halay_submit_many(tensors, OF_EACH, w->number == 2 ? count_call : NULL, &calls, requests) == HALAY_OK);
        for (int i = 0; w->number == 1 && i < OF_EACH; i++) {
            CHECK(halay_wait_any(requests, OF_EACH, LONG_MS, &index) == HALAY_OK && index < OF_EACH);
            CHECK(is_sum(w->data[index], COUNT, w->run->size));
            halay_request_free(requests[index]);
            requests[index] = NULL;
        }
        CHECK(halay_wait_all(requests, OF_EACH, LONG_MS) == HALAY_OK);
        CHECK(calls == (w->number == 2 ? OF_EACH : 0));
        for (size_t i = 0; i < OF_EACH; i++)
            CHECK(is_sum(w->data[i], COUNT, w->run->size));
        free_requests(requests, OF_EACH);
    }
    return NULL;
}

static void body_threads(struct rank_run *run)
{
    static struct worker all[RANKS_MAX][THREADS];
    struct worker *workers = all[run->rank];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i].run = run;
        workers[i].number = i;
        REQUIRE(!pthread_create(&threads[i], NULL, run_thread, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_join(threads[i], NULL));
}

/* ---- in a callback ---- */

struct within {
    struct halay_request *pending;
    enum halay_status all, any;
    _Atomic int is_over;
};

static void wait_within(void *arg, enum halay_status status, const char *text)
{
    struct within *w = arg;
    size_t index;

    (void)status, (void)text;
    w->all = halay_wait_all(&w->pending, 1, LONG_MS);
    w->any = halay_wait_any(&w->pending, 1, LONG_MS, &index);
    atomic_store(&w->is_over, 1);
}

static void body_within(struct rank_run *run)
{
    struct within w = { .pending = NULL };
    float first[COUNT] = { 0 }, late[COUNT] = { 0 };
    struct halay_tensor *tensor = add_tensor(run, "first", first);

    if (run->size == 1)
        return;
    if (run->rank == 0) {
        CHECK(halay_allreduce_async(run->ctx, "late", NULL, late, 1, HALAY_F32, HALAY_SUM, &w.pending) == HALAY_OK);
        CHECK(halay_submit_many(&tensor, 1, wait_within, &w, NULL) == HALAY_OK);
        while (!atomic_load(&w.is_over))
            sched_yield();
        CHECK(w.all == HALAY_ERR_UNSUPPORTED && w.any == HALAY_ERR_UNSUPPORTED);
    } else {
        CHECK(halay_allreduce(run->ctx, "first", NULL, first, COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK);
    }
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    if (run->rank)
        CHECK(halay_allreduce(run->ctx, "late", NULL, late, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    else
        CHECK(halay_wait_all(&w.pending, 1, LONG_MS) == HALAY_OK);
    halay_request_free(w.pending);
}

/* ---- the descriptor ---- */

static int is_readable(int fd, int timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, timeout_ms) == 1;
}

static void body_descriptor(struct rank_run *run)
{
    _Atomic int *is_seen = run->arg;
    float data[COUNT];
    struct halay_request *request;
    uint64_t ends;

    /* A wake is deferred for programs that always wait at once: an event loop must not wait for it. */
    for (int i = 0; i < 10; i++)
        CHECK(halay_allreduce(run->ctx, "x", NULL, data, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    for (int i = 0; i < 10; i++) {
        CHECK(halay_allreduce_async(run->ctx, "y", NULL, data, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
        CHECK(halay_wait(request, LONG_MS) == HALAY_OK);
        halay_request_free(request);
    }
    CHECK(halay_allreduce_async(run->ctx, "y", NULL, data, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    int fd = halay_completion_fd(run->ctx);
    CHECK(fd >= 0 && halay_completion_fd(run->ctx) == fd && halay_completion_fd(NULL) == -1);
    CHECK(is_readable(fd, 0), "from the start");
    for (int round = 0; round < 50; round++) {
        while (halay_test(request) == HALAY_IN_PROGRESS) {
            CHECK(is_readable(fd, LONG_MS));
            CHECK(read(fd, &ends, sizeof ends) == sizeof ends);
        }
        CHECK(halay_test(request) == HALAY_OK);
        halay_request_free(request);
        CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK); /* nothing more ends until rank 0 continues */
        CHECK(is_readable(fd, LONG_MS) && read(fd, &ends, sizeof ends) == sizeof ends);
        CHECK(!is_readable(fd, 0) && read(fd, &ends, sizeof ends) < 0 && errno == EAGAIN, "read is read");
        atomic_fetch_add(is_seen, 1);
        while (atomic_load(is_seen) < (round + 1) * run->size)
            sched_yield();
        fill_infos(data, COUNT, run->rank);
        CHECK(halay_allreduce_async(run->ctx, "y", NULL, data, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    }
    CHECK(halay_wait(request, LONG_MS) == HALAY_OK && is_sum(data, 1, run->size));
    halay_request_free(request);
}

int main(void)
{
    for (int size = 1; size <= 4; size++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            _Atomic int is_seen = 0, is_seen_too = 0;
            ranks_run(size, delay * 31, &(struct rank_run){ .body = body_together }, NULL, NULL);
            ranks_run(size, delay * 32, &(struct rank_run){ .body = body_refused, .expected = "in flight already" },
                      NULL, NULL);
            ranks_run(size, delay * 33, &(struct rank_run){ .body = body_errors, .expected = "error." }, NULL, NULL);
            ranks_run(size, delay * 34, &(struct rank_run){ .body = body_any, .arg = &is_seen }, NULL, NULL);
            ranks_run(size, delay * 35, &(struct rank_run){ .body = body_threads }, NULL, NULL);
            ranks_run(size, delay * 36, &(struct rank_run){ .body = body_within, .expected = "" }, NULL, NULL);
            ranks_run(size, delay * 37, &(struct rank_run){ .body = body_descriptor, .arg = &is_seen_too }, NULL, NULL);
        }
    return test_end();
}
