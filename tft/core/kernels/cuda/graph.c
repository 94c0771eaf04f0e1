/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes as CUDA graphs: hundreds of launches of a few microseconds each become one.
 *
 *     first pass of a key    calls, one by one: plans of products are made
 *     second                 the calls are captured, and the graph is launched
 *     later                  the graph is launched
 *
 * Kernels read what differs between passes from the device's memory (queue->values), where it is copied first. What a
 * graph does is what the calls did, so it gives the same bits. A batch of another size, as the last of an epoch, has a
 * graph of its own; of more than CUDA_GRAPHS the oldest one goes. Where a capture fails the calls are made again, and
 * no more captured.
 */
#include "tft/core/kernels/cuda/cuda.h"
#include <string.h>

static int is_same(const struct pass_key *a, const struct pass_key *b)
{
    return a->params == b->params && a->gradients == b->gradients && a->B == b->B && a->padded == b->padded;
}

static void drop(struct cuda_graph *graph)
{
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec); /* a launched graph keeps running */
    *graph = (struct cuda_graph){ .exec = NULL };
}

static struct cuda_graph *find(struct queue *queue, const struct pass_key *key)
{
    for (size_t i = 0; i < CUDA_GRAPHS; i++)
        if (is_same(&queue->graphs[i].key, key))
            return &queue->graphs[i];
    struct cuda_graph *graph = &queue->graphs[queue->next_graph++ % CUDA_GRAPHS];
    drop(graph);
    graph->key = *key;
    return graph;
}

int cuda_pass_begin(struct queue *queue, const struct pass_key *key, const struct pass_values *values)
{
    struct cuda_graph *graph = find(queue, key);

    queue->head.kernels->to_device(queue, values, sizeof *values, queue->values);
    if (graph->exec) {
        cuda_note(queue, cudaGraphLaunch(graph->exec, queue->stream));
        return 1;
    }
    queue->current = queue->values;
    if (graph->passes == 1 && !queue->failure &&
        cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess)
        queue->captured = graph;
    else if (graph->passes >= 0)
        graph->passes++;
    return 0;
}

/* Nonzero: it has been made and launched. */
static int finish(struct queue *queue, struct cuda_graph *made)
{
    cudaGraph_t graph = NULL;
    cudaError_t error = cudaStreamEndCapture(queue->stream, &graph);

    if (error == cudaSuccess && !queue->failure)
        error = cudaGraphInstantiate(&made->exec, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (error == cudaSuccess && !queue->failure) {
        cuda_note(queue, cudaGraphLaunch(made->exec, queue->stream));
        return 1;
    }
    cudaGetLastError();
    return 0;
}

int cuda_pass_end(struct queue *queue)
{
    struct cuda_graph *made = queue->captured;

    queue->current = NULL;
    queue->captured = NULL;
    if (!made || finish(queue, made))
        return 0;
    made->passes = -1;
    queue->failure = NULL; /* set by the capture only, and the calls are made again */
    return 1;
}

void cuda_graphs_destroy(struct queue *queue)
{
    for (size_t i = 0; i < CUDA_GRAPHS; i++)
        drop(&queue->graphs[i]);
}
