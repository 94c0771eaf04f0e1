/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduces of what is on devices by NCCL (fusion/paths/device/nccl.h), for which tests/cuda/nccl.c stands in. Ranks
 * are processes.
 *
 * usage: test_devices_nccl --spawn N CASE, one of
 *
 *     sums      NCCL makes those that it can make: no kernel of ours runs for them; on TEST_HOSTS hosts
 *     refused WORDS  it is not used, for a reason that has these words, and the sums are right all the same
 *     deterministic  one rank has HALAY_DETERMINISTIC: refused for that
 *     fails     the stand-in fails at the third sum (NCCL_FAILS): so do all ranks
 *     pair      it fails at the second of two sums (NCCL_FAILS): one is an error, the other is right or one, too
 *     die [STEPS]  rank 1 dies, after more steps perhaps, so that there is a plan: the others' sums end
 *     frozen    rank 1 is frozen while NCCL has the second sum (NCCL_STUCK): the others' requests end all the same
 *     garbage   rank 1 fails while NCCL has the second sum, which its abort spoils (NCCL_LATE): it is an error on all
 *     closes    all ranks close at once when rank 1 has failed: the second sum ends when NCCL has left it (NCCL_LATE)
 *     unmade    a communicator is ended before it has been made: NCCL writes nothing of the caller's
 */
#include "base/clock.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/paths/device/segments.h"
#include "tests/cuda/cases.h"
#include "tests/spawn.h"
#include <dlfcn.h>
#include <signal.h>
#include <time.h>

enum { LARGE = 300000, STEPS = 5, STEADY = 20, FROZEN_S = 20, BUSY_US = 100000, GRACE_US = 500000 };

/* What the ranks share. */
struct page {
    atomic_int given;          /* ranks whose groups NCCL has had */
    atomic_int frozen;         /* rank 1's process, while it is frozen */
    atomic_int ended;          /* ranks whose other requests have ended */
    atomic_int is_busy;        /* rank 0's engine */
    _Atomic int64_t failed_us; /* when the first rank failed */
};
static struct page *page;

static char warning[1200]; /* rank 0's first */
static int ends;           /* callbacks */
static int64_t ended_us;   /* when the last one came */
static const char *words;

static void note_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    if (level == HALAY_LOG_WARNING && !*warning)
        snprintf(warning, sizeof warning, "%s", line);
}

static int small_value(int rank, size_t i)
{
    return (int)((size_t)rank * 3 + i) % 7 - 2;
}

/* Sums, or averages, in out or in place; all numbers are exact in each type. */
static void check_one(struct user *u, enum halay_dtype dtype, size_t count, int is_average, double prescale)
{
    size_t bytes = count * halay_dtype_size(dtype);
    struct area in = area_get(u, DEVICE, bytes), out = count % 2 ? in : area_get(u, DEVICE, bytes);
    double *want = malloc(count * sizeof *want);

    REQUIRE(want);
    area_fill(u, &in, dtype, count, small_value, u->rank);
    struct halay_tensor_info info = describe("x", out.data, 1);
    info.in = in.data;
    info.dtype = dtype;
    info.shape[0] = count;
    info.memory = HALAY_MEMORY_DEVICES;
    info.reduction = is_average ? HALAY_AVERAGE : HALAY_SUM;
    info.prescale = prescale;
    info.after_stream = u->stream;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait_stream(request, WAIT_MS, u->stream) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    for (size_t i = 0; i < count; i++) {
        want[i] = 0;
        for (int r = 0; r < u->size; r++)
            want[i] += prescale * small_value(r, i);
        want[i] /= is_average ? u->size : 1;
    }
    area_compare(u, &out, dtype, want, count, 1, "x");
    if (out.data != in.data)
        area_put(u, &out);
    area_put(u, &in);
    free(want);
}

static void check_all(struct user *u)
{
    static const enum halay_dtype dtypes[] = { HALAY_F32, HALAY_F16, HALAY_BF16 };

    for (int i = 0; i < 3; i++) {
        check_one(u, dtypes[i], N, 0, 1);
        check_one(u, dtypes[i], N + 1, u->size == 2, 1);
    }
}

static size_t launches(void)
{
    return emu_calls("cudaLaunchKernelEx");
}

static void body_sums(struct user *u)
{
    check_all(u);
    check_one(u, HALAY_F32, LARGE, 0, 1);
    CHECK(launches() == 0, "%zu launches", launches());
    check_one(u, HALAY_F32, N, 0, 2); /* NCCL takes no factors */
    CHECK(launches() > 0);
    for (int i = 0; i < STEADY; i++) /* by a plan */
        check_one(u, HALAY_F32, N, 0, 1);
    check_all(u);
    CHECK(!*warning, "%s", warning);
}

static void body_refused(struct user *u)
{
    check_all(u);
    CHECK(u->rank || strstr(warning, words), "'%s' lacks '%s'", warning, words);
}

/* Until an error, which comes without the other ranks' help. */
static enum halay_status sum_until_end(struct user *u, int dies)
{
    int steps = atoi(words);
    size_t count = steps ? N : LARGE;
    struct area a = area_get(u, DEVICE, count * 4);
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < STEPS + steps && status == HALAY_OK; i++) {
        struct halay_request *request = NULL;
        status = submit_filled(u, &a, count, small_value, &request);
        if (dies && i == 2 + steps && u->rank == 1)
            raise(SIGKILL);
        if (status == HALAY_OK)
            status = halay_wait(request, WAIT_MS);
        halay_request_free(request);
    }
    return status;
}

static void body_fails(struct user *u)
{
    enum halay_status status = sum_until_end(u, 0);

    CHECK(status == HALAY_ERR_SYSTEM || status == HALAY_ERR_PEER, "%s: %s", halay_status_string(status),
          halay_error_text());
}

/* Waits for a sum, which is right unless it is an error. Returns nonzero if it is one. */
static int end_pair(struct user *u, struct halay_request *request, struct area *a, enum halay_dtype dtype, size_t count)
{
    double *want = calloc(count, sizeof *want);

    REQUIRE(want);
    for (size_t i = 0; i < count; i++)
        for (int r = 0; r < u->size; r++)
            want[i] += small_value(r, i);
    enum halay_status status = halay_wait(request, WAIT_MS);
    if (status == HALAY_OK)
        area_compare(u, a, dtype, want, count, 1, "a sum");
    halay_request_free(request);
    free(want);
    return status != HALAY_OK;
}

/* Of different types, so that each is a bucket. */
static void body_pair(struct user *u)
{
    struct area large = area_get(u, DEVICE, LARGE * 4), small = area_get(u, DEVICE, N * 2);
    struct halay_tensor_info info = describe("x", large.data, 1), other = describe("y", small.data, 1);

    area_fill(u, &large, HALAY_F32, LARGE, small_value, u->rank);
    area_fill(u, &small, HALAY_F16, N, small_value, u->rank);
    info.shape[0] = LARGE;
    other.dtype = HALAY_F16;
    info.memory = other.memory = HALAY_MEMORY_DEVICES;
    info.after_stream = other.after_stream = u->stream;
    struct halay_request *first = submit(u, &info), *second = submit(u, &other);
    int failed = end_pair(u, second, &small, HALAY_F16, N);
    failed += end_pair(u, first, &large, HALAY_F32, LARGE);
    CHECK(failed);
}

static void body_die(struct user *u)
{
    enum halay_status status = sum_until_end(u, 1);

    CHECK(status == HALAY_ERR_PEER && strstr(halay_error_text(), "rank 1"), "%s: '%s'", halay_status_string(status),
          halay_error_text());
}

/* Waits until NCCL has had this number of groups on all ranks; once. */
static void await_groups(const struct user *u, int count)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    int (*groups)(void);

    REQUIRE(library && (*(void **)&groups = dlsym(library, "stand_in_groups")));
    while (groups() < count)
        sched_yield();
    atomic_fetch_add(&page->given, 1);
    while (atomic_load(&page->given) < u->size)
        sched_yield();
    dlclose(library);
}

/* Freezes this process until another one continues it, or a timer. */
static void freeze(void)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT };
    struct itimerspec after = { .it_value.tv_sec = FROZEN_S };
    timer_t timer;

    REQUIRE(!timer_create(CLOCK_MONOTONIC, &event, &timer) && !timer_settime(timer, 0, &after, NULL));
    atomic_store(&page->frozen, getpid());
    raise(SIGSTOP);
    atomic_store(&page->frozen, 0);
    timer_delete(timer);
}

static void fail_job(struct user *u)
{
    atomic_store(&page->failed_us, halay_now_us());
    CHECK(halay_abort(u->ctx, "a test") == HALAY_OK);
}

/* The others fail, and their aborts wait for that of rank 1. */
static void end_other(struct user *u, struct halay_request *other)
{
    while (!atomic_load(&page->frozen))
        sched_yield();
    if (!u->rank)
        fail_job(u);
    enum halay_status status = halay_wait(other, WAIT_MS);
    CHECK(status == HALAY_ERR_CANCELED || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    CHECK(atomic_load(&page->frozen), "waited for the abort");
    halay_request_free(other);
    int frozen = atomic_load(&page->frozen);
    if (atomic_fetch_add(&page->ended, 1) + 2 == u->size && frozen)
        kill(frozen, SIGCONT);
}

/* Submits a sum that NCCL will not end, after one that it has made. */
static struct halay_request *submit_large(struct user *u, struct area *a)
{
    struct halay_request *request = NULL;

    check_one(u, HALAY_F32, N, 0, 1);
    REQUIRE(submit_filled(u, a, LARGE, small_value, &request) == HALAY_OK);
    return request;
}

static void body_frozen(struct user *u)
{
    struct area a = area_get(u, DEVICE, LARGE * 4);
    float data[N] = { 0 };
    struct halay_tensor_info info = describe("other", data, 0);
    struct halay_request *request = submit_large(u, &a), *other = NULL;

    if (u->rank != 1)
        other = submit(u, &info);
    await_groups(u, 2);
    if (u->rank == 1)
        freeze();
    else
        end_other(u, other);
    enum halay_status status = halay_wait(request, WAIT_MS);
    CHECK(status == HALAY_ERR_CANCELED || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    CHECK(halay_now_us() - atomic_load(&page->failed_us) >= GRACE_US, "aborted too soon"); /* others must learn first */
    halay_request_free(request);
    area_fill(u, &a, HALAY_F32, LARGE, small_value, u->rank); /* nothing has it any more */
    area_put(u, &a);
}

/* Rank 0 passes on no message meanwhile. */
static void be_busy(void *arg, enum halay_status status, const char *text)
{
    (void)arg;
    (void)status;
    (void)text;
    atomic_store(&page->is_busy, 1);
    usleep(BUSY_US);
}

/* Returns the time when this rank, which submits what the others do not, had the message of the failure. */
static int64_t await_failure(struct user *u)
{
    float data[N] = { 0 };
    struct halay_tensor_info info = describe("never", data, 0);
    struct halay_request *never = NULL;

    enum halay_status status = halay_submit_named(u->ctx, &info, NULL, NULL, &never);
    if (status == HALAY_OK)
        status = halay_wait(never, WAIT_MS);
    CHECK(status == HALAY_ERR_CANCELED || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    halay_request_free(never);
    return halay_now_us();
}

static void body_garbage(struct user *u)
{
    struct area a = area_get(u, DEVICE, LARGE * 4);
    float data[N] = { 0 };
    struct halay_tensor_info info = describe("other", data, 0);
    struct halay_request *request = submit_large(u, &a), *other = NULL;

    await_groups(u, 2);
    REQUIRE(halay_submit_named(u->ctx, &info, u->rank ? NULL : be_busy, NULL, &other) == HALAY_OK);
    CHECK(halay_wait(other, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(other);
    if (u->rank)
        atomic_fetch_add(&page->ended, 1);
    if (u->rank == 1) {
        while (!atomic_load(&page->is_busy) || atomic_load(&page->ended) < u->size - 1)
            sched_yield();
        fail_job(u);
    } else {
        int64_t known_us = await_failure(u);
        int failed = halay_wait(request, WAIT_MS) != HALAY_OK;
        /* On a machine that is too busy the message reaches rank 2 too late. */
        CHECK(failed || (u->rank && known_us - atomic_load(&page->failed_us) > GRACE_US));
    }
    halay_request_free(request);
}

static void note_end(void *arg, enum halay_status status, const char *text)
{
    const struct user *u = arg;

    (void)text;
    ends++;
    ended_us = halay_now_us();
    CHECK(status != HALAY_OK || u->rank > 1); /* rank 2 may hear of it too late: see body_garbage */
    CHECK(ended_us - atomic_load(&page->failed_us) >= GRACE_US, "NCCL has its memory");
}

static void body_closes(struct user *u)
{
    struct area a = area_get(u, DEVICE, LARGE * 4), b = area_get(u, DEVICE, N * 4);
    struct halay_tensor_info info = describe("x", a.data, 1), largest = describe("largest", b.data, 1);

    area_fill(u, &b, HALAY_F32, N, small_value, u->rank);
    largest.memory = info.memory = HALAY_MEMORY_DEVICES;
    largest.after_stream = info.after_stream = u->stream;
    largest.reduction = HALAY_MAX; /* by segments, which are closed, too */
    struct halay_request *request = submit(u, &largest);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    check_one(u, HALAY_F32, N, 0, 1);
    area_fill(u, &a, HALAY_F32, LARGE, small_value, u->rank);
    info.shape[0] = LARGE;
    REQUIRE(halay_submit_named(u->ctx, &info, note_end, u, NULL) == HALAY_OK);
    await_groups(u, 2);
    if (u->rank == 1)
        fail_job(u);
    else
        (void)await_failure(u);
}

/* The engine has been closed, which waits for no kernel that never ends. */
static void check_closed(void)
{
    int64_t us = halay_now_us() - ended_us;

    CHECK(ends == 1 && us < 1000 * HALAY_SEGMENT_CLOSE_MS, "%d ends, %lld us", ends, (long long)us);
}

static void body_unmade(struct user *u)
{
    struct area a = area_get(u, OURS, N * 4); /* loads the module */
    const struct halay_device_host *host = &halay_devices_of(u->ctx)->host;
    const struct halay_device_nccl *nccl = halay_devices_ops(u->ctx)->nccl;
    unsigned char uuid[16], id[HALAY_NCCL_ID];
    char text[256];
    int version;
    void *comm;

    REQUIRE(nccl->load(host, u->device, &version, uuid, text, sizeof text));
    REQUIRE(nccl->identify(host, id) == HALAY_OK);
    CHECK(nccl->join(host, u->device, id, u->size, u->rank, &comm) == HALAY_IN_PROGRESS);
    CHECK(nccl->look(host, comm) == HALAY_IN_PROGRESS);
    void *leaving = nccl->leave(host, u->device, comm);
    comm = NULL;
    while (leaving && !nccl->has_left(host, leaving))
        usleep(1000);
    CHECK(!comm, "NCCL has written it");
    unlink((const char *)id); /* the stand-in's file */
    area_put(u, &a);
}

static void body_deterministic(struct user *u)
{
    words = "rank 1: HALAY_DETERMINISTIC is set there";
    body_refused(u);
}

/* Two hosts, whose data would be in clear. */
static void body_sealed(struct user *u)
{
    words = "rank 0: HALAY_ENCRYPT=1, and NCCL does not encrypt";
    body_refused(u);
}

static int run_rank(const char *what)
{
    static const struct {
        const char *name;
        void (*body)(struct user *u);
    } bodies[] = { { "sums", body_sums },     { "refused", body_refused }, { "deterministic", body_deterministic },
                   { "fails", body_fails },   { "pair", body_pair },       { "die", body_die },
                   { "sealed", body_sealed }, { "frozen", body_frozen },   { "garbage", body_garbage },
                   { "closes", body_closes }, { "unmade", body_unmade } };
    struct halay_options options = { .struct_size = sizeof options, .log = note_line };
    struct user u = { 0 };

    alarm(100);
    REQUIRE(!setenv("HALAY_DEVICE_ALGORITHM", "nccl", 1));
    if (getenv("TEST_HOSTS"))
        spawn_set("HALAY_NODE", atoi(getenv("HALAY_RANK")) % atoi(getenv("TEST_HOSTS")));
    if (!strcmp(what, "deterministic") && !strcmp(getenv("HALAY_RANK"), "1"))
        REQUIRE(!setenv("HALAY_DETERMINISTIC", "run", 1));
    if (!strcmp(what, "sealed"))
        REQUIRE(!setenv("HALAY_ENCRYPT", "1", 1) && !setenv("HALAY_NODE", getenv("HALAY_RANK"), 1));
    REQUIRE(halay_init(&options, &u.ctx) == HALAY_OK);
    user_open(&u);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (!strcmp(bodies[i].name, what))
            bodies[i].body(&u);
    user_close(&u);
    halay_fini(u.ctx);
    if (!strcmp(what, "closes"))
        check_closed();
    return test_end();
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 4);
    words = argc > 4 ? argv[4] : "";
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    return spawn_ranks(atoi(argv[2]), argv[3], run_rank);
}
