/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong with devices, and what waits for them: no module, no device, no memory, data on several; a stream
 * that does not come to an end, and what may overtake a submission that follows it, and what may not; copies that fail;
 * a rank that dies.
 */
#include "tests/cuda/cases.h"

/* ---- nothing there ---- */

static void without(struct rank_run *run)
{
    const char *words = run->arg;
    struct user u = { .ctx = run->ctx };
    float data[N] = { 1 };
    void *ptr = NULL;
    struct halay_tensor *tensor;

    struct halay_tensor_info info = describe("x", data, 1);
    refused(&u, &info, HALAY_ERR_UNSUPPORTED, words);
    CHECK(halay_alloc_device(run->ctx, 0, 100, &ptr) == HALAY_ERR_UNSUPPORTED && !ptr);
    CHECK(strstr(halay_error_text(), words), "'%s'", halay_error_text());
    CHECK(halay_register(run->ctx, &info, &tensor) == HALAY_ERR_UNSUPPORTED);
    info.memory = HALAY_MEMORY_ANY;
    info.after_stream = &u;
    refused(&u, &info, HALAY_ERR_UNSUPPORTED, words);
    CHECK(halay_allreduce(run->ctx, "x", NULL, data, N, HALAY_F32, HALAY_SUM) == HALAY_OK && data[0] == 2);
}

static void run_without(const char *words)
{
    ranks_run(2, 0, &(struct rank_run){ .body = without, .arg = (void *)words, .expected = "" }, NULL, NULL);
}

static void no_module(void)
{
    setenv("HALAY_MODULE_PATH", "/nowhere", 1);
    run_without("libhalay-cuda.so");
}

static void no_driver(void)
{
    emu_fail("init", 0, cudaErrorInsufficientDriver);
    run_without("no CUDA device can be used: cudaErrorInsufficientDriver");
}

static void no_device(void)
{
    setenv("EMU_DEVICES", "0", 1);
    run_without("no CUDA device");
}

static void no_permission(void)
{
    emu_fail("init", 0, cudaErrorNotPermitted);
    run_without("cudaErrorNotPermitted");
}

/* ---- refused ---- */

static void body_refused(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4), b;
    struct halay_request *requests[2] = { NULL };
    struct halay_tensor *tensors[2];
    float host[N] = { 0 };
    void *ptr = NULL;

    GOOD(cudaSetDevice(1 - u->device));
    b = area_get(u, DEVICE, N * 4);
    GOOD(cudaSetDevice(u->device));
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.in = b.data;
    refused(u, &info, HALAY_ERR_ARGUMENT, "devices 1 and 0");
    info = describe("x", host, 1);
    refused(u, &info, HALAY_ERR_ARGUMENT, "its data are in host memory");
    CHECK(halay_alloc_device(u->ctx, 7, 100, &ptr) == HALAY_ERR_ARGUMENT && strstr(halay_error_text(), "there are 2"));
    emu_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
    CHECK(halay_alloc_device(u->ctx, 0, 100, &ptr) == HALAY_ERR_NO_MEMORY && strstr(halay_error_text(), "are free"),
          "'%s'", halay_error_text());
    info = describe("x", a.data, 1);
    emu_fail("cudaHostRegister", 1, cudaErrorMemoryAllocation);
    refused(u, &info, HALAY_ERR_NO_MEMORY, "cudaHostRegister");
    area_fill(u, &a, HALAY_F32, N, one_more, 0);
    GOOD(cudaStreamSynchronize(u->stream));
    REQUIRE(halay_register(u->ctx, &info, &tensors[0]) == HALAY_OK);
    tensors[1] = tensors[0];
    CHECK(halay_submit_many(tensors, 2, NULL, NULL, requests) == HALAY_ERR_DUPLICATE && !requests[0]);
    CHECK(halay_submit(tensors[0], NULL, NULL, &requests[0]) == HALAY_OK);
    CHECK(halay_wait(requests[0], WAIT_MS) == HALAY_OK);
    halay_request_free(requests[0]);
    compare_sum(u, &a);
    CHECK(halay_wait_stream(NULL, 0, u->stream) == HALAY_ERR_ARGUMENT);
    CHECK(halay_unregister(tensors[0]) == HALAY_OK);
    area_put(u, &a);
    area_put(u, &b);
}

static void are_refused(void)
{
    setenv("EMU_DEVICES", "2", 1);
    users_quiet(1, body_refused, "", NULL, NULL);
}

/* ---- a stream that does not come to its end ---- */

/* Rank 0's data are late: what the host has overtakes them, a join does not, messages of a tag don't. */
static void body_late(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4), late = area_get(u, DEVICE, 4);
    struct halay_request *first, *messages[2], *join;
    float host[N] = { 1 }, word_of_host = 1, got[2] = { 0 };
    int to = 1 - u->rank;

    if (u->rank == 0)
        block(u->stream, word);
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    area_fill(u, &late, HALAY_F32, 1, one_more, 40);
    struct halay_tensor_info info = describe("late", a.data, 1);
    info.after_stream = u->stream;
    first = submit(u, &info);
    if (u->rank == 0) {
        struct halay_tensor_info send = { .struct_size = sizeof send,
                                          .collective = HALAY_SEND,
                                          .dtype = HALAY_F32,
                                          .dimensions = 1,
                                          .shape = { 1 },
                                          .in = late.data,
                                          .peer = to,
                                          .tag = 3,
                                          .memory = HALAY_MEMORY_DEVICE,
                                          .after_stream = u->stream };
        messages[0] = submit(u, &send);
        REQUIRE(halay_send_async(u->ctx, NULL, &word_of_host, 1, HALAY_F32, to, 3, &messages[1]) == HALAY_OK);
    } else {
        for (int i = 0; i < 2; i++)
            REQUIRE(halay_receive_async(u->ctx, NULL, &got[i], 1, HALAY_F32, to, 3, &messages[i]) == HALAY_OK);
    }
    CHECK(halay_allreduce(u->ctx, "host's", NULL, host, N, HALAY_F32, HALAY_SUM) == HALAY_OK && host[0] == 2);
    REQUIRE(halay_join_async(u->ctx, &join) == HALAY_OK);
    if (u->rank == 0) { /* the other one may be slow */
        CHECK(halay_wait_stream(first, 0, u->stream) == HALAY_ERR_TIMEOUT);
        CHECK(halay_test(first) == HALAY_IN_PROGRESS && halay_test(messages[1]) == HALAY_IN_PROGRESS);
        CHECK(halay_wait(join, 20) == HALAY_ERR_TIMEOUT);
    }
    *word = 1;
    CHECK(halay_wait_all((struct halay_request *[]){ first, messages[0], messages[1], join }, 4, WAIT_MS) == HALAY_OK,
          "%s", halay_error_text());
    CHECK(u->rank == 0 || (got[0] == 40 && got[1] == 1), "%g %g", got[0], got[1]);
    compare_sum(u, &a);
    for (int i = 0; i < 2; i++)
        halay_request_free(messages[i]);
    halay_request_free(first);
    halay_request_free(join);
}

static void late(void)
{
    users_quiet(2, body_late, NULL, NULL, NULL);
}

/* A submission that is canceled while its data are late ends on all ranks, and can be made again. */
static void body_canceled(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4);
    struct halay_request *request;

    if (u->rank == 0)
        block(u->stream, word);
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u->stream;
    if (u->rank == 0) {
        request = submit(u, &info);
        CHECK(halay_cancel(request) == HALAY_OK);
        CHECK(halay_wait(request, 10) == HALAY_ERR_TIMEOUT);
        *word = 1;
        CHECK(halay_wait(request, WAIT_MS) == HALAY_ERR_CANCELED, "%s", halay_error_text());
        CHECK(halay_wait_stream(request, 0, u->stream) == HALAY_ERR_CANCELED);
        halay_request_free(request);
    }
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    if (u->rank == 1) {
        request = submit(u, &info);
        CHECK(halay_wait(request, WAIT_MS) == HALAY_ERR_CANCELED, "%s", halay_error_text());
        halay_request_free(request);
    }
    request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    compare_sum(u, &a);
}

static void canceled(void)
{
    users_quiet(2, body_canceled, NULL, NULL, NULL);
}

/* The job is given up while data are late: the request ends at once, its memory when the device lets go. */
static _Atomic int submitted;

static void body_aborted(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4);

    block(u->stream, word);
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u->stream;
    struct halay_request *request = submit(u, &info);
    submitted++;
    while (submitted < u->size)
        sched_yield();
    if (u->rank == 0)
        CHECK(halay_abort(u->ctx, "enough") == HALAY_OK);
    enum halay_status status = halay_wait_stream(request, WAIT_MS, u->stream);
    CHECK(status == (u->rank ? HALAY_ERR_PEER : HALAY_ERR_CANCELED), "%s", halay_error_text());
    CHECK(strstr(halay_error_text(), "enough"));
    halay_request_free(request);
    *word = 1;
}

static void aborted(void)
{
    users_quiet(2, body_aborted, "", NULL, NULL);
}

/* ---- graphs ---- */

/* A program records a graph while the engine works; the recording stream itself cannot be followed. */
static void body_recording(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);
    struct halay_request *request = NULL;
    cudaStream_t recording;
    cudaGraph_t graph;
    void *pinned;

    GOOD(cudaHostAlloc(&pinned, 4, cudaHostAllocDefault));
    GOOD(cudaStreamCreateWithFlags(&recording, cudaStreamNonBlocking));
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK); /* no other rank, of the same process, allocates meanwhile */
    GOOD(cudaStreamBeginCapture(recording, cudaStreamCaptureModeGlobal));
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u->stream;
    request = submit(u, &info);
    enum halay_status status = halay_wait_stream(request, WAIT_MS, recording);
    CHECK(status == HALAY_ERR_UNSUPPORTED || (status == HALAY_OK && halay_test(request) == HALAY_OK));
    CHECK(halay_wait_stream(request, WAIT_MS, u->stream) == HALAY_OK, "%s", halay_error_text());
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    info.after_stream = recording;
    refused(u, &info, HALAY_ERR_UNSUPPORTED, "records a graph");
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    GOOD(cudaStreamEndCapture(recording, &graph));
    GOOD(cudaGraphDestroy(graph));
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    halay_request_free(request);
    compare_sum(u, &a);
}

static void recorded(void)
{
    users_quiet(2, body_recording, "", NULL, NULL);
}

/* ---- failures ---- */

/* A copy that fails ends the job on all ranks. */
static void body_failing(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    struct halay_tensor_info info = describe("x", a.data, 1);
    float host[N];
    if (u->rank == 1) /* the emulation's next copy is its own */
        emu_fail("cudaMemcpyAsync", 1, cudaErrorIllegalAddress);
    else
        info = describe("y", host, 0);
    struct halay_request *request = NULL;
    enum halay_status status = halay_submit_named(u->ctx, &info, NULL, NULL, &request);
    if (status == HALAY_OK) {
        status = halay_wait(request, WAIT_MS);
        halay_request_free(request);
    }
    CHECK(status == (u->rank == 1 ? HALAY_ERR_SYSTEM : HALAY_ERR_PEER), "%s", halay_status_string(status));
    CHECK(strstr(halay_error_text(), "rank 1") && strstr(halay_error_text(), "device"), "'%s'", halay_error_text());
}

static void failing(void)
{
    users_quiet(2, body_failing, "", NULL, NULL);
}

/* The copy of a result fails: the request says so, and so does the context. */
static void body_failing_late(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);
    char text[200];

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    struct halay_tensor_info info = describe("x", a.data, 1);
    emu_fail("cudaMemcpyAsync", 2, cudaErrorIllegalAddress);
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_ERR_SYSTEM);
    halay_request_free(request);
    CHECK(halay_context_status(u->ctx, text, sizeof text) == HALAY_ERR_SYSTEM && strstr(text, "results"), "'%s'", text);
    struct halay_request *later = NULL;
    CHECK(halay_submit_named(u->ctx, &info, NULL, NULL, &later) == HALAY_ERR_SYSTEM && !later);
}

static void failing_late(void)
{
    users_quiet(1, body_failing_late, "", NULL, NULL);
}

/* What a refused submission follows is not followed by the next one. */
static void body_again(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4), b = area_get(u, DEVICE, N * 4);
    struct halay_tensor_info info = describe("x", a.data, 1);
    cudaStream_t other;
    cudaEvent_t done;

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    area_fill(u, &b, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    GOOD(cudaEventRecord(done, u->stream));
    GOOD(cudaStreamSynchronize(u->stream));
    block(u->stream, word);
    GOOD(cudaEventRecord(u->event, u->stream));
    info.after_event = u->event;
    struct halay_request *request = submit(u, &info);
    refused(u, &info, HALAY_ERR_DUPLICATE, "x");
    for (int by_event = 0; by_event < 2; by_event++) {
        info = describe("y", b.data, 1);
        info.after_stream = by_event ? NULL : other;
        info.after_event = by_event ? done : NULL;
        struct halay_request *next = submit(u, &info);
        CHECK(halay_wait(next, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(next);
    }
    *word = 1;
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
}

static void again(void)
{
    users_quiet(1, body_again, "", NULL, NULL);
}

/* The default streams of two devices have one name. */
static void body_default_streams(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct halay_request *requests[2];
    struct area areas[2];

    for (int device = 0; device < 2; device++) {
        GOOD(cudaSetDevice(device));
        areas[device] = area_get(u, DEVICE, N * 4);
        GOOD(cudaMemset(areas[device].data, 0, N * 4));
    }
    for (int device = 0; device < 2; device++) {
        struct halay_tensor_info info = describe(device ? "y" : "x", areas[device].data, 1);
        info.after_stream = cudaStreamLegacy;
        GOOD(cudaSetDevice(device));
        if (!device)
            block(cudaStreamLegacy, word);
        requests[device] = submit(u, &info);
    }
    GOOD(cudaSetDevice(u->device));
    CHECK(halay_wait(requests[1], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    *word = 1;
    CHECK(halay_wait(requests[0], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(requests[0]);
    halay_request_free(requests[1]);
}

static void default_streams(void)
{
    users_quiet(1, body_default_streams, "", NULL, NULL);
}

/* Rank 1 dies while the others wait for it with a stream. */
static void body_killed(struct rank_run *run)
{
    struct user u = { .ctx = run->ctx };

    user_open(&u);
    struct area a = area_get(&u, DEVICE, N * 4);
    area_fill(&u, &a, HALAY_F32, N, one_more, u.rank);
    if (run->rank == 1) {
        halay_fake_hub_kill(run->hub, 1);
    } else {
        struct halay_tensor_info info = describe("x", a.data, 1);
        struct halay_request *request = NULL;
        info.after_stream = u.stream;
        enum halay_status status = halay_submit_named(run->ctx, &info, NULL, NULL, &request);
        if (status == HALAY_OK)
            status = halay_wait_stream(request, WAIT_MS, u.stream);
        CHECK(status == HALAY_ERR_PEER && strstr(halay_error_text(), "rank 1"), "%s: '%s'", halay_status_string(status),
              halay_error_text());
        halay_request_free(request);
    }
    user_close(&u);
}

static void killed(void)
{
    ranks_run(3, 0, &(struct rank_run){ .body = body_killed, .expected = "" }, NULL, NULL);
}

int main(void)
{
    apart("no module", no_module);
    apart("no driver", no_driver);
    apart("no device", no_device);
    apart("no permission", no_permission);
    apart("refused", are_refused);
    apart("late", late);
    apart("canceled", canceled);
    apart("aborted", aborted);
    apart("recorded", recorded);
    apart("failing", failing);
    apart("failing late", failing_late);
    apart("again", again);
    apart("default streams", default_streams);
    apart("killed", killed);
    return test_end();
}
