/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine leaves alone: devices that a rank does not use, the program's last error, events and memory that are
 * the program's again, tensors that need not wait for others.
 */
#include "tests/cuda/cases.h"

/* ---- other devices ---- */

static void use(struct user *u, struct area *a)
{
    struct halay_tensor_info info = describe("x", a->data, 1);
    struct halay_request *request = submit(u, &info);

    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK);
    halay_request_free(request);
}

/* A thread of the program's that never chose a device. */
static void *use_elsewhere(void *arg)
{
    struct user *u = arg;
    void *ptr = NULL;

    CHECK(halay_alloc_device(u->ctx, 1, 1000, &ptr) == HALAY_OK);
    halay_free(u->ctx, ptr);
    use(u, u->arg);
    return NULL;
}

/* The rank's device is 1: it has no context on 0, whoever drives. */
static void body_elsewhere(struct rank_run *run)
{
    struct user u = { .ctx = run->ctx, .size = 1, .device = 1 };
    pthread_t thread;

    GOOD(cudaSetDevice(u.device));
    GOOD(cudaStreamCreateWithFlags(&u.stream, cudaStreamNonBlocking));
    struct area a = area_get(&u, DEVICE, N * 4);
    area_fill(&u, &a, HALAY_F32, N, one_more, 0);
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u.stream;
    struct halay_request *request = submit(&u, &info);
    while (halay_test(request) == HALAY_IN_PROGRESS) /* the engine's thread does it */
        usleep(100);
    halay_request_free(request);
    u.arg = &a;
    REQUIRE(pthread_create(&thread, NULL, use_elsewhere, &u) == 0);
    pthread_join(thread, NULL);
    compare_sum(&u, &a);
    if (emu_has_context) {
        CHECK(emu_has_context(1));
        CHECK(!emu_has_context(0));
    }
    GOOD(cudaStreamDestroy(u.stream));
}

static void elsewhere(void)
{
    ranks_run(1, 0, &(struct rank_run){ .body = body_elsewhere }, NULL, NULL);
}

/* ---- the program's last error ---- */

static void body_error(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4);

    block(u->stream, word);
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u->stream;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, 20) == HALAY_ERR_TIMEOUT);
    *word = 1;
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK);
    halay_request_free(request);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    compare_sum(u, &a);
}

static void error(void)
{
    users_quiet(2, body_error, NULL, NULL, NULL);
}

/* ---- what need not wait ---- */

/* The first tensor's data come only when the second one is there, as when they are made from it on another rank. */
static void body_overtakes(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area first = area_get(u, DEVICE, N * 4), second = area_get(u, DEVICE, N * 4);
    struct halay_request *requests[2];
    cudaStream_t other;

    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    block(other, word);
    GOOD(cudaMemsetAsync(first.data, 0, N * 4, other));
    area_fill(u, &second, HALAY_F32, N, one_more, u->rank);
    struct halay_tensor_info info = describe("first", first.data, 1);
    info.after_stream = other;
    requests[0] = submit(u, &info);
    info = describe("second", second.data, 1);
    info.after_stream = u->stream;
    requests[1] = submit(u, &info);
    CHECK(halay_wait(requests[1], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    CHECK(halay_test(requests[0]) == HALAY_IN_PROGRESS);
    *word = 1;
    CHECK(halay_wait(requests[0], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    compare_sum(u, &second);
    halay_request_free(requests[0]);
    halay_request_free(requests[1]);
    GOOD(cudaStreamSynchronize(other));
    GOOD(cudaStreamDestroy(other));
}

static void overtakes(void)
{
    users_quiet(2, body_overtakes, NULL, NULL, NULL);
}

/* ---- the program's events ---- */

/* One that is recorded elsewhere and destroyed after the submission: what it was then is followed. */
static void body_events(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4);
    cudaStream_t other;
    cudaEvent_t event;

    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    block(u->stream, word);
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaEventRecord(event, u->stream));
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_event = event;
    info.after_stream = other;
    struct halay_request *request = submit(u, &info);
    GOOD(cudaEventRecord(event, other));
    GOOD(cudaEventDestroy(event));
    CHECK(halay_wait(request, 20) == HALAY_ERR_TIMEOUT);
    *word = 1;
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    compare_sum(u, &a);
    GOOD(cudaStreamDestroy(other));
}

static void events(void)
{
    users_quiet(2, body_events, NULL, NULL, NULL);
}

/* ---- memory after the end ---- */

/* Once a request has ended, however, no copy of the engine's touches its data. */
static void body_given_up(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u->stream;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_abort(u->ctx, "enough") == HALAY_OK);
    enum halay_status status = halay_wait(request, WAIT_MS);
    CHECK(status == HALAY_ERR_CANCELED || status == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    GOOD(cudaMemsetAsync(a.data, 0, a.bytes, u->stream));
}

static void given_up(void)
{
    users_quiet(1, body_given_up, "", NULL, NULL);
}

/* The second copy of a group fails, while the first one is under way. */
static void body_half(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4), b = area_get(u, DEVICE, N * 4);
    struct halay_member members[2];

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    area_fill(u, &b, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    for (int i = 0; i < 2; i++)
        members[i] =
            (struct halay_member){ .dtype = HALAY_F32, .dimensions = 1, .shape = { N }, .out = i ? b.data : a.data };
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "a group",
                                      .members = members,
                                      .member_count = 2,
                                      .member_bytes = sizeof *members,
                                      .memory = HALAY_MEMORY_DEVICE };
    emu_fail("cudaMemcpyAsync", 2, cudaErrorIllegalAddress);
    struct halay_request *request = submit(u, &info);
    enum halay_status status = halay_wait(request, WAIT_MS);
    CHECK(status == HALAY_ERR_SYSTEM, "%s: %s", halay_status_string(status), halay_error_text());
    halay_request_free(request);
    GOOD(cudaMemsetAsync(a.data, 0, a.bytes, u->stream));
}

static void half(void)
{
    users_quiet(1, body_half, "", NULL, NULL);
}

/* What is refused does not reach a device, and says why it is refused. */
static void body_refused_early(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4), large = area_get(u, DEVICE, 100000);
    struct halay_tensor_info info = describe("large", large.data, 1);
    struct halay_request *request = NULL;

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    use(u, &a);
    CHECK(halay_abort(u->ctx, "enough") == HALAY_OK);
    while (halay_context_status(u->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    size_t pinned = emu_calls ? emu_calls("cudaHostRegister") : 0;
    info.shape[0] = large.bytes / 4;
    CHECK(halay_submit_named(u->ctx, &info, NULL, NULL, &request) == HALAY_ERR_CANCELED);
    CHECK(strstr(halay_error_text(), "enough"), "'%s'", halay_error_text());
    CHECK(!emu_calls || emu_calls("cudaHostRegister") == pinned);
}

static void refused_early(void)
{
    users_quiet(1, body_refused_early, "", NULL, NULL);
}

int main(void)
{
    apart("elsewhere", elsewhere);
    apart("error", error);
    apart("overtakes", overtakes);
    apart("events", events);
    apart("given up", given_up);
    apart("half", half);
    apart("refused early", refused_early);
    return test_end();
}
