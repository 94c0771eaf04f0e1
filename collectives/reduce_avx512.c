/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction with AVX-512 (F, BW, DQ, VL): what a vector is, for the loops of reduce_vector.h.
 *
 * min and max: the instructions give their second operand when the operands are both zero or one is a NaN. Taken both ways
 * round, the two results are equal but in those cases; then "or" makes -0 of -0 and +0 (min) and "and" makes +0 (max),
 * and a comparison finds the NaNs.
 */
#include "collectives/reduce.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,prfchw")))
#define REDUCER_NAME "avx512"
#define INLINE TARGET static inline

typedef __m512 f32_vector;
typedef __m512 f16_vector;
typedef __m512 bf16_vector;
typedef __m512d f64_vector;
typedef __m512i i32_vector;
typedef __m512i i64_vector;
enum { f32_LANES = 16, f16_LANES = 16, bf16_LANES = 16, f64_LANES = 8, i32_LANES = 16, i64_LANES = 8 };

#define NAN_PS _mm512_set1_ps(NAN)
#define NAN_PD _mm512_set1_pd((double)NAN)

INLINE __m512 f32_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void f32_store(float *p, __m512 v)
{
    _mm512_storeu_ps(p, v);
}
INLINE __m512 f32_sum(__m512 a, __m512 b)
{
    return _mm512_add_ps(a, b);
}
INLINE __m512 f32_min(__m512 a, __m512 b)
{
    __m512 both = _mm512_or_ps(_mm512_min_ps(a, b), _mm512_min_ps(b, a));
    return _mm512_mask_mov_ps(both, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), NAN_PS);
}
INLINE __m512 f32_max(__m512 a, __m512 b)
{
    __m512 both = _mm512_and_ps(_mm512_max_ps(a, b), _mm512_max_ps(b, a));
    return _mm512_mask_mov_ps(both, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), NAN_PS);
}
INLINE __m512 f32_finish(__m512 v, int divisor)
{
    if (divisor > 1)
        v = _mm512_div_ps(v, _mm512_set1_ps((float)divisor));
    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), NAN_PS);
}

INLINE __m512d f64_load(const double *p)
{
    return _mm512_loadu_pd(p);
}
INLINE void f64_store(double *p, __m512d v)
{
    _mm512_storeu_pd(p, v);
}
INLINE __m512d f64_sum(__m512d a, __m512d b)
{
    return _mm512_add_pd(a, b);
}
INLINE __m512d f64_min(__m512d a, __m512d b)
{
    __m512d both = _mm512_or_pd(_mm512_min_pd(a, b), _mm512_min_pd(b, a));
    return _mm512_mask_mov_pd(both, _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q), NAN_PD);
}
INLINE __m512d f64_max(__m512d a, __m512d b)
{
    __m512d both = _mm512_and_pd(_mm512_max_pd(a, b), _mm512_max_pd(b, a));
    return _mm512_mask_mov_pd(both, _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q), NAN_PD);
}
INLINE __m512d f64_finish(__m512d v, int divisor)
{
    if (divisor > 1)
        v = _mm512_div_pd(v, _mm512_set1_pd((double)divisor));
    return _mm512_mask_mov_pd(v, _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), NAN_PD);
}

INLINE __m512 f16_load(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE void f16_store(uint16_t *p, __m512 v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define f16_sum f32_sum
#define f16_min f32_min
#define f16_max f32_max
#define f16_finish f32_finish

INLINE __m512 bf16_load(const uint16_t *p)
{
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
/* To nearest even: add half of the last kept place, less one if that place is even. A canonical NaN survives it. */
INLINE void bf16_store(uint16_t *p, __m512 v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}
#define bf16_sum f32_sum
#define bf16_min f32_min
#define bf16_max f32_max
#define bf16_finish f32_finish

INLINE __m512i i32_load(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}
INLINE void i32_store(int32_t *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
}
INLINE __m512i i32_sum(__m512i a, __m512i b)
{
    return _mm512_add_epi32(a, b);
}
INLINE __m512i i32_min(__m512i a, __m512i b)
{
    return _mm512_min_epi32(a, b);
}
INLINE __m512i i32_max(__m512i a, __m512i b)
{
    return _mm512_max_epi32(a, b);
}
#define i32_finish(v, divisor) ((void)(divisor), (v))

INLINE __m512i i64_load(const int64_t *p)
{
    return _mm512_loadu_si512(p);
}
INLINE void i64_store(int64_t *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
}
INLINE __m512i i64_sum(__m512i a, __m512i b)
{
    return _mm512_add_epi64(a, b);
}
INLINE __m512i i64_min(__m512i a, __m512i b)
{
    return _mm512_min_epi64(a, b);
}
INLINE __m512i i64_max(__m512i a, __m512i b)
{
    return _mm512_max_epi64(a, b);
}
#define i64_finish(v, divisor) ((void)(divisor), (v))

#include "collectives/reduce_vector.h"

const struct halay_reducer *halay_reducer_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? &vector_reducer
               : NULL;
}
#else
const struct halay_reducer *halay_reducer_avx512(void)
{
    return NULL;
}
#endif
