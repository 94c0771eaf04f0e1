/* SPDX-License-Identifier: Apache-2.0
 *
 * libhalay-perf-cuda.so: what the engine's operations on CUDA devices rest on, measured. For each device: copies to
 * each other one, the kernels of the all-reduce through segments, of which one may be another device's. Then, on the
 * first device: how soon the host knows of the end of its work, what asking costs a thread that launches, and memory
 * that ranks share, pinned.
 *
 * Each figure is the median of RUNS. One exit: the bench is zero at first, and bench_fini accepts any state of it.
 */
#include "collectives/transport/cuda/cuda_driver.h"
#include "collectives/transport/cuda/cuda_reduce.h"
#include "perf/devices/devices.h"
#include "perf/src/stats.h"
#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RUNS = 9, UNTIMED = 2, LOOKS = 50, LAUNCHES = 200, DEVICES_MOST = 16, LOOK_MAX_US = 10000000 };

struct device {
    cudaStream_t stream;
    cudaEvent_t from, to;
    void *in, *out, *segment;
};

struct bench {
    FILE *out;
    char *text;
    size_t text_size;
    size_t bytes; /* of each buffer */
    int count;
    struct device at[DEVICES_MOST];
    volatile uint32_t *word; /* pinned: streams write it, or wait for it */
    void *shared;            /* mapped */
    int is_pinned;
    CUresult (*write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
};

/* Returns nonzero, and writes the reason, if the call failed. */
static int failed(struct bench *bench, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return 0;
    cudaGetLastError();
    snprintf(bench->text, bench->text_size, "%s: %s", call, cudaGetErrorString(error));
    return 1;
}

#define FAILED(bench, call) failed(bench, call, #call)

static double now_us(void)
{
    return 1e6 * perf_now();
}

/* ---- on a stream ------------------------------------------------------------------------------------------------- */

/* Work of device d that is timed, on its stream. */
struct work {
    cudaError_t (*start)(const struct work *work);
    struct bench *bench;
    int d, peer;
    void *to;
    const void *from;
    const struct halay_device_work *kernel;
};

static cudaError_t start_copy(const struct work *work)
{
    const struct bench *bench = work->bench;

    if (work->d != work->peer)
        return cudaMemcpyPeerAsync(work->to, work->peer, work->from, work->d, bench->bytes, bench->at[work->d].stream);
    return cudaMemcpyAsync(work->to, work->from, bench->bytes, cudaMemcpyDefault, bench->at[work->d].stream);
}

static cudaError_t start_pack(const struct work *work)
{
    return halay_cuda_pack(work->kernel, work->bench->at[work->d].stream);
}

static cudaError_t start_reduce(const struct work *work)
{
    return halay_cuda_reduce(work->kernel, work->bench->at[work->d].stream);
}

static int time_work(const struct work *work, double *us)
{
    const struct device *device = &work->bench->at[work->d];
    double values[RUNS];
    float ms = 0;

    for (int i = -UNTIMED; i < RUNS; i++) {
        if (FAILED(work->bench, cudaEventRecord(device->from, device->stream)) ||
            FAILED(work->bench, work->start(work)) ||
            FAILED(work->bench, cudaEventRecord(device->to, device->stream)) ||
            FAILED(work->bench, cudaEventSynchronize(device->to)) ||
            FAILED(work->bench, cudaEventElapsedTime(&ms, device->from, device->to)))
            return 1;
        if (i >= 0)
            values[i] = 1e3 * (double)ms;
    }
    *us = perf_median(values, RUNS);
    return 0;
}

/* The buffer's bytes, this number of times. */
static double gigabytes(const struct bench *bench, size_t times, double us)
{
    return perf_bandwidth_gbs(times * bench->bytes, 1e-6 * us);
}

/* A row of the matrix; the device's own column is a copy inside of its memory. */
static int measure_copies(struct bench *bench, int d)
{
    fprintf(bench->out, "  copies from GPU %d:", d);
    for (int peer = 0; peer < bench->count; peer++) {
        struct work work = { start_copy, bench, d, peer, bench->at[peer].out, bench->at[d].in, NULL };
        int reaches = 1;
        double us;

        if (d != peer && FAILED(bench, cudaDeviceCanAccessPeer(&reaches, d, peer)))
            return 1;
        if (time_work(&work, &us))
            return 1;
        fprintf(bench->out, " %.1f GB/s%s", gigabytes(bench, 1, us), reaches ? "" : " (by the host)");
    }
    fputc('\n', bench->out);
    return 0;
}

/* The kernels of a one-shot all-reduce of two ranks, the other of which has its segment on `peer`. */
static int measure_kernels(struct bench *bench, int d, int peer)
{
    void *segments[2] = { bench->at[d].segment, peer == d ? bench->at[d].out : bench->at[peer].segment };
    size_t count = bench->bytes / sizeof(float);
    struct halay_device_piece piece = { bench->at[d].in, bench->at[d].in, 0, count, 0, 1, 1 };
    struct halay_device_work kernel = { .dtype = HALAY_F32,
                                        .element = sizeof(float),
                                        .pieces = &piece,
                                        .piece_count = 1,
                                        .segments = segments,
                                        .ranks = 2 };
    struct work pack = { start_pack, bench, d, peer, NULL, NULL, &kernel };
    struct work reduce = { start_reduce, bench, d, peer, NULL, NULL, &kernel };
    double pack_us, reduce_us;

    if (time_work(&pack, &pack_us) || time_work(&reduce, &reduce_us))
        return 1;
    if (peer == d)
        fprintf(bench->out, "  segments on GPU %d: packed at %.1f GB/s, two summed at %.1f GB/s\n", d,
                gigabytes(bench, 2, pack_us), gigabytes(bench, 3, reduce_us));
    else
        fprintf(bench->out, "  segments on GPU %d and %d, summed by %d: %.1f GB/s, of which a half is from the other\n",
                d, peer, d, gigabytes(bench, 2, reduce_us));
    return 0;
}

/* ---- the host's look --------------------------------------------------------------------------------------------- */

/* A launch as the engine's smallest. */
static cudaError_t launch(struct bench *bench)
{
    struct halay_device_piece piece = { bench->at[0].in, bench->at[0].in, 0, 4, 0, 1, 1 };
    void *segments[1] = { bench->at[0].segment };
    const struct halay_device_work work = { .dtype = HALAY_F32,
                                            .element = sizeof(float),
                                            .pieces = &piece,
                                            .piece_count = 1,
                                            .segments = segments,
                                            .ranks = 1 };

    return halay_cuda_pack(&work, bench->at[0].stream);
}

static CUdeviceptr address_of(volatile uint32_t *word)
{
    return (CUdeviceptr)(uintptr_t)word;
}

static int measure_looks(struct bench *bench)
{
    const struct device *device = &bench->at[0];
    double by_event[LOOKS], by_word[LOOKS];

    *bench->word = 0;
    for (uint32_t i = 0; i < LOOKS; i++) {
        double begun = now_us();
        cudaError_t error;

        if (FAILED(bench, launch(bench)) || FAILED(bench, cudaEventRecord(device->to, device->stream)))
            return 1;
        while ((error = cudaEventQuery(device->to)) == cudaErrorNotReady && now_us() - begun < LOOK_MAX_US)
            sched_yield();
        if (failed(bench, error, "cudaEventQuery"))
            return 1;
        by_event[i] = now_us() - begun;
        begun = now_us();
        if (FAILED(bench, launch(bench)) ||
            FAILED(bench, (cudaError_t)bench->write_value(device->stream, address_of(bench->word), i + 1, 0)))
            return 1;
        while (*bench->word != i + 1 && now_us() - begun < LOOK_MAX_US)
            sched_yield();
        if (*bench->word != i + 1)
            return failed(bench, cudaErrorNotReady, "a word that the stream writes");
        by_word[i] = now_us() - begun;
    }
    fprintf(bench->out, "  the host sees the end of a launch after %.1f us by an event, %.1f us by a written word\n",
            perf_median(by_event, LOOKS), perf_median(by_word, LOOKS));
    return 0;
}

struct looker {
    atomic_int stops;
    cudaEvent_t event;
    long looks;
};

static void *look(void *arg)
{
    struct looker *looker = arg;

    while (!atomic_load(&looker->stops)) {
        cudaEventQuery(looker->event); /* of a stream that waits: not ready */
        looker->looks++;
        sched_yield();
    }
    return NULL;
}

static int time_launches(struct bench *bench, double *us)
{
    double begun = now_us();

    for (int i = 0; i < LAUNCHES; i++)
        if (FAILED(bench, launch(bench)))
            return 1;
    *us = (now_us() - begun) / LAUNCHES;
    return FAILED(bench, cudaStreamSynchronize(bench->at[0].stream));
}

/* What a thread that asks for an event all the time, as the engine's, costs one that launches. */
static int measure_contention(struct bench *bench)
{
    struct looker looker = { 0 };
    cudaStream_t other = NULL;
    pthread_t thread;
    double alone = 0, beside = 0;

    *bench->word = 0;
    int bad =
        FAILED(bench, cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking)) ||
        FAILED(bench, cudaEventCreateWithFlags(&looker.event, cudaEventDisableTiming)) ||
        FAILED(bench, (cudaError_t)bench->wait_value(other, address_of(bench->word), 1, CU_STREAM_WAIT_VALUE_GEQ)) ||
        FAILED(bench, cudaEventRecord(looker.event, other)) || time_launches(bench, &alone);
    if (!bad && !pthread_create(&thread, NULL, look, &looker)) {
        bad = time_launches(bench, &beside);
        atomic_store(&looker.stops, 1);
        pthread_join(thread, NULL);
    }
    *bench->word = 1;
    if (other)
        bad |= FAILED(bench, cudaStreamSynchronize(other));
    if (!bad)
        fprintf(bench->out, "  a launch takes %.1f us, %.1f us beside a thread that looks (%ld looks)\n", alone, beside,
                looker.looks);
    if (looker.event)
        cudaEventDestroy(looker.event);
    if (other)
        cudaStreamDestroy(other);
    return bad;
}

/* ---- memory that ranks share ------------------------------------------------------------------------------------- */

static int measure_pinned(struct bench *bench)
{
    struct work up = { start_copy, bench, 0, 0, bench->at[0].in, bench->shared, NULL };
    struct work down = { start_copy, bench, 0, 0, bench->shared, bench->at[0].in, NULL };
    double up_us, down_us, begun = now_us();

    if (FAILED(bench, cudaHostRegister(bench->shared, bench->bytes, cudaHostRegisterPortable)))
        return 1;
    bench->is_pinned = 1;
    double pin_us = now_us() - begun;
    if (time_work(&up, &up_us) || time_work(&down, &down_us))
        return 1;
    fprintf(bench->out, "  shared memory: pinned in %.2f ms, to GPU 0 at %.1f GB/s, back at %.1f GB/s\n", 1e-3 * pin_us,
            gigabytes(bench, 1, up_us), gigabytes(bench, 1, down_us));
    return 0;
}

static int make_shared(struct bench *bench)
{
    int fd = memfd_create("halay-doctor", MFD_CLOEXEC);

    bench->shared = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, (off_t)bench->bytes))
        bench->shared = mmap(NULL, bench->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (bench->shared == MAP_FAILED) {
        bench->shared = NULL;
        snprintf(bench->text, bench->text_size, "no shared memory of %zu bytes", bench->bytes);
        return 1;
    }
    memset(bench->shared, 0, bench->bytes);
    return 0;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int bench_init(struct bench *bench)
{
    void *word = NULL;
    int count = 0;

    if (FAILED(bench, cudaGetDeviceCount(&count)) ||
        FAILED(bench, halay_cuda_find("cuStreamWriteValue32", (void **)&bench->write_value)) ||
        FAILED(bench, halay_cuda_find("cuStreamWaitValue32", (void **)&bench->wait_value)) || make_shared(bench))
        return 1;
    for (; bench->count < count && bench->count < DEVICES_MOST; bench->count++) {
        struct device *device = &bench->at[bench->count];

        if (FAILED(bench, cudaSetDevice(bench->count)) ||
            FAILED(bench, cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking)) ||
            FAILED(bench, cudaEventCreateWithFlags(&device->from, cudaEventDefault)) ||
            FAILED(bench, cudaEventCreateWithFlags(&device->to, cudaEventDefault)) ||
            FAILED(bench, cudaMalloc(&device->in, bench->bytes)) ||
            FAILED(bench, cudaMalloc(&device->out, bench->bytes)) ||
            FAILED(bench, cudaMalloc(&device->segment, bench->bytes)) ||
            FAILED(bench, cudaMemset(device->in, 0, bench->bytes)) ||
            FAILED(bench, cudaMemset(device->out, 0, bench->bytes)) ||
            FAILED(bench, cudaMemset(device->segment, 0, bench->bytes)) || FAILED(bench, cudaDeviceSynchronize()))
            return 1;
    }
    if (!bench->count || FAILED(bench, cudaSetDevice(0)) ||
        FAILED(bench, cudaHostAlloc(&word, sizeof *bench->word, cudaHostAllocMapped | cudaHostAllocPortable)))
        return 1;
    bench->word = word;
    return 0;
}

/* The calls cannot fail but for what has been reported. */
static void bench_fini(struct bench *bench)
{
    for (int d = 0; d < DEVICES_MOST; d++) {
        const struct device *device = &bench->at[d];

        if (!device->stream)
            continue;
        cudaSetDevice(d);
        cudaFree(device->in);
        cudaFree(device->out);
        cudaFree(device->segment);
        if (device->from)
            cudaEventDestroy(device->from);
        if (device->to)
            cudaEventDestroy(device->to);
        cudaStreamDestroy(device->stream);
    }
    cudaFreeHost((void *)bench->word);
    if (bench->is_pinned)
        cudaHostUnregister(bench->shared);
    if (bench->shared)
        munmap(bench->shared, bench->bytes);
}

/* Those of device d, also with each other one whose memory it reaches. */
static int measure_device(struct bench *bench, int d)
{
    if (FAILED(bench, cudaSetDevice(d)))
        return 1;
    for (int peer = 0; peer < bench->count; peer++) {
        int reaches = 0;

        if (peer == d)
            continue;
        if (FAILED(bench, cudaDeviceCanAccessPeer(&reaches, d, peer)) ||
            (reaches && FAILED(bench, cudaDeviceEnablePeerAccess(peer, 0))) ||
            (reaches && measure_kernels(bench, d, peer)))
            return 1;
    }
    return measure_kernels(bench, d, d) || measure_copies(bench, d);
}

static int measure(size_t bytes, FILE *out, char *text, size_t text_size)
{
    struct bench bench = { .out = out, .text = text, .text_size = text_size, .bytes = bytes };
    int bad = bench_init(&bench);

    for (int d = 0; d < bench.count && !bad; d++)
        bad = measure_device(&bench, d);
    bad = bad || FAILED(&bench, cudaSetDevice(0)) || measure_looks(&bench) || measure_contention(&bench) ||
          measure_pinned(&bench);
    bench_fini(&bench);
    return bad;
}

const struct perf_devices halay_perf_devices = { .version = HALAY_VERSION, .measure = measure };
