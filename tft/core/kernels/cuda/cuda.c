/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA table, its memory, and its queues.
 */
#include "tft/core/kernels/cuda/cuda.h"
#include <stdlib.h>
#include <string.h>

enum { GRANULE_MOST = 4096, MEETINGS = CUDA_MEETINGS * CUDA_MEETING_STEP * sizeof(unsigned) };

static void *cuda_alloc(size_t bytes)
{
    void *memory = NULL;

    return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : NULL;
}

static void cuda_release(void *memory)
{
    cudaFree(memory); /* cannot fail: nothing under way uses it */
}

static int cuda_has_bf16(void)
{
    int device = 0, major = 0;

    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 8;
}

static void cuda_use(int number)
{
    cudaSetDevice(number); /* fails for good reasons only when the module opens it; later calls would show it */
}

static void cuda_room(size_t *free, size_t *all)
{
    if (cudaMemGetInfo(free, all) != cudaSuccess)
        *free = *all = 0;
}

static const char *cuda_failure(const struct queue *queue)
{
    return queue->failure;
}

static void *cuda_stream(struct queue *queue)
{
    return queue->stream;
}

static void cuda_close(struct queue *queue)
{
    if (!queue)
        return;
    if (queue->stream)
        cuda_note(queue, cudaStreamSynchronize(queue->stream));
    cuda_graphs_destroy(queue);
    cuda_plans_destroy(queue);
    cudaFree(tft_place_of(queue->rounded));
    cudaFree(tft_place_of(queue->rounded_folded));
    cudaFree(tft_place_of(queue->others));
    cudaFree(queue->values);
    cudaFree(queue->meetings);
    cudaFree(queue->partial); /* cannot fail: nothing is under way */
    cudaFreeHost(queue->stage);
    if (queue->stream)
        cudaStreamDestroy(queue->stream);
    free(queue);
}

static void find_properties(struct queue *queue)
{
    int device = 0, together = 0, shared = 0;

    cuda_note(queue, cudaGetDevice(&device));
    cuda_note(queue, cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    queue->shared_most = (size_t)shared;
    cuda_note(queue, cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device));
    if (together)
        cuda_note(queue, cudaDeviceGetAttribute(&queue->multiprocessors, cudaDevAttrMultiProcessorCount, device));
}

/* Room for n numbers, or for one; a failure is noted. */
static real *alloc_narrow(struct queue *queue, size_t n)
{
    void *place = NULL;

    cuda_note(queue, cudaMalloc(&place, (n ? n : 1) * TFT_NARROW_BYTES));
    return tft_narrow_at(place);
}

/* Opens a queue. A failed call of the device becomes the queue's failure. */
static enum halay_status cuda_open(const struct queue_needs *needs, struct queue **out)
{
    struct queue *queue = calloc(1, sizeof *queue);

    if (!queue)
        return HALAY_ERR_NO_MEMORY;
    queue->head.kernels = tft_kernels_cuda();
    queue->needs = *needs;
    queue->needs.tf32 = needs->tf32 && cuda_has_bf16(); /* the same devices have both */
    queue->head.narrow = needs->bf16 && cuda_has_bf16();
    cuda_note(queue, cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking));
    cuda_note(queue, cudaMalloc((void **)&queue->partial, CUDA_PARTIAL * sizeof *queue->partial));
    cuda_note(queue, cudaMalloc((void **)&queue->values, sizeof *queue->values));
    cuda_note(queue, cudaMalloc((void **)&queue->meetings, MEETINGS));
    if (queue->meetings)
        cuda_note(queue, cudaMemsetAsync(queue->meetings, 0, MEETINGS, queue->stream));
    cuda_note(queue, cudaHostAlloc((void **)&queue->stage, CUDA_STAGE, cudaHostAllocDefault));
    if (queue->head.narrow) {
        queue->rounded = alloc_narrow(queue, needs->params - needs->inputs);
        queue->rounded_folded = alloc_narrow(queue, needs->folded);
        queue->others = alloc_narrow(queue, needs->others);
    }
    find_properties(queue);
    enum halay_status status = queue->failure ? HALAY_OK : cuda_plans_create(queue);
    if (status == HALAY_ERR_NO_MEMORY) {
        cuda_close(queue);
        return status;
    }
    *out = queue;
    return HALAY_OK;
}

static void cuda_begin(struct queue *queue, const real *params, const real *folded)
{
    const struct queue_needs *needs = &queue->needs;

    queue->params = params;
    queue->folded = folded;
    queue->has_folded = 0;
    if (queue->head.narrow && needs->params > needs->inputs)
        cuda_copy(queue, params + needs->inputs, needs->params - needs->inputs, queue->rounded);
}

/* Waits for what is under way, and hands out what has been read meanwhile. */
static void cuda_settle(struct queue *queue)
{
    cuda_note(queue, cudaStreamSynchronize(queue->stream));
    for (size_t i = 0; i < queue->read_count; i++) {
        const struct cuda_read *read = &queue->reads[i];

        if (queue->failure)
            memset(read->host, 0xff, read->bytes); /* no numbers */
        else
            memcpy(read->host, queue->stage + read->at, read->bytes);
    }
    queue->read_count = queue->staged = 0;
}

/* Copies the host's bytes through pinned memory: the caller may reuse its memory at once, and the stream need not
 * wait. */
static void cuda_to_device(struct queue *queue, const void *host, size_t bytes, void *memory)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        if (queue->staged == CUDA_STAGE)
            cuda_settle(queue);
        part = bytes - done < CUDA_STAGE - queue->staged ? bytes - done : CUDA_STAGE - queue->staged;
        memcpy(queue->stage + queue->staged, (const char *)host + done, part);
        cuda_note(queue, cudaMemcpyAsync((char *)memory + done, queue->stage + queue->staged, part,
                                         cudaMemcpyHostToDevice, queue->stream));
        queue->staged += part;
    }
}

/* At most CUDA_STAGE bytes. */
static void cuda_to_host_later(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    if (bytes > CUDA_STAGE - queue->staged || queue->read_count == CUDA_READS)
        cuda_settle(queue);
    cuda_note(queue,
              cudaMemcpyAsync(queue->stage + queue->staged, memory, bytes, cudaMemcpyDeviceToHost, queue->stream));
    queue->reads[queue->read_count++] = (struct cuda_read){ host, queue->staged, bytes };
    queue->staged += bytes;
}

static void cuda_to_host(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    size_t done = 0;

    do {
        const size_t part = bytes - done < CUDA_STAGE ? bytes - done : CUDA_STAGE;

        if (part)
            cuda_to_host_later(queue, (const char *)memory + done, part, (char *)host + done);
        cuda_settle(queue);
        done += part;
    } while (done < bytes);
}

static const struct kernels table = {
    .name = "cuda",
    .block_rows = SIZE_MAX,
    .granule_most = GRANULE_MOST,
    .host_memory = 0,
    .has_bf16 = cuda_has_bf16,
    .use = cuda_use,
    .room = cuda_room,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .open = cuda_open,
    .close = cuda_close,
    .failure = cuda_failure,
    .stream = cuda_stream,
    .begin = cuda_begin,
    .pass_begin = cuda_pass_begin,
    .pass_end = cuda_pass_end,
    .pass_call = cuda_pass_call,
    .to_device = cuda_to_device,
    .to_host_later = cuda_to_host_later,
    .to_host = cuda_to_host,
    .rows_scratch = cuda_rows_scratch,
    .lstm_scratch = cuda_lstm_scratch,
    .attention_scratch = cuda_attention_scratch,
#define CPU_KERNEL(name, parameters, arguments, condition)
#define KERNEL(name, parameters, arguments, condition, traffic) .name = cuda_##name,
#include "tft/core/kernels/kernels.def"
};

const struct kernels *tft_kernels_cuda(void)
{
    return &table;
}
