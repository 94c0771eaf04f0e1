/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products in plain C: they define the other products' results, and serve where one factor is a few rows or
 * columns. The inner loop runs along a row of C, so that it vectorises; A's element is the same for all of it.
 */
#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/vector.h"

TFT_VECTOR static void row_zero(real *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = 0;
}

TFT_VECTOR static void row_add(real *restrict c, const real *restrict b, real a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] += a * b[i];
}

TFT_VECTOR static real row_dot(const real *restrict a, const real *restrict b, size_t stride, size_t n)
{
    real sum = 0;

    if (stride == 1) {
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < n; i++)
            sum += a[i] * b[i];
    } else {
        for (size_t i = 0; i < n; i++)
            sum += a[i * stride] * b[i];
    }
    return sum;
}

void tft_gemm_plain(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc)
{
    for (size_t m = 0; m < M; m++) {
        real *row = c + m * ldc;

        if (!add)
            row_zero(row, N);
        if (b.transposed) {
            const real *in = a.transposed ? a.data + m : a.data + m * a.ld;

            for (size_t n = 0; n < N; n++)
                row[n] += row_dot(in, b.data + n * b.ld, a.transposed ? a.ld : 1, K);
        } else {
            for (size_t k = 0; k < K; k++)
                row_add(row, b.data + k * b.ld, a.transposed ? a.data[k * a.ld + m] : a.data[m * a.ld + k], N);
        }
    }
}
