/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by oneDNN's dnnl_sgemm, which is row-major, packs its operands itself and is as fast on the small
 * shapes of an LSTM step as with weights packed beforehand. (The only file that includes oneDNN.)
 *
 * oneDNN's threads are OpenMP's; their number is a property of the calling thread. oneDNN brings the OpenMP runtime
 * that it was built with, so its function is looked up weakly.
 */
#include "tft/core/kernels/gemm.h"
#include <dnnl.h>
#include <dnnl_debug.h>
#include <stdio.h>
#include <string.h>

extern void omp_set_num_threads(int threads) __attribute__((weak));

enum { ROW_MOST = 2048 };

#define TEXT(x) #x
#define DNNL_NAME(major, minor, patch) "onednn " TEXT(major) "." TEXT(minor) "." TEXT(patch)

/*
 * A window's forecast must not depend on how many are computed with it, so that a row's sums have one order, however
 * many rows there are. With AVX-512 only a single row has another kernel, and is multiplied twice. The kernels for AVX2
 * have other orders for the last rows of each block of six: halay's own product takes their
 * place unless the first factor is transposed, whose rows are weights, not samples.
 */
static int has_one_order(void)
{
    return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core;
}

static void multiply_row(struct matrix a, struct matrix b, size_t N, size_t K, int add, real *c)
{
    real rows[2 * ROW_MOST], products[2 * ROW_MOST];

    for (size_t k = 0; k < K; k++)
        rows[k] = rows[K + k] = a.data[a.transposed ? k * a.ld : k];
    tft_gemm((struct matrix){ rows, K, 0 }, b, 2, N, K, 0, products, N);
    for (size_t n = 0; n < N; n++)
        c[n] = add ? c[n] + products[n] : products[n];
}

void tft_gemm(struct matrix a, struct matrix b, size_t M, size_t N, size_t K, int add, real *c, size_t ldc)
{
    if (M == 0 || N == 0)
        return;
    if (!a.transposed && !b.transposed && !has_one_order()) {
        tft_gemm_tiles(tft_gemm_vector(), a, b, M, N, K, (struct target){ c, ldc, add });
        return;
    }
    if (M == 1 && N <= ROW_MOST && K <= ROW_MOST) {
        multiply_row(a, b, N, K, add, c);
        return;
    }
    /* It fails only without memory for its packed copy; the plain product needs none. */
    if (K == 0 || dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', (dnnl_dim_t)M, (dnnl_dim_t)N,
                             (dnnl_dim_t)K, 1.0f, a.data, (dnnl_dim_t)a.ld, b.data, (dnnl_dim_t)b.ld, add ? 1.0f : 0.0f,
                             c, (dnnl_dim_t)ldc) != dnnl_success)
        tft_gemm_plain(a, b, M, N, K, add, c, ldc);
}

const char *tft_gemm_name(void)
{
    return DNNL_NAME(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

void tft_gemm_describe(char *text, size_t size)
{
    static const char prefix[] = "cpu_isa_";
    const dnnl_version_t *version = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());

    snprintf(text, size, "onednn %d.%d.%d, %s", version->major, version->minor, version->patch,
             strncmp(isa, prefix, sizeof prefix - 1) ? isa : isa + sizeof prefix - 1);
}

void tft_gemm_this_thread_only(void)
{
    if (omp_set_num_threads)
        omp_set_num_threads(1);
}
