/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for cuBLASLt: the products that halay makes, and no other. Matrices are column-major,
 *
 *   D (m, n) = op(A) (m, k) op(B) (k, n) + {0, 1} D [+ bias (m), added to each column]
 *
 * A and B both f32 (rounded first where the computation allows that, to bf16 or tf32, unless EMU_ROUNDS is 0), or both
 * bf16 and D f32 or bf16 with a bias of D's type; sums in f32, batches by strides; an algorithm from the heuristic,
 * for the same shapes; memory as aligned as the preference said, 256 bytes unless it said less. Anything else is
 * refused as a finding. The workspace is written, so that two streams that share one are a race.
 */
#include "../include/cublasLt.h"
#include "../include/cuda_bf16.h"
#include "emu.hh"
#include <algorithm>
#include <cstring>

struct cublasLtContext {
};
struct emu_matmul {
    int transposed[2] = {};
    int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    cublasComputeType_t computes = CUBLAS_COMPUTE_32F;
};
struct emu_layout {
    int type;
    uint64_t rows, columns;
    int64_t ld;
    int32_t batch = 1;
    int64_t stride = 0;
};
struct emu_preference {
    uint64_t workspace = 0;
    uint32_t alignment[4] = { 256, 256, 256, 256 };
};

namespace emu
{
struct chosen { // what an algorithm is good for
    uint64_t shapes, workspace;
    uint32_t alignment[4], bias_alignment;
};
static_assert(sizeof(chosen) <= sizeof(cublasLtMatmulAlgo_t));

static uint64_t shapes_of(const emu_matmul &m, const emu_layout *const l[4])
{
    uint64_t h = (uint64_t)(m.transposed[0] + 2 * m.transposed[1] + 4 * m.epilogue + 64 * m.computes);

    for (int i = 0; i < 4; i++)
        for (uint64_t v :
             { (uint64_t)l[i]->type, l[i]->rows, l[i]->columns, (uint64_t)l[i]->ld, (uint64_t)l[i]->batch })
            h = (h ^ v) * 0x9e3779b97f4a7c15ull + (h >> 29);
    return h;
}

/* Why the product is none of ours; NULL: it is. */
static const char *fault_of(const emu_matmul &m, const emu_layout *const l[4])
{
    const emu_layout &a = *l[0], &b = *l[1], &d = *l[3];
    uint64_t k = m.transposed[0] ? a.rows : a.columns;

    if (a.type != b.type || (a.type == CUDA_R_32F && d.type != CUDA_R_32F) || memcmp(l[2], l[3], sizeof d))
        return "types are not f32 or bf16 for both factors and f32 or theirs for the sum, or C is not D";
    if (a.type != CUDA_R_32F && m.computes != CUBLAS_COMPUTE_32F)
        return "factors of bf16 whose computation is not that of f32 sums";
    if ((m.transposed[0] ? a.columns : a.rows) != d.rows || (m.transposed[1] ? b.rows : b.columns) != d.columns ||
        (m.transposed[1] ? b.columns : b.rows) != k)
        return "shapes do not fit";
    for (int i = 0; i < 4; i++)
        if ((uint64_t)l[i]->ld < l[i]->rows || l[i]->batch != d.batch || l[i]->batch < 1 || !l[i]->rows ||
            !l[i]->columns)
            return "a leading dimension is too small, a matrix is empty, or batches differ";
    if (d.batch > 1 && (uint64_t)d.stride < (uint64_t)d.ld * (d.columns - 1) + d.rows)
        return "products of a batch overlap";
    if ((m.epilogue == CUBLASLT_EPILOGUE_BIAS) != (m.bias != nullptr))
        return "a bias without its epilogue, or the reverse";
    return nullptr;
}

static float at(const void *matrix, const emu_layout &l, int32_t batch, uint64_t row, uint64_t column, int transposed)
{
    if (transposed)
        std::swap(row, column);
    int64_t i = batch * l.stride + (int64_t)column * l.ld + (int64_t)row;
    return l.type == CUDA_R_32F ? ((const float *)matrix)[i] : __bfloat162float(((const __nv_bfloat16 *)matrix)[i]);
}

static void put(void *matrix, const emu_layout &l, int64_t i, float value)
{
    if (l.type == CUDA_R_32F)
        ((float *)matrix)[i] = value;
    else
        ((__nv_bfloat16 *)matrix)[i] = __float2bfloat16(value);
}

/* A factor as the computation takes it, which may round but need not; tf32 has 10 bits of fraction, to nearest with
 * ties away from zero. */
static float rounded(float x, cublasComputeType_t computes)
{
    if (computes == CUBLAS_COMPUTE_32F || !setting().rounds)
        return x;
    if (computes == CUBLAS_COMPUTE_32F_FAST_16BF)
        return __bfloat162float(__float2bfloat16(x));
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu);
}

static size_t item_of(const emu_layout &l)
{
    return l.type == CUDA_R_32F ? 4 : 2;
}

static void check_matrix(accessor &by, const void *matrix, const emu_layout &l, int how, const char *what)
{
    size_t item = item_of(l);

    for (int32_t batch = 0; batch < l.batch; batch++)
        for (uint64_t column = 0; column < l.columns; column++)
            check_range(by, (const char *)matrix + (size_t)(batch * l.stride + (int64_t)column * l.ld) * item,
                        l.rows * item, how, what);
}

struct product {
    emu_matmul m;
    emu_layout a, b, d;
    const void *A, *B;
    void *D;
    float beta;
    char *workspace;
    size_t workspace_bytes;
};

static outcome multiply(const product &p, operation &o)
{
    accessor by;
    uint64_t K = p.m.transposed[0] ? p.a.rows : p.a.columns;

    by.operation = o.number, by.agent = new_agent(o.number, 0, 0), by.device = o.device, by.knows = o.start;
    check_matrix(by, p.A, p.a, READ, "factor A of a product");
    check_matrix(by, p.B, p.b, READ, "factor B of a product");
    if (p.m.bias)
        check_range(by, p.m.bias, p.d.rows * item_of(p.d), READ, "the bias of a product");
    check_matrix(by, p.D, p.d, WRITE, "a product");
    if (p.workspace_bytes) {
        check_range(by, p.workspace, p.workspace_bytes, WRITE, "the workspace of a product");
        memset(p.workspace, 0xff, p.workspace_bytes);
    }
    for (int32_t batch = 0; batch < p.d.batch; batch++)
        for (uint64_t n = 0; n < p.d.columns; n++)
            for (uint64_t m = 0; m < p.d.rows; m++) {
                float sum = 0;
                for (uint64_t k = 0; k < K; k++) {
                    float a = at(p.A, p.a, batch, m, k, p.m.transposed[0]);
                    float b = at(p.B, p.b, batch, k, n, p.m.transposed[1]);
                    sum += rounded(a, p.m.computes) * rounded(b, p.m.computes);
                }
                sum += p.beta != 0 ? at(p.D, p.d, batch, m, n, 0) : 0;
                sum += p.m.bias ? at(p.m.bias, p.d, 0, m, 0, 0) : 0;
                put(p.D, p.d, batch * p.d.stride + (int64_t)n * p.d.ld + (int64_t)m, sum);
            }
    return DONE;
}

template <class T> static bool take(T &to, const void *value, size_t bytes)
{
    if (bytes == sizeof to)
        memcpy(&to, value, sizeof to);
    else
        found("cublas", "an attribute of %zu bytes, not %zu", bytes, sizeof to);
    return true;
}

static cublasStatus_t refuse(const char *what, long value)
{
    found("cublas", "%s %ld: no product of halay's has that", what, value);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
} // namespace emu

using namespace emu;

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "a product was refused";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    call call("cublasLtCreate");
    if (call.refused)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType scale)
{
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_16BF &&
         compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        scale != CUDA_R_32F)
        return refuse("a computation of type", compute);
    *desc = new emu_matmul;
    (*desc)->computes = compute;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
        take(desc->transposed[attribute - CUBLASLT_MATMUL_DESC_TRANSA], value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        take(desc->epilogue, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        take(desc->bias, value, bytes);
        break;
    default:
        return refuse("attribute of a product", attribute);
    }
    if (desc->transposed[0] > 1 || desc->transposed[1] > 1)
        return refuse("a transposition", attribute);
    if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && desc->epilogue != CUBLASLT_EPILOGUE_BIAS)
        return refuse("epilogue", desc->epilogue);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    if (type != CUDA_R_32F && type != CUDA_R_16BF)
        return refuse("a matrix of type", type);
    *layout = new emu_layout{ type, rows, columns, ld };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        take(layout->batch, value, bytes);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        take(layout->stride, value, bytes);
    else
        return refuse("attribute of a matrix", attribute);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new emu_preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    int matrix = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;

    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        take(preference->workspace, value, bytes);
    else if (matrix >= 0 && matrix < 4)
        take(preference->alignment[matrix], value, bytes);
    else
        return refuse("attribute of a preference", attribute);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

/* The heuristic sees the bias, if there is one, and may choose by where it is. */
static uint32_t bias_alignment(const emu_matmul &m)
{
    size_t alignment = (size_t)m.bias & -(size_t)m.bias;

    return (uint32_t)std::min<size_t>(alignment, 256);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    call call("cublasLtMatmulAlgoGetHeuristic");
    const emu_layout *l[4] = { a, b, c, d };
    const char *fault = fault_of(*desc, l);

    *count = 0;
    if (fault)
        found("cublas", "%s", fault);
    if (fault || most < 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    emu::count("workspace_limits", preference->workspace);
    if (call.refused)
        return draw()() % 2 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < 4; i++) { // halay's own rule: the fastest kernels load 16 bytes at once
        const uint32_t alignment = preference->alignment[i], least = setting().alignment;

        if ((uint64_t)l[i]->ld * item_of(*l[i]) % least == 0 && alignment < least)
            found("cublas", "matrix %c of a product is aligned to %u bytes, not to %u", "ABCD"[i], alignment, least);
    }
    const uint64_t wanted = 4096; /* or what there may be */
    chosen what = { shapes_of(*desc, l), std::min(preference->workspace, wanted), {}, bias_alignment(*desc) };
    memcpy(what.alignment, preference->alignment, sizeof what.alignment);
    results[0] = {};
    memcpy(&results[0].algo, &what, sizeof what);
    results[0].workspaceSize = what.workspace;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* Whether memory and algorithm are as they must be for this product. */
static const char *fault_of_call(const product &p, const emu_layout *const l[4], const cublasLtMatmulAlgo_t *algo)
{
    chosen what;
    const void *const memory[4] = { p.A, p.B, p.D, p.D };

    if (!algo)
        return "no algorithm: which one runs would depend on the version of cuBLASLt";
    memcpy(&what, algo, sizeof what);
    if (what.shapes != shapes_of(p.m, l))
        return "an algorithm for other shapes";
    if (p.workspace_bytes < what.workspace || (size_t)p.workspace % 256)
        return "a workspace that is smaller than its algorithm was promised, or not aligned to 256 bytes";
    for (int i = 0; i < 4; i++)
        if (!memory[i] || (size_t)memory[i] % what.alignment[i])
            return "a matrix that is aligned less than the preference said";
    if (what.bias_alignment && (size_t)p.m.bias % what.bias_alignment)
        return "a bias that is aligned less than the one that the heuristic saw";
    return nullptr;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    call call("cublasLtMatmul");
    const emu_layout *l[4] = { a_layout, b_layout, c_layout, d_layout };
    product p = { *desc,          *a_layout, *b_layout, *d_layout, a, b, d, *(const float *)beta, (char *)workspace,
                  workspace_bytes };
    const char *fault = fault_of(*desc, l);
    if (call.refused)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!fault && (*(const float *)alpha != 1 || (p.beta != 0 && p.beta != 1) || c != d))
        fault = "alpha is not 1, beta neither 0 nor 1, or C is not D";
    if (!fault)
        fault = fault_of_call(p, l, algo);
    if (fault)
        found("cublas", "%s", fault);
    if (desc->computes != CUBLAS_COMPUTE_32F)
        count("products_that_may_round", 1);
    operation work;
    work.name = "a product";
    work.step = [p](operation &o) { return multiply(p, o); };
    enqueue(call.l, stream, std::move(work));
    return fault ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
