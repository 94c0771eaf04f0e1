/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the last error on a thread: of each kind of failing call, and of no other call or thread. On rank 0 the
 * waiting thread drives, and so finds the errors of all ranks' tensors.
 */
#include "halay_coll.h"
#include "halay_elastic.h"
#include "halay_tools.h"
#include "tests/fusion/ranks.h"

static void expect_text(const char *want)
{
    const struct halay_error *error = halay_last_error();

    CHECK(strstr(halay_error_text(), want) != NULL, "'%s', not '%s'", halay_error_text(), want);
    CHECK(error->status && !strcmp(error->text, halay_error_text()) && !*error->subject && !error->row, "'%s'",
          error->text);
}

/* ---- each kind of call ---- */

static void *look_at_nothing(void *arg)
{
    (void)arg;
    CHECK(!*halay_error_text(), "'%s' on a thread that has called nothing", halay_error_text());
    CHECK(!halay_last_error()->status && halay_last_error()->rank == -1, "%d", halay_last_error()->rank);
    return NULL;
}

static void other_thread(void)
{
    pthread_t thread;

    REQUIRE(!pthread_create(&thread, NULL, look_at_nothing, NULL));
    pthread_join(thread, NULL);
}

static void check_refusals(struct halay_context *ctx, const char *name, const char *want)
{
    float x[2] = { 0 };

    CHECK(halay_allreduce(ctx, name, x, x + 1, 2, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    expect_text(want);
}

static void each_call(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float x = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "twice", .dimensions = 1, .shape = { 1 }, .out = &x
    };
    struct halay_tensor *tensor, *second;
    struct halay_straggler straggler = { 0 };

    CHECK(!*halay_error_text());
    check_refusals(ctx, "over", "tensor 'over': in and out overlap");
    CHECK(halay_allreduce(ctx, "good", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    expect_text("tensor 'over': in and out overlap");
    other_thread();
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_OK);
    CHECK(halay_register(ctx, &info, &second) == HALAY_ERR_DUPLICATE);
    expect_text("tensor 'twice': a tensor of that name is registered");
    CHECK(halay_submit(tensor, NULL, NULL, NULL) == HALAY_ERR_ARGUMENT);
    expect_text("no callback");
    CHECK(halay_unregister(tensor) == HALAY_OK);
    info.struct_size = 3;
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
    expect_text("struct_size of struct halay_tensor_info is 3");
    CHECK(halay_wait(NULL, 0) == HALAY_ERR_ARGUMENT);
    expect_text("halay_wait: no request");
    CHECK(halay_alloc(ctx, 1, NULL) == HALAY_ERR_ARGUMENT);
    expect_text("halay_alloc: no place");
    CHECK(halay_stragglers_read(ctx, 0, &straggler) == HALAY_ERR_ARGUMENT);
    expect_text("halay_stragglers_read");
    CHECK(halay_timeline_stop(ctx) == HALAY_ERR_ARGUMENT);
    expect_text("no timeline is on");
    CHECK(halay_elastic_commit(ctx, NULL) == HALAY_ERR_ARGUMENT);
    expect_text("must be called after halay_elastic_begin");
    CHECK(halay_process_set_remove(halay_process_set_find(ctx, 0)) == HALAY_ERR_ARGUMENT);
    expect_text("it is the set of all ranks");
}

/* ---- errors from other ranks ---- */

/* All ranks' calls fail with the text that names rank 1's shape. */
static void body_disagree(struct rank_run *run)
{
    float x[2] = { 0 };
    const char *want = "tensor 'm': rank 1 has shape [2], rank 0 has [1]";

    CHECK(halay_allreduce(run->ctx, "m", NULL, x, run->rank == 1 ? 2 : 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_MISMATCH);
    CHECK(!strcmp(halay_error_text(), want), "'%s'", halay_error_text());
}

/* This thread drives while it waits, and another thread's tensor is refused: that is not this call's error. */
static void only_mine(struct rank_run *run)
{
    struct halay_request *wrong, *good;
    float x[2] = { 0 }, y = 1;
    size_t count = run->rank == 1 ? 2 : 1;

    check_refusals(run->ctx, "mine", "'mine'");
    CHECK(halay_allreduce_async(run->ctx, "wrong", NULL, x, count, HALAY_F32, HALAY_SUM, &wrong) == HALAY_OK);
    CHECK(halay_allreduce_async(run->ctx, "right", NULL, &y, 1, HALAY_F32, HALAY_SUM, &good) == HALAY_OK);
    CHECK(halay_wait(good, -1) == HALAY_OK);
    expect_text("'mine'");
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    expect_text("'mine'");
    CHECK(halay_wait(wrong, -1) == HALAY_ERR_MISMATCH);
    expect_text("tensor 'wrong': rank 1");
    check_refusals(run->ctx, "again", "'again'");
    CHECK(halay_test(wrong) == HALAY_ERR_MISMATCH);
    expect_text("tensor 'wrong': rank 1");
    halay_request_free(wrong);
    halay_request_free(good);
    expect_text("tensor 'wrong': rank 1");
}

static void call_wrongly(void *arg, enum halay_status status, const char *text)
{
    (void)text;
    CHECK(status == HALAY_OK);
    CHECK(halay_wait(NULL, 0) == HALAY_ERR_ARGUMENT);
    expect_text("halay_wait: no request");
    atomic_store((_Atomic int *)arg, 1);
}

static void in_callback(struct rank_run *run)
{
    struct halay_request *request;
    _Atomic int done = 0;
    float x = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "called", .dimensions = 1, .shape = { 1 }, .out = &x
    };

    CHECK(halay_submit_named(run->ctx, &info, call_wrongly, &done, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK && done);
    halay_request_free(request);
}

/* A wait that times out before the request has ended; then the end of the job. */
static void check_failures(struct rank_run *run)
{
    struct halay_request *request, *second;
    float x = 1;

    in_callback(run);
    if (run->rank == run->size - 1) {
        CHECK(halay_barrier(run->ctx, "here") == HALAY_OK);
        halay_fake_hub_kill(run->hub, run->rank);
        return;
    }
    CHECK(halay_allreduce_async(run->ctx, "lost", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    CHECK(halay_wait(request, 1) == HALAY_ERR_TIMEOUT);
    expect_text("the request has not ended after 1 ms");
    enum halay_status status = halay_barrier(run->ctx, "here");
    CHECK(status == HALAY_OK || status == HALAY_ERR_PEER, "%d",
          (int)status); /* the end of the wait or the death is first */
    CHECK(halay_wait(request, -1) == HALAY_ERR_PEER);
    expect_text(halay_request_text(request));
    expect_text("has died");
    check_refusals(run->ctx, "other", "'other'");
    CHECK(halay_allreduce_async(run->ctx, "later", NULL, &x, 1, HALAY_F32, HALAY_SUM, &second) == HALAY_ERR_PEER);
    expect_text("has died");
    halay_request_free(request);
}

/* ---- groups ---- */

static void check_group(void)
{
    const struct halay_options options = { .struct_size = sizeof options, .bootstrap = "self" };
    struct halay_group *group;
    float x[2] = { 0 };

    REQUIRE(halay_group_open(&options, &group) == HALAY_OK);
    CHECK(halay_group_allreduce(group, x, x + 1, 2, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    expect_text("in and out overlap");
    CHECK(halay_group_broadcast(group, x, 2, HALAY_F32, 3) == HALAY_ERR_ARGUMENT);
    expect_text("no such root");
    CHECK(halay_group_alloc(group, 1, NULL) == HALAY_ERR_ARGUMENT);
    expect_text("halay_group_alloc: no place");
    CHECK(halay_group_barrier(group) == HALAY_OK);
    halay_group_close(group);
    CHECK(halay_group_barrier(NULL) == HALAY_ERR_ARGUMENT);
    expect_text("no group");
}

static void check_init(void)
{
    struct halay_options options = { .struct_size = sizeof options, .bootstrap = "nowhere" };
    struct halay_context *ctx;

    CHECK(halay_init(&options, &ctx) == HALAY_ERR_CONFIG);
    expect_text("'nowhere'");
    options.bootstrap = "self";
    CHECK(halay_init(&options, NULL) == HALAY_ERR_ARGUMENT);
    expect_text("halay_init: no place for the context");
}

/* A program that prints texts itself gets no log line at level error for an error that a call returns. */
static void count_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)line;
    *(int *)arg += level == HALAY_LOG_ERROR;
}

static void check_reports(void)
{
    for (int reports = 0; reports < 2; reports++) {
        int lines = 0;
        struct halay_options options = { .struct_size = sizeof options,
                                         .bootstrap = "self",
                                         .log = count_line,
                                         .log_arg = &lines,
                                         .reports_errors = reports };
        struct halay_context *ctx;
        float x = 0;
        REQUIRE(halay_init(&options, &ctx) == HALAY_OK);
        CHECK(halay_broadcast(ctx, "x", &x, 1, HALAY_F32, 7) == HALAY_ERR_ARGUMENT);
        expect_text("tensor 'x': root 7 is not a rank: the job has 1, from 0 on");
        CHECK(halay_allreduce(ctx, "x", &x, &x, 1, HALAY_I32, HALAY_AVERAGE) == HALAY_ERR_UNSUPPORTED);
        expect_text("tensor 'x': the reduction average does not support the type i32");
        CHECK(lines == (reports ? 0 : 2), "%d lines", lines);
        halay_fini(ctx);
    }
}

int main(void)
{
    static const struct {
        void (*body)(struct rank_run *run);
        const char *expected;
        int least;
    } cases[] = {
        { each_call, "", 1 }, { body_disagree, "tensor 'm'", 2 }, { only_mine, "", 2 }, { check_failures, "", 2 }
    };

    check_init();
    check_group();
    check_reports();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int size = cases[i].least; size <= 3; size++)
            ranks_run(size, (uint64_t)size - 1,
                      &(struct rank_run){ .body = cases[i].body, .expected = cases[i].expected }, NULL, NULL);
    return test_end();
}
