/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: blocks of halay_alloc, and references that let them outlive halay_free and the context.
 *
 *     halay_alloc               the program's own reference
 *     halay_memory_retain       one more; the first one lists the block
 *     halay_free, halay_fini    the program's own reference ends
 *     last reference ends       before halay_fini: back to the transport; after it: munmap or free
 *
 * halay_fini asks the transport to leave listed blocks where they are (its op keep) and transfers them to the list,
 * which lives as long as the context or a reference does. References may be released at any time, on any thread, also
 * while halay_fini runs: then halay_fini checks the block once more when the transports are closed.
 */
#include "base/error_text.h"
#include "collectives/transport/shm/shm_memory.h"
#include "fusion/api/elastic.h"
#include "fusion/api/open.h"
#include "fusion/api/wait.h"
#include "fusion/paths/device/staging.h"
#include "fusion/requests/context.h"
#include <stdlib.h>
#include <sys/mman.h>

/* A referenced block. Guarded by the list's lock, except members that are set once. */
struct halay_memory {
    struct halay_memories *all; /* set once, as is the next */
    void *ptr;
    size_t references;
    int is_freed;           /* the program's own reference has ended */
    struct halay_kept kept; /* how it is freed when the context has ended */
    struct halay_memory *next;
};

struct halay_memories {
    pthread_mutex_t lock;      /* guards what follows; around it no other but those of the layers below */
    struct halay_context *ctx; /* NULL: it has ended */
    int is_ending;             /* halay_fini runs: released blocks wait for its end */
    struct halay_memory *first;
    unsigned char *is_parent; /* owned: base/fork.h; set once */
};

/* ---- the context's blocks ---- */

enum halay_status halay_alloc(struct halay_context *ctx, size_t bytes, void **ptr)
{
    if (!ctx || !ptr)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_alloc: no %s", ctx ? "place for the pointer" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    struct halay_shm_memory *elastic = halay_elastic_memory(ctx);
    return halay_returns(elastic ? halay_shm_memory_alloc(elastic, bytes, ptr)
                                 : halay_group_alloc(ctx->all.group, bytes, ptr));
}

enum halay_status halay_alloc_device(struct halay_context *ctx, int device, size_t bytes, void **ptr)
{
    if (!ctx || !ptr)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_alloc_device: no %s",
                             ctx ? "place for the pointer" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    enum halay_status status = halay_staging_load(ctx);
    if (status == HALAY_OK)
        status = halay_devices_alloc(halay_devices_of(ctx), device, bytes, ptr);
    return halay_returns(status);
}

static void block_free(struct halay_context *ctx, void *ptr)
{
    struct halay_shm_memory *elastic = halay_elastic_memory(ctx);

    if (elastic)
        halay_shm_memory_free(elastic, ptr);
    else
        halay_group_free(ctx->all.group, ptr);
}

static enum halay_status block_may_stay(struct halay_context *ctx, const void *ptr)
{
    struct halay_shm_memory *elastic = halay_elastic_memory(ctx);

    if (elastic)
        return halay_shm_memory_size(elastic, ptr) ? HALAY_OK : HALAY_ERR_ARGUMENT;
    return halay_group_may_keep(ctx->all.group, ptr);
}

static void block_keep(struct halay_context *ctx, struct halay_memory *memory)
{
    struct halay_shm_memory *elastic = halay_elastic_memory(ctx);

    if (elastic)
        halay_shm_memory_keep(elastic, memory->ptr, &memory->kept);
    else
        halay_group_keep(ctx->all.group, memory->ptr, &memory->kept);
}

/* ---- the list ---- */

/* Returns the context's list, which may be NULL. make: create it if necessary; NULL then: no memory. */
static struct halay_memories *memories_of(struct halay_context *ctx, int make)
{
    pthread_mutex_lock(&ctx->lock);
    struct halay_memories *all = ctx->memories;
    if (!all && make && (all = calloc(1, sizeof *all))) {
        pthread_mutex_init(&all->lock, NULL);
        all->ctx = ctx;
        all->is_parent = halay_fork_mark();
        ctx->memories = all;
    }
    pthread_mutex_unlock(&ctx->lock);
    return all;
}

static void memories_destroy(struct halay_memories *all)
{
    pthread_mutex_destroy(&all->lock);
    halay_fork_unmark(all->is_parent);
    free(all);
}

static struct halay_memory *find_locked(const struct halay_memories *all, const void *ptr)
{
    struct halay_memory *memory = all->first;

    while (memory && memory->ptr != ptr)
        memory = memory->next;
    return memory;
}

/* Ends a block after its last reference. */
static void end_locked(struct halay_memories *all, struct halay_memory *memory)
{
    struct halay_memory **link = &all->first;

    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
    if (all->ctx && memory->is_freed)
        block_free(all->ctx, memory->ptr);
    else if (!all->ctx && !memory->kept.is_lost && memory->kept.mapped)
        munmap(memory->ptr, memory->kept.mapped);
    else if (!all->ctx && !memory->kept.is_lost)
        free(memory->ptr);
    free(memory);
}

void halay_memories_keep(struct halay_context *ctx)
{
    struct halay_memories *all = memories_of(ctx, 0);

    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->is_ending = 1;
    for (struct halay_memory *memory = all->first; memory; memory = memory->next)
        block_keep(ctx, memory);
    pthread_mutex_unlock(&all->lock);
}

void halay_memories_leave(struct halay_context *ctx)
{
    struct halay_memories *all = ctx->memories;

    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->ctx = NULL;
    all->is_ending = 0;
    for (struct halay_memory *memory = all->first, *next; memory; memory = next) {
        next = memory->next;
        if (!memory->references)
            end_locked(all, memory);
    }
    int is_over = !all->first;
    pthread_mutex_unlock(&all->lock);
    if (is_over)
        memories_destroy(all);
}

/* ---- memory of the program's ---- */

enum halay_status halay_memory_register(struct halay_context *ctx, void *ptr, size_t bytes)
{
    if (!ctx || !ptr || !bytes)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_memory_register: no %s", ctx ? "memory" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    struct halay_shm_memory *elastic = halay_elastic_memory(ctx);
    return halay_returns(elastic ? halay_shm_memory_register(elastic, ptr, bytes)
                                 : halay_group_register(ctx->all.group, ptr, bytes));
}

enum halay_status halay_memory_unregister(struct halay_context *ctx, void *ptr)
{
    if (!ctx || !ptr)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_memory_unregister: no %s", ctx ? "memory" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    struct halay_shm_memory *elastic = halay_elastic_memory(ctx);
    return halay_returns(elastic ? halay_shm_memory_unregister(elastic, ptr)
                                 : halay_group_unregister(ctx->all.group, ptr));
}

/* ---- public ---- */

void halay_free(struct halay_context *ctx, void *ptr)
{
    if (!ctx || !ptr || halay_is_child(ctx) || halay_devices_free(halay_devices_of(ctx), ptr))
        return;
    struct halay_memories *all = memories_of(ctx, 0);
    int is_held = 0;
    if (all) {
        pthread_mutex_lock(&all->lock);
        struct halay_memory *memory = find_locked(all, ptr);
        if ((is_held = memory != NULL))
            memory->is_freed = 1;
        pthread_mutex_unlock(&all->lock);
    }
    if (!is_held)
        block_free(ctx, ptr);
}

static enum halay_status add_locked(struct halay_memories *all, void *ptr, struct halay_memory **out)
{
    enum halay_status status = block_may_stay(all->ctx, ptr);

    if (status == HALAY_ERR_ARGUMENT)
        return halay_refuses(status, "halay_memory_retain: %p is not where memory from halay_alloc begins", ptr);
    if (status != HALAY_OK)
        return halay_refuses(status, "halay_memory_retain: the transport's memory ends with it");
    struct halay_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    *memory = (struct halay_memory){ .all = all, .ptr = ptr, .references = 1, .next = all->first };
    all->first = memory;
    *out = memory;
    return HALAY_OK;
}

enum halay_status halay_memory_retain(struct halay_context *ctx, void *ptr, struct halay_memory **out)
{
    enum halay_status status = HALAY_OK;

    if (!ctx || !ptr || !out)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_memory_retain: no %s",
                             !ctx  ? "context"
                             : ptr ? "place for the reference"
                                   : "memory");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    struct halay_memories *all = memories_of(ctx, 1);
    if (!all)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    pthread_mutex_lock(&all->lock);
    struct halay_memory *memory = find_locked(all, ptr);
    if (all->is_ending)
        status = halay_refuses(HALAY_ERR_CLOSED, "halay_memory_retain: this rank is in halay_fini");
    else if (!memory)
        status = add_locked(all, ptr, out);
    else
        (*out = memory)->references++;
    pthread_mutex_unlock(&all->lock);
    return status;
}

void halay_memory_release(struct halay_memory *memory)
{
    if (!memory || halay_is_forked(memory->all->is_parent))
        return;
    struct halay_memories *all = memory->all;
    int is_over = 0;
    pthread_mutex_lock(&all->lock);
    if (!--memory->references && !all->is_ending) {
        end_locked(all, memory);
        is_over = !all->ctx && !all->first;
    }
    pthread_mutex_unlock(&all->lock);
    if (is_over)
        memories_destroy(all);
}
