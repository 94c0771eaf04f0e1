/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: see shm_memory.h.
 *
 * Cleanup: fini accepts any half-built state that began with init.
 */
#include "collectives/transport/shm/shm_memory.h"
#include "base/machine/cgroup.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

void halay_shm_memory_init(struct halay_log *log, struct halay_shm_memory *memory)
{
    *memory = (struct halay_shm_memory){ .log = log, .fd = -1 };
    halay_shm_registered_init(&memory->registered);
}

static enum halay_status init_areas(struct halay_shm_memory *memory)
{
    return halay_heap_init(&memory->areas, memory->layout.heap - memory->layout.areas);
}

enum halay_status halay_shm_memory_create(struct halay_shm_memory *memory, int ranks, size_t bytes)
{
    halay_shm_layout(ranks, bytes, &memory->layout);
    enum halay_status status = halay_segment_create(memory->log, "halay", memory->layout.bytes, &memory->fd);
    if (status == HALAY_OK)
        status = halay_segment_map(memory->log, memory->fd, memory->layout.bytes, &memory->base);
    if (status == HALAY_OK)
        status = halay_heap_init(&memory->heap, memory->layout.bytes - memory->layout.heap);
    if (status == HALAY_OK)
        status = init_areas(memory);
    if (status != HALAY_OK)
        halay_shm_memory_fini(memory);
    return status;
}

/* Gives the memory of a range back to the system: it is zero from then on. Nonzero if it has. */
static int memory_punch(const struct halay_shm_memory *self, size_t offset, size_t bytes)
{
    return fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0;
}

enum halay_status halay_shm_memory_renew(struct halay_shm_memory *memory)
{
    if (!memory_punch(memory, 0, memory->layout.heap))
        return halay_fail(memory->log, HALAY_ERR_SYSTEM, "cannot empty a shared segment: %s", strerror(errno));
    halay_heap_fini(&memory->areas);
    return init_areas(memory);
}

/* Unmaps all but the allocations that are kept. */
static void memory_unmap(struct halay_shm_memory *memory)
{
    size_t from = 0, begin, offset, bytes;

    for (size_t at = 0; halay_heap_next_kept(&memory->heap, at, &offset, &bytes); at = offset + bytes) {
        begin = memory->layout.heap + offset;
        if (begin > from)
            halay_segment_unmap((unsigned char *)memory->base + from, begin - from);
        from = begin + bytes;
    }
    if (from < memory->layout.bytes)
        halay_segment_unmap((unsigned char *)memory->base + from, memory->layout.bytes - from);
}

void halay_shm_memory_fini(struct halay_shm_memory *memory)
{
    if (memory->base)
        memory_unmap(memory);
    halay_shm_registered_fini(&memory->registered);
    halay_heap_fini(&memory->areas);
    halay_heap_fini(&memory->heap);
    if (memory->fd >= 0)
        close(memory->fd);
    halay_shm_memory_init(memory->log, memory);
}

/* Takes a range's memory from the system. */
static int memory_populate(struct halay_shm_memory *self, size_t offset, size_t bytes)
{
    int error = ENOMEM;

    if (bytes > halay_memory_available(""))
        goto err_no_memory;
    do
        error = fallocate(self->fd, 0, (off_t)offset, (off_t)bytes) < 0 ? errno : 0;
    while (error == EINTR);
    if (!error)
        return 1;
    memory_punch(self, offset, bytes); /* a part may have been taken */

err_no_memory:
    halay_error(self->log, "cannot allocate %zu bytes of shared memory: %s", bytes, strerror(error));
    return 0;
}

enum halay_status halay_shm_memory_alloc(struct halay_shm_memory *self, size_t bytes, void **out)
{
    size_t offset;

    if (halay_heap_take(&self->heap, bytes ? bytes : 1, &offset) != HALAY_OK)
        return halay_fail(self->log, HALAY_ERR_NO_MEMORY,
                          "cannot allocate %zu bytes of a shared segment of %zu (HALAY_SEGMENT_BYTES)", bytes,
                          self->layout.bytes);
    if (!memory_populate(self, self->layout.heap + offset, halay_heap_size(&self->heap, offset))) {
        halay_heap_give(&self->heap, offset);
        return HALAY_ERR_NO_MEMORY;
    }
    *out = (unsigned char *)self->base + self->layout.heap + offset;
    halay_segment_wish_huge(*out, bytes);
    return HALAY_OK;
}

/* Returns an allocation's offset in the heap. */
static size_t offset_of(const struct halay_shm_memory *self, const void *ptr)
{
    return (size_t)((const unsigned char *)ptr - (unsigned char *)self->base) - self->layout.heap;
}

size_t halay_shm_memory_size(struct halay_shm_memory *self, const void *ptr)
{
    return halay_heap_size(&self->heap, offset_of(self, ptr));
}

void halay_shm_memory_keep(struct halay_shm_memory *self, void *ptr, struct halay_kept *kept)
{
    kept->mapped = halay_shm_memory_size(self, ptr);
    halay_heap_keep(&self->heap, offset_of(self, ptr));
}

void halay_shm_memory_free(struct halay_shm_memory *self, void *ptr)
{
    if (!ptr)
        return;
    size_t offset = offset_of(self, ptr);
    size_t bytes = halay_heap_size(&self->heap, offset);
    if (!bytes) {
        halay_error(self->log, "free of %p, which is not an allocation of shared memory", ptr);
        return;
    }
    if (!memory_punch(self, self->layout.heap + offset, bytes))
        halay_warning(self->log, "cannot give shared memory back: %s", strerror(errno));
    halay_heap_give(&self->heap, offset);
}

/* Returns nonzero if the program's memory overlaps what this segment is mapped at. */
static int is_in_segment(const struct halay_shm_memory *self, const unsigned char *ptr, size_t bytes)
{
    const unsigned char *base = self->base;

    return ptr < base + self->layout.bytes && base < ptr + bytes;
}

enum halay_status halay_shm_memory_register(struct halay_shm_memory *self, void *ptr, size_t bytes)
{
    struct halay_shm_place place = { .ptr = ptr, .bytes = bytes, .fd = self->fd };
    const char *why = "it is memory of halay_alloc";
    enum halay_status status = HALAY_ERR_DUPLICATE;
    size_t offset;

    if (!self->base)
        return halay_fail(self->log, HALAY_ERR_UNSUPPORTED, "cannot register %zu bytes at %p: no shared memory", bytes,
                          ptr);
    if (!is_in_segment(self, ptr, bytes))
        status = halay_shm_registered_check(&self->registered, &place, &why);
    if (status != HALAY_OK)
        return halay_fail(self->log, status, "cannot register %zu bytes at %p: %s", bytes, ptr, why);
    if (halay_heap_take(&self->heap, place.length, &offset) != HALAY_OK)
        return halay_fail(self->log, HALAY_ERR_NO_MEMORY,
                          "cannot register %zu bytes: no room in a shared segment of %zu (HALAY_SEGMENT_BYTES)", bytes,
                          self->layout.bytes);
    place.offset = self->layout.heap + offset;
    if (memory_populate(self, place.offset, place.length))
        status = halay_shm_registered_add(self->log, &self->registered, &place);
    else
        status = HALAY_ERR_NO_MEMORY;
    if (status != HALAY_OK) {
        memory_punch(self, place.offset, place.length);
        halay_heap_give(&self->heap, offset);
    }
    return status;
}

enum halay_status halay_shm_memory_unregister(struct halay_shm_memory *self, void *ptr)
{
    struct halay_shm_place place;

    enum halay_status status = halay_shm_registered_remove(&self->registered, ptr, &place);
    if (status == HALAY_ERR_ARGUMENT)
        return halay_fail(self->log, status, "cannot unregister %p: nothing is registered there", ptr);
    if (status == HALAY_ERR_NO_MEMORY)
        return halay_fail(self->log, status, "cannot unregister %p: no memory for private pages", ptr);
    if (status == HALAY_ERR_CLOSED) /* what is mapped elsewhere must keep its contents: the pages are lost */
        return halay_fail(self->log, HALAY_ERR_ARGUMENT, "%p was unmapped or freed before it was unregistered", ptr);
    if (!memory_punch(self, place.offset, place.length))
        halay_warning(self->log, "cannot give shared memory back: %s", strerror(errno));
    halay_heap_give(&self->heap, place.offset - self->layout.heap);
    return HALAY_OK;
}

enum halay_status halay_shm_memory_take_areas(struct halay_shm_memory *self, uint64_t *offset)
{
    size_t at;

    enum halay_status status = halay_heap_take(&self->areas, HALAY_GROUP_BYTES, &at);
    if (status == HALAY_OK)
        *offset = self->layout.areas + at;
    return status;
}

void halay_shm_memory_give_areas(struct halay_shm_memory *self, uint64_t offset)
{
    if (memory_punch(self, offset, HALAY_GROUP_BYTES))
        halay_heap_give(&self->areas, offset - self->layout.areas);
    else
        halay_warning(self->log, "cannot give shared memory back: %s", strerror(errno)); /* and never used again */
}
