/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products with factors rounded to bf16, by the processor's tiles (AMX) or its dot products of pairs (AVX-512
 * BF16).
 *
 * Both factors are rounded as they are packed into tiles of a kilobyte, in which k runs in pairs, because that is what
 * either instruction takes:
 *
 *   a tile of A: 16 rows m of 32 k               a tile of B: 16 rows of pairs k, k + 1, of 16 columns n each
 *       m0: k0 k1 k2 ... k31                         k0 k1: n0.k0 n0.k1  n1.k0 n1.k1 ... n15.k1
 *       m1: k0 k1 k2 ... k31                         k2 k3: n0.k2 n0.k3  n1.k2 ...
 *
 * Either is made of rows of memory along k, or across it, in pairs of rows; where the pairs come out as the other
 * factor has them, the tile is transposed as a square of 16 by 16 pairs. Rounding is to nearest, ties to even; edges
 * are zeros. Sums run over k in blocks of DEEP, whatever the kernel. A block of packed B and one of A stay in the
 * caches while they are used:
 *
 *   for a block of columns, for a block of k: pack B;  for a block of rows: pack A, multiply
 */
#include "tft/core/kernels/gemm.h"
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(TFT_DOUBLE)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define AMX __attribute__((target("amx-tile,amx-bf16,avx512f,prfchw")))
#define INLINE inline __attribute__((always_inline))
/* GCC takes seven seconds more for loops that are unrolled where the sanitizer looks at each access. */
#ifdef __SANITIZE_ADDRESS__
enum { UNROLLED = 0 };
#else
enum { UNROLLED = 1 };
#endif

enum {
    SIDE = 16,           /* rows of a tile; columns of B's and C's */
    DEPTH = 32,          /* k of a tile */
    TILE = SIDE * DEPTH, /* numbers of a tile */
    TALL = 96,           /* rows, k and columns of a block */
    DEEP = 256,
    WIDE = 320,
};

_Static_assert(TALL *DEEP + DEEP * WIDE <= TFT_BF16_ROOM, "room for a block of either factor");

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t tiles_of(size_t n, size_t tile)
{
    return (n + tile - 1) / tile;
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

DOT static INLINE __m512 load(const real *x, size_t left)
{
    return left >= 16 ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps((__mmask16)((1u << left) - 1), x);
}

/* 16 pairs of one row. */
DOT static INLINE __m512i pairs_along(const real *x, size_t left)
{
    return (__m512i)_mm512_cvtne2ps_pbh(load(x + SIDE, left > SIDE ? left - SIDE : 0), load(x, left));
}

/* 16 pairs of a row and the one below it, which may not be there. */
DOT static INLINE __m512i pairs_across(const real *x, size_t ld, int single, size_t left)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512 below = single ? _mm512_setzero_ps() : load(x + ld, left);

    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(below, load(x, left)));
}

/* 16 by 16 pairs. */
DOT static INLINE void transpose(__m512i r[SIDE])
{
    __m512i t[SIDE];

#pragma GCC unroll UNROLLED * 8
    for (int i = 0; i < SIDE; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll UNROLLED * 4
    for (int i = 0; i < SIDE; i += 4)
#pragma GCC unroll UNROLLED * 2
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + 2 + j]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + 2 + j]);
        }
#pragma GCC unroll UNROLLED * 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll UNROLLED * 2
        for (int j = 0; j < SIDE; j += 8) {
            t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0x88);
            t[i + j + 4] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0xdd);
        }
#pragma GCC unroll UNROLLED * 8
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

/* A tile of `side` rows (or columns) and `depth` k, of memory along k or across it. */
DOT static INLINE void pack_tile(const real *x, size_t ld, int along, size_t side, size_t depth, int transposed,
                                 uint16_t *tile)
{
    __m512i r[SIDE];

#pragma GCC unroll UNROLLED * 16
    for (size_t i = 0; i < SIDE; i++)
        if (along)
            r[i] = i < side ? pairs_along(x + i * ld, depth) : _mm512_setzero_si512();
        else
            r[i] = 2 * i < depth ? pairs_across(x + 2 * i * ld, ld, 2 * i + 1 == depth, side) : _mm512_setzero_si512();
    if (transposed)
        transpose(r);
#pragma GCC unroll UNROLLED * 16
    for (size_t i = 0; i < SIDE; i++)
        _mm512_store_si512(tile + i * DEPTH, r[i]);
}

/* `side` rows (or columns) from `at` on, `depth` k from `k` on: tiles along k first, side by side every `stride`. */
DOT static INLINE void pack_block(const real *x, size_t ld, int along, size_t side, size_t depth, int transposed,
                                  size_t stride, uint16_t *packed)
{
    for (size_t i = 0; i < side; i += SIDE, packed += stride * TILE)
        for (size_t k = 0; k < depth; k += DEPTH) {
            const real *from = along ? x + i * ld + k : x + k * ld + i;
            uint16_t *tile = packed + k * SIDE;

            /* The next columns of many rows: the hardware does not foresee them. */
            for (size_t j = 0; !along && transposed && j < DEPTH; j++)
                __builtin_prefetch(from + j * ld + SIDE);
            if (side - i >= SIDE && depth - k >= DEPTH)
                pack_tile(from, ld, along, SIDE, DEPTH, transposed, tile);
            else
                pack_tile(from, ld, along, smaller_of(side - i, SIDE), smaller_of(depth - k, DEPTH), transposed, tile);
        }
}

DOT static void pack_a(struct matrix a, size_t m, size_t k, size_t rows, size_t depth, uint16_t *packed)
{
    size_t stride = tiles_of(depth, DEPTH);

    if (a.transposed)
        pack_block(a.data + k * a.ld + m, a.ld, 0, rows, depth, 1, stride, packed);
    else
        pack_block(a.data + m * a.ld + k, a.ld, 1, rows, depth, 0, stride, packed);
}

DOT static void pack_b(struct matrix b, size_t n, size_t k, size_t columns, size_t depth, size_t stride,
                       uint16_t *packed)
{
    if (b.transposed)
        pack_block(b.data + n * b.ld + k, b.ld, 1, columns, depth, 1, stride, packed);
    else
        pack_block(b.data + k * b.ld + n, b.ld, 0, columns, depth, 0, stride, packed);
}

/* ---- multiplying a block ---------------------------------------------------------------------------------------- */

/* A (M, K) of `depth` tiles a row of tiles; B's columns of tiles are `stride` tiles apart. */
struct block {
    const uint16_t *a, *b;
    size_t M, N, depth, stride;
    size_t height; /* rows that the tiles of C are set to */
    int add;
    real *c;
    size_t ldc;
};

DOT static INLINE __mmask16 mask(size_t left)
{
    return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
}

/* Eight rows of C, two tiles wide. */
DOT static void multiply_dot(const struct block *block)
{
    enum { ROWS = 8 };

    for (size_t n = 0; n < block->N; n += 2 * SIDE) {
        __mmask16 first = mask(block->N - n), second = mask(block->N - n > SIDE ? block->N - n - SIDE : 0);
        const uint16_t *b0 = block->b + n / SIDE * block->stride * TILE, *b1 = second ? b0 + block->stride * TILE : b0;

        for (size_t m = 0; m < block->M; m += ROWS) {
            const uint16_t *a = block->a + m / SIDE * block->depth * TILE + m % SIDE * DEPTH;
            real *c = block->c + m * block->ldc + n;
            size_t rows = smaller_of(block->M - m, ROWS);
            __m512 sums[ROWS][2];

            for (size_t i = 0; i < ROWS; i++) {
                int have = block->add && i < rows;
                sums[i][0] = have ? _mm512_maskz_loadu_ps(first, c + i * block->ldc) : _mm512_setzero_ps();
                sums[i][1] = have ? _mm512_maskz_loadu_ps(second, c + i * block->ldc + SIDE) : _mm512_setzero_ps();
            }
            for (size_t k = 0; k < block->depth * SIDE; k++) {
                __m512bh x0 = (__m512bh)_mm512_load_si512(b0 + k * DEPTH),
                         x1 = (__m512bh)_mm512_load_si512(b1 + k * DEPTH);

#pragma GCC unroll UNROLLED * 8
                for (size_t i = 0; i < ROWS; i++) {
                    int pair;

                    memcpy(&pair, a + k / SIDE * TILE + i * DEPTH + k % SIDE * 2, sizeof pair);
                    sums[i][0] = _mm512_dpbf16_ps(sums[i][0], (__m512bh)_mm512_set1_epi32(pair), x0);
                    sums[i][1] = _mm512_dpbf16_ps(sums[i][1], (__m512bh)_mm512_set1_epi32(pair), x1);
                }
            }
            for (size_t i = 0; i < rows; i++) {
                _mm512_mask_storeu_ps(c + i * block->ldc, first, sums[i][0]);
                _mm512_mask_storeu_ps(c + i * block->ldc + SIDE, second, sums[i][1]);
            }
        }
    }
}

/* The compiler does not know what tiles are loaded from: what was written must be in memory by here. */
static INLINE void before_tiles(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Tile registers: 0 to 3 are C's (first row of tiles, then second), 4 and 5 A's, 6 and 7 B's. */
struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};

/* The memory of a tile of C: in place, or, at an edge, a square of its own. */
struct square {
    real *data, *inside;
    size_t ld, ldc, rows, columns;
    real edge[SIDE * SIDE];
};

static INLINE void square_begin(struct square *square, const struct block *block, size_t m, size_t n)
{
    square->inside = square->data = block->c + m * block->ldc + n;
    square->ld = square->ldc = block->ldc;
    square->rows = smaller_of(block->M - m, SIDE);
    square->columns = smaller_of(block->N - n, SIDE);
    if (square->rows == block->height && square->columns == SIDE)
        return;
    square->data = square->edge;
    square->ld = SIDE;
    for (size_t i = 0; block->add && i < square->rows; i++)
        memcpy(square->edge + i * SIDE, square->inside + i * square->ldc, square->columns * sizeof(real));
    before_tiles();
}

static INLINE void square_end(const struct square *square)
{
    for (size_t i = 0; square->data != square->inside && i < square->rows; i++)
        memcpy(square->inside + i * square->ldc, square->edge + i * SIDE, square->columns * sizeof(real));
}

#define SQUARE_IN(number, square)                                                      \
    do {                                                                               \
        square_begin(square, block, m + (number) / 2 * SIDE, n + (number) % 2 * SIDE); \
        if (block->add)                                                                \
            _tile_loadd(number, (square)->data, (square)->ld * sizeof(real));          \
        else                                                                           \
            _tile_zero(number);                                                        \
    } while (0)
#define SQUARE_OUT(number, square)                                         \
    do {                                                                   \
        _tile_stored(number, (square)->data, (square)->ld * sizeof(real)); \
        square_end(square);                                                \
    } while (0)

/* The destination of the next square. */
struct next {
    const real *c;
    size_t rows, step; /* how many, 0: none; how many for each k of this square */
};

/* Prefetches some of its rows: C is often out of the cache, and its rows are too far apart for the hardware
 * prefetcher. */
AMX static INLINE void fetch_ahead(const struct next *next, size_t ldc, size_t k)
{
    for (size_t i = k * next->step; i < smaller_of((k + 1) * next->step, next->rows); i++) {
        __builtin_prefetch(next->c + i * ldc, 1);
        __builtin_prefetch(next->c + i * ldc + SIDE, 1);
    }
}

/* Up to two by two tiles of C from (m, n) on. */
AMX static INLINE void multiply_square(const struct block *block, size_t m, size_t n, int tall, int wide,
                                       const struct next *next)
{
    const uint16_t *a = block->a + m / SIDE * block->depth * TILE, *b = block->b + n / SIDE * block->stride * TILE;
    struct square squares[4];

    SQUARE_IN(0, &squares[0]);
    if (wide)
        SQUARE_IN(1, &squares[1]);
    if (tall)
        SQUARE_IN(2, &squares[2]);
    if (tall && wide)
        SQUARE_IN(3, &squares[3]);
    for (size_t k = 0; k < block->depth; k++) {
        fetch_ahead(next, block->ldc, k);
        _tile_loadd(4, a + k * TILE, DEPTH * sizeof *a);
        _tile_loadd(6, b + k * TILE, DEPTH * sizeof *b);
        _tile_dpbf16ps(0, 4, 6);
        if (wide) {
            _tile_loadd(7, b + (block->stride + k) * TILE, DEPTH * sizeof *b);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (tall) {
            _tile_loadd(5, a + (block->depth + k) * TILE, DEPTH * sizeof *a);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (tall && wide)
            _tile_dpbf16ps(3, 5, 7);
    }
    SQUARE_OUT(0, &squares[0]);
    if (wide)
        SQUARE_OUT(1, &squares[1]);
    if (tall)
        SQUARE_OUT(2, &squares[2]);
    if (tall && wide)
        SQUARE_OUT(3, &squares[3]);
}

AMX static void multiply_amx(const struct block *block)
{
    size_t step = (2 * SIDE + block->depth - 1) / block->depth;

    before_tiles();
    for (size_t m = 0; m < block->M; m += 2 * SIDE)
        for (size_t n = 0; n < block->N; n += 2 * SIDE) {
            int tall = block->M - m > SIDE, wide = block->N - n > SIDE;
            size_t right = n + 2 * SIDE < block->N ? n + 2 * SIDE : 0, down = right ? m : m + 2 * SIDE;
            const struct next next = { block->c + down * block->ldc + right,
                                       down < block->M ? smaller_of(block->M - down, 2 * SIDE) : 0, step };

            if (tall && wide)
                multiply_square(block, m, n, 1, 1, &next);
            else if (tall)
                multiply_square(block, m, n, 1, 0, &next);
            else if (wide)
                multiply_square(block, m, n, 0, 1, &next);
            else
                multiply_square(block, m, n, 0, 0, &next);
        }
}

/* Fewer rows than a tile's take less time. */
AMX static void amx_begin(size_t M)
{
    struct tile_config config = { .palette = 1 };

    for (int i = 0; i < 8; i++) {
        config.bytes[i] = DEPTH * sizeof(uint16_t);
        config.rows[i] = i < 6 ? (uint8_t)smaller_of(M, SIDE) : SIDE;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

AMX static void amx_end(void)
{
    _tile_release();
}

/* ---- the whole product ------------------------------------------------------------------------------------------ */

enum tft_bf16 tft_bf16_here(void)
{
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 }; /* arch_prctl: a process must ask the kernel for tiles */

    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw"))
        return TFT_BF16_NONE;
    if (__builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0)
        return TFT_BF16_TILES;
    return TFT_BF16_DOT;
}

size_t tft_bf16_packed(size_t K, size_t N)
{
    return tiles_of(K, DEPTH) * tiles_of(N, SIDE) * TILE;
}

void tft_bf16_pack(struct matrix b, size_t K, size_t N, uint16_t *packed)
{
    pack_b(b, 0, 0, N, K, tiles_of(K, DEPTH), packed);
}

/* All rows of C, a block of columns and of k, of each product. */
static void rows_of(enum tft_bf16 means, struct matrix a, size_t k, size_t M, struct block *blocks, size_t count,
                    size_t deep, uint16_t *room)
{
    for (size_t m = 0; m < M; m += TALL) {
        size_t rows = smaller_of(M - m, TALL);

        pack_a(a, m, k, rows, deep, room);
        for (struct block *block = blocks; block < blocks + count; block++) {
            block->M = rows;
            if (means == TFT_BF16_TILES)
                multiply_amx(block);
            else
                multiply_dot(block);
            block->c += rows * block->ldc;
        }
    }
}

/* A block of a second factor: in its packed copy, or packed into room. */
static struct block block_of(const struct tft_bf16_second *second, size_t n, size_t k, size_t columns, size_t K,
                             size_t deep, uint16_t *room)
{
    struct block block = { .N = columns,
                           .depth = tiles_of(deep, DEPTH),
                           .stride = tiles_of(K, DEPTH),
                           .add = second->to.add || k,
                           .c = second->to.data + n,
                           .ldc = second->to.ld };

    if (second->packed) {
        block.b = second->packed + n * block.stride * DEPTH + k * SIDE;
        return block;
    }
    block.b = room;
    block.stride = block.depth;
    pack_b(second->b, n, k, columns, deep, block.stride, room);
    return block;
}

void tft_gemm_bf16_each(enum tft_bf16 means, struct matrix a, const struct tft_bf16_second *seconds, size_t count,
                        size_t M, size_t N, size_t K, uint16_t *room)
{
    size_t share = WIDE / count / SIDE * SIDE, wide = N;
    struct block blocks[TFT_BF16_TOGETHER];

    for (size_t i = 0; i < count; i++)
        wide = seconds[i].packed ? wide : smaller_of(wide, share);
    if (M == 0 || K == 0) {
        for (const struct tft_bf16_second *at = seconds; at < seconds + count; at++)
            tft_gemm(a, matrix_of(NULL, N), M, N, 0, at->to.add, at->to.data, at->to.ld); /* zeros, or nothing */
        return;
    }
    if (means == TFT_BF16_TILES)
        amx_begin(M);
    for (size_t n = 0; n < N; n += wide)
        for (size_t k = 0; k < K; k += DEEP) {
            size_t deep = smaller_of(K - k, DEEP);

            for (size_t i = 0; i < count; i++) {
                blocks[i] = block_of(&seconds[i], n, k, smaller_of(N - n, wide), K, deep,
                                     room + TALL * DEEP + i * share * DEEP);
                blocks[i].a = room;
                blocks[i].height = smaller_of(M, SIDE); /* as in amx_begin */
            }
            rows_of(means, a, k, M, blocks, count, deep, room);
        }
    if (means == TFT_BF16_TILES)
        amx_end();
}
#else
/* Such a processor does not exist here, so the products are never called. */
enum tft_bf16 tft_bf16_here(void)
{
    return TFT_BF16_NONE;
}

size_t tft_bf16_packed(size_t K, size_t N)
{
    return K * N;
}

void tft_bf16_pack(struct matrix b, size_t K, size_t N, uint16_t *packed)
{
    (void)b;
    memset(packed, 0, K * N * sizeof *packed);
}

void tft_gemm_bf16_each(enum tft_bf16 means, struct matrix a, const struct tft_bf16_second *seconds, size_t count,
                        size_t M, size_t N, size_t K, uint16_t *room)
{
    (void)means;
    (void)room;
    for (const struct tft_bf16_second *at = seconds; at < seconds + count; at++)
        tft_gemm(a, at->b, M, N, K, at->to.add, at->to.data, at->to.ld);
}
#endif

void tft_gemm_bf16(enum tft_bf16 means, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                   struct target to, uint16_t *room)
{
    tft_gemm_bf16_each(means, a, &(struct tft_bf16_second){ .b = b, .to = to }, 1, M, N, K, room);
}
