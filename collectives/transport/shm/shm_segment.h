/* SPDX-License-Identifier: Apache-2.0
 *
 * Segment: the shared memory that a rank owns, and that all ranks of its host have mapped.
 *
 *     0            4096                  areas                        heap                    bytes
 *     +------------+---------------------+----------------------------+-----------------------+
 *     | header     | fifos: [sender]     | areas: [group][channel]    | allocated memory      |
 *     +------------+---------------------+----------------------------+-----------------------+
 *
 * It is as large as the machine's memory. Pages take memory when they are touched (fifos, areas) or allocated (heap, at
 * once, so that a lack of memory is an error and not a signal).
 */
#ifndef HALAY_SHM_SEGMENT_H
#define HALAY_SHM_SEGMENT_H

#include "base/memory.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/heap.h"
#include "collectives/transport/link.h"
#include "collectives/transport/shm/shm_fifo.h"
#include <stdint.h>

#define HALAY_SHM_MAGIC UINT64_C(0x79616c6168006d73) /* "sm", 0, "halay" */

enum { HALAY_SHM_VERSION = 1, HALAY_SHM_NONCE_BYTES = 16 };

/* A line of its own for each group of fields that one side writes. */
struct halay_shm_header {
    /* Set once by the owner before the segment is passed. */
    uint64_t magic;
    uint32_t version;
    uint32_t rank, size;
    uint32_t has_barrier; /* the owner is registered for membarrier and can call it */
    uint64_t bytes;
    unsigned char nonce[HALAY_SHM_NONCE_BYTES];

    _Alignas(HALAY_CACHE_LINE) struct halay_bell_word bell; /* the owner sleeps on it */

    /* HALAY_SHM_LEFT, or HALAY_SHM_LEFT_FOR + r: because of rank r, which it had lost. The owner's last store here
     * (release); loaded (acquire) by the others. */
    _Alignas(HALAY_CACHE_LINE) _Atomic uint32_t has_left;
};

enum { HALAY_SHM_LEFT = 1, HALAY_SHM_LEFT_FOR = 2 };

/* Offsets in a segment; equal on all ranks, they follow from size and bytes. */
struct halay_shm_layout {
    size_t fifo_bytes; /* of one fifo's data */
    int groups;        /* HALAY_GROUPS_MAX, or HALAY_GROUPS_FEW in a segment that is too small */
    size_t areas, heap, bytes;
};

/* Returns the smallest segment of a job of `size` ranks, in bytes. */
size_t halay_shm_least_bytes(int size);
void halay_shm_layout(int size, size_t bytes, struct halay_shm_layout *layout);

/* Halves `wanted` until the address space holds `size` segments of that size. HALAY_ERR_NO_MEMORY, logged: not even the
 * smallest ones fit. */
enum halay_status halay_shm_fit(struct halay_log *log, int size, size_t wanted, size_t *bytes);

static inline struct halay_shm_fifo *halay_shm_fifo_of(void *segment, const struct halay_shm_layout *layout, int sender)
{
    size_t stride = sizeof(struct halay_shm_fifo) + layout->fifo_bytes;

    return (struct halay_shm_fifo *)((unsigned char *)segment + HALAY_PAGE + (size_t)sender * stride);
}

#endif
