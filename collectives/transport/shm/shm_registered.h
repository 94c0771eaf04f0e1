/* SPDX-License-Identifier: Apache-2.0
 *
 * Registered memory: ranges of the program's memory whose pages have been replaced by pages of this rank's segment, at
 * the same address and with the same contents.
 *
 *     the program's      . . h|h h h ------ whole pages ------ t t|t . .       h, t: head and tail stay private
 *                              |                               |
 *     the segment's heap       |------------ offset -----------|
 *
 * Only whole pages are replaced: what else lies on the pages at the ends may be written by other threads meanwhile.
 */
#ifndef HALAY_SHM_REGISTERED_H
#define HALAY_SHM_REGISTERED_H

#include "base/log.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct halay_shm_range;

struct halay_shm_registered {
    _Atomic size_t count; /* written under lock; read anywhere: 0 needs no lock */
    pthread_mutex_t lock;
    struct halay_shm_range *ranges; /* owned; guarded by lock */
    int pagemap;                    /* owned: /proc/self/pagemap; -1: not open; guarded by lock, set once */
    _Atomic int has_warned;         /* that some range is not there */
};

/* A range of the program's memory and the pages of the segment that are to take the place of its whole pages. */
struct halay_shm_place {
    unsigned char *ptr; /* as the program gave it */
    size_t bytes;
    unsigned char *pages; /* the whole pages in it */
    size_t length;
    uint64_t offset; /* of the pages in the segment */
    int fd;          /* of the segment */
};

void halay_shm_registered_init(struct halay_shm_registered *registered);
/* The program's memory stays as it is: plain memory of this process, in pages that were the segment's. */
void halay_shm_registered_fini(struct halay_shm_registered *registered);

/* Sets pages and length of a place from ptr and bytes, and checks that its pages are private anonymous memory. *why, if
 * there is one: the text of the error. HALAY_ERR_UNSUPPORTED, HALAY_ERR_ARGUMENT (not mapped), HALAY_ERR_DUPLICATE
 * (some of it is registered), HALAY_ERR_SYSTEM. */
enum halay_status halay_shm_registered_check(struct halay_shm_registered *registered, struct halay_shm_place *place,
                                             const char **why);
/* Copies the pages into the segment, where they have memory already, and maps them. HALAY_ERR_NO_MEMORY,
 * HALAY_ERR_SYSTEM: the program's memory is private as before. */
enum halay_status halay_shm_registered_add(struct halay_log *log, struct halay_shm_registered *registered,
                                           const struct halay_shm_place *place);
/* Puts private pages with the same contents back. *place: what was there. HALAY_ERR_ARGUMENT: nothing is registered at
 * ptr; HALAY_ERR_NO_MEMORY: it stays registered; HALAY_ERR_CLOSED: the program has unmapped some of it, or mapped
 * something else there; it is forgotten, and the pages of the segment may be mapped yet. */
enum halay_status halay_shm_registered_remove(struct halay_shm_registered *registered, void *ptr,
                                              struct halay_shm_place *place);

/* Finds the part of [ptr, ptr + bytes) that lies in whole pages of one range, if the rest lies in that range's ends.
 * Returns its offset in the segment, UINT64_MAX if there is none; *head: the bytes before it, *length: its bytes. */
uint64_t halay_shm_registered_find(struct halay_shm_registered *registered, const void *ptr, size_t bytes, size_t *head,
                                   size_t *length);
/* Returns nonzero if the pages of [ptr, ptr + bytes), which find has found, are mapped as they were registered: private
 * ones are not, which malloc may have mapped since the program freed the range. Pages that the system has taken for now
 * count as not mapped. Logs the first time. */
int halay_shm_registered_is_there(struct halay_log *log, struct halay_shm_registered *registered, const void *ptr,
                                  size_t bytes);

#endif
