/* SPDX-License-Identifier: Apache-2.0
 *
 * halay_abort over the fake transport: one rank aborts in a thread of its own while its other threads wait, in a
 * callback, with nothing in flight, or in the midst of data; or several ranks do at once. Every rank's requests end
 * with a text that names the rank. The same happens when one rank has no memory for a result.
 */
#include "tests/fusion/ranks.h"

enum { ABORTER = 1, LARGE = 300000 };

/* Checks the text on a rank that did not abort; several ranks may have aborted. */
static int is_told(const char *text)
{
    int rank;

    return sscanf(text, "rank %d aborted: no more", &rank) == 1 && strstr(text, "aborted: no more") != NULL;
}

static void check_end(const struct rank_run *run, int has_aborted, enum halay_status status, const char *text)
{
    if (has_aborted && status == HALAY_ERR_CANCELED)
        CHECK(!strcmp(text, "aborted: no more"), "'%s'", text);
    else
        CHECK(status == HALAY_ERR_PEER && is_told(text), "rank %d: %s, '%s'", run->rank, halay_status_string(status),
              text);
}

/* Checks that every call fails with that text. */
static void check_over(const struct rank_run *run, int has_aborted)
{
    struct halay_request *request;
    char text[200];
    float x = 1;

    enum halay_status status = halay_context_status(run->ctx, text, sizeof text);
    check_end(run, has_aborted, status, text);
    CHECK(halay_allreduce_async(run->ctx, "later", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == status);
    CHECK(!strcmp(halay_error_text(), text), "'%s', not '%s'", halay_error_text(), text);
    CHECK(halay_abort(run->ctx, "too late") == HALAY_OK);
    atomic_fetch_add((_Atomic int *)run->arg, 1);
    while (atomic_load((_Atomic int *)run->arg) < run->size) /* this transport drops messages of a rank that has left */
        sched_yield();
}

static void *abort_now(void *arg)
{
    struct rank_run *run = arg;

    CHECK(halay_abort(run->ctx, "no more") == HALAY_OK);
    return NULL;
}

static void submit_floats(struct rank_run *run, const char *name, float *data, size_t count,
                          struct halay_request **request)
{
    CHECK(halay_allreduce_async(run->ctx, name, NULL, data, count, HALAY_F32, HALAY_SUM, request) == HALAY_OK);
}

/* The aborting rank may have the end of a barrier before this rank, which has the abort's then. */
static void meet(struct rank_run *run, int aborts)
{
    enum halay_status status = halay_barrier(run->ctx, NULL);

    CHECK(status == HALAY_OK || (!aborts && status == HALAY_ERR_PEER), "%s", halay_error_text());
}

/* All but the last rank wait for a tensor that the last one never submits. */
static void while_waiting(struct rank_run *run)
{
    struct halay_request *request = NULL;
    int is_idle = run->rank == run->size - 1;
    pthread_t thread;
    float x = 1;

    meet(run, run->rank == ABORTER);
    if (run->rank == ABORTER)
        REQUIRE(!pthread_create(&thread, NULL, abort_now, run));
    if (!is_idle && halay_allreduce_async(run->ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK) {
        enum halay_status status = halay_wait(request, -1);
        check_end(run, run->rank == ABORTER, status, halay_request_text(request));
        check_end(run, run->rank == ABORTER, status, halay_error_text());
        halay_request_free(request);
    }
    if (run->rank == ABORTER)
        pthread_join(thread, NULL);
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    check_over(run, run->rank == ABORTER);
}

static void give_up(void *arg, enum halay_status status, const char *text)
{
    CHECK(status == HALAY_OK && !*text);
    abort_now(arg);
}

static void in_callback(struct rank_run *run)
{
    struct halay_request *first, *second;
    float x = 1, y = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "first", .dimensions = 1, .shape = { 1 }, .out = &x
    };

    if (run->rank != ABORTER)
        submit_floats(run, "second", &y, 1, &second);
    CHECK(halay_submit_named(run->ctx, &info, run->rank == ABORTER ? give_up : NULL, run, &first) == HALAY_OK);
    enum halay_status status = halay_wait(first, -1);
    if (status == HALAY_OK)
        CHECK(x == (float)run->size);
    else /* the aborting rank had its sum before this rank */
        check_end(run, 0, status, halay_request_text(first));
    halay_request_free(first);
    if (run->rank != ABORTER) {
        status = halay_wait(second, -1);
        check_end(run, 0, status, halay_request_text(second));
        halay_request_free(second);
    }
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    check_over(run, run->rank == ABORTER);
}

/* A rank that is in no call notices the abort, too. */
static void while_idle(struct rank_run *run)
{
    meet(run, run->rank == ABORTER);
    if (run->rank == ABORTER)
        abort_now(run);
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    check_over(run, run->rank == ABORTER);
}

enum { DATA_KINDS = 4, DATA_PLACES = 7 };

/* Each rank uses memory of its own, of LARGE elements. */
static enum halay_status submit_data(struct rank_run *run, int kind, float *data, struct halay_request **request)
{
    size_t part = LARGE / (size_t)run->size;

    if (kind == 0)
        return halay_allreduce_async(run->ctx, "a", NULL, data, LARGE, HALAY_F32, HALAY_SUM, request);
    if (kind == 1)
        return halay_reduce_async(run->ctx, "r", data + LARGE, data + 2 * LARGE, LARGE, HALAY_F32, HALAY_SUM, 0,
                                  request);
    if (kind == 2)
        return halay_gather_async(run->ctx, "g", data + 3 * LARGE, part, 1, HALAY_F32, data + 4 * LARGE, LARGE, 0,
                                  request);
    return halay_scatter_async(run->ctx, "s", data + 5 * LARGE, NULL, LARGE, 1, HALAY_F32, data + 6 * LARGE, LARGE, 0,
                               request);
}

/* Reduces large tensors one after the other until one ends by the abort. */
static void in_data(struct rank_run *run)
{
    struct halay_request *requests[DATA_KINDS];
    enum halay_status status = HALAY_OK;
    float *data = calloc(DATA_PLACES * LARGE, sizeof *data);

    REQUIRE(data);
    for (int step = 0; status == HALAY_OK; step++) {
        for (int i = 0; i < DATA_KINDS && status == HALAY_OK; i++) {
            requests[i] = NULL;
            status = submit_data(run, i, data, &requests[i]);
        }
        if (run->rank == ABORTER && step == 2)
            abort_now(run);
        for (int i = 0; i < DATA_KINDS && requests[i]; i++) {
            enum halay_status ended = halay_wait(requests[i], -1);
            if (ended != HALAY_OK)
                check_end(run, run->rank == ABORTER, ended, halay_request_text(requests[i]));
            halay_request_free(requests[i]);
            requests[i] = NULL;
            status = status == HALAY_OK ? ended : status;
        }
    }
    free(data);
    check_over(run, run->rank == ABORTER);
}

/* The first abort that is received is reported; an aborting rank reports itself, or that one. */
static void body_several(struct rank_run *run)
{
    meet(run, 0);
    abort_now(run);
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    check_over(run, 1);
}

static void body_arguments(struct rank_run *run)
{
    char text[200], reason[3000];

    CHECK(halay_abort(NULL, "x") == HALAY_ERR_ARGUMENT);
    memset(reason, 'r', sizeof reason);
    reason[sizeof reason - 1] = 0;
    CHECK(halay_abort(run->ctx, run->size == 1 ? NULL : reason) == HALAY_OK);
    while (halay_context_status(run->ctx, text, sizeof text) == HALAY_OK)
        sched_yield();
    CHECK(strstr(text, run->size == 1 ? "aborted: no reason given" : "aborted: rrr") != NULL, "'%s'", text);
}

/* ---- a rank without memory for a result ---- */

enum { ROWS = 3, COLUMNS = 1009 };

void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);

/* The next allocation of this size fails on one rank; 0: none fails. */
static _Atomic size_t failing_bytes;

void *__wrap_malloc(size_t bytes)
{
    size_t failing = bytes;

    return bytes && atomic_compare_exchange_strong(&failing_bytes, &failing, 0) ? NULL : __real_malloc(bytes);
}

static void without_memory(struct rank_run *run)
{
    static const float rows[ROWS * COLUMNS];
    const size_t splits[] = { 1, 1, 1 };
    struct halay_request *request;
    int rank = -1, *is_alltoall = run->arg;
    size_t bytes = 0;

    enum halay_status status =
        *is_alltoall ? halay_alltoall_async(run->ctx, "rows", rows, splits, ROWS, COLUMNS, HALAY_F32, NULL, 0, &request)
                     : halay_allgather_async(run->ctx, "rows", rows, ROWS, COLUMNS, HALAY_F32, NULL, 0, &request);
    REQUIRE(status == HALAY_OK);
    status = halay_wait(request, -1);
    const char *text = halay_request_text(request);
    if (status == HALAY_ERR_NO_MEMORY)
        CHECK(sscanf(text, "tensor 'rows': rank %d has no memory for its result of %zu bytes", &rank, &bytes) == 2 &&
                  rank == run->rank && bytes == sizeof rows * (*is_alltoall ? 1 : 3),
              "'%s'", text);
    else
        CHECK(status == HALAY_ERR_PEER && strstr(text, "rank "), "'%s', '%s'", halay_status_string(status), text);
    halay_request_free(request);
}

static void lose_results(void)
{
    for (int is_alltoall = 0; is_alltoall < 2; is_alltoall++) {
        atomic_store(&failing_bytes, sizeof(float) * ROWS * COLUMNS * (is_alltoall ? 1 : 3));
        ranks_run(3, 0, &(struct rank_run){ .body = without_memory, .arg = &is_alltoall, .expected = "" }, NULL, NULL);
        CHECK(!atomic_load(&failing_bytes), "no rank asked for memory");
    }
}

struct job {
    void (*body)(struct rank_run *run);
    int size;
    uint64_t delay;
    pthread_t thread;
};

static void *run_job(void *arg)
{
    const struct job *job = arg;
    _Atomic int over = 0;

    ranks_run(job->size, job->delay, &(struct rank_run){ .body = job->body, .arg = &over, .expected = "" }, NULL, NULL);
    return NULL;
}

int main(void)
{
    static void (*const bodies[])(struct rank_run * run) = { while_waiting, in_callback, while_idle, in_data,
                                                             body_several };
    enum { SIZE_MOST = 4, DELAYS = 2, JOBS = (SIZE_MOST - 1) * DELAYS };
    struct job jobs[JOBS];

    for (int size = 1; size <= 2; size++)
        ranks_run(size, 0, &(struct rank_run){ .body = body_arguments, .expected = "aborted" }, NULL, NULL);
    /* At the same time: leaving after a failure takes half a second. */
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        for (int k = 0; k < JOBS; k++) {
            jobs[k] = (struct job){ .body = bodies[i], .size = 2 + k / DELAYS, .delay = (uint64_t)(k % DELAYS) };
            REQUIRE(!pthread_create(&jobs[k].thread, NULL, run_job, &jobs[k]));
        }
        for (int k = 0; k < JOBS; k++)
            pthread_join(jobs[k].thread, NULL);
    }
    lose_results();
    return test_end();
}
