/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: the segment that this rank owns, and what it has given of its heap.
 *
 * It may outlive the transport over it: an elastic job's processes keep theirs from one transport to the next, so that
 * what users have of it stays where it is.
 */
#ifndef HALAY_SHM_MEMORY_H
#define HALAY_SHM_MEMORY_H

#include "collectives/transport/shm/shm_segment.h"

struct halay_shm_memory {
    struct halay_log *log; /* borrowed */
    int fd;                /* owned; -1: there is no segment yet */
    void *base;            /* owned: where this process has it mapped */
    struct halay_shm_layout layout;
    struct halay_heap heap;
};

/* Storage without a segment: fini accepts it. */
void halay_shm_memory_init(struct halay_log *log, struct halay_shm_memory *memory);
/* A segment for a transport of `ranks` ranks, of `bytes` bytes. Errors as of halay_segment_create and
 * halay_segment_map. */
enum halay_status halay_shm_memory_create(struct halay_shm_memory *memory, int ranks, size_t bytes);
/* All but the heap is as in a new segment. Nobody else may have it mapped. HALAY_ERR_SYSTEM. */
enum halay_status halay_shm_memory_renew(struct halay_shm_memory *memory);
void halay_shm_memory_fini(struct halay_shm_memory *memory);

/* Any thread. Page-aligned; memory is taken from the system at once. HALAY_ERR_NO_MEMORY, with a line in the log. */
enum halay_status halay_shm_memory_alloc(struct halay_shm_memory *memory, size_t bytes, void **out);
/* Any thread. NULL is allowed; a line in the log if alloc has not given it. */
void halay_shm_memory_free(struct halay_shm_memory *memory, void *ptr);

/* The bytes, in whole pages, of what alloc gave at ptr; 0 if it gave nothing there. */
size_t halay_shm_memory_size(struct halay_shm_memory *memory, const void *ptr);
/* What alloc gave stays mapped when fini unmaps the rest. */
void halay_shm_memory_keep(struct halay_shm_memory *memory, void *ptr, struct halay_kept *kept);

#endif
