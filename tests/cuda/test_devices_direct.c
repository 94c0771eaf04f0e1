/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduces that the devices of a host make among themselves (fusion/paths/device/direct.h): sums that a plain loop
 * gives to the bit, through segments that hold less than a tensor, one-shot and two-shot; and when the ranks go through
 * the host after all. Ranks are threads over the fake transport, or processes.
 *
 * usage: test_devices_direct [[--spawn N] sums|die|elastic]    as test_devices; threads are 1 to 5, by EMU_SEED
 *
 * EMU_PEERS=0: with several devices nothing is direct, and the sums are right all the same.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/choose/tuning.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/reduce/reduce.h"
#include "fusion/paths/device/direct.h"
#include "halay_elastic.h"
#include "tests/cuda/cases.h"
#include "tests/fusion/random.h"
#include "tests/spawn.h"
#include <math.h>
#include <signal.h>

enum { TENSORS = 4, COUNT_MOST = 700, ROUNDS = 4, SEGMENT = 2048, ONE_SHOT_MOST = 2000 };

static int value_of(int rank, size_t i)
{
    return (int)((size_t)rank * 5 + i * 3) % 9 - 2;
}

/* Whose sum in f32 depends on the order of the ranks. */
static int value_in_order(int rank, size_t i)
{
    return ((size_t)rank + i) % 4 == 1 ? 1 << 24 : value_of(rank, i);
}

static uint64_t seed_of_run(void)
{
    const char *seed = getenv("EMU_SEED");

    return seed ? strtoull(seed, NULL, 10) : 1;
}

static size_t launches(void)
{
    return emu_calls ? emu_calls("cudaLaunchKernelEx") : 0;
}

static int is_direct_here(const struct user *u)
{
    const char *devices = getenv("EMU_DEVICES"), *peers = getenv("EMU_PEERS");

    return u->size == 1 || !devices || atoi(devices) == 1 || !peers || atoi(peers);
}

/* Returns the values of sums: devices add in the order of the ranks, the host in its algorithm's. */
static int (*values_of(const struct user *u))(int rank, size_t i)
{
    return is_direct_here(u) ? value_in_order : value_of;
}

/* One-shot only for what is small, so that both are tried. */
static void use_both(struct halay_context *ctx)
{
    struct halay_tuning *table = ctx->world->tuning;

    for (; table; table = (struct halay_tuning *)table->next)
        for (struct halay_tuning_row *row = table->rows; row < table->rows + table->count; row++)
            if (row->kind == HALAY_TUNING_USE && !strcmp(row->transport, "cuda") &&
                !strcmp(halay_algorithms[row->algorithm].name, "one-shot"))
                row->bytes_max = ONE_SHOT_MOST;
}

/* ---- sums ---- */

struct tensor {
    char name[16];
    size_t count, skip; /* elements; those in front of it, so that it is not aligned */
    struct area in, out;
    struct halay_request *request;
};

struct round {
    enum halay_dtype dtype;
    enum halay_reduction reduction;
    double prescale, postscale;
    int tensors;
};

static struct halay_tensor_info info_of(const struct round *round, const struct tensor *t)
{
    size_t skip = t->skip * halay_dtype_size(round->dtype);

    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = t->name,
                                       .dtype = round->dtype,
                                       .reduction = round->reduction,
                                       .prescale = round->prescale,
                                       .postscale = round->postscale,
                                       .dimensions = 1,
                                       .shape = { t->count },
                                       .in = (char *)t->in.data + skip,
                                       .out = (char *)t->out.data + skip,
                                       .memory = HALAY_MEMORY_DEVICES };
}

static void tensor_open(struct user *u, const struct round *round, struct random *shared, int number, struct tensor *t)
{
    size_t element = halay_dtype_size(round->dtype);

    snprintf(t->name, sizeof t->name, "t%d", number);
    t->count = random_below(shared, COUNT_MOST);
    t->skip = random_below(shared, 2) ? random_below(shared, 5) : 0;
    t->in = area_get(u, random_below(shared, 2) ? DEVICE : OURS, (t->count + t->skip) * element);
    t->out = random_below(shared, 2) ? t->in : area_get(u, DEVICE, (t->count + t->skip) * element);
    struct area data = { .kind = t->in.kind, .data = (char *)t->in.data + t->skip * element };
    area_fill(u, &data, round->dtype, t->count, values_of(u), u->rank + number);
}

/* Returns what is stored of a result. */
static float rounded(enum halay_dtype dtype, float x)
{
    if (dtype == HALAY_F16)
        return halay_f16_to_f32(halay_f32_to_f16(x));
    return dtype == HALAY_BF16 ? halay_bf16_to_f32(halay_f32_to_bf16(x)) : x;
}

static void tensor_close(struct user *u, const struct round *round, int number, struct tensor *t)
{
    size_t element = halay_dtype_size(round->dtype);
    double divisor = round->reduction == HALAY_AVERAGE ? u->size : 1, want[COUNT_MOST];

    for (size_t i = 0; i < t->count; i++) {
        float sum = 0;
        for (int r = 0; r < u->size; r++)
            sum += (float)round->prescale * (float)values_of(u)(r + number, i);
        want[i] = rounded(round->dtype, sum / (float)divisor * (float)round->postscale);
    }
    struct area data = { .kind = t->out.kind, .data = (char *)t->out.data + t->skip * element };
    area_compare(u, &data, round->dtype, want, t->count, 1, t->name);
    if (t->out.data != t->in.data)
        area_put(u, &t->out);
    area_put(u, &t->in);
}

static void run_round(struct user *u, struct random *shared)
{
    static const enum halay_dtype dtypes[] = { HALAY_F32, HALAY_F16, HALAY_BF16 };
    static const double scales[] = { 1, 1, 0.5, 2 };
    struct round round = { .dtype = dtypes[random_below(shared, 3)],
                           .reduction = random_below(shared, 2) ? HALAY_SUM : HALAY_AVERAGE,
                           .prescale = scales[random_below(shared, 4)],
                           .postscale = scales[random_below(shared, 4)],
                           .tensors = 1 + (int)random_below(shared, TENSORS) };
    struct tensor tensors[TENSORS];
    int by_stream = (int)random_below(shared, 2);

    for (int i = 0; i < round.tensors; i++) {
        tensor_open(u, &round, shared, i, &tensors[i]);
        struct halay_tensor_info info = info_of(&round, &tensors[i]);
        user_follow(u, i % 2 ? STREAM : EVENT, &info);
        tensors[i].request = submit(u, &info);
    }
    for (int i = 0; i < round.tensors; i++) {
        enum halay_status status = by_stream ? halay_wait_stream(tensors[i].request, WAIT_MS, u->stream)
                                             : halay_wait(tensors[i].request, WAIT_MS);
        CHECK(status == HALAY_OK, "%s", halay_error_text());
        halay_request_free(tensors[i].request);
        tensor_close(u, &round, i, &tensors[i]);
    }
}

/* The ranks meet once a window: it is packed, and one unpacked, while another is reduced. */
static void check_meetings(struct user *u)
{
    enum { WINDOWS = 12, COUNT = WINDOWS * SEGMENT / 2 / 4 };
    struct area a = area_get(u, DEVICE, COUNT * 4);
    struct halay_request *request = NULL;
    double want[COUNT];

    uint64_t before = halay_group_next(u->ctx->all.group);
    CHECK(submit_filled(u, &a, COUNT, value_of, &request) == HALAY_OK);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    uint64_t meetings = halay_group_next(u->ctx->all.group) - before;
    CHECK(!is_direct_here(u) || meetings <= WINDOWS + 4, "%d meetings", (int)meetings);
    for (size_t i = 0; i < COUNT; i++) {
        want[i] = 0;
        for (int r = 0; r < u->size; r++)
            want[i] += value_of(r, i);
    }
    area_compare(u, &a, HALAY_F32, want, COUNT, 0, "of many windows");
    area_put(u, &a);
}

static void body_sums(struct user *u)
{
    struct random shared = { seed_of_run() * 31 + (uint64_t)u->size };
    size_t before = launches();

    use_both(u->ctx);
    for (int i = 0; i < ROUNDS; i++)
        run_round(u, &shared);
    if (emu_calls) {
        CHECK((launches() > before) == is_direct_here(u), "%zu launches", launches() - before);
        CHECK(emu_calls("loading_launches") == 0, "kernels are loaded by their launches");
    }
    check_meetings(u);
}

static void set_segment(struct halay_config *config, void *arg)
{
    (void)arg;
    config->device_segment = SEGMENT + 24; /* what is no multiple of 16 bytes is not used */
    config->deterministic = seed_of_run() % 2 ? HALAY_DETERMINISTIC_RUN : HALAY_DETERMINISTIC_OFF;
}

static void sums(void)
{
    users_quiet(1 + (int)(seed_of_run() % 5), body_sums, "", set_segment, NULL);
}

/* ---- all operations, types and reductions ---- */

enum { ROWS_MOST = 300, WIDTH_MOST = 3, ALL_MOST = 5 * (ROWS_MOST + 5) * WIDTH_MOST };

struct other {
    enum halay_collective collective;
    enum halay_dtype dtype;
    enum halay_reduction reduction;
    size_t rows, width, element;
    int root, is_ragged;
    int has_splits;                            /* the root has most rows of a reduce-scatter */
    double prescale, postscale;                /* 0: none; powers of two */
    enum { ALL_THERE, NONE, TOO_SMALL } lacks; /* rank 0's out */
    int place; /* 0: in and out apart; 1: in is in its place in out, or out in its in in; 2: all-gather: in another */
};

static size_t rows_of(const struct other *o, int rank)
{
    return o->rows + (size_t)(o->is_ragged ? rank : 0);
}

static size_t rows_before(const struct other *o, int rank)
{
    size_t rows = 0;

    for (int r = 0; r < rank; r++)
        rows += rows_of(o, r);
    return rows;
}

/* Returns the rows that a rank has of a reduce-scatter; *first: the number of the first. */
static size_t scattered(const struct other *o, int size, int rank, size_t *first)
{
    size_t part = o->rows / (2 * (size_t)size);

    if (!o->has_splits)
        return halay_scatter_rows(o->rows, size, rank, first);
    size_t most = o->rows - ((size_t)size - 1) * part;
    *first = (size_t)rank * part + (rank > o->root ? most - part : 0);
    return rank == o->root ? most : part;
}

static int is_reduction(const struct other *o)
{
    return o->collective == HALAY_ALLREDUCE || o->collective == HALAY_REDUCE_SCATTER;
}

static struct other other_make(struct user *u, struct random *shared, int is_ragged)
{
    static const enum halay_collective collectives[] = { HALAY_ALLGATHER, HALAY_BROADCAST, HALAY_REDUCE_SCATTER,
                                                         HALAY_ALLREDUCE };
    struct other o = { .collective = collectives[is_ragged ? 0 : random_below(shared, 4)],
                       .rows = random_below(shared, ROWS_MOST),
                       .width = 1 + random_below(shared, WIDTH_MOST),
                       .root = (int)random_below(shared, (uint64_t)u->size),
                       .is_ragged = is_ragged,
                       .place = (int)random_below(shared, 3) };

    o.dtype = (enum halay_dtype)random_below(shared, HALAY_DTYPE_COUNT);
    o.element = halay_dtype_size(o.dtype);
    do
        o.reduction = (enum halay_reduction)random_below(shared, HALAY_ADASUM);
    while (!halay_reduction_takes(o.reduction, o.dtype));
    o.has_splits = (int)random_below(shared, 2);
    if (is_reduction(&o) && halay_sums_floats(o.reduction, o.dtype)) {
        o.prescale = random_below(shared, 2) ? 0.5 : 0;
        o.postscale = random_below(shared, 2) ? 4 : 0;
    }
    return o;
}

/* Reduces as the processor does. */
static void reduce_want(struct user *u, const struct other *o, size_t first, size_t count, void *want)
{
    static _Thread_local char given[5][ALL_MOST * 8];
    const void *src[5];

    for (int r = 0; r < u->size; r++) {
        src[r] = given[r];
        for (size_t i = 0; i < count; i++)
            number_put(given[r], o->dtype, i, value_of(r, first + i));
    }
    halay_reducer_get(0)->reduce[o->dtype][o->reduction](&want, 1, src, u->size, count,
                                                         o->reduction == HALAY_AVERAGE ? u->size : 1);
}

/* Computes what this rank gets. Returns the number of elements. */
static size_t other_want(struct user *u, const struct other *o, void *want)
{
    size_t first = 0, count = o->rows * o->width, all = 0;

    if (o->collective == HALAY_REDUCE_SCATTER)
        count = scattered(o, u->size, u->rank, &first) * o->width;
    if (is_reduction(o)) {
        reduce_want(u, o, first * o->width, count, want);
        return count;
    }
    for (int r = 0; r < u->size; r++)
        for (size_t i = 0; i < rows_of(o, r) * o->width && (o->collective == HALAY_ALLGATHER || r == o->root); i++)
            number_put(want, o->dtype, all++, value_of(r, i));
    return all;
}

/* Sets in and out of a description. big: as many elements as all ranks have. */
static void other_place(struct user *u, const struct other *o, struct area *big, struct area *small,
                        struct halay_tensor_info *info)
{
    size_t row = o->width * o->element, first = 0;
    int near = o->place == 2 ? (u->rank + 1) % u->size : u->rank;

    info->out = big->data;
    if (o->collective == HALAY_ALLREDUCE && o->place)
        info->in = small->data;
    if (o->collective == HALAY_ALLGATHER) {
        info->in = o->place ? (char *)big->data + rows_before(o, near) * row : small->data;
        info->out_bytes = rows_before(o, u->size) * row;
    } else if (o->collective == HALAY_REDUCE_SCATTER) {
        scattered(o, u->size, u->rank, &first);
        info->in = big->data;
        info->out = o->place ? (char *)big->data + first * row : small->data;
    }
    if (o->lacks && !u->rank)
        info->out = o->lacks == NONE ? NULL : info->out;
    info->out_bytes -= o->lacks == TOO_SMALL && !u->rank;
}

static void run_other(struct user *u, const struct other *o)
{
    struct area big = area_get(u, DEVICE, ALL_MOST * 8), small = area_get(u, OURS, ALL_MOST * 8);
    static _Thread_local char typed[ALL_MOST * 8];
    static _Thread_local double want[ALL_MOST];
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "other",
                                      .collective = o->collective,
                                      .dtype = o->dtype,
                                      .dimensions = 2,
                                      .shape = { rows_of(o, u->rank), o->width },
                                      .root = o->root,
                                      .prescale = o->prescale,
                                      .postscale = o->postscale,
                                      .memory = HALAY_MEMORY_DEVICES };
    size_t splits[5], first;
    int is_lost = o->lacks && !u->rank && (is_direct_here(u) || o->lacks == TOO_SMALL);

    if (is_reduction(o))
        info.reduction = o->reduction;
    for (int r = 0; r < u->size && o->has_splits && o->collective == HALAY_REDUCE_SCATTER; r++) {
        splits[r] = scattered(o, u->size, r, &first);
        info.splits = splits;
    }
    other_place(u, o, &big, &small, &info);
    char name[64];
    struct area in = { .kind = DEVICE, .data = (void *)(info.in ? info.in : info.out) };
    struct area out = { .kind = DEVICE, .data = info.out };
    area_fill(u, &in, o->dtype, rows_of(o, u->rank) * o->width, value_of, u->rank);
    user_follow(u, STREAM, &info);
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == (is_lost ? HALAY_ERR_ARGUMENT : HALAY_OK), "%s", halay_error_text());
    halay_request_free(request);
    size_t count = o->lacks && !u->rank ? 0 : other_want(u, o, typed);
    for (size_t i = 0; i < count; i++)
        want[i] = number_get(typed, o->dtype, i) * (o->prescale ? o->prescale : 1) * (o->postscale ? o->postscale : 1);
    snprintf(name, sizeof name, "%d of %d at %d", (int)o->collective, (int)o->reduction, o->place);
    area_compare(u, &out, o->dtype, want, count, 0, name);
    area_put(u, &big);
    area_put(u, &small);
}

static void special_put(void *data, enum halay_dtype dtype, size_t i, float x)
{
    if (dtype == HALAY_F32)
        ((float *)data)[i] = x;
    else if (dtype == HALAY_F64)
        ((double *)data)[i] = x;
    else
        ((uint16_t *)data)[i] = dtype == HALAY_F16 ? halay_f32_to_f16(x) : halay_f32_to_bf16(x);
}

/* NaN, infinity and zeros of both signs: the bits are those of the processor. */
static void run_specials(struct user *u, enum halay_reduction reduction)
{
    enum { TYPES = 4, SPECIALS = 7, COUNT = 2 * SPECIALS * SPECIALS };
    static const float specials[SPECIALS] = { 0, -0.0f, NAN, INFINITY, -INFINITY, 1, -2 };
    static const enum halay_dtype dtypes[TYPES] = { HALAY_F32, HALAY_F16, HALAY_BF16, HALAY_F64 };
    struct halay_member members[TYPES] = { 0 };
    double given[TYPES][5][COUNT], want[TYPES][COUNT], got[COUNT];

    for (int t = 0; t < TYPES; t++) {
        const void *src[5];
        for (int r = 0; r < u->size; r++) {
            src[r] = given[t][r];
            for (size_t i = 0; i < COUNT; i++) /* of two ranks each pair, of all alike each */
                special_put(given[t][r], dtypes[t], i, specials[(i + (size_t)r * (i / SPECIALS)) % SPECIALS]);
        }
        halay_reducer_get(0)->reduce[dtypes[t]][reduction](&(void *){ want[t] }, 1, src, u->size, COUNT,
                                                           reduction == HALAY_AVERAGE ? u->size : 1);
        members[t] = (struct halay_member){ .dtype = dtypes[t], .dimensions = 1, .shape = { COUNT } };
        GOOD(cudaMalloc(&members[t].out, sizeof got));
        GOOD(cudaMemcpy(members[t].out, given[t][u->rank], sizeof got, cudaMemcpyHostToDevice));
    }
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "specials",
                                      .reduction = reduction,
                                      .members = members,
                                      .member_count = TYPES,
                                      .member_bytes = sizeof *members,
                                      .memory = HALAY_MEMORY_DEVICES };
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    for (int t = 0; t < TYPES; t++) {
        size_t bytes = COUNT * halay_dtype_size(dtypes[t]);
        GOOD(cudaMemcpy(got, members[t].out, bytes, cudaMemcpyDeviceToHost));
        CHECK(!memcmp(got, want[t], bytes), "reduction %d of special %s", (int)reduction, halay_dtype_name(dtypes[t]));
        GOOD(cudaFree(members[t].out));
    }
}

static void body_specials(struct user *u)
{
    for (int i = 0; i < HALAY_ADASUM; i++)
        if (halay_reduction_takes((enum halay_reduction)i, HALAY_F32))
            run_specials(u, (enum halay_reduction)i);
}

static void specials(void)
{
    users_quiet(1 + (int)(seed_of_run() % 5), body_specials, "", NULL, NULL);
}

/* Broadcasts at once share buckets. */
static void run_fused(struct user *u, int root)
{
    enum { AT_ONCE = 40, COUNT = 20 };
    struct halay_request *requests[AT_ONCE];
    struct area a = area_get(u, DEVICE, AT_ONCE * COUNT * 4);
    struct halay_counters before = { .struct_size = sizeof before }, after = before;
    double want[AT_ONCE * COUNT];
    char name[16];

    CHECK(halay_counters_read(u->ctx, &before) == HALAY_OK);
    area_fill(u, &a, HALAY_F32, AT_ONCE * COUNT, value_of, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    for (int i = 0; i < AT_ONCE; i++) {
        snprintf(name, sizeof name, "b%d", i);
        struct halay_tensor_info info = describe(name, (float *)a.data + i * COUNT, 1);
        info.collective = HALAY_BROADCAST;
        info.memory = HALAY_MEMORY_DEVICES;
        info.shape[0] = COUNT;
        info.root = root;
        requests[i] = submit(u, &info);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK(halay_wait(requests[i], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(requests[i]);
    }
    CHECK(halay_counters_read(u->ctx, &after) == HALAY_OK && after.fused_tensors > before.fused_tensors);
    for (size_t i = 0; i < AT_ONCE * COUNT; i++)
        want[i] = value_of(root, i);
    area_compare(u, &a, HALAY_F32, want, AT_ONCE * COUNT, 0, "broadcasts");
    area_put(u, &a);
}

/* None of their bytes goes to the host, but of an all-gather whose ranks give different numbers of rows. */
static void body_others(struct user *u)
{
    enum { SHAPES = 10, TIMES = 6 };
    struct random shared = { seed_of_run() * 37 + (uint64_t)u->size };
    size_t before = emu_calls ? emu_calls("bytes_from_devices") : 0;
    struct other ragged = other_make(u, &shared, 1);
    const struct other lacking[] = {
        { .collective = HALAY_ALLGATHER, .rows = 3, .width = 9, .element = 4, .lacks = TOO_SMALL },
        { .collective = HALAY_ALLGATHER, .rows = 3, .width = 9, .element = 4, .lacks = NONE },
        { .collective = HALAY_REDUCE_SCATTER, .rows = 33, .width = 1, .element = 4, .lacks = NONE },
    };

    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    for (int i = 0; i < SHAPES; i++) {
        struct other o = other_make(u, &shared, 0);
        for (int k = random_below(&shared, 8) ? 1 : TIMES; k > 0; k--) /* a plan after some */
            run_other(u, &o);
    }
    for (int i = 0; i < 3; i++)
        run_other(u, &lacking[i]);
    if (emu_calls && is_direct_here(u))
        CHECK(emu_calls("bytes_from_devices") == before);
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    run_other(u, &ragged);
    run_fused(u, u->size - 1);
}

/* Groups of several types: one bucket a type, one of them of more members than a launch takes. */
static void body_group(struct user *u)
{
    enum { MEMBERS = 45, TIMES = 6, FEW = 5 };
    static const enum halay_dtype dtypes[MEMBERS] = { HALAY_F32, HALAY_I32, HALAY_F32, HALAY_F64, HALAY_U8 };
    size_t before = emu_calls ? emu_calls("bytes_from_devices") : 0;
    struct halay_member members[MEMBERS] = { 0 };
    struct area in[MEMBERS], out[MEMBERS];
    double want[ROWS_MOST];

    for (int i = 0; i < MEMBERS; i++) {
        in[i] = area_get(u, DEVICE, ROWS_MOST * 8);
        out[i] = i % 2 ? in[i] : area_get(u, OURS, ROWS_MOST * 8);
        members[i] = (struct halay_member){
            .in = in[i].data, .out = out[i].data, .dtype = dtypes[i], .dimensions = 1, .shape = { ROWS_MOST / (i + 1) }
        };
    }
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "group",
                                      .reduction = HALAY_MAX,
                                      .members = members,
                                      .member_count = MEMBERS,
                                      .member_bytes = sizeof *members,
                                      .memory = HALAY_MEMORY_DEVICES };
    for (int time = 0; time < TIMES; time++) {
        for (int i = 0; i < (time ? FEW : MEMBERS); i++)
            area_fill(u, &in[i], dtypes[i], members[i].shape[0], one_more, u->rank);
        user_follow(u, STREAM, &info);
        struct halay_request *request = submit(u, &info);
        CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(request);
        for (size_t i = 0; i < ROWS_MOST; i++)
            want[i] = one_more(u->size - 1, i);
        for (int i = 0; i < (time ? FEW : MEMBERS); i++)
            area_compare(u, &out[i], dtypes[i], want, members[i].shape[0], 0, "of a group");
    }
    if (emu_calls && is_direct_here(u))
        CHECK(emu_calls("bytes_from_devices") == before);
}

static void group(void)
{
    users_quiet(1 + (int)(seed_of_run() % 5), body_group, "", set_segment, NULL);
}

static void others(void)
{
    users_quiet(1 + (int)(seed_of_run() % 5), body_others, "", set_segment, NULL);
}

/* ---- not direct ---- */

static void check_sum(struct user *u, const char *name, int first, int ranks)
{
    struct area a = area_get(u, DEVICE, N * 4);
    double want[N];

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    struct halay_tensor_info info = describe(name, a.data, 1);
    info.memory = HALAY_MEMORY_DEVICES;
    info.after_stream = u->stream;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    for (size_t i = 0; i < N; i++) {
        want[i] = 0;
        for (int r = first; r < first + ranks; r++)
            want[i] += one_more(r, i);
    }
    area_compare(u, &a, HALAY_F32, want, N, 0, name);
    area_put(u, &a);
}

/* The first bucket on devices has no elements; a group has some of one type alone. */
static void body_empty(struct user *u)
{
    static const enum halay_collective collectives[] = { HALAY_BROADCAST, HALAY_ALLGATHER, HALAY_REDUCE_SCATTER,
                                                         HALAY_ALLREDUCE };
    struct halay_member members[2] = { { .dtype = HALAY_F32, .dimensions = 1 },
                                       { .dtype = HALAY_I32, .dimensions = 1 } };
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "group",
                                      .members = members,
                                      .member_count = 2,
                                      .member_bytes = sizeof *members,
                                      .memory = HALAY_MEMORY_DEVICES };

    for (int time = 0; time < 3; time++) {
        for (int i = 0; i < 4; i++)
            run_other(u, &(struct other){ .collective = collectives[(*(int *)u->arg + i) % 4],
                                          .dtype = HALAY_F32,
                                          .width = 1,
                                          .element = 4 });
        struct halay_request *request = submit(u, &info);
        CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(request);
    }
    check_sum(u, "x", 0, u->size);
}

static void empty(void)
{
    for (int first = 0; first < 4; first++)
        users_run(1 + first % 2, body_empty, NULL, &first);
}

/* All-gathers of different numbers of rows are staged, in memory that is kept. */
static void body_ragged(struct user *u)
{
    enum { TIMES = 10 };
    struct other ragged = { .collective = HALAY_ALLGATHER, .rows = 7, .width = 1, .element = 4, .is_ragged = 1 };
    size_t before = 0;

    for (int time = 0; time < TIMES; time++) {
        run_other(u, &ragged);
        CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
        if (time == 1 && emu_calls)
            before = emu_calls("cudaHostRegister");
    }
    if (emu_calls)
        CHECK(emu_calls("cudaHostRegister") == before, "%zu more", emu_calls("cudaHostRegister") - before);
}

/* Own rows that others overwrite are copied to memory that grows, and nothing is freed before the end. */
static void body_outgrown(struct user *u)
{
    struct other o = { .collective = HALAY_ALLGATHER, .width = 1, .element = 4, .place = 2 };
    size_t own = emu_calls("cudaFree");

    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    for (o.rows = 1; o.rows <= ROWS_MOST; o.rows *= 3, own += 2 * (size_t)u->size) /* run_other frees two */
        run_other(u, &o);
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    CHECK(emu_calls("cudaFree") == own, "%zu and %zu", emu_calls("cudaFree"), own);
    if (!u->rank) /* run_other allocates two areas on each rank; rank 0 alone has rows to be copied */
        emu_fail("cudaMalloc", 2 * u->size + 1, cudaErrorMemoryAllocation);
    CHECK(halay_barrier(u->ctx, NULL) == HALAY_OK);
    o.rows = ROWS_MOST - 1;
    o.place = u->rank ? 0 : 2;
    run_other(u, &o);
}

static void outgrown(void)
{
    users_quiet(2, body_outgrown, "", NULL, NULL);
}

static void ragged(void)
{
    users_run(2, body_ragged, NULL, NULL);
}

/* One rank has no memory for a segment: all go through the host, then and later. */
static void body_no_segment(struct user *u)
{
    size_t before = launches();

    check_sum(u, "x", 0, u->size);
    check_sum(u, "x", 0, u->size);
    check_sum(u, "y", 0, u->size);
    CHECK(launches() == before);
}

static void set_large_segment(struct rank_run *run, struct halay_config *config)
{
    if (run->rank == 1)
        config->device_segment = (size_t)1 << 40;
}

static void set_none(struct rank_run *run, struct halay_config *config)
{
    config->device_segment *= run->rank != 1;
}

static void set_deterministic(struct rank_run *run, struct halay_config *config)
{
    config->deterministic = run->rank == 1 ? HALAY_DETERMINISTIC_RANKS : HALAY_DETERMINISTIC_OFF;
}

static void no_segment(void)
{
    struct users users = { .body = body_no_segment };
    struct rank_run run = { .body = users_body, .arg = &users, .expected = "", .configure_rank = set_large_segment };

    ranks_run(3, 0, &run, NULL, NULL);
    run.configure_rank = set_none;
    ranks_run(3, 0, &run, NULL, NULL);
    run.configure_rank = set_deterministic;
    ranks_run(3, 0, &run, NULL, NULL);
}

/* Ranks whose limits for sums in one launch differ take the least. */
static void body_limits(struct user *u)
{
    char text[500];

    check_sum(u, "x", 0, u->size);
    check_sum(u, "x", 0, u->size);
    CHECK(!strcmp(halay_group_explain(u->ctx->all.group, "broadcast", N, HALAY_I8, HALAY_EXPLAIN_DEVICES, text,
                                      sizeof text),
                  "direct"),
          "%s", text);
}

static void set_no_exchange(struct rank_run *run, struct halay_config *config)
{
    config->device_exchange = run->rank == 1 ? 0 : config->device_exchange;
}

static void limits_differ(void)
{
    struct users users = { .body = body_limits };

    ranks_run(2, 0, &(struct rank_run){ .body = users_body, .arg = &users, .configure_rank = set_no_exchange }, NULL,
              NULL);
}

static void set_no_segment(struct halay_config *config, void *arg)
{
    (void)arg;
    config->device_segment = 0;
}

static void fill_ready(struct user *u, struct area *a)
{
    area_fill(u, a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
}

/* Submits the sum of x, which follows nothing. */
static struct halay_request *submit_ready(struct user *u, struct area *a)
{
    struct halay_tensor_info info = describe("x", a->data, 1);

    info.memory = HALAY_MEMORY_DEVICES;
    return submit(u, &info);
}

static void check_ready(struct user *u, struct area *a, enum halay_status want)
{
    fill_ready(u, a);
    struct halay_request *request = submit_ready(u, a);
    CHECK(halay_wait(request, WAIT_MS) == want, "%s", halay_error_text());
    halay_request_free(request);
}

/* A segment that other processes cannot have is no error, nor is a word that a stream cannot write. */
static void body_denied(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);

    emu_fail(u->arg, 1, cudaErrorNotPermitted);
    check_ready(u, &a, HALAY_OK);
    check_ready(u, &a, HALAY_OK);
}

/* What cannot be recorded ends all the same. */
static void body_unrecorded(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);

    check_ready(u, &a, HALAY_OK);
    emu_fail("cudaEventRecord", 0, cudaErrorMemoryAllocation);
    check_ready(u, &a, HALAY_ERR_NO_MEMORY);
}

static void denied(void)
{
    users_run(1, body_denied, NULL, "cudaIpcGetMemHandle");
    users_run(1, body_denied, NULL, "cuStreamWriteValue32");
}

static void unrecorded(void)
{
    users_quiet(1, body_unrecorded, "", NULL, NULL);
}

/* A device that has no time for the engine's segment yet has one all the same. */
static void body_busy(struct user *u)
{
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4);

    fill_ready(u, &a);
    block(u->stream, word); /* and with it the only queue of the device */
    struct halay_request *request = submit_ready(u, &a);
    usleep(2500000);
    *word = 1;
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK && launches(), "%s", halay_error_text());
    halay_request_free(request);
}

static void busy(void)
{
    setenv("EMU_QUEUES", "1", 1);
    users_run(1, body_busy, NULL, NULL);
}

/* A request that has ended with an error is no result that a stream may follow. */
static void body_ended(struct user *u)
{
    static _Atomic int ready;
    _Atomic uint32_t *word = word_get();
    struct area a = area_get(u, DEVICE, N * 4);

    check_ready(u, &a, HALAY_OK);
    fill_ready(u, &a);
    if (!u->rank)
        block(u->stream, word); /* and with it the only queue of the device */
    struct halay_request *request = submit_ready(u, &a);
    while (!u->rank && halay_wait_stream(request, 0, u->stream) != HALAY_OK)
        sched_yield();
    if (!u->rank)
        CHECK(halay_abort(u->ctx, "enough") == HALAY_OK);
    while (!u->rank && !halay_direct_has_failed(u->ctx))
        usleep(1000);
    *word = 1;
    enum halay_status status = halay_wait(request, WAIT_MS);
    /* the other may have its sum, or have heard of the end before it launched one */
    CHECK((u->rank || status != HALAY_OK) && halay_wait_stream(request, 0, u->stream) == status, "%s",
          halay_status_string(status));
    halay_request_free(request);
    for (ready++; ready < u->size;)
        usleep(1000);
}

static void ended(void)
{
    setenv("EMU_QUEUES", "1", 1);
    users_quiet(2, body_ended, "", NULL, NULL);
}

/* Without segments the data of a rank may be on several devices. */
static void body_devices(struct user *u)
{
    struct area first = area_get(u, DEVICE, N * 4);
    struct halay_request *requests[2];

    GOOD(cudaSetDevice(1 - u->device));
    struct area second = area_get(u, DEVICE, N * 4);
    GOOD(cudaSetDevice(u->device));
    for (int i = 0; i < 2; i++) {
        struct halay_tensor_info info = describe(i ? "y" : "x", i ? second.data : first.data, 1);
        info.memory = HALAY_MEMORY_DEVICES;
        requests[i] = submit(u, &info);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(halay_wait(requests[i], WAIT_MS) == HALAY_OK, "%s", halay_error_text());
        halay_request_free(requests[i]);
    }
}

static void switched_off(void)
{
    users_quiet(2, body_no_segment, "", set_no_segment, NULL);
    if (getenv("EMU_DEVICES") && atoi(getenv("EMU_DEVICES")) == 2)
        users_run(2, body_devices, set_no_segment, NULL);
}

/* The last rank has no more data. */
static void body_joined(struct user *u)
{
    struct halay_request *join;

    check_sum(u, "x", 0, u->size);
    if (u->rank < u->size - 1)
        check_sum(u, "x", 0, u->size - 1);
    REQUIRE(halay_join_async(u->ctx, &join) == HALAY_OK);
    CHECK(halay_wait(join, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(join);
    check_sum(u, "x", 0, u->size);
}

static void joined(void)
{
    users_quiet(3, body_joined, "", NULL, NULL);
}

/* What is on devices of a process set comes to the host, whatever the devices of all ranks reduce meanwhile. */
static void body_beside(struct user *u)
{
    enum { TIMES = 5 };
    static const int ranks[] = { 0, 1, 2 };
    struct area a = area_get(u, DEVICE, N * 4), b = area_get(u, DEVICE, N * 4);
    struct halay_process_set *set;

    REQUIRE(halay_process_set_create(u->ctx, ranks, 3, &set) == HALAY_OK);
    for (int i = 0; i < TIMES; i++) {
        struct halay_tensor_info of_all = describe("x", a.data, 1), of_set = describe("x", b.data, 1);
        of_all.memory = of_set.memory = HALAY_MEMORY_DEVICES;
        of_set.set = set;
        area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
        area_fill(u, &b, HALAY_F32, N, one_more, u->rank);
        user_follow(u, STREAM, &of_all);
        user_follow(u, STREAM, &of_set);
        struct halay_request *first = submit(u, &of_all), *second = submit(u, &of_set);
        CHECK(halay_wait(first, WAIT_MS) == HALAY_OK && halay_wait(second, WAIT_MS) == HALAY_OK, "%s",
              halay_error_text());
        halay_request_free(first);
        halay_request_free(second);
        compare_sum(u, &a);
        compare_sum(u, &b);
    }
    area_put(u, &a);
    area_put(u, &b);
}

static void beside(void)
{
    users_quiet(3, body_beside, "", NULL, NULL);
}

/* Ranks that say different things are told so; what is not on a device is refused. */
static void body_differs(struct user *u)
{
    struct area a = area_get(u, DEVICE, N * 4);
    float host[N] = { 0 };

    area_fill(u, &a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    struct halay_tensor_info info = describe("x", a.data, 1);
    info.memory = u->rank ? HALAY_MEMORY_DEVICES : HALAY_MEMORY_DEVICE;
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_ERR_MISMATCH, "%s", halay_error_text());
    CHECK(strstr(halay_error_text(), "on devices of all ranks"), "'%s'", halay_error_text());
    halay_request_free(request);
    info.memory = HALAY_MEMORY_DEVICES;
    info.in = host;
    refused(u, &info, HALAY_ERR_ARGUMENT, "its in is in host memory");
    GOOD(cudaSetDevice(1 - u->device));
    struct area other = area_get(u, DEVICE, N * 4);
    GOOD(cudaSetDevice(u->device));
    check_sum(u, "x", 0, u->size);
    info.in = info.out = other.data;
    refused(u, &info, HALAY_ERR_ARGUMENT, "they must be on one");
}

static void differs(void)
{
    users_quiet(2, body_differs, "", NULL, NULL);
}

/* ---- given up ---- */

/* When requests have ended nothing of the engine's touches their data, whatever was launched. */
static void body_given_up(struct user *u)
{
    struct random own = { seed_of_run() + (uint64_t)u->rank };
    struct area a = area_get(u, DEVICE, COUNT_MOST * 4);
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < 50 && status == HALAY_OK; i++) {
        struct halay_request *request = NULL;
        status = submit_filled(u, &a, COUNT_MOST, one_more, &request);
        if (i == 3 && u->rank == 0) {
            usleep((useconds_t)random_below(&own, 500));
            CHECK(halay_abort(u->ctx, "enough") == HALAY_OK);
        }
        if (status == HALAY_OK)
            status = halay_wait(request, WAIT_MS);
        halay_request_free(request);
    }
    CHECK(status == (u->rank ? HALAY_ERR_PEER : HALAY_ERR_CANCELED), "%s", halay_error_text());
    GOOD(cudaMemsetAsync(a.data, 0, a.bytes, u->stream));
}

static void given_up(void)
{
    users_quiet(2, body_given_up, "", set_segment, NULL);
}

/* A launch fails after another one of its turn: the request ends once nothing works on its data. */
static void body_half(struct user *u)
{
    struct area a = area_get(u, DEVICE, COUNT_MOST * 4);
    struct halay_tensor_info info = describe("x", a.data, 1);

    area_fill(u, &a, HALAY_F32, COUNT_MOST, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    info.shape[0] = COUNT_MOST;
    info.memory = HALAY_MEMORY_DEVICES;
    emu_fail("cudaLaunchKernelEx", 6, cudaErrorIllegalAddress); /* pack; reduce, pack; reduce, unpack, pack */
    struct halay_request *request = submit(u, &info);
    CHECK(halay_wait(request, WAIT_MS) == HALAY_ERR_SYSTEM, "%s", halay_error_text());
    halay_request_free(request);
    GOOD(cudaMemsetAsync(a.data, 0, a.bytes, u->stream));
}

static void half_launched(void)
{
    users_quiet(1, body_half, "", set_segment, NULL);
}

/* ---- a late rank ---- */

/* Returns nonzero once the engine has hardly looked around for a tenth of a second, in which it would nap 100 times. */
static int has_slept(struct user *u, struct halay_request *request)
{
    enum { WINDOW_MS = 100, WINDOWS = 100, STEPS_MAX = 20 };
    struct halay_counters before = { .struct_size = sizeof before }, after = before;

    for (int i = 0; i < WINDOWS; i++) {
        CHECK(halay_counters_read(u->ctx, &before) == HALAY_OK);
        if (!CHECK(halay_wait(request, WINDOW_MS) == HALAY_ERR_TIMEOUT, "the other rank does not take part"))
            return 0;
        CHECK(halay_counters_read(u->ctx, &after) == HALAY_OK);
        if (after.steps - before.steps <= STEPS_MAX)
            return 1;
    }
    return 0;
}

/* A tensor that rank 1 has announced, before its engine is held up in the callback of another one. */
struct late {
    struct gate *gate;
    struct area a;
    struct halay_tensor_info info;
    struct halay_request *request, *host; /* request: NULL on rank 0, which has not submitted it */
    float data[N];
};

static struct late *late_open(struct user *u)
{
    struct late *l = calloc(1, sizeof *l);

    REQUIRE(l);
    *l = (struct late){ .gate = u->arg, .a = area_get(u, DEVICE, N * 4) };
    for (int half = 0; half < 2; half++) /* of the segments: both have old data then */
        check_sum(u, "x", 0, u->size);
    area_fill(u, &l->a, HALAY_F32, N, one_more, u->rank);
    GOOD(cudaStreamSynchronize(u->stream));
    struct halay_tensor_info other = describe("host", l->data, 0);
    l->info = describe("late", l->a.data, 1);
    l->info.memory = HALAY_MEMORY_DEVICES;
    if (u->rank)
        l->request = submit(u, &l->info);
    REQUIRE(halay_submit_named(u->ctx, &other, u->rank ? stay : NULL, l->gate, &l->host) == HALAY_OK);
    if (!u->rank)
        CHECK(halay_wait(l->host, WAIT_MS) == HALAY_OK);
    while (!atomic_load(&l->gate->is_closed))
        sched_yield();
    return l;
}

static void late_close(struct late *l)
{
    halay_request_free(l->request);
    halay_request_free(l->host);
    free(l);
}

/* What rank 0 waits for rings, and no device works. */
static void body_late_rank(struct user *u)
{
    struct late *l = late_open(u);

    if (!u->rank) {
        l->request = submit(u, &l->info);
        CHECK(has_slept(u, l->request), "rank 0 polls while it waits for rank 1");
        atomic_store(&l->gate->is_open, 1);
    }
    CHECK(halay_wait(l->request, WAIT_MS) == HALAY_OK && halay_wait(l->host, WAIT_MS) == HALAY_OK, "%s",
          halay_error_text());
    compare_sum(u, &l->a);
    late_close(l);
}

static void set_no_spin(struct halay_config *config, void *arg)
{
    (void)arg;
    config->spin_us = 0;
    config->device_exchange = 0; /* its kernel would wait for the rank */
}

static void late_rank(void)
{
    struct gate gate = { 0 };

    users_run(2, body_late_rank, set_no_spin, &gate);
}

/* Rank 0's kernel waits for that of rank 1, which dies before it launches one: the wait ends, and so does the request,
 * with an error and without a sum of what the segments had before. */
static void body_lost(struct rank_run *run)
{
    struct user user = { .ctx = run->ctx, .arg = run->arg }, *u = &user;
    double own[N];

    user_open(u);
    struct late *l = late_open(u);
    if (!u->rank) {
        size_t before = launches();
        l->request = submit(u, &l->info);
        while (launches() == before)
            usleep(100);
        CHECK(halay_wait(l->request, 20) == HALAY_ERR_TIMEOUT);
        halay_fake_hub_kill(run->hub, 1);
    }
    enum halay_status status = halay_wait(l->request, u->rank ? 0 : WAIT_MS);
    CHECK(u->rank || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    for (size_t i = 0; i < N; i++)
        own[i] = one_more(u->rank, i);
    if (!u->rank)
        area_compare(u, &l->a, HALAY_F32, own, N, 0, "what was not summed");
    atomic_store(&l->gate->is_open, !u->rank || atomic_load(&l->gate->is_open));
    late_close(l);
    user_close(u);
}

static void lost(void)
{
    struct gate gate = { 0 };

    ranks_run(2, 0, &(struct rank_run){ .body = body_lost, .arg = &gate, .expected = "" }, NULL, NULL);
}

/* ---- ranks that are processes ---- */

/* Returns another number for each seed, order and number of devices beside each other. */
static uint64_t number_of_run(void)
{
    const char *order = getenv("EMU_ORDER"), *devices = getenv("EMU_DEVICES");

    return seed_of_run() + (order ? strtoull(order, NULL, 10) : 0) + (devices ? strtoull(devices, NULL, 10) : 0);
}

/* Until the others notice. Of a broadcast the root dies. */
static void body_die(struct user *u)
{
    static const enum halay_collective collectives[] = { HALAY_ALLREDUCE, HALAY_BROADCAST, HALAY_ALLGATHER,
                                                         HALAY_REDUCE_SCATTER };
    struct random own = { seed_of_run() };
    size_t last = random_below(&own, 2) ? 0 : random_below(&own, 10), moment_us = random_below(&own, 2000);
    struct area a = area_get(u, DEVICE, COUNT_MOST * 4), all = area_get(u, DEVICE, (size_t)u->size * COUNT_MOST * 4);
    enum halay_status status = HALAY_OK;

    use_both(u->ctx);
    for (size_t step = 0; status == HALAY_OK; step++) {
        struct halay_request *request = NULL;
        struct halay_tensor_info info = describe("x", a.data, 1);
        info.collective = collectives[number_of_run() % 4];
        info.root = info.collective == HALAY_BROADCAST;
        info.shape[0] = COUNT_MOST;
        info.memory = HALAY_MEMORY_DEVICES;
        if (info.collective == HALAY_ALLGATHER || info.collective == HALAY_REDUCE_SCATTER) {
            info.in = a.data;
            info.out = all.data;
            info.out_bytes = info.collective == HALAY_ALLGATHER ? all.bytes : 0;
        }
        area_fill(u, &a, HALAY_F32, COUNT_MOST, one_more, u->rank);
        user_follow(u, STREAM, &info);
        status = halay_submit_named(u->ctx, &info, NULL, NULL, &request);
        if (u->rank == 1 && step == last) {
            usleep((useconds_t)moment_us);
            raise(SIGKILL);
        }
        if (status == HALAY_OK)
            status = halay_wait_stream(request, WAIT_MS, u->stream);
        halay_request_free(request);
    }
    CHECK(status == HALAY_ERR_PEER && strstr(halay_error_text(), "rank 1"), "%s: '%s'", halay_status_string(status),
          halay_error_text());
}

static int run_rank(const char *what)
{
    int dies = !strcmp(what, "die");
    struct halay_options options = { .struct_size = sizeof options, .log = dies ? drop_line : NULL };
    struct user u = { 0 };

    REQUIRE(halay_init(&options, &u.ctx) == HALAY_OK);
    user_open(&u);
    dies ? body_die(&u) : body_sums(&u);
    user_close(&u);
    halay_fini(u.ctx);
    return test_end();
}

/* Under halayrun --min-np: the last rank is killed, and the others and a new one go on, by new segments. */
static int run_elastic(void)
{
    enum { STEPS_MOST = 20, LAST_OF_ONE = 5 };
    struct halay_elastic_change change = { .struct_size = sizeof change };
    struct user u = { 0 };
    int64_t step = 0;

    REQUIRE(halay_init(NULL, &u.ctx) == HALAY_OK);
    user_open(&u);
    struct area a = area_get(&u, DEVICE, N * 4);
    struct halay_tensor_info info = describe("gradient", a.data, 1);
    info.memory = HALAY_MEMORY_DEVICES;
    info.after_stream = u.stream;
    REQUIRE(halay_elastic_add(u.ctx, &step, sizeof step) == HALAY_OK);
    REQUIRE(halay_elastic_begin(u.ctx, &change) == HALAY_OK);
    int is_old = step == 0;
    if (is_old) { /* by the segments, also if sums are NCCL's */
        area_fill(&u, &a, HALAY_F32, N, one_more, halay_rank(u.ctx));
        struct halay_tensor_info largest = info;
        largest.reduction = HALAY_MAX;
        struct halay_request *request = submit(&u, &largest);
        REQUIRE(halay_wait(request, WAIT_MS) == HALAY_OK);
        halay_request_free(request);
    }
    size_t before = launches();
    while (step < STEPS_MOST) {
        struct halay_request *request = NULL;
        u.rank = halay_rank(u.ctx);
        u.size = halay_size(u.ctx);
        area_fill(&u, &a, HALAY_F32, N, one_more, u.rank);
        enum halay_status status = halay_submit_named(u.ctx, &info, NULL, NULL, &request);
        if (status == HALAY_OK)
            status = halay_wait(request, WAIT_MS);
        halay_request_free(request);
        if (status == HALAY_OK)
            compare_sum(&u, &a);
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
    CHECK(!getenv("HALAY_DEVICE_ALGORITHM") || launches() == before, "NCCL was not used");
    user_close(&u);
    halay_fini(u.ctx);
    return test_end();
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return strcmp(argv[1], "elastic") ? run_rank(argv[1]) : run_elastic();
    if (argc == 4)
        return spawn_ranks(atoi(argv[2]), argv[3], run_rank);
    apart("sums", sums);
    apart("others", others);
    apart("specials", specials);
    apart("group", group);
    apart("empty", empty);
    apart("ragged", ragged);
    apart("no segment", no_segment);
    apart("switched off", switched_off);
    apart("limits differ", limits_differ);
    apart("joined", joined);
    apart("beside", beside);
    apart("given up", given_up);
    if (emu_calls)
        apart("outgrown", outgrown);
    if (emu_calls)
        apart("denied", denied);
    if (emu_calls)
        apart("unrecorded", unrecorded);
    if (emu_calls && getenv("EMU_ORDER") && atoi(getenv("EMU_ORDER")) == 1) /* it takes seconds */
        apart("busy", busy);
    if (emu_calls && getenv("EMU_DEVICES") && atoi(getenv("EMU_DEVICES")) == 2 && !getenv("EMU_PEERS"))
        apart("ended", ended);
    if (emu_calls)
        apart("half launched", half_launched);
    if (!getenv("EMU_PEERS"))
        apart("late rank", late_rank);
    if (emu_calls && !getenv("EMU_PEERS"))
        apart("lost", lost);
    if (getenv("EMU_DEVICES") && atoi(getenv("EMU_DEVICES")) == 2)
        apart("differs", differs);
    return test_end();
}
