/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction in plain C: the specification of what reduce.h promises.
 *
 * The tree over the sources is walked like a binary counter: after leaf number r has been pushed, as many neighbouring
 * subtrees of equal size are combined as r has trailing one bits; what is left at the end (one subtree for each one bit of
 * the number of sources, sizes falling) is combined from the right.
 *
 *     leaves   0   1     2     3         4         5            6
 *     stack   [0] [01] [01 2] [0123] [0123 4] [0123 45] [0123 45 6] -> 45+6 -> 0123+456
 *
 * It is done for BLOCK elements at a time, so that the stack stays in the first-level cache and the loops are simple
 * enough for any compiler to vectorise. Two sources, the common case, have a loop of their own.
 */
#include "collectives/reduce.h"
#include "base/half.h"
#include <math.h>
#include <stdint.h>

enum { BLOCK = 64 };

static float f32_sum(float a, float b)
{
    return a + b;
}

static double f64_sum(double a, double b)
{
    return a + b;
}

static int32_t i32_sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int64_t i64_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* min and max: not a number wins, then the smaller (larger) value, then the zero of the wanted sign. */
#define DEFINE_FLOAT_MIN_MAX(T, TYPE)                                                                                  \
    static TYPE T##_min(TYPE a, TYPE b)                                                                                \
    {                                                                                                                  \
        if (a != a || b != b)                                                                                          \
            return (TYPE)NAN;                                                                                          \
        return a < b || (a == b && signbit(a)) ? a : b;                                                                \
    }                                                                                                                  \
    static TYPE T##_max(TYPE a, TYPE b)                                                                                \
    {                                                                                                                  \
        if (a != a || b != b)                                                                                          \
            return (TYPE)NAN;                                                                                          \
        return a > b || (a == b && !signbit(a)) ? a : b;                                                               \
    }                                                                                                                  \
    static TYPE T##_finish(TYPE a, int divisor)                                                                        \
    {                                                                                                                  \
        if (divisor > 1)                                                                                               \
            a /= (TYPE)divisor;                                                                                        \
        return a == a ? a : (TYPE)NAN;                                                                                 \
    }

DEFINE_FLOAT_MIN_MAX(f32, float)
DEFINE_FLOAT_MIN_MAX(f64, double)

#define DEFINE_INTEGER_MIN_MAX(T, TYPE)                                                                                \
    static TYPE T##_min(TYPE a, TYPE b)                                                                                \
    {                                                                                                                  \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    static TYPE T##_max(TYPE a, TYPE b)                                                                                \
    {                                                                                                                  \
        return a > b ? a : b;                                                                                          \
    }                                                                                                                  \
    static TYPE T##_finish(TYPE a, int divisor)                                                                        \
    {                                                                                                                  \
        (void)divisor; /* integers have no average */                                                                  \
        return a;                                                                                                      \
    }

DEFINE_INTEGER_MIN_MAX(i32, int32_t)
DEFINE_INTEGER_MIN_MAX(i64, int64_t)

#define SAME(x) (x)

/* ELEMENT: what lies in the arrays; ACCUMULATOR: what is combined; LOAD and STORE go from one to the other. */
#define DEFINE_REDUCE(NAME, ELEMENT, ACCUMULATOR, LOAD, STORE, COMBINE, FINISH)                                        \
    static void NAME(void *const *dst, int destinations, const void *const *src, int sources, size_t count,            \
                     int divisor)                                                                                      \
    {                                                                                                                  \
        ACCUMULATOR stack[HALAY_REDUCE_DEPTH][BLOCK];                                                                  \
                                                                                                                       \
        if (sources == 2 && destinations == 1) {                                                                       \
            const ELEMENT *a = src[0], *b = src[1];                                                                    \
            ELEMENT *c = dst[0];                                                                                       \
            for (size_t i = 0; i < count; i++)                                                                         \
                c[i] = STORE(FINISH(COMBINE(LOAD(a[i]), LOAD(b[i])), divisor));                                        \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t start = 0; start < count; start += BLOCK) {                                                        \
            size_t n = count - start < BLOCK ? count - start : BLOCK;                                                  \
            int depth = 0;                                                                                             \
            for (int r = 0; r < sources; r++) {                                                                        \
                const ELEMENT *a = (const ELEMENT *)src[r] + start;                                                    \
                for (size_t i = 0; i < n; i++)                                                                         \
                    stack[depth][i] = LOAD(a[i]);                                                                      \
                depth++;                                                                                               \
                for (int bits = r; depth > 1 && (bits & 1 || r == sources - 1); bits >>= 1, depth--)                   \
                    for (size_t i = 0; i < n; i++)                                                                     \
                        stack[depth - 2][i] = COMBINE(stack[depth - 2][i], stack[depth - 1][i]);                       \
            }                                                                                                          \
            for (size_t i = 0; i < n; i++)                                                                             \
                stack[0][i] = FINISH(stack[0][i], divisor);                                                            \
            for (int d = 0; d < destinations; d++) {                                                                   \
                ELEMENT *c = (ELEMENT *)dst[d] + start;                                                                \
                for (size_t i = 0; i < n; i++)                                                                         \
                    c[i] = STORE(stack[0][i]);                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

#define DEFINE_TYPE(T, ELEMENT, ACCUMULATOR, LOAD, STORE, A)                                                           \
    DEFINE_REDUCE(T##_reduce_sum, ELEMENT, ACCUMULATOR, LOAD, STORE, A##_sum, A##_finish)                              \
    DEFINE_REDUCE(T##_reduce_min, ELEMENT, ACCUMULATOR, LOAD, STORE, A##_min, A##_finish)                              \
    DEFINE_REDUCE(T##_reduce_max, ELEMENT, ACCUMULATOR, LOAD, STORE, A##_max, A##_finish)

DEFINE_TYPE(f32, float, float, SAME, SAME, f32)
DEFINE_TYPE(f64, double, double, SAME, SAME, f64)
DEFINE_TYPE(f16, uint16_t, float, halay_f16_to_f32, halay_f32_to_f16, f32)
DEFINE_TYPE(bf16, uint16_t, float, halay_bf16_to_f32, halay_f32_to_bf16, f32)
DEFINE_TYPE(i32, int32_t, int32_t, SAME, SAME, i32)
DEFINE_TYPE(i64, int64_t, int64_t, SAME, SAME, i64)

#define DEFINE_CONVERSIONS(T)                                                                                          \
    static void T##_widen(float *dst, const void *src, size_t count)                                                   \
    {                                                                                                                  \
        const uint16_t *a = src;                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                             \
            dst[i] = halay_##T##_to_f32(a[i]);                                                                         \
    }                                                                                                                  \
    static void T##_narrow(void *dst, const float *src, size_t count)                                                  \
    {                                                                                                                  \
        uint16_t *c = dst;                                                                                             \
        for (size_t i = 0; i < count; i++)                                                                             \
            c[i] = halay_f32_to_##T(f32_finish(src[i], 1));                                                            \
    }

DEFINE_CONVERSIONS(f16)
DEFINE_CONVERSIONS(bf16)

#define ROW(T)                                                                                                         \
    {                                                                                                                  \
        [HALAY_SUM] = T##_reduce_sum, [HALAY_AVERAGE] = T##_reduce_sum, [HALAY_MIN] = T##_reduce_min,                  \
        [HALAY_MAX] = T##_reduce_max                                                                                   \
    }

static const struct halay_reducer plain = {
    .name = "plain",
    .reduce = { [HALAY_F32] = ROW(f32),
                [HALAY_F64] = ROW(f64),
                [HALAY_F16] = ROW(f16),
                [HALAY_BF16] = ROW(bf16),
                [HALAY_I32] = ROW(i32),
                [HALAY_I64] = ROW(i64) },
    .widen = { [HALAY_F16] = f16_widen, [HALAY_BF16] = bf16_widen },
    .narrow = { [HALAY_F16] = f16_narrow, [HALAY_BF16] = bf16_narrow },
};

const struct halay_reducer *halay_reducer_get(int index)
{
    const struct halay_reducer *vector[] = { halay_reducer_avx2(), halay_reducer_avx512() };

    if (index == 0)
        return &plain;
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        if (vector[i] && --index == 0)
            return vector[i];
    return NULL;
}

const struct halay_reducer *halay_reducer_best(void)
{
    const struct halay_reducer *best = &plain, *next;

    for (int i = 1; (next = halay_reducer_get(i)); i++)
        best = next;
    return best;
}
