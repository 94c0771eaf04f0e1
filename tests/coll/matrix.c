/* SPDX-License-Identifier: Apache-2.0
 *
 * Every algorithm by name × type × reduction × counts × in and out of place × shared, private and mixed buffers, which
 * begin at a cache line, in the middle of one, or at another place of it on each rank. Among floating elements there
 * are NaNs, infinities, zeros of both signs and subnormal numbers; integers overflow.
 *
 * Each rank knows what every rank gives (fill()), so it computes the expected result by itself: with the plain
 * reduction along the tree, whose bits the tree algorithms must give whatever the count; in double with a tolerance for
 * the others. That all ranks have the same bits is seen by exchanging a hash of all results once per algorithm and
 * type. Around the data lie guards.
 */
#include "tests/coll/matrix.h"
#include "base/half.h"
#include "base/memory.h"
#include "collectives/api/calls.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include "collectives/group/nodes.h"
#include "halay_tools.h"
#include "tests/coll/pieces.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LARGE: several chunks and lanes. CHUNK_AND_ONE: a chunk of shared memory has one less of 8 bytes. HUGE_COUNT:
 * slots of shared memory and halves of packed lists are used again and again. */
enum { GUARD = 5, GUARD_BYTES = 128 };
enum { RANKS_MAX = 8, LARGE = 100003, CHUNK_AND_ONE = 32769, HUGE_COUNT = 2500007, HUGE_RANKS = 3 };

enum where { SHARED, PRIVATE, MIXED, WHERES };
static const char *const where_names[WHERES] = { [SHARED] = "shared", [PRIVATE] = "private", [MIXED] = "mixed" };

/* PLAIN: finite. OPERANDS: also what is special of floating types. FACTORS: the same, and no product that overflows. */
enum kind { PLAIN, OPERANDS, FACTORS, KINDS };

/* How many windows of the same values there are. */
enum { WINDOWS = 61 };

/* What the ranks may give, made when it is needed first. */
struct values {
    unsigned char *of_rank[RANKS_MAX]; /* owned */
    size_t count;
};

struct run {
    struct halay_group *group;
    int rank, size, quick;
    int failed;
    int is_shared; /* memory is shared and the algorithm makes use of it: it matters where a buffer lies */
    unsigned char *memory[2][2];     /* [shared, private][in, out] */
    unsigned char *given[RANKS_MAX]; /* what each rank gives: a window of values, another one each time */
    struct values values[KINDS][HALAY_DTYPE_COUNT];
    size_t values_bytes; /* of a rank, at most */
    unsigned fills;
    unsigned char *expected;
    uint64_t hash;
    unsigned cases; /* so far: they take turns in how their buffers are aligned */
};

static void fail(struct run *run, const char *what, const char *algorithm, enum halay_dtype dtype,
                 enum halay_reduction op, size_t count, int in_place, enum where where)
{
    if (run->failed++ < 20)
        printf("rank %d of %d: %s: algorithm %s, %s %s, %zu elements, %s, buffers %s\n", run->rank, run->size, what,
               algorithm, halay_dtype_name(dtype), halay_reduction_name(op), count,
               in_place ? "in place" : "out of place", where_names[where]);
}

/* ---- data ---- */

static double value(int rank, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)(x % 4001) / 16.0 - 125.0;
}

static void put(enum halay_dtype dtype, void *array, size_t i, double v)
{
    switch (dtype) {
    case HALAY_F32:
        ((float *)array)[i] = (float)(v * 1.0001);
        break;
    case HALAY_F64:
        ((double *)array)[i] = v * 1.0001;
        break;
    case HALAY_F16:
        ((uint16_t *)array)[i] = halay_f32_to_f16((float)v);
        break;
    case HALAY_BF16:
        ((uint16_t *)array)[i] = halay_f32_to_bf16((float)v);
        break;
    case HALAY_I32:
        ((int32_t *)array)[i] = (int32_t)(v * 16) * 1048576;
        break;
    case HALAY_I64:
        ((int64_t *)array)[i] = (int64_t)(v * 16) * 1048576;
        break;
    case HALAY_U16:
    case HALAY_I16:
        ((uint16_t *)array)[i] = (uint16_t)(int)(v * 256);
        break;
    case HALAY_BOOL:
        ((uint8_t *)array)[i] = (uint8_t)((int)v % 4 & (int)v % 3); /* mostly 0 and 1, sometimes 2 and 255 */
        break;
    default:
        ((uint8_t *)array)[i] = (uint8_t)(int)(v * 16);
        break;
    }
}

static double get(enum halay_dtype dtype, const void *array, size_t i)
{
    switch (dtype) {
    case HALAY_F32:
        return (double)((const float *)array)[i];
    case HALAY_F64:
        return ((const double *)array)[i];
    case HALAY_F16:
        return (double)halay_f16_to_f32(((const uint16_t *)array)[i]);
    case HALAY_BF16:
        return (double)halay_bf16_to_f32(((const uint16_t *)array)[i]);
    default: /* integers are compared exactly */
        return NAN;
    }
}

static double value_of_kind(enum kind kind, int rank, size_t i)
{
    static const double special[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 6e-8, -1e-40, 1e-310 };
    double v = value(rank, i);

    if (kind == PLAIN)
        return v;
    unsigned dice = (unsigned)(fabs(v) * 16);
    if (dice % 32 == 5)
        return special[(dice >> 5) % (kind == FACTORS ? 5 : 8)]; /* an underflow times infinity would be a NaN */
    return kind == FACTORS ? copysign(0.5 + fabs(v) / 100, v) : v;
}

/* Values are made once for all cases (to make them anew takes half of the time). Each case takes them from another
 * place on, so that what is left of the case before is never right. */
static void fill(struct run *run, enum halay_dtype dtype, enum kind kind, size_t count)
{
    kind = dtype > HALAY_BF16 ? PLAIN : kind;
    struct values *v = &run->values[kind][dtype];

    count += WINDOWS;
    for (int r = 0; r < run->size; r++) {
        if (!v->of_rank[r])
            v->of_rank[r] = malloc(run->values_bytes);
        REQUIRE(v->of_rank[r]);
        for (size_t i = v->count; i < count; i++)
            put(dtype, v->of_rank[r], i, value_of_kind(kind, r, i));
        run->given[r] = v->of_rank[r] + run->fills % WINDOWS * halay_dtype_size(dtype);
    }
    v->count = count > v->count ? count : v->count;
    run->fills++;
}

static void forget_values(struct run *run)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++)
            for (int r = 0; r < run->size; r++)
                free(run->values[kind][dtype].of_rank[r]);
}

static enum kind kind_of(enum halay_reduction op)
{
    return op == HALAY_PRODUCT ? FACTORS : OPERANDS;
}

static double combine(enum halay_reduction op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return (double)NAN;
    switch (op) {
    case HALAY_MIN:
        return a < b || (a == b && signbit(a)) ? a : b;
    case HALAY_MAX:
        return a > b || (a == b && !signbit(a)) ? a : b;
    case HALAY_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static double plain_reference(struct run *run, enum halay_dtype dtype, enum halay_reduction op, size_t i, double *scale)
{
    double result = get(dtype, run->given[0], i);

    *scale = fabs(result);
    for (int r = 1; r < run->size; r++) {
        double v = get(dtype, run->given[r], i);
        result = combine(op, result, v);
        *scale = op == HALAY_PRODUCT ? fabs(result) : *scale + fabs(v);
    }
    return op == HALAY_AVERAGE ? result / run->size : result;
}

/* Each of `size` steps may round; what is subnormal, by the least number. */
static int is_near(enum halay_dtype dtype, enum halay_reduction op, double got, double want, double scale, int size)
{
    static const double epsilons[HALAY_DTYPE_COUNT] = {
        [HALAY_F16] = 1e-3, [HALAY_BF16] = 8e-3, [HALAY_F32] = 2e-7, [HALAY_F64] = 1e-15
    };
    static const double leasts[HALAY_DTYPE_COUNT] = {
        [HALAY_F16] = 0x1p-24, [HALAY_BF16] = 0x1p-133, [HALAY_F32] = 0x1p-149, [HALAY_F64] = 5e-324
    };
    double epsilon = epsilons[dtype], least = leasts[dtype];

    if (isnan(want))
        return isnan(got);
    if (isinf(want) || op == HALAY_MIN || op == HALAY_MAX)
        return got == want && !signbit(got) == !signbit(want);
    return fabs(got - want) <= (epsilon * scale + least) * size;
}

static void add_hash(struct run *run, const unsigned char *data, size_t bytes)
{
    size_t i = 0;

    for (uint64_t word; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, data + i, sizeof word);
        run->hash = (run->hash ^ word) * 1099511628211u;
        run->hash ^= run->hash >> 32;
    }
    for (; i < bytes; i++)
        run->hash = (run->hash ^ data[i]) * 1099511628211u;
}

/* Everybody must have hashed the same results. */
static void compare_hashes(struct run *run, const char *what, enum halay_dtype dtype)
{
    int64_t mine = (int64_t)run->hash, all[RANKS_MAX] = { 0 };

    if (halay_group_allgather(run->group, &mine, all, 1, HALAY_I64) != HALAY_OK)
        fail(run, "exchange of hashes failed", what, dtype, HALAY_SUM, 0, 0, PRIVATE);
    for (int r = 0; r < run->size; r++)
        if (all[r] != mine)
            fail(run, "ranks have different bits", what, dtype, HALAY_SUM, 0, 0, PRIVATE);
    run->hash = 14695981039346656037u;
}

static int is_here_shared(const struct run *run, enum where where)
{
    return where == SHARED || (where == MIXED && run->rank % 2 == 0);
}

static unsigned char *buffer(struct run *run, enum where where, int out, size_t bytes)
{
    unsigned char *memory = run->memory[is_here_shared(run, where) ? 0 : 1][out];

    memset(memory, 0xa5, bytes);
    return memory;
}

static int guards_hold(const unsigned char *memory, size_t guard, size_t bytes)
{
    for (size_t i = 0; i < guard; i++)
        if (memory[i] != 0xa5 || memory[guard + bytes + i] != 0xa5)
            return 0;
    return 1;
}

/* ---- all-reduce ---- */

/* Is data the result of elements [start, start + count)? */
static int is_right_part(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype,
                         enum halay_reduction op, size_t start, size_t count, const unsigned char *data)
{
    size_t element = halay_dtype_size(dtype), bytes = count * element;

    if (run->size == 1)
        return !memcmp(data, run->given[0] + start * element, bytes);
    if (a->flags & HALAY_ALGORITHM_TREE || dtype > HALAY_BF16) {
        void *dst[1] = { run->expected };
        const void *src[RANKS_MAX];
        for (int r = 0; r < run->size; r++)
            src[r] = run->given[r] + start * element;
        halay_reducer_get(0)->reduce[dtype][op](dst, 1, src, run->size, count, op == HALAY_AVERAGE ? run->size : 1);
        return !memcmp(data, run->expected, bytes);
    }
    for (size_t i = 0; i < count; i++) {
        double scale, want = plain_reference(run, dtype, op, start + i, &scale), got = get(dtype, data, i);
        if (!is_near(dtype, op, got, want, scale, run->size))
            return 0;
    }
    return 1;
}

static int is_right(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype, enum halay_reduction op,
                    size_t count, const unsigned char *data)
{
    return is_right_part(run, a, dtype, op, 0, count, data);
}

/* Bytes before a buffer: to a cache line; to the middle of one; to another element of it on each rank. All ranks count
 * their cases alike. */
static size_t lead(const struct run *run, size_t element, int out)
{
    size_t elements = (size_t)(run->rank * 3 + out * 7) % 11;

    if (run->cases % 3 == 0)
        return 64;
    return GUARD * 8 + (run->cases % 3 == 1 ? 0 : elements * element);
}

/* One rank, another in each case, compares the result with the expected one; the hashes compare the others with it. */
static void allreduce_case(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype,
                           enum halay_reduction op, size_t count, int in_place, enum where where)
{
    size_t element = halay_dtype_size(dtype), bytes = count * element, room = bytes + 4 * GUARD_BYTES;
    unsigned char *in = buffer(run, where, 0, room), *out = in_place ? in : buffer(run, where, 1, room);
    size_t before_in = lead(run, element, 0), before_out = in_place ? before_in : lead(run, element, 1);

    run->cases++;
    fill(run, dtype, kind_of(op), count);
    memcpy(in + before_in, run->given[run->rank], bytes);
    enum halay_status status = halay_group_allreduce(run->group, in + before_in, out + before_out, count, dtype, op);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), a->name, dtype, op, count, in_place, where);
    else if (run->cases % (unsigned)run->size == (unsigned)run->rank &&
             !is_right(run, a, dtype, op, count, out + before_out))
        fail(run, "wrong result", a->name, dtype, op, count, in_place, where);
    if (!guards_hold(in, before_in, bytes) || !guards_hold(out, before_out, bytes))
        fail(run, "wrote outside", a->name, dtype, op, count, in_place, where);
    if (!in_place && memcmp(in + before_in, run->given[run->rank], bytes))
        fail(run, "changed the input", a->name, dtype, op, count, in_place, where);
    add_hash(run, out + before_out, bytes);
}

static int wheres(const struct run *run)
{
    return run->is_shared ? WHERES : 1;
}

static void allreduce_type(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype)
{
    size_t n = (size_t)run->size, counts[] = { 0, 1, n - 1, n, n + 1, 97 };

    for (int op = 0; op < HALAY_ADASUM; op++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts && halay_reduction_takes(op, dtype); k++)
            for (int w = 0; w < wheres(run); w++)
                for (int in_place = 0; in_place < 2; in_place++)
                    if (op == HALAY_SUM ? !run->quick || k > 3 : k > 3 && (in_place + w + (int)k) % 2 == 0)
                        allreduce_case(run, a, dtype, (enum halay_reduction)op, counts[k], in_place, (enum where)w);
    compare_hashes(run, a->name, dtype);
}

static void allreduce_all(struct run *run, const struct halay_algorithm *a)
{
    for (int t = 0; t < HALAY_DTYPE_COUNT; t++)
        if (!run->quick || t == HALAY_F32 || t == HALAY_BF16)
            allreduce_type(run, a, (enum halay_dtype)t);
    size_t large = run->quick ? LARGE / 10 : LARGE;
    for (int w = 0; w < wheres(run); w++)
        allreduce_case(run, a, HALAY_F32, HALAY_SUM, large, w & 1, (enum where)w);
    for (int w = 0; w < wheres(run); w++)
        allreduce_case(run, a, HALAY_F16, HALAY_AVERAGE, large / 2, !(w & 1), (enum where)w);
    compare_hashes(run, a->name, HALAY_F32);
}

/* ---- broadcast ---- */

static void broadcast_case(struct run *run, const char *name, enum halay_dtype dtype, size_t count, int root,
                           enum where where)
{
    size_t element = halay_dtype_size(dtype), guard = GUARD * element, bytes = count * element;
    unsigned char *buf = buffer(run, where, 0, bytes + 2 * guard);

    fill(run, dtype, PLAIN, count);
    if (run->rank == root)
        memcpy(buf + guard, run->given[root], bytes);
    enum halay_status status = halay_group_broadcast(run->group, buf + guard, count, dtype, root);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), name, dtype, HALAY_SUM, count, 1, where);
    else if (memcmp(buf + guard, run->given[root], bytes))
        fail(run, "wrong broadcast", name, dtype, HALAY_SUM, count, 1, where);
    if (!guards_hold(buf, guard, bytes))
        fail(run, "broadcast wrote outside", name, dtype, HALAY_SUM, count, 1, where);
}

static void broadcast_all(struct run *run, const struct halay_algorithm *a)
{
    static const enum halay_dtype types[] = { HALAY_F32, HALAY_BF16, HALAY_I64 };
    size_t n = (size_t)run->size, counts[] = { 0, 1, n - 1, n, n + 1, 97 };

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int root = 0; root < run->size; root++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                broadcast_case(run, a->name, types[t], counts[k], root, (enum where)((k + t) % (size_t)wheres(run)));
    for (int w = 0; w < wheres(run); w++) {
        broadcast_case(run, a->name, HALAY_F64, run->quick ? LARGE / 10 : LARGE, run->size - 1, (enum where)w);
        broadcast_case(run, a->name, HALAY_F64, CHUNK_AND_ONE, 0, (enum where)w);
    }
}

/* ---- all-gather ---- */

static void allgather_case(struct run *run, const char *name, enum halay_dtype dtype, const size_t *counts, int even,
                           int in_place, enum where where)
{
    size_t element = halay_dtype_size(dtype), guard = GUARD * element, all = 0, mine = counts[run->rank], at = 0;
    enum halay_status status;

    for (int r = 0; r < run->size; r++) {
        at = r == run->rank ? all : at;
        all += counts[r];
    }
    unsigned char *out = buffer(run, where, 1, all * element + 2 * guard), *place = out + guard + at * element;
    unsigned char *in = in_place ? place : buffer(run, where, 0, mine * element + 2 * guard) + guard;
    fill(run, dtype, PLAIN, all);
    memcpy(in, run->given[run->rank], mine * element);
    if (even)
        status = halay_group_allgather(run->group, in, out + guard, mine, dtype);
    else
        status = halay_group_allgatherv(run->group, in, out + guard, counts, dtype);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), name, dtype, HALAY_SUM, all, in_place, where);
    size_t start = 0;
    for (int r = 0; r < run->size; start += counts[r++])
        if (memcmp(out + guard + start * element, run->given[r], counts[r] * element)) {
            fail(run, "wrong all-gather", name, dtype, HALAY_SUM, all, in_place, where);
            break;
        }
    if (!guards_hold(out, guard, all * element))
        fail(run, "all-gather wrote outside", name, dtype, HALAY_SUM, all, in_place, where);
}

static void allgather_all(struct run *run, const struct halay_algorithm *a)
{
    static const size_t each[] = { 0, 1, 2, 97 };
    static const size_t ragged[][RANKS_MAX] = { { 0, 3, 1, 0, 97, 2, 0, 5 },
                                                { 41, 0, 0, 0, 0, 0, 0, 1 },
                                                { 20011, 7, 0, 9001, 1, 1, 300, 0 } };
    static const enum halay_dtype types[] = { HALAY_F32, HALAY_F16, HALAY_F64 };

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int w = 0; w < wheres(run); w++) {
                for (size_t k = 0; k < sizeof each / sizeof *each; k++) {
                    size_t counts[RANKS_MAX];
                    for (int r = 0; r < run->size; r++)
                        counts[r] = each[k];
                    allgather_case(run, a->name, types[t], counts, 1, in_place, (enum where)w);
                }
                for (size_t k = 0; k < sizeof ragged / sizeof *ragged; k++)
                    allgather_case(run, a->name, types[t], ragged[k], 0, in_place, (enum where)w);
            }
}

/* ---- adasum ---- */

enum { TENSORS = 5 };

/* Join b to a, in double. */
static void adasum_join(double *a, const double *b, size_t count)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < count; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    double of_a = aa == 0 ? 1 : 1 - ab / (2 * aa), of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
    for (size_t i = 0; i < count; i++)
        a[i] = of_a * a[i] + of_b * b[i];
}

/* What comes of elements [first, first + count) of what the ranks gave; *scale: the largest of them. */
static double *adasum_reference(struct run *run, enum halay_dtype dtype, size_t first, size_t count, double *scale)
{
    double *v = calloc((size_t)run->size * count + 1, sizeof *v);

    REQUIRE(v);
    *scale = 0;
    for (int r = 0; r < run->size; r++)
        for (size_t i = 0; i < count; i++) {
            v[(size_t)r * count + i] = get(dtype, run->given[r], first + i);
            *scale = fmax(*scale, fabs(v[(size_t)r * count + i]));
        }
    for (int d = 1; d < run->size; d *= 2)
        for (int r = 0; r + d < run->size; r += 2 * d)
            adasum_join(v + (size_t)r * count, v + (size_t)(r + d) * count, count);
    return v;
}

static int adasum_is_right(struct run *run, enum halay_dtype dtype, const size_t *counts, size_t tensors,
                           const unsigned char *data)
{
    static const double epsilons[HALAY_DTYPE_COUNT] = {
        [HALAY_F16] = 1e-3, [HALAY_BF16] = 8e-3, [HALAY_F32] = 1e-6, [HALAY_F64] = 1e-13
    };
    double scale, epsilon = epsilons[dtype];
    size_t first = 0, wrong = 0;

    for (size_t t = 0; t < tensors; first += counts[t++]) {
        double *want = adasum_reference(run, dtype, first, counts[t], &scale);
        for (size_t i = 0; i < counts[t]; i++)
            wrong += !(fabs(get(dtype, data, first + i) - want[i]) <= epsilon * scale * run->size);
        free(want);
    }
    return !wrong;
}

/* whole: as one tensor, by the call for all reductions. */
static void adasum_case(struct run *run, enum halay_dtype dtype, const size_t *counts, size_t tensors, int whole,
                        int in_place, enum where where)
{
    size_t element = halay_dtype_size(dtype), count = 0;

    for (size_t t = 0; t < tensors; t++)
        count += counts[t];
    size_t bytes = count * element, room = bytes + 4 * GUARD_BYTES;
    unsigned char *in = buffer(run, where, 0, room), *out = in_place ? in : buffer(run, where, 1, room);
    size_t before_in = lead(run, element, 0), before_out = in_place ? before_in : lead(run, element, 1);
    enum halay_status status;

    run->cases++;
    fill(run, dtype, PLAIN, count);
    memcpy(in + before_in, run->given[run->rank], bytes);
    if (whole)
        status = halay_group_allreduce(run->group, in + before_in, out + before_out, count, dtype, HALAY_ADASUM);
    else
        status = halay_group_allreduce_adasum(run->group, in + before_in, out + before_out, counts, tensors, dtype);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), "adasum", dtype, HALAY_ADASUM, count, in_place, where);
    else if (!adasum_is_right(run, dtype, whole ? &count : counts, whole ? 1 : tensors, out + before_out))
        fail(run, "wrong result", "adasum", dtype, HALAY_ADASUM, count, in_place, where);
    if (!guards_hold(in, before_in, bytes) || !guards_hold(out, before_out, bytes))
        fail(run, "wrote outside", "adasum", dtype, HALAY_ADASUM, count, in_place, where);
    if (!in_place && memcmp(in + before_in, run->given[run->rank], bytes))
        fail(run, "changed the input", "adasum", dtype, HALAY_ADASUM, count, in_place, where);
    add_hash(run, out + before_out, bytes);
}

/* By hand, four elements of each tensor: orthogonal vectors are added, equal ones stay, zeros change nothing, and a NaN
 * spoils its own tensor only, every element of it canonically. */
static void adasum_by_hand(struct run *run)
{
    enum { LENGTH = RANKS_MAX };
    const size_t counts[] = { LENGTH, LENGTH, 0, LENGTH, LENGTH };
    float *in = (float *)(void *)run->memory[1][0], *out = (float *)(void *)run->memory[1][1];
    const float *orthogonal = out, *equal = out + LENGTH, *alone = out + 2 * LENGTH, *nan = out + 3 * LENGTH;
    int n = run->size, wrong = 0;

    for (int i = 0; i < LENGTH; i++) {
        in[i] = i == run->rank ? (float)i + 1 : 0;
        in[LENGTH + i] = (float)i - 2.5f;
        in[2 * LENGTH + i] = run->rank == n - 1 ? (float)i : 0;
        in[3 * LENGTH + i] = run->rank == n - 1 && i == 1 ? NAN : 1;
    }
    if (halay_group_allreduce_adasum(run->group, in, out, counts, TENSORS, HALAY_F32) != HALAY_OK)
        fail(run, "failed", "adasum", HALAY_F32, HALAY_ADASUM, 4 * LENGTH, 0, PRIVATE);
    for (int i = 0; i < LENGTH; i++) {
        wrong += orthogonal[i] != (i < n ? (float)i + 1 : 0);
        wrong += equal[i] != (float)i - 2.5f;
        wrong += alone[i] != (float)i;
        wrong += n > 1 && halay_f32_bits(nan[i]) != 0x7fc00000;
    }
    if (wrong)
        fail(run, "wrong by hand", "adasum", HALAY_F32, HALAY_ADASUM, 4 * LENGTH, 0, PRIVATE);
}

/* A list of pieces: each is a tensor. */
static void adasum_pieces(struct run *run)
{
    size_t counts[] = { 3, 0, 1001, 64, 7 }, first = 0;
    unsigned char *memory = run->memory[0][0], *result = run->memory[1][1];
    struct halay_piece pieces[TENSORS];
    struct halay_coll *c = NULL;

    fill(run, HALAY_F16, PLAIN, 1075);
    for (size_t t = 0; t < TENSORS; first += counts[t++]) {
        pieces[t] = (struct halay_piece){ .data = memory + (first + 5 * t) * 2, .count = counts[t] };
        memcpy(pieces[t].data, run->given[run->rank] + first * 2, counts[t] * 2);
    }
    enum halay_status status = allreduce_pieces_start(run->group, pieces, TENSORS, HALAY_F16, HALAY_ADASUM, &c);
    if (status == HALAY_OK)
        status = halay_coll_wait(c, -1);
    halay_coll_end(c);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), "adasum", HALAY_F16, HALAY_ADASUM, first, 1, SHARED);
    for (size_t t = 0, at = 0; t < TENSORS; at += counts[t++])
        memcpy(result + at * 2, pieces[t].data, counts[t] * 2);
    if (!adasum_is_right(run, HALAY_F16, counts, TENSORS, result))
        fail(run, "wrong result of a list of pieces", "adasum", HALAY_F16, HALAY_ADASUM, first, 1, SHARED);
    add_hash(run, result, first * 2);
}

static void adasum_all(struct run *run)
{
    size_t n = (size_t)run->size, large = run->quick ? LARGE / 10 : LARGE;
    const size_t counts[][TENSORS] = {
        { 0 }, { 1 }, { n - 1, 0, n, n + 1 }, { 97, 0, 1, 300, 2 }, { 5, 33, 1, large - 50 }
    };
    static const enum halay_dtype types[] = { HALAY_F32, HALAY_BF16, HALAY_F64, HALAY_F16 };

    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t kinds = sizeof counts / sizeof *counts - (t && run->quick);
        for (size_t k = 0; k < kinds; k++)
            for (int in_place = 0; in_place < 2; in_place++)
                adasum_case(run, types[t], counts[k], TENSORS, k != 3 && in_place != (int)(t & 1), in_place,
                            (enum where)((k + t + (size_t)in_place) % (size_t)wheres(run)));
        compare_hashes(run, "adasum", types[t]);
    }
    adasum_by_hand(run);
    adasum_pieces(run);
    compare_hashes(run, "adasum", HALAY_F16);
}

/* ---- reduce ---- */

static void reduce_case(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype,
                        enum halay_reduction op, size_t count, int root, int in_place, enum where where)
{
    size_t element = halay_dtype_size(dtype), guard = GUARD * element, bytes = count * element;
    unsigned char *in = buffer(run, where, 0, bytes + 2 * guard), *out = in;
    int is_root = run->rank == root;

    if (!in_place)
        out = buffer(run, where, 1, bytes + 2 * guard);
    fill(run, dtype, kind_of(op), count);
    memcpy(in + guard, run->given[run->rank], bytes);
    enum halay_status status =
        halay_group_reduce(run->group, in + guard, is_root ? out + guard : NULL, count, dtype, op, root);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), a->name, dtype, op, count, in_place, where);
    else if (is_root && !is_right(run, a, dtype, op, count, out + guard))
        fail(run, "wrong reduce", a->name, dtype, op, count, in_place, where);
    if (!guards_hold(in, guard, bytes) || !guards_hold(out, guard, bytes))
        fail(run, "reduce wrote outside", a->name, dtype, op, count, in_place, where);
    if ((!is_root || !in_place) && memcmp(in + guard, run->given[run->rank], bytes))
        fail(run, "reduce changed the input", a->name, dtype, op, count, in_place, where);
}

static void reduce_all(struct run *run, const struct halay_algorithm *a)
{
    size_t n = (size_t)run->size, counts[] = { 0, 1, n - 1, n + 1, 97 };
    int w = 0, root = 0;

    for (int t = 0; t < HALAY_DTYPE_COUNT; t++)
        for (int op = 0; op < HALAY_ADASUM; op++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts && halay_reduction_takes(op, t); k++, root++, w++)
                if (!run->quick || ((t == HALAY_F32 || t == HALAY_BF16) && k > 2))
                    reduce_case(run, a, (enum halay_dtype)t, (enum halay_reduction)op, counts[k], root % run->size,
                                (w / 3) & 1, (enum where)(w % wheres(run)));
    size_t large = run->quick ? LARGE / 10 : LARGE;
    for (w = 0; w < wheres(run); w++)
        for (root = 0; root < run->size; root++) {
            reduce_case(run, a, HALAY_F32, HALAY_SUM, large, root, w & 1, (enum where)w);
            reduce_case(run, a, HALAY_F16, HALAY_AVERAGE, large / 2, root, !(w & 1), (enum where)w);
        }
}

/* ---- reduce-scatter ---- */

static void reduce_scatter_case(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype,
                                enum halay_reduction op, const size_t *counts, int even, int in_place, enum where where)
{
    size_t element = halay_dtype_size(dtype), guard = GUARD * element, all = 0, mine = counts[run->rank], at = 0;
    enum halay_status status;

    for (int r = 0; r < run->size; r++) {
        at = r == run->rank ? all : at;
        all += counts[r];
    }
    unsigned char *in = buffer(run, where, 0, all * element + 2 * guard) + guard, *out = in + at * element;
    if (!in_place)
        out = buffer(run, where, 1, mine * element + 2 * guard) + guard;
    fill(run, dtype, kind_of(op), all);
    memcpy(in, run->given[run->rank], all * element);
    if (even)
        status = halay_group_reduce_scatter(run->group, in, out, mine, dtype, op);
    else
        status = halay_group_reduce_scatterv(run->group, in, out, counts, dtype, op);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), a->name, dtype, op, all, in_place, where);
    else if (!is_right_part(run, a, dtype, op, at, mine, out))
        fail(run, "wrong reduce-scatter", a->name, dtype, op, all, in_place, where);
    if (!in_place && !guards_hold(out - guard, guard, mine * element))
        fail(run, "reduce-scatter wrote outside", a->name, dtype, op, all, in_place, where);
    if (in_place) /* the rest of in is only read */
        memcpy(out, run->given[run->rank] + at * element, mine * element);
    if (memcmp(in, run->given[run->rank], all * element) || !guards_hold(in - guard, guard, all * element))
        fail(run, "reduce-scatter changed the input", a->name, dtype, op, all, in_place, where);
}

static const size_t uneven[][RANKS_MAX] = { { 0, 3, 1, 0, 97, 2, 0, 5 },
                                            { 41, 0, 0, 0, 0, 0, 0, 1 },
                                            { 20011, 7, 0, 9001, 1, 1, 300, 0 } };

static void reduce_scatter_all(struct run *run, const struct halay_algorithm *a)
{
    static const size_t each[] = { 0, 1, 97 };
    size_t counts[RANKS_MAX], large = (run->quick ? LARGE / 10 : LARGE) / (size_t)run->size;
    int w = 0;

    for (int t = 0; t < HALAY_DTYPE_COUNT; t++)
        for (int op = 0; op < HALAY_ADASUM; op++)
            for (size_t k = 0; k < 2 * sizeof each / sizeof *each && halay_reduction_takes(op, t); k++, w++) {
                for (int r = 0; r < run->size; r++)
                    counts[r] = each[k / 2];
                if (run->quick && ((t != HALAY_F32 && t != HALAY_BF16) || k < 4))
                    continue;
                reduce_scatter_case(run, a, (enum halay_dtype)t, (enum halay_reduction)op, counts, 1, k & 1,
                                    (enum where)(w % wheres(run)));
                reduce_scatter_case(run, a, (enum halay_dtype)t, (enum halay_reduction)op, uneven[k / 2], 0, k & 1,
                                    (enum where)((w + 1) % wheres(run)));
            }
    for (int r = 0; r < run->size; r++)
        counts[r] = large;
    for (w = 0; w < wheres(run); w++) {
        reduce_scatter_case(run, a, HALAY_F32, HALAY_SUM, counts, 1, w & 1, (enum where)w);
        reduce_scatter_case(run, a, HALAY_F16, HALAY_AVERAGE, counts, 1, !(w & 1), (enum where)w);
    }
}

/* ---- all-to-all ---- */

/* How many elements rank `from` gives rank `to`: each splits by its own, a pair alike, or all the same. */
enum split { EVEN, PAIRS, OWN };

static size_t split_count(enum split split, size_t most, int from, int to)
{
    int low = from < to ? from : to, high = from < to ? to : from;

    if (split == EVEN)
        return most;
    size_t odd = (size_t)(split == PAIRS ? low * 7 + high * 3 : from * 5 + to * 11);
    return odd % 3 ? most / (odd % 4 + 1) : 0;
}

static void alltoall_case(struct run *run, const char *name, enum halay_dtype dtype, enum split split, size_t most,
                          int in_place, enum where where)
{
    size_t element = halay_dtype_size(dtype), guard = GUARD * element;
    size_t in_counts[RANKS_MAX], out_counts[RANKS_MAX], give = 0, take = 0, start = 0;
    enum halay_status status;

    for (int r = 0; r < run->size; r++) {
        give += in_counts[r] = split_count(split, most, run->rank, r);
        take += out_counts[r] = split_count(split, most, r, run->rank);
    }
    unsigned char *in = buffer(run, where, 0, give * element + 2 * guard) + guard, *out = in;
    if (!in_place)
        out = buffer(run, where, 1, take * element + 2 * guard) + guard;
    fill(run, dtype, PLAIN, most * (size_t)run->size);
    memcpy(in, run->given[run->rank], give * element);
    if (split == EVEN)
        status = halay_group_alltoall(run->group, in, out, most, dtype);
    else
        status = halay_group_alltoallv(run->group, in, in_counts, out, out_counts, dtype);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), name, dtype, HALAY_SUM, give, in_place, where);
    for (int r = 0; r < run->size; start += out_counts[r++]) {
        size_t at = 0;
        for (int to = 0; to < run->rank; to++)
            at += split_count(split, most, r, to);
        if (memcmp(out + start * element, run->given[r] + at * element, out_counts[r] * element)) {
            fail(run, "wrong all-to-all", name, dtype, HALAY_SUM, give, in_place, where);
            break;
        }
    }
    if (!in_place && memcmp(in, run->given[run->rank], give * element))
        fail(run, "all-to-all changed the input", name, dtype, HALAY_SUM, give, in_place, where);
    if (!guards_hold(in - guard, guard, give * element) || !guards_hold(out - guard, guard, take * element))
        fail(run, "all-to-all wrote outside", name, dtype, HALAY_SUM, give, in_place, where);
}

/* One rank gets or gives all, and what it keeps itself is in its long array already. */
static void kept_case(struct run *run, const char *name, enum halay_dtype dtype, size_t most, int root, int is_gather,
                      enum where where)
{
    size_t element = halay_dtype_size(dtype), guard = GUARD * element, all = 0, sizes[RANKS_MAX];
    size_t none[RANKS_MAX] = { 0 }, mine[RANKS_MAX] = { 0 };
    int is_root = run->rank == root;

    for (int r = 0; r < run->size; r++)
        all += sizes[r] = split_count(OWN, most, r, root);
    size_t length = is_root ? all : sizes[run->rank];
    unsigned char *data = buffer(run, where, 0, length * element + 2 * guard) + guard;
    fill(run, dtype, PLAIN, most * (size_t)run->size);
    mine[root] = is_root ? 0 : length;
    for (size_t r = 0, at = 0; is_root && r < (size_t)run->size; at += sizes[r++])
        if (!is_gather || (int)r == root)
            memcpy(data + at * element, run->given[r], sizes[r] * element);
    if (is_gather && !is_root)
        memcpy(data, run->given[run->rank], length * element);
    enum halay_status status = HALAY_OK;
    if (is_gather)
        status = halay_group_alltoallv(run->group, is_root ? NULL : data, mine, is_root ? data : NULL,
                                       is_root ? sizes : none, dtype);
    else
        status = halay_group_alltoallv(run->group, is_root ? data : NULL, is_root ? sizes : none, is_root ? NULL : data,
                                       mine, dtype);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), name, dtype, HALAY_SUM, length, 1, where);
    int is_wrong = !is_root && memcmp(data, run->given[run->rank], length * element);
    for (size_t r = 0, at = 0; is_root && r < (size_t)run->size; at += sizes[r++])
        is_wrong |= memcmp(data + at * element, run->given[r], sizes[r] * element) != 0;
    if (is_wrong)
        fail(run, is_gather ? "wrong gather" : "wrong scatter", name, dtype, HALAY_SUM, length, 1, where);
    if (!guards_hold(data - guard, guard, length * element))
        fail(run, "gather or scatter wrote outside", name, dtype, HALAY_SUM, length, 1, where);
}

static void alltoall_all(struct run *run, const struct halay_algorithm *a)
{
    static const size_t each[] = { 0, 1, 97 };
    static const enum halay_dtype types[] = { HALAY_F32, HALAY_F16, HALAY_F64 };
    size_t large = (run->quick ? LARGE / 10 : LARGE) / (size_t)run->size;

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int w = 0; w < wheres(run); w++)
            for (int split = EVEN; split <= OWN; split++)
                for (int in_place = 0; in_place <= (split != OWN); in_place++) {
                    for (size_t k = 0; k < sizeof each / sizeof *each; k++)
                        alltoall_case(run, a->name, types[t], (enum split)split, each[k], in_place, (enum where)w);
                    if (t == 0)
                        alltoall_case(run, a->name, types[t], (enum split)split, large, in_place, (enum where)w);
                }
    for (int root = 0; root < run->size; root++)
        for (int w = 0; w < wheres(run); w++)
            for (int is_gather = 0; is_gather < 2; is_gather++) {
                kept_case(run, a->name, HALAY_F64, 97, root, is_gather, (enum where)w);
                if (root == run->size / 2)
                    kept_case(run, a->name, HALAY_F32, large, root, is_gather, (enum where)w);
            }
}

/* ---- lists of pieces ---- */

enum { PIECES = 40, GAP = 3 };

/* Pieces of lengths 0 to 60 in one buffer, with gaps between them, other ones on each rank and none on some; `longer`
 * makes one of them much longer. */
static size_t cut(const struct run *run, unsigned char *memory, size_t element, size_t longer,
                  struct halay_piece *pieces, size_t *total)
{
    size_t at = GAP;

    *total = 0;
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = (struct halay_piece){ .data = memory + at * element, .count = (i * 37) % 61 };
        if (i == PIECES / 2)
            pieces[i].count += longer;
        at += pieces[i].count + (run->rank % 3 && (i + (size_t)run->rank) % 3 ? GAP : 0);
        *total += pieces[i].count;
    }
    return (at + GAP) * element;
}

/* With 0xa5 still; bytes > 0. */
static int is_filled(const unsigned char *memory, size_t bytes)
{
    return memory[0] == 0xa5 && !memcmp(memory, memory + 1, bytes - 1);
}

static void pieces_case(struct run *run, const struct halay_algorithm *a, enum halay_dtype dtype, size_t longer,
                        enum where where)
{
    size_t element = halay_dtype_size(dtype), total, start = 0;
    struct halay_piece pieces[PIECES];
    int root = run->size - 1, is_sum = a->operation == HALAY_COLL_ALLREDUCE;
    unsigned char *memory = run->memory[is_here_shared(run, where) ? 0 : 1][0];
    size_t bytes = cut(run, memory, element, longer, pieces, &total);
    struct halay_piece list[PIECES]; /* borrowed until the collective's end */
    struct halay_coll *c = NULL;
    enum halay_status status;

    memset(memory, 0xa5, bytes);
    fill(run, dtype, PLAIN, total);
    for (size_t i = 0; i < PIECES; start += pieces[i++].count)
        if (is_sum || run->rank == root)
            memcpy(pieces[i].data, run->given[run->rank] + start * element, pieces[i].count * element);
    size_t unit = is_sum ? element : 1, count = PIECES;
    for (size_t i = 0; i < PIECES; i++)
        list[i] = (struct halay_piece){ .data = pieces[i].data, .count = pieces[i].count * element / unit };
    if (run->rank % 2 == 0) /* neighbours are one piece, or are not, as each rank likes */
        count = halay_pieces_join(list, PIECES, unit);
    if (is_sum)
        status = allreduce_pieces_start(run->group, list, count, dtype, HALAY_SUM, &c);
    else
        status = halay_group_broadcast_pieces_start(run->group, list, count, root, &c);
    if (status == HALAY_OK)
        status = halay_coll_wait(c, -1);
    halay_coll_end(c);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), a->name, dtype, HALAY_SUM, total, 1, where);

    /* Gather the pieces in `given` of this rank's place, and look whether anything else changed. */
    unsigned char *result = run->memory[1][1];
    start = 0;
    for (size_t i = 0; i < PIECES; start += pieces[i++].count) {
        memcpy(result + start * element, pieces[i].data, pieces[i].count * element);
        memset(pieces[i].data, 0xa5, pieces[i].count * element);
    }
    if (is_sum ? !is_right(run, a, dtype, HALAY_SUM, total, result)
               : memcmp(result, run->given[root], total * element) != 0)
        fail(run, "wrong result of a list of pieces", a->name, dtype, HALAY_SUM, total, 1, where);
    if (!is_filled(memory, bytes))
        fail(run, "wrote into a gap", a->name, dtype, HALAY_SUM, total, 1, where);
    add_hash(run, result, total * element);
}

/* Lists that lie apart or in place, are of another type than what is reduced, or have factors. All factors are powers
 * of two, so that the sums stay what they are. */
struct lists_case {
    enum halay_dtype memory, dtype;
    int in_place, has_factors, chunk_shift;
    size_t longer;
};

static double factor_of(const struct lists_case *l, size_t piece, int out)
{
    if (!l->has_factors || piece % 3 == 0)
        return 1;
    return out ? 4 : 0.5;
}

/* to[i] = factor * from[k], which is exact. */
static void move(enum halay_dtype to_type, unsigned char *to, size_t i, enum halay_dtype from_type,
                 const unsigned char *from, size_t k, double factor)
{
    size_t element = halay_dtype_size(to_type);

    if (to_type == from_type && factor == 1)
        memcpy(to + i * element, from + k * element, element);
    else if (to_type == HALAY_F32)
        ((float *)(void *)to)[i] = (float)(get(from_type, from, k) * factor);
    else if (to_type == HALAY_F64)
        ((double *)(void *)to)[i] = get(from_type, from, k) * factor;
    else
        put(to_type, to, i, get(from_type, from, k) * factor);
}

/* The pieces as a list; as each rank likes neighbours are one piece. */
static size_t make_list(const struct run *run, const struct lists_case *l, const struct halay_piece *pieces, int out,
                        struct halay_piece *list)
{
    for (size_t i = 0; i < PIECES; i++) {
        list[i] = pieces[i];
        list[i].factor = i % 2 && factor_of(l, i, out) == 1 ? 0 : factor_of(l, i, out);
    }
    return run->rank % 2 == out ? halay_pieces_join(list, PIECES, halay_dtype_size(l->memory)) : PIECES;
}

static void lists_case(struct run *run, const struct halay_algorithm *a, const struct lists_case *l, enum where where)
{
    size_t element = halay_dtype_size(l->memory), total, at = 0;
    struct halay_piece in[PIECES], out[PIECES], in_list[PIECES], out_list[PIECES];
    unsigned char **memory = run->memory[is_here_shared(run, where) ? 0 : 1];
    struct halay_coll *c = NULL;

    cut(run, memory[0], element, l->longer, in, &total);
    size_t bytes = cut(run, memory[l->in_place ? 0 : 1], element, l->longer, out, &total);
    memset(memory[0], 0xa5, bytes);
    memset(memory[1], 0xa5, bytes);
    fill(run, l->dtype, PLAIN, total);
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < in[i].count; k++)
            move(l->memory, in[i].data, k, l->dtype, run->given[run->rank], at++, 1 / factor_of(l, i, 0));
    const struct halay_lists lists = { .in = in_list,
                                       .out = out_list,
                                       .in_count = make_list(run, l, in, 0, in_list),
                                       .out_count = make_list(run, l, out, 1, out_list),
                                       .dtype = l->memory };
    run->group->chunk_shift = l->chunk_shift;
    enum halay_status status = halay_group_allreduce_lists_start(run->group, &lists, l->dtype, HALAY_SUM, &c);
    run->group->chunk_shift = 0;
    if (status == HALAY_OK)
        status = halay_coll_wait(c, -1);
    halay_coll_end(c);
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), a->name, l->dtype, HALAY_SUM, total, l->in_place, where);

    unsigned char *result = malloc(total * halay_dtype_size(l->dtype));
    if (!result) {
        fail(run, "no memory", a->name, l->dtype, HALAY_SUM, total, l->in_place, where);
        return;
    }
    at = 0;
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < out[i].count; k++)
            move(l->dtype, result, at++, l->memory, out[i].data, k, 1 / factor_of(l, i, 1));
        memset(out[i].data, 0xa5, out[i].count * element);
    }
    if (!is_right(run, a, l->dtype, HALAY_SUM, total, result))
        fail(run, "wrong result of lists", a->name, l->dtype, HALAY_SUM, total, l->in_place, where);
    if (!is_filled(memory[l->in_place ? 0 : 1], bytes))
        fail(run, "wrote into a gap of lists", a->name, l->dtype, HALAY_SUM, total, l->in_place, where);
    add_hash(run, result, total * halay_dtype_size(l->dtype));
    free(result);
}

static void lists_all(struct run *run, const struct halay_algorithm *a)
{
    const struct lists_case cases[] = {
        { HALAY_F32, HALAY_F32, 0, 0, 0, 4001 },   { HALAY_I32, HALAY_I32, 0, 0, 0, 0 },
        { HALAY_F32, HALAY_BF16, 0, 0, -3, 9001 }, { HALAY_F32, HALAY_F16, 1, 1, 0, 4001 },
        { HALAY_F64, HALAY_F64, 1, 1, 3, 4001 },   { HALAY_F32, HALAY_F32, 0, 1, -1, 40001 },
    };

    for (int w = 0; w < wheres(run); w++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            lists_case(run, a, &cases[i], (enum where)w);
    compare_hashes(run, a->name, HALAY_F32);
}

static void pieces_all(struct run *run, const struct halay_algorithm *a)
{
    for (int w = 0; w < wheres(run); w++) {
        pieces_case(run, a, HALAY_F32, 0, (enum where)w);
        pieces_case(run, a, HALAY_BF16, 4001, (enum where)w);
        pieces_case(run, a, HALAY_F64, run->quick ? 4001 : LARGE / 2, (enum where)w);
    }
    compare_hashes(run, a->name, HALAY_F32);
}

/* ---- huge: few ranks, few cases ---- */

static int has_huge(const struct run *run)
{
    return !run->quick && run->size == HUGE_RANKS && !test_is_brief();
}

static void huge_all(struct run *run, const struct halay_algorithm *a)
{
    size_t counts[RANKS_MAX] = { 1, HUGE_COUNT - 8, 7 };
    enum where where = run->is_shared ? MIXED : PRIVATE;

    if (!has_huge(run))
        return;
    if (a->operation == HALAY_COLL_ALLREDUCE) {
        allreduce_case(run, a, HALAY_F32, HALAY_SUM, HUGE_COUNT, 1, PRIVATE);
        allreduce_case(run, a, HALAY_BF16, HALAY_AVERAGE, HUGE_COUNT, 0, where);
        pieces_case(run, a, HALAY_F32, HUGE_COUNT - 3000, PRIVATE);
        pieces_case(run, a, HALAY_F32, HUGE_COUNT - 3000, where);
    } else if (a->operation == HALAY_COLL_BROADCAST) {
        for (int root = 0; root < run->size; root++)
            broadcast_case(run, a->name, HALAY_F32, HUGE_COUNT, root, where);
        pieces_case(run, a, HALAY_F32, HUGE_COUNT - 3000, PRIVATE);
    } else if (a->operation == HALAY_COLL_ALLGATHER) {
        allgather_case(run, a->name, HALAY_F32, counts, 0, 0, PRIVATE);
        allgather_case(run, a->name, HALAY_F32, counts, 0, 1, where);
    } else if (a->operation == HALAY_COLL_REDUCE) {
        for (int root = 0; root < run->size; root++)
            reduce_case(run, a, HALAY_BF16, HALAY_SUM, HUGE_COUNT, root, root & 1, root ? where : PRIVATE);
    } else if (a->operation == HALAY_COLL_REDUCE_SCATTER) {
        reduce_scatter_case(run, a, HALAY_F32, HALAY_SUM, counts, 0, 0, PRIVATE);
        reduce_scatter_case(run, a, HALAY_BF16, HALAY_AVERAGE, counts, 0, 1, where);
    } else if (a->operation == HALAY_COLL_ALLTOALL) {
        alltoall_case(run, a->name, HALAY_F32, OWN, HUGE_COUNT / (size_t)run->size, 0, PRIVATE);
        alltoall_case(run, a->name, HALAY_F32, PAIRS, HUGE_COUNT / (size_t)run->size, 1, where);
    }
    compare_hashes(run, a->name, HALAY_F32);
}

/* ---- all of an algorithm ---- */

static int is_possible(const struct run *run, const struct halay_algorithm *a)
{
    enum halay_sharing sharing = run->group->sharing;

    return (!(a->flags & HALAY_ALGORITHM_SHARED) || sharing == HALAY_SHARES_ALL) &&
           (!(a->flags & HALAY_ALGORITHM_NODES) || sharing == HALAY_SHARES_NODES);
}

static void cases_of(struct run *run, const struct halay_algorithm *a)
{
    switch (a->operation) {
    case HALAY_COLL_ALLREDUCE:
        allreduce_all(run, a);
        pieces_all(run, a);
        lists_all(run, a);
        break;
    case HALAY_COLL_BROADCAST:
        broadcast_all(run, a);
        pieces_all(run, a);
        break;
    case HALAY_COLL_ALLGATHER:
        allgather_all(run, a);
        break;
    case HALAY_COLL_ALLREDUCE_ADASUM:
        adasum_all(run);
        break;
    case HALAY_COLL_REDUCE:
        reduce_all(run, a);
        break;
    case HALAY_COLL_REDUCE_SCATTER:
        reduce_scatter_all(run, a);
        break;
    case HALAY_COLL_ALLTOALL:
        alltoall_all(run, a);
        break;
    default:
        for (int i = 0; i < 50; i++)
            if (halay_group_barrier(run->group) != HALAY_OK)
                fail(run, "barrier failed", a->name, HALAY_F32, HALAY_SUM, 0, 0, PRIVATE);
        break;
    }
    huge_all(run, a);
}

static void algorithm_all(struct run *run, const struct halay_algorithm *a)
{
    const char *operation = halay_coll_kind_name(a->operation);
    enum halay_status status = halay_group_set_algorithm(run->group, operation, a->name);
    const int has_shared = run->is_shared;
    char text[200];

    run->is_shared = has_shared && a->flags & (HALAY_ALGORITHM_SHARED | HALAY_ALGORITHM_NODES);
    if (!is_possible(run, a)) {
        if (status != HALAY_ERR_UNSUPPORTED)
            fail(run, "not refused where it is not possible", a->name, HALAY_F32, HALAY_SUM, 0, 0, PRIVATE);
        return;
    }
    if (status != HALAY_OK)
        fail(run, halay_status_string(status), a->name, HALAY_F32, HALAY_SUM, 0, 0, PRIVATE);
    if (run->size > 1 &&
        strcmp(halay_group_explain(run->group, operation, 5, HALAY_F32, 1, text, sizeof text), a->name))
        fail(run, "explained otherwise", a->name, HALAY_F32, HALAY_SUM, 0, 0, PRIVATE);
    cases_of(run, a);
    halay_group_set_algorithm(run->group, operation, "auto");
    run->is_shared = has_shared;
}

/* ---- several in flight ---- */

enum { FLIGHT_COUNT = 301 };

static float flight_given(int rank, int k, int i)
{
    return (float)(rank + i + k);
}

static float flight_sum(const struct run *run, int k, int i)
{
    return (float)(run->size * (i + k) + run->size * (run->size - 1) / 2);
}

/* Number k of those in flight: `data` FLIGHT_COUNT elements, `all` as many from each rank. */
static enum halay_status flight_start(struct run *run, int k, float *data, float *all, struct halay_coll **c)
{
    size_t count = FLIGHT_COUNT, part = count / (size_t)run->size;

    switch (k) {
    case 0:
        return halay_group_barrier_start(run->group, c);
    case 1:
        return halay_group_broadcast_start(run->group, data, count, HALAY_F32, k % run->size, c);
    case 2:
        return halay_group_allreduce_start(run->group, data, data, count, HALAY_F32, HALAY_SUM, c);
    case 3:
        return halay_group_allgather_start(run->group, data, all, count, HALAY_F32, c);
    case 4:
        return halay_group_reduce_scatter_start(run->group, data, all, part, HALAY_F32, HALAY_SUM, c);
    case 5:
        return halay_group_alltoall_start(run->group, data, all, part, HALAY_F32, c);
    case 6:
        return halay_group_reduce_start(run->group, data, all, count, HALAY_F32, HALAY_SUM, k % run->size, c);
    default:
        return halay_group_allreduce_start(run->group, data, all, count - 1, HALAY_F32, HALAY_SUM, c);
    }
}

/* Element i of its result as it should be; i counts parts of the length of flight_start's. -1: nobody's business. */
static float flight_wanted(const struct run *run, int k, int i)
{
    int n = run->size, part = FLIGHT_COUNT / n;

    switch (k) {
    case 1:
        return flight_given(k % n, k, i);
    case 2:
        return flight_sum(run, k, i);
    case 3:
        return flight_given(i / FLIGHT_COUNT, k, i % FLIGHT_COUNT);
    case 4:
        return i < part ? flight_sum(run, k, run->rank * part + i) : -1;
    case 5:
        return i < n * part ? flight_given(i / part, k, run->rank * part + i % part) : -1;
    case 6:
        return run->rank == k % n ? flight_sum(run, k, i) : -1;
    case 7:
        return i < FLIGHT_COUNT - 1 ? flight_sum(run, k, i) : -1;
    default:
        return -1;
    }
}

/* Starts all of a round; by number: in an order of this rank's own. */
static void flight_start_all(struct run *run, int by_number, float *data, float *all, struct halay_coll **c)
{
    enum { N = HALAY_CHANNELS };
    uint64_t base = halay_group_next(run->group);

    for (int i = 0; i < N; i++) {
        int k = by_number ? (run->rank * 3 + i * 5) % N : i;
        float *d = data + k * FLIGHT_COUNT;
        for (int e = 0; e < FLIGHT_COUNT; e++)
            d[e] = flight_given(run->rank, k, e);
        if (!halay_group_can_start_at(run->group, base + (uint64_t)k) ||
            halay_group_can_start_at(run->group, base + (uint64_t)k + N))
            fail(run, "a number is not the channel's next", "in flight", HALAY_F32, HALAY_SUM, (size_t)k, 1, SHARED);
        if (by_number)
            halay_group_start_at(run->group, base + (uint64_t)k);
        enum halay_status status = flight_start(run, k, d, all + k * RANKS_MAX * FLIGHT_COUNT, &c[k]);
        if (status != HALAY_OK)
            fail(run, halay_status_string(status), "in flight", HALAY_F32, HALAY_SUM, (size_t)k, 1, SHARED);
    }
    halay_group_start_at(run->group, base + N);
}

/* Eight collectives of different kinds at once, driven in an order of this rank's own; a ninth is refused. */
static void in_flight(struct run *run)
{
    enum { N = HALAY_CHANNELS };
    struct halay_coll *c[N] = { NULL }, *more;
    float *data = (float *)(void *)run->memory[0][0], *all = (float *)(void *)run->memory[1][1];
    int left = N;

    for (int round = 0; round < 3; round++) {
        flight_start_all(run, round == 1, data, all, c);
        if (halay_group_can_start(run->group) || halay_group_barrier_start(run->group, &more) != HALAY_ERR_UNSUPPORTED)
            fail(run, "a ninth was not refused", "in flight", HALAY_F32, HALAY_SUM, 0, 1, SHARED);
        if (round == 2 && halay_coll_wait(c[run->rank % N], -1) != HALAY_OK) /* a wait drives the others too */
            fail(run, "wait", "in flight", HALAY_F32, HALAY_SUM, 0, 1, SHARED);
        for (left = N; left;)
            for (int i = 0, k = (run->rank * 3) % N; i < N; i++, k = (k + 5) % N)
                if (c[k] && halay_coll_progress(c[k]) != HALAY_IN_PROGRESS) {
                    if (halay_coll_progress(c[k]) != HALAY_OK)
                        fail(run, "status", "in flight", HALAY_F32, HALAY_SUM, 0, 1, SHARED);
                    left--;
                    halay_coll_end(c[k]);
                    c[k] = NULL;
                }
        for (int k = 0; k < N; k++)
            for (int i = 0, in_place = k < 3; i < FLIGHT_COUNT * (k == 3 ? run->size : 1); i++) {
                float want = flight_wanted(run, k, i);
                if (want >= 0 && want != (in_place ? data + k * FLIGHT_COUNT : all + k * RANKS_MAX * FLIGHT_COUNT)[i]) {
                    fail(run, "wrong", "in flight", HALAY_F32, HALAY_SUM, (size_t)k, 1, SHARED);
                    break;
                }
            }
    }
}

/* ---- wrong use: found before anything moves, and the group lives on ---- */

static void expect(struct run *run, enum halay_status got, enum halay_status wanted, const char *what)
{
    if (got != wanted && run->failed++ < 20)
        printf("rank %d of %d: %s: '%s' instead of '%s'\n", run->rank, run->size, what, halay_status_string(got),
               halay_status_string(wanted));
}

static void wrong_use(struct run *run)
{
    struct halay_group *g = run->group;
    float *a = (float *)(void *)run->memory[1][0];
    size_t counts[RANKS_MAX], few[RANKS_MAX + 1];

    for (int r = 0; r < RANKS_MAX; r++)
        counts[r] = SIZE_MAX / 2;
    for (int r = 0; r <= RANKS_MAX; r++)
        few[r] = (size_t)r + 1;
    expect(run, halay_group_allreduce(g, a, a, 1, 99, HALAY_SUM), HALAY_ERR_ARGUMENT, "no such type");
    expect(run, halay_group_allreduce(g, a, a, 1, HALAY_F32, 99), HALAY_ERR_ARGUMENT, "no such reduction");
    expect(run, halay_group_allreduce(g, a, a, 1, HALAY_I32, HALAY_AVERAGE), HALAY_ERR_UNSUPPORTED, "integer average");
    expect(run, halay_group_allreduce(g, a, a, 1, HALAY_I32, HALAY_ADASUM), HALAY_ERR_UNSUPPORTED, "integer adasum");
    expect(run, halay_group_reduce(g, a, a, 1, HALAY_F32, HALAY_ADASUM, 0), HALAY_ERR_UNSUPPORTED, "reduce: adasum");
    expect(run, halay_group_allreduce_adasum(g, a, a, NULL, 2, HALAY_F32), HALAY_ERR_ARGUMENT, "adasum: no counts");
    expect(run, halay_group_allreduce_adasum(g, a, a, counts, 3, HALAY_F32), HALAY_ERR_ARGUMENT, "adasum: huge");
    expect(run, halay_group_allreduce_adasum(g, a, a, NULL, 0, HALAY_F32), HALAY_OK, "adasum of nothing");
    halay_group_set_deterministic(g, HALAY_DETERMINISTIC_RANKS);
    expect(run, halay_group_allreduce(g, a, a, 1, HALAY_F32, HALAY_ADASUM), HALAY_ERR_UNSUPPORTED, "adasum by tree");
    halay_group_set_deterministic(g, HALAY_DETERMINISTIC_OFF);
    expect(run, halay_group_allreduce(g, a, a + 1, 2, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT, "overlap");
    expect(run, halay_group_allreduce(g, NULL, a, 2, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT, "no buffer");
    expect(run, halay_group_allreduce(g, a, a, SIZE_MAX / 2, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT, "huge");
    expect(run, halay_group_allreduce(g, (char *)a + 1, (char *)a + 1, 1, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT,
           "misaligned");
    expect(run, halay_group_broadcast(g, a, 1, HALAY_F32, run->size), HALAY_ERR_ARGUMENT, "no such root");
    expect(run, halay_group_broadcast(g, a, 1, HALAY_F32, -1), HALAY_ERR_ARGUMENT, "negative root");
    expect(run, halay_group_allgatherv(g, a, a, NULL, HALAY_F32), HALAY_ERR_ARGUMENT, "no counts");
    expect(run, halay_group_allgatherv(g, a, a, counts, HALAY_F32), HALAY_ERR_ARGUMENT, "huge counts");
    expect(run, halay_group_set_algorithm(g, "allreduce", "fastest"), HALAY_ERR_ARGUMENT, "no such algorithm");
    expect(run, halay_group_set_algorithm(g, "reduces", "ring"), HALAY_ERR_ARGUMENT, "no such operation");
    expect(run, halay_group_reduce(g, a, a, 1, HALAY_F32, HALAY_SUM, run->size), HALAY_ERR_ARGUMENT, "reduce: root");
    expect(run, halay_group_reduce(g, NULL, a, 1, HALAY_F32, HALAY_SUM, 0), HALAY_ERR_ARGUMENT, "reduce: no input");
    expect(run, halay_group_reduce(g, a, a, 1, HALAY_I64, HALAY_AVERAGE, 0), HALAY_ERR_UNSUPPORTED, "reduce: average");
    expect(run, halay_group_reduce_scatter(g, a, a + run->rank * 4 + 1, 4, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT,
           "reduce-scatter: overlap");
    expect(run, halay_group_reduce_scatter(g, a, a, SIZE_MAX / 4, HALAY_F64, HALAY_SUM), HALAY_ERR_ARGUMENT,
           "reduce-scatter: huge");
    expect(run, halay_group_reduce_scatterv(g, a, a, NULL, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT,
           "reduce-scatter: no counts");
    expect(run, halay_group_alltoall(g, a, a + 1, 4, HALAY_F32), HALAY_ERR_ARGUMENT, "all-to-all: overlap");
    expect(run, halay_group_alltoall(g, a, NULL, 4, HALAY_F32), HALAY_ERR_ARGUMENT, "all-to-all: no output");
    expect(run, halay_group_alltoallv(g, a, NULL, a, counts, HALAY_F32), HALAY_ERR_ARGUMENT, "all-to-all: no counts");
    expect(run, halay_group_alltoallv(g, a, few, a, few + 1, HALAY_F32), HALAY_ERR_ARGUMENT,
           "all-to-all: other counts in place");
    expect(run, halay_group_alltoallv(g, a, few, a + 1024, few + 1, HALAY_F32), HALAY_ERR_ARGUMENT,
           "all-to-all: keeps another count than it has");
    expect(run, halay_group_set_algorithm(g, NULL, NULL), HALAY_ERR_ARGUMENT, "nothing");
    expect(run, halay_group_allreduce(g, NULL, NULL, 0, HALAY_F32, HALAY_SUM), HALAY_OK, "nothing to reduce");
    halay_coll_end(NULL);
    expect(run, halay_group_status(g, NULL), HALAY_OK, "the group lives on");
}

/* Operations in sequence, as the table chooses them, under HALAY_DETERMINISTIC=ranks too. */
static void sequence(struct run *run)
{
    uint32_t dice = 12345;
    enum halay_dtype dtype;

    for (int i = 0; i < 60; i++) {
        dice = dice * 1664525u + 1013904223u;
        size_t count = (dice >> 8) % (i % 10 == 0 ? 70000 : 700);
        dtype = (enum halay_dtype)((dice >> 4) % HALAY_DTYPE_COUNT);
        halay_group_set_deterministic(run->group, i < 30 ? HALAY_DETERMINISTIC_RANKS : HALAY_DETERMINISTIC_OFF);
        const struct halay_algorithm auto_or_ring = { .name = "auto", .flags = i < 30 ? HALAY_ALGORITHM_TREE : 0 };
        size_t counts[RANKS_MAX];
        for (int r = 0; r < run->size; r++)
            counts[r] = (count >> r) / (size_t)run->size;
        switch (dice >> 28 & 7) {
        case 0:
        case 1:
            allreduce_case(run, &auto_or_ring, dtype, HALAY_SUM, count, i & 1, (enum where)(i % wheres(run)));
            break;
        case 2:
            reduce_case(run, &auto_or_ring, dtype, HALAY_SUM, count, i % run->size, i & 1,
                        (enum where)(i % wheres(run)));
            break;
        case 3:
            reduce_scatter_case(run, &auto_or_ring, dtype, HALAY_SUM, counts, 0, i & 1, (enum where)(i % wheres(run)));
            break;
        case 4:
            alltoall_case(run, "auto", dtype, OWN, count / (size_t)run->size, 0, (enum where)(i % wheres(run)));
            break;
        case 5:
            broadcast_case(run, "auto", dtype, count, i % run->size, (enum where)(i % wheres(run)));
            break;
        default:
            expect(run, halay_group_barrier(run->group), HALAY_OK, "barrier");
            break;
        }
    }
    compare_hashes(run, "auto", HALAY_F32);
}

/* HALAY_DETERMINISTIC=run: whatever adds, each element is added in the same order, wherever it lies and however many
 * there are. */
static void same_order(struct run *run)
{
    static const size_t counts[] = { 1, 7, 700, 16387, LARGE };
    float *data = (float *)(void *)run->memory[1][0], first = 0;

    halay_group_set_deterministic(run->group, HALAY_DETERMINISTIC_RUN);
    for (size_t k = 0; k < sizeof counts / sizeof *counts * halay_algorithm_count; k++) {
        const struct halay_algorithm *a = &halay_algorithms[k % halay_algorithm_count];
        size_t count = counts[k / halay_algorithm_count];
        if (a->operation != HALAY_COLL_ALLREDUCE ||
            halay_group_set_algorithm(run->group, "allreduce", a->name) != HALAY_OK)
            continue;
        for (size_t i = 0; i < count; i++)
            data[i] = 1 / (float)(2 * run->rank + 3); /* no sum of these is exact */
        expect(run, halay_group_allreduce(run->group, data, data, count, HALAY_F32, HALAY_SUM), HALAY_OK, a->name);
        first = first == 0 ? data[0] : first;
        size_t same = 0;
        while (same < count && !memcmp(&data[same], &first, sizeof first))
            same++;
        if (same < count)
            fail(run, "another order", a->name, HALAY_F32, HALAY_SUM, count, 1, PRIVATE);
    }
    halay_group_set_deterministic(run->group, HALAY_DETERMINISTIC_OFF);
    halay_group_set_algorithm(run->group, "allreduce", "auto");
}

/* docs/reference/algorithms.md, "Memory of a group". bytes: of the largest data that were reduced. */
static size_t scratch_bound(const struct run *run, size_t bytes)
{
    size_t n = (size_t)run->size, r = run->group->world->config.chunk_bytes, most = 0, log2n = 0;
    size_t strips = run->group->nodes ? (size_t)run->group->nodes->strips : 0;

    r = r > 16384 ? r : 16384;
    while ((size_t)1 << log2n < n)
        log2n++;
    most = 64 * r > 2 * n * (r + 64) ? 64 * r : 2 * n * (r + 64);
    most = most > (log2n + 4) << 18 ? most : (log2n + 4) << 18;
    return ((size_t)8 << 20) + 2 * most + (strips << 23) + 4 * bytes;
}

static void check_memory(struct run *run, size_t bytes)
{
    for (int k = 0; k < HALAY_CHANNELS; k++)
        if (run->group->channels[k].scratch_bytes > scratch_bound(run, bytes))
            fail(run, "a channel holds more memory than documented", "all", HALAY_F32, HALAY_SUM,
                 run->group->channels[k].scratch_bytes, 0, PRIVATE);
}

int matrix_run(struct halay_group *group, int quick)
{
    int size = halay_group_size(group);
    struct run run = { .group = group,
                       .rank = halay_group_rank(group),
                       .size = size,
                       .quick = quick || (test_is_brief() && size != 3),
                       .hash = 14695981039346656037u };
    size_t bytes = (LARGE + 2 * GUARD) * 8 + 4096; /* guards of allreduce_case included */
    void *shared[2];

    if (has_huge(&run))
        bytes = (HUGE_COUNT + 2 * GUARD) * sizeof(float) + 65536;

    REQUIRE(run.size <= RANKS_MAX);
    run.is_shared = group->sharing != HALAY_SHARES_NONE;
    for (int i = 0; i < 2; i++) {
        REQUIRE(halay_group_alloc(group, bytes, &shared[i]) == HALAY_OK);
        run.memory[0][i] = shared[i];
        run.memory[1][i] = halay_aligned_alloc(HALAY_PAGE, halay_round_up(bytes, HALAY_PAGE));
        REQUIRE(run.memory[1][i]);
    }
    run.values_bytes = bytes + WINDOWS * sizeof(double);
    run.expected = malloc(bytes);
    REQUIRE(run.expected);

    wrong_use(&run);
    size_t adasum_bytes = 0;
    for (size_t i = 0; i < halay_algorithm_count; i++) { /* all: who stopped would leave the others waiting */
        algorithm_all(&run, &halay_algorithms[i]);
        adasum_bytes = halay_algorithms[i].operation == HALAY_COLL_ALLREDUCE_ADASUM ? bytes : adasum_bytes;
        check_memory(&run, adasum_bytes);
    }
    in_flight(&run);
    sequence(&run);
    same_order(&run);
    halay_group_barrier(group);

    for (int i = 0; i < 2; i++) {
        free(run.memory[1][i]);
        halay_group_free(group, shared[i]);
    }
    forget_values(&run);
    free(run.expected);
    return run.failed;
}
