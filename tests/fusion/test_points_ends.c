/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives without a counterpart: withdrawn by cancel and by time-outs at any moment of their peers; their
 * reports and counters. At the end random schedules of several threads on each rank, after which nothing may be left
 * half matched. usage: test_points_ends [SEED]
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <sched.h>

enum { WAIT_MS = 60000, SHORT_MS = 30 };

/* Communication between the ranks of a test, which are threads, outside of the engine. */
static _Atomic int stage;

static void wait_for_stage(int number)
{
    while (stage < number)
        sched_yield();
}

/* The two ranks of a test. */
struct two {
    int receiver, sender;
};

static enum halay_status end_request(struct halay_request *request, const char *format, int rank, int peer)
{
    enum halay_status status = halay_wait(request, WAIT_MS);
    char text[200];

    snprintf(text, sizeof text, format, rank, peer);
    CHECK(!strcmp(halay_request_text(request), text), "'%s', not '%s'", halay_request_text(request), text);
    halay_request_free(request);
    return status;
}

static struct halay_request *submit_point(struct rank_run *run, enum halay_collective way, const char *name,
                                          float *data, int peer, int timeout_ms)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = name,
                                      .collective = way,
                                      .in = data,
                                      .out = data,
                                      .peer = peer,
                                      .tag = 4,
                                      .timeout_ms = timeout_ms };
    struct halay_request *request;

    REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    return request;
}

/* ---- withdrawal ---- */

static void check_ended(struct halay_request *request, int is_canceled, const char *missing)
{
    const char *why = is_canceled ? "canceled by rank" : "timed out after 0.03 s on rank ";

    CHECK(!is_canceled || halay_cancel(request) == HALAY_OK);
    CHECK(halay_wait(request, WAIT_MS) == (is_canceled ? HALAY_ERR_CANCELED : HALAY_ERR_TIMEOUT));
    CHECK(strstr(halay_request_text(request), why) && strstr(halay_request_text(request), missing), "'%s'",
          halay_request_text(request));
    CHECK(halay_cancel(request) == HALAY_OK); /* too late: no effect */
    halay_request_free(request);
}

/* A receive ends while its peer waits for another tensor; a send that is submitted later does not match it, and ends,
 * too; the next two match. */
static void check_ends(struct rank_run *run, const char *name, int from, int is_canceled)
{
    const struct two *two = run->arg;
    int timeout_ms = is_canceled ? 0 : SHORT_MS;
    float x = 1, signal = 0;

    if (run->rank == two->receiver) {
        check_ended(submit_point(run, HALAY_RECEIVE, name, &x, from, timeout_ms), is_canceled,
                    from == HALAY_ANY_RANK ? "; a send of any rank" : "; the send of rank");
        CHECK(halay_send(run->ctx, NULL, &signal, 1, HALAY_F32, two->sender, 1) == HALAY_OK && x == 1);
        CHECK(halay_receive(run->ctx, NULL, &signal, 1, HALAY_F32, two->sender, 2) == HALAY_OK);
        CHECK(end_request(submit_point(run, HALAY_RECEIVE, name, &x, from, WAIT_MS), "", 0, 0) == HALAY_OK && x == 7);
        return;
    }
    CHECK(halay_receive(run->ctx, NULL, &signal, 1, HALAY_F32, two->receiver, 1) == HALAY_OK);
    check_ended(submit_point(run, HALAY_SEND, name, &x, two->receiver, timeout_ms), is_canceled,
                "; the receive of rank");
    x = 7;
    CHECK(halay_send(run->ctx, NULL, &signal, 1, HALAY_F32, two->receiver, 2) == HALAY_OK);
    CHECK(end_request(submit_point(run, HALAY_SEND, name, &x, two->receiver, WAIT_MS), "", 0, 0) == HALAY_OK);
}

static void body_ends(struct rank_run *run)
{
    const struct two *two = run->arg;

    if (run->rank != two->receiver && run->rank != two->sender) {
        wait_for_stage(1); /* it remains until the others leave */
        return;
    }
    for (int is_canceled = 0; is_canceled < 2; is_canceled++)
        for (int any = 0; any < 2; any++) {
            check_ends(run, NULL, any ? HALAY_ANY_RANK : two->sender, is_canceled);
            check_ends(run, "named", any ? HALAY_ANY_RANK : two->sender, is_canceled);
        }
    stage = 1;
}

/* The peer is idle: it must be asked to listen. The full texts, and an operation after a withdrawn one. */
static void body_texts(struct rank_run *run)
{
    const struct two *two = run->arg;
    struct halay_request *request, *other;
    float x = 3, y = 4;

    if (run->rank == two->sender) {
        request = submit_point(run, HALAY_SEND, NULL, &x, two->receiver, SHORT_MS);
        CHECK(end_request(request, "tag 4: timed out after 0.03 s on rank %d; the receive of rank %d was not submitted",
                          run->rank, two->receiver) == HALAY_ERR_TIMEOUT);
        request = submit_point(run, HALAY_SEND, "named", &x, two->receiver, 0);
        other = submit_point(run, HALAY_SEND, NULL, &y, two->receiver, 0);
        CHECK(halay_cancel(request) == HALAY_OK);
        CHECK(end_request(request, "tensor 'named': canceled by rank %d; the receive of rank %d was not submitted",
                          run->rank, two->receiver) == HALAY_ERR_CANCELED);
        request = submit_point(run, HALAY_SEND, NULL, &x, two->receiver, 0); /* after the other one of its tag */
        CHECK(halay_cancel(other) == HALAY_OK);
        CHECK(halay_wait(other, WAIT_MS) == HALAY_ERR_CANCELED);
        halay_request_free(other);
        stage = 1;
        CHECK(end_request(request, "", 0, 0) == HALAY_OK);
    } else if (run->rank == two->receiver) {
        wait_for_stage(1);
        CHECK(end_request(submit_point(run, HALAY_RECEIVE, NULL, &x, two->sender, 0), "", 0, 0) == HALAY_OK && x == 3);
        request = submit_point(run, HALAY_RECEIVE, "named", &x, HALAY_ANY_RANK, SHORT_MS);
        CHECK(end_request(request,
                          "tensor 'named': timed out after 0.03 s on rank %d; a send of any rank was not submitted",
                          run->rank, 0) == HALAY_ERR_TIMEOUT);
        stage = 2;
    } else {
        wait_for_stage(2);
    }
}

/* Its time limit expires while the peer leaves: one or the other error, and it ends. */
static void body_left(struct rank_run *run)
{
    struct halay_request *request;
    float x;

    if (run->rank)
        return;
    request = submit_point(run, HALAY_RECEIVE, NULL, &x, 1, 1500);
    enum halay_status status = halay_wait(request, WAIT_MS);
    CHECK(status == HALAY_ERR_PEER || status == HALAY_ERR_TIMEOUT, "%d", (int)status);
    halay_request_free(request);
    CHECK(halay_context_status(run->ctx, NULL, 0) == HALAY_OK);
}

/* All operations end at once when a rank aborts, also those that are being withdrawn. */
static void body_abort(struct rank_run *run)
{
    struct halay_request *requests[4];
    float x[4];

    if (run->rank == 0) {
        requests[0] = submit_point(run, HALAY_RECEIVE, NULL, &x[0], 1, 0);
        requests[1] = submit_point(run, HALAY_RECEIVE, NULL, &x[1], HALAY_ANY_RANK, 0);
        requests[2] = submit_point(run, HALAY_SEND, NULL, &x[2], 1, 0);
        requests[3] = submit_point(run, HALAY_SEND, "named", &x[3], 1, 0);
        CHECK(halay_cancel(requests[3]) == HALAY_OK);
        stage = 1;
        for (int i = 0; i < 4; i++) {
            enum halay_status status = halay_wait(requests[i], WAIT_MS);
            CHECK(status == HALAY_ERR_PEER || (i == 3 && status == HALAY_ERR_CANCELED), "%d: %d", i, (int)status);
            halay_request_free(requests[i]);
        }
    } else if (run->rank == 1) {
        wait_for_stage(1);
        CHECK(halay_abort(run->ctx, "no more") == HALAY_OK);
    }
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
}

/* ---- reports, counters ---- */

static void report_soon(struct halay_config *config, void *arg)
{
    config->stall_check_ms = 20;
    config->stall_shutdown_ms = arg ? 300 : 0;
}

static _Atomic int stalls;

static void sink_stalls(struct rank_run *run, const char *line)
{
    const struct two *two = run->arg;

    (void)two;
    stalls += strstr(line, ": tag 4: to be received by rank 0, missing: the send of rank 1") != NULL;
    stalls += strstr(line, ": tag 4: to be received by rank 0, missing: a send of any rank") != NULL;
}

static void body_stall(struct rank_run *run)
{
    struct halay_request *requests[2];
    float x[2] = { 0 };

    if (run->rank > 1)
        return;
    if (run->rank) {
        wait_for_stage(1);
        CHECK(halay_send(run->ctx, NULL, &x[0], 1, HALAY_F32, 0, 4) == HALAY_OK);
        CHECK(halay_send(run->ctx, NULL, &x[1], 1, HALAY_F32, 0, 4) == HALAY_OK);
        return;
    }
    stage = stalls = 0;
    requests[0] = submit_point(run, HALAY_RECEIVE, NULL, &x[0], 1, 0);
    requests[1] = submit_point(run, HALAY_RECEIVE, NULL, &x[1], HALAY_ANY_RANK, 0);
    while (stalls < 2)
        halay_wait(requests[0], 10);
    stage = 1;
    CHECK(end_request(requests[0], "", 0, 0) == HALAY_OK && end_request(requests[1], "", 0, 0) == HALAY_OK);
}

static void body_stall_ends(struct rank_run *run)
{
    char text[200];
    float x;

    if (run->rank == 0)
        CHECK(halay_wait(submit_point(run, HALAY_RECEIVE, NULL, &x, 1, 0), WAIT_MS) == HALAY_ERR_PEER);
    while (halay_context_status(run->ctx, text, sizeof text) == HALAY_OK)
        sched_yield();
    CHECK(strstr(text, "stalled for ") &&
              strstr(text, ": tag 4: to be received by rank 0, missing: the send of rank 1"),
          "'%s'", text);
}

static void body_counters(struct rank_run *run)
{
    struct halay_counters c = { .struct_size = sizeof c };
    float x = 0;

    if (run->rank == 0) {
        CHECK(end_request(submit_point(run, HALAY_SEND, NULL, &x, 1, 0), "", 0, 0) == HALAY_OK);
        CHECK(halay_wait(submit_point(run, HALAY_SEND, NULL, &x, 1, SHORT_MS), WAIT_MS) == HALAY_ERR_TIMEOUT);
        REQUIRE(halay_counters_read(run->ctx, &c) == HALAY_OK);
        CHECK(c.submissions == 2 && c.completions == 1 && c.errors == 1 && c.in_flight == 0 && c.bytes == 8);
        CHECK(c.errors_by_status[HALAY_ERR_TIMEOUT] == 1 && !c.negotiations && !c.cache_hits && !c.collectives);
    } else if (run->rank == 1) {
        CHECK(end_request(submit_point(run, HALAY_RECEIVE, NULL, &x, 0, 0), "", 0, 0) == HALAY_OK);
    }
}

/* ---- random schedules ---- */

enum { THREADS = 3, EACH = 60, TAGS = 3, IDS = RANKS_MAX * THREADS * EACH };

struct schedule {
    uint64_t seed;
    _Atomic int sent[IDS], received[IDS]; /* by the number that a send carries: how often it succeeded */
};

struct worker {
    struct rank_run *run;
    int thread;
    struct random random;
};

struct submission {
    struct halay_request *request;
    int sends;
    uint64_t data; /* 1 + the number */
};

static void submit_random(struct worker *w, int number, struct submission *s)
{
    int size = w->run->size, peer = (w->run->rank + 1 + (int)random_below(&w->random, (uint64_t)size - 1)) % size;
    int is_any = random_below(&w->random, 3) == 0;

    s->sends = random_below(&w->random, 2) == 0;
    s->data = s->sends ? 1 + (uint64_t)((w->run->rank * THREADS + w->thread) * EACH + number) : 0;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .collective = s->sends ? HALAY_SEND : HALAY_RECEIVE,
                                      .dtype = HALAY_U8,
                                      .dimensions = 1,
                                      .shape = { sizeof s->data },
                                      .in = &s->data,
                                      .out = &s->data,
                                      .peer = !s->sends && is_any ? HALAY_ANY_RANK : peer,
                                      .tag = (int64_t)random_below(&w->random, TAGS),
                                      .timeout_ms = 1 + (int)random_below(&w->random, 40) };
    if (random_below(&w->random, 4)) {
        REQUIRE(halay_submit_named(w->run->ctx, &info, NULL, NULL, &s->request) == HALAY_OK);
        return;
    }
    struct halay_tensor *tensor;
    REQUIRE(halay_register(w->run->ctx, &info, &tensor) == HALAY_OK);
    REQUIRE(halay_submit(tensor, NULL, NULL, &s->request) == HALAY_OK);
    CHECK(halay_wait(s->request, -1) != HALAY_IN_PROGRESS && halay_unregister(tensor) == HALAY_OK);
}

static void finish_point(struct worker *w, struct submission *s)
{
    struct schedule *schedule = w->run->arg;
    struct halay_result result = { .struct_size = sizeof result };
    enum halay_status status = halay_wait(s->request, WAIT_MS);

    CHECK(status == HALAY_OK || status == HALAY_ERR_TIMEOUT || status == HALAY_ERR_CANCELED, "%d: %s", (int)status,
          halay_request_text(s->request));
    if (status == HALAY_OK) {
        REQUIRE(s->data && s->data <= IDS);
        ++(s->sends ? schedule->sent : schedule->received)[s->data - 1];
        CHECK(s->sends || (halay_request_result(s->request, &result) == HALAY_OK &&
                           result.peer == (int)(s->data - 1) / (THREADS * EACH)));
    }
    halay_request_free(s->request);
}

static void *run_thread(void *arg)
{
    enum { OPEN = 6 };
    struct worker *w = arg;
    struct submission open[OPEN] = { { 0 } };

    for (int i = 0; i < EACH; i++) {
        struct submission *s = &open[random_below(&w->random, OPEN)];
        if (s->request)
            finish_point(w, s);
        submit_random(w, i, s);
        if (random_below(&w->random, 4) == 0)
            CHECK(halay_cancel(s->request) == HALAY_OK);
    }
    for (int i = 0; i < OPEN; i++)
        if (open[i].request)
            finish_point(w, &open[i]);
    return NULL;
}

/* Afterwards the next ones of each tag match, from and to all ranks. */
static void check_nothing_left(struct rank_run *run)
{
    float given = 100 + (float)run->rank, got;
    struct halay_request *request;

    for (int64_t tag = 0; tag < TAGS; tag++)
        for (int step = 1; step < run->size; step++) {
            int to = (run->rank + step) % run->size, from = (run->rank + run->size - step) % run->size;
            REQUIRE(halay_send_async(run->ctx, NULL, &given, 1, HALAY_F32, to, tag, &request) == HALAY_OK);
            CHECK(halay_receive(run->ctx, NULL, &got, 1, HALAY_F32, from, tag) == HALAY_OK && got == 100 + (float)from,
                  "%g of rank %d", (double)got, from);
            CHECK(end_request(request, "", 0, 0) == HALAY_OK);
        }
}

static void body_random(struct rank_run *run)
{
    struct schedule *schedule = run->arg;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ run, i, { schedule->seed + (uint64_t)(run->rank * THREADS + i) * 977 } };
        REQUIRE(pthread_create(&threads[i], NULL, run_thread, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    check_nothing_left(run);
    CHECK(halay_context_status(run->ctx, NULL, 0) == HALAY_OK);
}

static void check_random(int size, uint64_t delay, uint64_t seed)
{
    static struct schedule schedule;
    int met = 0;

    memset(&schedule, 0, sizeof schedule);
    schedule.seed = seed;
    ranks_run(size, delay, &(struct rank_run){ .body = body_random, .arg = &schedule, .expected = "" }, NULL, NULL);
    for (int i = 0; i < IDS; i++) {
        CHECK(schedule.sent[i] == schedule.received[i] && schedule.sent[i] < 2, "number %d: sent %d, received %d", i,
              schedule.sent[i], schedule.received[i]);
        met += schedule.sent[i];
    }
    CHECK(met > 10 && met < size * THREADS * EACH / 2, "%d", met);
}

static void check_ranks(int size, uint64_t delay, void (*body)(struct rank_run *run), void *arg)
{
    stage = 0;
    ranks_run(size, delay, &(struct rank_run){ .body = body, .arg = arg, .expected = "" }, NULL, NULL);
}

static void check_stalls(int size, void (*body)(struct rank_run *run), void *ends)
{
    stage = 0;
    ranks_run(size, 0, &(struct rank_run){ .body = body, .arg = ends, .configure = report_soon, .sink = sink_stalls },
              NULL, NULL);
}

int main(int argc, char **argv)
{
    static struct two pairs[] = { { 0, 1 }, { 1, 0 }, { 1, 2 } };
    uint64_t seed = random_seed(argc, argv);

    for (int i = 0; i < 3; i++)
        for (int size = i < 2 ? 2 : 3; size <= 3; size++) {
            check_ranks(size, 0, body_ends, &pairs[i]);
            check_ranks(size, 5, body_texts, &pairs[i]);
        }
    check_ranks(3, 7, body_left, NULL);
    check_ranks(3, 0, body_abort, NULL);
    check_ranks(2, 0, body_counters, NULL);
    check_stalls(2, body_stall, NULL);
    check_stalls(3, body_stall_ends, &stage);
    for (int round = 0; round < 2 && !test_failed; round++) {
        check_random(2, 0, seed);
        check_random(3, 7, seed + 1);
        check_random(5, (uint64_t)round * 5, seed + 2);
        seed += 1000;
    }
    return test_end();
}
