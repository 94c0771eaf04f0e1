/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction: the vector versions give the bits of the plain one for every type, operation, number of sources, length
 * and alignment, with NaNs, infinities, zeros of both signs and subnormal numbers among the elements; and all of them
 * give what halay_types.h says, computed here a second time: integers and bools exactly, floating types in wider ones
 * within the roundings of the tree, and the tree itself exactly.
 */
#include "base/half.h"
#include "collectives/reduce/reduce.h"
#include "halay_tools.h"
#include "tests/test.h"
#include <math.h>
#include <string.h>

enum { MOST = 200, SOURCES = 9, GUARD = 64 };

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Every third element is one where versions could differ. */
static void fill(enum halay_dtype dtype, unsigned char *data, size_t count)
{
    static const float odd[] = { NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 65504.0f, 3e38f, 6e-8f };
    size_t size = halay_dtype_size(dtype);

    for (size_t i = 0; i < count; i++, data += size) {
        uint64_t bits = random_bits();
        float x = (float)(int32_t)bits / 1e8f;
        double d;
        uint16_t h;
        if (bits >> 40 & 1)
            x = (float)((int)(bits % 9) - 4); /* small integers: equal operands and exact ties */
        if (bits >> 32 & 3) {
            if (dtype > HALAY_BF16) {
                memcpy(data, &bits, size); /* a bool: any byte */
                continue;
            }
        } else {
            x = odd[bits % (sizeof odd / sizeof *odd)];
        }
        switch (dtype) {
        case HALAY_F32:
            memcpy(data, &x, size);
            break;
        case HALAY_F64:
            d = isfinite(x) ? (double)x * 1.000000001 : (double)x;
            memcpy(data, &d, size);
            break;
        case HALAY_F16:
            h = halay_f32_to_f16(x);
            if (bits >> 50 & 1)
                h = (uint16_t)(bits >> 16); /* any pattern: NaNs with payloads, subnormals */
            memcpy(data, &h, size);
            break;
        case HALAY_BF16:
            h = halay_f32_to_bf16(x);
            if (bits >> 50 & 1)
                h = (uint16_t)(bits >> 16);
            memcpy(data, &h, size);
            break;
        default:
            memcpy(data, &(int64_t){ (int64_t)(bits % 5) - 2 }, size);
            break;
        }
    }
}

struct arrays {
    unsigned char memory[SOURCES][GUARD + (MOST + 1) * 8 + GUARD];
};

static struct arrays source, by_plain, by_vector;

static void compare(const struct halay_reducer *vector, enum halay_dtype dtype, enum halay_reduction op, int sources,
                    size_t count, size_t shift, int destinations, int in_place)
{
    const struct halay_reducer *reducers[] = { halay_reducer_get(0), vector };
    struct arrays *results[] = { &by_plain, &by_vector };
    int divisor = op == HALAY_AVERAGE ? sources : 1;

    for (int w = 0; w < 2; w++) {
        const void *src[SOURCES];
        void *dst[SOURCES];
        if (in_place)
            memcpy(results[w], &source, sizeof source);
        else
            memset(results[w], 0x5a, sizeof source);
        for (int s = 0; s < sources; s++)
            src[s] = (in_place ? results[w] : &source)->memory[s] + GUARD + (s & 1 ? shift : 0);
        for (int d = 0; d < destinations; d++)
            dst[d] = results[w]->memory[d] + GUARD + (d & 1 ? shift : 0);
        reducers[w]->reduce[dtype][op](dst, destinations, src, sources, count, divisor);
    }
    CHECK(!memcmp(&by_plain, &by_vector, sizeof by_plain), "%s %s %s: %d sources, %d destinations, %zu elements%s",
          vector->name, halay_dtype_name(dtype), halay_reduction_name(op), sources, destinations, count,
          in_place ? ", in place" : "");
}

static void check_vectors(void)
{
    const struct halay_reducer *vector;

    for (int v = 1; (vector = halay_reducer_get(v)); v++)
        for (int t = 0; t < HALAY_DTYPE_COUNT; t++) {
            size_t size = halay_dtype_size((enum halay_dtype)t);
            for (int s = 0; s < SOURCES; s++)
                fill((enum halay_dtype)t, source.memory[s], sizeof source.memory[s] / size);
            for (int o = 0; o < HALAY_ADASUM; o++) {
                if (!halay_reduction_takes((enum halay_reduction)o, (enum halay_dtype)t))
                    continue;
                for (size_t count = 0; count <= MOST; count++) {
                    compare(vector, t, o, 2, count, size, 1, 0);
                    compare(vector, t, o, 2, count, 0, 2, 1);
                    compare(vector, t, o, 1 + (int)(count % SOURCES), count, size, 1 + (int)(count % 3) % SOURCES, 0);
                }
                for (int sources = 1; sources <= SOURCES; sources++)
                    compare(vector, t, o, sources, 101, size, sources, 1);
            }
        }
}

static void check_conversions(void)
{
    static uint16_t all[65536], back[2][65536];
    static float wide[2][65536];
    const struct halay_reducer *plain = halay_reducer_get(0), *vector;

    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int v = 1; (vector = halay_reducer_get(v)); v++)
        for (int t = HALAY_F16; t <= HALAY_BF16; t++) {
            plain->widen[t](wide[0], all, 65536 - 3);
            vector->widen[t](wide[1], all, 65536 - 3);
            for (size_t i = 0; i < 65536 - 3; i++) /* a NaN's payload is free on this way: the result is canonical */
                if (isnan(wide[0][i]) ? !isnan(wide[1][i]) : memcmp(&wide[0][i], &wide[1][i], sizeof(float)))
                    CHECK(0, "%s widen %s of %04zx", vector->name, halay_dtype_name(t), i);
            for (size_t i = 0; i < 65536; i++)
                wide[0][i] = halay_f32_from_bits((uint32_t)random_bits());
            plain->narrow[t](back[0], wide[0], 65536 - 5);
            vector->narrow[t](back[1], wide[0], 65536 - 5);
            CHECK(!memcmp(back[0], back[1], sizeof back[0]), "%s narrow %s", vector->name, halay_dtype_name(t));
        }
}

/* The tree, as it is defined: cut at the largest power of two below the number of leaves. */
static float tree(const float *leaf, int n)
{
    int half = 1;

    if (n == 1)
        return leaf[0];
    while (2 * half < n)
        half *= 2;
    return tree(leaf, half) + tree(leaf + half, n - half);
}

static void check_tree(void)
{
    float leaf[SOURCES], result;
    const void *src[SOURCES];
    void *dst[1] = { &result };

    for (int v = 0; halay_reducer_get(v); v++)
        for (int n = 1; n <= SOURCES; n++)
            for (int k = 0; k < 100; k++) {
                for (int s = 0; s < n; s++) {
                    leaf[s] = (float)(int32_t)random_bits() * (1.0f / (float)(1 + random_bits() % 1000));
                    src[s] = &leaf[s];
                }
                halay_reducer_get(v)->reduce[HALAY_F32][HALAY_SUM](dst, 1, src, n, 1, 1);
                CHECK(result == tree(leaf, n), "%d sources", n);
                halay_reducer_get(v)->reduce[HALAY_F32][HALAY_AVERAGE](dst, 1, src, n, 1, n);
                CHECK(result == tree(leaf, n) / (float)n, "average of %d", n);
            }
}

/* ---- what halay_types.h says, computed a second time ---- */

static int64_t integer_at(enum halay_dtype dtype, const void *p)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        int32_t i32;
        int64_t i64;
    } x;

    memcpy(&x, p, halay_dtype_size(dtype));
    switch (dtype) {
    case HALAY_U8:
        return x.u8;
    case HALAY_I8:
        return x.i8;
    case HALAY_U16:
        return x.u16;
    case HALAY_I16:
        return x.i16;
    case HALAY_I32:
        return x.i32;
    case HALAY_I64:
        return x.i64;
    default:
        return x.u8 != 0;
    }
}

static int64_t integer_combine(enum halay_reduction op, int64_t a, int64_t b)
{
    switch (op) {
    case HALAY_SUM:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case HALAY_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case HALAY_MIN:
        return a < b ? a : b;
    case HALAY_MAX:
        return a > b ? a : b;
    case HALAY_BIT_AND:
        return a & b;
    default:
        return a | b;
    }
}

/* Modulo 2^64, of which each type keeps its lower part; a bool is 1 if anything is left. */
static int integer_is_right(enum halay_dtype dtype, enum halay_reduction op, const void *const *src, int sources,
                            const void *got)
{
    int64_t want = integer_at(dtype, src[0]);

    for (int s = 1; s < sources; s++)
        want = integer_combine(op, want, integer_at(dtype, src[s]));
    if (dtype == HALAY_BOOL)
        want = want != 0;
    return !memcmp(got, &want, halay_dtype_size(dtype)); /* x86 and its like: the lower bytes come first */
}

static long double float_at(enum halay_dtype dtype, const void *p)
{
    float f;
    double d;
    uint16_t h;

    if (dtype == HALAY_F32)
        return (long double)*(float *)memcpy(&f, p, sizeof f);
    if (dtype == HALAY_F64)
        return (long double)*(double *)memcpy(&d, p, sizeof d);
    memcpy(&h, p, sizeof h);
    return (long double)(dtype == HALAY_F16 ? halay_f16_to_f32(h) : halay_bf16_to_f32(h));
}

static const struct {
    uint64_t nan;        /* the canonical one */
    long double epsilon; /* of the type; halves are combined in f32 */
    long double least;   /* subnormal */
} floats[] = {
    [HALAY_F32] = { 0x7fc00000, 0x1p-23L, 0x1p-149L },
    [HALAY_F64] = { 0x7ff8000000000000, 0x1p-52L, 0x1p-1074L },
    [HALAY_F16] = { 0x7e00, 0x1p-10L, 0x1p-24L },
    [HALAY_BF16] = { 0x7fc0, 0x1p-7L, 0x1p-133L },
};

static long double float_combine(enum halay_reduction op, long double a, long double b)
{
    if (isnan(a) || isnan(b))
        return (long double)NAN;
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

static int float_is_right(enum halay_dtype dtype, enum halay_reduction op, const void *const *src, int sources,
                          const void *got)
{
    long double want = float_at(dtype, src[0]), scale = fabsl(want), result = float_at(dtype, got), error;
    long double tiny = 1; /* the least product of some of the sources */

    for (int s = 0; s < sources; s++) {
        long double x = fabsl(float_at(dtype, src[s]));
        tiny *= x < 1 ? x : 1;
    }
    for (int s = 1; s < sources; s++) {
        long double x = float_at(dtype, src[s]);
        want = float_combine(op, want, x);
        scale = op == HALAY_PRODUCT ? fabsl(want) : scale + fabsl(x);
    }
    if (op == HALAY_AVERAGE)
        want /= sources;
    if (op == HALAY_PRODUCT && isinf(want) && isnan(result) && tiny < floats[dtype].least)
        want = (long double)NAN; /* what vanished was multiplied by an infinity */
    if (isnan(want))
        return !memcmp(got, &floats[dtype].nan, halay_dtype_size(dtype));
    if (isinf(want) || op == HALAY_MIN || op == HALAY_MAX)
        return result == want && !signbit(result) == !signbit(want);
    /* Each step rounds in f32 or f64, once more at the end; a product's steps may lose what is below the least
     * number. */
    error = (dtype == HALAY_F64 ? 0x1p-53L : 0x1p-24L) * sources * scale + floats[dtype].epsilon / 2 * fabsl(want) +
            floats[dtype].least * (1 + (op == HALAY_PRODUCT) * 512 * sources);
    return fabsl(result - want) <= error;
}

/* Moderate numbers, so that nothing but an infinity overflows: products of nine stay below 2^9. */
static void fill_moderate(enum halay_dtype dtype, enum halay_reduction op, unsigned char *p)
{
    static const double odd[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-310, -1e-40, 3e-40, 6e-8, -6e-8 };
    uint64_t bits = random_bits();
    double x = (double)(int64_t)(bits >> 11 << 2) * 0x1p-54 + 1; /* 1 to 3 less a bit */

    x = (bits & 1 ? -1 : 1) * (op == HALAY_PRODUCT ? x / 1.5 : x * 40);
    if ((bits >> 1 & 31) == 0)
        x = odd[(bits >> 6) % (sizeof odd / sizeof *odd)];
    if (dtype > HALAY_BF16)
        memcpy(p, &bits, halay_dtype_size(dtype));
    else if (dtype == HALAY_F64)
        memcpy(p, &x, sizeof x);
    else if (dtype == HALAY_F32)
        memcpy(p, &(float){ (float)x }, sizeof(float));
    else
        memcpy(p, &(uint16_t){ dtype == HALAY_F16 ? halay_f32_to_f16((float)x) : halay_f32_to_bf16((float)x) }, 2);
}

static void check_meaning_of(const struct halay_reducer *r, enum halay_dtype dtype, enum halay_reduction op,
                             int sources)
{
    enum { COUNT = 150 };
    static unsigned char in[SOURCES][COUNT * 8], out[COUNT * 8];
    size_t size = halay_dtype_size(dtype), wrong = 0;
    const void *src[SOURCES];
    void *dst[1] = { out };

    for (int s = 0; s < sources; s++) {
        src[s] = in[s];
        for (size_t i = 0; i < COUNT; i++)
            fill_moderate(dtype, op, in[s] + i * size);
    }
    r->reduce[dtype][op](dst, 1, src, sources, COUNT, op == HALAY_AVERAGE ? sources : 1);
    for (size_t i = 0; i < COUNT; i++) {
        for (int s = 0; s < sources; s++)
            src[s] = in[s] + i * size;
        wrong += !(dtype > HALAY_BF16 ? integer_is_right(dtype, op, src, sources, out + i * size)
                                      : float_is_right(dtype, op, src, sources, out + i * size));
    }
    CHECK(!wrong, "%s: %s %s of %d: %zu wrong", r->name, halay_dtype_name(dtype), halay_reduction_name(op), sources,
          wrong);
}

static void check_meaning(void)
{
    const struct halay_reducer *r;

    for (int v = 0; (r = halay_reducer_get(v)); v++)
        for (int t = 0; t < HALAY_DTYPE_COUNT; t++)
            for (int o = 0; o < HALAY_ADASUM; o++) {
                int takes = halay_reduction_takes((enum halay_reduction)o, (enum halay_dtype)t);
                CHECK(takes == (r->reduce[t][o] != NULL), "%s: %d %d", r->name, t, o);
                for (int sources = 1; takes && sources <= SOURCES; sources++)
                    check_meaning_of(r, (enum halay_dtype)t, (enum halay_reduction)o, sources);
            }
}

/* ---- the edges, by hand ---- */

/* One operation on two elements, given and expected as bits. The array is long enough for any vector. */
static void check_edge(enum halay_dtype dtype, enum halay_reduction op, uint64_t a, uint64_t b, uint64_t want)
{
    enum { COUNT = 65 };
    unsigned char in[2][COUNT * 8], out[COUNT * 8];
    const void *src[] = { in[0], in[1] };
    void *dst[] = { out };
    size_t size = halay_dtype_size(dtype);
    const struct halay_reducer *r;

    for (int v = 0; (r = halay_reducer_get(v)); v++) {
        for (size_t i = 0; i < COUNT; i++) {
            memcpy(in[0] + i * size, &a, size);
            memcpy(in[1] + i * size, &b, size);
        }
        r->reduce[dtype][op](dst, 1, src, 2, COUNT, op == HALAY_AVERAGE ? 2 : 1);
        for (size_t i = 0; i < COUNT; i += COUNT - 1)
            CHECK(!memcmp(out + i * size, &want, size), "%s: %s %s of %llx and %llx", r->name, halay_dtype_name(dtype),
                  halay_reduction_name(op), (unsigned long long)a, (unsigned long long)b);
    }
}

static void check_integer_edges(void)
{
    const uint64_t least = 0x8000000000000000, most = 0x7fffffffffffffff, all = ~(uint64_t)0;

    /* Overflow of integers wraps around. */
    check_edge(HALAY_U8, HALAY_SUM, 255, 2, 1);
    check_edge(HALAY_U8, HALAY_PRODUCT, 200, 3, 600 & 0xff);
    check_edge(HALAY_I8, HALAY_SUM, 127, 1, 0x80);
    check_edge(HALAY_I8, HALAY_PRODUCT, 0x80, 0xff, 0x80);
    check_edge(HALAY_U16, HALAY_PRODUCT, 0xffff, 0xffff, 1); /* as int it would overflow */
    check_edge(HALAY_I16, HALAY_SUM, 0x7fff, 1, 0x8000);
    check_edge(HALAY_I32, HALAY_SUM, 0x7fffffff, 1, 0x80000000);
    check_edge(HALAY_I32, HALAY_PRODUCT, 0x80000000, 0xffffffff, 0x80000000);
    check_edge(HALAY_I64, HALAY_SUM, most, 1, least);
    check_edge(HALAY_I64, HALAY_PRODUCT, 0x123456789abcdef1, 0xfedcba9876543210,
               0x123456789abcdef1 * 0xfedcba9876543210);
    check_edge(HALAY_I64, HALAY_PRODUCT, least, all, least);
    /* With and without a sign. */
    check_edge(HALAY_U8, HALAY_MAX, 0x80, 0x7f, 0x80);
    check_edge(HALAY_I8, HALAY_MAX, 0x80, 0x7f, 0x7f);
    check_edge(HALAY_U16, HALAY_MIN, 0x8000, 0x7fff, 0x7fff);
    check_edge(HALAY_I16, HALAY_MIN, 0x8000, 0x7fff, 0x8000);
    check_edge(HALAY_I64, HALAY_MIN, least, most, least);
    /* bool. */
    check_edge(HALAY_BOOL, HALAY_SUM, 1, 1, 1);
    check_edge(HALAY_BOOL, HALAY_SUM, 255, 1, 1);
    check_edge(HALAY_BOOL, HALAY_BIT_AND, 2, 1, 1); /* both true, though they have no bit in common */
    check_edge(HALAY_BOOL, HALAY_PRODUCT, 0, 7, 0);
    check_edge(HALAY_BOOL, HALAY_MIN, 3, 9, 1);
    check_edge(HALAY_BOOL, HALAY_MAX, 0, 0, 0);
}

static void check_float_edges(void)
{
    const uint64_t minus_zero = 0x8000000000000000;

    /* Too large. */
    check_edge(HALAY_F16, HALAY_SUM, 0x7bff, 0x7bff, 0x7c00);
    check_edge(HALAY_F16, HALAY_AVERAGE, 0x7bff, 0x7bff, 0x7bff); /* divides before it rounds */
    check_edge(HALAY_BF16, HALAY_PRODUCT, 0x7f7f, 0xff7f, 0xff80);
    check_edge(HALAY_F32, HALAY_SUM, 0x7f7fffff, 0x7f7fffff, 0x7f800000);
    check_edge(HALAY_F64, HALAY_PRODUCT, 0x7fefffffffffffff, 0x4000000000000000, 0x7ff0000000000000);
    /* Subnormal numbers are kept: the least one twice; a normal one halved. */
    check_edge(HALAY_F16, HALAY_SUM, 1, 1, 2);
    check_edge(HALAY_BF16, HALAY_SUM, 1, 0x8003, 0x8002);
    check_edge(HALAY_F32, HALAY_SUM, 1, 1, 2);
    check_edge(HALAY_F64, HALAY_SUM, 1, 1, 2);
    check_edge(HALAY_F16, HALAY_PRODUCT, 0x0400, 0x3800, 0x0200);
    check_edge(HALAY_F32, HALAY_PRODUCT, 0x00800000, 0x3f000000, 0x00400000);
    check_edge(HALAY_F32, HALAY_MIN, 1, 2, 1);
    /* Ties go to the even number. */
    check_edge(HALAY_BF16, HALAY_SUM, 0x3f80, 0x3b80, 0x3f80);
    check_edge(HALAY_BF16, HALAY_SUM, 0x3f81, 0x3b80, 0x3f82);
    check_edge(HALAY_F16, HALAY_SUM, 0x3c01, 0x1000, 0x3c02);
    /* A NaN comes out canonical, whatever it was; nothing else comes out of it. */
    check_edge(HALAY_BF16, HALAY_MAX, 0xffff, 0x3f80, 0x7fc0);
    check_edge(HALAY_F16, HALAY_PRODUCT, 0xfe01, 0, 0x7e00);
    check_edge(HALAY_F32, HALAY_PRODUCT, 0x7f800000, 0, 0x7fc00000);
    check_edge(HALAY_F64, HALAY_MIN, 0xfff8000000000001, 0, 0x7ff8000000000000);
    /* Zeros. */
    check_edge(HALAY_F64, HALAY_MIN, 0, minus_zero, minus_zero);
    check_edge(HALAY_F64, HALAY_MAX, minus_zero, 0, 0);
    check_edge(HALAY_F16, HALAY_SUM, 0x8000, 0x8000, 0x8000);
    check_edge(HALAY_F32, HALAY_SUM, 0x80000000, 0, 0);
    check_edge(HALAY_BF16, HALAY_PRODUCT, 0x8000, 0x3f80, 0x8000);
}

static void check_rules(void)
{
    const struct halay_reducer *r;

    for (int v = 0; (r = halay_reducer_get(v)); v++) {
        float a[] = { 0.0f, -0.0f, NAN, 1.0f, -NAN, 2.0f, INFINITY },
              b[] = { -0.0f, 0.0f, 1.0f, NAN, NAN, 3.0f, -INFINITY };
        float c[7];
        const void *src[] = { a, b };
        void *dst[] = { c };
        const uint32_t nan = 0x7fc00000;
        r->reduce[HALAY_F32][HALAY_MIN](dst, 1, src, 2, 7, 1);
        CHECK(c[0] == 0 && signbit(c[0]) && c[1] == 0 && signbit(c[1]) && c[5] == 2 && c[6] == -INFINITY, "%s min",
              r->name);
        CHECK(halay_f32_bits(c[2]) == nan && halay_f32_bits(c[3]) == nan && halay_f32_bits(c[4]) == nan, "%s", r->name);
        r->reduce[HALAY_F32][HALAY_MAX](dst, 1, src, 2, 7, 1);
        CHECK(c[0] == 0 && !signbit(c[0]) && c[1] == 0 && !signbit(c[1]) && c[5] == 3 && c[6] == INFINITY, "%s max",
              r->name);
        CHECK(halay_f32_bits(c[2]) == nan && halay_f32_bits(c[3]) == nan && halay_f32_bits(c[4]) == nan, "%s", r->name);
        r->reduce[HALAY_F32][HALAY_SUM](dst, 1, src, 2, 7, 1);
        CHECK(halay_f32_bits(c[4]) == nan && halay_f32_bits(c[6]) == nan, "%s: inf - inf", r->name);

        /* One rounding: 2048 + 1 + 1 is 2048 twice rounded in f16, 2050 rounded once. */
        uint16_t h[3] = { halay_f32_to_f16(2048), halay_f32_to_f16(1), halay_f32_to_f16(1) }, sum;
        const void *three[] = { &h[0], &h[1], &h[2] };
        void *one[] = { &sum };
        r->reduce[HALAY_F16][HALAY_SUM](one, 1, three, 3, 1, 1);
        CHECK(halay_f16_to_f32(sum) == 2050, "%s: f16 rounds once", r->name);
        /* The average of three largest numbers does not overflow on the way. */
        h[0] = h[1] = h[2] = halay_f32_to_f16(65504);
        r->reduce[HALAY_F16][HALAY_AVERAGE](one, 1, three, 3, 1, 3);
        CHECK(halay_f16_to_f32(sum) == 65504, "%s: average divides before it rounds", r->name);
        int32_t big[2] = { INT32_MAX, 1 }, wrapped;
        const void *ints[] = { &big[0], &big[1] };
        void *into[] = { &wrapped };
        r->reduce[HALAY_I32][HALAY_SUM](into, 1, ints, 2, 1, 1);
        CHECK(wrapped == INT32_MIN, "%s: integers wrap around", r->name);
    }
}

/* ---- Adasum's products and joins ---- */

static void check_adasum_of(const struct halay_reducer *r, enum halay_dtype dtype, size_t count)
{
    const struct halay_reducer *plain = halay_reducer_get(0);
    static unsigned char a[2][MOST * 8 + 8], b[MOST * 8 + 8];
    size_t size = halay_dtype_size(dtype);
    double three[2][3] = { { 0 }, { 0 } };
    long double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < count; i++) {
        double x = (double)(int32_t)random_bits() * 0x1p-20, y = (double)(int32_t)random_bits() * 0x1p-30;
        for (int k = 0; k < 2 && dtype == HALAY_F64; k++)
            memcpy(a[k] + (i + 1) * size, &x, size);
        for (int k = 0; k < 2 && dtype == HALAY_F32; k++)
            memcpy(a[k] + (i + 1) * size, &(float){ (float)x }, size);
        memcpy(b + (i + 1) * size, dtype == HALAY_F64 ? (void *)&y : &(float){ (float)y }, size);
        ab += float_at(dtype, a[0] + (i + 1) * size) * float_at(dtype, b + (i + 1) * size);
        aa += float_at(dtype, a[0] + (i + 1) * size) * float_at(dtype, a[0] + (i + 1) * size);
        bb += float_at(dtype, b + (i + 1) * size) * float_at(dtype, b + (i + 1) * size);
    }
    plain->dots[dtype](a[0] + size, b + size, count, three[0]);
    r->dots[dtype](a[1] + size, b + size, count, three[1]);
    CHECK(!memcmp(three[0], three[1], sizeof three[0]), "%s: dots of %zu", r->name, count);
    CHECK(fabsl(three[0][0] - ab) <= 1e-13L * sqrtl(aa * bb) && fabsl(three[0][1] - aa) <= 1e-13L * aa &&
              fabsl(three[0][2] - bb) <= 1e-13L * bb,
          "%s: dots of %zu", r->name, count);
    plain->join[dtype](a[0] + size, b + size, count, 0.3, 1.7);
    r->join[dtype](a[1] + size, b + size, count, 0.3, 1.7);
    CHECK(!memcmp(a[0], a[1], sizeof a[0]), "%s: join of %zu", r->name, count);
}

static void check_adasum(void)
{
    const struct halay_reducer *r;

    for (int v = 0; (r = halay_reducer_get(v)); v++)
        for (size_t count = 0; count < MOST; count++) {
            check_adasum_of(r, HALAY_F32, count);
            check_adasum_of(r, HALAY_F64, count);
        }
}

int main(void)
{
    check_adasum();
    check_meaning();
    check_integer_edges();
    check_float_edges();
    check_rules();
    check_tree();
    check_vectors();
    check_conversions();
    return test_end();
}
