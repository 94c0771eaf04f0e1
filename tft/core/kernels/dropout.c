/* SPDX-License-Identifier: Apache-2.0
 *
 * The masks. Philox runs on many counters side by side; tft/core/kernels/philox.c is the meaning and the test compares
 * the two. Compilers don't find what AVX-512 does: eight counters in 64-bit lanes, so that the widening product needs
 * no shuffles; bits above 31 are ignored.
 */
#include "tft/core/kernels/dropout.h"
#include "tft/core/kernels/philox.h"
#include "tft/core/kernels/vector.h"

/* Counters of one call; a multiple of EIGHT. */
enum { EIGHT = 8, LANES = 64 };

struct dropout dropout_of(double p, uint32_t seed, uint32_t step, uint64_t position)
{
    const double range = 4294967296.0;
    uint32_t threshold = (uint32_t)(p * range);

    return (struct dropout){ .threshold = threshold,
                             .scale = (real)(range / (range - threshold)),
                             .seed = seed,
                             .step = step,
                             .position = position };
}

/* The part of the counter and key that all elements of a row share. */
struct row_key {
    uint32_t seed, site, step, sample, threshold;
};

/* keep (4 n): the elements of n counters from `block` on; n is a multiple of EIGHT, at most LANES. */
TFT_VECTOR static void draw(const struct row_key *row, uint64_t block, size_t n, uint8_t *restrict keep)
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = row->seed, k1 = row->site, threshold = row->threshold;

    for (uint32_t i = 0; i < n; i++) {
        c0[i] = (uint32_t)block + i;
        c1[i] = (uint32_t)(block >> 32) + (c0[i] < i); /* the low half may wrap */
        c2[i] = row->step;
        c3[i] = row->sample;
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            uint64_t p0 = (uint64_t)PHILOX_M0 * c0[i], p1 = (uint64_t)PHILOX_M1 * c2[i];

            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    for (size_t i = 0; i < n; i++) {
        keep[4 * i] = c0[i] >= threshold;
        keep[4 * i + 1] = c1[i] >= threshold;
        keep[4 * i + 2] = c2[i] >= threshold;
        keep[4 * i + 3] = c3[i] >= threshold;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Eight counters: word w of each in the low half of a lane. */
struct eight {
    __m512i w0, w1, w2, w3;
};

AVX512 static inline struct eight eight_from(const struct row_key *row, uint64_t block)
{
    __m512i counter = _mm512_add_epi64(_mm512_set1_epi64((long long)block), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));

    return (struct eight){ counter, _mm512_srli_epi64(counter, 32), _mm512_set1_epi64(row->step),
                           _mm512_set1_epi64(row->sample) };
}

AVX512 static inline struct eight eight_round(struct eight c, __m512i k0, __m512i k1)
{
    const int exclusive_or = 0x96; /* of three */
    __m512i p0 = _mm512_mul_epu32(c.w0, _mm512_set1_epi64(PHILOX_M0));
    __m512i p1 = _mm512_mul_epu32(c.w2, _mm512_set1_epi64(PHILOX_M1));

    return (struct eight){ _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c.w1, k0, exclusive_or), p1,
                           _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c.w3, k1, exclusive_or), p0 };
}

/* The 32 elements in their order: pairs of words first, then pairs of pairs, then comparison, then bytes. */
AVX512 static inline void eight_store(struct eight c, __m512i threshold, uint8_t *keep)
{
    __m512i pair01 = _mm512_mask_shuffle_epi32(c.w0, 0xAAAA, c.w1, _MM_PERM_CCAA);
    __m512i pair23 = _mm512_mask_shuffle_epi32(c.w2, 0xAAAA, c.w3, _MM_PERM_CCAA);
    __mmask16 even = _mm512_cmpge_epu32_mask(_mm512_unpacklo_epi64(pair01, pair23), threshold);
    __mmask16 odd = _mm512_cmpge_epu32_mask(_mm512_unpackhi_epi64(pair01, pair23), threshold);
    __m128i even_bytes = _mm_maskz_set1_epi8(even, 1), odd_bytes = _mm_maskz_set1_epi8(odd, 1);

    _mm_storeu_si128((__m128i *)keep, _mm_unpacklo_epi32(even_bytes, odd_bytes));
    _mm_storeu_si128((__m128i *)(keep + 16), _mm_unpackhi_epi32(even_bytes, odd_bytes));
}

/* `count` eights side by side, a constant where it is called: each waits for its products, several fill the time. */
AVX512 static inline __attribute__((always_inline)) size_t draw_eights(const struct row_key *row, uint64_t block,
                                                                       size_t count, uint8_t *keep)
{
    enum { MOST = 5 };
    struct eight eights[MOST];
    uint32_t k0 = row->seed, k1 = row->site;

#pragma GCC unroll 5
    for (size_t i = 0; i < count; i++)
        eights[i] = eight_from(row, block + i * EIGHT);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
#pragma GCC unroll 5
        for (size_t i = 0; i < count; i++)
            eights[i] = eight_round(eights[i], _mm512_set1_epi64(k0), _mm512_set1_epi64(k1));
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
#pragma GCC unroll 5
    for (size_t i = 0; i < count; i++)
        eight_store(eights[i], _mm512_set1_epi32((int)row->threshold), keep + 4 * i * EIGHT);
    return count * EIGHT;
}

AVX512 static void draw_avx512(const struct row_key *row, uint64_t block, size_t n, uint8_t *keep)
{
    for (size_t i = 0; i < n;)
        if (n - i >= 5 * EIGHT) /* a row of 160 */
            i += draw_eights(row, block + i, 5, keep + 4 * i);
        else if (n - i >= 2 * EIGHT)
            i += draw_eights(row, block + i, 2, keep + 4 * i);
        else
            i += draw_eights(row, block + i, 1, keep + 4 * i);
}

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}
#else
static void draw_avx512(const struct row_key *row, uint64_t block, size_t n, uint8_t *keep)
{
    draw(row, block, n, keep);
}

static int has_avx512(void)
{
    return 0;
}
#endif

void dropout_row(const struct dropout *dropout, uint32_t site, uint64_t e, size_t b, size_t W, uint8_t *keep)
{
    const struct row_key row = { dropout->seed, site, dropout->step, (uint32_t)(dropout->position + b),
                                 dropout->threshold };
    void (*draw_some)(const struct row_key *, uint64_t, size_t, uint8_t *) = has_avx512() ? draw_avx512 : draw;
    uint8_t drawn[4 * LANES];
    size_t skip = e % 4;
    uint64_t block = e / 4;

    for (size_t done = 0; done < W; block += LANES) {
        size_t counters = (W - done + skip + 3) / 4, n;

        counters = counters < LANES ? (counters + EIGHT - 1) / EIGHT * EIGHT : LANES;
        n = 4 * counters - skip < W - done ? 4 * counters - skip : W - done;
        draw_some(&row, block, counters, drawn);
        memcpy(keep + done, drawn + skip, n);
        done += n;
        skip = 0;
    }
}

void dropout_rows(const struct dropout *dropout, const struct site *site, size_t row, size_t R, size_t B, size_t W,
                  uint8_t *keep)
{
    for (size_t r = 0; r < R; r++)
        dropout_row(dropout, site->name, (uint64_t)((row + r) / B) * site->stride + site->first, (row + r) % B, W,
                    keep + r * W);
}

TFT_VECTOR static void apply(const uint8_t *restrict keep, const real *x, size_t n, real scale, real *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = keep[i] ? x[i] * scale : 0;
}

void dropout_apply(const struct dropout *dropout, const uint8_t *keep, const real *x, size_t n, real *y)
{
    apply(keep, x, n, dropout->scale, y);
}
