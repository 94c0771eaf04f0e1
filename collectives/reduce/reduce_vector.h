/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction with vectors: the operations and the loops, written once and included by reduce_avx2.c and reduce_avx512.c.
 * The meaning is reduce.c's, bit for bit (tests/coll/test_reduce.c).
 *
 * The includer defines
 *     TARGET, INLINE             the attribute that lets a function use the instructions; with static inline
 *     REDUCER_NAME               "avx2", ...
 *     MM(name), MM_BITS(name)    the intrinsic of that name for the width: _mm256_add_ps, _mm256_and_si256
 *     floats, doubles, integers, half_integers   the vectors; the last one of half the width
 *     load_half, store_half
 *     load_part, store_part      the first bytes of a vector, fewer than it has
 *     half_of, from_half         the lower half of a vector; a vector with that lower half and zeros
 *     nan_where_ps, _pd(v, a, b) v, but NaN where a or b is one
 *     any_nan(a, b)              is there one in any of the two?
 *     bf16_round(v)              rounded to nearest even, in the upper 16 bits; the lower ones are anything
 *     bf16_join(even, odd)       the same of two, one after the other in each 32 bits
 *     pack_words(v)              the lower 16 bits of each 32
 *     u64_product, i64_min, i64_max(a, b)
 *
 * min and max of floating types: the instructions give their second operand when both are zero or one is a NaN. Taken
 * both ways round, the two results are equal but in those cases; then "or" makes -0 of -0 and +0 (min) and "and" makes
 * +0 (max), and a comparison finds the NaNs.
 *
 * bf16 is not spread out and packed again, which would go through the one port for shuffles, but taken apart in place:
 * of each 32 bits the lower half shifted up is an even element as f32, the upper half alone an odd one.
 *
 * What makes it fast between two cores: a line of the peer's buffer is dirty in the peer's cache. Reading it and then
 * writing it takes two trips (fetch it shared, then make it ours); a prefetch for writing AHEAD bytes before takes one,
 * and keeps all line-fill buffers busy. The prefetch stops at the end of the array: the next line belongs to
 * another rank's part, which is being reduced at this moment. The processor's own prefetching does not stop there, but
 * at the end of a page: an array that begins a page and ends inside it is worked through from its end on. On Zen 3 the
 * second of two ranks otherwise takes three times as long for its half of 2 KB as the first.
 */
#include "base/memory.h"
#include "collectives/reduce/reduce_types.h"
#include <string.h>

enum { UNROLL = 2, AHEAD = 1024, LINE = 64 };

#define PREFETCH_LINES(p, bytes)                           \
    for (size_t line_ = 0; line_ < (bytes); line_ += LINE) \
    __builtin_prefetch((const char *)(p) + AHEAD + line_, 1, 3)

/* Returns nonzero if the arrays of two ranks are to be worked through from their ends on; prefetches them then. */
TARGET static inline int is_downwards(void *const *dst, int destinations, size_t bytes)
{
    const char *peers = dst[destinations - 1];

    if (destinations != 2 || bytes >= HALAY_PAGE || (uintptr_t)peers % HALAY_PAGE)
        return 0;
    for (size_t at = halay_round_up(bytes, LINE); at; at -= LINE)
        __builtin_prefetch(peers + at - LINE, 1, 3);
    return 1;
}

/* Prefetches the first AHEAD bytes of the peers' arrays, which the loops below do not. */
TARGET static inline void prefetch_heads(void *const *dst, int destinations, size_t bytes)
{
    for (int d = 1; d < destinations; d++)
        for (size_t at = 0; at < bytes && at < AHEAD; at += LINE)
            __builtin_prefetch((const char *)dst[d] + at, 1, 3);
}

enum {
    WIDTH = sizeof(integers),
    f32_LANES = WIDTH / 4,
    f64_LANES = WIDTH / 8,
    f16_LANES = WIDTH / 4, /* as f32 */
    bf16_LANES = WIDTH / 2,
};

/* ---- f32, f64 ---- */

typedef floats f32_vector;
typedef doubles f64_vector;

#define DEFINE_FLOAT(T, VECTOR, ELEMENT, P)                                              \
    INLINE VECTOR T##_load(const ELEMENT *p)                                             \
    {                                                                                    \
        return MM(loadu_##P)(p);                                                         \
    }                                                                                    \
    INLINE void T##_store(ELEMENT *p, VECTOR v)                                          \
    {                                                                                    \
        MM(storeu_##P)(p, v);                                                            \
    }                                                                                    \
    INLINE VECTOR T##_load_part(const ELEMENT *p, size_t bytes)                          \
    {                                                                                    \
        return (VECTOR)load_part(p, bytes);                                              \
    }                                                                                    \
    INLINE void T##_store_part(ELEMENT *p, VECTOR v, size_t bytes)                       \
    {                                                                                    \
        store_part(p, (integers)v, bytes);                                               \
    }                                                                                    \
    INLINE VECTOR T##_sum(VECTOR a, VECTOR b)                                            \
    {                                                                                    \
        return MM(add_##P)(a, b);                                                        \
    }                                                                                    \
    INLINE VECTOR T##_product(VECTOR a, VECTOR b)                                        \
    {                                                                                    \
        return MM(mul_##P)(a, b);                                                        \
    }                                                                                    \
    INLINE VECTOR T##_min(VECTOR a, VECTOR b)                                            \
    {                                                                                    \
        return nan_where_##P(MM(or_##P)(MM(min_##P)(a, b), MM(min_##P)(b, a)), a, b);    \
    }                                                                                    \
    INLINE VECTOR T##_max(VECTOR a, VECTOR b)                                            \
    {                                                                                    \
        return nan_where_##P(MM(and_##P)(MM(max_##P)(a, b), MM(max_##P)(b, a)), a, b);   \
    }                                                                                    \
    /* The end of a reduction: divides, if that is wanted, and makes a NaN canonical. */ \
    INLINE VECTOR T##_finish(VECTOR v, int divisor)                                      \
    {                                                                                    \
        if (divisor > 1)                                                                 \
            v = MM(div_##P)(v, MM(set1_##P)((ELEMENT)divisor));                          \
        return nan_where_##P(v, v, v);                                                   \
    }

DEFINE_FLOAT(f32, floats, float, ps)
DEFINE_FLOAT(f64, doubles, double, pd)

/* ---- f16 ---- */

typedef floats f16_vector;

INLINE floats f16_load(const uint16_t *p)
{
    return MM(cvtph_ps)(load_half(p));
}
INLINE half_integers f16_rounded(floats v)
{
    return MM(cvtps_ph)(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE void f16_store(uint16_t *p, floats v)
{
    store_half(p, f16_rounded(v));
}
INLINE floats f16_load_part(const uint16_t *p, size_t bytes)
{
    return MM(cvtph_ps)(half_of(load_part(p, bytes)));
}
INLINE void f16_store_part(uint16_t *p, floats v, size_t bytes)
{
    store_part(p, from_half(f16_rounded(v)), bytes);
}

/* ---- bf16 ---- */

typedef struct {
    floats even, odd;
} bf16_vector;

INLINE bf16_vector bf16_taken_apart(integers bits)
{
    return (bf16_vector){ .even = (floats)MM(slli_epi32)(bits, 16),
                          .odd = (floats)MM_BITS(and)(bits, MM(set1_epi32)((int)0xffff0000)) };
}
INLINE bf16_vector bf16_load(const uint16_t *p)
{
    return bf16_taken_apart(MM_BITS(loadu)((const void *)p));
}
INLINE void bf16_store(uint16_t *p, bf16_vector v)
{
    MM_BITS(storeu)((void *)p, bf16_join(v.even, v.odd));
}
INLINE bf16_vector bf16_load_part(const uint16_t *p, size_t bytes)
{
    return bf16_taken_apart(load_part(p, bytes));
}
INLINE void bf16_store_part(uint16_t *p, bf16_vector v, size_t bytes)
{
    store_part(p, bf16_join(v.even, v.odd), bytes);
}
#define DEFINE_PAIR(OP)                                                                          \
    INLINE bf16_vector bf16_##OP(bf16_vector a, bf16_vector b)                                   \
    {                                                                                            \
        return (bf16_vector){ .even = f32_##OP(a.even, b.even), .odd = f32_##OP(a.odd, b.odd) }; \
    }
DEFINE_PAIR(sum)
DEFINE_PAIR(product)
DEFINE_PAIR(min)
DEFINE_PAIR(max)
INLINE bf16_vector bf16_finish(bf16_vector v, int divisor)
{
    if (divisor > 1) {
        floats by = MM(set1_ps)((float)divisor);
        v = (bf16_vector){ .even = MM(div_ps)(v.even, by), .odd = MM(div_ps)(v.odd, by) };
    }
    /* One question for both, and seldom more: this loop is bound by arithmetic, not by memory. */
    if (__builtin_expect(any_nan(v.even, v.odd), 0))
        v = (bf16_vector){ .even = f32_finish(v.even, 1), .odd = f32_finish(v.odd, 1) };
    return v;
}

/* ---- integers and bool ---- */

INLINE integers integer_load(const void *p)
{
    return MM_BITS(loadu)(p);
}
INLINE void integer_store(void *p, integers v)
{
    MM_BITS(storeu)(p, v);
}
#define integer_load_part load_part
#define integer_store_part store_part
#define integer_and MM_BITS(and)
#define integer_or MM_BITS(or)
#define integer_finish(v, divisor) ((void)(divisor), (v))

#define u8_sum MM(add_epi8)
#define u16_sum MM(add_epi16)
#define u32_sum MM(add_epi32)
#define u64_sum MM(add_epi64)
#define u16_product MM(mullo_epi16)
#define u32_product MM(mullo_epi32)
#define u8_min MM(min_epu8)
#define u8_max MM(max_epu8)
#define i8_min MM(min_epi8)
#define i8_max MM(max_epi8)
#define u16_min MM(min_epu16)
#define u16_max MM(max_epu16)
#define i16_min MM(min_epi16)
#define i16_max MM(max_epi16)
#define i32_min MM(min_epi32)
#define i32_max MM(max_epi32)

/* No instruction multiplies bytes: the lower and the upper ones of each 16 bits apart. */
INLINE integers u8_product(integers a, integers b)
{
    integers lower = MM_BITS(and)(MM(mullo_epi16)(a, b), MM(set1_epi16)(0xff));
    integers upper = MM(mullo_epi16)(MM(srli_epi16)(a, 8), MM(srli_epi16)(b, 8));

    return MM_BITS(or)(lower, MM(slli_epi16)(upper, 8));
}
INLINE integers bool_load(const void *p)
{
    return MM(min_epu8)(integer_load(p), MM(set1_epi8)(1));
}
INLINE integers bool_load_part(const void *p, size_t bytes)
{
    return MM(min_epu8)(load_part(p, bytes), MM(set1_epi8)(1));
}

/* ---- the loops ---- */

/* VECTOR: what is combined, of LANES elements; LOAD and STORE go from and to memory of any alignment. */
#define DEFINE_REDUCE(NAME, ELEMENT, VECTOR, LANES, LOAD, STORE, COMBINE, FINISH)                                      \
    /* The tree over all sources for `vectors` vectors from element `at` on; see reduce.c. */                          \
    TARGET static inline void NAME##_tree(VECTOR(*stack)[UNROLL], int vectors, const void *const *src, int sources,    \
                                          size_t at)                                                                   \
    {                                                                                                                  \
        int depth = 0;                                                                                                 \
        for (int r = 0; r < sources; r++) {                                                                            \
            const ELEMENT *a = (const ELEMENT *)src[r] + at;                                                           \
            for (int u = 0; u < vectors; u++)                                                                          \
                stack[depth][u] = LOAD(a + u * LANES);                                                                 \
            depth++;                                                                                                   \
            for (int bits = r; depth > 1 && (bits & 1 || r == sources - 1); bits >>= 1, depth--)                       \
                for (int u = 0; u < vectors; u++)                                                                      \
                    stack[depth - 2][u] = COMBINE(stack[depth - 2][u], stack[depth - 1][u]);                           \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* At most a vector. A part of one not through a padded copy: a load of another width than the stores before it \
     * waits until they, and all earlier ones, have left the store buffer, the line that a peer polls among them. */  \
    INLINE VECTOR NAME##_some(const void *src, size_t at, size_t count)                                                \
    {                                                                                                                  \
        const ELEMENT *a = (const ELEMENT *)src + at;                                                                  \
        return count < LANES ? LOAD##_part(a, count * sizeof(ELEMENT)) : LOAD(a);                                      \
    }                                                                                                                  \
    TARGET static __attribute__((noinline))                                                                            \
    VECTOR NAME##_some_tree(const void *const *src, int sources, size_t at, size_t count)                              \
    {                                                                                                                  \
        VECTOR stack[HALAY_REDUCE_DEPTH];                                                                              \
        int depth = 0;                                                                                                 \
        for (int r = 0; r < sources; r++) {                                                                            \
            stack[depth++] = NAME##_some(src[r], at, count);                                                           \
            for (int bits = r; depth > 1 && (bits & 1 || r == sources - 1); bits >>= 1, depth--)                       \
                stack[depth - 2] = COMBINE(stack[depth - 2], stack[depth - 1]);                                        \
        }                                                                                                              \
        return stack[0];                                                                                               \
    }                                                                                                                  \
    TARGET static void NAME##_rest(void *const *dst, int destinations, const void *const *src, int sources, size_t at, \
                                   size_t count, int divisor)                                                          \
    {                                                                                                                  \
        VECTOR v = sources == 2 ? COMBINE(NAME##_some(src[0], at, count), NAME##_some(src[1], at, count))              \
                                : NAME##_some_tree(src, sources, at, count);                                           \
        v = FINISH(v, divisor);                                                                                        \
        for (int d = 0; d < destinations; d++) {                                                                       \
            ELEMENT *c = (ELEMENT *)dst[d] + at;                                                                       \
            if (count < LANES)                                                                                         \
                STORE##_part(c, v, count * sizeof(ELEMENT));                                                           \
            else                                                                                                       \
                STORE(c, v);                                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    /* UNROLL vectors of two sources, to one place or two. */                                                          \
    TARGET static inline void NAME##_pair(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, ELEMENT *d, int divisor)     \
    {                                                                                                                  \
        for (int u = 0; u < UNROLL; u++) {                                                                             \
            VECTOR v = FINISH(COMBINE(LOAD(a + u * LANES), LOAD(b + u * LANES)), divisor);                             \
            STORE(c + u * LANES, v);                                                                                   \
            STORE(d + u * LANES, v);                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    TARGET static void NAME##_many(void *const *dst, int destinations, const void *const *src, int sources,            \
                                   size_t count, int divisor)                                                          \
    {                                                                                                                  \
        enum { STEP = UNROLL * LANES, STEP_BYTES = STEP * sizeof(ELEMENT) };                                           \
        VECTOR stack[HALAY_REDUCE_DEPTH][UNROLL];                                                                      \
        const size_t near = AHEAD / sizeof(ELEMENT) + STEP; /* elements from the end at which prefetching stops */     \
        const size_t far = destinations > 1 && count > near ? count - near : 0;                                        \
        size_t i = 0;                                                                                                  \
                                                                                                                       \
        if (sources == 2 && destinations <= 2) {                                                                       \
            const ELEMENT *a = src[0], *b = src[1];                                                                    \
            ELEMENT *c = dst[0], *d = dst[destinations - 1];                                                           \
            if (is_downwards(dst, destinations, count * sizeof(ELEMENT))) {                                            \
                for (i = count - count % STEP; i; i -= STEP)                                                           \
                    NAME##_pair(a + i - STEP, b + i - STEP, c + i - STEP, d + i - STEP, divisor);                      \
                i = count - count % STEP;                                                                              \
            } else {                                                                                                   \
                prefetch_heads(dst, destinations, count * sizeof(ELEMENT));                                            \
            }                                                                                                          \
            for (; i + STEP <= count; i += STEP) {                                                                     \
                if (i < far)                                                                                           \
                    PREFETCH_LINES(d + i, STEP_BYTES);                                                                 \
                NAME##_pair(a + i, b + i, c + i, d + i, divisor);                                                      \
            }                                                                                                          \
        } else {                                                                                                       \
            prefetch_heads(dst, destinations, count * sizeof(ELEMENT));                                                \
        }                                                                                                              \
        for (; i + STEP <= count; i += STEP) {                                                                         \
            if (i < far)                                                                                               \
                for (int d = 1; d < destinations; d++)                                                                 \
                    PREFETCH_LINES((ELEMENT *)dst[d] + i, STEP_BYTES);                                                 \
            NAME##_tree(stack, UNROLL, src, sources, i);                                                               \
            for (int u = 0; u < UNROLL; u++)                                                                           \
                stack[0][u] = FINISH(stack[0][u], divisor);                                                            \
            for (int d = 0; d < destinations; d++)                                                                     \
                for (int u = 0; u < UNROLL; u++)                                                                       \
                    STORE((ELEMENT *)dst[d] + i + (size_t)u * LANES, stack[0][u]);                                     \
        }                                                                                                              \
        for (; i < count; i += LANES)                                                                                  \
            NAME##_rest(dst, destinations, src, sources, i, count - i, divisor);                                       \
    }                                                                                                                  \
                                                                                                                       \
    TARGET static void NAME(void *const *dst, int destinations, const void *const *src, int sources, size_t count,     \
                            int divisor)                                                                               \
    {                                                                                                                  \
        if (count && count <= LANES)                                                                                   \
            NAME##_rest(dst, destinations, src, sources, 0, count, divisor);                                           \
        else                                                                                                           \
            NAME##_many(dst, destinations, src, sources, count, divisor);                                              \
    }

#define DEFINE_FLOAT_REDUCE(T, ELEMENT, OP) \
    DEFINE_REDUCE(T##_reduce_##OP, ELEMENT, T##_vector, T##_LANES, T##_load, T##_store, T##_##OP, T##_finish)
#define DEFINE_FLOAT_TYPE(T, ELEMENT)        \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, sum)     \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, product) \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, min)     \
    DEFINE_FLOAT_REDUCE(T, ELEMENT, max)

HALAY_FLOAT_TYPES(DEFINE_FLOAT_TYPE)

#define DEFINE_INTEGER_REDUCE(NAME, ELEMENT, LOAD, COMBINE) \
    DEFINE_REDUCE(NAME, ELEMENT, integers, (WIDTH / sizeof(ELEMENT)), LOAD, integer_store, COMBINE, integer_finish)
#define DEFINE_MODULAR(U, ELEMENT)                                                \
    DEFINE_INTEGER_REDUCE(U##_reduce_sum, ELEMENT, integer_load, U##_sum)         \
    DEFINE_INTEGER_REDUCE(U##_reduce_product, ELEMENT, integer_load, U##_product) \
    DEFINE_INTEGER_REDUCE(U##_reduce_and, ELEMENT, integer_load, integer_and)     \
    DEFINE_INTEGER_REDUCE(U##_reduce_or, ELEMENT, integer_load, integer_or)
#define DEFINE_ORDERED(T, ELEMENT)                                        \
    DEFINE_INTEGER_REDUCE(T##_reduce_min, ELEMENT, integer_load, T##_min) \
    DEFINE_INTEGER_REDUCE(T##_reduce_max, ELEMENT, integer_load, T##_max)

HALAY_MODULAR_TYPES(DEFINE_MODULAR)
HALAY_ORDERED_TYPES(DEFINE_ORDERED)
DEFINE_INTEGER_REDUCE(bool_reduce_and, uint8_t, bool_load, integer_and)
DEFINE_INTEGER_REDUCE(bool_reduce_or, uint8_t, bool_load, integer_or)

/* ---- f16 and bf16 to f32 and back, element by element in order ---- */

INLINE floats f16_widened(const uint16_t *p)
{
    return f16_load(p);
}
INLINE void f16_narrowed(uint16_t *p, floats v)
{
    f16_store(p, v);
}
INLINE floats bf16_widened(const uint16_t *p)
{
    return (floats)MM(slli_epi32)(MM(cvtepu16_epi32)(load_half(p)), 16);
}
INLINE void bf16_narrowed(uint16_t *p, floats v)
{
    store_half(p, pack_words(MM(srli_epi32)(bf16_round(v), 16)));
}

#define DEFINE_CONVERSIONS(T)                                                \
    TARGET static void T##_widen(float *dst, const void *src, size_t count)  \
    {                                                                        \
        const uint16_t *a = src;                                             \
        uint16_t narrow[f32_LANES] = { 0 };                                  \
        float wide[f32_LANES];                                               \
        size_t i = 0;                                                        \
        for (; i + f32_LANES <= count; i += f32_LANES)                       \
            f32_store(dst + i, T##_widened(a + i));                          \
        memcpy(narrow, a + i, (count - i) * sizeof *a);                      \
        f32_store(wide, T##_widened(narrow));                                \
        memcpy(dst + i, wide, (count - i) * sizeof *dst);                    \
    }                                                                        \
    TARGET static void T##_narrow(void *dst, const float *src, size_t count) \
    {                                                                        \
        uint16_t *c = dst;                                                   \
        uint16_t narrow[f32_LANES];                                          \
        float wide[f32_LANES] = { 0 };                                       \
        size_t i = 0;                                                        \
        for (; i + f32_LANES <= count; i += f32_LANES)                       \
            T##_narrowed(c + i, f32_finish(f32_load(src + i), 1));           \
        memcpy(wide, src + i, (count - i) * sizeof *src);                    \
        T##_narrowed(narrow, f32_finish(f32_load(wide), 1));                 \
        memcpy(c + i, narrow, (count - i) * sizeof *c);                      \
    }

HALAY_HALF_TYPES(DEFINE_CONVERSIONS)

#include "collectives/reduce/reduce_adasum.h"
#include "collectives/reduce/reduce_impl.h"
