/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a channel's area of shared memory.
 *
 *     offset   one area a (rank, channel); only its rank writes, but for the slots and leavers
 *     0        arrival: number of the collective's first chunk + 1, where its buffers lie
 *     128      filled: chunks that this rank has put into its slots
 *     256      done: chunks that this rank has reduced, or copied
 *     384      barrier: how many this rank has come to
 *     512      closed (channel 0's area): this rank has given up, with what status, for which rank, or has left
 *              finished: this rank has done its part of all collectives of the channel with lower numbers
 *     640      busy: this rank is touching memory of others
 *     768      leavers (channel 0's area): how many other members look at this rank's areas no more (group_end.h)
 *              next: the number of the collective that this rank starts next on the channel
 *     896      taken: chunks of results that this rank has copied out of every rank's slots (hierarchical)
 *     1024     read: exchanges that this rank is done with (oneshot.h)
 *     4096     one-shot: two slots, each a number directly followed by its data
 *     36 K     where the pieces of a list are, and which element of the list is the first after each, TABLE_MAX / 2 of
 *              them; all-to-all: offset and length of each rank's block
 *     256 K    slots: what goes through here because it is in private memory; others read it and write results back
 *
 * Numbers only grow and never start again while the area lives; a channel's collectives come in the same order on all
 * ranks, so every rank computes the same numbers. A store of a number (release) publishes all that its rank wrote
 * before; a load that sees it (acquire) may read that.
 */
#ifndef HALAY_AREA_H
#define HALAY_AREA_H

#include "collectives/transport/shared_memory.h"
#include <stdatomic.h>

enum {
    HALAY_ONESHOTS = 2,
    HALAY_ONESHOT_BYTES = 16384 - 8, /* data of one slot */
    HALAY_TABLE_MAX = 28160,         /* numbers, two a piece; a longer list goes through the slots */
};
#define HALAY_SLOTS_OFFSET ((size_t)256 << 10)
#define HALAY_SLOTS_BYTES (HALAY_AREA_BYTES - HALAY_SLOTS_OFFSET)

struct halay_oneshot_slot {
    _Alignas(64) _Atomic uint64_t number; /* of the exchange whose data follow */
    unsigned char data[HALAY_ONESHOT_BYTES];
};

struct halay_area {
    _Alignas(128) _Atomic uint64_t arrived;
    uint64_t in_offset, out_offset; /* HALAY_PRIVATE: through the slots */
    uint64_t chunks;                /* all-to-all: of the longest block */
    uint32_t in_table, out_table;   /* pieces in the table instead; 0: one array */
    uint32_t out_first;             /* where those of out begin there, in numbers */
    _Alignas(128) _Atomic uint64_t filled;
    _Alignas(128) _Atomic uint64_t done;
    _Alignas(128) _Atomic uint64_t barrier;
    _Alignas(128) _Atomic uint32_t closed; /* 0, or a status; HALAY_ERR_CLOSED: left in peace */
    int32_t failed_rank;                   /* the rank that is to blame */
    uint32_t is_dead;                      /* the rank that is to blame is dead */
    uint64_t finished;                     /* stored before closed: it has done its part of lower numbers */
    _Alignas(128) _Atomic uint32_t busy;
    _Alignas(128) _Atomic uint32_t leavers;
    _Atomic uint64_t next; /* read by peers that report a stall only */
    _Alignas(128) _Atomic uint64_t taken;
    _Alignas(128) _Atomic uint64_t read;
    _Alignas(4096) struct halay_oneshot_slot oneshot[HALAY_ONESHOTS];
    _Alignas(4096) uint64_t table[HALAY_TABLE_MAX];
};
_Static_assert(sizeof(struct halay_area) <= (size_t)256 << 10, "the slots begin after it");

#endif
