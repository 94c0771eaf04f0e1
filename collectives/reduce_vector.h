/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction with vectors: the loops, written once and included by reduce_avx2.c and reduce_avx512.c, which define what a
 * vector is. The meaning is reduce.c's, bit for bit (tests/coll/test_reduce.c).
 *
 * The includer defines
 *     TARGET                    the attribute that lets a function use the instructions
 *     REDUCER_NAME              "avx2", ...
 *     T_vector, T_LANES         for each type T: an accumulator and how many elements it holds
 *     T_load(p), T_store(p, v)  from and to memory of any alignment, rounding to nearest even where that narrows
 *     T_sum, T_min, T_max(a, b)
 *     T_finish(v, divisor)      divides (floating types, divisor above 1) and makes a NaN canonical
 *
 * What makes it fast between two cores: a line of the peer's buffer is dirty in the peer's cache. Reading it and then
 * writing it takes two trips (fetch it shared, then make it ours); a prefetch for writing AHEAD bytes before takes one, and
 * keeps all line-fill buffers busy. The prefetch stops at the end of the array: the line behind it belongs to another
 * rank's part, which is being reduced at this moment.
 */
#include <string.h>

enum { UNROLL = 2, AHEAD = 1024, LINE = 64 };

#define PREFETCH_LINES(p, bytes)                                                                                       \
    for (size_t line_ = 0; line_ < (bytes); line_ += LINE)                                                             \
    __builtin_prefetch((const char *)(p) + AHEAD + line_, 1, 3)

/* What the loops below do not reach: the first AHEAD bytes of the peers' arrays. */
TARGET static inline void prefetch_heads(void *const *dst, int destinations, size_t bytes)
{
    for (int d = 1; d < destinations; d++)
        for (size_t at = 0; at < bytes && at < AHEAD; at += LINE)
            __builtin_prefetch((const char *)dst[d] + at, 1, 3);
}

#define DEFINE_REDUCE(NAME, ELEMENT, T, COMBINE)                                                                       \
    /* The tree over all sources for `vectors` vectors from element `at` on; see reduce.c. */                          \
    TARGET static inline void NAME##_tree(T##_vector (*stack)[UNROLL], int vectors, const void *const *src,            \
                                          int sources, size_t at)                                                      \
    {                                                                                                                  \
        int depth = 0;                                                                                                 \
        for (int r = 0; r < sources; r++) {                                                                            \
            const ELEMENT *a = (const ELEMENT *)src[r] + at;                                                           \
            for (int u = 0; u < vectors; u++)                                                                          \
                stack[depth][u] = T##_load(a + u * T##_LANES);                                                         \
            depth++;                                                                                                   \
            for (int bits = r; depth > 1 && (bits & 1 || r == sources - 1); bits >>= 1, depth--)                       \
                for (int u = 0; u < vectors; u++)                                                                      \
                    stack[depth - 2][u] = COMBINE(stack[depth - 2][u], stack[depth - 1][u]);                           \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* Fewer elements than a vector holds: through a padded copy. */                                                   \
    TARGET static void NAME##_rest(void *const *dst, int destinations, const void *const *src, int sources, size_t at, \
                                   size_t count, int divisor)                                                          \
    {                                                                                                                  \
        T##_vector stack[HALAY_REDUCE_DEPTH];                                                                          \
        ELEMENT padded[T##_LANES] = { 0 };                                                                             \
        int depth = 0;                                                                                                 \
        for (int r = 0; r < sources; r++) {                                                                            \
            memcpy(padded, (const ELEMENT *)src[r] + at, count * sizeof(ELEMENT));                                     \
            stack[depth++] = T##_load(padded);                                                                         \
            for (int bits = r; depth > 1 && (bits & 1 || r == sources - 1); bits >>= 1, depth--)                       \
                stack[depth - 2] = COMBINE(stack[depth - 2], stack[depth - 1]);                                        \
        }                                                                                                              \
        T##_store(padded, T##_finish(stack[0], divisor));                                                              \
        for (int d = 0; d < destinations; d++)                                                                         \
            memcpy((ELEMENT *)dst[d] + at, padded, count * sizeof(ELEMENT));                                           \
    }                                                                                                                  \
                                                                                                                       \
    TARGET static void NAME(void *const *dst, int destinations, const void *const *src, int sources, size_t count,     \
                            int divisor)                                                                               \
    {                                                                                                                  \
        enum { STEP = UNROLL * T##_LANES, STEP_BYTES = STEP * sizeof(ELEMENT) };                                       \
        T##_vector stack[HALAY_REDUCE_DEPTH][UNROLL];                                                                  \
        const size_t near = AHEAD / sizeof(ELEMENT) + STEP; /* elements from the end at which prefetching stops */     \
        const size_t far = destinations > 1 && count > near ? count - near : 0;                                        \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        prefetch_heads(dst, destinations, count * sizeof(ELEMENT));                                                    \
        if (sources == 2 && destinations <= 2) {                                                                       \
            const ELEMENT *a = src[0], *b = src[1];                                                                    \
            ELEMENT *c = dst[0], *d = dst[destinations - 1];                                                           \
            for (; i + STEP <= count; i += STEP) {                                                                     \
                if (i < far)                                                                                           \
                    PREFETCH_LINES(d + i, STEP_BYTES);                                                                 \
                for (int u = 0; u < UNROLL; u++) {                                                                     \
                    const size_t at = i + (size_t)u * T##_LANES;                                                       \
                    T##_vector v = T##_finish(COMBINE(T##_load(a + at), T##_load(b + at)), divisor);                   \
                    T##_store(c + at, v);                                                                              \
                    T##_store(d + at, v);                                                                              \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        for (; i + STEP <= count; i += STEP) {                                                                         \
            if (i < far)                                                                                               \
                for (int d = 1; d < destinations; d++)                                                                 \
                    PREFETCH_LINES((ELEMENT *)dst[d] + i, STEP_BYTES);                                                 \
            NAME##_tree(stack, UNROLL, src, sources, i);                                                               \
            for (int u = 0; u < UNROLL; u++)                                                                           \
                stack[0][u] = T##_finish(stack[0][u], divisor);                                                        \
            for (int d = 0; d < destinations; d++)                                                                     \
                for (int u = 0; u < UNROLL; u++)                                                                       \
                    T##_store((ELEMENT *)dst[d] + i + (size_t)u * T##_LANES, stack[0][u]);                             \
        }                                                                                                              \
        while (i < count) {                                                                                            \
            const size_t n = count - i < T##_LANES ? count - i : T##_LANES;                                            \
            NAME##_rest(dst, destinations, src, sources, i, n, divisor);                                               \
            i += n;                                                                                                    \
        }                                                                                                              \
    }

#define DEFINE_TYPE(T, ELEMENT)                                                                                        \
    DEFINE_REDUCE(T##_reduce_sum, ELEMENT, T, T##_sum)                                                                 \
    DEFINE_REDUCE(T##_reduce_min, ELEMENT, T, T##_min)                                                                 \
    DEFINE_REDUCE(T##_reduce_max, ELEMENT, T, T##_max)

DEFINE_TYPE(f32, float)
DEFINE_TYPE(f64, double)
DEFINE_TYPE(f16, uint16_t)
DEFINE_TYPE(bf16, uint16_t)
DEFINE_TYPE(i32, int32_t)
DEFINE_TYPE(i64, int64_t)

#define DEFINE_CONVERSIONS(T)                                                                                          \
    TARGET static void T##_widen(float *dst, const void *src, size_t count)                                            \
    {                                                                                                                  \
        const uint16_t *a = src;                                                                                       \
        uint16_t narrow[T##_LANES] = { 0 };                                                                            \
        float wide[T##_LANES];                                                                                         \
        size_t i = 0;                                                                                                  \
        for (; i + T##_LANES <= count; i += T##_LANES)                                                                 \
            f32_store(dst + i, T##_load(a + i));                                                                       \
        memcpy(narrow, a + i, (count - i) * sizeof *a);                                                                \
        f32_store(wide, T##_load(narrow));                                                                             \
        memcpy(dst + i, wide, (count - i) * sizeof *dst);                                                              \
    }                                                                                                                  \
    TARGET static void T##_narrow(void *dst, const float *src, size_t count)                                           \
    {                                                                                                                  \
        uint16_t *c = dst;                                                                                             \
        uint16_t narrow[T##_LANES];                                                                                    \
        float wide[T##_LANES] = { 0 };                                                                                 \
        size_t i = 0;                                                                                                  \
        for (; i + T##_LANES <= count; i += T##_LANES)                                                                 \
            T##_store(c + i, f32_finish(f32_load(src + i), 1));                                                        \
        memcpy(wide, src + i, (count - i) * sizeof *src);                                                              \
        T##_store(narrow, f32_finish(f32_load(wide), 1));                                                              \
        memcpy(c + i, narrow, (count - i) * sizeof *c);                                                                \
    }

DEFINE_CONVERSIONS(f16)
DEFINE_CONVERSIONS(bf16)

#define ROW(T)                                                                                                         \
    {                                                                                                                  \
        [HALAY_SUM] = T##_reduce_sum, [HALAY_AVERAGE] = T##_reduce_sum, [HALAY_MIN] = T##_reduce_min,                  \
        [HALAY_MAX] = T##_reduce_max                                                                                   \
    }

static const struct halay_reducer vector_reducer = {
    .name = REDUCER_NAME,
    .reduce = { [HALAY_F32] = ROW(f32),
                [HALAY_F64] = ROW(f64),
                [HALAY_F16] = ROW(f16),
                [HALAY_BF16] = ROW(bf16),
                [HALAY_I32] = ROW(i32),
                [HALAY_I64] = ROW(i64) },
    .widen = { [HALAY_F16] = f16_widen, [HALAY_BF16] = bf16_widen },
    .narrow = { [HALAY_F16] = f16_narrow, [HALAY_BF16] = bf16_narrow },
};
