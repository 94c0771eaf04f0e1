/* SPDX-License-Identifier: Apache-2.0
 *
 * A factor that is a parameter is found among the rounded ones by its place; any other is rounded row by row into a
 * matrix without gaps.
 */
#include "tft/product.h"
#include "tft/vector.h"

enum { EXACT_ROWS = 2 };

TFT_VECTOR void halves_of(const real *restrict x, size_t n, uint16_t *restrict half)
{
    for (size_t i = 0; i < n; i++) {
        float value = (float)x[i];
        uint32_t bits, rounded;

        memcpy(&bits, &value, sizeof bits);
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        half[i] = (uint16_t)(value != value ? bits >> 16 | 0x40 : rounded); /* a NaN stays one */
    }
}

static int within(const real *x, const real *begin, size_t n)
{
    uintptr_t at = (uintptr_t)x, from = (uintptr_t)begin;

    return at >= from && at < from + n * sizeof *x;
}

/* rows and columns: of the matrix as it is stored. */
static struct matrix16 half_of(const struct pass *pass, struct matrix m, size_t rows, size_t columns, uint16_t *room)
{
    const struct halves *halves = pass->halves;

    if (within(m.data, pass->p, halves->reals))
        return (struct matrix16){ halves->params + (m.data - pass->p), m.ld, m.transposed };
    if (m.data == halves->kept)
        return (struct matrix16){ halves->kept_half, m.ld, m.transposed };
    if (m.ld == columns)
        halves_of(m.data, rows * columns, room);
    else
        for (size_t r = 0; r < rows; r++)
            halves_of(m.data + r * m.ld, columns, room + r * columns);
    return (struct matrix16){ room, columns, m.transposed };
}

void product(const struct pass *pass, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c,
             size_t ldc)
{
    const struct halves *halves = pass->halves;

    /* It fails only without memory for its packed copy. */
    if (!halves || M <= EXACT_ROWS || K <= EXACT_ROWS ||
        halves->gemm(half_of(pass, a, a.transposed ? K : M, a.transposed ? M : K, halves->a),
                     half_of(pass, b, b.transposed ? N : K, b.transposed ? K : N, halves->b), M, N, K, add, c, ldc))
        tft_gemm(a, b, M, N, K, add, c, ldc);
}

void product_keep(const struct pass *pass, const real *matrix, size_t n)
{
    if (!pass->halves)
        return;
    halves_of(matrix, n, pass->halves->kept_half);
    pass->halves->kept = matrix;
}

void product_forget(const struct pass *pass)
{
    if (pass->halves)
        pass->halves->kept = NULL;
}
