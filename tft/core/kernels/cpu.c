/* SPDX-License-Identifier: Apache-2.0
 *
 * The processor's table, its memory, and its queues.
 */
#include "tft/core/kernels/cpu.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_ROWS = 96, GRANULE_MOST = 64 };

/* A large block asks for huge pages: passes read its arrays from end to end, and thousands of small pages would not fit
 * the TLB. */
static void *cpu_alloc(size_t bytes)
{
    void *memory;

    if (bytes < 4 * HALAY_HUGE_PAGE)
        return halay_aligned_alloc(HALAY_PAGE, bytes);
    memory = halay_aligned_alloc(HALAY_HUGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
    if (memory && madvise(memory, bytes / HALAY_HUGE_PAGE * HALAY_HUGE_PAGE, MADV_HUGEPAGE) != 0)
        return memory; /* a kernel without them uses small pages */
#endif
    return memory;
}

static int cpu_has_bf16(void)
{
    return tft_bf16_here() != TFT_BF16_NONE;
}

static void cpu_use(int number)
{
    (void)number;
}

static void cpu_room(size_t *free, size_t *all)
{
    *free = *all = 0;
}

static const char *cpu_failure(const struct queue *queue)
{
    (void)queue;
    return NULL;
}

static void *cpu_stream(struct queue *queue)
{
    (void)queue;
    return NULL;
}

/* The arrays of a queue that rounds, one after the other. */
static enum halay_status alloc_rounded(struct queue *queue)
{
    size_t kept = CPU_KEPT * sizeof *queue->kept, room = halay_round_up(TFT_BF16_ROOM, HALAY_CACHE_LINE), bytes;

    if (halay_mul_overflows(queue->needs.factors, sizeof *queue->cache, &bytes) ||
        halay_add_overflows(bytes, kept + room * sizeof *queue->room, &bytes))
        return HALAY_ERR_NO_MEMORY;
    queue->memory = cpu_alloc(bytes);
    if (!queue->memory)
        return HALAY_ERR_NO_MEMORY;
    queue->means = tft_bf16_here();
    queue->kept = queue->memory;
    queue->room = (uint16_t *)(void *)((char *)queue->memory + kept);
    queue->cache = queue->room + room;
    return HALAY_OK;
}

static void cpu_close(struct queue *queue)
{
    if (!queue)
        return;
    free(queue->memory);
    free(queue);
}

static enum halay_status cpu_open(const struct queue_needs *needs, struct queue **out)
{
    struct queue *queue = calloc(1, sizeof *queue);
    enum halay_status status = HALAY_OK;

    if (!queue)
        return HALAY_ERR_NO_MEMORY;
    queue->head.kernels = tft_kernels_cpu();
    queue->needs = *needs;
    if (needs->bf16)
        status = alloc_rounded(queue);
    if (status) {
        cpu_close(queue);
        return status;
    }
    *out = queue;
    return HALAY_OK;
}

static void cpu_to_device(struct queue *queue, const void *host, size_t bytes, void *memory)
{
    memcpy(memory, host, bytes);
}

static void cpu_to_host(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    if (bytes)
        memcpy(host, memory, bytes);
}

static const struct kernels table = {
    .name = "cpu",
    .block_rows = BLOCK_ROWS,
    .granule_most = GRANULE_MOST,
    .host_memory = 1,
    .has_bf16 = cpu_has_bf16,
    .use = cpu_use,
    .room = cpu_room,
    .alloc = cpu_alloc,
    .release = free,
    .open = cpu_open,
    .close = cpu_close,
    .failure = cpu_failure,
    .stream = cpu_stream,
    .begin = cpu_begin,
    .to_device = cpu_to_device,
    .to_host_later = cpu_to_host,
    .to_host = cpu_to_host,
    .rows_scratch = cpu_rows_scratch,
    .lstm_scratch = cpu_lstm_scratch,
    .attention_scratch = cpu_attention_scratch,
#define CUDA_KERNEL(name, parameters, arguments, condition, traffic)
#define KERNEL(name, parameters, arguments, condition, traffic) .name = cpu_##name,
#include "tft/core/kernels/kernels.def"
};

const struct kernels *tft_kernels_cpu(void)
{
    return &table;
}
