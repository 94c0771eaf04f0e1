/* SPDX-License-Identifier: Apache-2.0
 *
 * Products, by cuBLASLt. It counts columns first, and so computes C^T = op(B)^T op(A)^T: a row-major matrix is its own
 * transpose there, and nothing is moved. A bias is its epilogue: it goes along what it calls rows.
 *
 * With tf32 the library rounds the factors on their way into the tensor cores (FAST_TF32), and with bf16 factors that
 * are both reals (FAST_16BF). With a narrow array (narrow.h) all factors are bf16 in memory: parameters have a copy
 * that `begin` makes once a step, and what is neither that nor an activation is rounded in front of the product. Sums
 * are f32; the result, and its bias, are bf16 where the result is narrow. The layouts of a shape and the algorithm
 * that the library suggests for it are looked up once and kept.
 *
 * The algorithm is the first suggestion, not the fastest of several that are timed: suggestions cut K into parts of
 * their own, so the sums' last bits differ, and of two that are equally fast now one wins, now the other. The same
 * training gives the same bits when it is run again, or resumed.
 *
 * Where the library suggests none, a kernel of our own makes the product, a thread a number. It takes any product. It
 * is slow, so the queue gets a warning.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include <cstdio>
#include <cstdlib>
#include <cstring>

enum { PLANS = 512, PLAN_PROBES = 8 };

/* The library's advice: 32 MiB for sm_90, 4 MiB before. */
static const size_t workspace_hopper = 32 << 20, workspace_before = 4 << 20;

/* The arguments that a plan depends on. It is compared as bytes, so it is zeroed first. */
struct plan_key {
    size_t M, N, K, lda, ldb, ldc, batch, step_a, step_b, step_to;
    int a_transposed, b_transposed, has_bias, narrow_factors, narrow_to;
    cublasComputeType_t computes;
    uint32_t a_alignment, b_alignment, c_alignment, bias_alignment; /* bytes; the bias's: 0 without one */
};

struct plan {
    struct plan_key key; /* batch 0: a free place */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    int has_algorithm; /* 0: the library has none */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace; /* bytes that it wants */
};

struct cuda_plans {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
    struct plan plans[PLANS];
};

static bool note_status(struct queue *queue, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    const cudaError_t before = cudaStreamQuery(queue->stream); /* the error of a failed kernel is more precise */
    if (before != cudaErrorNotReady)
        cuda_note(queue, before);
    if (!queue->failure)
        queue->failure = cublasLtGetStatusString(status);
    return false;
}

/* ---- plans ---- */

static void plan_clear(struct plan *plan)
{
    const cublasLtMatrixLayout_t layouts[] = { plan->a, plan->b, plan->c };

    for (cublasLtMatrixLayout_t layout : layouts)
        if (layout)
            cublasLtMatrixLayoutDestroy(layout); /* cannot fail: it exists */
    if (plan->product)
        cublasLtMatmulDescDestroy(plan->product);
    memset(plan, 0, sizeof *plan);
}

/* A row-major matrix (rows, columns) as the library sees it. */
static cublasStatus_t make_layout(cublasLtMatrixLayout_t *layout, int is_narrow, size_t rows, size_t columns, size_t ld,
                                  size_t batch, size_t step)
{
    const cudaDataType type = is_narrow ? CUDA_R_16BF : CUDA_R_32F;
    const int32_t count = static_cast<int32_t>(batch);
    const int64_t stride = static_cast<int64_t>(step);
    cublasStatus_t status = cublasLtMatrixLayoutCreate(layout, type, columns, rows, static_cast<int64_t>(ld));

    if (status == CUBLAS_STATUS_SUCCESS && batch > 1)
        status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status == CUBLAS_STATUS_SUCCESS && batch > 1)
        status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                  sizeof stride);
    return status;
}

static cublasStatus_t make_layouts(struct plan *plan)
{
    const struct plan_key *k = &plan->key;
    const size_t a_rows = k->a_transposed ? k->K : k->M, a_columns = k->a_transposed ? k->M : k->K;
    const size_t b_rows = k->b_transposed ? k->N : k->K, b_columns = k->b_transposed ? k->K : k->N;
    cublasStatus_t status = make_layout(&plan->a, k->narrow_factors, a_rows, a_columns, k->lda, k->batch, k->step_a);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->b, k->narrow_factors, b_rows, b_columns, k->ldb, k->batch, k->step_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->c, k->narrow_to, k->M, k->N, k->ldc, k->batch, k->step_to);
    return status;
}

static cublasStatus_t set_attribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what,
                                    const void *value, size_t size)
{
    return cublasLtMatmulDescSetAttribute(product, what, value, size);
}

static cublasStatus_t describe_product(struct plan *plan, const void *bias)
{
    const struct plan_key *k = &plan->key;
    const cublasOperation_t op_a = k->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = k->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan->product, k->computes, CUDA_R_32F);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_attribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_attribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    if (status == CUBLAS_STATUS_SUCCESS && k->has_bias)
        status = set_attribute(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (status == CUBLAS_STATUS_SUCCESS && k->has_bias)
        status = set_attribute(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    return status;
}

/* Sets the alignments and the workspace that the library may rely on; its default alignment is 256 bytes. */
static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, const struct plan_key *k, size_t workspace)
{
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const uint32_t *alignment;
    } alignments[] = { { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->b_alignment },
                       { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->a_alignment },
                       { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->c_alignment },
                       { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->c_alignment } };
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &workspace, sizeof workspace);

    for (const auto &a : alignments)
        if (status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmulPreferenceSetAttribute(preference, a.what, a.alignment, sizeof *a.alignment);
    return status;
}

/* Takes the first of the library's suggestions. Where it has none, it returns no result or NOT_SUPPORTED. */
static cublasStatus_t choose_algorithm(struct cuda_plans *plans, struct plan *plan)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_preference(preference, &plan->key, plans->workspace_bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(plans->handle, plan->product, plan->b, plan->a, plan->c, plan->c,
                                                preference, 1, &found, &count);
    plan->has_algorithm = status == CUBLAS_STATUS_SUCCESS && count && found.state == CUBLAS_STATUS_SUCCESS;
    if (plan->has_algorithm) {
        plan->algorithm = found.algo;
        plan->workspace = found.workspaceSize;
    }
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference); /* cannot fail */
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? CUBLAS_STATUS_SUCCESS : status;
}

/* Warns of the first product without an algorithm. */
static void warn_of_own(struct queue *queue, const struct plan_key *key)
{
    char *const text = queue->head.warning;

    if (!queue->warned)
        snprintf(text, sizeof queue->head.warning,
                 "cuBLASLt has no algorithm for a product (%zu, %zu) of %zu terms in %s: a slower kernel makes it",
                 key->M, key->N, key->K, key->narrow_factors ? "bf16" : "f32");
    queue->warned = 1;
}

static size_t hash_key(const struct plan_key *key)
{
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(key);
    uint64_t h = 0;

    for (size_t i = 0; i < sizeof *key; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return static_cast<size_t>(h ^ h >> 32);
}

/* The plan of a shape; NULL: the failure is noted. Where all places are taken, the first gives way. */
static const struct plan *plan_of(struct queue *queue, const struct plan_key *key, const void *bias)
{
    const size_t place = hash_key(key);
    struct plan *plan = &queue->plans->plans[place % PLANS];

    for (size_t i = 0; i < PLAN_PROBES; i++) {
        struct plan *at = &queue->plans->plans[(place + i) % PLANS];

        if (!memcmp(&at->key, key, sizeof *key))
            return at;
        if (!at->key.batch) {
            plan = at;
            break;
        }
    }
    plan_clear(plan);
    memcpy(&plan->key, key, sizeof *key); /* an assignment need not copy its padding */
    if (note_status(queue, make_layouts(plan)) && note_status(queue, describe_product(plan, bias)) &&
        note_status(queue, choose_algorithm(queue->plans, plan))) {
        if (!plan->has_algorithm)
            warn_of_own(queue, key);
        return plan;
    }
    plan_clear(plan);
    return NULL;
}

enum halay_status cuda_plans_create(struct queue *queue)
{
    int device = 0, major = 0;

    queue->plans = static_cast<struct cuda_plans *>(calloc(1, sizeof *queue->plans));
    if (!queue->plans)
        return HALAY_ERR_NO_MEMORY;
    cuda_note(queue, cudaGetDevice(&device));
    cuda_note(queue, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    queue->plans->workspace_bytes = major >= 9 ? workspace_hopper : workspace_before;
    cuda_note(queue, cudaMalloc(&queue->plans->workspace, queue->plans->workspace_bytes));
    note_status(queue, cublasLtCreate(&queue->plans->handle));
    return queue->failure ? HALAY_ERR_SYSTEM : HALAY_OK;
}

void cuda_plans_destroy(struct queue *queue)
{
    if (!queue->plans)
        return;
    for (size_t i = 0; i < PLANS; i++)
        plan_clear(&queue->plans->plans[i]);
    if (queue->plans->handle)
        cublasLtDestroy(queue->plans->handle); /* this and the next cannot fail */
    cudaFree(queue->plans->workspace);
    free(queue->plans);
}

/* ---- products ---- */

namespace product_kernels
{

/* A product without the library; its factors' element is T. */
template <class T> struct own_product {
    struct product p;

    __device__ void operator()(size_t i) const
    {
        const size_t n = i % p.N, m = i / p.N % p.M, item = i / p.N / p.M;
        const size_t a_step = p.a.transposed ? p.a.ld : 1, b_step = p.b.transposed ? 1 : p.b.ld;
        const view<T> a(p.a.data + item * p.step_a + m * (p.a.transposed ? 1 : p.a.ld));
        const view<T> b(p.b.data + item * p.step_b + n * (p.b.transposed ? p.b.ld : 1));
        float *const to = p.to.data + item * p.step_to + m * p.to.ld + n;
        float sum = 0;

        for (size_t k = 0; k < p.K; k++)
            sum += a.get(k * a_step) * b.get(k * b_step);
        sum += p.to.add ? load_any<1>(to).v[0] : 0;
        sum += p.bias ? load_any<1>(p.bias + n).v[0] : 0;
        store_any<1>({ { sum } }, to);
    }
};

} // namespace product_kernels

using namespace product_kernels;

/* Returns the alignment of a matrix's first element, and of those that its batch's steps lead to. */
static uint32_t alignment_of(const real *data, size_t step)
{
    const uintptr_t bits = reinterpret_cast<uintptr_t>(tft_place_of(data)) | step * tft_bytes_of(data);
    uint32_t alignment = static_cast<uint32_t>(tft_bytes_of(data));

    while (alignment < 256 && bits % (2 * alignment) == 0)
        alignment *= 2;
    return alignment;
}

static struct plan_key key_of(const struct queue *queue, const struct product *p)
{
    const size_t batch = p->batch ? p->batch : 1;
    struct plan_key key;

    memset(&key, 0, sizeof key);
    key.M = p->M;
    key.N = p->N;
    key.K = p->K;
    key.lda = p->a.ld;
    key.ldb = p->b.ld;
    key.ldc = p->to.ld;
    key.batch = batch;
    key.step_a = batch > 1 ? p->step_a : 0;
    key.step_b = batch > 1 ? p->step_b : 0;
    key.step_to = batch > 1 ? p->step_to : 0;
    key.a_transposed = p->a.transposed;
    key.b_transposed = p->b.transposed;
    key.has_bias = p->bias != NULL;
    key.narrow_factors = tft_is_narrow(p->a.data);
    key.narrow_to = tft_is_narrow(p->to.data);
    key.a_alignment = alignment_of(p->a.data, key.step_a);
    key.b_alignment = alignment_of(p->b.data, key.step_b);
    key.c_alignment = alignment_of(p->to.data, key.step_to);
    key.bias_alignment = p->bias ? alignment_of(p->bias, 0) : 0;
    key.computes = CUBLAS_COMPUTE_32F;
    if (!key.narrow_factors && !p->exact && p->M > EXACT_ROWS && p->K > EXACT_ROWS)
        key.computes = queue->needs.bf16   ? CUBLAS_COMPUTE_32F_FAST_16BF
                       : queue->needs.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                           : CUBLAS_COMPUTE_32F;
    return key;
}

static bool is_among(const real *x, size_t n, const real *block, size_t block_n)
{
    return block && x >= block && x + n <= block + block_n;
}

/* Returns the narrow copy of n reals: that of a parameter or a folded weight, or one that is made in `others` from
 * *used on. What is narrow is its own. NULL: it does not fit, which is noted. */
static const real *narrow_of_reals(struct queue *queue, const real *x, size_t n, size_t *used)
{
    const struct queue_needs *needs = &queue->needs;

    if (!x || tft_is_narrow(x))
        return x;
    if (queue->params && is_among(x, n, queue->params + needs->inputs, needs->params - needs->inputs))
        return queue->rounded + (x - queue->params - needs->inputs);
    if (is_among(x, n, queue->folded, needs->folded)) {
        if (!queue->has_folded)
            cuda_copy(queue, queue->folded, needs->folded, queue->rounded_folded);
        queue->has_folded = 1;
        return queue->rounded_folded + (x - queue->folded);
    }
    if (*used + n > needs->others) {
        cuda_note(queue, cudaErrorInvalidValue);
        return NULL;
    }
    real *const to = queue->others + *used;
    *used += (n + TFT_ALIGNMENT - 1) / TFT_ALIGNMENT * TFT_ALIGNMENT;
    cuda_copy(queue, x, n, to);
    return to;
}

/* The numbers that a batch's matrices op(M), (rows, columns), span. */
static size_t span_of(struct matrix m, size_t rows, size_t columns, size_t batch, size_t step)
{
    return (batch > 1 ? batch - 1 : 0) * step + (m.transposed ? columns - 1 : rows - 1) * m.ld +
           (m.transposed ? rows : columns);
}

/* The product with narrow factors where one of its arrays is. */
static struct product narrow_product(struct queue *queue, const struct product *p)
{
    struct product own = *p;
    size_t used = 0;

    if (!tft_is_narrow(p->a.data) && !tft_is_narrow(p->b.data) && !tft_is_narrow(p->to.data))
        return own;
    own.a.data = narrow_of_reals(queue, p->a.data, span_of(p->a, p->M, p->K, p->batch, p->step_a), &used);
    own.b.data = narrow_of_reals(queue, p->b.data, span_of(p->b, p->K, p->N, p->batch, p->step_b), &used);
    if (tft_is_narrow(p->to.data))
        own.bias = narrow_of_reals(queue, p->bias, p->N, &used);
    return own;
}

static void own_run(struct queue *queue, const struct product *p)
{
    with_element(p->a.data, [&](auto element) {
        run_each(queue, own_product<decltype(element)>{ *p }, (p->batch ? p->batch : 1) * p->M * p->N);
    });
}

void cuda_product(struct queue *queue, const struct product *product)
{
    const float one = 1, kept = product->to.add ? 1 : 0;

    if (!product->K) {
        own_run(queue, product);
        return;
    }
    const struct product p = narrow_product(queue, product);
    if (!p.a.data || !p.b.data || !p.bias != !product->bias)
        return;
    const struct plan_key key = key_of(queue, &p);
    const void *const bias = tft_place_of(p.bias);
    const struct plan *plan = plan_of(queue, &key, bias);
    if (plan && !plan->has_algorithm) {
        own_run(queue, &p);
        return;
    }
    if (!plan || (bias && !note_status(queue, set_attribute(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                            sizeof bias))))
        return;
    void *const to = tft_place_of(p.to.data);
    note_status(queue, cublasLtMatmul(queue->plans->handle, plan->product, &one, tft_place_of(p.b.data), plan->b,
                                      tft_place_of(p.a.data), plan->a, &kept, to, plan->c, to, plan->c,
                                      &plan->algorithm, queue->plans->workspace, plan->workspace, queue->stream));
}

void cuda_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                   struct target to)
{
    struct product p = {};

    p.a = a;
    p.b = b;
    p.M = M;
    p.N = N;
    p.K = K;
    p.to = to;
    cuda_product(queue, &p);
}
