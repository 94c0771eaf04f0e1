/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory: what the ranks of one host let each other load from and store into.
 *
 * Every rank owns one segment that all of them have mapped. It holds HALAY_AREA_COUNT areas of HALAY_AREA_BYTES each
 * (fewer if its link carries fewer groups), zero at the start, and a heap. Areas belong to (group, channel) pairs; what
 * is in them is the business of collectives/. A store into an area that another rank may be sleeping for is followed by
 * notify.
 *
 * Ranks are numbered among those that share it; the world's route has their numbers (route.h). It lives as long as the
 * link that has it.
 */
#ifndef HALAY_SHARED_MEMORY_H
#define HALAY_SHARED_MEMORY_H

#include "collectives/transport/link.h"

enum { HALAY_AREA_COUNT = HALAY_GROUPS_MAX * HALAY_CHANNELS };
#define HALAY_AREA_BYTES ((size_t)4 << 20) /* address space; only what is touched takes memory */

#define HALAY_PRIVATE UINT64_MAX /* the offset of memory that peers cannot reach */

struct halay_shared_memory {
    const struct halay_shared_memory_ops *ops;
    int rank, size;
};

/* Any thread, except clear. */
struct halay_shared_memory_ops {
    /* Memory for user data, 4096-aligned, zeroed or not. free takes what alloc gave, or NULL; no rank may be using it.
     * HALAY_ERR_NO_MEMORY, logged. */
    enum halay_status (*alloc)(struct halay_shared_memory *m, size_t bytes, void **out);
    void (*free)(struct halay_shared_memory *m, void *ptr);
    /* What alloc gave stays where it is when this ends, as in link.h. NULL: not possible. */
    void (*keep)(struct halay_shared_memory *m, void *ptr, struct halay_kept *kept);

    /* The area number index of rank peer (peer may be this rank), never NULL. */
    void *(*area)(struct halay_shared_memory *m, int peer, int index);
    /* Makes count areas of this rank's from index on zero again, and gives their memory back. No rank stores into them;
     * a load sees either what was there or zero. */
    void (*clear)(struct halay_shared_memory *m, int index, int count);
    /* Where [ptr, ptr + bytes) is in this rank's segment, HALAY_PRIVATE if any byte is outside. */
    uint64_t (*locate)(struct halay_shared_memory *m, const void *ptr, size_t bytes);
    /* The address here of peer's offset; NULL if [offset, offset + bytes) is not inside its segment. */
    void *(*reach)(struct halay_shared_memory *m, int peer, uint64_t offset, size_t bytes);

    /* Wakes peer if it sleeps: this rank stored something (release) that it may be waiting for. Cheap when it does
     * not. */
    void (*notify)(struct halay_shared_memory *m, int peer);
};

#endif
