/* SPDX-License-Identifier: Apache-2.0
 *
 * Fifo: a ring of records from one sender to one receiver, in the receiver's segment.
 *
 *     head line   | written by the sender: bytes put so far                                      |
 *     tail line   | written by the receiver: bytes taken so far, bytes that reached a receive     |
 *     want line   | written by the sender: it waits for the tail to move                          |
 *     data        | record, padded to a line | record | ... | (pad to the end) | record ...       |
 *
 * A record is a header of 32 bytes and its payload, in one piece: one that does not fit before the end of the ring is
 * at its start, after a pad. A message of up to 32 bytes is the head line and one line more.
 *
 *     kind      serial of            tag  total           at                   payload
 *     FIRST     the message          yes  of the message  0                    its first bytes, or none
 *     MORE      the message          -    -               offset in it         the bytes from there on
 *     LOOK      the message          yes  of the message  its place in         none: the receiver copies from the
 *                                                         the sender's segment sender's segment
 *     GO        the other's message  -    -               -                    none: its receive is posted
 *     DONE      the other's message  -    -               -                    none: it is copied
 *     PAD       -                    -    -               -                    any bytes
 *
 * Pairing of atomics: put stores head (release) after the record is written, peek loads it (acquire) before it reads
 * the record; take stores tail (release) after the record was read, put loads it (acquire) before it overwrites the
 * record. Nothing in a ring is trusted: a record's header is read once, and its lengths are checked against the ring
 * and the message.
 */
#ifndef HALAY_SHM_FIFO_H
#define HALAY_SHM_FIFO_H

#include "base/memory.h"
#include "halay_types.h"
#include <stdatomic.h>
#include <stdint.h>

/* The counters of a ring. A receiver looks at those of all its peers, so they are together and apart from the data:
 * beside its data, each peer's would cost a page before it has sent anything. */
struct halay_shm_fifo {
    _Alignas(4 * HALAY_CACHE_LINE) _Atomic uint64_t head;
    _Alignas(HALAY_CACHE_LINE) _Atomic uint64_t tail;
    _Atomic uint64_t delivered; /* bytes of FIRST payloads that reached a receive (relaxed; a budget) */
    _Alignas(HALAY_CACHE_LINE) _Atomic uint32_t wants; /* the sender waits for tail or delivered to move (relaxed) */
};

enum halay_shm_kind {
    HALAY_SHM_FIRST = 1,
    HALAY_SHM_MORE,
    HALAY_SHM_LOOK,
    HALAY_SHM_GO,
    HALAY_SHM_DONE,
    HALAY_SHM_PAD
};

struct halay_shm_record {
    uint64_t tag;
    uint32_t serial;
    uint32_t kind : 8;
    uint32_t bytes : 24; /* of the payload, less than a ring */
    uint64_t total;
    uint64_t at;
    unsigned char payload[];
};

/* A copy of a record's header: its sender can change the ring, and what was checked must stay true. */
struct halay_shm_seen {
    uint64_t tag;
    uint32_t kind, serial, bytes;
    uint64_t total, at;
    const unsigned char *payload; /* in the ring: its bytes may change at any time */
};

/* One end of a fifo, in the memory of its process. */
struct halay_shm_end {
    struct halay_shm_fifo *fifo; /* borrowed: in a segment */
    unsigned char *data;         /* borrowed: in the same segment */
    size_t bytes;                /* of data: a power of two */
    uint64_t mine;               /* the counter that this end writes */
    uint64_t theirs;             /* the other one, as last seen */
};

/* Returns room for a record with this number of bytes of payload, to be filled in and then put; NULL if the ring is
 * full. */
struct halay_shm_record *halay_shm_reserve(struct halay_shm_end *end, size_t payload);
void halay_shm_put(struct halay_shm_end *end, const struct halay_shm_record *record);

/* Reads the oldest record's header; kind 0: the ring is empty. HALAY_ERR_FORMAT: lengths that are impossible. */
enum halay_status halay_shm_peek(struct halay_shm_end *end, struct halay_shm_seen *record);
void halay_shm_take(struct halay_shm_end *end, const struct halay_shm_seen *record);

/* Returns nonzero if the ring has a record. The one load that every progress makes for every peer. */
static inline int halay_shm_has_record(struct halay_shm_end *end)
{
    if (end->theirs == end->mine)
        end->theirs = atomic_load_explicit(&end->fifo->head, memory_order_acquire);
    return end->theirs != end->mine;
}

#endif
