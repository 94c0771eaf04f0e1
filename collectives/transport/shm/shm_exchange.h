/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: every rank creates its segment and gets those of all others mapped.
 */
#ifndef HALAY_SHM_EXCHANGE_H
#define HALAY_SHM_EXCHANGE_H

#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/shm/shm_memory.h"

struct halay_shm_map {
    struct halay_shm_layout layout;
    int rank, size; /* members only, in order of their ranks */
    void **base;    /* owned: [size] mappings of layout.bytes, NULL if not mapped; this rank's own is its memory's */
    struct halay_shm_entry *board; /* owned: [size], shared by all of them; NULL if not mapped */
    void *space;                   /* owned: address space with the mappings of the others; NULL: none */
    size_t space_bytes;
    int *ranks;    /* owned: [size], the bootstrap's number of each */
    int *event_fd; /* owned, as is what it contains: [size], of each one's bell; -1: it has none, or is this rank's */
};

struct halay_shm_exchange_options {
    struct halay_shm_memory *memory; /* borrowed until map's fini: this rank's segment; made if it has none yet */
    size_t wanted; /* bytes of address space of a segment; less if not all of them fit into what this process may use */
    int ranks;     /* the most ranks that segments are laid out for; 0: those that there are */
    struct halay_bell *bell; /* borrowed for the call */
    int bell_polls;          /* as in shm.h */
    int its_host_only;
    int without_barrier; /* as in shm.h */
    int timeout_ms;
};

/* Create, pass and map. Every rank of the bootstrap calls it, also if its_host_only (members are then the ranks of this
 * host, as they claim; otherwise all), and all get the same status unless the bootstrap itself fails:
 * HALAY_ERR_UNSUPPORTED (some rank cannot map another's: not one host, or not one container; silent but for a line of
 * debug and info. Or a segment that there is has another size than is possible now), HALAY_ERR_NO_MEMORY,
 * HALAY_ERR_SYSTEM, HALAY_ERR_TIMEOUT. Zero-initialised storage; fini accepts any state. */
enum halay_status halay_shm_exchange(struct halay_log *log, struct halay_boot *boot, struct halay_peers *peers,
                                     const struct halay_shm_exchange_options *options, struct halay_shm_map *map);
/* Instead of halay_shm_exchange, for a rank that has no memory for it: the others get this status. */
void halay_shm_exchange_refuse(struct halay_boot *boot, enum halay_status status, int timeout_ms);
void halay_shm_map_fini(struct halay_shm_map *map);

#endif
