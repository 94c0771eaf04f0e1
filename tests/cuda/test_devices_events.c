/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of devices and contexts: how often the driver is called for them, devices that write no words, a process that
 * ends while its engine works, one that opens the module twice, and two with one process number.
 */
#include "base/clock.h"
#include "collectives/transport/devices.h"
#include "fusion/paths/device/device_state.h"
#include "tests/cuda/cases.h"

enum { TENSORS = 16, STEPS = 3, DEVICES = 2 };

/* ---- calls of the driver ---- */

struct calls {
    size_t records, queries, launches, buckets, us;
};

/* All ranks' calls. Each rank has its own number of buckets, which are the same ones. */
static struct calls count_calls(struct user *u)
{
    struct halay_counters counters = { .struct_size = sizeof counters };

    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK && halay_counters_read(u->ctx, &counters) == HALAY_OK);
    struct calls calls = { .records = emu_calls("cudaEventRecord"),
                           .queries = emu_calls("cuEventQuery"),
                           .launches = emu_calls("cudaLaunchKernelEx"),
                           .buckets = (size_t)(counters.collectives * (uint64_t)u->size),
                           .us = (size_t)halay_now_us() };
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    return calls;
}

static void step(struct user *u, struct area *areas, enum halay_memory_kind memory)
{
    struct halay_request *requests[TENSORS];
    char name[16];

    for (int i = 0; i < TENSORS; i++) {
        area_fill(u, &areas[i], HALAY_F32, N, one_more, u->rank);
        snprintf(name, sizeof name, "t%d", i);
        struct halay_tensor_info info = describe(name, areas[i].data, 1);
        info.memory = memory;
        info.after_stream = u->stream;
        requests[i] = submit(u, &info);
    }
    for (int i = 0; i < TENSORS; i++) {
        CHECK(halay_wait(requests[i], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(requests[i]);
        compare_sum(u, &areas[i]);
    }
}

static void areas_open(struct user *u, struct area *areas)
{
    for (int i = 0; i < TENSORS; i++)
        areas[i] = area_get(u, DEVICE, N * 4);
}

/* Runs steps whose tensors are known. Returns the calls that they took. */
static struct calls run_steps(struct user *u, enum halay_memory_kind memory)
{
    struct area areas[TENSORS];

    areas_open(u, areas);
    step(u, areas, memory);
    struct calls before = count_calls(u);
    for (int i = 0; i < STEPS; i++)
        step(u, areas, memory);
    struct calls after = count_calls(u);
    return (struct calls){ .records = after.records - before.records,
                           .queries = after.queries - before.queries,
                           .launches = after.launches - before.launches,
                           .buckets = after.buckets - before.buckets,
                           .us = after.us - before.us };
}

/* An event for each launch, none for a tensor; a query a millisecond and device. Each query may record one again. */
static void body_calls(struct user *u)
{
    struct calls calls = run_steps(u, HALAY_MEMORY_DEVICES);

    CHECK(calls.queries <= DEVICES * (calls.us / 1000 + 2), "%zu queries in %zu us", calls.queries, calls.us);
    CHECK(calls.records <= calls.launches + calls.queries + DEVICES, "%zu records for %zu launches", calls.records,
          calls.launches);
}

/* Copied to the host: an event for each bucket, none for a tensor. */
static void body_staged(struct user *u)
{
    struct calls calls = run_steps(u, HALAY_MEMORY_DEVICE);

    CHECK(calls.records <= calls.buckets + calls.queries + DEVICES, "%zu records for %zu buckets", calls.records,
          calls.buckets);
}

static void calls(void)
{
    users_quiet(2, body_calls, NULL, NULL, NULL);
}

static void staged(void)
{
    users_quiet(2, body_staged, NULL, NULL, NULL);
}

static void body_without_words(struct user *u)
{
    struct area areas[TENSORS];

    areas_open(u, areas);
    step(u, areas, HALAY_MEMORY_DEVICES);
    CHECK(emu_calls("cuStreamWriteValue32") <= DEVICES * 2);
}

static void without_words(void)
{
    emu_fail("cuStreamWriteValue32", 0, cudaErrorNotSupported);
    users_quiet(2, body_without_words, NULL, NULL, NULL);
}

/* ---- the end of the process ---- */

static _Atomic int lines;

static void count_line(struct rank_run *run, const char *line)
{
    (void)run;
    fprintf(stderr, "%s\n", line);
    lines++;
}

static void watch_end(void)
{
    usleep(30000); /* CUDA has ended, and the engine's thread still looks */
    _exit(lines != 0);
}

/* The program returns while its data are late. */
static void body_exits(struct rank_run *run)
{
    struct user u = { .ctx = run->ctx };
    _Atomic uint32_t *word = word_get();

    user_open(&u);
    struct area a = area_get(&u, DEVICE, N * 4);
    block(u.stream, word);
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.after_stream = u.stream;
    submit(&u, &info);
    usleep(5000);
    exit(0);
}

static void exits(void)
{
    REQUIRE(!atexit(watch_end)); /* runs after what CUDA's first call has left */
    ranks_run(1, 0, &(struct rank_run){ .body = body_exits, .sink = count_line }, NULL, NULL);
}

/* ---- contexts ---- */

/* Nothing but the module uses CUDA. */
static void body_twice(struct rank_run *run)
{
    void *ptr = NULL;

    CHECK(halay_alloc_device(run->ctx, 0, 100, &ptr) == HALAY_OK);
    halay_free(run->ctx, ptr);
}

static void twice(void)
{
    for (int i = 0; i < 2; i++)
        ranks_run(1, 0, &(struct rank_run){ .body = body_twice }, NULL, NULL);
}

/* Another process of the same number: what it shares is mapped, not taken for memory of this one. */
static void body_same_number(struct rank_run *run)
{
    struct halay_devices devices = { 0 };
    struct halay_device_share share;
    int ends[2], back[2], status;
    void *ptr = NULL;

    halay_devices_init(&devices, sizeof(struct halay_device));
    REQUIRE(!pipe(ends) && !pipe(back));
    pid_t child = fork();
    REQUIRE(child >= 0 && halay_devices_open(&devices, run->ctx->log, &run->ctx->world->config) == HALAY_OK);
    const struct halay_device_ops *ops = halay_devices_table(&devices);
    if (!child) {
        REQUIRE(ops->alloc(&devices.host, 0, 1000, &ptr) == HALAY_OK);
        REQUIRE(ops->share(&devices.host, 0, ptr, 1000, &share) == HALAY_OK);
        REQUIRE(write(ends[1], &share, sizeof share) == sizeof share && read(back[0], &status, 1) == 1);
        _exit(0);
    }
    REQUIRE(read(ends[0], &share, sizeof share) == sizeof share);
    share.process = getpid();
    enum halay_status reached = ops->reach(&devices.host, 0, &share, &ptr);
    CHECK(reached == HALAY_OK && ptr != (void *)(uintptr_t)share.address);
    if (reached == HALAY_OK)
        ops->unreach(&devices.host, 0, &share, ptr);
    REQUIRE(write(back[1], "", 1) == 1 && waitpid(child, &status, 0) == child);
    halay_devices_close(&devices);
    halay_devices_fini(&devices);
}

static void same_number(void)
{
    ranks_run(1, 0, &(struct rank_run){ .body = body_same_number }, NULL, NULL);
}

/* An event is recorded again and again before what a stream has to do: each record has a word of its own. */
static void body_late_words(struct rank_run *run)
{
    enum { RECORDS = 1100 };
    struct halay_devices devices = { 0 };
    struct user u = { .ctx = run->ctx };
    _Atomic uint32_t *word = word_get();
    struct halay_device_point point;

    halay_devices_init(&devices, sizeof(struct halay_device));
    REQUIRE(halay_devices_open(&devices, run->ctx->log, &run->ctx->world->config) == HALAY_OK);
    const struct halay_device_ops *ops = halay_devices_table(&devices);
    user_open(&u);
    REQUIRE(ops->event_create(&devices.host, u.device, 0, &point.event) == HALAY_OK);
    block(u.stream, word);
    for (int i = 0; i < RECORDS; i++)
        REQUIRE(ops->event_record(&devices.host, u.device, u.stream, &point) == HALAY_OK);
    CHECK(ops->event_done(&devices.host, u.device, &point) == HALAY_IN_PROGRESS);
    *word = 1;
    GOOD(cudaStreamSynchronize(u.stream));
    CHECK(halay_devices_await(&devices, u.device, &point, halay_deadline_us(WAIT_MS)) == HALAY_OK);
    ops->event_destroy(&devices.host, u.device, point.event);
    user_close(&u);
    halay_devices_close(&devices);
    halay_devices_fini(&devices);
}

static void late_words(void)
{
    ranks_run(1, 0, &(struct rank_run){ .body = body_late_words }, NULL, NULL);
}

/* Streams of the engine have the highest priority. */
static void body_priority(struct rank_run *run)
{
    struct halay_devices devices = { 0 };
    int least, greatest, priority;
    void *stream;

    halay_devices_init(&devices, sizeof(struct halay_device));
    REQUIRE(halay_devices_open(&devices, run->ctx->log, &run->ctx->world->config) == HALAY_OK);
    const struct halay_device_ops *ops = halay_devices_table(&devices);
    REQUIRE(ops->stream_create(&devices.host, 0, &stream) == HALAY_OK);
    GOOD(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    GOOD(cudaStreamGetPriority(stream, &priority));
    CHECK(priority == greatest && greatest < least);
    ops->stream_destroy(&devices.host, 0, stream);
    halay_devices_close(&devices);
    halay_devices_fini(&devices);
}

static void priority(void)
{
    ranks_run(1, 0, &(struct rank_run){ .body = body_priority }, NULL, NULL);
}

/* However long nothing of a device has ended, an engine that waits for one looks again soon. */
static void sleeps(void)
{
    struct halay_context ctx = { .carrier = halay_device_carrier_create(), .now_us = 10000000 };

    REQUIRE(ctx.carrier);
    CHECK(ctx.carrier->ops->sleep_us(&ctx) == HALAY_RINGS);
    ctx.carrier->deferred_count = 1;
    CHECK(ctx.carrier->ops->sleep_us(&ctx) == 250);
    ctx.carrier->ops->destroy(ctx.carrier);
}

int main(void)
{
    setenv("EMU_DEVICES", "2", 1);
    apart("calls", calls);
    apart("staged", staged);
    apart("without words", without_words);
    apart("exits", exits);
    apart("twice", twice);
    apart("same number", same_number);
    apart("late words", late_words);
    apart("priority", priority);
    apart("sleeps", sleeps);
    return test_end();
}
