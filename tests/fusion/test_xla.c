/* SPDX-License-Identifier: Apache-2.0
 *
 * The handler that XLA calls, with call frames made here: the collectives, errors, and contexts that close.
 */
#include "fusion/api/xla_abi.h"
#include "halay_xla.h"
#include "tests/fusion/ranks.h"
#include <pthread.h>

enum { COUNT = 6, TEXT_BYTES = 1200 };

/* XLA's side of a call. */
struct xla_error {
    char text[TEXT_BYTES];
};

struct xla_future {
    pthread_mutex_t lock;
    pthread_cond_t changes;
    int has_ended;
    struct xla_error *error;
};

static struct xla_error *create_error(struct xla_error_create *create)
{
    struct xla_error *error = calloc(1, sizeof *error);

    REQUIRE(error);
    snprintf(error->text, sizeof error->text, "%d: %s", create->code, create->message);
    return error;
}

static struct xla_error *create_future(struct xla_future_create *create)
{
    create->future = calloc(1, sizeof *create->future);
    REQUIRE(create->future);
    pthread_mutex_init(&create->future->lock, NULL);
    pthread_cond_init(&create->future->changes, NULL);
    return NULL;
}

static void end_future(struct xla_future *future, struct xla_error *error)
{
    pthread_mutex_lock(&future->lock);
    CHECK(!future->has_ended, "a future ends once");
    future->has_ended = 1;
    future->error = error;
    pthread_cond_signal(&future->changes);
    pthread_mutex_unlock(&future->lock);
}

static struct xla_error *set_future(struct xla_future_set *set)
{
    end_future(set->future, NULL);
    return NULL;
}

static struct xla_error *fail_future(struct xla_future_fail *fail)
{
    end_future(fail->future, fail->error);
    return NULL;
}

/* Waits for a future: its error, which is the caller's. */
static struct xla_error *take_future(struct xla_future *future)
{
    pthread_mutex_lock(&future->lock);
    while (!future->has_ended)
        pthread_cond_wait(&future->changes, &future->lock);
    pthread_mutex_unlock(&future->lock);
    struct xla_error *error = future->error;
    pthread_cond_destroy(&future->changes);
    pthread_mutex_destroy(&future->lock);
    free(future);
    return error;
}

static const struct xla_api api = {
    .version = { .major = 0, .minor = 1 },
    .error_create = create_error,
    .future_create = create_future,
    .future_set = set_future,
    .future_fail = fail_future,
};

struct array {
    int dtype;
    void *data;
    int64_t rows;
};

/* Calls the handler on one array; the future or the error is where the frame or the result has it. */
static struct xla_error *start_call(const struct xla_api *xla_api, struct halay_xla *xla,
                                    const struct halay_tensor_info *info, struct array in, struct array out,
                                    struct xla_future **future)
{
    struct xla_buffer buffers[2] = {
        { .dtype = in.dtype, .data = in.data, .dimensions = 1, .shape = &in.rows },
        { .dtype = out.dtype, .data = out.data, .dimensions = 1, .shape = &out.rows },
    };
    int buffer = XLA_BUFFER, scalars[2] = { XLA_SCALAR, XLA_SCALAR };
    void *values[2] = { &buffers[0], &buffers[1] };
    uint64_t words[2] = { (uintptr_t)xla, (uintptr_t)info };
    struct xla_scalar word[2] = { { XLA_U64, &words[0] }, { XLA_U64, &words[1] } };
    void *attributes[2] = { &word[0], &word[1] };
    struct xla_text texts[2] = { { "context", 7 }, { "info", 4 } }, *names[2] = { &texts[0], &texts[1] };
    struct xla_frame frame = {
        .api = xla_api,
        .stage = XLA_STAGE_EXECUTE,
        .arguments = { .count = 1, .types = &buffer, .values = &values[0] },
        .results = { .count = 1, .types = &buffer, .values = &values[1] },
        .attributes = { .count = 2, .types = scalars, .names = names, .values = attributes },
    };

    struct xla_error *error = halay_xla_call(&frame);
    *future = frame.future;
    return error;
}

/* Returns the text of the error of a call, "" without an error. */
static void call_handler(struct halay_xla *xla, const struct halay_tensor_info *info, struct array in, struct array out,
                         char text[TEXT_BYTES])
{
    struct xla_future *future = NULL;
    struct xla_error *error = start_call(&api, xla, info, in, out, &future);

    CHECK(!error || !future, "an error, or a future");
    if (future)
        error = take_future(future);
    snprintf(text, TEXT_BYTES, "%s", error ? error->text : "");
    free(error);
}

static struct halay_tensor_info describe_call(enum halay_collective collective, const char *name)
{
    return (struct halay_tensor_info){
        .struct_size = sizeof(struct halay_tensor_info), .name = name, .collective = collective, .reduction = HALAY_SUM
    };
}

/* Never freed: a leak checker finds them by this. */
static struct halay_xla *attached[64];
static _Atomic int attached_count;

static struct halay_xla *attach_error(struct rank_run *run)
{
    struct halay_xla **place = &attached[attached_count++];

    REQUIRE(halay_xla_open(run->ctx, place) == HALAY_OK);
    return *place;
}

static void body_collectives(struct rank_run *run)
{
    struct halay_tensor_info sum = describe_call(HALAY_ALLREDUCE, "sum"), one = describe_call(HALAY_BROADCAST, "one"),
                             all = describe_call(HALAY_ALLGATHER, "all");
    struct halay_xla *xla = attach_error(run);
    char text[TEXT_BYTES];
    float in[COUNT], out[COUNT * RANKS_MAX];

    one.root = run->size - 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)(run->rank + i + round);
        call_handler(xla, &sum, (struct array){ XLA_F32, in, COUNT }, (struct array){ XLA_F32, out, COUNT }, text);
        float wanted = (float)(run->size * (1 + round)) + (float)(run->size * (run->size - 1)) / 2; // NOLINT
        CHECK(!*text && out[1] == wanted, "%s %f", text, (double)out[1]);
        call_handler(xla, &one, (struct array){ XLA_F32, in, COUNT }, (struct array){ XLA_F32, out, COUNT }, text);
        CHECK(!*text && out[0] == (float)(run->size - 1 + round), "%s %f", text, (double)out[0]);
        call_handler(xla, &all, (struct array){ XLA_F32, in, COUNT },
                     (struct array){ XLA_F32, out, (int64_t)COUNT * run->size }, text);
        for (int r = 0; r < run->size; r++)
            CHECK(!*text && out[r * COUNT] == (float)(r + round), "%s %d %f", text, r, (double)out[r * COUNT]);
    }
    halay_xla_close(xla);
}

static void body_errors(struct rank_run *run)
{
    struct halay_tensor_info sum = describe_call(HALAY_ALLREDUCE, "sum"), all = describe_call(HALAY_ALLGATHER, "all");
    struct halay_xla *xla = attach_error(run);
    struct xla_api older = api;
    struct xla_future *future = NULL;
    struct xla_error *error;
    char text[TEXT_BYTES];
    float in[COUNT + 1] = { 0 }, out[COUNT * RANKS_MAX];
    struct array given = { XLA_F32, in, COUNT }, result = { XLA_F32, out, COUNT };

    result.dtype = XLA_F64;
    call_handler(xla, &sum, given, result, text);
    CHECK(strstr(text, "3: halay: the element type is not supported"), "%s", text);
    result.dtype = given.dtype = 999;
    call_handler(xla, &sum, given, result, text);
    CHECK(strstr(text, "the element type is not supported"), "%s", text);
    result.dtype = given.dtype = XLA_F32;
    call_handler(NULL, &sum, given, result, text);
    CHECK(strstr(text, "attributes context and info"), "%s", text);
    older.version.minor = 0;
    error = start_call(&older, xla, &sum, given, result, &future);
    CHECK(error && strstr(error->text, "another version") && !future);
    free(error);
    if (run->size > 1) {
        given.rows = result.rows = run->rank ? COUNT : COUNT - 1;
        call_handler(xla, &sum, given, result, text);
        CHECK(strstr(text, "halay: 'sum': ") && strstr(text, "[5]"), "%s", text);
        given.rows = run->rank ? COUNT : COUNT - 1; /* fewer rows than rank 0 and others have room for */
        result.rows = (int64_t)COUNT * run->size;
        call_handler(xla, &all, given, result, text);
        CHECK(strstr(text, "halay: 'all': the ranks gave"), "%s", text);
    }
    given.rows = result.rows = COUNT;
    call_handler(xla, &sum, given, result, text);
    CHECK(!*text, "%s", text);
    halay_xla_close(xla);
    call_handler(xla, (void *)8, given, result, text); /* which is not read any more */
    CHECK(strstr(text, "10: halay: the context was closed"), "%s", text);
    halay_xla_close(NULL);
    CHECK(halay_xla_open(NULL, &xla) == HALAY_ERR_ARGUMENT);
}

/* Calls that are under way when their context closes end, with success or an error. */
static void test_under_way(void)
{
    enum { BIG = 100000 };
    struct halay_options options = { .struct_size = sizeof options, .bootstrap = "self" };
    static float in[BIG], out[BIG];
    struct halay_tensor_info sum = describe_call(HALAY_ALLREDUCE, "sum");
    struct array given = { XLA_F32, in, BIG }, result = { XLA_F32, out, BIG };
    static struct halay_xla *kept[20];

    for (int round = 0; round < 20; round++) {
        struct halay_context *ctx = NULL;
        struct xla_future *future = NULL;
        REQUIRE(halay_init(&options, &ctx) == HALAY_OK);
        REQUIRE(halay_xla_open(ctx, &kept[round]) == HALAY_OK);
        CHECK(!start_call(&api, kept[round], &sum, given, result, &future) && future);
        halay_xla_close(kept[round]);
        halay_fini(ctx);
        free(take_future(future));
    }
}

static void test_metadata(void)
{
    struct xla_metadata metadata = { .struct_size = sizeof metadata, .version = { .major = -1, .minor = -1 } };
    struct xla_metadata_extension extension = { .base = { .type = XLA_EXTENSION_METADATA }, .metadata = &metadata };
    struct xla_frame frame = { .head = { .extensions = &extension.base }, .stage = XLA_STAGE_EXECUTE };

    CHECK(!halay_xla_call(&frame) && metadata.version.major == 0 && metadata.version.minor == 1);
}

int main(void)
{
    test_metadata();
    for (int size = 1; size <= 3; size++) {
        ranks_run(size, (uint64_t)size * 7, &(struct rank_run){ .body = body_collectives }, NULL, NULL);
        ranks_run(size, (uint64_t)size * 9, &(struct rank_run){ .body = body_errors, .expected = "" }, NULL, NULL);
    }
    test_under_way();
    return test_end();
}
