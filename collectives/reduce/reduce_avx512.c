/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction with AVX-512 (F, BW, DQ, VL): what reduce_vector.h needs and AVX2 does in another way.
 */
#include "collectives/reduce/reduce.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,prfchw")))
#define INLINE TARGET static inline
#define REDUCER_NAME "avx512"
#define MM(name) _mm512_##name
#define MM_BITS(name) _mm512_##name##_si512

typedef __m512 floats;
typedef __m512d doubles;
typedef __m512i integers;
typedef __m256i half_integers;

INLINE half_integers load_half(const void *p)
{
    return _mm256_loadu_si256(p);
}
INLINE void store_half(void *p, half_integers v)
{
    _mm256_storeu_si256(p, v);
}
/* Loads 0 to 63 bytes, zeros after them. */
INLINE integers load_part(const void *p, size_t bytes)
{
    return _mm512_maskz_loadu_epi8(((__mmask64)1 << bytes) - 1, p);
}
/* Stores the first 0 to 63 bytes. */
INLINE void store_part(void *p, integers v, size_t bytes)
{
    _mm512_mask_storeu_epi8(p, ((__mmask64)1 << bytes) - 1, v);
}
INLINE half_integers half_of(integers v)
{
    return _mm512_castsi512_si256(v);
}
INLINE integers from_half(half_integers v)
{
    return _mm512_zextsi256_si512(v);
}
INLINE floats nan_where_ps(floats v, floats a, floats b)
{
    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), _mm512_set1_ps(NAN));
}
INLINE doubles nan_where_pd(doubles v, doubles a, doubles b)
{
    return _mm512_mask_mov_pd(v, _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q), _mm512_set1_pd((double)NAN));
}
INLINE int any_nan(floats a, floats b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0;
}
/* Up from the half on; from just the half, where nothing is left in the lower bits, back to the even one. A canonical
 * NaN survives it. */
INLINE integers bf16_round(floats v)
{
    integers up = _mm512_add_epi32((integers)v, _mm512_set1_epi32(0x8000));
    __mmask16 ties = _mm512_testn_epi32_mask(up, _mm512_set1_epi32(0xffff));

    return _mm512_mask_and_epi32(up, ties, up, _mm512_set1_epi32(~0x10000));
}
INLINE half_integers pack_words(integers v)
{
    return _mm512_cvtepi32_epi16(v);
}
/* Put together first, what is kept and what is cut off, and then rounded both at once: up if more than half is cut off,
 * or just half of an odd one. The processor's own conversion of two vectors is equally fast, and turns denormals
 * into zeros. */
INLINE integers bf16_join(floats even, floats odd)
{
    const __mmask32 odds = 0xaaaaaaaau;
    integers kept = _mm512_mask_blend_epi16(odds, _mm512_srli_epi32((integers)even, 16), (integers)odd);
    integers cut = _mm512_mask_blend_epi16(odds, (integers)even, _mm512_slli_epi32((integers)odd, 16));
    integers with_odd = _mm512_ternarylogic_epi32(cut, kept, _mm512_set1_epi16(1), 0xf8); /* cut | (kept & 1) */
    __mmask32 up = _mm512_cmpgt_epu16_mask(with_odd, _mm512_set1_epi16((short)0x8000));

    return _mm512_mask_sub_epi16(kept, up, kept, _mm512_set1_epi16(-1));
}
INLINE integers u64_product(integers a, integers b)
{
    return _mm512_mullo_epi64(a, b);
}
INLINE integers i64_min(integers a, integers b)
{
    return _mm512_min_epi64(a, b);
}
INLINE integers i64_max(integers a, integers b)
{
    return _mm512_max_epi64(a, b);
}

#include "collectives/reduce/reduce_vector.h"

const struct halay_reducer *halay_reducer_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? &reducer
               : NULL;
}
#else
const struct halay_reducer *halay_reducer_avx512(void)
{
    return NULL;
}
#endif
