/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives over the fake transport: by name and by tag, in order, in process sets, registered, from any rank;
 * refused calls and their texts, peers that leave or die. Random programs have messages, too (program.c); sends and
 * receives without a counterpart are in test_points_ends.c.
 */
#include "tests/fusion/ranks.h"
#include <sched.h>
#include <stdlib.h>

enum { WAIT_MS = 60000, MANY = 40, LARGE = 20 << 20 };

/* Each rank sends another window of it. */
static unsigned char pattern[LARGE + RANKS_MAX];

static void make_pattern(void)
{
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 251);
}

static enum halay_status end_request(struct halay_request *request, const char *text)
{
    enum halay_status status = halay_wait(request, WAIT_MS);

    CHECK(!text || !strcmp(halay_request_text(request), text), "'%s', not '%s'", halay_request_text(request), text);
    halay_request_free(request);
    return status;
}

/* Sends to the next rank and receives from the previous one, by name and by tag. Zero elements, and several chunks. */
static void check_ring(struct rank_run *run, const char *name, enum halay_dtype dtype, size_t count)
{
    int next = (run->rank + 1) % run->size, before = (run->rank + run->size - 1) % run->size;
    size_t bytes = count * halay_dtype_size(dtype);
    unsigned char *given = malloc(bytes + 1), *got = malloc(bytes + 1);
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *send, *receive;

    REQUIRE(given && got);
    memcpy(given, pattern + run->rank, bytes);
    REQUIRE(halay_send_async(run->ctx, name, given, count, dtype, next, 5, &send) == HALAY_OK);
    REQUIRE(halay_receive_async(run->ctx, name, got, count, dtype, before, 5, &receive) == HALAY_OK);
    CHECK(halay_wait(receive, WAIT_MS) == HALAY_OK && halay_request_result(receive, &result) == HALAY_OK);
    CHECK(result.data == got && result.bytes == bytes && result.shape[0] == count && !result.rows);
    CHECK(end_request(receive, "") == HALAY_OK && end_request(send, "") == HALAY_OK);
    CHECK(!memcmp(got, pattern + before, bytes), "%zu bytes", bytes);
    free(given);
    free(got);
}

static void body_ring(struct rank_run *run)
{
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++) {
        check_ring(run, "ring", (enum halay_dtype)dtype, 5);
        check_ring(run, NULL, (enum halay_dtype)dtype, 3000);
    }
    check_ring(run, "ring", HALAY_F32, 0);
    check_ring(run, NULL, HALAY_U8, LARGE);
}

/* The n-th send matches the n-th receive, whichever is submitted first; other tags and names are independent. */
static void body_order(struct rank_run *run)
{
    struct halay_request *requests[2 * MANY], *named;
    float data[2 * MANY], x = run->rank ? -1 : 7;
    int peer = run->rank ^ 1;

    if (peer >= run->size || run->rank > 1)
        return; /* the others take no part */
    for (int i = 0; i < 2 * MANY; i++)
        data[i] = run->rank ? 0 : (float)i;
    if (run->rank)
        REQUIRE(halay_receive_async(run->ctx, "named", &x, 1, HALAY_F32, 0, 0, &named) == HALAY_OK);
    for (int i = 0; i < 2 * MANY; i++) {
        int k = run->rank ? (i % 2 ? i / 2 : MANY + i / 2)
                          : i; /* two tags: one rank alternates them, the other one does not */
        enum halay_status status =
            run->rank ? halay_receive_async(run->ctx, NULL, &data[k], 1, HALAY_F32, 0, k < MANY, &requests[k])
                      : halay_send_async(run->ctx, NULL, &data[k], 1, HALAY_F32, 1, k < MANY, &requests[k]);
        REQUIRE(status == HALAY_OK);
    }
    if (!run->rank)
        REQUIRE(halay_send_async(run->ctx, "named", &x, 1, HALAY_F32, 1, 0, &named) == HALAY_OK);
    for (int i = 2 * MANY; i-- > 0;) {
        CHECK(end_request(requests[i], "") == HALAY_OK);
        CHECK(data[i] == (float)i, "%d: %g", i, (double)data[i]);
    }
    CHECK(end_request(named, "") == HALAY_OK && x == 7);
    for (int i = 0; i < MANY; i++) { /* there and back */
        float y = (float)i;
        if (run->rank)
            CHECK(halay_receive(run->ctx, NULL, &y, 1, HALAY_F32, 0, 3) == HALAY_OK && y == (float)i);
        CHECK(halay_send(run->ctx, NULL, &y, 1, HALAY_F32, peer, 3) == HALAY_OK);
        if (!run->rank)
            CHECK(halay_receive(run->ctx, NULL, &y, 1, HALAY_F32, 1, 3) == HALAY_OK && y == (float)i);
    }
}

/* The same tag in two sets, submitted in another order by the receiver. */
static void body_sets(struct rank_run *run)
{
    int ranks[] = { 0, 1 }, peer = run->rank ^ 1;
    struct halay_process_set *set;
    struct halay_request *first, *second;
    float inside = 1, outside = 2;

    if (run->rank > 1)
        return;
    REQUIRE(halay_process_set_create(run->ctx, ranks, 2, &set) == HALAY_OK);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .collective = run->rank ? HALAY_RECEIVE : HALAY_SEND,
                                      .dimensions = 2,
                                      .shape = { 1, 1 },
                                      .peer = peer,
                                      .tag = 9 };
    if (run->rank)
        inside = outside = 0;
    info.in = info.out = run->rank ? &inside : &outside;
    info.set = run->rank ? set : NULL;
    REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &first) == HALAY_OK);
    info.in = info.out = run->rank ? &outside : &inside;
    info.set = run->rank ? NULL : set;
    REQUIRE(halay_submit_named(run->ctx, &info, NULL, NULL, &second) == HALAY_OK);
    CHECK(end_request(first, "") == HALAY_OK && end_request(second, "") == HALAY_OK && inside == 1 && outside == 2);
    CHECK(halay_process_set_remove(set) == HALAY_OK);
    info.set = set;
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &first) == HALAY_ERR_ARGUMENT);
    CHECK(strstr(halay_error_text(), "its process set has been removed") != NULL, "'%s'", halay_error_text());
}

/* ---- registered ---- */

static struct halay_tensor *register_point(struct rank_run *run, const char *name, int64_t tag, float *data,
                                           struct halay_process_set *set)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = name,
                                      .collective = run->rank ? HALAY_RECEIVE : HALAY_SEND,
                                      .dimensions = 1,
                                      .shape = { 2 },
                                      .in = data,
                                      .out = data,
                                      .set = set,
                                      .peer = run->rank ^ 1,
                                      .tag = tag };
    struct halay_tensor *tensor;

    REQUIRE(halay_register(run->ctx, &info, &tensor) == HALAY_OK);
    return tensor;
}

/* By name and by tag, several times, several at once; together with unregistered ones. */
static void body_registered(struct rank_run *run)
{
    struct halay_tensor *tensors[3], *again;
    struct halay_request *requests[3], *plain;
    struct halay_process_set *set;
    float data[3][2], x;
    int ranks[] = { 0, 1 };

    if (run->rank > 1)
        return;
    REQUIRE(halay_process_set_create(run->ctx, ranks, 2, &set) == HALAY_OK);
    tensors[0] = register_point(run, "named", 0, data[0], NULL);
    tensors[1] = register_point(run, NULL, 5, data[1], NULL);
    tensors[2] = register_point(run, "named", 0, data[2], set);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "named",
                                      .collective = run->rank ? HALAY_RECEIVE : HALAY_SEND,
                                      .dimensions = 1,
                                      .shape = { 3 },
                                      .in = data,
                                      .out = data,
                                      .peer = run->rank ^ 1 };
    CHECK(halay_register(run->ctx, &info, &again) == HALAY_ERR_DUPLICATE);
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &plain) == HALAY_ERR_ARGUMENT);
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < 3; k++)
            data[k][0] = data[k][1] = run->rank ? -1 : (float)(10 * i + k);
        REQUIRE(halay_submit_many(tensors, 3, NULL, NULL, requests) == HALAY_OK);
        x = run->rank ? -1 : 100 + (float)i;
        CHECK((run->rank ? halay_receive(run->ctx, NULL, &x, 1, HALAY_F32, 0, 6)
                         : halay_send(run->ctx, NULL, &x, 1, HALAY_F32, 1, 6)) == HALAY_OK);
        CHECK(x == 100 + (float)i);
        for (int k = 0; k < 3; k++)
            CHECK(end_request(requests[k], "") == HALAY_OK && data[k][1] == (float)(10 * i + k), "%d %d", i, k);
    }
    CHECK(halay_unregister(tensors[0]) == HALAY_OK && halay_unregister(tensors[1]) == HALAY_OK);
    REQUIRE(halay_process_set_remove(set) == HALAY_OK);
    CHECK(halay_submit(tensors[2], NULL, NULL, &plain) == HALAY_ERR_ARGUMENT);
    CHECK(strstr(halay_error_text(), "its process set has been removed") != NULL, "'%s'", halay_error_text());
    CHECK(halay_unregister(tensors[2]) == HALAY_OK);
}

/* ---- from any rank ---- */

static int sender_of(struct halay_request *request)
{
    struct halay_result result = { .struct_size = sizeof result };

    CHECK(halay_request_result(request, &result) == HALAY_OK);
    return result.peer;
}

/* All ranks send to rank 0, before and after it receives, and it gets the senders; messages of one rank are in
 * order. */
static void body_any(struct rank_run *run)
{
    enum { EACH = 10 };
    int next[RANKS_MAX] = { 0 }, count = EACH * (run->size - 1);
    struct halay_request *requests[EACH * RANKS_MAX];
    float data[EACH * RANKS_MAX];

    if (run->rank) {
        for (int i = 0; i < EACH; i++) {
            data[i] = (float)(100 * run->rank + i);
            REQUIRE(halay_send_async(run->ctx, i % 2 ? NULL : "any", &data[i], 1, HALAY_F32, 0, 3, &requests[i]) ==
                    HALAY_OK);
            if (i % 2 == 0) /* one of a name at a time */
                CHECK(end_request(requests[i], "") == HALAY_OK);
        }
        for (int i = 1; i < EACH; i += 2)
            CHECK(end_request(requests[i], "") == HALAY_OK);
        return;
    }
    for (int i = 0; i < count / 2; i++)
        REQUIRE(halay_receive_async(run->ctx, NULL, &data[i], 1, HALAY_F32, HALAY_ANY_RANK, 3, &requests[i]) ==
                HALAY_OK);
    for (int i = count / 2; i < count; i++) {
        REQUIRE(halay_receive_async(run->ctx, "any", &data[i], 1, HALAY_F32, HALAY_ANY_RANK, 0, &requests[i]) ==
                HALAY_OK);
        CHECK(halay_wait(requests[i], WAIT_MS) == HALAY_OK);
    }
    for (int i = 0; i < count; i++) {
        CHECK(halay_wait(requests[i], WAIT_MS) == HALAY_OK);
        int sender = sender_of(requests[i]), number = next[sender]++;
        number = 2 * (number % (EACH / 2)) + (i < count / 2); /* the odd ones are by tag */
        CHECK(data[i] == (float)(100 * sender + number), "%g from rank %d", (double)data[i], sender);
        halay_request_free(requests[i]);
    }
}

static enum halay_status send_in(struct rank_run *run, struct halay_process_set *set, int64_t tag, const float *data,
                                 struct halay_request **request)
{
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .collective = HALAY_SEND, .in = data, .set = set, .peer = 0, .tag = tag
    };

    return halay_submit_named(run->ctx, &info, NULL, NULL, request);
}

static enum halay_status receive_any_in(struct rank_run *run, struct halay_process_set *set, int64_t tag, float *data,
                                        struct halay_request **request)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .collective = HALAY_RECEIVE,
                                      .out = data,
                                      .set = set,
                                      .peer = HALAY_ANY_RANK,
                                      .tag = tag };

    return halay_submit_named(run->ctx, &info, NULL, NULL, request);
}

/* A message of one rank is matched first; another size is refused on both sides; sets are separate. */
static void body_any_mixed(struct rank_run *run)
{
    int ranks[] = { 0, 1 };
    struct halay_process_set *set;
    struct halay_request *first, *second, *third;
    float x[4] = { 11, 12, 13, 14 };

    if (run->rank > 1)
        return;
    REQUIRE(halay_process_set_create(run->ctx, ranks, 2, &set) == HALAY_OK);
    if (run->rank) {
        REQUIRE(halay_receive(run->ctx, NULL, &x[3], 1, HALAY_F32, 0, 9) == HALAY_OK);
        REQUIRE(send_in(run, NULL, 1, &x[0], &first) == HALAY_OK && send_in(run, NULL, 1, &x[1], &second) == HALAY_OK);
        CHECK(end_request(first, "") == HALAY_OK && end_request(second, "") == HALAY_OK);
        REQUIRE(halay_send_async(run->ctx, NULL, x, 3, HALAY_F32, 0, 2, &third) == HALAY_OK);
        REQUIRE(send_in(run, NULL, 3, &x[0], &first) == HALAY_OK && send_in(run, set, 3, &x[1], &second) == HALAY_OK);
        CHECK(end_request(first, "") == HALAY_OK && end_request(second, "") == HALAY_OK);
        CHECK(end_request(third, "tag 2: rank 1 sends 3 f32, rank 0 receives 2 f32") == HALAY_ERR_MISMATCH);
        return;
    }
    REQUIRE(receive_any_in(run, NULL, 1, &x[1], &second) == HALAY_OK);
    REQUIRE(halay_receive_async(run->ctx, NULL, &x[0], 1, HALAY_F32, 1, 1, &first) == HALAY_OK);
    REQUIRE(halay_send(run->ctx, NULL, &x[3], 1, HALAY_F32, 1, 9) == HALAY_OK);
    CHECK(end_request(first, "") == HALAY_OK && end_request(second, "") == HALAY_OK && x[0] == 11 && x[1] == 12);
    REQUIRE(receive_any_in(run, set, 3, &x[1], &second) == HALAY_OK);
    REQUIRE(receive_any_in(run, NULL, 3, &x[0], &first) == HALAY_OK);
    REQUIRE(halay_receive_async(run->ctx, NULL, &x[2], 2, HALAY_F32, HALAY_ANY_RANK, 2, &third) == HALAY_OK);
    CHECK(end_request(first, "") == HALAY_OK && end_request(second, "") == HALAY_OK && x[0] == 11 && x[1] == 12);
    CHECK(end_request(third, "tag 2: rank 1 sends 3 f32, rank 0 receives 2 f32") == HALAY_ERR_MISMATCH);
}

/* ---- refused calls ---- */

static void body_refused(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct halay_request *request;
    struct halay_tensor *tensor;
    float data[3] = { 1, 2, 3 };
    char name[HALAY_NAME_MAX];
    int peer = run->rank ^ 1;

    if (run->rank > 1)
        return;
    enum halay_status status = run->rank ? halay_receive_async(ctx, "differs", data, 3, HALAY_F32, peer, 0, &request)
                                         : halay_send_async(ctx, "differs", data, 2, HALAY_F32, peer, 0, &request);
    REQUIRE(status == HALAY_OK);
    CHECK(end_request(request, "tensor 'differs': rank 0 sends 2 f32, rank 1 receives 3 f32") == HALAY_ERR_MISMATCH);
    status = run->rank ? halay_receive_async(ctx, NULL, data, 2, HALAY_I32, peer, -4, &request)
                       : halay_send_async(ctx, NULL, data, 2, HALAY_F32, peer, -4, &request);
    REQUIRE(status == HALAY_OK);
    CHECK(end_request(request, "tag -4: rank 0 sends 2 f32, rank 1 receives 2 i32") == HALAY_ERR_MISMATCH);

    CHECK(halay_send_async(ctx, NULL, data, 1, HALAY_F32, run->rank, 0, &request) == HALAY_ERR_ARGUMENT);
    CHECK(halay_send_async(ctx, NULL, data, 1, HALAY_F32, run->size, 0, &request) == HALAY_ERR_ARGUMENT);
    CHECK(halay_receive_async(ctx, NULL, data, 1, HALAY_F32, -2, 0, &request) == HALAY_ERR_ARGUMENT);
    CHECK(halay_send_async(ctx, NULL, data, 1, HALAY_F32, HALAY_ANY_RANK, 0, &request) == HALAY_ERR_ARGUMENT);
    CHECK(halay_receive_async(ctx, NULL, NULL, 1, HALAY_F32, peer, 0, &request) == HALAY_ERR_ARGUMENT);
    CHECK(halay_send_async(ctx, NULL, NULL, 1, HALAY_F32, peer, 0, &request) == HALAY_ERR_ARGUMENT);
    CHECK(halay_send_async(ctx, "", data, 1, HALAY_F32, peer, 0, &request) == HALAY_ERR_ARGUMENT);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    CHECK(halay_send_async(ctx, name, data, 1, HALAY_F32, peer, 0, &request) == HALAY_ERR_ARGUMENT);
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = name, .collective = HALAY_SEND, .in = data, .peer = peer
    };
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
    info.name = "r";
    info.peer = run->rank;
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);

    name[200] = 0;
    status = run->rank ? halay_receive_async(ctx, name, data, 1, HALAY_F32, peer, 0, &request)
                       : halay_send_async(ctx, name, data, 1, HALAY_F32, peer, 0, &request);
    REQUIRE(status == HALAY_OK);
    CHECK(end_request(request, "") == HALAY_OK && data[0] == 1);
}

static void body_duplicate(struct rank_run *run)
{
    struct halay_request *request, *again;
    float x = 1;

    if (run->rank == 0) {
        REQUIRE(halay_receive_async(run->ctx, "x", &x, 1, HALAY_F32, 1, 0, &request) == HALAY_OK);
        CHECK(halay_receive_async(run->ctx, "x", &x, 1, HALAY_F32, 1, 0, &again) == HALAY_ERR_DUPLICATE);
        CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
        CHECK(end_request(request, "") == HALAY_OK && x == 3);
        return;
    }
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    x = 3;
    if (run->rank == 1)
        CHECK(halay_send(run->ctx, "x", &x, 1, HALAY_F32, 0, 0) == HALAY_OK);
}

/* ---- lost peers ---- */

/* Messages that the peer has sent arrive; others end with an error, and only these: other ranks continue. */
static void body_left(struct rank_run *run)
{
    struct halay_request *sent, *never;
    float x = 0, y = 0;

    if (run->rank == 1) {
        x = 4;
        CHECK(halay_send(run->ctx, NULL, &x, 1, HALAY_F32, 0, 1) == HALAY_OK);
        return;
    }
    if (run->rank)
        return;
    REQUIRE(halay_receive_async(run->ctx, NULL, &x, 1, HALAY_F32, 1, 1, &sent) == HALAY_OK);
    REQUIRE(halay_receive_async(run->ctx, NULL, &y, 1, HALAY_F32, 1, 2, &never) == HALAY_OK);
    CHECK(end_request(sent, "") == HALAY_OK && x == 4);
    CHECK(end_request(never, "rank 1 has left") == HALAY_ERR_PEER);
    if (run->size == 2) {
        REQUIRE(halay_receive_async(run->ctx, NULL, &y, 1, HALAY_F32, HALAY_ANY_RANK, 2, &never) == HALAY_OK);
        CHECK(end_request(never, "all other ranks have left") == HALAY_ERR_PEER);
    }
    CHECK(halay_context_status(run->ctx, NULL, 0) == HALAY_OK);
}

static void body_dead(struct rank_run *run)
{
    struct halay_request *requests[2];
    static _Atomic int ready;
    char *large = calloc(1, LARGE);

    REQUIRE(large);
    if (!run->rank)
        ready = 0;
    CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
    if (run->rank == 1) {
        while (ready < run->size - 1)
            sched_yield();
        halay_fake_hub_kill(run->hub, 1);
    } else if (!run->rank) {
        REQUIRE(halay_send_async(run->ctx, NULL, large, LARGE, HALAY_U8, 1, 0, &requests[0]) == HALAY_OK);
        REQUIRE(halay_receive_async(run->ctx, NULL, large, 4, HALAY_U8, 1, 0, &requests[1]) == HALAY_OK);
        ++ready;
        for (int i = 0; i < 2; i++)
            CHECK(end_request(requests[i], "rank 1 has died") == HALAY_ERR_PEER);
    } else {
        ++ready;
    }
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        CHECK(halay_barrier(run->ctx, NULL) == HALAY_ERR_PEER);
    free(large);
}

static void check_ranks(int size, uint64_t delay, void (*body)(struct rank_run *run), const char *expected)
{
    ranks_run(size, delay, &(struct rank_run){ .body = body, .expected = expected }, NULL, NULL);
}

int main(void)
{
    make_pattern();
    for (int size = 2; size <= 5; size++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            check_ranks(size, delay * 3, body_ring, NULL);
            check_ranks(size, delay * 4, body_order, NULL);
            check_ranks(size, delay * 5, body_sets, NULL);
            check_ranks(size, delay * 6, body_registered, "");
            check_ranks(size, delay * 3, body_any, NULL);
            check_ranks(size, delay * 4, body_any_mixed, "");
            check_ranks(size, delay * 6, body_refused, "");
            check_ranks(size, delay * 7, body_duplicate, "");
        }
    check_ranks(2, 0, body_left, "");
    check_ranks(3, 9, body_left, "");
    check_ranks(2, 0, body_dead, "");
    check_ranks(3, 9, body_dead, "");
    return test_end();
}
