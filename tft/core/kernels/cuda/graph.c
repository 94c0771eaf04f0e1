/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes as CUDA graphs: hundreds of launches become one, or a few, with calls of the host between them, which submit
 * gradients to the other ranks.
 *
 *     first pass of a key    calls, one by one: plans of products are made
 *     second                 the calls are captured, then the graphs are launched
 *     later                  the graphs are launched
 *
 * Kernels read what differs between passes from the device's memory (queue->values), where it is copied first. What a
 * graph does is what the calls did, so it gives the same bits. A batch of another size, as the last of an epoch, has
 * graphs of its own; of more than CUDA_GRAPHS keys the oldest goes. Where a capture fails the calls are made again, and
 * not captured any more: so the host is not called before the whole pass is captured. Kernels that are given to the
 * stream between the failure and the pass's end read and write the pass's memory, all of which the repeated pass sets.
 */
#include "base/memory.h"
#include "tft/core/kernels/cuda/cuda.h"
#include <stdlib.h>
#include <string.h>

static int is_same(const struct pass_key *a, const struct pass_key *b)
{
    return a->params == b->params && a->gradients == b->gradients && a->B == b->B && a->padded == b->padded &&
           a->calls == b->calls;
}

static void drop_launches(struct cuda_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        if (graph->launches[i].exec)
            cudaGraphExecDestroy(graph->launches[i].exec);
    free(graph->launches);
    graph->launches = NULL;
    graph->count = graph->capacity = 0;
}

static struct cuda_graph *graph_find(struct queue *queue, const struct pass_key *key)
{
    for (size_t i = 0; i < CUDA_GRAPHS; i++)
        if (is_same(&queue->graphs[i].key, key))
            return &queue->graphs[i];
    struct cuda_graph *graph = &queue->graphs[queue->next_graph++ % CUDA_GRAPHS];
    if (graph->count) /* nothing allows destroying a graph that runs */
        cuda_note(queue, cudaStreamSynchronize(queue->stream));
    drop_launches(graph);
    *graph = (struct cuda_graph){ .key = *key };
    return graph;
}

static void graph_launch(struct queue *queue, const struct cuda_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct cuda_launch *l = &graph->launches[i];

        if (l->exec)
            cuda_note(queue, cudaGraphLaunch(l->exec, queue->stream));
        if (l->call)
            l->call(l->arg, l->what);
    }
}

static cudaError_t capture_begin(struct queue *queue)
{
    return cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal);
}

int cuda_pass_begin(struct queue *queue, const struct pass_key *key, const struct pass_values *values)
{
    struct cuda_graph *graph = graph_find(queue, key);

    queue->head.kernels->to_device(queue, values, sizeof *values, queue->values);
    if (graph->count) {
        graph_launch(queue, graph);
        return 1;
    }
    queue->current = queue->values;
    if (graph->passes == 1 && !queue->failure && capture_begin(queue) == cudaSuccess)
        queue->captured = graph;
    else if (graph->passes >= 0)
        graph->passes++;
    return 0;
}

/* Appends what has been captured; it may be empty. */
static cudaError_t append_launch(struct cuda_graph *made, cudaGraph_t graph, struct cuda_launch launch)
{
    size_t nodes = 0;
    cudaError_t error = cudaGraphGetNodes(graph, NULL, &nodes);

    if (error == cudaSuccess && halay_list_grow(&made->launches, made->count, &made->capacity, sizeof launch))
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess && nodes)
        error = cudaGraphInstantiate(&launch.exec, graph, 0);
    if (error == cudaSuccess)
        made->launches[made->count++] = launch;
    return error;
}

static void capture_end(struct queue *queue, struct cuda_launch launch)
{
    cudaGraph_t graph = NULL;
    cudaError_t error = cudaStreamEndCapture(queue->stream, &graph);

    if (error == cudaSuccess)
        error = append_launch(queue->captured, graph, launch);
    if (graph)
        cudaGraphDestroy(graph);
    queue->capture_failed |= error != cudaSuccess;
}

void cuda_pass_call(struct queue *queue, void (*call)(void *arg, size_t what), void *arg, size_t what)
{
    if (!queue->captured) {
        call(arg, what);
    } else if (!queue->capture_failed) {
        capture_end(queue, (struct cuda_launch){ .call = call, .arg = arg, .what = what });
        if (!queue->capture_failed)
            queue->capture_failed = capture_begin(queue) != cudaSuccess;
    }
}

int cuda_pass_end(struct queue *queue)
{
    struct cuda_graph *made = queue->captured;

    queue->current = NULL;
    if (!made)
        return 0;
    if (!queue->capture_failed)
        capture_end(queue, (struct cuda_launch){ .call = NULL });
    int failed = queue->capture_failed || queue->failure != NULL;
    queue->captured = NULL;
    queue->capture_failed = 0;
    if (!failed) {
        graph_launch(queue, made);
        return 0;
    }
    cudaGetLastError();
    drop_launches(made);
    made->passes = -1;
    /* Set by the capture, and the calls are made again, unless the device itself has failed meanwhile. */
    const cudaError_t state = cudaStreamQuery(queue->stream);
    queue->failure = NULL;
    if (state != cudaErrorNotReady)
        cuda_note(queue, state);
    return 1;
}

void cuda_graphs_destroy(struct queue *queue)
{
    for (size_t i = 0; i < CUDA_GRAPHS; i++)
        drop_launches(&queue->graphs[i]);
}
