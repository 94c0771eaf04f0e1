/* SPDX-License-Identifier: Apache-2.0
 *
 * Segment: the shared memory that a rank owns, and that all ranks of its host have mapped.
 *
 *     0                data             areas                        heap                    bytes
 *     +----------------+----------------+----------------------------+-----------------------+
 *     | fifos:[sender] | data:[sender]  | areas of groups            | allocated memory      |
 *     +----------------+----------------+----------------------------+-----------------------+
 *
 * It is as large as the machine's memory. Pages take memory when they are touched (fifos, areas) or allocated (heap, at
 * once, so that a lack of memory is an error and not a signal).
 */
#ifndef HALAY_SHM_SEGMENT_H
#define HALAY_SHM_SEGMENT_H

#include "base/memory.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/heap.h"
#include "collectives/transport/shared_memory.h"
#include "collectives/transport/shm/shm_fifo.h"
#include <stdint.h>

/* A rank's entry in the board, which is one piece of memory for all ranks of a host: a rank that exchanges nothing with
 * another one touches no page of its segment, so that many ranks start and end without page tables of L x L segments. A
 * line of its own for each group of fields that one side writes. */
struct halay_shm_entry {
    uint32_t has_barrier; /* set once, before the others look: the rank is registered for membarrier and can call it */
    _Alignas(HALAY_CACHE_LINE) struct halay_bell_word bell; /* the rank sleeps on it */

    /* HALAY_SHM_LEFT, or HALAY_SHM_LEFT_FOR + r: because of rank r, which it had lost. The rank's last store here
     * (release); loaded (acquire) by the others. */
    _Alignas(HALAY_CACHE_LINE) _Atomic uint32_t has_left;
};

enum { HALAY_SHM_LEFT = 1, HALAY_SHM_LEFT_FOR = 2 };

/* Address space for areas; less where this were more than half of a segment. */
#define HALAY_SHM_AREAS_MOST ((size_t)1024 * HALAY_GROUP_BYTES)

/* Offsets in a segment; equal on all ranks, they follow from size and bytes. */
struct halay_shm_layout {
    size_t data;       /* of the fifos */
    size_t fifo_bytes; /* of one fifo's data */
    size_t areas, heap, bytes;
};

/* Returns the smallest segment of a job of `size` ranks, in bytes. */
size_t halay_shm_least_bytes(int size);
void halay_shm_layout(int size, size_t bytes, struct halay_shm_layout *layout);

/* Halves `wanted` until the address space holds `size` segments of that size; *bytes is a little more, never a multiple
 * of a large power of two. HALAY_ERR_NO_MEMORY, logged: not even the smallest ones fit. */
enum halay_status halay_shm_fit(struct halay_log *log, int size, size_t wanted, size_t *bytes);

/* Returns one end of the fifo that a segment has for this sender. */
static inline struct halay_shm_end halay_shm_end_of(void *segment, const struct halay_shm_layout *layout, int sender)
{
    return (struct halay_shm_end){ .fifo = (struct halay_shm_fifo *)segment + sender,
                                   .data =
                                       (unsigned char *)segment + layout->data + (size_t)sender * layout->fifo_bytes,
                                   .bytes = layout->fifo_bytes };
}

#endif
