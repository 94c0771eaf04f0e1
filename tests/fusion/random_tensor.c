/* SPDX-License-Identifier: Apache-2.0
 *
 * Random tensors: see random_tensor.h. Values are small whole numbers, so that every type holds sums exactly, in any
 * order.
 */
#include "tests/fusion/random_tensor.h"
#include "tests/test.h"
#include <math.h>
#include <sched.h>
#include <string.h>

int random_devices;

int random_world_failed(void)
{
    return test_failed;
}

/* ---- description and data of a tensor ---- */

int random_tensor_goes_by_rows(const struct random_tensor *t)
{
    enum halay_collective c = t->info.collective;

    return c == HALAY_ALLGATHER || c == HALAY_ALLTOALL || c == HALAY_GATHER || c == HALAY_SCATTER;
}

/* Returns the rows of one element each, or a few, that rank `from` sends to `to`, by numbers in the set. */
static size_t rows_from(const struct random_world *w, const struct random_tensor *t, int from, int to)
{
    size_t base = t->elements % 5;
    int is_root_from = w->members[from] == t->info.root, is_root_to = w->members[to] == t->info.root;

    switch (t->info.collective) {
    case HALAY_ALLGATHER:
        return (base + (size_t)from) % 4 + (t->elements % 3 != 0); /* some are empty */
    case HALAY_ALLTOALL:
        return (base + (size_t)(from + 2 * to)) % 3 + (t->elements % 3 != 0);
    case HALAY_GATHER:
        return is_root_to ? (base + (size_t)from) % 4 : 0;
    case HALAY_SCATTER:
        return is_root_from ? (base + (size_t)to) % 4 : 0;
    default:
        return 0;
    }
}

static size_t columns(const struct random_tensor *t)
{
    return random_tensor_goes_by_rows(t) ? t->elements % 40 + 1 : 1;
}

/* Returns the elements that a rank sends to the ranks below `below`, or receives from them. */
static size_t given_below(const struct random_world *w, const struct random_tensor *t, int from, int below)
{
    size_t rows = 0;

    for (int to = 0; to < below; to++)
        rows += rows_from(w, t, from, to);
    return rows * columns(t);
}

static size_t taken_below(const struct random_world *w, const struct random_tensor *t, int to, int below)
{
    size_t rows = 0;

    for (int from = 0; from < below; from++)
        rows += rows_from(w, t, from, to);
    return rows * columns(t);
}

static int is_of_all_alike(enum halay_collective c)
{
    return c == HALAY_ALLGATHER || c == HALAY_GATHER;
}

/* Returns the number of elements that this rank contributes. */
static size_t in_count(const struct random_world *w, const struct random_tensor *t)
{
    if (t->info.collective == HALAY_BARRIER)
        return 0;
    if (t->info.collective == HALAY_ALLGATHER)
        return rows_from(w, t, w->me, w->me) * columns(t);
    if (random_tensor_goes_by_rows(t))
        return given_below(w, t, w->me, w->count);
    return t->elements;
}

static size_t out_count(const struct random_world *w, const struct random_tensor *t)
{
    switch (t->info.collective) {
    case HALAY_BARRIER:
        return 0;
    case HALAY_REDUCE:
        return w->rank == t->info.root ? t->elements : 0;
    case HALAY_REDUCE_SCATTER:
        return halay_scatter_rows(t->elements, w->count, w->me, NULL);
    default:
        return random_tensor_goes_by_rows(t) ? taken_below(w, t, w->me, w->count) : t->elements;
    }
}

/* Returns the type of element i, which may differ for a group's second member. */
static enum halay_dtype type_at(const struct random_tensor *t, size_t i)
{
    size_t first = t->is_group ? t->members[0].shape[0] : 0;

    return t->is_group && i >= first ? t->members[1].dtype : t->info.dtype;
}

static double value_at(const struct random_world *w, const struct random_tensor *t, int rank, size_t i)
{
    size_t place = (size_t)(t - w->tensors);
    double v = (double)((i * 5 + (size_t)rank * 3 + place * 7 + (size_t)t->number) % 11);

    return type_at(t, i) == HALAY_U8 ? v : v - 4;
}

/* Every element has 8 bytes in a group, so that its members may differ in type. */
static size_t offset_of(const struct random_tensor *t, size_t i)
{
    size_t first = t->is_group ? t->members[0].shape[0] : 0;

    if (t->is_group && i >= first)
        return first * 8 + (i - first) * halay_dtype_size(t->members[1].dtype);
    return i * halay_dtype_size(t->info.dtype);
}

static void put(struct random_tensor *t, unsigned char *data, size_t i, double v)
{
    void *at = data + offset_of(t, i);

    switch (type_at(t, i)) {
    case HALAY_F32:
        *(float *)at = (float)v;
        break;
    case HALAY_F64:
        *(double *)at = v;
        break;
    case HALAY_I32:
        *(int32_t *)at = (int32_t)v;
        break;
    case HALAY_I64:
        *(int64_t *)at = (int64_t)v;
        break;
    default:
        *(uint8_t *)at = (uint8_t)v;
    }
}

static double get(const struct random_tensor *t, const unsigned char *data, size_t i)
{
    const void *at = data + offset_of(t, i);

    switch (type_at(t, i)) {
    case HALAY_F32:
        return (double)*(const float *)at;
    case HALAY_F64:
        return *(const double *)at;
    case HALAY_I32:
        return *(const int32_t *)at;
    case HALAY_I64:
        return (double)*(const int64_t *)at;
    default:
        return *(const uint8_t *)at;
    }
}

/* Returns the expected element i of this rank's result. */
static double expected_at(const struct random_world *w, const struct random_tensor *t, size_t i)
{
    size_t first = 0;
    double all = 0;
    int has_one = 0, from = 0;

    if (t->info.collective == HALAY_BROADCAST)
        return value_at(w, t, t->info.root, i);
    if (random_tensor_goes_by_rows(t)) {
        while (i >= taken_below(w, t, w->me, from + 1))
            from++;
        i -= taken_below(w, t, w->me, from);
        if (!is_of_all_alike(t->info.collective))
            i += given_below(w, t, from, w->me);
        return value_at(w, t, w->members[from], i);
    }
    if (t->info.collective == HALAY_REDUCE_SCATTER)
        halay_scatter_rows(t->elements, w->count, w->me, &first);
    for (int r = 0; r < w->count; r++) {
        double v = value_at(w, t, w->members[r], i + first);
        if (w->has_joined[r])
            continue;
        if (!has_one || t->info.reduction == HALAY_SUM)
            all += v;
        else
            all = t->info.reduction == HALAY_MIN ? fmin(all, v) : fmax(all, v);
        has_one = 1;
    }
    return all;
}

static unsigned char *in_of(struct random_world *w, struct random_tensor *t)
{
    size_t place = (size_t)(t - w->tensors);

    return t->in_place ? w->out[place][t->bank] : w->in[place][t->bank];
}

static unsigned char *out_of(struct random_world *w, struct random_tensor *t)
{
    return w->out[t - w->tensors][t->bank];
}

static size_t bytes_of(const struct random_tensor *t, size_t count)
{
    return count ? offset_of(t, count - 1) + halay_dtype_size(type_at(t, count - 1)) : 0;
}

static void fill(struct random_world *w, struct random_tensor *t)
{
    size_t count = in_count(w, t), end = bytes_of(t, out_count(w, t));
    unsigned char *in = in_of(w, t), *out = out_of(w, t);

    if (!t->in_place)
        memset(out, 0x5a, end);
    memset(out + (t->in_place && bytes_of(t, count) > end ? bytes_of(t, count) : end), 0xa5, 8);
    for (size_t i = 0; i < count; i++)
        put(t, in, i, value_at(w, t, w->rank, i));
}

static void check_data(struct random_world *w, struct random_tensor *t)
{
    size_t count = out_count(w, t), wrong = 0, first = 0, end = bytes_of(t, count);
    unsigned char *out = out_of(w, t);

    for (size_t i = 0; i < count; i++) {
        double v = get(t, out, i), want = expected_at(w, t, i);
        if ((v < want || v > want) && !wrong++)
            first = i;
    }
    CHECK(!wrong, "schedule %llu step %d '%s', operation %d: %zu of %zu wrong, the first at %zu: %g, not %g",
          (unsigned long long)w->schedule, t->number, t->name, (int)t->info.collective, wrong, count, first,
          get(t, out, first), expected_at(w, t, first));
    if (t->in_place && bytes_of(t, in_count(w, t)) > end)
        end = bytes_of(t, in_count(w, t));
    for (size_t i = 0; i < 8; i++)
        if (!CHECK(out[end + i] == 0xa5, "schedule %llu step %d '%s': written outside", (unsigned long long)w->schedule,
                   t->number, t->name))
            return;
}

/* ---- descriptions ---- */

static void describe(struct random_world *w, struct random_tensor *t, struct halay_tensor_info *info)
{
    enum halay_collective c = t->info.collective;

    *info = t->info;
    info->struct_size = sizeof *info;
    info->name = t->name;
    info->set = w->set;
    info->dimensions = random_tensor_goes_by_rows(t) ? 2 : 1;
    info->shape[0] = random_tensor_goes_by_rows(t) ? in_count(w, t) / columns(t) : t->elements;
    info->shape[1] = columns(t);
    info->in = t->in_place ? NULL : in_of(w, t);
    info->out = out_of(w, t);
    info->out_bytes = BUFFER_BYTES - 64;
    if ((t - w->tensors) % 2 == 0 || c == HALAY_BARRIER)
        info->memory = HALAY_MEMORY_ANY;
    info->timeout_ms = t->timeout_ms;
    for (int r = 0; r < w->count; r++)
        t->splits[r] = rows_from(w, t, w->me, r);
    info->splits = c == HALAY_ALLTOALL || c == HALAY_SCATTER ? t->splits : NULL;
    if (!t->is_group)
        return;
    for (int m = 0; m < 2; m++) {
        size_t at = m ? t->members[0].shape[0] * 8 : 0;
        t->members[m].dimensions = 1;
        t->members[m].in = t->in_place ? NULL : in_of(w, t) + at;
        t->members[m].out = out_of(w, t) + at;
    }
    info->members = t->members;
    info->member_count = 2;
    info->member_bytes = sizeof *t->members;
}

void random_tensor_register(struct random_world *w, struct random_tensor *t)
{
    struct halay_tensor_info info;

    if (!t->is_registered || t->handle)
        return;
    describe(w, t, &info);
    CHECK(halay_register(w->ctx, &info, &t->handle) == HALAY_OK, "'%s'", t->name);
}

void random_tensor_unregister(struct random_tensor *t)
{
    CHECK(halay_unregister(t->handle) == HALAY_OK, "'%s'", t->name);
    t->handle = NULL;
}

/* Draws the description of a name: the operation, its type, its size. */
void random_tensor_draw(struct random_world *w, struct random_tensor *t)
{
    static const size_t sizes[] = { 1, 1, 3, 16, 17, 100, 128, 700, 1000, 4096, 5000, ELEMENTS_MAX };
    static const enum halay_dtype types[] = {
        HALAY_F32, HALAY_F32, HALAY_F32, HALAY_F64, HALAY_I32, HALAY_I64, HALAY_U8
    };
    static const enum halay_reduction reductions[] = { HALAY_SUM, HALAY_SUM, HALAY_SUM, HALAY_MIN, HALAY_MAX };
    static const enum halay_collective others[] = { HALAY_BROADCAST,      HALAY_ALLGATHER, HALAY_ALLTOALL,
                                                    HALAY_REDUCE_SCATTER, HALAY_REDUCE,    HALAY_GATHER,
                                                    HALAY_SCATTER,        HALAY_BARRIER };
    struct random *r = &w->common;

    memset(&t->info, 0, sizeof t->info);
    t->info.collective = random_below(r, 3) ? HALAY_ALLREDUCE : others[random_below(r, 8)];
    t->info.dtype = types[random_below(r, 7)];
    t->info.reduction = reductions[random_below(r, 5)];
    t->info.root = w->members[random_below(r, (size_t)w->count)];
    t->info.priority = random_below(r, 4) ? 0 : (int)random_below(r, 5) - 2;
    t->elements = sizes[random_below(r, random_below(r, 8) ? 9 : 12)];
    if (t->info.collective == HALAY_BARRIER)
        t->elements = 1;
    if (random_devices)
        t->info.memory = random_below(r, 3) ? HALAY_MEMORY_DEVICES : HALAY_MEMORY_DEVICE;
    t->is_group = t->info.collective == HALAY_ALLREDUCE && t->elements > 1 && t->elements < ELEMENTS_MAX / 2 &&
                  !random_below(r, 6);
    if (!t->is_group)
        return;
    size_t first = random_below(r, t->elements + 1);
    t->members[0] = (struct halay_member){ .dtype = t->info.dtype, .shape = { first } };
    t->members[1] = (struct halay_member){ .dtype = types[random_below(r, 7)], .shape = { t->elements - first } };
}

void random_tensor_draw_place(struct random_world *w, struct random_tensor *t)
{
    enum halay_collective c = t->info.collective;

    t->bank = (int)random_below(&w->own, BANKS);
    t->in_place = c == HALAY_BROADCAST || ((c == HALAY_ALLREDUCE || c == HALAY_REDUCE) && random_below(&w->own, 2));
}

/* Schedules with names of their own begin with unknown names; others use other descriptions of known names. */
void random_pattern_draw(struct random_world *w)
{
    int has_own_names = random_below(&w->common, 2) == 0;

    w->tensor_count = 1 + random_below(&w->common, random_below(&w->common, 3) ? 4 : TENSORS_MAX);
    for (size_t i = 0; i < TENSORS; i++) {
        struct random_tensor *t = &w->tensors[i];
        memset(t, 0, sizeof *t);
        if (has_own_names)
            snprintf(t->name, sizeof t->name, "t%zu.%llu", i, (unsigned long long)w->schedule);
        else
            snprintf(t->name, sizeof t->name, "t%zu", i);
        random_tensor_draw(w, t);
        random_tensor_draw_place(w, t);
        t->is_registered = random_below(&w->common, 4) != 0;
        if (i < w->tensor_count)
            random_tensor_register(w, t);
    }
}

/* ---- one submission ---- */

static void called(void *arg, enum halay_status status, const char *text)
{
    struct random_tensor *t = arg;

    CHECK((status == HALAY_OK) == !*text, "'%s': %s", t->name, text);
    t->status = (int)status;
    t->calls++;
}

/* Decides how a submission is completed; draws all its random numbers. */
void random_tensor_prepare(struct random_world *w, struct random_tensor *t)
{
    t->number = w->step;
    t->by_callback = !random_below(&w->own, 4);
    t->calls = t->by_callback || !random_below(&w->own, 4) ? 0 : 1; /* 1: no callback */
    t->request = NULL;
    t->is_in_flight = 1;
    w->tally->submissions++;
    fill(w, t);
}

enum halay_status random_tensor_give(struct random_world *w, struct random_tensor *t, struct halay_request **request)
{
    halay_callback callback = t->calls ? NULL : called;
    struct halay_tensor_info info;

    if (t->handle)
        return halay_submit(t->handle, callback, t, request);
    describe(w, t, &info);
    return halay_submit_named(w->ctx, &info, callback, t, request);
}

/* The request of some that have a callback is freed at once. */
void random_tensor_submit_prepared(struct random_world *w, struct random_tensor *t)
{
    int has_request = !t->by_callback || t->number % 2;

    enum halay_status status = random_tensor_give(w, t, has_request ? &t->request : NULL);
    CHECK(status == HALAY_OK, "schedule %llu step %d '%s': %s", (unsigned long long)w->schedule, t->number, t->name,
          halay_status_string(status));
    t->is_in_flight = status == HALAY_OK;
    if (t->by_callback && t->is_in_flight) {
        halay_request_free(t->request);
        t->request = NULL;
    }
}

void random_tensor_submit(struct random_world *w, struct random_tensor *t)
{
    random_tensor_prepare(w, t);
    random_tensor_submit_prepared(w, t);
}

/* Keeps a request, so that it can be canceled. */
void random_tensor_submit_kept(struct random_world *w, struct random_tensor *t)
{
    random_tensor_prepare(w, t);
    t->calls = t->by_callback ? 1 : t->calls;
    t->by_callback = 0;
    random_tensor_submit_prepared(w, t);
}

void random_world_note(struct random_world *w, uint64_t a, uint64_t b, uint64_t c)
{
    struct random hash = { a * 1000003 + b * 1009 + c };

    w->notes += random_next(&hash);
}

/* Waits for the end, whose status has to be one of these. */
void random_tensor_finish(struct random_world *w, struct random_tensor *t, unsigned allowed)
{
    int by_test = !t->by_callback && !random_below(&w->own, 4);
    enum halay_status status;

    if (!t->is_in_flight) /* it was refused, which is a failure */
        return;
    while (t->by_callback && !t->calls)
        sched_yield();
    while (by_test && halay_test(t->request) == HALAY_IN_PROGRESS)
        sched_yield();
    if (t->by_callback)
        status = (enum halay_status)t->status;
    else
        status = halay_wait(t->request, WAIT_MS);
    CHECK(allowed >> status & 1, "schedule %llu step %d '%s': %s", (unsigned long long)w->schedule, t->number, t->name,
          halay_status_string(status));
    if (!t->by_callback)
        CHECK(halay_test(t->request) == status && !*halay_request_text(t->request) == (status == HALAY_OK));
    CHECK(t->calls == 1, "schedule %llu step %d '%s': called %d times", (unsigned long long)w->schedule, t->number,
          t->name, t->calls);
    if (status == HALAY_OK)
        check_data(w, t);
    w->tally->errors += status != HALAY_OK;
    random_world_note(w, (uint64_t)t->number, (uint64_t)(t - w->tensors), (uint64_t)status);
    halay_request_free(t->request);
    t->request = NULL;
    t->is_in_flight = 0;
}

/* ---- memory ---- */

static void *odd_alloc(struct random_world *w)
{
    void *made = NULL;

    REQUIRE((random_devices ? halay_alloc_device(w->ctx, HALAY_DEVICE_CURRENT, BUFFER_BYTES, &made)
                            : halay_alloc(w->ctx, BUFFER_BYTES, &made)) == HALAY_OK);
    return made;
}

void random_world_init(struct random_world *w)
{
    for (size_t i = 0; i < TENSORS; i++)
        for (int bank = 0; bank < BANKS; bank++) {
            void *in = malloc(BUFFER_BYTES), *out = malloc(BUFFER_BYTES);
            if (i % 2) {
                free(in);
                free(out);
                in = odd_alloc(w);
                out = odd_alloc(w);
            }
            REQUIRE(in && out);
            w->in[i][bank] = in;
            w->out[i][bank] = out;
        }
}

void random_world_fini(struct random_world *w)
{
    for (size_t i = 0; i < TENSORS; i++)
        for (int bank = 0; bank < BANKS; bank++)
            if (i % 2) {
                halay_free(w->ctx, w->in[i][bank]);
                halay_free(w->ctx, w->out[i][bank]);
            } else {
                free(w->in[i][bank]);
                free(w->out[i][bank]);
            }
}
