/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA table, its memory, and its queues.
 */
#include "tft/core/kernels/cuda/cuda.h"
#include <stdlib.h>
#include <string.h>

enum { GRANULE_MOST = 4096 };

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
    cudaFree(queue->values);
    cudaFree(queue->partial); /* cannot fail: nothing is under way; likewise: */
    cudaFreeHost(queue->stage);
    if (queue->stream)
        cudaStreamDestroy(queue->stream);
    free(queue);
}

static void find_multiprocessors(struct queue *queue)
{
    int device = 0, together = 0;

    cuda_note(queue, cudaGetDevice(&device));
    cuda_note(queue, cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device));
    if (together)
        cuda_note(queue, cudaDeviceGetAttribute(&queue->multiprocessors, cudaDevAttrMultiProcessorCount, device));
}

/* What fails shows as the queue's failure. */
static enum halay_status cuda_open(const struct queue_needs *needs, struct queue **out)
{
    struct queue *queue = calloc(1, sizeof *queue);

    if (!queue)
        return HALAY_ERR_NO_MEMORY;
    queue->head.kernels = tft_kernels_cuda();
    queue->needs = *needs;
    cuda_note(queue, cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking));
    cuda_note(queue, cudaMalloc((void **)&queue->partial, CUDA_PARTIAL * sizeof *queue->partial));
    cuda_note(queue, cudaMalloc((void **)&queue->values, sizeof *queue->values));
    cuda_note(queue, cudaHostAlloc((void **)&queue->stage, CUDA_STAGE, cudaHostAllocDefault));
    find_multiprocessors(queue);
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
    (void)queue; /* nothing is kept of parameters */
    (void)params;
    (void)folded;
}

/* The host's bytes go through pinned memory, so that the caller has them back at once and the stream goes on. */
static void cuda_to_device(struct queue *queue, const void *host, size_t bytes, void *memory)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        if (queue->staged == CUDA_STAGE) {
            cuda_note(queue, cudaStreamSynchronize(queue->stream));
            queue->staged = 0;
        }
        part = bytes - done < CUDA_STAGE - queue->staged ? bytes - done : CUDA_STAGE - queue->staged;
        memcpy(queue->stage + queue->staged, (const char *)host + done, part);
        cuda_note(queue, cudaMemcpyAsync((char *)memory + done, queue->stage + queue->staged, part,
                                         cudaMemcpyHostToDevice, queue->stream));
        queue->staged += part;
    }
}

static void cuda_to_host(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    cuda_note(queue, cudaStreamSynchronize(queue->stream));
    queue->staged = 0;
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < CUDA_STAGE ? bytes - done : CUDA_STAGE;
        cuda_note(queue, cudaMemcpyAsync(queue->stage, (const char *)memory + done, part, cudaMemcpyDeviceToHost,
                                         queue->stream));
        cuda_note(queue, cudaStreamSynchronize(queue->stream));
        memcpy((char *)host + done, queue->stage, part);
    }
    if (queue->failure)
        memset(host, 0xff, bytes); /* no numbers */
}

static void cuda_copy(struct queue *queue, const void *from, size_t bytes, void *to)
{
    cuda_note(queue, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue->stream));
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
    .to_device = cuda_to_device,
    .to_host = cuda_to_host,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .product = cuda_product,
    .add = cuda_add,
    .rows_add = cuda_rows_add,
    .rows_fill = cuda_rows_fill,
    .rows_sum = cuda_rows_sum,
    .samples_sum = cuda_samples_sum,
    .swap = cuda_swap,
    .windows_take = cuda_windows_take,
    .take_reals = cuda_take_reals,
    .take_codes = cuda_take_codes,
    .shared_rows_gather = NULL,
    .rows_take = cuda_rows_take,
    .rows_put = cuda_rows_put,
    .sparse_put = cuda_sparse_put,
    .sparse_add = cuda_sparse_add,
    .outer = cuda_outer,
    .outer_add = cuda_outer_add,
    .outer_sum = cuda_outer_sum,
    .norm = cuda_norm,
    .norm_output = cuda_norm_output,
    .norm_backward = cuda_norm_backward,
    .elu = cuda_elu,
    .elu_backward = cuda_elu_backward,
    .dropout = cuda_dropout,
    .dropout_backward = cuda_dropout_backward,
    .gate = cuda_gate,
    .gate_backward = cuda_gate_backward,
    .softmax = cuda_softmax,
    .softmax_backward = cuda_softmax_backward,
    .weigh = cuda_weigh,
    .weigh_backward = cuda_weigh_backward,
    .resample = cuda_resample,
    .resample_backward = cuda_resample_backward,
    .lstm = cuda_lstm,
    .lstm_backward = cuda_lstm_backward,
    .lstm_scratch = cuda_lstm_scratch,
    .attention = cuda_attention,
    .attention_backward = cuda_attention_backward,
    .attention_scratch = cuda_attention_scratch,
    .ascending = cuda_ascending,
    .ascending_backward = cuda_ascending_backward,
    .loss = cuda_loss,
    .samples_first = cuda_samples_first,
    .average = cuda_average,
    .squares = NULL,
    .adam = NULL,
    .squares_all = cuda_squares_all,
    .adam_all = cuda_adam_all,
    .sparse_squares = cuda_sparse_squares,
    .sparse_adam = cuda_sparse_adam,
};

const struct kernels *tft_kernels_cuda(void)
{
    return &table;
}
