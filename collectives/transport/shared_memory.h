/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory: what the ranks of one host let each other load from and store into.
 *
 * Every rank owns one segment that all of them have mapped. It holds the areas of groups, and a heap. A group has an
 * area of HALAY_AREA_BYTES for each of its channels, one after the other; what is in them is the business of
 * collectives/. A store into an area that another rank may be sleeping for is followed by notify.
 *
 * Ranks are numbered among those that share it; the world's route has their numbers (route.h). It lives as long as the
 * link that has it.
 */
#ifndef HALAY_SHARED_MEMORY_H
#define HALAY_SHARED_MEMORY_H

#include "collectives/transport/link.h"

#define HALAY_AREA_BYTES ((size_t)4 << 20) /* address space; only what is touched takes memory */
#define HALAY_GROUP_BYTES (HALAY_CHANNELS * HALAY_AREA_BYTES)

#define HALAY_PRIVATE UINT64_MAX /* the offset of memory that peers cannot reach */

struct halay_shared_memory {
    const struct halay_shared_memory_ops *ops;
    int rank, size;
};

/* Any thread. */
struct halay_shared_memory_ops {
    /* Memory for user data, 4096-aligned, zeroed or not. free takes what alloc gave, or NULL; no rank may be using it.
     * HALAY_ERR_NO_MEMORY, logged. */
    enum halay_status (*alloc)(struct halay_shared_memory *m, size_t bytes, void **out);
    void (*free)(struct halay_shared_memory *m, void *ptr);
    /* Keeps memory of alloc when this ends, as in link.h. NULL: not possible. */
    void (*keep)(struct halay_shared_memory *m, void *ptr, struct halay_kept *kept);

    /* Makes the program's own memory reachable for peers at its address, and private again (include/halay.h); whole
     * pages only. NULL: not possible. Errors, logged: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED, HALAY_ERR_DUPLICATE,
     * HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM. */
    enum halay_status (*register_memory)(struct halay_shared_memory *m, void *ptr, size_t bytes);
    enum halay_status (*unregister_memory)(struct halay_shared_memory *m, void *ptr);
    /* Returns the offset of the part of [ptr, ptr + bytes) that is registered where locate does not: all but less than
     * a page at each end. *head: the bytes before it, *length: its bytes. HALAY_PRIVATE: there is none. NULL as above.
     */
    uint64_t (*locate_pages)(struct halay_shared_memory *m, const void *ptr, size_t bytes, size_t *head,
                             size_t *length);

    /* HALAY_GROUP_BYTES of this rank's segment for the areas of a group, all zero. The first that a rank takes have
     * the same offset as those of the others. HALAY_ERR_NO_MEMORY, not logged: the segment is full. */
    enum halay_status (*take_areas)(struct halay_shared_memory *m, uint64_t *offset);
    /* Gives them and their memory back. No rank looks at them any more. */
    void (*give_areas)(struct halay_shared_memory *m, uint64_t offset);
    /* Returns the offset of [ptr, ptr + bytes) in this rank's segment, HALAY_PRIVATE if any byte is outside. */
    uint64_t (*locate)(struct halay_shared_memory *m, const void *ptr, size_t bytes);
    /* The address here of peer's offset (peer may be this rank); NULL if [offset, offset + bytes) is not inside its
     * segment. */
    void *(*reach)(struct halay_shared_memory *m, int peer, uint64_t offset, size_t bytes);

    /* Wakes peer if it sleeps: this rank stored something (release) that it may be waiting for. Cheap when it does
     * not. */
    void (*notify)(struct halay_shared_memory *m, int peer);
};

#endif
