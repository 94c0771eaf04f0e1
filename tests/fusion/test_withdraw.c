/* SPDX-License-Identifier: Apache-2.0
 *
 * Cancel and time-outs over the fake transport: random ones, of every kind of tensor, with the same outcome on all
 * ranks; and single cases: texts, a rank that is late, one that dies, callbacks, a tensor that has begun, a rank that
 * has joined, a time-out that only a failure can end. usage: test_withdraw [SEED]
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <poll.h>

enum { ROUNDS = 150, SMALL = 20, LARGE = 3000 };

/* ---- random ---- */

enum kind { BY_NAME, LARGE_BY_NAME, REGISTERED, GROUP, IN_SET, BARRIER, ROWS, REDUCED, GATHERED, SCATTERED, KINDS };

struct history {
    uint64_t seed;
    enum halay_deterministic mode;
    enum halay_status status[RANKS_MAX][KINDS][ROUNDS];
};

static void configure_rank(struct halay_config *config, void *arg)
{
    config->deterministic = ((const struct history *)arg)->mode;
}

struct job {
    struct rank_run *run;
    struct random random;
    struct halay_process_set *set;
    struct halay_tensor *tensor;
    float data[KINDS][LARGE], rows[RANKS_MAX * 2], reduced[SMALL];
    struct halay_member members[2];
};

static struct halay_tensor_info describe_tensor(struct job *job, enum kind kind)
{
    static const char *const names[] = { "small",   "large", "registered", "group",    "set",
                                         "barrier", "rows",  "reduced",    "gathered", "scattered" };
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = names[kind],
                                      .dimensions = 1,
                                      .shape = { kind == LARGE_BY_NAME ? LARGE : SMALL },
                                      .out = job->data[kind],
                                      .set = kind == IN_SET ? job->set : NULL };

    if (kind == GROUP) {
        job->members[0] = (struct halay_member){ .out = job->data[kind], .dimensions = 1, .shape = { SMALL } };
        job->members[1] =
            (struct halay_member){ .out = job->data[kind] + 1000, .dtype = HALAY_I32, .dimensions = 1, .shape = { 5 } };
        info.members = job->members;
        info.member_count = 2;
        info.member_bytes = sizeof *job->members;
    } else if (kind == BARRIER) {
        info.collective = HALAY_BARRIER;
    } else if (kind >= ROWS && kind != REDUCED) {
        info.collective = kind == ROWS ? HALAY_ALLGATHER : kind == GATHERED ? HALAY_GATHER : HALAY_SCATTER;
        info.shape[0] = 2;
        info.in = job->data[kind];
        info.out = job->rows;
        info.out_bytes = sizeof job->rows;
    } else if (kind == REDUCED) {
        info.collective = HALAY_REDUCE;
        info.in = job->data[kind];
        info.out = job->reduced;
    }
    info.root = kind > ROWS ? job->run->size - 1 : 0;
    return info;
}

static void pause_randomly(struct job *job)
{
    for (uint64_t n = random_below(&job->random, 4) ? random_below(&job->random, 20) : 0; n; n--)
        sched_yield();
    if (!random_below(&job->random, 12))
        poll(NULL, 0, (int)random_below(&job->random, 3));
}

/* Submits a tensor, and perhaps withdraws it. */
static enum halay_status submit_once(struct job *job, enum kind kind, int may_withdraw)
{
    struct halay_tensor_info info = describe_tensor(job, kind);
    struct halay_request *request;
    int withdraws = may_withdraw ? (int)random_below(&job->random, 6) : 0;

    for (int i = 0; i < SMALL; i++)
        job->data[kind][i] = (float)(job->run->rank + i);
    if (withdraws == 1 && kind != REGISTERED)
        info.timeout_ms = 1;
    pause_randomly(job);
    if (kind == REGISTERED)
        CHECK(halay_submit(job->tensor, NULL, NULL, &request) == HALAY_OK);
    else
        CHECK(halay_submit_named(job->run->ctx, &info, NULL, NULL, &request) == HALAY_OK, "%s", halay_error_text());
    if (withdraws > 3) {
        pause_randomly(job);
        CHECK(halay_cancel(request) == HALAY_OK);
    }
    enum halay_status status = halay_wait(request, 60000);
    CHECK(status == HALAY_OK || (*halay_request_text(request) && strstr(halay_request_text(request), info.name)),
          "'%s'", halay_request_text(request));
    CHECK(status != HALAY_OK || kind >= BARRIER ||
              job->data[kind][1] == (float)(job->run->size * (job->run->size + 1)) / 2,
          "%s: %g", info.name, (double)job->data[kind][1]);
    CHECK(status == HALAY_OK || job->data[kind][1] == (float)(job->run->rank + 1), "%s was touched", info.name);
    CHECK(status != HALAY_OK || kind != REDUCED || job->run->rank != info.root ||
              job->reduced[1] == (float)(job->run->size * (job->run->size + 1)) / 2,
          "%s: %g", info.name, (double)job->reduced[1]);
    halay_request_free(request);
    return status;
}

static void at_random(struct rank_run *run)
{
    struct history *history = run->arg;
    struct job job = { .run = run, .random = { history->seed * 1000 + (uint64_t)run->rank } };
    int all[RANKS_MAX];

    for (int r = 0; r < run->size; r++)
        all[r] = r;
    CHECK(halay_process_set_create(run->ctx, all, (size_t)run->size, &job.set) == HALAY_OK);
    struct halay_tensor_info info = describe_tensor(&job, REGISTERED);
    info.timeout_ms = run->rank == 1 ? 2 : 0;
    CHECK(halay_register(run->ctx, &info, &job.tensor) == HALAY_OK);
    for (int round = 0; round < ROUNDS; round++)
        for (enum kind kind = 0; kind < KINDS; kind++)
            history->status[run->rank][kind][round] = submit_once(&job, kind, round > 3);
    CHECK(halay_barrier(run->ctx, "at last") == HALAY_OK);
}

static void run_at_random(int size, uint64_t seed, enum halay_deterministic mode)
{
    struct history history = { .seed = seed, .mode = mode };
    size_t withdrawn = 0;

    ranks_run(size, seed % 3 ? seed : 0,
              &(struct rank_run){ .body = at_random, .arg = &history, .configure = configure_rank, .expected = "" },
              NULL, NULL);
    for (int kind = 0; kind < KINDS; kind++)
        for (int round = 0; round < ROUNDS; round++)
            for (int r = 0; r < size; r++) {
                enum halay_status status = history.status[r][kind][round];
                withdrawn += status != HALAY_OK;
                CHECK(status == history.status[0][kind][round], "kind %d, round %d: %s on rank %d, %s on rank 0", kind,
                      round, halay_status_string(status), r, halay_status_string(history.status[0][kind][round]));
            }
    CHECK(withdrawn > 0);
}

/* ---- one by one ---- */

static void submit_tensor(struct rank_run *run, const char *name, float *data, int timeout_ms, halay_callback callback,
                          void *arg, struct halay_request **request)
{
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = name, .dimensions = 1, .shape = { 1 }, .out = data, .timeout_ms = timeout_ms
    };

    CHECK(halay_submit_named(run->ctx, &info, callback, arg, request) == HALAY_OK, "%s", halay_error_text());
}

static void expect_end(struct halay_request *request, enum halay_status want, const char *text)
{
    enum halay_status status = halay_wait(request, -1);

    CHECK(status == want, "%s, not %s", halay_status_string(status), halay_status_string(want));
    CHECK(!strcmp(halay_request_text(request), text), "'%s', not '%s'", halay_request_text(request), text);
    CHECK(want == HALAY_OK || !strcmp(halay_error_text(), text), "'%s'", halay_error_text());
    halay_request_free(request);
}

static void reduce_name(struct rank_run *run, const char *name)
{
    float x = 1;

    CHECK(halay_allreduce(run->ctx, name, NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK && x == (float)run->size,
          "'%s': %s", name, halay_error_text());
}

/* Ranks 1 and 2 submit after the time-out: they get the same error, and the next submission succeeds. */
static void body_late(struct rank_run *run)
{
    const char *want = run->size == 2 ? "tensor 'x': timed out after 0.02 s on rank 0; not submitted by rank 1"
                                      : "tensor 'x': timed out after 0.02 s on rank 0; not submitted by ranks 1, 2";
    struct halay_request *request;
    float x = 1;

    for (int i = 0; i < 6; i++) {
        if (run->rank == 0) {
            submit_tensor(run, "x", &x, 20, NULL, NULL, &request);
            expect_end(request, HALAY_ERR_TIMEOUT, want);
        }
        reduce_name(run, "go");
        if (run->rank) {
            submit_tensor(run, "x", &x, 0, NULL, NULL, &request);
            expect_end(request, HALAY_ERR_TIMEOUT, want);
        }
        for (int k = 0; k < i; k++)
            reduce_name(run, "x");
    }
}

/* Rank 0 withdraws the tensor twice before the other ranks submit it for the first time. */
static void body_twice(struct rank_run *run)
{
    struct halay_request *request;
    float x = 1;

    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2 && run->rank == 0; k++) {
            submit_tensor(run, "x", &x, 0, NULL, NULL, &request);
            CHECK(halay_cancel(request) == HALAY_OK && halay_cancel(request) == HALAY_OK);
            CHECK(halay_wait(request, -1) == HALAY_ERR_CANCELED);
            CHECK(halay_cancel(request) == HALAY_OK, "it has ended");
            halay_request_free(request);
        }
        reduce_name(run, "go");
        for (int k = 0; k < 2 && run->rank; k++) {
            submit_tensor(run, "x", &x, 0, NULL, NULL, &request);
            CHECK(halay_wait(request, -1) == HALAY_ERR_CANCELED);
            halay_request_free(request);
        }
        reduce_name(run, "x");
        reduce_name(run, "x");
        reduce_name(run, "x");
    }
}

struct called {
    struct halay_request *request;
    _Atomic int count;
};

static void count_cancel(void *arg, enum halay_status status, const char *text)
{
    CHECK(status == HALAY_ERR_CANCELED && strstr(text, "tensor 'y': canceled by rank 0"), "'%s'", text);
    atomic_fetch_add(&((struct called *)arg)->count, 1);
}

/* The callback of one request cancels the other one. */
static void cancel_other(void *arg, enum halay_status status, const char *text)
{
    struct called *called = arg;

    CHECK(status == HALAY_OK && !*text);
    CHECK(halay_cancel(called->request) == HALAY_OK);
}

static void in_callback(struct rank_run *run)
{
    struct called called = { 0 };
    float x = 1, y = 1;

    if (run->rank == 0) {
        submit_tensor(run, "y", &y, 0, count_cancel, &called, &called.request);
        submit_tensor(run, "x", &x, 0, cancel_other, &called, NULL);
    } else {
        submit_tensor(run, "x", &x, 0, NULL, NULL, &called.request);
    }
    if (run->rank == 0) {
        CHECK(halay_wait(called.request, -1) == HALAY_ERR_CANCELED && called.count == 1);
        halay_request_free(called.request);
    } else {
        expect_end(called.request, HALAY_OK, "");
    }
    reduce_name(run, "go");
    if (run->rank) {
        submit_tensor(run, "y", &y, 0, NULL, NULL, &called.request);
        CHECK(halay_wait(called.request, -1) == HALAY_ERR_CANCELED);
        halay_request_free(called.request);
    }
    reduce_name(run, "y");
}

/* The rank that cancels dies at once. */
static void body_die(struct rank_run *run)
{
    struct halay_request *request;
    float x = 1;

    if (halay_barrier(run->ctx, NULL) != HALAY_OK ||
        halay_allreduce_async(run->ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) != HALAY_OK)
        return; /* it is dead already */
    if (run->rank == 1) {
        CHECK(halay_cancel(request) == HALAY_OK);
        halay_fake_hub_kill(run->hub, 1);
    }
    enum halay_status status = halay_wait(request, -1);
    CHECK(status == HALAY_OK || status == HALAY_ERR_CANCELED || status == HALAY_ERR_PEER, "%d", (int)status);
    halay_request_free(request);
}

/* A rank that has joined owes no submission, and takes part afterwards. */
static void body_joined(struct rank_run *run)
{
    struct halay_request *request;
    float x = 1;

    if (run->rank == 0) {
        submit_tensor(run, "x", &x, 0, NULL, NULL, &request);
        CHECK(halay_cancel(request) == HALAY_OK);
        expect_end(request, HALAY_ERR_CANCELED, "tensor 'x': canceled by rank 0; not submitted by rank 1");
    }
    reduce_name(run, "go");
    CHECK(halay_join_async(run->ctx, &request) == HALAY_OK);
    if (run->rank == 0)
        CHECK(halay_cancel(request) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_wait(request, -1) == HALAY_OK);
    halay_request_free(request);
    reduce_name(run, "x");
}

/* Time limits that expire together. */
static void body_many(struct rank_run *run)
{
    enum { MANY = 1000, LIMIT_MS = 20 };
    static struct halay_request *requests[MANY];
    static float data[MANY];
    char name[16];

    for (int turn = 0; turn < run->size; turn++) {
        for (int i = 0; i < MANY && turn == run->rank; i++) {
            snprintf(name, sizeof name, "x%d", i);
            submit_tensor(run, name, &data[i], turn ? 0 : LIMIT_MS, NULL, NULL, &requests[i]);
        }
        for (int i = 0; i < MANY && turn == run->rank; i++) {
            CHECK(halay_wait(requests[i], 60000) == HALAY_ERR_TIMEOUT, "x%d", i);
            halay_request_free(requests[i]);
        }
        reduce_name(run, "go");
    }
    reduce_name(run, "x0");
}

static void only_messages(struct halay_fake_hub *hub)
{
    halay_fake_hub_set_shared(hub, 0);
}

/* The outcome of stuck: rank 1's time limit, and the errors on all ranks. */
static struct {
    int ms;
    enum halay_status status[3];
    char text[3][HALAY_TEXT_MAX];
} stuck_end;

/* The tensor begins, and rank 1 gets no data from rank 2: only the failure of the engine ends it. */
static void body_stuck(struct rank_run *run)
{
    static float data[RANKS_MAX][LARGE];
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "stuck",
                                      .dimensions = 1,
                                      .shape = { LARGE },
                                      .out = data[run->rank],
                                      .timeout_ms = run->rank == 1 ? stuck_end.ms : 0 };
    struct halay_request *request;

    reduce_name(run, "go");
    if (run->rank == 2)
        halay_fake_hub_drop(run->hub, 2, 1);
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    stuck_end.status[run->rank] = halay_wait(request, -1);
    snprintf(stuck_end.text[run->rank], HALAY_TEXT_MAX, "%s", halay_request_text(request));
    halay_request_free(request);
}

/* Its time limit may expire before it has begun on all ranks: then it is repeated with a longer one. */
static void check_stuck(void)
{
    char want[100] = "";

    for (int ms = 50; ms <= 50000 && (!*want || strcmp(stuck_end.text[1], want)); ms *= 10) {
        stuck_end.ms = ms;
        snprintf(want, sizeof want, "tensor 'stuck': timed out after %g s on rank 1; it has begun, and does not end",
                 ms / 1e3);
        ranks_run(3, 1, &(struct rank_run){ .body = body_stuck, .expected = "" }, only_messages, NULL);
    }
    for (int r = 0; r < 3; r++) {
        enum halay_status status = stuck_end.status[r];
        const char *text = stuck_end.text[r];
        CHECK(r == 1 ? status == HALAY_ERR_TIMEOUT && !strcmp(text, want)
                     : status == HALAY_OK ||
                           (status == HALAY_ERR_PEER && strstr(text, "rank 1 has failed: tensor 'stuck'")),
              "rank %d: %s: '%s'", r, halay_status_string(status), text);
    }
}

static void body_arguments(struct rank_run *run)
{
    float x = 1;
    struct halay_request *request;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "x", .dimensions = 1, .shape = { 1 }, .out = &x, .timeout_ms = -1
    };

    CHECK(halay_cancel(NULL) == HALAY_ERR_ARGUMENT);
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
    CHECK(strstr(halay_error_text(), "timeout_ms is negative") != NULL);
}

struct random_job {
    int size;
    uint64_t seed;
    enum halay_deterministic mode;
    pthread_t thread;
};

static void *run_random_job(void *arg)
{
    const struct random_job *job = arg;

    run_at_random(job->size, job->seed, job->mode);
    return NULL;
}

/* At the same time: they wait more than they compute. */
static void run_random_jobs(uint64_t seed)
{
    struct random_job jobs[] = {
        { .size = 2, .seed = seed },
        { .size = 3, .seed = seed + 1 },
        { .size = 4, .seed = seed + 2 },
        { .size = 2, .seed = seed + 3 },
        { .size = 2, .seed = seed, .mode = HALAY_DETERMINISTIC_RUN },
        { .size = 3, .seed = seed, .mode = HALAY_DETERMINISTIC_RANKS },
    };
    enum { JOBS = sizeof jobs / sizeof *jobs };

    for (int i = 0; i < JOBS; i++)
        REQUIRE(!pthread_create(&jobs[i].thread, NULL, run_random_job, &jobs[i]));
    for (int i = 0; i < JOBS; i++)
        pthread_join(jobs[i].thread, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        void (*body)(struct rank_run *run);
        void (*prepare)(struct halay_fake_hub *hub);
        int least, most;
    } cases[] = { { body_arguments, NULL, 1, 1 }, { body_late, NULL, 2, 3 },   { body_late, only_messages, 2, 3 },
                  { body_twice, NULL, 2, 3 },     { in_callback, NULL, 2, 3 }, { body_die, NULL, 2, 3 },
                  { body_joined, NULL, 2, 2 },    { body_many, NULL, 2, 3 } };
    uint64_t seed = random_seed(argc, argv);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int size = cases[i].least; size <= cases[i].most; size++)
            ranks_run(size, i % 2, &(struct rank_run){ .body = cases[i].body, .expected = "" }, cases[i].prepare, NULL);
    check_stuck();
    run_random_jobs(seed);
    return test_end();
}
