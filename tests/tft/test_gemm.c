/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of the library and the plain ones against sums in double: all transpositions, writing and adding,
 * long row distances, the trainer's shapes; what C held is not read when it is written.
 */
#include "tests/tft/model_helpers.h"
#include "tft/gemm.h"

static real a[1 << 20], b[1 << 20], c[1 << 20], before[1 << 20];

typedef void product(struct matrix, struct matrix, size_t, size_t, size_t, int, real *, size_t);

static void check(const char *name, product *gemm, size_t M, size_t N, size_t K, int ta, int tb, int add, size_t gap)
{
    size_t lda = (ta ? M : K) + gap, ldb = (tb ? K : N) + gap, ldc = N + gap;
    double worst = 0;
    size_t touched = 0;

    for (size_t i = 0; i < M * ldc; i++)
        c[i] = before[i] = add || i % ldc >= N ? (real)((double)(i % 17) / 17) : (real)NAN;
    gemm(ta ? matrix_t(a, lda) : matrix_of(a, lda), tb ? matrix_t(b, ldb) : matrix_of(b, ldb), M, N, K, add, c, ldc);
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double sum = add ? (double)before[m * ldc + n] : 0;

            for (size_t k = 0; k < K; k++)
                sum += (double)a[ta ? k * lda + m : m * lda + k] * (double)b[tb ? n * ldb + k : k * ldb + n];
            worst = isnan(c[m * ldc + n]) ? INFINITY : fmax(worst, fabs(sum - (double)c[m * ldc + n]));
        }
        for (size_t n = N; n < ldc; n++)
            touched += c[m * ldc + n] != before[m * ldc + n];
    }
    CHECK(worst < 1e-5 * (double)(K + 1) && !touched,
          "%s %zux%zux%zu ta %d tb %d add %d gap %zu: off by %g, %zu outside", name, M, N, K, ta, tb, add, gap, worst,
          touched);
}

int main(void)
{
    static const size_t shapes[][3] = { { 1, 1, 1 },      { 2, 3, 160 },   { 8, 640, 160 }, { 8, 160, 640 },
                                        { 96, 160, 160 }, { 160, 4, 96 },  { 7, 5, 3 },     { 24, 192, 40 },
                                        { 96, 40, 192 },  { 160, 160, 2 }, { 3, 0, 4 },     { 0, 3, 4 },
                                        { 3, 4, 0 },      { 17, 33, 65 } };

    fill_values(a, 1 << 20, 1);
    fill_values(b, 1 << 20, 2);
    tft_gemm_this_thread_only();
    printf("products by %s\n", tft_gemm_name());
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int how = 0; how < 8; how++)
            for (size_t gap = 0; gap < 20; gap += 13) {
                const size_t *n = shapes[s];

                check("library", tft_gemm, n[0], n[1], n[2], how & 1, how >> 1 & 1, how >> 2, gap);
                check("plain", tft_gemm_plain, n[0], n[1], n[2], how & 1, how >> 1 & 1, how >> 2, gap);
            }
    return test_end();
}
