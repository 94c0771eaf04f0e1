/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of Horovod's parallel tests that concern the library, and where each has its case here; and the cases that
 * have no other place: the texts of all refused arguments, operations for which a joined rank has no data, whose errors
 * all calling ranks get, a callback that submits again, ten thousand tensors, a lost peer whose report never arrives.
 *
 *     Horovod's row                                          case
 *     rank, size, is_initialized, reinit                     test_engine.c basics; job.c again, often
 *     allreduce: plain, average, min, max, product,          test_engine.c basics, scaling; program.c (all types
 *       inplace, async_fused, prescale, postscale              and reductions, in and out of place, several orders)
 *     allreduce: error, type_error                           test_engine.c mismatch
 *     duplicate_name_error (each operation), duplicate_names test_engine.c arguments; refuse() here
 *     process_sets (each operation)                          test_sets.c
 *     grouped_allreduce: plain, average, inplace             test_operations.c group; program.c
 *     allgather: plain, variable_size, async_fused           test_operations.c allgather; program.c
 *     allgather: error, type_error                           test_operations.c mismatch
 *     broadcast: plain, inplace                              test_engine.c basics; program.c
 *     broadcast: error, type_error                           test_engine.c mismatch
 *     broadcast, alltoall: rank_error                        test_engine.c mismatch (roots differ); refuse() here (no
 *                                                            such root)
 *     alltoall: plain, equal_split                           test_operations.c alltoall; program.c
 *     alltoall: equal_split_length_error, splits_error       refuse() here
 *     alltoall: type_error                                   test_operations.c mismatch
 *     reducescatter: plain, average, prescale, postscale     test_operations.c reduce_scatter; program.c
 *     reducescatter: scalar_error, adasum                    refuse() here
 *     reducescatter: error, type_error                       test_operations.c mismatch
 *     join: allreduce                                        test_operations.c join, join_bits
 *     join: allgather, broadcast, rooted operations          lack() here
 *     barrier: global, process_set, with collectives         test_operations.c barrier; test_sets.c
 *     timeline_api                                           test_observe.c timeline
 *     compression_fp16                                       test_operations.c wire
 *
 * Rows about gradients of operations, devices, state objects and optimizers belong to frameworks; grouped all-gather
 * and reduce-scatter are submissions that fuse.
 */
#include "base/clock.h"
#include "fusion/coordinator/coordinator_state.h"
#include "tests/fusion/ranks.h"
#include "tests/test.h"
#include <string.h>

/* ---- refused arguments ---- */

struct refusal {
    char line[400]; /* the last log line */
};

static void keep_line(struct rank_run *run, const char *line)
{
    struct refusal *mine = (struct refusal *)run->arg + run->rank;

    snprintf(mine->line, sizeof mine->line, "%s", line);
}

static void expect_text(struct rank_run *run, enum halay_status status, enum halay_status want, const char *text)
{
    struct refusal *mine = (struct refusal *)run->arg + run->rank;

    CHECK(status == want, "%s instead of %s: '%s'", halay_status_string(status), halay_status_string(want), text);
    CHECK(strstr(mine->line, text) != NULL, "'%s', not '%s'", mine->line, text);
    mine->line[0] = 0;
}

static void expect_refusal(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[64] = { 0 }, b[64] = { 0 };
    size_t splits[RANKS_MAX] = { 5 };
    size_t odd_rows = (size_t)run->size + 1;
    struct halay_request *request, *second;
    struct halay_tensor_info scalar = {
        .struct_size = sizeof scalar, .name = "r", .in = a, .out = b, .collective = HALAY_REDUCE_SCATTER
    };

    expect_text(run, halay_submit_named(ctx, &scalar, NULL, NULL, &request), HALAY_ERR_ARGUMENT, "'r': ");
    expect_text(run, halay_alltoall(ctx, "r", a, splits, 4, 1, HALAY_F32, b, 64, NULL), HALAY_ERR_ARGUMENT, "splits");
    if (run->size > 1)
        expect_text(run, halay_alltoall(ctx, "r", a, NULL, odd_rows, 1, HALAY_F32, b, 64, NULL), HALAY_ERR_ARGUMENT,
                    "the first dimension must be a multiple of the number of ranks");
    expect_text(run, halay_reduce_scatter(ctx, "r", a, b, 4, 1, HALAY_F32, HALAY_ADASUM), HALAY_ERR_UNSUPPORTED,
                "adasum");
    expect_text(run, halay_allreduce(ctx, "r", NULL, a, 1, HALAY_I32, HALAY_AVERAGE), HALAY_ERR_UNSUPPORTED, "'r': ");
    expect_text(run, halay_broadcast(ctx, "r", a, 1, HALAY_F32, run->size), HALAY_ERR_ARGUMENT, "root");
    expect_text(run, halay_broadcast(ctx, "r", a, 1, HALAY_F32, -1), HALAY_ERR_ARGUMENT, "root");
    expect_text(run, halay_allreduce(ctx, "", NULL, a, 1, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT, "name");

    /* It cannot end before all ranks have submitted it, so it is in flight when the second one is submitted. */
    CHECK(halay_barrier_async(ctx, "here", &request) == HALAY_OK);
    if (run->rank == 0 && run->size > 1) {
        CHECK(halay_allreduce_async(ctx, "twice", NULL, a, 4, HALAY_F32, HALAY_SUM, &second) == HALAY_OK);
        struct halay_request *third;
        expect_text(run, halay_allreduce_async(ctx, "twice", NULL, b, 4, HALAY_F32, HALAY_SUM, &third),
                    HALAY_ERR_DUPLICATE, "'twice'");
        CHECK(halay_barrier(ctx, "go") == HALAY_OK);
    } else {
        CHECK(halay_barrier(ctx, "go") == HALAY_OK);
        CHECK(halay_allreduce_async(ctx, "twice", NULL, a, 4, HALAY_F32, HALAY_SUM, &second) == HALAY_OK);
    }
    CHECK(halay_wait(second, 60000) == HALAY_OK && halay_wait(request, 60000) == HALAY_OK);
    halay_request_free(second);
    halay_request_free(request);
}

/* ---- operations that need data of a rank that has joined ---- */

static void expect_lacking(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[64] = { 0 }, b[64];
    struct halay_request *request;

    if (run->rank != 1) {
        for (int op = HALAY_BROADCAST; op <= HALAY_SCATTER; op++) {
            if (op == HALAY_BARRIER)
                continue;
            struct halay_tensor_info info = { .struct_size = sizeof info,
                                              .name = "lacks",
                                              .collective = (enum halay_collective)op,
                                              .dimensions = 2,
                                              .shape = { (size_t)run->size, 2 },
                                              .in = op == HALAY_BROADCAST ? b : a,
                                              .out = b,
                                              .out_bytes = sizeof b };
            CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
            CHECK(halay_wait(request, 60000) == HALAY_ERR_UNSUPPORTED, "operation %d", op);
            CHECK(!strcmp(halay_request_text(request),
                          "tensor 'lacks': only all-reduces and barriers are possible while rank 1 has joined"),
                  "'%s'", halay_request_text(request));
            halay_request_free(request);
        }
    }
    CHECK(halay_join(ctx, NULL) == HALAY_OK);
}

/* ---- a callback that submits again ---- */

struct chain {
    struct halay_tensor *tensor;
    float data[100];
    _Atomic int left; /* of its submissions; negative: it has failed */
};

static void submit_again(void *arg, enum halay_status status, const char *text)
{
    struct chain *chain = arg;
    int left = atomic_load(&chain->left) - 1;

    (void)text;
    if (status == HALAY_OK && left && halay_submit(chain->tensor, submit_again, chain, NULL) != HALAY_OK)
        left = -1;
    atomic_store(&chain->left, status == HALAY_OK ? left : -1); /* the program reads the data after this */
}

static void resubmit_tensor(struct rank_run *run)
{
    enum { CHAINS = 3, TIMES = 20 };
    struct chain chains[CHAINS];
    char name[16];

    for (int c = 0; c < CHAINS; c++) {
        snprintf(name, sizeof name, "chain %d", c);
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = name,
                                          .dimensions = 1,
                                          .shape = { 100 },
                                          .out = chains[c].data,
                                          .reduction = HALAY_AVERAGE };
        for (int i = 0; i < 100; i++)
            chains[c].data[i] = (float)(run->rank + c);
        atomic_init(&chains[c].left, TIMES);
        REQUIRE(halay_register(run->ctx, &info, &chains[c].tensor) == HALAY_OK);
    }
    for (int c = 0; c < CHAINS; c++)
        CHECK(halay_submit(chains[c].tensor, submit_again, &chains[c], NULL) == HALAY_OK);
    for (int c = 0; c < CHAINS; c++) {
        while (atomic_load(&chains[c].left) > 0)
            sched_yield();
        CHECK(atomic_load(&chains[c].left) == 0);
        CHECK(chains[c].data[99] == (float)(run->size - 1) / 2 + (float)c, "%g", (double)chains[c].data[99]);
        CHECK(halay_unregister(chains[c].tensor) == HALAY_OK);
    }
}

/* ---- ten thousand tensors ---- */

enum { TENSORS = 10000, THRESHOLD = 4096 };

static void configure_threshold(struct halay_config *config, void *arg)
{
    (void)arg;
    config->fusion_threshold = THRESHOLD;
}

/* By name, some empty and some larger than the threshold, in another order on each rank. */
static void ten_thousand(struct rank_run *run)
{
    struct halay_request **requests = calloc(TENSORS, sizeof *requests);
    float **data = calloc(TENSORS, sizeof *data);
    char name[16];

    REQUIRE(requests && data);
    for (int step = 0; step < 2; step++) {
        for (int k = 0; k < TENSORS; k++) {
            int i = run->rank % 2 ? TENSORS - 1 - k : k;
            size_t count = i % 1000 == 7 ? THRESHOLD / sizeof(float) + 100 : (size_t)i % 4;
            data[i] = data[i] ? data[i] : malloc((count + 1) * sizeof **data);
            REQUIRE(data[i]);
            for (size_t e = 0; e < count; e++)
                data[i][e] = (float)(i % 100 + run->rank);
            data[i][count] = -1;
            snprintf(name, sizeof name, "t%d", i);
            CHECK(halay_allreduce_async(run->ctx, name, NULL, data[i], count, HALAY_F32, HALAY_MAX, &requests[i]) ==
                  HALAY_OK);
        }
        for (int i = 0; i < TENSORS; i++) {
            size_t count = i % 1000 == 7 ? THRESHOLD / sizeof(float) + 100 : (size_t)i % 4;
            CHECK(halay_wait(requests[i], 120000) == HALAY_OK && data[i][count] == -1, "tensor %d", i);
            CHECK(!count || data[i][count - 1] == (float)(i % 100 + run->size - 1), "tensor %d", i);
            halay_request_free(requests[i]);
        }
    }
    for (int i = 0; i < TENSORS; i++)
        free(data[i]);
    free(data);
    free(requests);
}

/* ---- what rank 0 keeps for a name ---- */

static struct halay_tensor_entry *entry_of(struct rank_run *run, const char *name)
{
    return halay_coordinator_entry(run->ctx->all.coordinator, name, strlen(name));
}

/* The announcements of all ranks are kept only for a name that is announced again because its rows change. */
static void forget_announced(struct rank_run *run)
{
    float in[8] = { 0 }, out[64];

    for (size_t step = 0; step < 3; step++) {
        CHECK(halay_allreduce(run->ctx, "steady", in, out, 8, HALAY_F32, HALAY_SUM) == HALAY_OK);
        CHECK(halay_allgather(run->ctx, "rows", in, step + 1, 1, HALAY_F32, out, 64, NULL) == HALAY_OK);
    }
    if (run->rank)
        return;
    CHECK(!entry_of(run, "steady")->announced, "kept forever");
    CHECK(run->size == 1 || entry_of(run, "rows")->announced, "allocated in each step");
}

/* ---- a lost peer ---- */

static void configure_losing(struct rank_run *run, struct halay_config *config)
{
    config->peer_timeout_ms = run->rank ? 300000 : 2000;
}

/* No message passes between ranks 0 and 2 any more. Rank 0 soon notices the silence and reports it: the report reaches
 * rank 1, which fails with that cause although it has noticed the closed group first. Rank 2, which rank 0 cannot
 * reach, waits in vain for a report, and reports what it has noticed. */
static void drop_messages(struct rank_run *run)
{
    float x = 1;
    char text[100];

    CHECK(halay_allreduce(run->ctx, "all", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    if (run->rank == 2) {
        halay_fake_hub_drop(run->hub, 2, 0);
        halay_fake_hub_drop(run->hub, 0, 2);
    }
    CHECK(halay_allreduce(run->ctx, "lost", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER);
    const char *want = run->rank == 2 ? "rank 0 has closed its connection" : "rank 2 has not answered for 2 s";
    CHECK(!strcmp(text, want), "rank %d: '%s', not '%s'", run->rank, text, want);
}

/* ---- the part of a rank that has joined, when a peer dies during the collective ---- */

/* Data travel as messages, so that a collective waits for the rank that is held back. */
static void only_messages(struct halay_fake_hub *hub)
{
    halay_fake_hub_set_shared(hub, 0);
}

/* Rank 2 has joined; its part of a group of two types, which is two buckets, waits for data of rank 1. Nothing may stay
 * in flight. */
static void die_joined(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct halay_request *request = NULL;
    int32_t a[4] = { 0 };
    float b[5] = { 0 };
    const struct halay_member members[] = { { .out = a, .dtype = HALAY_I32, .dimensions = 1, .shape = { 4 } },
                                            { .out = b, .dtype = HALAY_F32, .dimensions = 1, .shape = { 5 } } };
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "group",
                                      .members = members,
                                      .member_count = 2,
                                      .member_bytes = sizeof(struct halay_member) };

    if (run->rank == 2) {
        halay_fake_hub_hold(run->hub, 1, 2, 1);
        CHECK(halay_join_async(ctx, &request) == HALAY_OK);
    } else {
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
    }
    while (run->rank == 2 && atomic_load(&ctx->queue.in_flight) < 2)
        sched_yield();
    if (run->rank == 2)
        halay_fake_hub_kill(run->hub, 1);
    CHECK(halay_wait(request, 60000) == HALAY_ERR_PEER);
    CHECK(atomic_load(&ctx->queue.in_flight) == 0, "rank %d: %zu in flight", run->rank,
          atomic_load(&ctx->queue.in_flight));
    halay_request_free(request);
}

int main(void)
{
    struct refusal refusals[RANKS_MAX];

    for (int size = 1; size <= 3; size++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            ranks_run(size, delay * 3, &(struct rank_run){ .body = expect_refusal, .arg = refusals, .sink = keep_line },
                      NULL, NULL);
            ranks_run(size, delay * 6, &(struct rank_run){ .body = forget_announced }, NULL, NULL);
            ranks_run(size, delay * 4, &(struct rank_run){ .body = resubmit_tensor }, NULL, NULL);
            if (size > 1)
                ranks_run(size, delay * 5, &(struct rank_run){ .body = expect_lacking, .expected = "'lacks'" }, NULL,
                          NULL);
        }
    ranks_run(2, 0, &(struct rank_run){ .body = ten_thousand, .configure = configure_threshold }, NULL, NULL);
    ranks_run(3, 0, &(struct rank_run){ .body = die_joined, .expected = "" }, only_messages, NULL);
    ranks_run(3, 0, &(struct rank_run){ .body = drop_messages, .configure_rank = configure_losing, .expected = "" },
              NULL, NULL);
    return test_end();
}
