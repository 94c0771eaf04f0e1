/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: the segment that this rank owns: the areas of groups, and the allocations in its heap.
 *
 * It may outlive the transport over it: an elastic job's processes keep theirs from one transport to the next, so that
 * users' allocations stay in place.
 */
#ifndef HALAY_SHM_MEMORY_H
#define HALAY_SHM_MEMORY_H

#include "collectives/transport/shm/shm_registered.h"
#include "collectives/transport/shm/shm_segment.h"

struct halay_shm_memory {
    struct halay_log *log; /* borrowed */
    int fd;                /* owned; -1: no segment yet */
    void *base;            /* owned: this process's mapping */
    struct halay_shm_layout layout;
    struct halay_heap areas; /* in units of a group's */
    struct halay_heap heap;
    struct halay_shm_registered registered;
};

/* Initialises storage without a segment; fini accepts it. */
void halay_shm_memory_init(struct halay_log *log, struct halay_shm_memory *memory);
/* Creates a segment of `bytes` bytes for a transport of `ranks` ranks. Errors as of halay_segment_create and
 * halay_segment_map. */
enum halay_status halay_shm_memory_create(struct halay_shm_memory *memory, int ranks, size_t bytes);
/* Clears all but the heap; no group has areas any more. No other process may have it mapped. HALAY_ERR_SYSTEM. */
enum halay_status halay_shm_memory_renew(struct halay_shm_memory *memory);
void halay_shm_memory_fini(struct halay_shm_memory *memory);

/* Allocates whole pages, which take memory from the system at once. Any thread. HALAY_ERR_NO_MEMORY, logged. */
enum halay_status halay_shm_memory_alloc(struct halay_shm_memory *memory, size_t bytes, void **out);
/* Any thread. NULL is allowed; a pointer that is not alloc's is logged. */
void halay_shm_memory_free(struct halay_shm_memory *memory, void *ptr);

/* Returns the bytes, in whole pages, of an allocation; 0 if ptr is not one. */
size_t halay_shm_memory_size(struct halay_shm_memory *memory, const void *ptr);
/* Areas, as in shared_memory.h. */
enum halay_status halay_shm_memory_take_areas(struct halay_shm_memory *memory, uint64_t *offset);
void halay_shm_memory_give_areas(struct halay_shm_memory *memory, uint64_t offset);

/* Replaces the whole pages in the program's memory [ptr, ptr + bytes) by pages of the heap with the same contents, and
 * back, as include/halay.h has it. Any thread. Errors, logged: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED,
 * HALAY_ERR_DUPLICATE, HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM. */
enum halay_status halay_shm_memory_register(struct halay_shm_memory *memory, void *ptr, size_t bytes);
enum halay_status halay_shm_memory_unregister(struct halay_shm_memory *memory, void *ptr);

/* Keeps an allocation mapped when fini unmaps the rest. */
void halay_shm_memory_keep(struct halay_shm_memory *memory, void *ptr, struct halay_kept *kept);

#endif
