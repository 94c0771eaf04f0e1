/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by a CBLAS library. (The only file that includes cblas.h.)
 *
 * OpenBLAS has a thread pool of its own, switched off through a function that other libraries lack: looked up weakly.
 */
#include "tft/core/kernels/gemm.h"
#include <cblas.h>
#include <stdio.h>

extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak)); /* its version, and the processor that it computes for */

void tft_gemm(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc)
{
    if (M == 0 || N == 0)
        return;
    if (K == 0) {
        tft_gemm_plain(a, b, M, N, K, add, c, ldc);
        return;
    }
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                (int)M, (int)N, (int)K, 1.0f, a.data, (int)a.ld, b.data, (int)b.ld, add ? 1.0f : 0.0f, c, (int)ldc);
}

const char *tft_gemm_name(void)
{
    return "cblas";
}

void tft_gemm_describe(char *text, size_t size)
{
    snprintf(text, size, "%s", openblas_get_config ? openblas_get_config() : tft_gemm_name());
}

void tft_gemm_this_thread_only(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
}
