/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine on memory of devices, emulated: every collective, each rank's data on a device, pinned or the host's as is
 * drawn, behind a stream, an event or nothing, and waited for by the host or a stream. What comes out is compared with
 * what a plain loop gives. Ranks are threads over the fake transport, or processes; test_devices_ends.c has what goes
 * wrong.
 *
 * usage: test_devices [[--spawn N] mixed|die|elastic]    without arguments: threads, how many follows from EMU_SEED;
 * without --spawn: a rank that somebody has started
 *
 *     mixed     all of it
 *     die       a rank is killed at a random moment, while data are on the way between hosts and devices
 *     elastic   under halayrun --min-np: the last rank is killed, and the others go on with the same tensor
 */
#include "halay_elastic.h"
#include "tests/cuda/devices.h"
#include "tests/fusion/random.h"
#include "tests/spawn.h"
#include <signal.h>

enum { COUNT_MOST = 300, COLUMNS = 3, MEMBERS = 3, STEPS = 12 };

static const enum halay_dtype dtypes[] = {
    HALAY_F32, HALAY_F64, HALAY_F16, HALAY_BF16, HALAY_I32, HALAY_U8, HALAY_I64
};

/* A small number that every type has, and sums of it. */
static int value_of(int rank, size_t i)
{
    return (int)((size_t)rank * 7 + i * 3) % 11;
}

/* One step, the same on all ranks but for where data are. */
struct act {
    enum halay_collective collective;
    enum halay_dtype dtype;
    size_t count; /* elements, or rows */
    int root;
    double prescale, postscale;
    enum halay_wire wire;
    enum halay_reduction reduction;
};

static size_t rows_of(int rank, size_t count)
{
    return rank % 3 == 2 ? 0 : count % 7 + (size_t)rank;
}

static size_t split_of(int from, int to)
{
    return (size_t)(from + 2 * to) % 3;
}

static struct act draw_act(struct random *r, int size)
{
    static const enum halay_collective kinds[] = { HALAY_ALLREDUCE, HALAY_ALLREDUCE,      HALAY_BROADCAST,
                                                   HALAY_ALLGATHER, HALAY_REDUCE_SCATTER, HALAY_ALLTOALL,
                                                   HALAY_REDUCE,    HALAY_GATHER,         HALAY_SCATTER,
                                                   HALAY_BARRIER };
    struct act a = { .collective = kinds[random_below(r, sizeof kinds / sizeof *kinds)],
                     .dtype = dtypes[random_below(r, sizeof dtypes / sizeof *dtypes)],
                     .count = random_below(r, COUNT_MOST),
                     .root = (int)random_below(r, (size_t)size) };

    int is_float = a.dtype == HALAY_F32 || a.dtype == HALAY_F64;
    if (a.collective == HALAY_ALLREDUCE && is_float && random_below(r, 3) == 0) {
        a.prescale = 2;
        a.postscale = 0.5;
    }
    if (a.collective == HALAY_ALLREDUCE && a.dtype == HALAY_F32 && random_below(r, 3) == 0)
        a.wire = HALAY_WIRE_F16;
    if (random_below(r, 3) == 0)
        a.reduction = HALAY_MAX;
    return a;
}

/* ---- what goes in, and what must come out ---- */

static size_t input_of(const struct act *a, int rank, int size)
{
    size_t all = 0;

    switch (a->collective) {
    case HALAY_BARRIER:
        return 0;
    case HALAY_ALLGATHER:
    case HALAY_GATHER:
        return rows_of(rank, a->count) * COLUMNS;
    case HALAY_ALLTOALL:
        for (int to = 0; to < size; to++)
            all += split_of(rank, to);
        return all * COLUMNS;
    case HALAY_SCATTER:
        return rank == a->root ? a->count * COLUMNS : 0;
    case HALAY_REDUCE_SCATTER:
        return a->count * COLUMNS;
    case HALAY_BROADCAST:
        return rank == a->root ? a->count : 0;
    default:
        return a->count;
    }
}

static double reduced(const struct act *a, int size, size_t i)
{
    double sum = 0, most = 0;

    for (int r = 0; r < size; r++) {
        sum += value_of(r, i);
        most = value_of(r, i) > most ? value_of(r, i) : most;
    }
    return a->reduction == HALAY_MAX ? most : a->dtype == HALAY_U8 ? (unsigned char)sum : sum;
}

/* Appends the values to out; returns how many there are. */
static size_t expect_rows(const struct act *a, int rank, int size, double *out)
{
    size_t n = 0, first;

    if (a->collective == HALAY_REDUCE_SCATTER || a->collective == HALAY_SCATTER) {
        size_t rows = halay_scatter_rows(a->count, size, rank, &first);
        for (size_t i = first * COLUMNS; i < (first + rows) * COLUMNS; i++)
            out[n++] = a->collective == HALAY_SCATTER ? value_of(a->root, i) : reduced(a, size, i);
        return n;
    }
    for (int from = 0; from < size; from++) {
        size_t rows = a->collective == HALAY_ALLTOALL ? split_of(from, rank) : rows_of(from, a->count);
        for (int to = first = 0; a->collective == HALAY_ALLTOALL && to < rank; to++)
            first += split_of(from, to);
        for (size_t i = first * COLUMNS; i < (first + rows) * COLUMNS; i++)
            out[n++] = value_of(from, i);
    }
    return n;
}

static size_t expect(const struct act *a, int rank, int size, double *out)
{
    if (a->collective == HALAY_BARRIER || (a->collective == HALAY_GATHER && rank != a->root) ||
        (a->collective == HALAY_REDUCE && rank != a->root))
        return 0;
    if (halay_collective_goes_by_rows((int)a->collective))
        return expect_rows(a, rank, size, out);
    for (size_t i = 0; i < a->count; i++)
        out[i] = a->collective == HALAY_BROADCAST ? value_of(a->root, i) : reduced(a, size, i);
    return a->count;
}

/* ---- a step ---- */

struct step {
    struct act act;
    struct area in, out; /* the same place where it is done in place */
    struct halay_tensor_info info;
    size_t splits[RANKS_MAX], expected, in_count;
    double want[RANKS_MAX * COUNT_MOST * COLUMNS];
    struct halay_request *request;
    char name[32];
};

static void describe(struct step *s, int size)
{
    const struct act *a = &s->act;
    int by_rows = halay_collective_goes_by_rows((int)a->collective);

    s->info = (struct halay_tensor_info){ .struct_size = sizeof s->info,
                                          .name = s->name,
                                          .collective = a->collective,
                                          .dtype = a->dtype,
                                          .dimensions = by_rows ? 2 : 1,
                                          .shape = { by_rows ? s->in_count / COLUMNS : a->count, COLUMNS },
                                          .in = s->in.data,
                                          .out = s->out.data,
                                          .reduction = a->reduction,
                                          .root = a->root,
                                          .prescale = a->prescale,
                                          .postscale = a->postscale,
                                          .wire = a->wire,
                                          .out_bytes = s->out.bytes };
    if (a->collective == HALAY_ALLTOALL)
        s->info.splits = s->splits;
    (void)size;
}

/* Draws where its data are, brings them there by the stream, and submits it. */
static void begin(struct user *u, struct random *own, struct step *s)
{
    const struct act *a = &s->act;
    size_t element = halay_dtype_size(a->dtype);
    int in_place = a->collective == HALAY_BROADCAST || (a->collective == HALAY_ALLREDUCE && random_below(own, 2));

    s->expected = expect(a, u->rank, u->size, s->want);
    s->in_count = input_of(a, u->rank, u->size);
    for (int to = 0; to < u->size; to++)
        s->splits[to] = split_of(u->rank, to);
    size_t out_bytes = (in_place && s->in_count > s->expected ? s->in_count : s->expected) * element;
    s->out = area_get(u, (enum kind)random_below(own, KINDS), out_bytes);
    s->in = in_place ? s->out : area_get(u, (enum kind)random_below(own, KINDS), s->in_count * element);
    describe(s, u->size);
    area_fill(u, &s->in, a->dtype, s->in_count, value_of, u->rank);
    enum after after = s->in.kind == HOST && s->out.kind == HOST ? NOTHING : (enum after)random_below(own, AFTERS);
    user_follow(u, after, &s->info);
    if ((s->in.kind >= DEVICE && s->in_count) || (s->out.kind >= DEVICE && s->expected))
        s->info.memory = HALAY_MEMORY_DEVICE;
    REQUIRE(halay_submit_named(u->ctx, &s->info, NULL, NULL, &s->request) == HALAY_OK);
}

static void finish(struct user *u, struct random *own, struct step *s)
{
    struct halay_result result = { .struct_size = sizeof result };
    int by_stream = (int)random_below(own, 2);
    char what[80];

    enum halay_status status =
        by_stream ? halay_wait_stream(s->request, 30000, u->stream) : halay_wait(s->request, 30000);
    snprintf(what, sizeof what, "rank %d of %d: '%s', in %s, out %s", u->rank, u->size, s->name, kind_name(&s->in),
             kind_name(&s->out));
    CHECK(status == HALAY_OK, "%s: %s", what, halay_error_text());
    area_compare(u, &s->out, s->act.dtype, s->want, s->expected, by_stream, what);
    CHECK(halay_wait(s->request, 30000) == HALAY_OK, "%s: %s", what, halay_request_text(s->request));
    CHECK(halay_request_result(s->request, &result) == HALAY_OK);
    CHECK(!s->expected || result.data == s->out.data, "%s: the result lies elsewhere", what);
    halay_request_free(s->request);
    if (s->in.data != s->out.data)
        area_put(u, &s->in);
    area_put(u, &s->out);
}

/* Several at a time, in other orders on each rank. */
static void run_acts(struct user *u, uint64_t seed)
{
    struct random common = { seed }, own = { seed * 31 + (uint64_t)u->rank };
    struct step *steps = calloc(STEPS, sizeof *steps);
    int order[STEPS];

    REQUIRE(steps);
    for (int i = 0; i < STEPS; i++) {
        int at = (int)random_below(&own, (size_t)i + 1);
        steps[i].act = draw_act(&common, u->size);
        snprintf(steps[i].name, sizeof steps[i].name, "act %d of kind %d", i, (int)steps[i].act.collective);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < STEPS; i++)
        begin(u, &own, &steps[order[i]]);
    for (int i = 0; i < STEPS; i++)
        finish(u, &own, &steps[order[STEPS - 1 - i]]);
    free(steps);
}

/* ---- registered tensors, step by step: nothing is allocated after the first ---- */

enum { TENSORS = 5, TRAIN_STEPS = 4 };

static void train(struct user *u, int many)
{
    struct halay_tensor *tensors[TENSORS];
    struct halay_request *requests[TENSORS];
    struct area data[TENSORS];
    char name[32];

    for (int i = 0; i < TENSORS; i++) {
        data[i] = area_get(u, i == 3 ? HOST : DEVICE, (size_t)(i * 40 + 1) * 4);
        snprintf(name, sizeof name, "gradient %d %d", many, i);
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = name,
                                          .dtype = HALAY_F32,
                                          .dimensions = 1,
                                          .shape = { (size_t)(i * 40 + 1) },
                                          .out = data[i].data,
                                          .memory = i == 3 ? HALAY_MEMORY_ANY : HALAY_MEMORY_DEVICE,
                                          .after_stream = i == 3 ? NULL : u->stream };
        REQUIRE(halay_register(u->ctx, &info, &tensors[i]) == HALAY_OK);
    }
    for (int step = 0; step < TRAIN_STEPS; step++) {
        double want[TENSORS * 40];
        for (int i = 0; i < TENSORS; i++) {
            area_fill(u, &data[i], HALAY_F32, (size_t)(i * 40 + 1), value_of, u->rank + step);
            if (!many)
                REQUIRE(halay_submit(tensors[i], NULL, NULL, &requests[i]) == HALAY_OK);
        }
        if (many)
            REQUIRE(halay_submit_many(tensors, TENSORS, NULL, NULL, requests) == HALAY_OK);
        for (int i = 0; i < TENSORS; i++) {
            size_t count = (size_t)(i * 40 + 1);
            CHECK(halay_wait_stream(requests[i], 30000, u->stream) == HALAY_OK, "%s", halay_error_text());
            for (size_t k = 0; k < count; k++) {
                want[k] = 0;
                for (int r = 0; r < u->size; r++)
                    want[k] += value_of(r + step, k);
            }
            area_compare(u, &data[i], HALAY_F32, want, count, 1, "a gradient");
            halay_request_free(requests[i]);
        }
    }
    for (int i = 0; i < TENSORS; i++) {
        CHECK(halay_unregister(tensors[i]) == HALAY_OK);
        area_put(u, &data[i]);
    }
}

/* ---- groups, sends and receives ---- */

static void run_group(struct user *u, uint64_t seed)
{
    struct random own = { seed + (uint64_t)u->rank };
    struct halay_member members[MEMBERS] = { 0 };
    struct area in[MEMBERS], out[MEMBERS];
    struct halay_request *request;
    double want[MEMBERS * 50];

    for (int i = 0; i < MEMBERS; i++) {
        enum halay_dtype dtype = i == 1 ? HALAY_I32 : HALAY_F32;
        size_t count = (size_t)(i * 17 + 4);
        in[i] = area_get(u, (enum kind)random_below(&own, KINDS), count * 4);
        out[i] = i == 2 ? in[i] : area_get(u, (enum kind)random_below(&own, KINDS), count * 4);
        area_fill(u, &in[i], dtype, count, value_of, u->rank);
        members[i] = (struct halay_member){
            .in = in[i].data, .out = out[i].data, .dtype = dtype, .dimensions = 1, .shape = { count }
        };
    }
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "a group",
                                      .members = members,
                                      .member_count = MEMBERS,
                                      .member_bytes = sizeof *members };
    user_follow(u, STREAM, &info);
    REQUIRE(halay_submit_named(u->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, 30000) == HALAY_OK, "%s", halay_request_text(request));
    halay_request_free(request);
    for (int i = 0; i < MEMBERS; i++) {
        size_t count = (size_t)(i * 17 + 4);
        for (size_t k = 0; k < count; k++) {
            want[k] = 0;
            for (int r = 0; r < u->size; r++)
                want[k] += value_of(r, k);
        }
        area_compare(u, &out[i], members[i].dtype, want, count, 0, "of a group");
        if (in[i].data != out[i].data)
            area_put(u, &in[i]);
        area_put(u, &out[i]);
    }
}

/* Of some ranks; the others are not asked. */
static void run_set(struct user *u)
{
    int ranks[RANKS_MAX], count = 0;
    struct halay_process_set *set;
    struct halay_request *request;
    double want[COUNT_MOST] = { 0 };

    for (int r = 0; r < u->size; r += 2)
        ranks[count++] = r;
    if (u->rank % 2)
        return;
    REQUIRE(halay_process_set_create(u->ctx, ranks, (size_t)count, &set) == HALAY_OK);
    struct area a = area_get(u, OURS, COUNT_MOST * 2);
    area_fill(u, &a, HALAY_BF16, COUNT_MOST, value_of, u->rank);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "of a set",
                                      .dtype = HALAY_BF16,
                                      .dimensions = 1,
                                      .shape = { COUNT_MOST },
                                      .out = a.data,
                                      .set = set,
                                      .memory = HALAY_MEMORY_DEVICE };
    user_follow(u, EVENT, &info);
    REQUIRE(halay_submit_named(u->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, 30000) == HALAY_OK, "%s", halay_request_text(request));
    halay_request_free(request);
    for (int m = 0; m < count; m++)
        for (size_t i = 0; i < COUNT_MOST; i++)
            want[i] += value_of(ranks[m], i);
    area_compare(u, &a, HALAY_BF16, want, COUNT_MOST, 0, "of a set");
    area_put(u, &a);
    CHECK(halay_process_set_remove(set) == HALAY_OK);
}

/* Three messages to the next rank under one tag: they arrive in the order of submission, wherever they lie. */
static void run_points(struct user *u, uint64_t seed)
{
    enum { MESSAGES = 3, LENGTH = 20 };
    struct random own = { seed + 77 * (uint64_t)u->rank };
    struct area in[MESSAGES], out[MESSAGES];
    struct halay_request *requests[2 * MESSAGES];
    int to = (u->rank + 1) % u->size, from = (u->rank + u->size - 1) % u->size;
    double want[LENGTH];

    for (int i = 0; i < MESSAGES; i++) {
        in[i] = area_get(u, (enum kind)random_below(&own, KINDS), LENGTH * 4);
        out[i] = area_get(u, (enum kind)random_below(&own, KINDS), LENGTH * 4);
        area_fill(u, &in[i], HALAY_F32, LENGTH, value_of, u->rank + 100 * i);
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .collective = HALAY_SEND,
                                          .dtype = HALAY_F32,
                                          .dimensions = 1,
                                          .shape = { LENGTH },
                                          .in = in[i].data,
                                          .peer = to,
                                          .tag = 5 };
        user_follow(u, in[i].kind >= DEVICE ? STREAM : NOTHING, &info);
        REQUIRE(halay_submit_named(u->ctx, &info, NULL, NULL, &requests[i]) == HALAY_OK);
        info.collective = HALAY_RECEIVE;
        info.in = NULL;
        info.out = out[i].data;
        info.peer = from;
        user_follow(u, out[i].kind >= DEVICE ? STREAM : NOTHING, &info);
        REQUIRE(halay_submit_named(u->ctx, &info, NULL, NULL, &requests[MESSAGES + i]) == HALAY_OK);
    }
    CHECK(halay_wait_all(requests, 2 * MESSAGES, 30000) == HALAY_OK, "%s", halay_error_text());
    for (int i = 0; i < MESSAGES; i++) {
        for (size_t k = 0; k < LENGTH; k++)
            want[k] = value_of(from + 100 * i, k);
        area_compare(u, &out[i], HALAY_F32, want, LENGTH, 0, "a message");
        halay_request_free(requests[i]);
        halay_request_free(requests[MESSAGES + i]);
        area_put(u, &in[i]);
        area_put(u, &out[i]);
    }
}

/* Only the root gives rows; the others name a device and a room for the result, which is the root's. */
static void run_gather(struct user *u, enum halay_memory_kind memory)
{
    struct area in = area_get(u, DEVICE, COLUMNS * 4), out = area_get(u, DEVICE, COLUMNS * 4);
    size_t rows = u->rank == 0;
    struct halay_request *request;
    double want[COLUMNS];

    area_fill(u, &in, HALAY_F32, COLUMNS, value_of, u->rank);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "rows of the root",
                                      .collective = HALAY_GATHER,
                                      .dtype = HALAY_F32,
                                      .dimensions = 2,
                                      .shape = { rows, COLUMNS },
                                      .in = in.data,
                                      .out = out.data,
                                      .out_bytes = out.bytes,
                                      .memory = memory };
    user_follow(u, STREAM, &info);
    REQUIRE(halay_submit_named(u->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, 30000) == HALAY_OK, "%s", halay_request_text(request));
    halay_request_free(request);
    for (size_t i = 0; i < COLUMNS; i++)
        want[i] = value_of(0, i);
    area_compare(u, &out, HALAY_F32, want, rows * COLUMNS, 0, "rows of the root");
    area_put(u, &in);
    area_put(u, &out);
}

static uint64_t seed_of_run(void)
{
    const char *seed = getenv("EMU_SEED");

    return seed ? strtoull(seed, NULL, 10) : 1;
}

static void body(struct user *u)
{
    uint64_t seed = seed_of_run();

    run_acts(u, seed * 1000 + (uint64_t)u->size);
    run_group(u, seed);
    run_set(u);
    run_gather(u, HALAY_MEMORY_DEVICE);
    run_gather(u, HALAY_MEMORY_DEVICES);
    if (u->size > 1)
        run_points(u, seed);
    train(u, 0);
    train(u, 1);
}

static void set_deterministic(struct halay_config *config, void *arg)
{
    (void)arg;
    config->deterministic = HALAY_DETERMINISTIC_RUN;
}

/* ---- ranks that are processes ---- */

/* Until the others notice. */
static void body_die(struct user *u)
{
    struct random own = { seed_of_run() };
    size_t last = random_below(&own, 20), moment_us = random_below(&own, 2000);
    struct area a = area_get(u, DEVICE, COUNT_MOST * 4);
    enum halay_status status = HALAY_OK;

    for (size_t step = 0; status == HALAY_OK; step++) {
        struct halay_request *request = NULL;
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = "x",
                                          .dtype = HALAY_F32,
                                          .dimensions = 1,
                                          .shape = { COUNT_MOST },
                                          .out = a.data,
                                          .memory = HALAY_MEMORY_DEVICE };
        area_fill(u, &a, HALAY_F32, COUNT_MOST, value_of, u->rank);
        user_follow(u, STREAM, &info);
        status = halay_submit_named(u->ctx, &info, NULL, NULL, &request);
        if (u->rank == 1 && step == last) {
            usleep((useconds_t)moment_us);
            raise(SIGKILL);
        }
        if (status == HALAY_OK)
            status = halay_wait_stream(request, 30000, u->stream);
        halay_request_free(request);
    }
    CHECK(status == HALAY_ERR_PEER && strstr(halay_error_text(), "rank 1"), "%s: '%s'", halay_status_string(status),
          halay_error_text());
    area_put(u, &a);
}

static int run_rank(const char *what)
{
    int dies = !strcmp(what, "die");
    struct halay_options options = { .struct_size = sizeof options, .log = dies ? drop_line : NULL };
    struct user u = { 0 };

    REQUIRE(halay_init(&options, &u.ctx) == HALAY_OK);
    user_open(&u);
    dies ? body_die(&u) : body(&u);
    user_close(&u);
    halay_fini(u.ctx);
    return test_end();
}

/* ---- an elastic job ---- */

static enum halay_status step_elastic(struct user *u, struct halay_tensor *tensor, struct area *a, int64_t step)
{
    struct halay_request *request = NULL;
    double want[COUNT_MOST];

    area_fill(u, a, HALAY_F32, COUNT_MOST, value_of, (int)step);
    for (size_t i = 0; i < COUNT_MOST; i++)
        want[i] = value_of((int)step, i) * halay_size(u->ctx);
    enum halay_status status = halay_submit(tensor, NULL, NULL, &request);
    if (status == HALAY_OK)
        status = halay_wait_stream(request, 30000, u->stream);
    if (status == HALAY_OK)
        area_compare(u, a, HALAY_F32, want, COUNT_MOST, 1, "a step");
    halay_request_free(request);
    return status;
}

static int run_elastic(void)
{
    enum { STEPS_MOST = 30, LAST_OF_ONE = 5 };
    struct halay_elastic_change change = { .struct_size = sizeof change };
    struct user u = { 0 };
    struct halay_tensor *tensor;
    int64_t step = 0;

    REQUIRE(halay_init(NULL, &u.ctx) == HALAY_OK);
    user_open(&u);
    struct area a = area_get(&u, DEVICE, COUNT_MOST * 4);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "gradient",
                                      .dtype = HALAY_F32,
                                      .dimensions = 1,
                                      .shape = { COUNT_MOST },
                                      .out = a.data,
                                      .memory = HALAY_MEMORY_DEVICE,
                                      .after_stream = u.stream };
    REQUIRE(halay_register(u.ctx, &info, &tensor) == HALAY_OK);
    REQUIRE(halay_elastic_add(u.ctx, &step, sizeof step) == HALAY_OK);
    REQUIRE(halay_elastic_begin(u.ctx, &change) == HALAY_OK);
    int is_old = step == 0;
    while (step < STEPS_MOST) {
        enum halay_status status = step_elastic(&u, tensor, &a, step);
        if (is_old && u.rank == u.size - 1 && step == LAST_OF_ONE)
            raise(SIGKILL);
        step += status == HALAY_OK;
        if (status == HALAY_OK)
            status = halay_elastic_commit(u.ctx, &change);
        if (status == HALAY_ERR_PEER)
            status = halay_elastic_restore(u.ctx, &change);
        REQUIRE(status == HALAY_OK);
    }
    CHECK(!is_old || change.reforms > 0, "nobody was lost");
    area_put(&u, &a);
    user_close(&u);
    halay_fini(u.ctx);
    return test_end();
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 1, 2, 3, 5 };
    int size = sizes[seed_of_run() % 4];

    if (argc == 2)
        return strcmp(argv[1], "elastic") ? run_rank(argv[1]) : run_elastic();
    if (argc == 4)
        return spawn_ranks(atoi(argv[2]), argv[3], run_rank);
    users_run(size, body, seed_of_run() % 3 == 2 ? set_deterministic : NULL, NULL);
    return test_end();
}
