/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared-memory transport between all ranks of one host: messages and shared memory; events ring the bell.
 */
#ifndef HALAY_SHM_H
#define HALAY_SHM_H

#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/shared_memory.h"

struct halay_bell;
struct halay_shm_memory; /* shm_memory.h */

struct halay_shm_options {
    size_t segment_bytes; /* address space of a rank's segment */
    int timeout_ms;       /* for the exchange of segments */
    int its_host_only;    /* of the ranks of this host, numbered in their order; otherwise all ranks are on it */
    int without_barrier;  /* do not use membarrier (tests) */
    int numa_node;        /* of this rank's segment; -1: the first touch decides */
    int ranks;            /* segments have room for this number of ranks; 0: for those of this transport */
    /* Borrowed until close, outlives the transport: this rank's segment, or a place for it; NULL: the segment ends with
     * the transport. */
    struct halay_shm_memory *memory;
    struct halay_bell *bell; /* borrowed until close: its word is in this rank's segment meanwhile */
    int bell_polls;          /* the bells of all ranks will watch descriptors: their eventfds are exchanged */
};

/* Every rank calls it, and all get the same status unless the bootstrap itself fails; see shm_exchange.h. log and peers
 * are borrowed until close, boot for the call. */
enum halay_status halay_shm_open(struct halay_log *log, const struct halay_shm_options *options,
                                 struct halay_boot *boot, struct halay_peers *peers, struct halay_link **out);

/* Returns nonzero if that rank has closed its link: all that it will ever store has been stored. Any thread. */
int halay_shm_has_left(struct halay_link *link, int peer);

#endif
