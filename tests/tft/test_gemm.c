/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products of the library, halay's own and the plain ones against sums in double: all transpositions, writing
 * and adding, long row distances, the trainer's shapes; what C held is not read when it is written, and nothing beside
 * or behind it is.
 */
#include "tests/tft/model_helpers.h"
#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/kernels.h"

static real a[1 << 20], b[1 << 20], c[1 << 20], before[1 << 20];
static uint16_t room[TFT_BF16_ROOM] __attribute__((aligned(64))), packed[1 << 20] __attribute__((aligned(64)));

enum { BEHIND = 16 }; /* rows */

typedef void product(struct matrix, struct matrix, size_t, size_t, size_t, int, real *, size_t);

/* M, N, K; bits of how: the first factor is transposed, the second is, the product is added; columns behind each row.
 * */
struct problem {
    const size_t *shape;
    int how;
    size_t gap;
};

static void check(const char *name, product *gemm, const struct problem *p)
{
    const size_t M = p->shape[0], N = p->shape[1], K = p->shape[2], gap = p->gap;
    const int ta = p->how & 1, tb = p->how >> 1 & 1, add = p->how >> 2;
    size_t lda = (ta ? M : K) + gap, ldb = (tb ? K : N) + gap, ldc = N + gap;
    double worst = 0;
    size_t touched = 0;

    for (size_t i = 0; i < (M + BEHIND) * ldc; i++)
        c[i] = before[i] = add || i % ldc >= N || i / ldc >= M ? (real)((double)(i % 17) / 17) : (real)NAN;
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
    for (size_t i = M * ldc; i < (M + BEHIND) * ldc; i++)
        touched += c[i] != before[i];
    CHECK(worst < 1e-5 * (double)(K + 1) && !touched,
          "%s %zux%zux%zu ta %d tb %d add %d gap %zu: off by %g, %zu outside", name, M, N, K, ta, tb, add, gap, worst,
          touched);
}

static size_t vector;

static void by_own(struct matrix x, struct matrix y, size_t M, size_t N, size_t K, int add, real *z, size_t ldz)
{
    tft_gemm_tiles(vector, x, y, M, N, K, sum_to(z, ldz, add));
}

static void by_tiles(struct matrix x, struct matrix y, size_t M, size_t N, size_t K, int add, real *z, size_t ldz)
{
    tft_gemm_bf16(TFT_BF16_TILES, x, y, M, N, K, sum_to(z, ldz, add), room);
}

static void by_pairs(struct matrix x, struct matrix y, size_t M, size_t N, size_t K, int add, real *z, size_t ldz)
{
    tft_gemm_bf16(TFT_BF16_DOT, x, y, M, N, K, sum_to(z, ldz, add), room);
}

static void by_packed(struct matrix x, struct matrix y, size_t M, size_t N, size_t K, int add, real *z, size_t ldz)
{
    tft_bf16_pack(y, K, N, packed);
    tft_gemm_bf16_each(tft_bf16_here(), x, &(struct tft_bf16_second){ .packed = packed, .to = sum_to(z, ldz, add) }, 1,
                       M, N, K, room);
}

/* The second of two with the same first factor; the first one, whose target begins as zeros, must have the same bits
 * as alone. */
static void by_two(struct matrix x, struct matrix y, size_t M, size_t N, size_t K, int add, real *z, size_t ldz)
{
    static real other[1 << 18], alone[1 << 18];
    struct tft_bf16_second seconds[] = { { .b = y, .to = added(other, N) }, { .b = y, .to = sum_to(z, ldz, add) } };

    memset(other, 0, M * N * sizeof *other);
    memset(alone, 0, M * N * sizeof *alone);
    tft_gemm_bf16_each(tft_bf16_here(), x, seconds, 2, M, N, K, room);
    tft_gemm_bf16(tft_bf16_here(), x, y, M, N, K, added(alone, N), room);
    CHECK(!memcmp(other, alone, M * N * sizeof *other), "%zux%zux%zu beside another: other bits than alone", M, N, K);
}

/* Eight bits of a factor, as the products round it: with such factors they are as good as exact. */
static void round_values(real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (real)ldexp(rint(ldexp((double)x[i], 7)), -7);
}

/* What a row comes to does not depend on how many there are: ranks cut what they forecast at different places. */
static void check_rows_apart(size_t N, size_t K)
{
    struct queue *queue;

    REQUIRE(tft_kernels_cpu()->open(&(struct queue_needs){ 0 }, &queue) == HALAY_OK);
    for (size_t M = 5; M > 0; M--) {
        const struct product rows = {
            .a = matrix_of(a, K), .b = matrix_of(b, N), .M = M, .N = N, .K = K, .to = written(M == 5 ? before : c, N)
        };

        tft_kernels_cpu()->product(queue, &rows);
        CHECK(M == 5 || !memcmp(c, before, M * N * sizeof *c), "%zu rows of %zu, over %zu: other bits", M, N, K);
    }
    tft_kernels_cpu()->close(queue);
}

int main(void)
{
    static const size_t shapes[][3] = { { 1, 1, 1 },      { 2, 3, 160 },   { 8, 640, 160 },  { 8, 160, 640 },
                                        { 96, 160, 160 }, { 160, 4, 96 },  { 7, 5, 3 },      { 24, 192, 40 },
                                        { 96, 40, 192 },  { 160, 160, 2 }, { 3, 0, 4 },      { 0, 3, 4 },
                                        { 3, 4, 0 },      { 17, 33, 65 },  { 70, 337, 300 }, { 65, 48, 40 },
                                        { 79, 16, 16 },   { 72, 64, 300 } };

    fill_values(a, 1 << 20, 1);
    fill_values(b, 1 << 20, 2);
    tft_gemm_this_thread_only();
    printf("products by %s\n", tft_gemm_name());
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int how = 0; how < 8; how++)
            for (size_t gap = 0; gap < 20; gap += 13) {
                const struct problem problem = { shapes[s], how, gap };

                check("library", tft_gemm, &problem);
                check("plain", tft_gemm_plain, &problem);
                for (vector = 16; vector <= tft_gemm_vector(); vector *= 2)
                    check("own", by_own, &problem);
            }
    for (size_t K = 1; K <= 160; K += K < 10 ? 1 : 30)
        check_rows_apart(160, K);
    check_rows_apart(32, 8);
    check_rows_apart(3, 160);
    round_values(a, 1 << 20);
    round_values(b, 1 << 20);
    for (size_t s = 0; tft_bf16_here() != TFT_BF16_NONE && s < sizeof shapes / sizeof *shapes; s++)
        for (int how = 0; how < 8; how++)
            for (size_t gap = 0; gap < 20; gap += 13) {
                const struct problem problem = { shapes[s], how, gap };

                check("pairs", by_pairs, &problem);
                check("packed", by_packed, &problem);
                check("two", by_two, &problem);
                if (tft_bf16_here() == TFT_BF16_TILES)
                    check("tiles", by_tiles, &problem);
            }
    return test_end();
}
