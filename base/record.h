/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: what an engine did, as records of fixed size in a ring, the newest over the oldest. A ring lies in a file
 * that is mapped (the flight recorder: what is in it survives the process, however that ends) or in memory (the
 * timeline).
 *
 * A file is a head of HALAY_RING_HEAD bytes and the records. Numbers are in the byte order of the host, which the magic
 * number shows.
 *
 *     head     0 magic u64 | 8 version u32 | 12 bytes of a record u32 | 16 capacity u64, records | 24 rank i32 |
 *             28 size i32 | 32 begun u64, records so far | 40 pid i64 | 48 wall clock minus the records' clock i64 ns |
 *             56 boot id, 40 bytes | 96 host, 64 bytes | 512 meters (base/meters.h)
 *
 *     record   0 number u64, from 1 on, 0: none yet, all ones while it is written | 8 time i64 ns |
 *              16 begin i64 ns | 24 start i64 ns | 32 collective u64 | 40 ordinal u64 | 48 bytes u64 | 56 hash u64 |
 *              64 count u32 | 68 set u16 | 70 kind u8 | 71 operation u8 | 72 dtype u8 | 73 op u8 | 74 status u8 |
 *              75 name length u8 | 76 name, 52 bytes
 */
#ifndef HALAY_BASE_RECORD_H
#define HALAY_BASE_RECORD_H

#include "base/log.h"
#include "base/meters.h"
#include <stdint.h>

enum { HALAY_RING_HEAD = 4096, HALAY_RECORD_NAME = 52, HALAY_RECORD_WORDS = 16 };

/* What a record tells, and which of its values are set beside number, time and kind. Part of the file's format. */
enum halay_record_kind {
    HALAY_RECORD_JOINED = 1, /* the engine is there */
    HALAY_RECORD_SUBMITTED,  /* a tensor: name, ordinal, bytes, operation, dtype, op */
    /* a collective: collective, name (of its first tensor), count, hash, bytes, operation, dtype, op */
    HALAY_RECORD_STARTED,
    HALAY_RECORD_FINISHED, /* the same, begin: when it started, status */
    HALAY_RECORD_ENDED,    /* a submission: as SUBMITTED; begin: when it was submitted, start: when its collective did
                                (0: never), collective, status */
    HALAY_RECORD_WAITS,    /* the program waits for a tensor: name, ordinal */
    HALAY_RECORD_WAITED,   /* it goes on: as WAITS; begin: since when it had waited */
    HALAY_RECORD_SLEPT,    /* the engine slept: begin */
    HALAY_RECORD_FAILED,   /* the engine is over: status, name (the cause, or a part of it: several records tell a long
                                one), bytes: where in the cause the part begins */
    HALAY_RECORD_LEFT,     /* the program called halay_fini */
    HALAY_RECORD_SET,      /* a process set was made, with this rank in it: set, name (its ranks) */
    HALAY_RECORD_KINDS
};

struct halay_record {
    uint64_t number;
    int64_t time_ns;  /* CLOCK_MONOTONIC */
    int64_t begin_ns; /* the same clock; 0: unknown */
    int64_t start_ns;
    uint64_t collective; /* which one of its process set's, from 1; the same on all ranks; 0: none, or by express */
    uint64_t ordinal;    /* which submission of that name on this rank, from 1 */
    uint64_t bytes;
    uint64_t hash;  /* of the names of all tensors of the collective, in order; of the tensor's name */
    uint32_t count; /* tensors */
    uint16_t set;   /* number of the process set that it is about; 0: all ranks */
    uint8_t kind;   /* enum halay_record_kind */
    uint8_t operation, dtype, op, status;
    uint8_t name_length;
    char name[HALAY_RECORD_NAME]; /* not terminated; halay_record_set_name */
};
_Static_assert(sizeof(struct halay_record) == 8 * HALAY_RECORD_WORDS, "a record is whole words");

/* Store a name of length bytes of UTF-8; one that is too long loses its middle, which becomes "..". */
void halay_record_set_name(struct halay_record *record, const char *name, size_t length);

/* Store the beginning of a text, as many whole characters as fit; how many bytes they are, 0 only if length is 0. */
size_t halay_record_set_part(struct halay_record *record, const char *text, size_t length);

/* What the record's tensor is for: "allreduce" and so on; the numbers are those of enum halay_collective in halay.h.
 * Static storage; "?" for one that is not known. */
const char *halay_record_operation(const struct halay_record *record);

/* The head also holds the meters of the process (base/meters.h), from byte HALAY_RING_METERS on. */
enum { HALAY_RING_METERS = 512 };

struct halay_ring_head {
    uint64_t magic;
    uint32_t version, record_bytes;
    uint64_t capacity;
    int32_t rank, size;
    uint64_t begun;
    int64_t pid, wall_ns;
    char boot_id[40], host[64]; /* terminated */
};

struct halay_ring;

/*
 * A ring of about `bytes`; at least a few records. path: its file, made anew (one of that name is removed first), all
 * its blocks reserved, so that a full disk shows here and not as a signal later; NULL: memory. Where the file does not
 * fit, it keeps fewer records, and where none do, *out is NULL; both are warnings: no job ends for its records. rank
 * and size go into the head. HALAY_ERR_SYSTEM (logged), HALAY_ERR_NO_MEMORY.
 */
enum halay_status halay_ring_create(struct halay_log *log, const char *path, size_t bytes, int rank, int size,
                                    struct halay_ring **out);
void halay_ring_destroy(struct halay_ring *ring); /* the file stays; NULL is allowed */

/* The meters in the file: they live as long as the ring; only their maker writes them. */
struct halay_meters *halay_ring_meters(const struct halay_ring *ring);

/* Add a record; its number is set here. Any thread, several at a time; never blocks. It is dropped where another thread
 * has not finished the record that it would overwrite. */
void halay_ring_add(struct halay_ring *ring, const struct halay_record *record);

/* Records so far. */
uint64_t halay_ring_begun(const struct halay_ring *ring);
const struct halay_ring_head *halay_ring_head(const struct halay_ring *ring); /* but for begun */

/* The record of that number (from 1): 0 if it is overwritten, or being written. May be called while others add. */
int halay_ring_get(const struct halay_ring *ring, uint64_t number, struct halay_record *record);

/* Map a file, of a process that lives or not, to be read. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, both logged. */
enum halay_status halay_ring_open(struct halay_log *log, const char *path, struct halay_ring **out);

/*
 * Where one rank's file is, by a pattern for all of them: "%r" becomes the rank; without it the rank goes in front of
 * the extension ("trace.json": "trace.3.json"), or behind the name. Ranks begin anew in each generation of an elastic
 * job: from the second on it is in the name, too ("trace.3-generation2.json"). Freed with free(). NULL: no memory.
 */
char *halay_rank_path(const char *pattern, int rank, unsigned generation);

#endif
