/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulation runs correct programs correctly, in each order and from several seeds: proof.cu, in one process with
 * several devices, in several processes, and as a graph.
 */
#include "emu.h"
#include "proof.h"
#include "tests/test.h"
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOOD(call) CHECK((call) == cudaSuccess, "%s", cudaGetErrorName(cudaPeekAtLastError()))

static void *device(size_t bytes)
{
    void *p = NULL;

    GOOD(cudaMalloc(&p, bytes));
    return p;
}

static void *pinned(size_t bytes)
{
    void *p = NULL;

    GOOD(cudaHostAlloc(&p, bytes, cudaHostAllocMapped));
    return p;
}

static cudaStream_t stream(void)
{
    cudaStream_t s = NULL;

    GOOD(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t event(void)
{
    cudaEvent_t e = NULL;

    GOOD(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static void up(void *to, const void *from, size_t bytes, cudaStream_t s)
{
    GOOD(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s));
}

static void down(void *to, const void *from, size_t bytes, cudaStream_t s)
{
    GOOD(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s));
}

/* Two streams, an event between; the second time as a graph, which is launched twice. */
static void test_add(int as_graph)
{
    enum { N = 1000 };
    float *a = pinned(2 * N * sizeof *a), *c = pinned(N * sizeof *c), *d = device(3 * N * sizeof *d);
    cudaStream_t first = stream(), second = stream();
    cudaEvent_t fork = event(), join = event();
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    for (int i = 0; i < 2 * N; i++)
        a[i] = (float)i;
    if (as_graph)
        GOOD(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaEventRecord(fork, first));
    GOOD(cudaStreamWaitEvent(second, fork, 0));
    up(d, a, N * sizeof *d, first);
    up(d + N, a + N, N * sizeof *d, second);
    GOOD(cudaEventRecord(join, second));
    GOOD(cudaStreamWaitEvent(first, join, 0));
    GOOD(proof_add(d, d + N, d + 2 * N, N, first));
    down(c, d + 2 * N, N * sizeof *c, first);
    if (as_graph) {
        GOOD(cudaStreamEndCapture(first, &graph));
        GOOD(cudaGraphInstantiate(&exec, graph, 0));
        GOOD(cudaGraphDestroy(graph));
        GOOD(cudaGraphLaunch(exec, first));
        GOOD(cudaGraphLaunch(exec, first));
    }
    GOOD(cudaStreamSynchronize(first));
    if (as_graph)
        GOOD(cudaGraphExecDestroy(exec));
    for (int i = 0; i < N; i++)
        if (!CHECK(c[i] == (float)(2 * i + N), "[%d] %g", i, c[i]))
            break;
    GOOD(cudaFree(d));
    GOOD(cudaFreeHost(a));
    GOOD(cudaStreamDestroy(first));
}

static void test_sums(void)
{
    enum { N = 700, BLOCKS = 4 };
    float *h = pinned((N + 2) * sizeof *h), *d = device(N * sizeof *d), *parts = device(BLOCKS * sizeof *parts),
          most = 0;
    float *sum;
    unsigned *count = device(sizeof *count);
    cudaStream_t s = stream();
    double want = 0;

    GOOD(cudaMallocAsync((void **)&sum, sizeof *sum, s));
    for (int i = 0; i < N; i++) {
        h[i] = (float)(i % 17 - 5);
        want += h[i];
        most = fmaxf(most, fabsf(h[i]));
    }
    up(d, h, N * sizeof *d, s);
    GOOD(cudaMemsetAsync(count, 0, sizeof *count, s));
    GOOD(proof_sum(d, N, parts, count, sum, s));
    down(h + N, sum, sizeof *h, s);
    GOOD(cudaFreeAsync(sum, s));
    GOOD(proof_scale(d, N, parts, s));
    GOOD(cudaStreamSynchronize(s));
    CHECK(h[N] == (float)want, "%g, not %g", h[N], want);
    down(h + N, d + 16, sizeof *h, s);
    while (cudaStreamQuery(s) == cudaErrorNotReady) {
    }
    CHECK(h[N] == h[16] / most, "%g", h[N]);
}

static void test_transpose(void)
{
    enum { R = 19, W = 35 };
    uint16_t *h = pinned(2 * R * W * sizeof *h), *d = device(2 * R * W * sizeof *d);
    cudaStream_t s = stream();

    for (int i = 0; i < R * W; i++)
        h[i] = (uint16_t)i;
    up(d, h, R * W * sizeof *h, s);
    GOOD(proof_transpose(d, R, W, d + R * W, s));
    down(h + R * W, d + R * W, R * W * sizeof *h, s);
    GOOD(cudaDeviceSynchronize());
    for (int i = 0; i < R * W; i++)
        if (!CHECK(h[R * W + i % W * R + i / W] == i))
            break;
}

/* What each lane of a product on the tensor cores holds. */
static void test_multiply(void)
{
    enum { M = 16, N = 8, K = 16, ALL = M * K + K * N + M * N };
    float *h = pinned(2 * ALL * sizeof *h), *a = h, *b = a + M * K, *d = b + K * N, *there = device(ALL * sizeof *h);
    cudaStream_t s = stream();

    for (int i = 0; i < ALL; i++)
        h[i] = (float)(i * i % 17 - 8);
    up(there, h, ALL * sizeof *h, s);
    GOOD(proof_multiply(there, there + M * K, there + M * K + K * N, s));
    down(h + ALL, there + M * K + K * N, M * N * sizeof *h, s);
    GOOD(cudaDeviceSynchronize());
    for (int i = 0; i < M * N; i++) {
        for (int k = 0; k < K; k++)
            d[i] += a[i / N * K + k] * b[k * N + i % N];
        CHECK(h[ALL + i] == d[i], "element %d: %g, not %g", i, (double)h[ALL + i], (double)d[i]);
    }
}

/* Ranks as devices of one process: kernels of all are under way together. */
static void test_devices(void)
{
    enum { N = 300, RANKS = 2 };
    struct proof_ranks p = { .size = RANKS, .abort = pinned(sizeof *p.abort) };
    float *h = pinned(2 * RANKS * N * sizeof *h), *in[RANKS], *out[RANKS];
    cudaStream_t s[RANKS];

    *p.abort = 0;
    for (int r = 0; r < RANKS; r++) {
        GOOD(cudaSetDevice(r));
        GOOD(cudaDeviceEnablePeerAccess(!r, 0));
        s[r] = stream();
        in[r] = device(N * sizeof *in[r]);
        out[r] = device(N * sizeof *out[r]);
        p.data[r] = in[r];
        p.words[r] = device(PROOF_BLOCKS * PROOF_RANKS * sizeof *p.words[r]);
        GOOD(cudaMemsetAsync(p.words[r], 0, PROOF_BLOCKS * PROOF_RANKS * sizeof *p.words[r], s[r]));
        GOOD(cudaStreamSynchronize(s[r]));
    }
    for (uint32_t turn = 1; turn <= 3; turn++) {
        for (int r = 0; r < RANKS; r++) {
            GOOD(cudaSetDevice(r));
            p.rank = r;
            for (int i = 0; i < N; i++)
                h[r * N + i] = (float)((uint32_t)(r * 1000 + i) + turn);
            up(in[r], h + r * N, N * sizeof *h, s[r]);
            GOOD(proof_all_reduce(&p, out[r], N, turn, s[r]));
            down(h + (RANKS + r) * N, out[r], N * sizeof *h, s[r]);
        }
        for (int r = 0; r < RANKS; r++) {
            GOOD(cudaStreamSynchronize(s[r]));
            for (int i = 0; i < N; i++)
                if (!CHECK(h[(RANKS + r) * N + i] == (float)(1000 + 2 * i + 2 * (int)turn)))
                    break;
        }
    }
    GOOD(cudaSetDevice(0));
}

/* What processes tell each other beside device memory. */
struct board {
    int ready[PROOF_RANKS];
    cudaIpcMemHandle_t data[PROOF_RANKS], words[PROOF_RANKS];
    cudaIpcEventHandle_t event[PROOF_RANKS];
};

static void wait_for_all(struct board *b, int ranks, int stage)
{
    for (int r = 0; r < ranks; r++)
        while (__atomic_load_n(&b->ready[r], __ATOMIC_ACQUIRE) < stage)
            usleep(100);
}

/* Opens the others' memory; returns the next rank's event. */
static cudaEvent_t exchange(struct board *b, struct proof_ranks *p, cudaEvent_t ours)
{
    cudaEvent_t theirs = NULL;

    GOOD(cudaIpcGetMemHandle(&b->data[p->rank], (void *)(uintptr_t)p->data[p->rank]));
    GOOD(cudaIpcGetMemHandle(&b->words[p->rank], p->words[p->rank]));
    GOOD(cudaIpcGetEventHandle(&b->event[p->rank], ours));
    __atomic_store_n(&b->ready[p->rank], 1, __ATOMIC_RELEASE);
    wait_for_all(b, p->size, 1);
    for (int r = 0; r < p->size; r++) {
        if (r == p->rank)
            continue;
        GOOD(cudaIpcOpenMemHandle((void **)&p->data[r], b->data[r], cudaIpcMemLazyEnablePeerAccess));
        GOOD(cudaIpcOpenMemHandle((void **)&p->words[r], b->words[r], cudaIpcMemLazyEnablePeerAccess));
    }
    GOOD(cudaIpcOpenEventHandle(&theirs, b->event[(p->rank + 1) % p->size]));
    return theirs;
}

static void one_process(struct board *b, int rank, int ranks)
{
    enum { N = 300 };
    struct proof_ranks p = { .rank = rank, .size = ranks, .abort = pinned(sizeof *p.abort) };
    float *h = pinned(2 * N * sizeof *h), *in = device(N * sizeof *in), *out = device(N * sizeof *out);
    cudaStream_t s = stream();
    cudaEvent_t ours = NULL, theirs;

    *p.abort = 0;
    p.data[rank] = in;
    p.words[rank] = device(PROOF_BLOCKS * PROOF_RANKS * sizeof *p.words[rank]);
    GOOD(cudaMemsetAsync(p.words[rank], 0, PROOF_BLOCKS * PROOF_RANKS * sizeof *p.words[rank], s));
    GOOD(cudaStreamSynchronize(s));
    GOOD(cudaEventCreateWithFlags(&ours, cudaEventDisableTiming | cudaEventInterprocess));
    theirs = exchange(b, &p, ours);
    for (uint32_t turn = 1; turn <= 3; turn++) {
        for (int i = 0; i < N; i++)
            h[i] = (float)((uint32_t)(rank * 1000 + i) + turn);
        up(in, h, N * sizeof *h, s);
        GOOD(proof_all_reduce(&p, out, N, turn, s));
        down(h + N, out, N * sizeof *h, s);
        GOOD(cudaStreamSynchronize(s));
        for (int i = 0; i < N; i++)
            if (!CHECK(h[N + i] == (float)(ranks * (ranks - 1) / 2 * 1000 + ranks * (i + (int)turn))))
                break;
    }
    GOOD(cudaEventRecord(ours, s));
    __atomic_store_n(&b->ready[rank], 2, __ATOMIC_RELEASE);
    wait_for_all(b, ranks, 2);
    GOOD(cudaStreamWaitEvent(s, theirs, 0));
    GOOD(cudaStreamSynchronize(s));
    for (int r = 0; r < ranks; r++)
        if (r != rank) {
            GOOD(cudaIpcCloseMemHandle((void *)(uintptr_t)p.data[r]));
            GOOD(cudaIpcCloseMemHandle(p.words[r]));
        }
    __atomic_store_n(&b->ready[rank], 3, __ATOMIC_RELEASE);
    wait_for_all(b, ranks, 3);
    GOOD(cudaFree(in));
}

/* Ranks as processes, here on one device. */
static void test_processes(void)
{
    enum { RANKS = 3 };
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[RANKS];
    int status;

    REQUIRE(b != MAP_FAILED);
    for (int r = 0; r < RANKS; r++)
        if (!(children[r] = fork())) {
            one_process(b, r, RANKS);
            _exit(test_failed != 0);
        }
    for (int r = 0; r < RANKS; r++) {
        REQUIRE(waitpid(children[r], &status, 0) == children[r]);
        CHECK(status == 0, "rank %d: %d", r, status);
    }
    REQUIRE(!munmap(b, sizeof *b));
}

/* A kernel that waits for a rank that never comes gives up when the host says so. */
static void test_abort(void)
{
    struct proof_ranks p = { .size = 2, .abort = pinned(sizeof *p.abort) };
    cudaStream_t s = stream();

    *p.abort = 0;
    for (int r = 0; r < 2; r++) {
        p.data[r] = device(4);
        p.words[r] = device(PROOF_BLOCKS * PROOF_RANKS * sizeof *p.words[r]);
        GOOD(cudaMemsetAsync(p.words[r], 0, PROOF_BLOCKS * PROOF_RANKS * sizeof *p.words[r], s));
    }
    GOOD(proof_all_reduce(&p, device(4), 1, 1, s));
    for (int i = 0; i < 20; i++)
        CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    __atomic_store_n(p.abort, 1, __ATOMIC_RELEASE);
    GOOD(cudaStreamSynchronize(s));
}

/* usage: test_proof [processes] */
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "processes")) {
        test_processes();
        return test_end();
    }
    test_add(0);
    test_add(1);
    test_sums();
    test_transpose();
    test_multiply();
    test_devices();
    test_abort();
    return test_end();
}
