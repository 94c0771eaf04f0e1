/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction in plain C: the specification of what reduce.h promises.
 *
 * The tree over the sources is walked like a binary counter: after leaf number r has been pushed, as many neighbouring
 * subtrees of equal size are combined as r has trailing one bits; what is left at the end (one subtree for each one bit
 * of the number of sources, sizes falling) is combined from the right.
 *
 *     leaves   0   1     2     3         4         5            6
 *     stack   [0] [01] [01 2] [0123] [0123 4] [0123 45] [0123 45 6] -> 45+6 -> 0123+456
 *
 * It is done for BLOCK elements at a time, so that the stack stays in the first-level cache and the loops are simple
 * enough for any compiler to vectorise. Two sources, the common case, have a loop of their own.
 */
#include "collectives/reduce/reduce.h"
#include "base/half.h"
#include "collectives/reduce/reduce_types.h"
#include <math.h>

enum { BLOCK = 64 };

/* min and max: NaN wins, then the smaller (larger) value, then the zero with the smaller (larger) sign. */
#define DEFINE_FLOAT(T, TYPE)                            \
    static TYPE T##_sum(TYPE a, TYPE b)                  \
    {                                                    \
        return a + b;                                    \
    }                                                    \
    static TYPE T##_product(TYPE a, TYPE b)              \
    {                                                    \
        return a * b;                                    \
    }                                                    \
    static TYPE T##_min(TYPE a, TYPE b)                  \
    {                                                    \
        if (a != a || b != b)                            \
            return (TYPE)NAN;                            \
        return a < b || (a == b && signbit(a)) ? a : b;  \
    }                                                    \
    static TYPE T##_max(TYPE a, TYPE b)                  \
    {                                                    \
        if (a != a || b != b)                            \
            return (TYPE)NAN;                            \
        return a > b || (a == b && !signbit(a)) ? a : b; \
    }                                                    \
    static TYPE T##_finish(TYPE a, int divisor)          \
    {                                                    \
        if (divisor > 1)                                 \
            a /= (TYPE)divisor;                          \
        return a == a ? a : (TYPE)NAN;                   \
    }

DEFINE_FLOAT(f32, float)
DEFINE_FLOAT(f64, double)

/* In an unsigned type of 64 bits nothing is promoted to a signed type, so everything wraps around. */
#define DEFINE_INTEGER(U, TYPE)             \
    static TYPE U##_sum(TYPE a, TYPE b)     \
    {                                       \
        return (TYPE)((uint64_t)a + b);     \
    }                                       \
    static TYPE U##_product(TYPE a, TYPE b) \
    {                                       \
        return (TYPE)((uint64_t)a * b);     \
    }                                       \
    static TYPE U##_and(TYPE a, TYPE b)     \
    {                                       \
        return a & b;                       \
    }                                       \
    static TYPE U##_or(TYPE a, TYPE b)      \
    {                                       \
        return a | b;                       \
    }

HALAY_MODULAR_TYPES(DEFINE_INTEGER)

#define INTEGER_MIN(a, b) ((a) < (b) ? (a) : (b))
#define INTEGER_MAX(a, b) ((a) > (b) ? (a) : (b))
#define INTEGER_FINISH(a, divisor) ((void)(divisor), (a)) /* integers have no average */

#define SAME(x) (x)
#define IS_TRUE(x) ((x) != 0)

/* ELEMENT: the type of the arrays; ACCUMULATOR: the type that is combined; LOAD and STORE go from one to the other. */
#define DEFINE_REDUCE(NAME, ELEMENT, ACCUMULATOR, LOAD, STORE, COMBINE, FINISH)                             \
    static void NAME(void *const *dst, int destinations, const void *const *src, int sources, size_t count, \
                     int divisor)                                                                           \
    {                                                                                                       \
        ACCUMULATOR stack[HALAY_REDUCE_DEPTH][BLOCK];                                                       \
                                                                                                            \
        if (sources == 2 && destinations == 1) {                                                            \
            const ELEMENT *a = src[0], *b = src[1];                                                         \
            ELEMENT *c = dst[0];                                                                            \
            for (size_t i = 0; i < count; i++)                                                              \
                c[i] = STORE(FINISH(COMBINE(LOAD(a[i]), LOAD(b[i])), divisor));                             \
            return;                                                                                         \
        }                                                                                                   \
        for (size_t start = 0; start < count; start += BLOCK) {                                             \
            size_t n = count - start < BLOCK ? count - start : BLOCK;                                       \
            int depth = 0;                                                                                  \
            for (int r = 0; r < sources; r++) {                                                             \
                const ELEMENT *a = (const ELEMENT *)src[r] + start;                                         \
                for (size_t i = 0; i < n; i++)                                                              \
                    stack[depth][i] = LOAD(a[i]);                                                           \
                depth++;                                                                                    \
                for (int bits = r; depth > 1 && (bits & 1 || r == sources - 1); bits >>= 1, depth--)        \
                    for (size_t i = 0; i < n; i++)                                                          \
                        stack[depth - 2][i] = COMBINE(stack[depth - 2][i], stack[depth - 1][i]);            \
            }                                                                                               \
            for (size_t i = 0; i < n; i++)                                                                  \
                stack[0][i] = FINISH(stack[0][i], divisor);                                                 \
            for (int d = 0; d < destinations; d++) {                                                        \
                ELEMENT *c = (ELEMENT *)dst[d] + start;                                                     \
                for (size_t i = 0; i < n; i++)                                                              \
                    c[i] = STORE(stack[0][i]);                                                              \
            }                                                                                               \
        }                                                                                                   \
    }

/* Accumulators of floating types, conversions to and from them, and their operations. */
typedef float f32_wide, f16_wide, bf16_wide;
typedef double f64_wide;
#define f32_load SAME
#define f32_store SAME
#define f64_load SAME
#define f64_store SAME
#define f16_load halay_f16_to_f32
#define f16_store halay_f32_to_f16
#define bf16_load halay_bf16_to_f32
#define bf16_store halay_f32_to_bf16
#define bf16_sum f32_sum
#define bf16_product f32_product
#define bf16_min f32_min
#define bf16_max f32_max
#define bf16_finish f32_finish

#define DEFINE_FLOAT_REDUCE(T, ELEMENT, OP) \
    DEFINE_REDUCE(T##_reduce_##OP, ELEMENT, T##_wide, T##_load, T##_store, T##_##OP, T##_finish)
#define DEFINE_FLOAT_TYPE(T, ELEMENT)        \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, sum)     \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, product) \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, min)     \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, max)
HALAY_FLOAT_TYPES(DEFINE_FLOAT_TYPE)

#define DEFINE_MODULAR(U, TYPE)                                                            \
    DEFINE_REDUCE(U##_reduce_sum, TYPE, TYPE, SAME, SAME, U##_sum, INTEGER_FINISH)         \
    DEFINE_REDUCE(U##_reduce_product, TYPE, TYPE, SAME, SAME, U##_product, INTEGER_FINISH) \
    DEFINE_REDUCE(U##_reduce_and, TYPE, TYPE, SAME, SAME, U##_and, INTEGER_FINISH)         \
    DEFINE_REDUCE(U##_reduce_or, TYPE, TYPE, SAME, SAME, U##_or, INTEGER_FINISH)

#define DEFINE_ORDERED(T, TYPE)                                                        \
    DEFINE_REDUCE(T##_reduce_min, TYPE, TYPE, SAME, SAME, INTEGER_MIN, INTEGER_FINISH) \
    DEFINE_REDUCE(T##_reduce_max, TYPE, TYPE, SAME, SAME, INTEGER_MAX, INTEGER_FINISH)

HALAY_MODULAR_TYPES(DEFINE_MODULAR)
HALAY_ORDERED_TYPES(DEFINE_ORDERED)
DEFINE_REDUCE(bool_reduce_and, uint8_t, uint8_t, IS_TRUE, SAME, u8_and, INTEGER_FINISH)
DEFINE_REDUCE(bool_reduce_or, uint8_t, uint8_t, IS_TRUE, SAME, u8_or, INTEGER_FINISH)

#define DEFINE_CONVERSIONS(T)                                         \
    static void T##_widen(float *dst, const void *src, size_t count)  \
    {                                                                 \
        const uint16_t *a = src;                                      \
        for (size_t i = 0; i < count; i++)                            \
            dst[i] = halay_##T##_to_f32(a[i]);                        \
    }                                                                 \
    static void T##_narrow(void *dst, const float *src, size_t count) \
    {                                                                 \
        uint16_t *c = dst;                                            \
        for (size_t i = 0; i < count; i++)                            \
            c[i] = halay_f32_to_##T(f32_finish(src[i], 1));           \
    }

HALAY_HALF_TYPES(DEFINE_CONVERSIONS)

#define TARGET
#include "collectives/reduce/reduce_adasum.h"

#define REDUCER_NAME "plain"
#include "collectives/reduce/reduce_impl.h"

const struct halay_reducer *halay_reducer_get(int index)
{
    const struct halay_reducer *vector[] = { halay_reducer_avx2(), halay_reducer_avx512() };

    if (index == 0)
        return &reducer;
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        if (vector[i] && --index == 0)
            return vector[i];
    return NULL;
}

const struct halay_reducer *halay_reducer_best(void)
{
    const struct halay_reducer *best = &reducer, *next;

    for (int i = 1; (next = halay_reducer_get(i)); i++)
        best = next;
    return best;
}
