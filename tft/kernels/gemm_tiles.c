/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products without a library: a tile of C, some rows of two vectors, stays in registers while k runs; its eight
 * or more sums hide the latency of each. A is read in place. So is B, unless it is transposed or ends inside the tile:
 * then DEPTH rows of the tile's columns are copied first.
 */
#include "tft/kernels/gemm.h"
#include "tft/kernels/vector.h"

enum { MOST_ROWS = 8, DEPTH = 256, WIDEST = 2 * 64 / sizeof(real), FEW_ROWS = 2, FEW_COLUMNS = 8 };

/* The factors of a tile: A's element (r, k) is a[r * row + k * step], B's (k, n) is b[k * ldb + n]. */
struct factors {
    const real *a, *b;
    size_t row, step, ldb, depth;
};

struct kernel {
    void (*tile)(const struct factors *f, size_t rows, struct target c);
    size_t rows, columns;
};

/* Rows that are not there are computed like the last one and not stored. */
#define DEFINE_TILE(name, attributes, bytes, ROWS)                                                    \
    typedef real name##_vector __attribute__((vector_size(bytes), aligned(sizeof(real)), may_alias)); \
    attributes static void name(const struct factors *f, size_t rows, struct target c)                \
    {                                                                                                 \
        name##_vector sum[ROWS][2] = { 0 };                                                           \
        const real *a[ROWS], *b = f->b;                                                               \
        for (size_t r = 0; r < ROWS; r++)                                                             \
            a[r] = f->a + (r < rows ? r : rows - 1) * f->row;                                         \
        for (size_t k = 0; k < f->depth; k++, b += f->ldb) {                                          \
            const name##_vector *in = (const name##_vector *)b;                                       \
            for (size_t r = 0; r < ROWS; r++) {                                                       \
                sum[r][0] += a[r][k * f->step] * in[0];                                               \
                sum[r][1] += a[r][k * f->step] * in[1];                                               \
            }                                                                                         \
        }                                                                                             \
        for (size_t r = 0; r < ROWS && r < rows; r++)                                                 \
            for (size_t i = 0; i < 2; i++) {                                                          \
                name##_vector *to = (name##_vector *)(c.data + r * c.ld) + i;                         \
                if (c.add)                                                                            \
                    sum[r][i] += *to;                                                                 \
                *to = sum[r][i];                                                                      \
            }                                                                                         \
    }

DEFINE_TILE(tile_plain, , 16, 4)
#ifdef TFT_HAVE_CLONES
DEFINE_TILE(tile_v3, __attribute__((target("arch=x86-64-v3"))), 32, 4)
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
    void (*tile)(const struct factors *f, size_t rows, struct target c) = tile_plain;

#ifdef TFT_HAVE_CLONES
    if (vector > 16)
        tile = vector == 64 ? tile_v4 : tile_v3;
#endif
    return (struct kernel){ tile, vector == 64 ? 8 : 4, 2 * vector / sizeof(real) };
}

/* Columns from n of rows from k of B, side by side; zeros where there are none. */
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
static void multiply(const struct kernel *kernel, struct factors f, size_t M, size_t columns, struct target c)
{
    real edge[MOST_ROWS * WIDEST];

    for (size_t m = 0; m < M; m += kernel->rows, f.a += kernel->rows * f.row, c.data += kernel->rows * c.ld) {
        size_t rows = M - m < kernel->rows ? M - m : kernel->rows;

        if (columns == kernel->columns) {
            kernel->tile(&f, rows, c);
            continue;
        }
        kernel->tile(&f, rows, written(edge, kernel->columns));
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

    if (M <= FEW_ROWS || N < FEW_COLUMNS || K == 0) {
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
            if (b.transposed || columns < kernel.columns) {
                pack(b, k, n, f.depth, columns, kernel.columns, packed);
                f.b = packed;
                f.ldb = kernel.columns;
            }
            multiply(&kernel, f, M, columns, (struct target){ to.data + n, to.ld, to.add || k > 0 });
        }
}
