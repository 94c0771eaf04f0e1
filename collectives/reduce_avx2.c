/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction with AVX2 and F16C: what a vector is, for the loops of reduce_vector.h. min and max of floating types are
 * explained in reduce_avx512.c.
 */
#include "collectives/reduce.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx2,f16c,prfchw")))
#define REDUCER_NAME "avx2"
#define INLINE TARGET static inline

typedef __m256 f32_vector;
typedef __m256 f16_vector;
typedef __m256 bf16_vector;
typedef __m256d f64_vector;
typedef __m256i i32_vector;
typedef __m256i i64_vector;
enum { f32_LANES = 8, f16_LANES = 8, bf16_LANES = 8, f64_LANES = 4, i32_LANES = 8, i64_LANES = 4 };

#define NAN_PS _mm256_set1_ps(NAN)
#define NAN_PD _mm256_set1_pd((double)NAN)

INLINE __m256 f32_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE void f32_store(float *p, __m256 v)
{
    _mm256_storeu_ps(p, v);
}
INLINE __m256 f32_sum(__m256 a, __m256 b)
{
    return _mm256_add_ps(a, b);
}
INLINE __m256 f32_min(__m256 a, __m256 b)
{
    __m256 both = _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a));
    return _mm256_blendv_ps(both, NAN_PS, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
INLINE __m256 f32_max(__m256 a, __m256 b)
{
    __m256 both = _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a));
    return _mm256_blendv_ps(both, NAN_PS, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
INLINE __m256 f32_finish(__m256 v, int divisor)
{
    if (divisor > 1)
        v = _mm256_div_ps(v, _mm256_set1_ps((float)divisor));
    return _mm256_blendv_ps(v, NAN_PS, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

INLINE __m256d f64_load(const double *p)
{
    return _mm256_loadu_pd(p);
}
INLINE void f64_store(double *p, __m256d v)
{
    _mm256_storeu_pd(p, v);
}
INLINE __m256d f64_sum(__m256d a, __m256d b)
{
    return _mm256_add_pd(a, b);
}
INLINE __m256d f64_min(__m256d a, __m256d b)
{
    __m256d both = _mm256_or_pd(_mm256_min_pd(a, b), _mm256_min_pd(b, a));
    return _mm256_blendv_pd(both, NAN_PD, _mm256_cmp_pd(a, b, _CMP_UNORD_Q));
}
INLINE __m256d f64_max(__m256d a, __m256d b)
{
    __m256d both = _mm256_and_pd(_mm256_max_pd(a, b), _mm256_max_pd(b, a));
    return _mm256_blendv_pd(both, NAN_PD, _mm256_cmp_pd(a, b, _CMP_UNORD_Q));
}
INLINE __m256d f64_finish(__m256d v, int divisor)
{
    if (divisor > 1)
        v = _mm256_div_pd(v, _mm256_set1_pd((double)divisor));
    return _mm256_blendv_pd(v, NAN_PD, _mm256_cmp_pd(v, v, _CMP_UNORD_Q));
}

INLINE __m256 f16_load(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE void f16_store(uint16_t *p, __m256 v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define f16_sum f32_sum
#define f16_min f32_min
#define f16_max f32_max
#define f16_finish f32_finish

INLINE __m256 bf16_load(const uint16_t *p)
{
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}
/* To nearest even: add half of the last kept place, less one if that place is even. A canonical NaN survives it. */
INLINE void bf16_store(uint16_t *p, __m256 v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    /* Packs within halves of 128 bits: take the lower half of each. */
    bits = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(bits));
}
#define bf16_sum f32_sum
#define bf16_min f32_min
#define bf16_max f32_max
#define bf16_finish f32_finish

INLINE __m256i i32_load(const int32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
INLINE void i32_store(int32_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}
INLINE __m256i i32_sum(__m256i a, __m256i b)
{
    return _mm256_add_epi32(a, b);
}
INLINE __m256i i32_min(__m256i a, __m256i b)
{
    return _mm256_min_epi32(a, b);
}
INLINE __m256i i32_max(__m256i a, __m256i b)
{
    return _mm256_max_epi32(a, b);
}
#define i32_finish(v, divisor) ((void)(divisor), (v))

INLINE __m256i i64_load(const int64_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
INLINE void i64_store(int64_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}
INLINE __m256i i64_sum(__m256i a, __m256i b)
{
    return _mm256_add_epi64(a, b);
}
INLINE __m256i i64_min(__m256i a, __m256i b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}
INLINE __m256i i64_max(__m256i a, __m256i b)
{
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}
#define i64_finish(v, divisor) ((void)(divisor), (v))

#include "collectives/reduce_vector.h"

const struct halay_reducer *halay_reducer_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &vector_reducer : NULL;
}
#else
const struct halay_reducer *halay_reducer_avx2(void)
{
    return NULL;
}
#endif
