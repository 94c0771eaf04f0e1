/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that parts travel in without a copy: what a transport over a message library gave out itself (its slot
 * alloc). Such a library may still use a buffer after its transfer was taken back; a block that is given back
 * meanwhile is kept until the library has done with it.
 *
 *     block         sent from directly   received into directly
 *     alloc                yes                   no: after a cancel a late part may not be written there
 *     alloc in_transit     yes                   yes
 *     any other             no                   no
 *
 * Threads: all functions may be called by any thread, init and fini apart.
 */
#ifndef HALAY_PARTS_MEMORY_H
#define HALAY_PARTS_MEMORY_H

#include "collectives/transport/module.h"
#include <pthread.h>

struct halay_parts_block {
    unsigned char *base; /* owned */
    size_t bytes;
    int may_receive;         /* may be received into after a cancel */
    int is_given_back;       /* by its caller: to be freed with its last use. These two: guarded by memory.lock */
    size_t uses;             /* parts in it that are with the library */
    int is_kept;             /* the base is the caller's when the transport is closed */
    struct halay_kept *kept; /* borrowed until hand_over; NULL: it is not kept, or has been handed over */
};

struct halay_parts_memory {
    const struct halay_host *host;     /* borrowed; NULL: nothing for fini to do */
    pthread_mutex_t lock;              /* guards what follows */
    struct halay_parts_block **blocks; /* owned, by address */
    size_t count, capacity;
};

/* Storage of the caller's. fini takes what init made, or zeroed storage; blocks that were not given back are freed,
 * those in use only if the library has ended. */
enum halay_status halay_parts_memory_init(struct halay_parts_memory *memory, const struct halay_host *host);
void halay_parts_memory_fini(struct halay_parts_memory *memory, int library_goes_on);

/* Makes a block of that many bytes, 4096-aligned. HALAY_ERR_NO_MEMORY, logged. */
enum halay_status halay_parts_memory_alloc(struct halay_parts_memory *memory, size_t bytes, int may_receive,
                                           void **out);
/* Memory of alloc that fini does not free. kept is borrowed until hand_over, if that is called. */
void halay_parts_memory_keep(struct halay_parts_memory *memory, const void *ptr, struct halay_kept *kept);
/* The transport is closed, and fini follows later: what the library below still uses of what is kept is lost. */
void halay_parts_memory_hand_over(struct halay_parts_memory *memory);
/* ptr: of alloc, or NULL. */
void halay_parts_memory_free(struct halay_parts_memory *memory, const void *ptr);

/* The block which has all of [buf, buf + bytes), if it may travel from (is_send) or to there without a copy: it
 * counts a use more, until unuse. NULL: copy. */
struct halay_parts_block *halay_parts_memory_use(struct halay_parts_memory *memory, int is_send, const void *buf,
                                                 size_t bytes);
void halay_parts_memory_unuse(struct halay_parts_memory *memory, struct halay_parts_block *block);

#endif
