/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs for the engine: see program.h.
 *
 * Values are small whole numbers, so that every type holds sums exactly, in any order; averages are compared with a
 * tolerance. In the last step some of the ranks have joined. Choices common to all ranks are drawn from the common
 * seed, others from that and the rank.
 */
#include "tests/fusion/program.h"
#include "base/half.h"
#include "halay_tools.h"
#include "tests/fusion/random.h"
#include "tests/test.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum {
    TENSORS_FEW = 40,
    TENSORS = 200,
    THREADS = 3,
    GUARD = 16,
    ROWS_MAX = 6,
    RANKS_MAX = 16,
    MEMBERS_MAX = 4,
    SETS_MAX = 8,
    SETS_MADE = 3,
    MESSAGES = 60,
    MESSAGE_MOST = 300000,
    MESSAGE_SHIFT = 37,
    KEYS = 3,
    ANY_KEY = KEYS,
    WITHDRAWN_KEY
};

enum completion { BY_WAIT, BY_TEST, BY_CALLBACK, COMPLETIONS };

struct set_case {
    struct halay_process_set *set; /* NULL: all ranks */
    int size, rank, ranks[RANKS_MAX];
    int is_made; /* by this random program */
};

struct tensor_case {
    char name[32];
    const struct set_case *of;
    struct halay_tensor_info info;
    size_t count, out_count;    /* elements of the input, and of the result */
    size_t in_bytes, out_bytes; /* of the buffers */
    size_t splits[RANKS_MAX];
    struct halay_member members[MEMBERS_MAX]; /* of a group: pieces of the buffers */
    int is_shared;
    int is_held;                 /* the result is in the request's memory */
    struct halay_tensor *handle; /* NULL: by name */
    unsigned char *out, *in;     /* in == out: in place; GUARD bytes before and after */
    enum completion completion;
    struct halay_request *request;
    _Atomic int calls, bad_calls;
};

struct program {
    struct halay_context *ctx;
    int rank, size, step;
    uint64_t seed;
    struct set_case sets[SETS_MAX];
    size_t set_count;
    int joined[RANKS_MAX], has_joined; /* ranks that have joined in this step; any rank has */
    size_t tensor_count;
    struct tensor_case tensors[TENSORS];
    unsigned char pattern[MESSAGE_MOST + MESSAGES * MESSAGE_SHIFT]; /* contents of messages */
    struct {
        struct program *program;
        struct random random;
        size_t order[TENSORS], count;
    } threads[THREADS];
};

static double value_at(int rank, size_t tensor, int step, size_t i)
{
    return (double)((i * 5 + (size_t)rank * 3 + tensor + (size_t)step) % 11) - 3;
}

/* Returns an element of a rank's input. Factors of products are powers of two, and unsigned types get no sign. */
static double input_at(const struct program *p, int rank, size_t t, size_t i)
{
    static const double factors[] = { -1, 1, 2 };
    const struct halay_tensor_info *info = &p->tensors[t].info;
    double v = value_at(rank, t, p->step, i);

    if (info->dtype == HALAY_BOOL)
        return v > 0;
    if (info->reduction == HALAY_PRODUCT)
        v = factors[(size_t)(v + 3) % 3];
    return info->dtype == HALAY_U8 || info->dtype == HALAY_U16 ? fabs(v) : v;
}

static void put_value(void *data, enum halay_dtype dtype, size_t i, double v)
{
    switch (dtype) {
    case HALAY_F32:
        ((float *)data)[i] = (float)v;
        break;
    case HALAY_F64:
        ((double *)data)[i] = v;
        break;
    case HALAY_F16:
        ((uint16_t *)data)[i] = halay_f32_to_f16((float)v);
        break;
    case HALAY_BF16:
        ((uint16_t *)data)[i] = halay_f32_to_bf16((float)v);
        break;
    case HALAY_I32:
        ((int32_t *)data)[i] = (int32_t)v;
        break;
    case HALAY_I64:
        ((int64_t *)data)[i] = (int64_t)v;
        break;
    case HALAY_U16:
        ((uint16_t *)data)[i] = (uint16_t)v;
        break;
    case HALAY_I16:
        ((int16_t *)data)[i] = (int16_t)v;
        break;
    case HALAY_I8:
        ((int8_t *)data)[i] = (int8_t)v;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)v;
        break;
    }
}

static double get_value(const void *data, enum halay_dtype dtype, size_t i)
{
    switch (dtype) {
    case HALAY_F32:
        return (double)((const float *)data)[i];
    case HALAY_F64:
        return ((const double *)data)[i];
    case HALAY_F16:
        return (double)halay_f16_to_f32(((const uint16_t *)data)[i]);
    case HALAY_BF16:
        return (double)halay_bf16_to_f32(((const uint16_t *)data)[i]);
    case HALAY_I32:
        return ((const int32_t *)data)[i];
    case HALAY_I64:
        return (double)((const int64_t *)data)[i];
    case HALAY_U16:
        return ((const uint16_t *)data)[i];
    case HALAY_I16:
        return ((const int16_t *)data)[i];
    case HALAY_I8:
        return ((const int8_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

static double combine_values(enum halay_reduction op, double a, double b)
{
    switch (op) {
    case HALAY_MIN:
        return fmin(a, b);
    case HALAY_MAX:
        return fmax(a, b);
    case HALAY_PRODUCT:
        return a * b;
    case HALAY_BIT_AND:
        return (double)((int64_t)a & (int64_t)b);
    case HALAY_BIT_OR:
        return (double)((int64_t)a | (int64_t)b);
    default:
        return a + b;
    }
}

/* Scales a value; integers are truncated. */
static double scale_value(enum halay_dtype dtype, double v, double factor)
{
    v *= factor == 0 ? 1 : factor;
    return dtype == HALAY_F32 || dtype == HALAY_F64 || dtype == HALAY_F16 || dtype == HALAY_BF16 ? v : trunc(v);
}

/* ---- operations by rows ---- */

static int is_ragged(const struct halay_tensor_info *info)
{
    return info->collective == HALAY_ALLGATHER || info->collective == HALAY_ALLTOALL ||
           info->collective == HALAY_GATHER || info->collective == HALAY_SCATTER;
}

/* Returns nonzero if each rank gets rows of its own. */
static int is_dealt(const struct halay_tensor_info *info)
{
    return info->collective == HALAY_ALLTOALL || info->collective == HALAY_SCATTER;
}

/* Returns nonzero if input or result are not arrays of the same size on all ranks. */
static int is_by_rows(const struct halay_tensor_info *info)
{
    return info->collective >= HALAY_ALLGATHER && info->collective != HALAY_REDUCE;
}

/* Returns nonzero if only the root has a result, and this rank is not the root. */
static int has_no_result(const struct program *p, const struct halay_tensor_info *info)
{
    return (info->collective == HALAY_REDUCE || info->collective == HALAY_GATHER) && info->root != p->rank;
}

/* Returns the rows that a rank sends to another, by numbers in the set; all-gather and gather send the same to each.
 * Those of unregistered tensors change every other step. */
static size_t rows_given(const struct program *p, size_t t, int from, int to)
{
    const struct tensor_case *c = &p->tensors[t];
    size_t step = c->handle ? 0 : (size_t)p->step / 2;
    struct random r = { p->seed + t * 131 + step * 31 + (size_t)from * 7 + (is_dealt(&c->info) ? (size_t)to : 0) };

    if (c->info.collective == HALAY_SCATTER && c->of->ranks[from] != c->info.root)
        return 0;
    return random_below(&r, ROWS_MAX);
}

/* Returns the rank from which element i of a ragged result is; *index: the element of its input. */
static int source_of(const struct program *p, size_t t, size_t i, size_t *index)
{
    size_t columns = p->tensors[t].info.shape[1];
    int from = 0;

    for (size_t n; i >= (n = rows_given(p, t, from, p->tensors[t].of->rank) * columns); from++)
        i -= n;
    *index = i;
    for (int to = 0; is_dealt(&p->tensors[t].info) && to < p->tensors[t].of->rank; to++)
        *index += rows_given(p, t, from, to) * columns;
    return from;
}

/* Sets the rows of the input in this step, and the size of the result. */
static void set_rows(struct program *p, size_t t)
{
    struct tensor_case *c = &p->tensors[t];
    size_t columns = c->info.shape[1], given = 0, got = 0;

    if (c->info.collective == HALAY_REDUCE_SCATTER)
        c->out_count = halay_scatter_rows(c->info.shape[0], c->of->size, c->of->rank, NULL) * columns;
    if (c->info.collective == HALAY_REDUCE)
        c->out_count = has_no_result(p, &c->info) ? 0 : c->count;
    if (!is_ragged(&c->info))
        return;
    for (int r = 0; r < c->of->size; r++) {
        c->splits[r] = rows_given(p, t, c->of->rank, r);
        given = is_dealt(&c->info) ? given + c->splits[r] : c->splits[r];
        got += has_no_result(p, &c->info) ? 0 : rows_given(p, t, r, c->of->rank);
    }
    c->info.shape[0] = given;
    c->count = given * columns;
    c->out_count = got * columns;
}

static double reference_at(const struct program *p, size_t t, size_t i)
{
    const struct halay_tensor_info *info = &p->tensors[t].info;
    const struct set_case *of = p->tensors[t].of;
    size_t first = 0;

    if (is_ragged(info)) {
        int from = source_of(p, t, i, &i);
        return input_at(p, of->ranks[from], t, i);
    }
    if (info->collective == HALAY_REDUCE_SCATTER) {
        halay_scatter_rows(info->shape[0], of->size, of->rank, &first);
        i += first * info->shape[1];
    }
    if (info->collective == HALAY_BROADCAST)
        return input_at(p, info->root, t, i);
    double all = 0;
    for (int r = 0, first_one = 1; r < of->size; r++) {
        if (p->joined[of->ranks[r]])
            continue;
        double one = scale_value(info->dtype, input_at(p, of->ranks[r], t, i), info->prescale);
        all = first_one ? one : combine_values(info->reduction, all, one);
        first_one = 0;
    }
    if (info->dtype == HALAY_BOOL)
        return all > 0;
    return scale_value(info->dtype, info->reduction == HALAY_AVERAGE ? all / of->size : all, info->postscale);
}

static unsigned char *buffer_create(struct program *p, size_t bytes, int is_shared)
{
    void *data = NULL;

    if (is_shared)
        REQUIRE(halay_alloc(p->ctx, bytes + 2 * GUARD, &data) == HALAY_OK);
    else
        REQUIRE((data = malloc(bytes + 2 * GUARD)) != NULL);
    memset(data, 0xa5, bytes + 2 * GUARD);
    return (unsigned char *)data + GUARD;
}

static void buffer_free(struct program *p, unsigned char *data, int is_shared)
{
    if (is_shared)
        halay_free(p->ctx, data - GUARD);
    else
        free(data - GUARD);
}

/* Divides the buffers among several tensors of the same type, with the same result. */
static void make_group(struct tensor_case *c, struct random *common)
{
    size_t members = 1 + random_below(common, MEMBERS_MAX), at = 0, element = halay_dtype_size(c->info.dtype);

    for (size_t m = 0; m < members; m++) {
        size_t count = m + 1 == members ? c->count - at : random_below(common, c->count - at + 1);
        c->members[m] = (struct halay_member){ .in = c->in == c->out ? NULL : c->in + at * element,
                                               .out = c->out + at * element,
                                               .dtype = c->info.dtype,
                                               .dimensions = 1,
                                               .shape = { count } };
        at += count;
    }
    c->info.members = c->members;
    c->info.member_count = members;
    c->info.member_bytes = sizeof *c->members;
}

static void note_set(struct program *p, struct halay_process_set *set, int is_made)
{
    struct set_case *of = &p->sets[p->set_count++];

    *of = (struct set_case){
        .set = set, .size = halay_process_set_size(set), .rank = halay_process_set_rank(set), .is_made = is_made
    };
    halay_process_set_ranks(set, of->ranks);
}

static int is_set_of(const struct halay_process_set *set, const int *ranks, size_t count)
{
    int members[RANKS_MAX], found = 0;

    if (halay_process_set_size(set) != (int)count)
        return 0;
    halay_process_set_ranks(set, members);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            found += members[k] == ranks[i];
    return found == (int)count;
}

/* Returns the first set of these ranks that is not noted yet. Sets of the same ranks are listed in the order in which
 * they were made, other sets in any order. */
static struct halay_process_set *find_made(const struct program *p, const int *ranks, size_t count)
{
    int numbers[SETS_MAX];
    size_t there = halay_process_set_numbers(p->ctx, numbers, SETS_MAX);

    REQUIRE(there <= SETS_MAX);
    for (size_t i = 1; i < there; i++) {
        struct halay_process_set *set = halay_process_set_find(p->ctx, numbers[i]);
        int is_noted = 0;
        for (size_t k = 0; k < p->set_count; k++)
            is_noted |= p->sets[k].set == set;
        if (!is_noted && is_set_of(set, ranks, count))
            return set;
    }
    return NULL;
}

/* Notes the set of all ranks and those of the configuration, and makes a few that may overlap. */
static void make_sets(struct program *p, struct random *common)
{
    int numbers[SETS_MAX - SETS_MADE];
    size_t there = halay_process_set_numbers(p->ctx, numbers, SETS_MAX - SETS_MADE),
           made = random_below(common, SETS_MADE + 1);

    REQUIRE(there <= SETS_MAX - SETS_MADE);
    for (size_t i = 0; i < there; i++)
        note_set(p, halay_process_set_find(p->ctx, numbers[i]), 0);
    p->sets[0].set = random_below(common, 2) ? NULL : p->sets[0].set;
    REQUIRE(halay_barrier(p->ctx, "sets are counted") == HALAY_OK); /* before others make new ones */
    struct halay_process_set *own[SETS_MADE] = { NULL };
    int ranks[SETS_MADE][RANKS_MAX];
    size_t counts[SETS_MADE] = { 0 };
    for (size_t i = 0; i < made; i++) {
        int first = (int)random_below(common, (size_t)p->size), is_member = 0;
        for (int r = 0; r < p->size; r++)
            if (!r || random_below(common, 2))
                ranks[i][counts[i]++] = (first + r) % p->size;
        for (size_t k = 0; k < counts[i]; k++)
            is_member |= ranks[i][k] == p->rank;
        if (is_member)
            REQUIRE(halay_process_set_create(p->ctx, ranks[i], counts[i], &own[i]) == HALAY_OK);
    }
    REQUIRE(halay_barrier(p->ctx, "sets are made") == HALAY_OK);
    for (size_t i = 0; i < made; i++) {
        struct halay_process_set *set = find_made(p, ranks[i], counts[i]);
        REQUIRE(set && (!own[i] || own[i] == set));
        note_set(p, set, 1);
    }
}

/* Chooses a set and a name. Tensors of different sets may have the same name. */
static void choose_set(struct program *p, struct random *common, size_t t)
{
    struct tensor_case *c = &p->tensors[t];

    c->of = &p->sets[random_below(common, 2) ? 0 : random_below(common, p->set_count)];
    size_t named = t % 2 && p->tensors[t - 1].of != c->of ? t - 1 : t;
    snprintf(c->name, sizeof c->name, "tensor.%zu", named);
}

/* Draws the description that is the same on all ranks. */
static struct halay_tensor_info draw_info(struct random *common, struct tensor_case *c)
{
    static const size_t counts[] = { 0, 1, 2, 7, 64, 100, 1000, 4097, 30000 };
    struct halay_tensor_info info = { .struct_size = sizeof info, .name = c->name, .dimensions = 1, .set = c->of->set };
    c->count = counts[random_below(common, sizeof counts / sizeof *counts)];
    info.shape[0] = c->count;
    info.dtype = (enum halay_dtype)random_below(common, random_below(common, 2) ? 1 : HALAY_DTYPE_COUNT);
    info.collective =
        random_below(common, 3) ? HALAY_ALLREDUCE : (enum halay_collective)random_below(common, HALAY_SCATTER + 1);
    int is_reduced = info.collective == HALAY_ALLREDUCE || info.collective == HALAY_REDUCE_SCATTER ||
                     info.collective == HALAY_REDUCE;
    if (info.collective == HALAY_BROADCAST || info.collective > HALAY_BARRIER)
        info.root = c->of->ranks[random_below(common, (size_t)c->of->size)];
    if (is_reduced && !random_below(common, 3))
        info.reduction = (enum halay_reduction)random_below(common, HALAY_ADASUM);
    if (!halay_reduction_takes(info.reduction, info.dtype))
        info.reduction = HALAY_SUM;
    if (is_reduced && info.dtype != HALAY_BOOL && info.reduction <= HALAY_MAX && !random_below(common, 3)) {
        info.prescale = random_below(common, 2) ? 2 : 0;
        info.postscale = random_below(common, 2) ? 0.5 : 0;
    }
    if (info.collective == HALAY_ALLREDUCE && info.dtype == HALAY_F32 && !random_below(common, 4))
        info.wire = random_below(common, 2) ? HALAY_WIRE_F16 : HALAY_WIRE_BF16;
    info.priority = random_below(common, 4) ? 0 : (int)random_below(common, 3) - 1;
    c->out_count = c->count;
    if (is_by_rows(&info)) {
        info.dimensions = 2;
        info.shape[1] = counts[random_below(common, 7)];
        info.shape[0] = random_below(common, 2 * ROWS_MAX);
        c->count = info.collective == HALAY_BARRIER ? 0 : info.shape[0] * info.shape[1];
        c->out_count = c->count;
    }
    return info;
}

/* Gives a tensor memory of this rank's own choice. */
static void give_memory(struct program *p, struct random *own, struct tensor_case *c, struct halay_tensor_info *info)
{
    size_t element = halay_dtype_size(info->dtype);
    c->in_bytes = c->out_bytes = c->count * element;
    if (is_ragged(info))
        c->in_bytes = c->out_bytes = (size_t)(p->size * ROWS_MAX) * info->shape[1] * element;
    c->is_shared = random_below(own, 2) != 0;
    c->out = c->in = buffer_create(p, c->out_bytes, c->is_shared);
    int may_be_in_place = info->collective == HALAY_ALLREDUCE || info->collective == HALAY_REDUCE;
    if (is_by_rows(info) || (may_be_in_place && !random_below(own, 3)))
        c->in = buffer_create(p, c->in_bytes, c->is_shared);
    info->in = c->in == c->out ? NULL : c->in;
    c->is_held = is_by_rows(info) && !random_below(own, 3);
    info->out = c->is_held ? NULL : c->out;
    info->splits = is_dealt(info) ? c->splits : NULL;
    info->out_bytes = c->out_bytes;
}

/* Makes the same tensors on every rank, in memory of each rank's own choice. */
static void make_tensors(struct program *p, struct random *common, struct random *own)
{
    for (size_t t = 0; t < p->tensor_count; t++) {
        struct tensor_case *c = &p->tensors[t];
        choose_set(p, common, t);
        struct halay_tensor_info info = draw_info(common, c);
        int is_registered = random_below(common, 3) != 0;
        give_memory(p, own, c, &info);
        c->info = info;
        if (info.collective == HALAY_ALLREDUCE && !random_below(common, 5))
            make_group(c, common);
        if (!is_registered || c->of->rank < 0)
            continue;
        c->handle = (struct halay_tensor *)c; /* rows_given tests it */
        set_rows(p, t);
        REQUIRE(halay_register(p->ctx, &c->info, &c->handle) == HALAY_OK);
    }
}

static void count_call(void *arg, enum halay_status status, const char *text)
{
    struct tensor_case *c = arg;

    if (status != HALAY_OK || *text)
        c->bad_calls++;
    c->calls++;
}

static void submit_tensor(struct program *p, struct random *random, struct tensor_case *c)
{
    c->completion = (enum completion)random_below(random, !c->is_held ? COMPLETIONS : BY_CALLBACK);
    int has_callback = c->completion == BY_CALLBACK || !random_below(random, 3);
    struct halay_request **request = c->completion == BY_CALLBACK ? NULL : &c->request;
    halay_callback callback = has_callback ? count_call : NULL;

    c->calls = has_callback ? 0 : 1;
    enum halay_status status = c->handle ? halay_submit(c->handle, callback, c, request)
                                         : halay_submit_named(p->ctx, &c->info, callback, c, request);
    CHECK(status == HALAY_OK, "%s: %s", c->name, halay_status_string(status));
}

/* Checks the result of a request that has ended. */
static void check_request(const struct program *p, struct tensor_case *c)
{
    struct halay_result result = { .struct_size = sizeof result };
    size_t bytes = c->out_count * halay_dtype_size(c->info.dtype), rows = 0;
    int has_none = has_no_result(p, &c->info);

    CHECK(halay_request_result(c->request, &result) == HALAY_OK);
    if (c->info.collective == HALAY_BARRIER)
        return;
    CHECK(result.bytes == bytes && (c->is_held || c->info.members || result.data == (has_none ? NULL : c->out)),
          "'%s': %zu bytes, not %zu", c->name, result.bytes, bytes);
    CHECK((result.rows != NULL) == is_ragged(&c->info));
    for (int r = 0; result.rows && r < c->of->size; r++)
        rows += result.rows[r];
    CHECK(!result.rows || has_none || rows * c->info.shape[1] == c->out_count);
    CHECK(!is_by_rows(&c->info) || result.shape[0] * result.shape[1] == c->out_count);
    if (c->is_held && bytes)
        memcpy(c->out, result.data, bytes);
}

static void complete_tensor(const struct program *p, struct tensor_case *c)
{
    if (c->completion == BY_WAIT)
        CHECK(halay_wait(c->request, 60000) == HALAY_OK, "%s", c->name);
    while (c->completion == BY_TEST && halay_test(c->request) == HALAY_IN_PROGRESS)
        sched_yield();
    while (c->completion == BY_CALLBACK && !c->calls)
        sched_yield();
    CHECK(c->calls == 1 && !c->bad_calls, "%s: called %d times", c->name, c->calls);
    if (c->completion != BY_CALLBACK) {
        CHECK(halay_test(c->request) == HALAY_OK);
        check_request(p, c);
        halay_request_free(c->request);
    }
}

static void *submit_some(void *arg)
{
    __typeof__(((struct program *)0)->threads[0]) *thread = arg;
    struct program *p = thread->program;

    for (size_t i = 0; i < thread->count; i++) {
        submit_tensor(p, &thread->random, &p->tensors[thread->order[i]]);
        for (size_t n = random_below(&thread->random, 4); n; n--)
            sched_yield();
    }
    /* In another order: a polled tensor, or one with a callback, may be checked before another is waited for. */
    for (size_t i = thread->count; i-- > 0;)
        complete_tensor(p, &p->tensors[thread->order[i]]);
    return NULL;
}

static void fill_tensor(struct program *p, size_t t)
{
    struct tensor_case *c = &p->tensors[t];

    set_rows(p, t);
    for (size_t i = 0; i < c->out_count; i++)
        put_value(c->out, c->info.dtype, i, 99);
    for (size_t i = 0; i < c->count; i++)
        put_value(c->in, c->info.dtype, i, input_at(p, p->rank, t, i));
}

static int guards_hold(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        if (*(data - 1 - i) != 0xa5 || data[bytes + i] != 0xa5)
            return 0;
    return 1;
}

static const char *operation_name(const struct halay_tensor_info *info)
{
    static const char *const names[] = { "",        "broadcast", "allgather", "",       "alltoall",
                                         "barrier", "",          "gather",    "scatter" };

    return *names[info->collective] ? names[info->collective] : halay_reduction_name(info->reduction);
}

static void check_result(struct program *p, size_t t)
{
    struct tensor_case *c = &p->tensors[t];
    double tolerance = c->info.wire ? 0.1 : 0.02;
    size_t wrong = 0, first = 0;

    if (c->info.reduction != HALAY_AVERAGE)
        tolerance = 0;
    for (size_t i = 0; i < c->out_count; i++)
        if (fabs(get_value(c->out, c->info.dtype, i) - reference_at(p, t, i)) > tolerance && !wrong++)
            first = i;
    CHECK(!wrong, "step %d, '%s' (%s, %s, %zu elements, %s): %zu wrong, the first at %zu", p->step, c->name,
          operation_name(&c->info), halay_dtype_name(c->info.dtype), c->out_count,
          c->in == c->out ? "in place" : "out of place", wrong, first);
    for (size_t i = 0; c->in != c->out && i < c->count; i++)
        if (get_value(c->in, c->info.dtype, i) != input_at(p, p->rank, t, i)) {
            CHECK(0, "'%s': the input was changed", c->name);
            break;
        }
    CHECK(guards_hold(c->out, c->out_bytes) && guards_hold(c->in, c->in_bytes), "'%s': written outside of the buffer",
          c->name);
}

/* Returns nonzero if the operation is possible: ranks that have joined send no data, so some operations are refused. */
static int is_possible(const struct program *p, size_t t)
{
    enum halay_collective operation = p->tensors[t].info.collective;

    return !p->has_joined || operation == HALAY_ALLREDUCE || operation == HALAY_BARRIER;
}

static void play_step(struct program *p, struct random *common, struct random *own)
{
    size_t chosen[TENSORS], count = 0, share = 1 + random_below(common, 4), threads = 1 + random_below(own, THREADS);
    pthread_t ids[THREADS];

    for (size_t t = 0; t < p->tensor_count; t++)
        if (random_below(common, 4) < share && p->tensors[t].of->rank >= 0 && is_possible(p, t))
            chosen[count++] = t;
    for (size_t i = count; i > 1; i--) {
        size_t j = random_below(own, i), swap = chosen[i - 1];
        chosen[i - 1] = chosen[j];
        chosen[j] = swap;
    }
    for (size_t i = 0; i < count; i++)
        fill_tensor(p, chosen[i]);
    for (size_t k = 0; k < threads; k++) {
        p->threads[k].program = p;
        p->threads[k].random.state = random_next(own);
        p->threads[k].count = 0;
        for (size_t i = k; i < count; i += threads)
            p->threads[k].order[p->threads[k].count++] = chosen[i];
        if (k)
            REQUIRE(!pthread_create(&ids[k], NULL, submit_some, &p->threads[k]));
    }
    submit_some(&p->threads[0]);
    for (size_t k = 1; k < threads; k++)
        pthread_join(ids[k], NULL);
    for (size_t i = 0; i < count; i++)
        check_result(p, chosen[i]);
}

/* ---- sends and receives ---- */

struct message {
    int from, to, key;
    size_t count;
    unsigned char *data; /* on the sender and the receiver; NULL on other ranks */
    int is_shared;
    struct halay_request *request;
};

/* Made once: each message is another window of it. */
static void make_pattern(struct program *p)
{
    for (size_t i = 0; i < sizeof p->pattern; i++)
        p->pattern[i] = (unsigned char)(i * 11 + i / 251);
}

static const unsigned char *bytes_of(const struct program *p, size_t message)
{
    return p->pattern + message * MESSAGE_SHIFT;
}

static void submit_message(struct program *p, struct message *m, size_t number)
{
    int sends = m->from == p->rank;

    if (sends)
        memcpy(m->data, bytes_of(p, number), m->count);
    else
        memset(m->data, 0, m->count);
    enum halay_status status =
        sends ? halay_send_async(p->ctx, NULL, m->data, m->count, HALAY_U8, m->to, m->key, &m->request)
              : halay_receive_async(p->ctx, NULL, m->data, m->count, HALAY_U8, m->from, m->key, &m->request);
    REQUIRE(status == HALAY_OK);
}

static void end_message(struct program *p, struct message *m, size_t number)
{
    CHECK(halay_wait(m->request, 60000) == HALAY_OK, "%s", halay_request_text(m->request));
    CHECK(!memcmp(m->data, bytes_of(p, number), m->count) && guards_hold(m->data, m->count),
          "message %zu of %zu bytes from %d to %d", number, m->count, m->from, m->to);
    halay_request_free(m->request);
    buffer_free(p, m->data, m->is_shared);
}

/* Exchanges messages between any two ranks, in both directions at once; the n-th send of a tag matches the n-th
 * receive. A rank submits its sends in order and its receives in order, mixed at random. */
static void play_messages(struct program *p, struct random *common, struct random *own)
{
    static const size_t counts[] = { 0, 1, 7, 4096, 40000, MESSAGE_MOST };
    struct message messages[MESSAGES] = { { 0 } };
    size_t at[2] = { 0, 0 };

    for (size_t i = 0; i < MESSAGES && p->size > 1; i++) {
        struct message *m = &messages[i];
        m->from = (int)random_below(common, (size_t)p->size);
        m->to = (m->from + 1 + (int)random_below(common, (size_t)p->size - 1)) % p->size;
        m->key = (int)random_below(common, KEYS);
        m->count = counts[random_below(common, sizeof counts / sizeof *counts)];
        m->is_shared = random_below(own, 2) != 0;
        if (m->from == p->rank || m->to == p->rank)
            m->data = buffer_create(p, m->count, m->is_shared);
    }
    while (at[0] < MESSAGES || at[1] < MESSAGES) {
        size_t sends = at[0] < MESSAGES && (at[1] == MESSAGES || random_below(own, 2)), *next = &at[!sends];
        struct message *m = &messages[*next];
        if (m->data && (m->from == p->rank) == (int)sends)
            submit_message(p, m, *next);
        ++*next;
    }
    for (size_t i = 0; i < MESSAGES; i++)
        if (messages[i].data)
            end_message(p, &messages[i], i);
}

/* Submits a send or receive without a counterpart, and withdraws it. */
static void play_withdrawn(struct program *p, struct random *own)
{
    int peer = (p->rank + 1 + (int)random_below(own, (size_t)p->size - 1)) % p->size,
        is_late = random_below(own, 2) == 0;
    unsigned char data[8] = { 0 };
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .collective = random_below(own, 2) ? HALAY_SEND : HALAY_RECEIVE,
                                      .dtype = HALAY_U8,
                                      .dimensions = 1,
                                      .shape = { sizeof data },
                                      .in = data,
                                      .out = data,
                                      .peer = peer,
                                      .tag = WITHDRAWN_KEY + p->rank,
                                      .timeout_ms = is_late ? 1 : 0 };
    struct halay_request *request;

    REQUIRE(halay_submit_named(p->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    CHECK(is_late || halay_cancel(request) == HALAY_OK);
    CHECK(halay_wait(request, 60000) == (is_late ? HALAY_ERR_TIMEOUT : HALAY_ERR_CANCELED), "%s",
          halay_request_text(request));
    halay_request_free(request);
}

/* One rank receives from any rank, and learns the senders. */
static void play_any(struct program *p, struct random *common, struct random *own)
{
    int receiver = (int)random_below(common, (size_t)p->size), seen[RANKS_MAX] = { 0 };
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *request;
    int32_t rank = p->rank;

    if (p->size > 1 && random_below(own, 2))
        play_withdrawn(p, own);
    if (p->rank != receiver)
        CHECK(halay_send(p->ctx, NULL, &rank, 1, HALAY_I32, receiver, ANY_KEY) == HALAY_OK);
    for (int i = 1; i < p->size && p->rank == receiver; i++) {
        REQUIRE(halay_receive_async(p->ctx, NULL, &rank, 1, HALAY_I32, HALAY_ANY_RANK, ANY_KEY, &request) == HALAY_OK);
        CHECK(halay_wait(request, 60000) == HALAY_OK && halay_request_result(request, &result) == HALAY_OK);
        CHECK(result.peer == rank && !seen[rank]++, "%d of rank %d", rank, result.peer);
        halay_request_free(request);
    }
}

/* Some ranks join; the others reduce without them, and then join. The last step, since a join needs all ranks. */
static void play_joined(struct program *p, struct random *common, struct random *own)
{
    int last = -1;

    for (int r = 0; r < p->size; r++)
        p->joined[r] = random_below(common, 2) != 0;
    p->joined[random_below(common, (size_t)p->size)] = 0;
    p->has_joined = 1;
    if (!p->joined[p->rank])
        play_step(p, common, own);
    CHECK(halay_join(p->ctx, &last) == HALAY_OK);
    int32_t same[2] = { last, -last };
    CHECK(halay_allreduce(p->ctx, "last joined", NULL, same, 2, HALAY_I32, HALAY_MAX) == HALAY_OK);
    CHECK(last >= 0 && last < p->size && same[0] == last && same[1] == -last, "rank %d joined last, or %d", last,
          same[0]);
}

int program_run(struct halay_context *ctx, uint64_t seed, int steps)
{
    struct program *p = calloc(1, sizeof *p);
    struct random common = { seed };

    REQUIRE(p);
    p->ctx = ctx;
    p->seed = seed;
    p->rank = halay_rank(ctx);
    p->size = halay_size(ctx);
    struct random own = { seed * 31 + (uint64_t)p->rank + 1 };
    p->tensor_count = random_below(&common, 4) ? TENSORS_FEW : TENSORS;
    make_pattern(p);
    make_sets(p, &common);
    make_tensors(p, &common, &own);
    for (p->step = 0; p->step < steps; p->step++) {
        play_step(p, &common, &own);
        play_messages(p, &common, &own);
        play_any(p, &common, &own);
    }
    play_joined(p, &common, &own);
    for (size_t t = 0; t < p->tensor_count; t++) {
        struct tensor_case *c = &p->tensors[t];
        CHECK(halay_unregister(c->handle) == HALAY_OK);
        if (c->in != c->out)
            buffer_free(p, c->in, c->is_shared);
        buffer_free(p, c->out, c->is_shared);
    }
    for (size_t i = 0; i < p->set_count; i++)
        CHECK(!p->sets[i].is_made || p->sets[i].rank < 0 || halay_process_set_remove(p->sets[i].set) == HALAY_OK);
    CHECK(halay_barrier(p->ctx, "sets are removed") == HALAY_OK); /* on the other ranks too */
    free(p);
    return test_failed;
}

/* A few tensors that are summed several times, and a hash of the results. */
struct bits {
    struct halay_context *ctx;
    struct halay_tensor *tensors[TENSORS_FEW];
    struct halay_request *requests[TENSORS_FEW];
    struct halay_tensor_info info[TENSORS_FEW];
    char names[TENSORS_FEW][16];
    float *data[TENSORS_FEW];
    size_t order[TENSORS_FEW];
    uint64_t hash;
};

/* Makes the tensors. again: a process set of all ranks, for some of them. */
static void make_bits(struct bits *b, struct random *common, struct halay_process_set *again)
{
    enum { COUNT_MAX = 3000 };

    for (size_t t = 0; t < TENSORS_FEW; t++) {
        snprintf(b->names[t], sizeof b->names[t], "bits.%zu", t);
        size_t count = 1 + random_below(common, COUNT_MAX);
        REQUIRE(halay_alloc(b->ctx, count * sizeof(float), (void **)&b->data[t]) == HALAY_OK);
        b->info[t] = (struct halay_tensor_info){ .struct_size = sizeof b->info[t],
                                                 .name = b->names[t],
                                                 .dimensions = 1,
                                                 .shape = { count },
                                                 .out = b->data[t],
                                                 .set = t % 7 == 3 ? again : NULL };
        if (random_below(common, 8))
            REQUIRE(halay_register(b->ctx, &b->info[t], &b->tensors[t]) == HALAY_OK);
        b->order[t] = t;
    }
}

static void run_bits(struct bits *b, uint64_t seed, int step, struct random *own, int alone)
{
    for (size_t t = 0; t < TENSORS_FEW; t++) {
        struct random values = { seed ^ (t * 7919 + (size_t)step * 104729 + (size_t)halay_rank(b->ctx) * 1299709) };
        for (size_t i = 0; i < b->info[t].shape[0]; i++)
            b->data[t][i] = (float)((double)random_next(&values) / 1e18 - 9) * (float)(1 + i % 1000);
    }
    for (size_t i = TENSORS_FEW; i > 1; i--) {
        size_t j = alone ? i - 1 : random_below(own, i), swap = b->order[i - 1];
        b->order[i - 1] = b->order[j];
        b->order[j] = swap;
    }
    for (size_t i = 0; i < TENSORS_FEW; i++) {
        size_t t = b->order[i];
        CHECK((b->tensors[t] ? halay_submit(b->tensors[t], NULL, NULL, &b->requests[t])
                             : halay_submit_named(b->ctx, &b->info[t], NULL, NULL, &b->requests[t])) == HALAY_OK);
        if (alone)
            CHECK(halay_wait(b->requests[t], 60000) == HALAY_OK);
        for (size_t n = random_below(own, 30); n > 25; n--)
            sched_yield();
    }
    for (size_t i = 0; i < TENSORS_FEW; i++) {
        CHECK(halay_wait(b->requests[b->order[i]], 60000) == HALAY_OK);
        halay_request_free(b->requests[b->order[i]]);
    }
    for (size_t t = 0; t < TENSORS_FEW; t++)
        for (size_t i = 0; i < b->info[t].shape[0]; i++) {
            uint32_t word;
            memcpy(&word, &b->data[t][i], sizeof word);
            b->hash = (b->hash ^ word) * 1099511628211u;
        }
}

uint64_t program_bits(struct halay_context *ctx, uint64_t seed, uint64_t order_seed, int alone)
{
    enum { STEPS = 3 };
    struct random common = { seed }, own = { order_seed * 1009 + (uint64_t)halay_rank(ctx) };
    struct bits b = { .ctx = ctx, .hash = 14695981039346656037u };
    struct halay_process_set *again;
    int ranks[RANKS_MAX];

    halay_process_set_ranks(halay_process_set_find(ctx, 0), ranks);
    enum halay_status status = halay_process_set_create(ctx, ranks, (size_t)halay_size(ctx), &again);
    REQUIRE(status == HALAY_OK);
    make_bits(&b, &common, again);
    for (int step = 0; step < STEPS; step++)
        run_bits(&b, seed, step, &own, alone);
    for (size_t t = 0; t < TENSORS_FEW; t++) {
        CHECK(halay_unregister(b.tensors[t]) == HALAY_OK);
        halay_free(ctx, b.data[t]);
    }
    CHECK(halay_process_set_remove(again) == HALAY_OK);
    return test_failed ? 0 : b.hash;
}
