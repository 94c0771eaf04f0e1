/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by oneDNN's dnnl_sgemm, which is row-major, packs its operands itself and is as fast on the small
 * shapes of an LSTM step as with weights packed beforehand. (The only file that includes dnnl.h.)
 *
 * oneDNN's threads are OpenMP's; their number is a property of the calling thread. The runtime comes with oneDNN,
 * whichever it was built with, so its function is looked up weakly. So is the product of bf16, which oneDNN exports and
 * its header does not declare: a version without it has no bf16.
 */
#include "tft/gemm.h"
#include <dnnl.h>

extern void omp_set_num_threads(int threads) __attribute__((weak));

extern dnnl_status_t dnnl_gemm_bf16bf16f32(char transa, char transb, dnnl_dim_t M, dnnl_dim_t N, dnnl_dim_t K,
                                           float alpha, const uint16_t *A, dnnl_dim_t lda, const uint16_t *B,
                                           dnnl_dim_t ldb, float beta, float *C, dnnl_dim_t ldc) __attribute__((weak));

#define TEXT(x) #x
#define DNNL_NAME(major, minor, patch) "onednn " TEXT(major) "." TEXT(minor) "." TEXT(patch)

void tft_gemm(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc)
{
    if (M == 0 || N == 0)
        return;
    /* It fails only without memory for its packed copy; the plain product needs none. */
    if (K == 0 || dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', (dnnl_dim_t)M, (dnnl_dim_t)N,
                             (dnnl_dim_t)K, 1.0f, a.data, (dnnl_dim_t)a.ld, b.data, (dnnl_dim_t)b.ld, add ? 1.0f : 0.0f,
                             c, (dnnl_dim_t)ldc) != dnnl_success)
        tft_gemm_plain(a, b, M, N, K, add, c, ldc);
}

static int gemm_bf16(struct matrix16 a, struct matrix16 b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc)
{
    return dnnl_gemm_bf16bf16f32(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', (dnnl_dim_t)M, (dnnl_dim_t)N,
                                 (dnnl_dim_t)K, 1.0f, a.data, (dnnl_dim_t)a.ld, b.data, (dnnl_dim_t)b.ld,
                                 add ? 1.0f : 0.0f, c, (dnnl_dim_t)ldc) != dnnl_success;
}

tft_gemm16 tft_gemm_bf16(void)
{
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if (dnnl_gemm_bf16bf16f32 && __builtin_cpu_supports("avx512bf16")) /* AMX comes with it */
        return gemm_bf16;
#endif
    return NULL;
}

const char *tft_gemm_name(void)
{
    return DNNL_NAME(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

void tft_gemm_this_thread_only(void)
{
    if (omp_set_num_threads)
        omp_set_num_threads(1);
}
