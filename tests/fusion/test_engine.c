/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine over the fake transport: operations, completion, names, mismatches and their texts, leaving, dying,
 * stalls, idleness. Random programs are in test_programs.c.
 */
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/engine/driver.h"
#include "halay_tools.h"
#include "tests/fusion/ranks.h"
#include <math.h>
#include <unistd.h>

static void fill_floats(float *data, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((i * 7 + (size_t)rank * 3) % 19);
}

static int is_sum(const float *data, size_t count, int size)
{
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int r = 0; r < size; r++)
            want += (float)((i * 7 + (size_t)r * 3) % 19);
        if (data[i] != want)
            return 0;
    }
    return 1;
}

static struct halay_tensor_info float_info(const char *name, float *out, size_t count)
{
    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = name,
                                       .dtype = HALAY_F32,
                                       .dimensions = 1,
                                       .shape = { count },
                                       .out = out };
}

/* ---- operations ---- */

static void count_call(void *arg, enum halay_status status, const char *text)
{
    atomic_fetch_add((_Atomic int *)arg, status == HALAY_OK && !*text ? 1 : 1000);
}

enum { BASIC_COUNT = 1000 };

/* Adasum: orthogonal vectors are added, equal ones are unchanged; each tensor by itself, fused or not. */
static void check_adasum(struct rank_run *run)
{
    struct halay_request *request, *second;
    float a[BASIC_COUNT], b[BASIC_COUNT];

    for (int i = 0; i < BASIC_COUNT; i++) {
        a[i] = i == run->rank ? 3 : 0;
        b[i] = (float)i;
    }
    CHECK(halay_allreduce_async(run->ctx, "adasum", NULL, a, BASIC_COUNT, HALAY_F32, HALAY_ADASUM, &request) ==
          HALAY_OK);
    CHECK(halay_allreduce_async(run->ctx, "adasum 2", NULL, b, BASIC_COUNT, HALAY_F32, HALAY_ADASUM, &second) ==
          HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK && halay_wait(second, -1) == HALAY_OK);
    halay_request_free(request);
    halay_request_free(second);
    for (int i = 0; i < BASIC_COUNT; i++)
        if (a[i] != (i < run->size ? 3 : 0) || b[i] != (float)i) {
            CHECK(0, "adasum: %d", i);
            break;
        }
}

static void check_registered(struct rank_run *run)
{
    struct halay_request *request;
    struct halay_tensor *tensor;
    _Atomic int calls = 0;
    float *shared;

    REQUIRE(halay_alloc(run->ctx, BASIC_COUNT * sizeof *shared, (void **)&shared) == HALAY_OK);
    struct halay_tensor_info info = float_info("registered", shared, BASIC_COUNT);
    CHECK(halay_register(run->ctx, &info, &tensor) == HALAY_OK);
    for (int step = 0; step < 20; step++) {
        fill_floats(shared, BASIC_COUNT, run->rank);
        CHECK(halay_submit(tensor, count_call, &calls, step % 2 ? &request : NULL) == HALAY_OK);
        if (step % 2) {
            CHECK(halay_wait(request, -1) == HALAY_OK);
            halay_request_free(request);
        }
        while (calls != step + 1)
            sched_yield();
        CHECK(is_sum(shared, BASIC_COUNT, run->size));
    }
    CHECK(halay_unregister(tensor) == HALAY_OK);
    halay_free(run->ctx, shared);
}

static void body_basics(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[BASIC_COUNT], b[BASIC_COUNT];
    struct halay_request *request, *second;

    CHECK(halay_rank(ctx) == run->rank && halay_size(ctx) == run->size && halay_local_rank(ctx) == run->rank &&
          halay_local_size(ctx) == run->size && halay_cross_rank(ctx) == 0 && halay_cross_size(ctx) == 1 &&
          halay_is_homogeneous(ctx));
    CHECK(halay_context_status(ctx, NULL, 0) == HALAY_OK);

    fill_floats(a, BASIC_COUNT, run->rank);
    CHECK(halay_allreduce(ctx, "blocking", NULL, a, BASIC_COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK);
    CHECK(is_sum(a, BASIC_COUNT, run->size));

    fill_floats(a, BASIC_COUNT, run->rank);
    CHECK(halay_allreduce_async(ctx, "async", a, b, BASIC_COUNT, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "async 2", NULL, b, 0, HALAY_F32, HALAY_SUM, &second) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK && halay_wait(second, -1) == HALAY_OK);
    CHECK(halay_test(request) == HALAY_OK && !*halay_request_text(request));
    CHECK(is_sum(b, BASIC_COUNT, run->size));
    halay_request_free(request);
    halay_request_free(second);

    check_adasum(run);

    b[0] = (float)run->rank;
    CHECK(halay_broadcast(ctx, "broadcast", b, 1, HALAY_F32, run->size - 1) == HALAY_OK);
    CHECK(b[0] == (float)(run->size - 1));

    check_registered(run);

    /* completed by halay_test only: the background thread drives */
    fill_floats(a, BASIC_COUNT, run->rank);
    CHECK(halay_allreduce_async(ctx, "polled", NULL, a, BASIC_COUNT, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    while (halay_test(request) == HALAY_IN_PROGRESS)
        sched_yield();
    CHECK(halay_test(request) == HALAY_OK && is_sum(a, BASIC_COUNT, run->size));
    halay_request_free(request);
}

/* ---- scale factors ---- */

/* One element of each type, the same on every rank: the results of prescaling, maximum and postscaling. */
struct scaling {
    enum halay_dtype dtype;
    double prescale, postscale;
    union {
        float f32;
        double f64;
        uint16_t half;
        int32_t i32;
        int64_t i64;
        int16_t i16;
        uint16_t u16;
        int8_t i8;
        uint8_t u8;
    } in, want;
};

static const struct scaling scalings[] = {
    { HALAY_F32, 0.5, 0, { .f32 = 3 }, { .f32 = 1.5f } },
    { HALAY_F32, 0, 1.0 / 3, { .f32 = 5 }, { .f32 = 5 * (1 / 3.0f) } },
    { HALAY_F32, 0.25, 4, { .f32 = 3e38f }, { .f32 = 3e38f } },
    { HALAY_F64, 1.0 / 3, 3, { .f64 = 0.1 }, { .f64 = 0.1 * (1.0 / 3) * 3 } },
    { HALAY_F16, 0.5, 0, { .half = 0x4200 }, { .half = 0x3e00 } },     /* 3, 1.5 */
    { HALAY_F16, 1, 1.0 / 3, { .half = 0x3c00 }, { .half = 0x3555 } }, /* rounded to nearest */
    { HALAY_F16, 4, 0.25, { .half = 0x7bff }, { .half = 0x7c00 } },    /* 65504: the intermediate value is too large */
    { HALAY_BF16, 1.0 / 3, 0, { .half = 0x3f80 }, { .half = 0x3eab } },
    { HALAY_I32, 0.5, 0, { .i32 = -7 }, { .i32 = -3 } }, /* truncated after each scaling */
    { HALAY_I32, 0.5, 2, { .i32 = 7 }, { .i32 = 6 } },
    { HALAY_I32, 2, 0, { .i32 = 2000000000 }, { .i32 = INT32_MAX } },
    { HALAY_I64, 1e10, 0, { .i64 = -3000000000 }, { .i64 = INT64_MIN } },
    { HALAY_I64, 0, 1e19, { .i64 = 1 }, { .i64 = INT64_MAX } },
    { HALAY_I64, -1, 0, { .i64 = 1000000007 }, { .i64 = -1000000007 } },
    { HALAY_I16, 1.5, 0, { .i16 = 101 }, { .i16 = 151 } },
    { HALAY_U16, 10, 0, { .u16 = 7000 }, { .u16 = 65535 } },
    { HALAY_I8, 1.5, 0, { .i8 = -100 }, { .i8 = -128 } },
    { HALAY_U8, -1, 0, { .u8 = 9 }, { .u8 = 0 } },
};

static void body_scaling(struct rank_run *run)
{
    enum { MANY = 1500 }; /* more than halves are widened at a time */
    unsigned char in[MANY * 8], out[MANY * 8];
    struct halay_request *requests[2];

    for (const struct scaling *c = scalings; c < scalings + sizeof scalings / sizeof *scalings; c++) {
        size_t element = halay_dtype_size(c->dtype);
        /* alone, then with another tensor in one bucket; in place and out of place */
        for (int k = 0; k < 4; k++) {
            unsigned char *from = k & 1 ? in : out;
            for (size_t i = 0; i < MANY; i++)
                memcpy(from + i * element, &c->in, element);
            struct halay_tensor_info info = { .struct_size = sizeof info,
                                              .name = "scaled",
                                              .dtype = c->dtype,
                                              .dimensions = 1,
                                              .shape = { MANY },
                                              .in = from,
                                              .out = out,
                                              .reduction = HALAY_MAX,
                                              .prescale = c->prescale,
                                              .postscale = c->postscale };
            unsigned char beside[8] = { 0 };
            struct halay_tensor_info other = { .struct_size = sizeof info,
                                               .name = "beside",
                                               .dtype = c->dtype,
                                               .dimensions = 1,
                                               .shape = { 1 },
                                               .out = beside,
                                               .reduction = HALAY_MAX };
            CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &requests[0]) == HALAY_OK);
            if (k & 2)
                CHECK(halay_submit_named(run->ctx, &other, NULL, NULL, &requests[1]) == HALAY_OK);
            for (int i = 0; i <= k >> 1; i++) {
                CHECK(halay_wait(requests[i], -1) == HALAY_OK);
                halay_request_free(requests[i]);
            }
            size_t right = 0;
            for (size_t i = 0; i < MANY; i++)
                right += !memcmp(out + i * element, &c->want, element);
            CHECK(right == MANY, "case %d, %s, %g, %g: %zu of %d are right", (int)(c - scalings),
                  halay_dtype_name(c->dtype), c->prescale, c->postscale, right, MANY);
            CHECK(beside[0] == 0 && !memcmp(beside, beside + 1, 7));
        }
    }
}

/* ---- arguments ---- */

/* Checks the arguments of a call by name. */
static void check_call_arguments(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    char longest[HALAY_NAME_MAX + 2];
    float a[4] = { 0 };

    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    CHECK(halay_allreduce(ctx, longest, NULL, a, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    longest[HALAY_NAME_MAX] = 0;
    CHECK(halay_allreduce(ctx, longest, NULL, a, 4, HALAY_F32, HALAY_SUM) == HALAY_OK);
    CHECK(halay_allreduce(ctx, "", NULL, a, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(halay_allreduce(ctx, "a\xff", NULL, a, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(halay_allreduce(ctx, "a\n", NULL, a, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(halay_allreduce(ctx,
                          "gr\xc3\xb6\xc3\x9f"
                          "e",
                          NULL, a, 4, HALAY_F32, HALAY_SUM) == HALAY_OK);
    CHECK(halay_allreduce(ctx, "i", NULL, a, 4, HALAY_I32, HALAY_AVERAGE) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_allreduce(ctx, "i", NULL, a, 4, (enum halay_dtype)77, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(halay_allreduce(ctx, "i", NULL, a, 4, HALAY_F32, (enum halay_reduction)77) == HALAY_ERR_ARGUMENT);
    CHECK(halay_allreduce(ctx, "i", NULL, NULL, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(halay_allreduce(ctx, "i", NULL, a, (size_t)-1, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT);
    CHECK(halay_broadcast(ctx, "i", a, 4, HALAY_F32, run->size) == HALAY_ERR_ARGUMENT);
    CHECK(halay_broadcast(ctx, "i", a, 4, HALAY_F32, -1) == HALAY_ERR_ARGUMENT);
}

/* Checks the fields of a tensor's description. */
static void check_info_arguments(struct halay_context *ctx)
{
    float a[4] = { 0 };
    struct halay_request *request;
    struct halay_tensor *tensor;
    struct halay_tensor_info info = float_info("w", a, 4);
    _Alignas(struct halay_tensor_info) unsigned char newer[sizeof info + 8];

    memset(newer, 1, sizeof newer);
    info.prescale = (double)INFINITY;
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
    info.prescale = 2;
    info.dtype = HALAY_BOOL;
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT, "bool has no scale");
    info = float_info("w", a, 4);
    info.struct_size = 8;
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
    info.struct_size = sizeof info + 8;
    CHECK(halay_register(ctx, (void *)memcpy(newer, &info, sizeof info), &tensor) == HALAY_ERR_ARGUMENT,
          "of a newer version");
    memset(newer + sizeof info, 0, 8);
    CHECK(halay_register(ctx, (void *)newer, &tensor) == HALAY_OK && halay_unregister(tensor) == HALAY_OK);
    CHECK(halay_submit_named(ctx, NULL, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
    info = float_info("w", a, 4);
    info.dimensions = HALAY_DIMENSIONS_MAX + 1;
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT);
    info = float_info("w", a, 4);
    CHECK(halay_submit_named(ctx, &info, NULL, NULL, NULL) == HALAY_ERR_ARGUMENT, "no one would be notified of it");
}

static void body_arguments(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[4] = { 0 }, b[4] = { 0 };
    struct halay_request *request, *second;
    struct halay_tensor *tensor, *other;
    struct halay_tensor_info info = float_info("w", a, 4);

    check_call_arguments(run);
    check_info_arguments(ctx);
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_OK);
    CHECK(halay_register(ctx, &info, &other) == HALAY_ERR_DUPLICATE);
    info.shape[0] = 3;
    CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "registered as another");
    if (run->rank == 0 && run->size > 1) { /* only this rank submits it, so it stays in flight until the others do */
        CHECK(halay_submit(tensor, NULL, NULL, &request) == HALAY_OK);
        CHECK(halay_submit(tensor, NULL, NULL, &second) == HALAY_ERR_DUPLICATE);
        CHECK(halay_allreduce_async(ctx, "w", NULL, a, 4, HALAY_F32, HALAY_SUM, &second) == HALAY_ERR_DUPLICATE);
        CHECK(halay_unregister(tensor) == HALAY_ERR_ARGUMENT);
        CHECK(halay_wait(request, 1) == HALAY_ERR_TIMEOUT);
        CHECK(!*halay_request_text(request));
    }
    CHECK(halay_allreduce(ctx, "turn", NULL, b, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    if (run->rank != 0 || run->size == 1)
        CHECK(halay_submit(tensor, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK);
    halay_request_free(request);
    CHECK(halay_unregister(tensor) == HALAY_OK && halay_unregister(NULL) == HALAY_OK);
    halay_request_free(NULL);
    halay_free(ctx, NULL);
}

/* One rank's buffers are wrong: only that rank gets an error, before the others take part, and no later tensor is
 * affected. */
static void body_buffers(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[40], b[8];
    int odd = run->size > 1;
    struct halay_request *request = NULL;
    struct halay_tensor *tensor;
    struct halay_tensor_info info = float_info("m", a, 8);

    if (run->rank == odd) {
        info.out = (char *)a + 1;
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "misaligned out");
        CHECK(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT, "misaligned out");
        CHECK(halay_broadcast(ctx, "m", (char *)a + 2, 8, HALAY_F32, 0) == HALAY_ERR_ARGUMENT, "misaligned data");
        CHECK(halay_allreduce(ctx, "m", (char *)b + 1, a, 7, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT,
              "misaligned in");
        CHECK(halay_allreduce(ctx, "m", a + 7, a, 8, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT, "overlap");
        CHECK(halay_allreduce(ctx, "m", a, a + 7, 8, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT, "overlap");
    } else {
        fill_floats(b, 8, run->rank);
        CHECK(halay_allreduce_async(ctx, "m", NULL, b, 8, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    }
    fill_floats(a, 32, run->rank);
    CHECK(halay_allreduce(ctx, "next", NULL, a, 32, HALAY_F32, HALAY_SUM) == HALAY_OK && is_sum(a, 32, run->size));
    if (run->rank == odd) {
        fill_floats(a, 8, run->rank); /* adjacent buffers do not overlap */
        CHECK(halay_allreduce_async(ctx, "m", a, a + 8, 8, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    }
    CHECK(halay_wait(request, -1) == HALAY_OK && is_sum(run->rank == odd ? a + 8 : b, 8, run->size));
    halay_request_free(request);
    CHECK(halay_allreduce(ctx, "none", (char *)a + 1, (char *)a + 2, 0, HALAY_F32, HALAY_SUM) == HALAY_OK, "empty");
}

/* ---- mismatches ---- */

struct difference {
    const char *text;
    struct halay_tensor_info info[2]; /* the values of the other ranks, and of the odd one */
};

/* round: 0 with a new name, 1 after the ranks had agreed on it. data: the memory of the infos. */
static void check_kind(struct rank_run *run, const struct difference *kind, int round, float data[64])
{
    struct halay_request *request, *other;
    int odd = run->size - 1;
    char want[200];

    for (size_t i = 0; i < 64; i++)
        data[i] = (float)run->rank;
    CHECK(halay_submit_named(run->ctx, &kind->info[run->rank == odd], NULL, NULL, &request) == HALAY_OK);
    float unharmed = 1;
    CHECK(halay_allreduce_async(run->ctx, "other", NULL, &unharmed, 1, HALAY_F32, HALAY_SUM, &other) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_ERR_MISMATCH, "%s", kind->text);
    snprintf(want, sizeof want, kind->text, odd);
    CHECK(!strcmp(halay_request_text(request), want), "'%s', not '%s'", halay_request_text(request), want);
    CHECK(halay_wait(other, -1) == HALAY_OK && unharmed == (float)run->size, "the engine still works");
    for (size_t i = 0; i < 64; i++)
        CHECK(data[i] == (float)run->rank, "data were touched");
    halay_request_free(request);
    halay_request_free(other);
    struct halay_tensor_info good = kind->info[0];
    good.name = round ? "good" : "vsn.w";
    CHECK(halay_submit_named(run->ctx, &good, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK);
    halay_request_free(request);
}

static void body_mismatch(struct rank_run *run)
{
    float data[64] = { 0 };
    struct halay_tensor_info plain = {
        .struct_size = sizeof plain, .name = "vsn.w", .dimensions = 2, .shape = { 4, 8 }, .out = data
    };
    struct difference kinds[] = {
        { "tensor 'vsn.w': rank %d has shape [4,4], rank 0 has [4,8]", { plain, plain } },
        { "tensor 'vsn.w': rank %d has shape [32], rank 0 has [4,8]", { plain, plain } },
        { "tensor 'vsn.w': rank %d has type f16, rank 0 has f32", { plain, plain } },
        { "tensor 'vsn.w': rank %d has reduction max, rank 0 has sum", { plain, plain } },
        { "tensor 'vsn.w': rank %d has collective broadcast, rank 0 has allreduce", { plain, plain } },
        { "tensor 'vsn.w': rank %d has root 1, rank 0 has 0", { plain, plain } },
        { "tensor 'vsn.w': rank %d has scale factors 0.5, 1, rank 0 has 1, 2", { plain, plain } }
    };

    kinds[0].info[1].shape[1] = 4;
    kinds[1].info[1].dimensions = 1;
    kinds[1].info[1].shape[0] = 32;
    kinds[2].info[1].dtype = HALAY_F16;
    kinds[3].info[1].reduction = HALAY_MAX;
    kinds[4].info[1].collective = HALAY_BROADCAST;
    kinds[5].info[0].collective = kinds[5].info[1].collective = HALAY_BROADCAST;
    kinds[5].info[1].root = 1;
    kinds[6].info[1].prescale = 0.5;
    kinds[6].info[0].postscale = 2;

    for (int round = 0; round < 2; round++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            check_kind(run, &kinds[k], round, data);
    CHECK(halay_context_status(run->ctx, NULL, 0) == HALAY_OK);

    /* all ranks deviate together: a new agreement */
    for (int k = 1; k < 4; k++) {
        plain.shape[0] = (size_t)k;
        struct halay_request *request;
        CHECK(halay_submit_named(run->ctx, &plain, NULL, NULL, &request) == HALAY_OK);
        CHECK(halay_wait(request, -1) == HALAY_OK);
        halay_request_free(request);
    }
    if (run->size > 3) { /* several odd ranks are all named */
        plain.shape[0] = run->rank % 2 ? 3 : 2;
        struct halay_request *request;
        CHECK(halay_submit_named(run->ctx, &plain, NULL, NULL, &request) == HALAY_OK);
        CHECK(halay_wait(request, -1) == HALAY_ERR_MISMATCH);
        CHECK(!strcmp(halay_request_text(request), "tensor 'vsn.w': ranks 1, 3 have shape [3,8], rank 0 has [2,8]"),
              "%s", halay_request_text(request));
        halay_request_free(request);
    }
}

/* ---- many names: ids are reused ---- */

static void shrink_ids(struct rank_run *run)
{
    if (run->ctx->all.coordinator)
        run->ctx->all.coordinator->options.ids_max = 10;
}

static void body_names(struct rank_run *run)
{
    char name[32];

    shrink_ids(run); /* before anything is submitted, no thread drives the coordinator */
    for (int i = 0; i < 300; i++) {
        float one = 1, two = 2, kept = 4;
        struct halay_request *requests[3];
        snprintf(name, sizeof name, "once.%d", i);
        CHECK(halay_allreduce_async(run->ctx, name, NULL, &one, 1, HALAY_F32, HALAY_SUM, &requests[0]) == HALAY_OK);
        snprintf(name, sizeof name, "again.%d", (i * 7 + i / 9) % 23);
        CHECK(halay_allreduce_async(run->ctx, name, NULL, &two, 1, HALAY_F32, HALAY_SUM, &requests[1]) == HALAY_OK);
        CHECK(halay_allreduce_async(run->ctx, "always", NULL, &kept, 1, HALAY_F32, HALAY_SUM, &requests[2]) ==
              HALAY_OK);
        for (int k = 2; k >= 0; k--) {
            CHECK(halay_wait(requests[k], -1) == HALAY_OK);
            halay_request_free(requests[k]);
        }
        CHECK(one == (float)run->size && two == (float)(2 * run->size) && kept == (float)(4 * run->size));
    }
    pthread_mutex_lock(&run->ctx->lock);
    CHECK(run->ctx->all.names.count < 60, "%zu names are kept", run->ctx->all.names.count);
    pthread_mutex_unlock(&run->ctx->lock);
}

/* ---- leaving and dying ---- */

static int says_left(const char *text, int leaver)
{
    char left[40];

    snprintf(left, sizeof left, "rank %d has left", leaver);
    return !strcmp(text, left);
}

static void body_leave_early(struct rank_run *run)
{
    int leaver = *(int *)run->arg;
    float data[4] = { 1, 2, 3, 4 };
    char text[100];

    CHECK(halay_allreduce(run->ctx, "all", NULL, data, 4, HALAY_F32, HALAY_SUM) == HALAY_OK);
    if (run->rank == leaver)
        return;
    struct halay_request *request;
    enum halay_status status = halay_allreduce_async(run->ctx, "left", NULL, data, 4, HALAY_F32, HALAY_SUM, &request);
    if (status == HALAY_OK) {
        CHECK(halay_wait(request, 20000) == HALAY_ERR_PEER);
        CHECK(says_left(halay_request_text(request), leaver), "'%s'", halay_request_text(request));
        halay_request_free(request);
    } else {
        CHECK(status == HALAY_ERR_PEER);
    }
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER && says_left(text, leaver), "'%s'", text);
    CHECK(halay_allreduce(run->ctx, "later", NULL, data, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
}

/* One rank finishes late: all others have long left when it does, after it has submitted once more. */
static void body_finish_late(struct rank_run *run)
{
    int late = *(int *)run->arg;
    float data[4] = { 1, 2, 3, 4 };
    char text[100];

    CHECK(halay_allreduce(run->ctx, "all", NULL, data, 4, HALAY_F32, HALAY_SUM) == HALAY_OK &&
          data[3] == (float)(4 * run->size));
    if (run->rank != late)
        return;
    for (int r = 0; r < run->size; r++)
        while (r != late && !halay_fake_hub_has_left(run->hub, r))
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    CHECK(data[3] == (float)(4 * run->size), "what is done stays done");
    CHECK(halay_allreduce(run->ctx, "alone", NULL, data, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER && strstr(text, "has left"), "'%s'",
          text);
}

/* Rank 2 has its result and leaves, and all know it, while rank 1 has not even received that it may start. Rank 1 gets
 * the data it needs from rank 0, and both have the result, too. The data are so large that the root waits until they
 * are taken. */
static void body_leave_meanwhile(struct rank_run *run)
{
    enum { COUNT = 8192 };
    struct halay_request *part, *left = NULL;
    float data[COUNT] = { 1, 2, 3, 4 }, sum = 1;
    char text[100];

    if (run->rank == 0)
        halay_fake_hub_hold(run->hub, 0, 1, 1);
    else
        memset(data, 0, sizeof data);
    CHECK(halay_broadcast_async(run->ctx, "part", data, COUNT, HALAY_F32, 0, &part) == HALAY_OK);
    if (run->rank == 0) { /* the rank that has left is reported */
        CHECK(halay_allreduce_async(run->ctx, "left", NULL, &sum, 1, HALAY_F32, HALAY_SUM, &left) == HALAY_OK);
        while (!halay_fake_hub_has_left(run->hub, 2))
            CHECK(halay_wait(part, 1) == HALAY_ERR_TIMEOUT);
        for (int i = 0; i < 150; i++) /* peers are checked rarely */
            CHECK(halay_wait(part, 1) == HALAY_ERR_TIMEOUT);
        halay_fake_hub_hold(run->hub, 0, 1, 0);
    }
    CHECK(halay_wait(part, -1) == HALAY_OK && data[3] == 4, "rank %d: '%s'", run->rank, halay_request_text(part));
    halay_request_free(part);
    if (run->rank == 2)
        return;
    if (left) {
        CHECK(halay_wait(left, 60000) == HALAY_ERR_PEER && says_left(halay_request_text(left), 2));
        halay_request_free(left);
    }
    CHECK(halay_allreduce(run->ctx, "later", NULL, data, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER && says_left(text, 2), "'%s'", text);
}

static void body_die(struct rank_run *run)
{
    int victim = *(int *)run->arg;
    static float data[RANKS_MAX][100000];
    char want[40];
    _Atomic int calls = 0;
    struct halay_request *requests[3];

    snprintf(want, sizeof want, "rank %d has died", victim);
    /* The victim may be lost before the others have their result. */
    enum halay_status first = halay_allreduce(run->ctx, "all", NULL, data[run->rank], 4, HALAY_F32, HALAY_SUM);
    CHECK(first == HALAY_OK || (first == HALAY_ERR_PEER && run->rank != victim));
    if (run->rank == victim) {
        halay_fake_hub_kill(run->hub, victim);
        return;
    }
    int submitted = 0;
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        struct halay_tensor_info info = float_info(name, data[run->rank] + 30000 * i, 30000);
        enum halay_status status = halay_submit_named(run->ctx, &info, count_call, &calls, &requests[submitted]);
        CHECK(status == HALAY_OK || status == HALAY_ERR_PEER);
        submitted += status == HALAY_OK;
    }
    for (int i = 0; i < submitted; i++) {
        CHECK(halay_wait(requests[i], 60000) == HALAY_ERR_PEER);
        CHECK(!strcmp(halay_request_text(requests[i]), want), "'%s'", halay_request_text(requests[i]));
        halay_request_free(requests[i]);
    }
    CHECK(calls == 1000 * submitted, "each callback once: %d of %d", calls, submitted);
    float x = 1;
    while (halay_context_status(run->ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    CHECK(halay_allreduce(run->ctx, "later", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
}

static _Atomic int closed_calls;

static void count_closed(void *arg, enum halay_status status, const char *text)
{
    (void)arg;
    if (status != HALAY_OK && *text)
        closed_calls++;
}

/* All ranks leave with a tensor that can never run: each request ends once, in bounded time. */
static void body_leave_in_flight(struct rank_run *run)
{
    static float data[RANKS_MAX][4];
    char name[8];

    snprintf(name, sizeof name, "r%d", run->rank);
    struct halay_tensor_info info = float_info(name, data[run->rank], 4);
    enum halay_status status = halay_submit_named(run->ctx, &info, count_closed, NULL, NULL);
    CHECK(status == HALAY_OK || status == HALAY_ERR_PEER, "others may have left already");
    if (status != HALAY_OK)
        closed_calls++;
}

/* Tensors that all ranks have submitted still complete when all leave at once. */
static void body_leave_completing(struct rank_run *run)
{
    static float data[RANKS_MAX][4];
    static _Atomic int calls[RANKS_MAX];
    struct halay_tensor_info info = float_info("same", data[run->rank], 4);

    CHECK(halay_submit_named(run->ctx, &info, count_call, run->arg, NULL) == HALAY_OK);
    (void)calls;
}

/* ---- a rank that does not submit; a rank that does not answer ---- */

static void configure_stall(struct halay_config *config, void *arg)
{
    (void)arg;
    config->stall_check_ms = 100;
}

static _Atomic int saw_late;

/* The first report may precede the second rank's submission. */
static void note_late(struct rank_run *run, const char *line)
{
    (void)run;
    saw_late |= strstr(line, "tensor 'late': submitted by ranks 0, 1, missing: rank 2") != NULL;
}

static void body_stall(struct rank_run *run)
{
    float x = 1, go = 0;
    struct halay_request *request = NULL;

    if (run->rank != run->size - 1)
        CHECK(halay_allreduce_async(run->ctx, "late", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    if (run->rank == 0) {
        while (!saw_late)
            halay_wait(request, 10);
        go = 1;
    }
    CHECK(halay_broadcast(run->ctx, "go", &go, 1, HALAY_F32, 0) == HALAY_OK && go == 1);
    if (!request)
        CHECK(halay_allreduce_async(run->ctx, "late", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK && x == (float)run->size);
    halay_request_free(request);
}

static void configure_silence(struct halay_config *config, void *arg)
{
    (void)arg;
    config->peer_timeout_ms = 1000;
}

/* Messages of one rank are lost from some point on. The others find it silent, and it finds the coordinator silent. */
static void body_silence(struct rank_run *run)
{
    float x = 1;

    CHECK(halay_allreduce(run->ctx, "all", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    if (run->rank == 1) {
        halay_fake_hub_drop(run->hub, 1, 0);
        halay_fake_hub_drop(run->hub, 0, 1);
    }
    CHECK(halay_allreduce(run->ctx, "silent", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    char text[100], silent[40], closed[40];
    snprintf(silent, sizeof silent, "rank %d has not answered for 1 s", run->rank != 1);
    snprintf(closed, sizeof closed, "rank %d has closed its connection", run->rank != 1);
    halay_context_status(run->ctx, text, sizeof text);
    /* Rank 1 and the other ranks are silent for each other. The first to time out closes the group, and its report is
     * lost. */
    CHECK(!strcmp(text, silent) || !strcmp(text, closed), "'%s'", text);
}

/* A rank that computes for longer than the timeout, right after its own thread drove, still answers. */
static void body_compute(struct rank_run *run)
{
    float x = 1;

    CHECK(halay_allreduce(run->ctx, "all", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    if (run->rank == 1)
        usleep(2500000);
    CHECK(halay_allreduce(run->ctx, "late", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK, "it was not lost");
}

/* However long this process was stopped itself, a rank is sent a PING before it is reported as lost. */
static void check_asked(void)
{
    static struct halay_link unused;
    const int64_t timeout_us = 1000000, at_us[] = { 5000000, 8000000, 8100000 };
    struct halay_messenger *m;
    int rank = -1;

    REQUIRE(halay_messenger_create(&unused, 0, 2, NULL, &m) == HALAY_OK);
    for (int i = 0; i < 3; i++)
        CHECK(halay_messenger_check(m, at_us[i], timeout_us, &rank) == HALAY_OK, "look %d", i);
    CHECK(halay_messenger_check(m, at_us[2] + timeout_us, timeout_us, &rank) == HALAY_ERR_PEER && rank == 1);
    halay_messenger_destroy(m);
}

/* ---- idleness ---- */

static void body_idle(struct rank_run *run)
{
    float x = 1;
    struct timespec cpu, later;
    clockid_t clock;

    for (int i = 0; i < 10; i++)
        CHECK(halay_allreduce(run->ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    /* Lets the thread take the role, by a submission that only it drives. */
    struct halay_request *request;
    CHECK(halay_allreduce_async(run->ctx, "y", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    while (halay_test(request) == HALAY_IN_PROGRESS)
        usleep(100);
    halay_request_free(request);
    /* The thread becomes idle shortly after the request has ended; on a busy machine perhaps in the first period, but
     * not in every one. */
    REQUIRE(!pthread_getcpuclockid(run->ctx->driver->thread, &clock));
    int spells = 0;
    uint64_t sent;
    do {
        sent = halay_messenger_sent(run->ctx->messenger);
        REQUIRE(!clock_gettime(clock, &cpu));
        usleep(2000000);
    } while (halay_messenger_sent(run->ctx->messenger) != sent && ++spells < 10);
    CHECK(spells < 10, "messages were sent while nothing was submitted");
    REQUIRE(!clock_gettime(clock, &later));
    atomic_fetch_add((_Atomic int *)run->arg, 1);
    while (atomic_load((_Atomic int *)run->arg) < run->size) /* leaving takes messages */
        usleep(1000);
    double used = (double)(later.tv_sec - cpu.tv_sec) + 1e-9 * (double)(later.tv_nsec - cpu.tv_nsec);
    printf("rank %d: idle for 2 s used %.2f ms of processor time\n", run->rank, used * 1e3);
}

/* ---- a step of many small tensors ---- */

static void body_many(struct rank_run *run)
{
    enum { TENSORS = 1000, COUNT = 64, STEPS = 5 };
    static struct halay_tensor *tensors[RANKS_MAX][TENSORS];
    static struct halay_request *requests[RANKS_MAX][TENSORS];
    float *data;
    char name[16];

    REQUIRE(halay_alloc(run->ctx, TENSORS * COUNT * sizeof *data, (void **)&data) == HALAY_OK);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "t%d", i);
        struct halay_tensor_info info = float_info(name, data + i * COUNT, COUNT);
        REQUIRE(halay_register(run->ctx, &info, &tensors[run->rank][i]) == HALAY_OK);
    }
    uint64_t messages = 0, buckets = 0;
    for (int step = 0; step < STEPS; step++) {
        float x = 0;
        fill_floats(data, TENSORS * COUNT, run->rank);
        CHECK(halay_allreduce(run->ctx, "together", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
        for (int i = 0; i < TENSORS; i++)
            CHECK(halay_submit(tensors[run->rank][i], NULL, NULL, &requests[run->rank][i]) == HALAY_OK);
        for (int i = 0; i < TENSORS; i++) {
            CHECK(halay_wait(requests[run->rank][i], -1) == HALAY_OK);
            halay_request_free(requests[run->rank][i]);
        }
        CHECK(is_sum(data, TENSORS * COUNT, run->size));
        if (step == 0) {
            messages = halay_messenger_sent(run->ctx->messenger);
            buckets = run->ctx->meters->tally.collectives;
        }
    }
    messages = halay_messenger_sent(run->ctx->messenger) - messages;
    buckets = run->ctx->meters->tally.collectives - buckets;
    if (run->rank == 0)
        printf("%d ranks, %d tensors a step: %.1f messages, %.1f buckets a step\n", run->size, TENSORS,
               (double)messages / (STEPS - 1), (double)buckets / (STEPS - 1));
}

static void submit_and_wait(struct halay_tensor *const *tensors, struct halay_request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        REQUIRE(halay_submit(tensors[i], NULL, NULL, &requests[i]) == HALAY_OK);
    for (size_t i = 0; i < count; i++) {
        CHECK(halay_wait(requests[i], -1) == HALAY_OK);
        halay_request_free(requests[i]);
    }
}

/* Waits that always followed at once are expected, and then do not follow. Whatever call follows instead, all requests
 * end. */
static void body_habits(struct rank_run *run)
{
    enum { TENSORS = 3, COUNT = 600, ROUNDS = 8, HABIT = 6 };
    struct halay_request *requests[TENSORS];
    struct halay_tensor *tensors[TENSORS];
    float data[TENSORS][COUNT];
    _Atomic int calls = 0;

    for (int i = 0; i < TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof name, "habit %d", i);
        struct halay_tensor_info info = float_info(name, data[i], COUNT);
        REQUIRE(halay_register(run->ctx, &info, &tensors[i]) == HALAY_OK);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HABIT; i++) {
            submit_and_wait(tensors, requests, 1);
            submit_and_wait(tensors, requests, round % 2 ? 1 : TENSORS);
        }
        for (int i = 0; i < TENSORS; i++)
            fill_floats(data[i], COUNT, run->rank);
        CHECK(halay_submit(tensors[0], NULL, NULL, &requests[0]) == HALAY_OK);
        switch ((round + run->rank) % 4) {
        case 0: /* a test */
            while (halay_test(requests[0]) == HALAY_IN_PROGRESS)
                sched_yield();
            break;
        case 1: /* another wait */
            CHECK(halay_wait(requests[0], 0) == HALAY_ERR_TIMEOUT || halay_test(requests[0]) == HALAY_OK);
            break;
        default: /* another submission */
            break;
        }
        CHECK(halay_submit(tensors[1], count_call, &calls, NULL) == HALAY_OK);
        while (calls != round + 1)
            sched_yield();
        halay_request_free(requests[0]); /* the request is freed, and ends all the same */
        while (halay_submit(tensors[0], NULL, NULL, &requests[0]) == HALAY_ERR_DUPLICATE)
            sched_yield();
        CHECK(is_sum(data[1], COUNT, run->size));
        CHECK(halay_wait(requests[0], -1) == HALAY_OK);
        halay_request_free(requests[0]);
    }
}

/* Runs one case and prints its duration. */
static void run_case(const char *what, int size, uint64_t delay, const struct rank_run *prototype)
{
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    ranks_run(size, delay, prototype, NULL, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%d ranks, delay %d, %s: %.2f s\n", size, delay != 0, what,
           (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    fflush(stdout);
}

/* Runs a case that waits for seconds on a thread of its own, at the same time as other cases. */
struct waiting_case {
    const char *what;
    int size;
    struct rank_run prototype;
    pthread_t thread;
};

static void *run_waiting(void *arg)
{
    const struct waiting_case *waiting = arg;

    run_case(waiting->what, waiting->size, 0, &waiting->prototype);
    return NULL;
}

int main(void)
{
    static const int sizes[] = { 1, 2, 3, 4 };
    static int first = 0, last = 2;
    static _Atomic int idle;
    static struct waiting_case waiting[] = {
        { "finish late", 3, { .body = body_finish_late, .arg = &first, .expected = "has left" }, 0 },
        { "finish late", 3, { .body = body_finish_late, .arg = &last, .expected = "has left" }, 0 },
        { "silence", 3, { .body = body_silence, .configure = configure_silence, .expected = "" }, 0 },
        { "compute", 2, { .body = body_compute, .configure = configure_silence }, 0 },
        { "idle", 2, { .body = body_idle, .arg = &idle }, 0 },
    };

    check_asked();
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        REQUIRE(!pthread_create(&waiting[i].thread, NULL, run_waiting, &waiting[i]));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            run_case("basics", sizes[s], delay * 77, &(struct rank_run){ .body = body_basics });
            run_case("scaling", sizes[s], delay * 87, &(struct rank_run){ .body = body_scaling });
            run_case("arguments", sizes[s], delay * 78,
                     &(struct rank_run){ .body = body_arguments, .expected = "tensor" });
            run_case("buffers", sizes[s], delay * 86, &(struct rank_run){ .body = body_buffers, .expected = "tensor" });
            run_case("names", sizes[s], delay * 79, &(struct rank_run){ .body = body_names });
            run_case("many", sizes[s], delay * 80, &(struct rank_run){ .body = body_many });
            run_case("habits", sizes[s], delay * 89,
                     &(struct rank_run){ .body = body_habits, .expected = "in flight already" });
            if (sizes[s] == 1)
                continue;
            run_case("mismatch", sizes[s], delay * 81,
                     &(struct rank_run){ .body = body_mismatch, .expected = "vsn.w" });
            for (int who = 0; who < sizes[s]; who += sizes[s] - 1) {
                run_case("leave early", sizes[s], delay * 82,
                         &(struct rank_run){ .body = body_leave_early, .arg = &who, .expected = "has left" });
                run_case("die", sizes[s], delay * 83,
                         &(struct rank_run){ .body = body_die, .arg = &who, .expected = "" });
            }
            closed_calls = 0;
            run_case("leave in flight", sizes[s], delay * 84,
                     &(struct rank_run){ .body = body_leave_in_flight, .expected = "has left" });
            CHECK(closed_calls == sizes[s], "%d of %d requests ended", closed_calls, sizes[s]);
            _Atomic int calls = 0;
            run_case("leave completing", sizes[s], delay * 85,
                     &(struct rank_run){ .body = body_leave_completing, .arg = &calls });
            CHECK(calls == sizes[s], "%d of %d completed", calls, sizes[s]);
        }
    run_case("leave meanwhile", 3, 0, &(struct rank_run){ .body = body_leave_meanwhile, .expected = "has left" });
    run_case("stall", 3, 0, &(struct rank_run){ .body = body_stall, .configure = configure_stall, .sink = note_late });
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        REQUIRE(!pthread_join(waiting[i].thread, NULL));
    return test_end();
}
