/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products without a library: a tile of C, some rows of two vectors, stays in registers while k runs; its eight
 * or more sums hide the latency of each. A is read in place. So is B, unless it is transposed, ends inside the tile, or
 * has rows far apart and is read often: then DEPTH rows of the tile's columns are copied first.
 */
#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/vector.h"

enum {
    MOST_ROWS = 8,
    DEPTH = 256,
    WIDEST = 2 * 64 / sizeof(real),
    FEW_ROWS = 2,
    FEW_COLUMNS = 8,
    OFTEN = 64,
    FAR = 256
};

/* The factors of a tile: A's element (r, k) is a[r * row + k * step], B's (k, n) is b[k * ldb + n]. */
struct factors {
    const real *a, *b;
    size_t row, step, ldb, depth;
};

/* Multiplies as many of the rows as its tile has, at least one; how many. */
struct kernel {
    size_t (*tile)(const struct factors *f, size_t rows, struct target c);
    size_t columns;
};

/* name_of: `rows` rows, a constant where it is called, so that sums and loops are registers. Six rows take twelve of
 * AVX2's sixteen registers; the last eight rows are two fours. */
#define DEFINE_TILE(name, attributes, bytes, ROWS)                                                           \
    typedef real name##_vector __attribute__((vector_size(bytes), aligned(sizeof(real)), may_alias));        \
    attributes static inline                                                                                 \
        __attribute__((always_inline)) void name##_of(const struct factors *f, size_t rows, struct target c) \
    {                                                                                                        \
        name##_vector sum[MOST_ROWS][2] = { 0 };                                                             \
        const real *a = f->a, *b = f->b;                                                                     \
        const size_t row = f->row, step = f->step, ldb = f->ldb;                                             \
        for (size_t k = f->depth; k-- > 0; a += step, b += ldb) {                                            \
            const name##_vector *in = (const name##_vector *)b, b0 = in[0], b1 = in[1];                      \
            _Pragma("GCC unroll 8") for (size_t r = 0; r < rows; r++)                                        \
            {                                                                                                \
                sum[r][0] += a[r * row] * b0;                                                                \
                sum[r][1] += a[r * row] * b1;                                                                \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 8") for (size_t r = 0; r < rows; r++)                                            \
        {                                                                                                    \
            name##_vector *to = (name##_vector *)(c.data + r * c.ld);                                        \
            to[0] = sum[r][0] + (c.add ? to[0] : (name##_vector){ 0 });                                      \
            to[1] = sum[r][1] + (c.add ? to[1] : (name##_vector){ 0 });                                      \
        }                                                                                                    \
    }                                                                                                        \
    attributes static size_t name(const struct factors *f, size_t rows, struct target c)                     \
    {                                                                                                        \
        if (rows >= ROWS && (ROWS != 6 || rows != 8))                                                        \
            return name##_of(f, ROWS, c), ROWS;                                                              \
        if (rows >= 4)                                                                                       \
            return name##_of(f, 4, c), 4;                                                                    \
        if (rows >= 2)                                                                                       \
            return name##_of(f, 2, c), 2;                                                                    \
        return name##_of(f, 1, c), 1;                                                                        \
    }

DEFINE_TILE(tile_plain, , 16, 4)
#ifdef TFT_HAVE_CLONES
DEFINE_TILE(tile_v3, __attribute__((target("arch=x86-64-v3"))), 32, 6)
DEFINE_TILE(tile_v4, __attribute__((target("arch=x86-64-v4"))), 64, 8)
#endif

size_t tft_gemm_vector(void)
{
#ifdef TFT_HAVE_CLONES
    if (__builtin_cpu_supports("x86-64-v4"))
        return 64;
    if (__builtin_cpu_supports("x86-64-v3"))
        return 32;
#endif
    return 16;
}

static struct kernel kernel_of(size_t vector)
{
    size_t (*tile)(const struct factors *f, size_t rows, struct target c) = tile_plain;

#ifdef TFT_HAVE_CLONES
    if (vector > 16)
        tile = vector == 64 ? tile_v4 : tile_v3;
#endif
    return (struct kernel){ tile, 2 * vector / sizeof(real) };
}

/* Packs columns from n of rows from k of B side by side, with zeros beyond the edge. */
TFT_VECTOR static void pack(struct matrix b, size_t k, size_t n, size_t depth, size_t columns, size_t width, real *to)
{
    for (size_t j = columns; j < width; j++)
        for (size_t i = 0; i < depth; i++)
            to[i * width + j] = 0;
    if (b.transposed)
        for (size_t j = 0; j < columns; j++)
            for (size_t i = 0; i < depth; i++)
                to[i * width + j] = b.data[(n + j) * b.ld + k + i];
    else
        for (size_t i = 0; i < depth; i++)
            for (size_t j = 0; j < columns; j++)
                to[i * width + j] = b.data[(k + i) * b.ld + n + j];
}

/* The columns of one tile: all rows. */
static void multiply_columns(const struct kernel *kernel, struct factors f, size_t M, size_t columns, struct target c)
{
    real edge[MOST_ROWS * WIDEST];
    size_t rows;

    for (size_t m = 0; m < M; m += rows, f.a += rows * f.row, c.data += rows * c.ld) {
        if (columns == kernel->columns) {
            rows = kernel->tile(&f, M - m, c);
            continue;
        }
        rows = kernel->tile(&f, M - m, written(edge, kernel->columns));
        for (size_t r = 0; r < rows; r++)
            for (size_t n = 0; n < columns; n++)
                c.data[r * c.ld + n] = edge[r * kernel->columns + n] + (c.add ? c.data[r * c.ld + n] : 0);
    }
}

void tft_gemm_tiles(size_t vector, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, struct target to)
{
    real packed[DEPTH * WIDEST] __attribute__((aligned(64)));
    const struct kernel kernel = kernel_of(vector);
    struct factors f = { .row = a.transposed ? 1 : a.ld, .step = a.transposed ? a.ld : 1 };

    if ((a.transposed && M <= FEW_ROWS) || N < FEW_COLUMNS || K == 0) {
        tft_gemm_plain(a, b, M, N, K, to.add, to.data, to.ld);
        return;
    }
    for (size_t k = 0; k < K; k += DEPTH)
        for (size_t n = 0; n < N; n += kernel.columns) {
            size_t columns = N - n < kernel.columns ? N - n : kernel.columns;

            f.depth = K - k < DEPTH ? K - k : DEPTH;
            f.a = a.data + k * f.step;
            f.b = b.data + k * b.ld + n;
            f.ldb = b.ld;
            if (b.transposed || columns < kernel.columns || (M >= OFTEN && b.ld > FAR)) {
                pack(b, k, n, f.depth, columns, kernel.columns, packed);
                f.b = packed;
                f.ldb = kernel.columns;
            }
            multiply_columns(&kernel, f, M, columns, (struct target){ to.data + n, to.ld, to.add || k > 0 });
        }
}
