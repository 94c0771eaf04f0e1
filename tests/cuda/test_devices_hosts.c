/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduces by the devices of several hosts (fusion/paths/device/hosts.h): each host's reduce among themselves, and
 * of p ranks of a host each copies a p-th of the data to the host's memory. The bytes are counted, and the sums are
 * those of a plain loop. Ranks are threads over the fake transport, on nodes, or processes.
 *
 * usage: test_devices_hosts [[--spawn N] sums|die]    as test_devices_direct; HALAY_NODE has the host of a process
 */
#include "collectives/group/channel.h"
#include "collectives/group/world.h"
#include "fusion/paths/device/direct.h"
#include "tests/cuda/cases.h"
#include "tests/fusion/random.h"
#include "tests/spawn.h"
#include <signal.h>

enum { SEGMENT = 144 << 10, COUNT_MOST = 40000, ROUNDS = 3, TENSORS = 3, EXACT = 4 };

static uint64_t seed_of_run(void)
{
    const char *seed = getenv("EMU_SEED");

    return seed ? strtoull(seed, NULL, 10) : 1;
}

static int value_of(int rank, size_t i)
{
    return (int)((size_t)rank * 5 + i * 3) % 9 - 2;
}

/* ---- layouts ---- */

struct layout {
    int ranks, hosts;
    int node[RANKS_MAX]; /* of each rank */
};

static const struct layout layouts[] = {
    { 4, 2, { 0, 0, 1, 1 } }, { 4, 2, { 0, 1, 1, 0 } }, /* the ranks of a host do not follow each other */
    { 2, 2, { 0, 1 } },       { 6, 2, { 0, 0, 0, 1, 1, 1 } }, { 6, 3, { 0, 0, 1, 1, 2, 2 } },
    { 3, 2, { 0, 0, 1 } }, /* all data are copied to the hosts */
};

static const struct layout *layout; /* set before the ranks start, as the next */
static size_t segment = SEGMENT;

static void set_nodes(struct halay_fake_hub *hub)
{
    REQUIRE(halay_fake_hub_set_nodes(hub, layout->node) == HALAY_OK);
}

static void set_segment(struct halay_config *config, void *arg)
{
    (void)arg;
    config->device_segment = segment;
    config->deterministic = seed_of_run() % 2 ? HALAY_DETERMINISTIC_RUN : HALAY_DETERMINISTIC_OFF;
}

static void run(const struct layout *on, const char *expected, void (*body)(struct rank_run *run), void *arg)
{
    layout = on;
    ranks_run(on->ranks, 0,
              &(struct rank_run){ .body = body, .arg = arg, .expected = expected, .configure = set_segment }, set_nodes,
              NULL);
}

/* ---- sums ---- */

struct round {
    enum halay_dtype dtype;
    enum halay_reduction reduction;
    double prescale, postscale;
    int tensors;
};

struct tensor {
    char name[16];
    size_t count;
    struct area in, out;
    struct halay_request *request;
};

static void tensor_open(struct user *u, const struct round *round, struct random *shared, int number, struct tensor *t)
{
    size_t element = halay_dtype_size(round->dtype);

    snprintf(t->name, sizeof t->name, "t%d", number);
    t->count = random_below(shared, random_below(shared, 3) ? COUNT_MOST : 40);
    t->in = area_get(u, DEVICE, t->count * element);
    t->out = random_below(shared, 2) ? t->in : area_get(u, DEVICE, t->count * element);
    area_fill(u, &t->in, round->dtype, t->count, value_of, u->rank + number);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = t->name,
                                      .dtype = round->dtype,
                                      .reduction = round->reduction,
                                      .prescale = round->prescale,
                                      .postscale = round->postscale,
                                      .dimensions = 1,
                                      .shape = { t->count },
                                      .in = t->in.data,
                                      .out = t->out.data,
                                      .memory = HALAY_MEMORY_DEVICES };
    user_follow(u, number % 2 ? STREAM : EVENT, &info);
    t->request = submit(u, &info);
}

/* All numbers are exact, whichever order they are added in: small integers times a power of two. */
static void tensor_close(struct user *u, const struct round *round, int number, struct tensor *t)
{
    double divisor = round->reduction == HALAY_AVERAGE ? u->size : 1;
    double *want = malloc((t->count + 1) * sizeof *want);

    REQUIRE(want);
    CHECK(halay_wait_stream(t->request, WAIT_MS, u->stream) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(t->request);
    for (size_t i = 0; i < t->count; i++) {
        want[i] = 0;
        for (int r = 0; r < u->size; r++)
            want[i] += round->prescale * value_of(r + number, i);
        want[i] *= round->postscale / divisor;
    }
    area_compare(u, &t->out, round->dtype, want, t->count, 1, t->name);
    if (t->out.data != t->in.data)
        area_put(u, &t->out);
    area_put(u, &t->in);
    free(want);
}

static void run_round(struct user *u, struct random *shared)
{
    static const enum halay_dtype dtypes[] = { HALAY_F32, HALAY_F16, HALAY_BF16 };
    static const double scales[] = { 1, 1, 0.5, 2 };
    int divides = u->size == 2 || u->size == EXACT;
    struct round round = { .dtype = dtypes[random_below(shared, 3)],
                           .reduction = random_below(shared, 2) && divides ? HALAY_AVERAGE : HALAY_SUM,
                           .prescale = scales[random_below(shared, 4)],
                           .postscale = scales[random_below(shared, 4)],
                           .tensors = 1 + (int)random_below(shared, TENSORS) };
    struct tensor tensors[TENSORS];

    for (int i = 0; i < round.tensors; i++)
        tensor_open(u, &round, shared, i, &tensors[i]);
    for (int i = 0; i < round.tensors; i++)
        tensor_close(u, &round, i, &tensors[i]);
}

/* Comes to the hosts, as all but sums. */
static void run_staged(struct user *u, enum halay_collective collective)
{
    int is_gather = collective == HALAY_ALLGATHER, first = is_gather ? 0 : u->size - 1;
    struct area a = area_get(u, DEVICE, N * 4), all = area_get(u, DEVICE, (size_t)u->size * N * 4);
    struct halay_tensor_info info = describe("staged", is_gather ? all.data : a.data, 1);
    double want[RANKS_MAX * N];

    area_fill(u, &a, HALAY_F32, N, value_of, u->rank);
    info.collective = collective;
    info.memory = HALAY_MEMORY_DEVICES;
    info.after_stream = u->stream;
    info.in = is_gather ? a.data : NULL;
    info.out_bytes = is_gather ? all.bytes : 0;
    info.root = first;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    for (size_t i = 0; i < (is_gather ? (size_t)u->size : 1) * N; i++)
        want[i] = value_of(first + (int)(i / N), i % N);
    area_compare(u, is_gather ? &all : &a, HALAY_F32, want, (is_gather ? (size_t)u->size : 1) * N, 0, "staged");
    area_put(u, &all);
    area_put(u, &a);
}

static void sums_of(struct user *u)
{
    struct random shared = { seed_of_run() * 31 + (uint64_t)u->size };

    for (int i = 0; i < ROUNDS; i++)
        run_round(u, &shared);
    run_staged(u, HALAY_BROADCAST);
    run_staged(u, HALAY_ALLGATHER);
}

static void body_sums(struct rank_run *run)
{
    struct user u = { .ctx = run->ctx };
    const struct halay_signature sum = { .collective = HALAY_ALLREDUCE, .is_on_devices = 1 };

    CHECK(halay_direct_may_take(&u.ctx->all, &sum) == halay_is_homogeneous(u.ctx)); /* or a plan's buckets wait */
    user_open(&u);
    sums_of(&u);
    user_close(&u);
}

static void sums(void)
{
    const char *order = getenv("EMU_ORDER");
    size_t number = seed_of_run() * 3 + (size_t)(order ? atoi(order) : 0);

    run(&layouts[number % (sizeof layouts / sizeof *layouts)], NULL, body_sums, NULL);
}

/* ---- bytes ---- */

/* Elements: three windows, the first two of two chunks; and five chunks, of 512 KiB at most. */
enum { COUNTED = 40000, MANY = 4 * (128 << 10) + 1000 };

static void sum_counted(struct user *u, size_t count)
{
    struct area a = area_get(u, DEVICE, count * 4);
    struct halay_tensor_info info = describe("counted", a.data, 1);
    double *want = malloc(count * sizeof *want);

    REQUIRE(want);
    area_fill(u, &a, HALAY_F32, count, value_of, u->rank);
    info.shape[0] = count;
    info.memory = HALAY_MEMORY_DEVICES;
    info.after_stream = u->stream;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    for (size_t i = 0; i < count; i++) {
        want[i] = 0;
        for (int r = 0; r < u->size; r++)
            want[i] += value_of(r, i);
    }
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK); /* nothing is counted that the comparison copies */
    if (u->rank == 0 && emu_calls && !getenv("EMU_PEERS")) {
        size_t bytes = emu_calls("bytes_from_devices"), each = layout->hosts * count * 4;
        CHECK(bytes == each, "%zu bytes came from devices, not %zu", bytes, each);
    }
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    area_compare(u, &a, HALAY_F32, want, count, 0, "counted");
    area_put(u, &a);
    free(want);
}

static void body_counted(struct rank_run *run)
{
    struct user u = { .ctx = run->ctx };

    user_open(&u);
    sum_counted(&u, *(size_t *)run->arg);
    user_close(&u);
}

/* Each host's data leave it once: a rank copies its share. */
static void counted(void)
{
    run(&layouts[0], NULL, body_counted, &(size_t){ COUNTED });
}

/* More chunks than the hosts sum at a time: one window of one rank's share. */
static void chunks(void)
{
    segment = 2 * MANY * 4;
    run(&layouts[2], NULL, body_counted, &(size_t){ MANY });
}

/* ---- a rank fails ---- */

/* Sums again and again. In the second sum `fail` is called, at a moment of its own. */
static enum halay_status sum_until_end(struct user *u, void (*fail)(struct user *u, void *arg), void *arg)
{
    struct area a = area_get(u, DEVICE, COUNTED * 4);
    struct random own = { seed_of_run() + (uint64_t)u->rank };
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < 50 && status == HALAY_OK; i++) {
        struct halay_request *request = NULL;
        status = submit_filled(u, &a, COUNTED, value_of, &request);
        if (i == 1) {
            usleep((useconds_t)random_below(&own, 3000));
            fail(u, arg);
        }
        if (status == HALAY_OK)
            status = halay_wait(request, WAIT_MS);
        halay_request_free(request);
    }
    GOOD(cudaMemsetAsync(a.data, 0, a.bytes, u->stream)); /* nothing of the engine's touches it any more */
    return status;
}

static void abort_job(struct user *u, void *arg)
{
    (void)arg;
    if (u->rank == 0)
        CHECK(halay_abort(u->ctx, "enough") == HALAY_OK);
}

static void kill_other(struct user *u, void *hub)
{
    if (u->rank == 0)
        halay_fake_hub_kill(hub, 1);
}

static void kill_self(struct user *u, void *arg)
{
    (void)arg;
    if (u->rank == 1)
        raise(SIGKILL);
}

static void check_lost(const struct user *u, enum halay_status status)
{
    CHECK(u->rank == 1 || (status == HALAY_ERR_PEER && strstr(halay_error_text(), "rank 1")), "%s: '%s'",
          halay_status_string(status), halay_error_text());
}

/* The groups of the hosts name the rank that was lost, or nothing was under way in them. */
static void check_named(const struct user *u)
{
    const struct halay_direct *d = &halay_device_carrier_of(u->ctx)->direct;
    const struct halay_group *groups[] = { u->ctx->all.group, d->hosts.near };
    int rank;

    for (int i = 0; i < 2 && u->rank != 1; i++)
        if (groups[i] && halay_group_rank_of(groups[i], 1) >= 0 && halay_group_failure(groups[i], &rank) != HALAY_OK)
            CHECK(halay_group_world_rank(groups[i], rank) == 1, "group %d of rank %d: rank %d is lost", i, u->rank,
                  rank);
}

static void body_ends(struct rank_run *run)
{
    struct user u = { .ctx = run->ctx };
    int is_killed = *(int *)run->arg;

    user_open(&u);
    enum halay_status status = sum_until_end(&u, is_killed ? kill_other : abort_job, run->hub);
    if (is_killed) {
        check_lost(&u, status);
        check_named(&u);
    } else {
        CHECK(status == (u.rank ? HALAY_ERR_PEER : HALAY_ERR_CANCELED), "%s", halay_error_text());
    }
    user_close(&u);
}

static void ends(int is_killed)
{
    static const int numbers[] = { 0, 3, 1 };

    run(&layouts[numbers[seed_of_run() % 3]], "", body_ends, &is_killed);
}

static void given_up(void)
{
    ends(0);
}

static void killed(void)
{
    ends(1);
}

/* ---- one rank, or one host, refuses ---- */

static void set_all(struct rank_run *run, struct halay_config *config)
{
    config->device_segment = SEGMENT;
    config->log_level = run->rank ? config->log_level : HALAY_LOG_INFO;
}

static void set_segments(struct rank_run *run, struct halay_config *config)
{
    set_all(run, config);
    config->device_segment *= run->rank != 3;
}

/* All go through the host, then and later. */
static void body_refused(struct rank_run *run)
{
    struct user user = { .ctx = run->ctx }, *u = &user;

    user_open(u);
    const struct halay_direct *d = &halay_device_carrier_of(u->ctx)->direct;
    struct area a = area_get(u, DEVICE, N * 4);
    for (int i = 0; i < 2; i++) {
        struct halay_tensor_info info = describe("x", a.data, 1);
        area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
        info.memory = HALAY_MEMORY_DEVICES;
        info.after_stream = u->stream;
        struct halay_request *request = submit(u, &info);
        CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(request);
        compare_sum(u, &a);
    }
    CHECK(d->state == HALAY_DIRECT_REFUSED && !d->hosts.transit.block);
    area_put(u, &a);
    user_close(u);
}

static void refused_with(const struct layout *on, void (*configure_rank)(struct rank_run *, struct halay_config *),
                         const char *why)
{
    struct rank_run runs[6],
        run = { .body = body_refused, .expected = "use host memory", .configure_rank = configure_rank };

    layout = on;
    ranks_run(layout->ranks, 0, &run, set_nodes, runs);
    CHECK(strstr(runs[0].expected_line, why), "%s", runs[0].expected_line);
}

/* The ranks of its host cannot access what it does not have: it is the one that is named. */
static void refused_by_one(void)
{
    refused_with(&layouts[0], set_segments, "rank 3 has no segment");
}

/* Devices that do not access each other: ranks 1 and 4 have two, those of each other host have one. */
static void refused_by_host(void)
{
    setenv("EMU_PEERS", "0", 1);
    setenv("EMU_DEVICES", "2", 1);
    refused_with(&(struct layout){ 6, 3, { 0, 1, 0, 2, 1, 2 } }, set_all, "rank 1 cannot access");
}

/* ---- process sets ---- */

/* A set is being made, and waits for rank 3, when the first bucket makes the groups of hosts: no two groups get one
 * number. */
static void body_sets(struct rank_run *run)
{
    static const int ranks[] = { 0, 2, 3 };
    struct user user = { .ctx = run->ctx }, *u = &user;
    struct halay_request *request, *host, *made = NULL;
    struct halay_result result = { .struct_size = sizeof result };
    struct gate *gate = run->arg;
    float data[N] = { 0 };

    user_open(u);
    struct area a = area_get(u, DEVICE, N * 4);
    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    struct halay_tensor_info info = describe("x", a.data, 1), other = describe("host", data, 0);
    info.memory = HALAY_MEMORY_DEVICES;
    if (u->rank != 3)
        host = submit(u, &other);
    while (u->rank != 3 && !atomic_load(&gate->is_closed))
        sched_yield();
    if (u->rank != 1)
        REQUIRE(halay_process_set_create_async(u->ctx, ranks, 3, WAIT_MS, &made) == HALAY_OK);
    request = submit(u, &info);
    if (u->rank == 3)
        REQUIRE(halay_submit_named(u->ctx, &other, stay, gate, &host) == HALAY_OK);
    if (u->rank == 0) {
        CHECK(halay_wait(request, 30) == HALAY_ERR_TIMEOUT, "rank 3 takes no part");
        atomic_store(&gate->is_open, 1);
    }
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK && halay_wait(host, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    if (made) {
        CHECK(halay_wait(made, WAIT_MS) == HALAY_OK && halay_request_result(made, &result) == HALAY_OK);
        const struct halay_hosts *h = &halay_device_carrier_of(u->ctx)->direct.hosts;
        CHECK(result.set->group->number != h->near->number && result.set->group->number != h->rail->number);
    }
    halay_request_free(request);
    halay_request_free(host);
    halay_request_free(made);
    compare_sum(u, &a);
    area_put(u, &a);
    user_close(u);
}

static void sets(void)
{
    struct gate gate = { 0 };

    run(&layouts[0], NULL, body_sets, &gate);
}

/* ---- ranks that are processes ---- */

/* Two ranks a host. */
static int run_rank(const char *what)
{
    int dies = !strcmp(what, "die");
    struct halay_options options = { .struct_size = sizeof options, .log = dies ? drop_line : NULL };
    struct user u = { 0 };

    spawn_set("HALAY_NODE", atoi(getenv("HALAY_RANK")) / 2);
    REQUIRE(halay_init(&options, &u.ctx) == HALAY_OK);
    user_open(&u);
    if (dies)
        check_lost(&u, sum_until_end(&u, kill_self, NULL));
    else
        sums_of(&u);
    user_close(&u);
    halay_fini(u.ctx);
    return test_end();
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return run_rank(argv[1]);
    if (argc == 4)
        return spawn_ranks(atoi(argv[2]), argv[3], run_rank);
    apart("sums", sums);
    apart("counted", counted);
    if (!getenv("EMU_ORDER") || atoi(getenv("EMU_ORDER")) == 1) /* it takes a second */
        apart("chunks", chunks);
    apart("given up", given_up);
    apart("killed", killed);
    apart("refused", refused_by_one);
    apart("refused by host", refused_by_host);
    apart("sets", sets);
    return test_end();
}
