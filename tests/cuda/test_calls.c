/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated calls answer as CUDA's do, also where they fail: which error, and that it stays or goes. And products by
 * the stand-in for cuBLASLt are right.
 */
#include "emu.h"
#include "proof.h"
#include "tests/test.h"
#include <cublasLt.h>
#include <cuda.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIVES(error, call) CHECK((call) == (error), "%s", cudaGetErrorName(cudaPeekAtLastError()))
#define GOOD(call) GIVES(cudaSuccess, call)

/* In a process of its own: what fails there fails for good. */
static void apart(void (*test)(int), int code)
{
    int status;
    pid_t child = fork();

    REQUIRE(child >= 0);
    if (!child) {
        test(code);
        _exit(test_failed != 0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0, "%d: %d", code, status);
}

static void no_driver(int code)
{
    int count = 7;

    emu_fail("init", 0, code);
    GIVES((cudaError_t)code, cudaGetDeviceCount(&count));
    CHECK(count == 0);
    GIVES((cudaError_t)code, cudaSetDevice(0));
}

/* The kernel fails, not its launch: the next call that waits says so, and so does every other. */
static void kernel_fails(int code)
{
    cudaStream_t s;
    void *p;

    GOOD(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    GOOD(cudaMalloc(&p, 4));
    emu_fail("kernel", 2, code);
    GOOD(proof_launch(1, 32, 0, 0, p, s));
    GOOD(cudaStreamSynchronize(s));
    GOOD(proof_launch(1, 32, 0, 0, p, s));
    GIVES((cudaError_t)code, cudaStreamSynchronize(s));
    GIVES((cudaError_t)code, cudaGetLastError());
    GIVES((cudaError_t)code, cudaMalloc(&p, 4));
    GIVES((cudaError_t)code, cudaGetLastError());
}

static void no_peers(int code)
{
    int can = 1;

    REQUIRE(!setenv("EMU_PEERS", "0", 1));
    GOOD(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK(!can);
    GIVES((cudaError_t)code, cudaDeviceEnablePeerAccess(1, 0));
}

static void test_devices(void)
{
    int value = 0, can = 0;

    GIVES(cudaErrorInvalidDevice, cudaSetDevice(2));
    GIVES(cudaErrorInvalidDevice, cudaGetLastError());
    GOOD(cudaGetLastError());
    GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1));
    CHECK(value == 1);
    GOOD(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can);
    GOOD(cudaDeviceEnablePeerAccess(1, 0));
    GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    GOOD(cudaDeviceDisablePeerAccess(1));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
}

static void test_memory(void)
{
    struct cudaPointerAttributes is;
    size_t left, all, before;
    void *p, *q;

    GOOD(cudaMemGetInfo(&before, &all));
    CHECK(all == 1 << 20);
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, all + 1));
    emu_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    GOOD(cudaMalloc(&p, 1000));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&q, 1000));
    GOOD(cudaMalloc(&q, 1000));
    CHECK((size_t)p % 256 == 0 && (size_t)q % 256 == 0);
    GOOD(cudaMemGetInfo(&left, &all));
    CHECK(left <= before - 2000);
    GOOD(cudaPointerGetAttributes(&is, (char *)p + 999));
    CHECK(is.type == cudaMemoryTypeDevice && is.device == 0 && !is.hostPointer);
    GOOD(cudaFree(p));
    GOOD(cudaFree(q));
    GOOD(cudaMemGetInfo(&left, &all));
    CHECK(left == before);
    GOOD(cudaPointerGetAttributes(&is, &left));
    CHECK(is.type == cudaMemoryTypeUnregistered);
}

static void test_pinned(void)
{
    static char some[8192] __attribute__((aligned(4096)));
    struct cudaPointerAttributes is;
    void *p;

    GOOD(cudaHostRegister(some, sizeof some, cudaHostRegisterMapped));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(some + 4096, 4096, cudaHostRegisterMapped));
    GOOD(cudaPointerGetAttributes(&is, some + 5));
    CHECK(is.type == cudaMemoryTypeHost && is.hostPointer == some + 5);
    GOOD(cudaHostGetDevicePointer(&p, some, 0));
    GOOD(cudaHostUnregister(some));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(some));
}

static void test_launches(cudaStream_t s)
{
    int blocks = 0;
    void *x;

    GOOD(cudaMalloc(&x, 4));
    GIVES(cudaErrorInvalidConfiguration, proof_launch(1, 1025, 0, 0, x, s));
    GIVES(cudaErrorInvalidConfiguration, proof_launch(0, 1, 0, 0, x, s));
    GIVES(cudaErrorInvalidValue, proof_launch(1, 1, (48 << 10) + 1, 0, x, s));
    GIVES(cudaErrorInvalidValue, proof_allow((227 << 10) + 1));
    GOOD(proof_allow(100 << 10));
    GOOD(proof_launch(1, 1, 100 << 10, 0, x, s));
    GOOD(proof_occupancy(1024, 0, &blocks));
    CHECK(blocks == 2);
    GOOD(proof_launch(2, 1024, 0, 1, x, s));
    GIVES(cudaErrorCooperativeLaunchTooLarge, proof_launch(3, 1024, 0, 1, x, s));
    GOOD(cudaSetDevice(1));
    GIVES(cudaErrorInvalidResourceHandle, proof_launch(1, 1, 0, 0, x, s));
    GOOD(cudaSetDevice(0));
    GOOD(cudaStreamSynchronize(s));
    GOOD(cudaFree(x));
}

static void test_events(cudaStream_t s)
{
    cudaEvent_t timed, plain, e;
    float ms = -1;

    GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(&e, cudaEventInterprocess));
    GOOD(cudaEventCreateWithFlags(&timed, cudaEventDefault));
    GOOD(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    GOOD(cudaEventQuery(plain)); /* as CUDA has it, where nothing was recorded */
    GOOD(cudaEventRecord(timed, s));
    GOOD(cudaEventRecord(plain, s));
    GOOD(cudaEventSynchronize(plain));
    GOOD(cudaEventElapsedTime(&ms, timed, timed));
    CHECK(ms == 0);
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, timed, plain));
    GOOD(cudaEventDestroy(timed));
    GOOD(cudaEventDestroy(plain));
}

static void test_captures(cudaStream_t s)
{
    cudaStream_t other;
    cudaEvent_t fork;
    cudaGraph_t g = NULL;

    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(s, &g));
    /* A stream that waits is not joined again. */
    GOOD(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaEventRecord(fork, s));
    GOOD(cudaStreamWaitEvent(other, fork, 0));
    GOOD(cudaLaunchHostFunc(other, (cudaHostFn_t)(void (*)(void))abort, NULL));
    GIVES(cudaErrorCapturedEvent, cudaEventSynchronize(fork));
    GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(s, &g));
    /* What waits spoils a capture. */
    GOOD(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(s));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &g));
    GOOD(cudaStreamDestroy(other));
}

static CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
static CUresult (*write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

static void test_values(cudaStream_t s)
{
    enum cudaDriverEntryPointQueryResult result;
    cudaStream_t other;
    void *word;

    GOOD(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 13000, 0, &result));
    GOOD(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", (void **)&write_value, 13000, 0, &result));
    REQUIRE(wait_value && write_value && result == cudaDriverEntryPointSuccess);
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaMalloc(&word, 4));
    GOOD(cudaMemsetAsync(word, 0, 4, s));
    GOOD(cudaStreamSynchronize(s));
    CHECK(!wait_value(s, (CUdeviceptr)(uintptr_t)word, 5, CU_STREAM_WAIT_VALUE_GEQ));
    GIVES(cudaErrorNotReady, cudaStreamQuery(s));
    CHECK(!write_value(other, (CUdeviceptr)(uintptr_t)word, 6, CU_STREAM_WRITE_VALUE_DEFAULT));
    GOOD(cudaStreamSynchronize(s));
    CHECK(wait_value(s, (CUdeviceptr)(uintptr_t)&word, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_ERROR_INVALID_VALUE);
    GOOD(cudaStreamDestroy(other));
}

static void up(cudaStream_t s, void *to, const void *from, size_t bytes)
{
    GOOD(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s));
}

static cublasLtMatrixLayout_t layout(uint64_t rows, uint64_t columns, int32_t batch)
{
    cublasLtMatrixLayout_t l = NULL;
    int64_t stride = (int64_t)(rows * columns);

    CHECK(!cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, rows, columns, (int64_t)rows));
    CHECK(!cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    CHECK(!cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return l;
}

/* D (m, n) = A^T B + bias, for two of a batch: A (k, m), B (k, n), column-major. */
static void test_products(cudaStream_t s)
{
    enum { M = 5, N = 3, K = 4, BATCH = 2, A = 0, B = 64, BIAS = 128, D = 192, ALL = 256 };
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasLtMatrixLayout_t a = layout(K, M, BATCH), b = layout(K, N, BATCH), d = layout(M, N, BATCH);
    cublasLtMatmulHeuristicResult_t chosen;
    cublasLtMatmulPreference_t preference;
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtMatmulDesc_t desc;
    cublasLtHandle_t handle;
    float *h, *x, one = 1, zero = 0;
    int count = 0;

    GOOD(cudaHostAlloc((void **)&h, ALL * sizeof *h, 0));
    GOOD(cudaMalloc((void **)&x, ALL * sizeof *x));
    for (int i = 0; i < ALL; i++)
        h[i] = (float)(i % 11 - 4);
    up(s, x, h, ALL * sizeof *x);
    CHECK(!cublasLtCreate(&handle) && !cublasLtMatmulPreferenceCreate(&preference));
    CHECK(!cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(!cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    CHECK(!cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    float *bias = x + BIAS;
    CHECK(!cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    CHECK(!cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1, &chosen, &count) && count == 1);
    CHECK(!cublasLtMatmul(handle, desc, &one, x + A, a, x + B, b, &zero, x + D, d, x + D, d, &chosen.algo, NULL, 0, s));
    GOOD(cudaMemcpyAsync(h + D, x + D, BATCH * M * N * sizeof *h, cudaMemcpyDeviceToHost, s));
    GOOD(cudaStreamSynchronize(s));
    for (int i = 0; i < BATCH * M * N; i++) {
        int m = i % M, n = i / M % N, batch = i / M / N;
        float want = h[BIAS + m];
        for (int k = 0; k < K; k++)
            want += h[A + (batch * M + m) * K + k] * h[B + (batch * N + n) * K + k];
        CHECK(h[D + i] == want, "[%d] %g, not %g", i, h[D + i], want);
    }
    CHECK(!cublasLtMatmulDescDestroy(desc) && !cublasLtMatmulPreferenceDestroy(preference));
    CHECK(!cublasLtMatrixLayoutDestroy(a) && !cublasLtMatrixLayoutDestroy(b) && !cublasLtMatrixLayoutDestroy(d));
    CHECK(!cublasLtDestroy(handle));
}

int main(void)
{
    cudaStream_t s = NULL;

    REQUIRE(!setenv("EMU_DEVICES", "2", 1) && !setenv("EMU_MULTIPROCESSORS", "1", 1));
    REQUIRE(!setenv("EMU_MEMORY", "1048576", 1));
    apart(no_driver, cudaErrorInsufficientDriver);
    apart(no_driver, cudaErrorNoDevice);
    apart(no_driver, cudaErrorNotPermitted);
    apart(kernel_fails, cudaErrorIllegalAddress);
    apart(no_peers, cudaErrorPeerAccessUnsupported);
    GOOD(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    test_devices();
    test_memory();
    test_pinned();
    test_launches(s);
    test_events(s);
    test_captures(s);
    test_values(s);
    test_products(s);
    return test_end();
}
