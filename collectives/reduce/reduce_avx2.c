/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction with AVX2 and F16C: what reduce_vector.h needs and AVX-512 does in another way.
 */
#include "collectives/reduce/reduce.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,f16c,prfchw")))
#define INLINE TARGET static inline
#define REDUCER_NAME "avx2"
#define MM(name) _mm256_##name
#define MM_BITS(name) _mm256_##name##_si256

typedef __m256 floats;
typedef __m256d doubles;
typedef __m256i integers;
typedef __m128i half_integers;

INLINE half_integers load_half(const void *p)
{
    return _mm_loadu_si128(p);
}
INLINE void store_half(void *p, half_integers v)
{
    _mm_storeu_si128(p, v);
}
/* Loads 0 to 31 bytes, zeros after them. */
INLINE integers load_part(const void *p, size_t bytes)
{
    integers words = _mm256_set1_epi32((int)(bytes / 4)), lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    integers v = _mm256_maskload_epi32(p, _mm256_cmpgt_epi32(words, lanes));
    const uint8_t *rest = (const uint8_t *)p + bytes / 4 * 4;
    uint32_t last = 0;

    if (bytes % 4 == 0)
        return v;
    for (size_t i = 0; i < bytes % 4; i++)
        last |= (uint32_t)rest[i] << 8 * i;
    return _mm256_or_si256(v, _mm256_and_si256(_mm256_set1_epi32((int)last), _mm256_cmpeq_epi32(words, lanes)));
}
/* Stores the first 0 to 31 bytes; a masked store takes longer. */
INLINE void store_part(void *p, integers v, size_t bytes)
{
    half_integers rest = _mm256_castsi256_si128(v);
    char *to = p;

    if (bytes & 16) {
        store_half(to, rest);
        rest = _mm256_extracti128_si256(v, 1);
        to += 16;
    }
    if (bytes & 8) {
        _mm_storel_epi64((void *)to, rest);
        rest = _mm_unpackhi_epi64(rest, rest);
        to += 8;
    }
    uint64_t last = (uint64_t)_mm_cvtsi128_si64(rest);
    if (bytes & 4) {
        memcpy(to, &last, 4);
        last >>= 32;
        to += 4;
    }
    if (bytes & 2) {
        memcpy(to, &last, 2);
        last >>= 16;
        to += 2;
    }
    if (bytes & 1)
        memcpy(to, &last, 1);
}
INLINE half_integers half_of(integers v)
{
    return _mm256_castsi256_si128(v);
}
INLINE integers from_half(half_integers v)
{
    return _mm256_zextsi128_si256(v);
}
INLINE floats nan_where_ps(floats v, floats a, floats b)
{
    return _mm256_blendv_ps(v, _mm256_set1_ps(NAN), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
INLINE doubles nan_where_pd(doubles v, doubles a, doubles b)
{
    return _mm256_blendv_pd(v, _mm256_set1_pd((double)NAN), _mm256_cmp_pd(a, b, _CMP_UNORD_Q));
}
INLINE int any_nan(floats a, floats b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0;
}
/* Adds half of the last place that is kept, less one if that place is even. A canonical NaN survives it. */
INLINE integers bf16_round(floats v)
{
    integers odd = _mm256_and_si256(_mm256_srli_epi32((integers)v, 16), _mm256_set1_epi32(1));

    return _mm256_add_epi32(_mm256_add_epi32((integers)v, _mm256_set1_epi32(0x7fff)), odd);
}
/* Packs within halves of 128 bits: take the lower half of each. */
INLINE half_integers pack_words(integers v)
{
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08));
}
INLINE integers bf16_join(floats even, floats odd)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(bf16_round(even), 16), bf16_round(odd), 0xaa);
}
/* (ah 2^32 + al) (bh 2^32 + bl) without what is above 2^64: al bl + (ah bl + al bh) 2^32 */
INLINE integers u64_product(integers a, integers b)
{
    integers cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xb1)); /* al bh, ah bl */
    cross = _mm256_add_epi32(_mm256_slli_epi64(cross, 32),
                             _mm256_and_si256(cross, _mm256_set1_epi64x((int64_t)0xffffffff00000000)));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), cross);
}
INLINE integers i64_min(integers a, integers b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}
INLINE integers i64_max(integers a, integers b)
{
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

#include "collectives/reduce/reduce_vector.h"

const struct halay_reducer *halay_reducer_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &reducer : NULL;
}
#else
const struct halay_reducer *halay_reducer_avx2(void)
{
    return NULL;
}
#endif
