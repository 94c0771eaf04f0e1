/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks. Steps work on the device's set; everything else (files, other ranks, evaluations, reports) works on the
 * host's, which is brought up to date before it is read. On the processor both are the same memory, and nothing is
 * copied.
 */
#include "base/memory.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/queue.h"
#include "tft/core/train/trainer.h"
#include <stdlib.h>
#include <string.h>

static struct tft_block_set set_of(float *memory, size_t reals, int has_average)
{
    return (struct tft_block_set){ .memory = memory,
                                   .params = memory,
                                   .moments = { memory + reals, memory + 2 * reals },
                                   .average = has_average ? memory + 3 * reals : NULL };
}

enum halay_status tft_blocks_init(struct halay_log *log, struct queue *queue, size_t reals, int has_average,
                                  struct tft_blocks *b)
{
    const struct kernels *kernels = kernels_of(queue);
    float *memory = NULL;
    size_t all, bytes;

    if (!halay_mul_overflows(reals, has_average ? 4 : 3, &all) && !halay_mul_overflows(all, sizeof *memory, &bytes))
        memory = tft_kernels_cpu()->alloc(bytes + 1);
    if (!memory)
        return halay_no_memory(log, "for %zu parameters", reals);
    memset(memory, 0, bytes);
    *b = (struct tft_blocks){ .log = log, .queue = queue, .reals = all };
    b->host = set_of(memory, reals, has_average);
    if (!kernels->host_memory)
        memory = kernels->alloc(bytes + 1);
    if (!memory)
        return tft_queue_no_memory(log, kernels, "parameters and moments", bytes);
    b->device = set_of(memory, reals, has_average);
    return HALAY_OK;
}

void tft_blocks_fini(struct tft_blocks *b)
{
    if (b->device.memory && tft_blocks_are_apart(b))
        kernels_of(b->queue)->release(b->device.memory);
    free(b->host.memory);
    *b = (struct tft_blocks){ 0 };
}

enum halay_status tft_blocks_download(struct tft_blocks *b)
{
    if (!b->is_ahead)
        return HALAY_OK;
    b->is_ahead = 0;
    kernel_to_host(b->queue, b->device.memory, b->reals * sizeof(float), b->host.memory);
    return tft_queue_check(b->log, b->queue);
}

enum halay_status tft_blocks_upload(struct tft_blocks *b)
{
    if (!tft_blocks_are_apart(b))
        return HALAY_OK;
    b->is_ahead = 0;
    kernel_to_device(b->queue, b->host.memory, b->reals * sizeof(float), b->device.memory);
    return tft_queue_check(b->log, b->queue);
}
