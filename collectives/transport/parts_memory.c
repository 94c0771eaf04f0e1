/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that parts travel in without a copy. parts_memory.h defines which.
 *
 * Blocks are in one array sorted by address: a part finds its block by bisection.
 *
 * Invariant: a block is freed when it has been given back and no part in it is with the library.
 */
#include "collectives/transport/parts_memory.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum halay_status halay_parts_memory_init(struct halay_parts_memory *memory, const struct halay_host *host)
{
    *memory = (struct halay_parts_memory){ .host = NULL };
    if (pthread_mutex_init(&memory->lock, NULL))
        return HALAY_ERR_SYSTEM;
    memory->host = host;
    return HALAY_OK;
}

static void block_free(struct halay_parts_block *block)
{
    if (!block->is_kept)
        free(block->base);
    free(block);
}

void halay_parts_memory_hand_over(struct halay_parts_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    for (size_t i = 0; i < memory->count; i++)
        if (memory->blocks[i]->kept) {
            memory->blocks[i]->kept->is_lost = memory->blocks[i]->uses > 0;
            memory->blocks[i]->kept = NULL;
        }
    pthread_mutex_unlock(&memory->lock);
}

void halay_parts_memory_fini(struct halay_parts_memory *memory, int library_goes_on)
{
    if (!memory->host)
        return;
    for (size_t i = 0; i < memory->count; i++)
        if (!memory->blocks[i]->uses || !library_goes_on)
            block_free(memory->blocks[i]);
    free(memory->blocks);
    pthread_mutex_destroy(&memory->lock);
    *memory = (struct halay_parts_memory){ .host = NULL };
}

/* Returns the number of blocks that begin at or below that address. */
static size_t place_locked(const struct halay_parts_memory *memory, const void *at)
{
    size_t low = 0, high = memory->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)memory->blocks[middle]->base <= (uintptr_t)at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum halay_status insert_locked(struct halay_parts_memory *memory, struct halay_parts_block *block)
{
    if (halay_list_grow(&memory->blocks, memory->count, &memory->capacity, sizeof *memory->blocks) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    size_t i = place_locked(memory, block->base);
    memmove(&memory->blocks[i + 1], &memory->blocks[i], (memory->count - i) * sizeof *memory->blocks);
    memory->blocks[i] = block;
    memory->count++;
    return HALAY_OK;
}

static void remove_locked(struct halay_parts_memory *memory, struct halay_parts_block *block)
{
    size_t i = place_locked(memory, block->base) - 1;

    memory->count--;
    memmove(&memory->blocks[i], &memory->blocks[i + 1], (memory->count - i) * sizeof *memory->blocks);
    block_free(block);
}

enum halay_status halay_parts_memory_alloc(struct halay_parts_memory *memory, size_t bytes, int may_receive, void **out)
{
    struct halay_parts_block *block = calloc(1, sizeof *block);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (!block)
        goto err_log;
    block->bytes = bytes;
    block->may_receive = may_receive;
    block->base = memory->host->aligned_alloc(HALAY_PAGE, bytes);
    if (!block->base)
        goto err_free;
    pthread_mutex_lock(&memory->lock);
    status = insert_locked(memory, block);
    pthread_mutex_unlock(&memory->lock);
    if (status != HALAY_OK)
        goto err_free;
    *out = block->base;
    return HALAY_OK;

err_free:
    block_free(block);
err_log:
    return halay_host_fail(memory->host, status, "out of memory: %zu bytes", bytes);
}

void halay_parts_memory_keep(struct halay_parts_memory *memory, const void *ptr, struct halay_kept *kept)
{
    *kept = (struct halay_kept){ 0 };
    pthread_mutex_lock(&memory->lock);
    struct halay_parts_block *block = memory->blocks[place_locked(memory, ptr) - 1];
    block->kept = kept;
    block->is_kept = 1;
    pthread_mutex_unlock(&memory->lock);
}

void halay_parts_memory_free(struct halay_parts_memory *memory, const void *ptr)
{
    if (!ptr)
        return;
    pthread_mutex_lock(&memory->lock);
    struct halay_parts_block *block = memory->blocks[place_locked(memory, ptr) - 1];
    block->is_given_back = 1;
    if (!block->uses)
        remove_locked(memory, block);
    pthread_mutex_unlock(&memory->lock);
}

static struct halay_parts_block *find_locked(const struct halay_parts_memory *memory, const void *buf, size_t bytes)
{
    size_t below = place_locked(memory, buf);
    if (!below)
        return NULL;
    struct halay_parts_block *block = memory->blocks[below - 1];
    size_t offset = (size_t)((uintptr_t)buf - (uintptr_t)block->base);

    return offset <= block->bytes && bytes <= block->bytes - offset ? block : NULL;
}

struct halay_parts_block *halay_parts_memory_use(struct halay_parts_memory *memory, int is_send, const void *buf,
                                                 size_t bytes)
{
    pthread_mutex_lock(&memory->lock);
    struct halay_parts_block *block = find_locked(memory, buf, bytes);
    if (block && !is_send && !block->may_receive)
        block = NULL;
    if (block)
        block->uses++;
    pthread_mutex_unlock(&memory->lock);
    return block;
}

void halay_parts_memory_unuse(struct halay_parts_memory *memory, struct halay_parts_block *block)
{
    pthread_mutex_lock(&memory->lock);
    if (!--block->uses && block->is_given_back)
        remove_locked(memory, block);
    pthread_mutex_unlock(&memory->lock);
}
