/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups on memory of devices, emulated: every operation, each rank's data on a device, pinned or the host's as is
 * drawn, in place and not, several at a time, after the program's stream or the default one. What comes out is compared
 * with what the same call gives on the host. Sends and receives under one tag; data in two places; copies that fail;
 * ranks that give up or die; groups of a context.
 *
 * usage: test_devices_groups [[--spawn N] mixed|die|context|missing]    without arguments: threads over the fake
 * transport, how many follows from EMU_SEED; without --spawn: a rank that was started
 */
#include "collectives/group/group.h"
#include "halay_coll.h"
#include "tests/cuda/devices.h"
#include "tests/fusion/random.h"
#include "tests/spawn.h"
#include <signal.h>

enum { COUNT_MOST = 200, BATCH = 5, BATCHES = 8, WAIT_MS = 30000 };

enum operation {
    ALLREDUCE,
    ADASUM,
    BROADCAST,
    ALLGATHER,
    ALLGATHERV,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    BARRIER,
    OPERATIONS
};

static const char *const names[OPERATIONS] = { "allreduce",  "allreduce_adasum", "broadcast",      "allgather",
                                               "allgatherv", "reduce",           "reduce_scatter", "reduce_scatterv",
                                               "alltoall",   "alltoallv",        "gather",         "gatherv",
                                               "scatter",    "scatterv",         "barrier" };

struct member {
    struct halay_group *group;
    struct user user; /* without a context */
    int rank, size;
    int by_default; /* its data follow the default stream */
};

/* A call, the same on all ranks. */
struct call {
    enum operation operation;
    size_t count;
    size_t counts[RANKS_MAX]; /* of each rank's part, where ranks have parts */
    size_t row[RANKS_MAX];    /* all-to-all: what this rank gives each, and gets of it */
    int root, in_place;
};

/* ---- calls ---- */

static int has_list(enum operation operation)
{
    return operation == ALLGATHERV || operation == REDUCE_SCATTERV || operation == GATHERV || operation == SCATTERV;
}

static struct call draw_call(struct random *r, const struct member *m)
{
    struct call c = { .operation = (enum operation)random_below(r, OPERATIONS),
                      .count = random_below(r, 4) ? random_below(r, COUNT_MOST) : 0,
                      .root = (int)random_below(r, (size_t)m->size),
                      .in_place = (int)random_below(r, 2) };

    for (int k = 0; k < m->size; k++) {
        c.counts[k] = has_list(c.operation) ? (c.count + (size_t)k) % 7 * (size_t)(k % 3) : c.count;
        c.row[k] = c.operation == ALLTOALLV ? (c.count + (size_t)(k + m->rank)) % 5 : c.count;
    }
    return c;
}

static size_t sum_of(const size_t *counts, int ranks)
{
    size_t sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += counts[r];
    return sum;
}

/* The elements of in and out on this rank, and where the shorter one is in the longer one if it is done in place. */
struct shape {
    size_t in, out, in_at, out_at;
    int in_place;
};

static struct shape shape_of(const struct call *c, const struct member *m)
{
    int is_root = m->rank == c->root;
    size_t all = sum_of(c->counts, m->size), mine = c->counts[m->rank], before = sum_of(c->counts, m->rank);

    switch (c->operation) {
    case ALLREDUCE:
    case ADASUM:
        return (struct shape){ c->count, c->count, 0, 0, c->in_place };
    case BROADCAST:
        return (struct shape){ c->count, c->count, 0, 0, 1 };
    case ALLGATHER:
    case ALLGATHERV:
        return (struct shape){ mine, all, before, 0, c->in_place };
    case REDUCE:
        return (struct shape){ c->count, is_root ? c->count : 0, 0, 0, c->in_place && is_root };
    case REDUCE_SCATTER:
    case REDUCE_SCATTERV:
        return (struct shape){ all, mine, 0, before, c->in_place };
    case ALLTOALL:
    case ALLTOALLV:
        return (struct shape){ sum_of(c->row, m->size), sum_of(c->row, m->size), 0, 0, c->in_place };
    case GATHER:
    case GATHERV:
        return (struct shape){ mine, is_root ? all : 0, before, 0, c->in_place && is_root };
    case SCATTER:
    case SCATTERV:
        return (struct shape){ is_root ? all : 0, mine, 0, before, c->in_place && is_root };
    default:
        return (struct shape){ 0 };
    }
}

static enum halay_status start(struct member *m, const struct call *c, const void *in, void *out,
                               struct halay_coll **coll)
{
    struct halay_group *g = m->group;
    const size_t *counts = c->counts, count = c->count;

    switch (c->operation) {
    case ALLREDUCE:
        return halay_group_allreduce_start(g, in, out, count, HALAY_F32, HALAY_SUM, coll);
    case ADASUM:
        return halay_group_allreduce_adasum_start(g, in, out, &c->count, 1, HALAY_F32, coll);
    case BROADCAST:
        return halay_group_broadcast_start(g, out, count, HALAY_F32, c->root, coll);
    case ALLGATHER:
        return halay_group_allgather_start(g, in, out, count, HALAY_F32, coll);
    case ALLGATHERV:
        return halay_group_allgatherv_start(g, in, out, counts, HALAY_F32, coll);
    case REDUCE:
        return halay_group_reduce_start(g, in, out, count, HALAY_F32, HALAY_MAX, c->root, coll);
    case REDUCE_SCATTER:
        return halay_group_reduce_scatter_start(g, in, out, count, HALAY_F32, HALAY_SUM, coll);
    case REDUCE_SCATTERV:
        return halay_group_reduce_scatterv_start(g, in, out, counts, HALAY_F32, HALAY_SUM, coll);
    case ALLTOALL:
        return halay_group_alltoall_start(g, in, out, count, HALAY_F32, coll);
    case ALLTOALLV:
        return halay_group_alltoallv_start(g, in, c->row, out, c->row, HALAY_F32, coll);
    case GATHER:
        return halay_group_gather_start(g, in, out, count, HALAY_F32, c->root, coll);
    case GATHERV:
        return halay_group_gatherv_start(g, in, out, counts, 0, HALAY_F32, c->root, coll);
    case SCATTER:
        return halay_group_scatter_start(g, in, out, count, HALAY_F32, c->root, coll);
    case SCATTERV:
        return halay_group_scatterv_start(g, in, out, counts, 0, HALAY_F32, c->root, coll);
    default:
        return halay_group_barrier_start(g, coll);
    }
}

/* ---- data ---- */

/* The arrays of a call in one kind of memory: one area if it is done in place, else two. */
struct arrays {
    struct area in, out; /* in: of kind and no bytes if it is in out, and the other way round */
    float *from, *to;
};

static struct arrays arrays_get(struct member *m, enum kind kind, const struct shape *s)
{
    struct arrays a = { 0 };
    size_t most = s->in > s->out ? s->in : s->out;

    a.out = area_get(&m->user, kind, (s->in_place ? most : s->out) * sizeof(float));
    a.in = s->in_place ? a.out : area_get(&m->user, kind, s->in * sizeof(float));
    a.from = (float *)a.in.data + (s->in_place ? s->in_at : 0);
    a.to = (float *)a.out.data + (s->in_place ? s->out_at : 0);
    return a;
}

static void arrays_put(struct member *m, struct arrays *a)
{
    if (a->in.data != a->out.data)
        area_put(&m->user, &a->in);
    area_put(&m->user, &a->out);
}

/* Small numbers, so that sums are exact. */
static void write_values(float *data, size_t count, int rank, size_t number)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(((size_t)rank * 7 + i * 3 + number) % 11);
}

static cudaStream_t stream_of(const struct member *m)
{
    return m->by_default ? NULL : m->user.stream;
}

/* Fills what is read; to a device by the stream, which is not waited for. */
static void arrays_fill(struct member *m, struct arrays *a, const struct shape *s, size_t number)
{
    size_t bytes = s->in * sizeof(float);
    void *pinned;

    if (a->in.kind < DEVICE) {
        write_values(a->from, s->in, m->rank, number);
        return;
    }
    GOOD(cudaHostAlloc(&pinned, bytes + 1, cudaHostAllocDefault)); /* stays: the copy may be late */
    write_values(pinned, s->in, m->rank, number);
    if (bytes)
        GOOD(cudaMemcpyAsync(a->from, pinned, bytes, cudaMemcpyHostToDevice, stream_of(m)));
}

static void read_back(const struct arrays *a, const float *from, size_t count, float *to)
{
    if (!count)
        return;
    if (a->out.kind < DEVICE)
        memcpy(to, from, count * sizeof(float));
    else
        GOOD(cudaMemcpy(to, from, count * sizeof(float), cudaMemcpyDeviceToHost));
}

/* ---- a call, on the host and where it is drawn ---- */

struct step {
    struct call call;
    struct shape shape;
    struct arrays host, own;
    struct halay_coll *coll;
};

static void begin(struct member *m, struct random *own, struct step *s, size_t number)
{
    struct halay_coll *coll;

    s->shape = shape_of(&s->call, m);
    s->host = arrays_get(m, HOST, &s->shape);
    arrays_fill(m, &s->host, &s->shape, number);
    REQUIRE(start(m, &s->call, s->host.from, s->host.to, &coll) == HALAY_OK);
    REQUIRE(halay_coll_finish(coll) == HALAY_OK);
    s->own = arrays_get(m, (enum kind)random_below(own, OURS), &s->shape);
    arrays_fill(m, &s->own, &s->shape, number);
}

static void compare(struct member *m, struct step *s)
{
    float *got = calloc(s->shape.in + s->shape.out + 1, sizeof *got);
    size_t wrong = 0;

    REQUIRE(got);
    read_back(&s->own, s->own.to, s->shape.out, got);
    for (size_t i = 0; i < s->shape.out; i++)
        wrong += got[i] != s->host.to[i];
    CHECK(!wrong, "%s of %zu %s, %s: rank %d of %d, root %d: %zu of %zu are wrong", names[s->call.operation],
          s->call.count, s->shape.in_place ? "in place" : "from one array to another", kind_name(&s->own.out), m->rank,
          m->size, s->call.root, wrong, s->shape.out);
    if (!s->shape.in_place) {
        read_back(&s->own, s->own.from, s->shape.in, got);
        CHECK(!memcmp(got, s->host.from, s->shape.in * sizeof *got), "%s: the input has changed",
              names[s->call.operation]);
    }
    free(got);
    arrays_put(m, &s->host);
    arrays_put(m, &s->own);
}

/* Progresses all that are under way: other ranks wait for any of them. */
static enum halay_status progress_until(struct step *steps, const struct step *s)
{
    enum halay_status status = HALAY_IN_PROGRESS;

    while (status == HALAY_IN_PROGRESS)
        for (size_t i = 0; i < BATCH; i++) {
            enum halay_status is = steps[i].coll ? halay_coll_progress(steps[i].coll) : HALAY_OK;
            status = &steps[i] == s ? is : status;
        }
    return status;
}

static void finish(struct random *own, struct step *steps, struct step *s)
{
    enum halay_status status;
    size_t way = random_below(own, 3);

    if (way == 0) {
        status = halay_coll_finish(s->coll);
    } else {
        status = way == 1 ? halay_coll_wait(s->coll, WAIT_MS) : progress_until(steps, s);
        halay_coll_end(s->coll);
    }
    s->coll = NULL;
    CHECK(status == HALAY_OK, "%s: %s", names[s->call.operation], halay_error_text());
}

/* Several at a time. */
static void run_calls(struct member *m, uint64_t seed)
{
    struct random common = { seed }, own = { seed * 31 + (uint64_t)m->rank };
    struct step steps[BATCH];

    for (size_t batch = 0; batch < BATCHES; batch++) {
        for (size_t i = 0; i < BATCH; i++) {
            steps[i].call = draw_call(&common, m);
            begin(m, &own, &steps[i], batch * BATCH + i);
        }
        for (size_t i = 0; i < BATCH; i++)
            REQUIRE(start(m, &steps[i].call, steps[i].own.from, steps[i].own.to, &steps[i].coll) == HALAY_OK);
        for (size_t i = 0, first = random_below(&own, BATCH); i < BATCH; i++)
            finish(&own, steps, &steps[(first + i) % BATCH]);
        for (size_t i = 0; i < BATCH; i++)
            compare(m, &steps[i]);
    }
}

/* Each operation, in place and not, on devices of all ranks. */
static void run_each(struct member *m)
{
    struct random own = { 7 };
    struct step s;

    for (int k = 0; k < 2 * OPERATIONS; k++) {
        struct random r = { (uint64_t)k };
        s.call = draw_call(&r, m);
        while (s.call.operation != (enum operation)(k / 2) || s.call.in_place != k % 2 || !s.call.count)
            s.call = draw_call(&r, m);
        begin(m, &own, &s, (size_t)k);
        arrays_put(m, &s.own);
        s.own = arrays_get(m, DEVICE, &s.shape);
        arrays_fill(m, &s.own, &s.shape, (size_t)k);
        REQUIRE(start(m, &s.call, s.own.from, s.own.to, &s.coll) == HALAY_OK);
        CHECK(halay_coll_finish(s.coll) == HALAY_OK, "%s: %s", names[s.call.operation], halay_error_text());
        compare(m, &s);
    }
}

/* Messages to the next rank under one tag: they arrive in the order of their start, wherever the data are. */
static void run_messages(struct member *m, uint64_t seed)
{
    enum { MESSAGES = 6, LENGTH = 20 };
    const struct shape shape = { LENGTH, LENGTH, 0, 0, 0 };
    struct random own = { seed + 77 * (uint64_t)m->rank };
    int to = (m->rank + 1) % m->size, from = (m->rank + m->size - 1) % m->size;
    struct halay_coll *sends[MESSAGES], *receives[MESSAGES];
    struct arrays in[MESSAGES], out[MESSAGES];
    float got[LENGTH], want[LENGTH];

    for (size_t i = 0; i < MESSAGES; i++) {
        in[i] = arrays_get(m, (enum kind)random_below(&own, OURS), &shape);
        out[i] = arrays_get(m, (enum kind)random_below(&own, OURS), &shape);
        arrays_fill(m, &in[i], &shape, 100 * i);
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        size_t length = i == 2 ? 0 : LENGTH; /* one is empty */
        REQUIRE(halay_group_send_start(m->group, in[i].from, length, HALAY_F32, to, 5, &sends[i]) == HALAY_OK);
        REQUIRE(halay_group_receive_start(m->group, out[i].to, length, HALAY_F32, from, 5, &receives[i]) == HALAY_OK);
    }
    for (size_t i = MESSAGES; i-- > 0;) {
        CHECK(halay_coll_finish(receives[i]) == HALAY_OK && halay_coll_finish(sends[i]) == HALAY_OK, "%s",
              halay_error_text());
        write_values(want, LENGTH, from, 100 * i);
        if (i != 2) {
            read_back(&out[i], out[i].to, LENGTH, got);
            CHECK(!memcmp(got, want, sizeof got), "message %zu from rank %d is another", i, from);
        }
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        arrays_put(m, &in[i]);
        arrays_put(m, &out[i]);
    }
}

/* ---- refused ---- */

/* All ranks get the error, and the group continues. */
static void run_refused(struct member *m)
{
    struct area a = area_get(&m->user, DEVICE, 40), b = a;
    struct halay_coll *coll = NULL;
    float host[10] = { 0 };
    int devices;

    CHECK(halay_group_allreduce(m->group, a.data, host, 10, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(strstr(halay_error_text(), "out is in the host's memory"), "'%s'", halay_error_text());
    CHECK(halay_group_allgather_start(m->group, host, a.data, 1, HALAY_F32, &coll) == HALAY_ERR_ARGUMENT && !coll);
    GOOD(cudaGetDeviceCount(&devices));
    if (devices > 1) {
        GOOD(cudaSetDevice((m->user.device + 1) % devices));
        b = area_get(&m->user, DEVICE, 40);
        GOOD(cudaSetDevice(m->user.device));
        CHECK(halay_group_allreduce(m->group, a.data, b.data, 10, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
        CHECK(strstr(halay_error_text(), "on device"), "'%s'", halay_error_text());
        area_put(&m->user, &b);
    }
    CHECK(halay_group_allreduce(m->group, host, host, 10, HALAY_F32, HALAY_SUM) == HALAY_OK);
    area_put(&m->user, &a);
}

/* ---- ranks ---- */

static uint64_t seed_of_run(void)
{
    const char *seed = getenv("EMU_SEED");

    return seed ? strtoull(seed, NULL, 10) : 1;
}

static void *give_stream(void *arg, int device)
{
    const struct member *m = arg;

    CHECK(device == m->user.device, "device %d, not %d", device, m->user.device);
    return stream_of(m);
}

static void member_open(struct member *m)
{
    int devices;

    GOOD(cudaGetDeviceCount(&devices));
    m->rank = halay_group_rank(m->group);
    m->size = halay_group_size(m->group);
    m->user.device = m->rank % devices;
    GOOD(cudaSetDevice(m->user.device));
    GOOD(cudaStreamCreateWithFlags(&m->user.stream, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&m->user.event, cudaEventDisableTiming));
}

/* Some ranks make a group of their own meanwhile: it takes data on devices, too. */
static void run_subset(struct member *m, uint64_t seed)
{
    struct member sub = *m;

    REQUIRE(halay_group_split(m->group, m->rank % 2, 0, &sub.group) == HALAY_OK);
    sub.rank = halay_group_rank(sub.group);
    sub.size = halay_group_size(sub.group);
    run_calls(&sub, seed);
    halay_group_close(sub.group);
}

static void body(struct member *m)
{
    uint64_t seed = seed_of_run() * 1000 + (uint64_t)m->size;

    run_each(m);
    run_calls(m, seed);
    m->by_default = 1;
    run_calls(m, seed + 1);
    if (m->size > 1)
        run_messages(m, seed);
    m->by_default = 0;
    if (m->size > 1)
        run_messages(m, seed + 2);
    run_refused(m);
    run_subset(m, seed + 3);
    CHECK(halay_group_barrier(m->group) == HALAY_OK, "%s", halay_error_text());
}

struct thread {
    struct halay_fake_hub *hub;
    int rank;
    void (*body)(struct member *m);
    pthread_t id;
};

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    struct member m = { 0 };
    const struct halay_world_options options = { .uses_devices = 1, .stream = give_stream, .stream_arg = &m };
    struct halay_world *world;

    REQUIRE(halay_world_open_fake(t->hub, t->rank, &world) == HALAY_OK);
    world->log->write = drop_line;
    world->config.check = (int)(seed_of_run() % 2);
    REQUIRE(halay_world_open_devices(world, &options) == HALAY_OK);
    REQUIRE(halay_group_create(world, &m.group) == HALAY_OK);
    member_open(&m);
    t->body(&m);
    GOOD(cudaStreamSynchronize(m.user.stream));
    halay_group_close(m.group);
    halay_world_close(world);
    user_close(&m.user);
    return NULL;
}

static void run_threads(int size, void (*what)(struct member *m))
{
    struct thread threads[RANKS_MAX];
    struct halay_fake_hub *hub;

    REQUIRE(halay_fake_hub_create(size, &hub) == HALAY_OK);
    for (int r = 0; r < size; r++) {
        threads[r] = (struct thread){ .hub = hub, .rank = r, .body = what };
        REQUIRE(!pthread_create(&threads[r].id, NULL, thread_main, &threads[r]));
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r].id, NULL);
    halay_fake_hub_destroy(hub);
}

/* ---- what goes wrong ---- */

/* The first copy of all fails: its rank gets the error, the others that of a peer. */
static void body_fails(struct member *m)
{
    struct area a = area_get(&m->user, DEVICE, 40);

    m->by_default = 1;
    GOOD(cudaMemset(a.data, 0, 40));
    enum halay_status status = halay_group_allreduce(m->group, a.data, a.data, 10, HALAY_F32, HALAY_SUM);
    CHECK(status == HALAY_ERR_SYSTEM || (status == HALAY_ERR_PEER && m->size > 1), "%s", halay_status_string(status));
    CHECK(halay_group_allreduce(m->group, a.data, a.data, 10, HALAY_F32, HALAY_SUM) == status);
    area_put(&m->user, &a);
}

/* One rank gives up what it has started; its memory is its own again. */
static void body_gives_up(struct member *m)
{
    struct area a = area_get(&m->user, DEVICE, 40);
    struct halay_coll *coll;

    m->by_default = 1;
    GOOD(cudaMemset(a.data, 0, 40));
    REQUIRE(halay_group_allreduce_start(m->group, a.data, a.data, 10, HALAY_F32, HALAY_SUM, &coll) == HALAY_OK);
    if (m->rank == 0) {
        for (size_t i = seed_of_run() % 5; i > 0; i--)
            halay_coll_progress(coll);
        halay_coll_end(coll);
    } else {
        enum halay_status status = halay_coll_finish(coll);
        CHECK(status == HALAY_ERR_PEER || status == HALAY_OK, "%s", halay_status_string(status));
    }
    area_put(&m->user, &a);
}

static void body_die(struct member *m)
{
    struct random own = { seed_of_run() };
    size_t last = random_below(&own, 20), moment_us = random_below(&own, 2000);
    struct area a = area_get(&m->user, DEVICE, 4 * COUNT_MOST);
    enum halay_status status = HALAY_OK;

    m->by_default = 1;
    GOOD(cudaMemset(a.data, 0, 4 * COUNT_MOST));
    for (size_t step = 0; status == HALAY_OK; step++) {
        struct halay_coll *coll = NULL;
        status = halay_group_allreduce_start(m->group, a.data, a.data, COUNT_MOST, HALAY_F32, HALAY_AVERAGE, &coll);
        if (m->rank == 1 && step == last) {
            usleep((useconds_t)moment_us);
            raise(SIGKILL);
        }
        if (status == HALAY_OK)
            status = halay_coll_finish(coll);
    }
    CHECK(status == HALAY_ERR_PEER && strstr(halay_error_text(), "rank 1"), "%s: '%s'", halay_status_string(status),
          halay_error_text());
    area_put(&m->user, &a);
}

/* ---- ranks that are processes ---- */

static int run_rank(const char *what)
{
    int dies = !strcmp(what, "die"), is_of_context = !strcmp(what, "context"), is_missing = !strcmp(what, "missing");
    struct member m = { 0 };
    struct halay_options options = { .struct_size = sizeof options,
                                     .log = dies || is_missing ? drop_line : NULL,
                                     .uses_devices = 1,
                                     .stream = give_stream,
                                     .stream_arg = &m };

    if (is_missing && getenv("HALAY_RANK") && atoi(getenv("HALAY_RANK")) == 1)
        setenv("HALAY_MODULE_PATH", "/nowhere", 1);
    if (is_missing) {
        CHECK(halay_group_open(&options, &m.group) == HALAY_ERR_UNSUPPORTED);
        CHECK(strstr(halay_error_text(), "libhalay-cuda.so") || strstr(halay_error_text(), "rank 1"), "'%s'",
              halay_error_text());
        return test_end();
    }
    if (is_of_context) {
        REQUIRE(halay_init(&options, &m.user.ctx) == HALAY_OK);
        REQUIRE(halay_group_of(m.user.ctx, NULL, &m.group) == HALAY_OK);
    } else {
        REQUIRE(halay_group_open(&options, &m.group) == HALAY_OK);
    }
    member_open(&m);
    dies ? body_die(&m) : body(&m);
    GOOD(cudaStreamSynchronize(m.user.stream));
    halay_group_close(m.group);
    user_close(&m.user);
    halay_fini(m.user.ctx);
    return test_end();
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 1, 2, 3, 5 };
    int size = sizes[seed_of_run() % 4];

    if (argc == 2)
        return run_rank(argv[1]);
    if (argc == 4)
        return spawn_ranks(atoi(argv[2]), argv[3], run_rank);
    run_threads(size, body);
    run_threads(size, body_gives_up);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown);
    run_threads(1, body_fails);
    emu_fail("cudaMemcpyAsync", 2, cudaErrorUnknown); /* towards the device */
    run_threads(1, body_fails);
    emu_fail("cudaMemcpyAsync", 1 + (int)(seed_of_run() % 2), cudaErrorUnknown);
    run_threads(3, body_fails);
    return test_end();
}
