/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: events of an engine, of fixed size, in a ring where the newest overwrites the oldest. A ring is in a mapped
 * file (the flight recorder: it survives the process, however that ends) or in memory (the timeline).
 *
 * A file is a head of HALAY_RING_HEAD bytes and the records. Numbers are in the byte order of the host, which the magic
 * number shows.
 *
 *     head     0 magic u64 | 8 version u32 | 12 bytes of a record u32 | 16 capacity u64, records | 24 rank i32 |
 *             28 size i32 | 32 begun u64, records so far | 40 pid i64 | 48 wall clock minus the records' clock i64 ns |
 *             56 boot id, 40 bytes | 96 host, 64 bytes | 160 plans u64, in force | 512 meters (base/meters.h)
 *
 *     record   0 number u64, from 1 on, 0: none yet, all ones while it is written | 8 time i64 ns |
 *              16 begin i64 ns | 24 start i64 ns | 32 collective u64 | 40 ordinal u64 | 48 bytes u64 | 56 hash u64 |
 *              64 count u32 | 68 set i32 | 72 kind u8 | 73 operation u8 | 74 dtype u8 | 75 op u8 | 76 status u8 |
 *              77 name length u8 | 78 name, 50 bytes
 */
#ifndef HALAY_BASE_RECORD_H
#define HALAY_BASE_RECORD_H

#include "base/log.h"
#include "base/meters.h"
#include <stdint.h>

enum { HALAY_RING_HEAD = 4096, HALAY_RECORD_NAME = 50, HALAY_RECORD_WORDS = 16 };

/* Event of a record, and the values that it sets beside number, time and kind. Part of the file's format. */
enum halay_record_kind {
    HALAY_RECORD_JOINED = 1, /* the engine has started */
    /* a tensor: name, ordinal, bytes, operation, dtype, op; the flight recorder has those that are not started soon */
    HALAY_RECORD_SUBMITTED,
    /* a collective: collective, name (of its first tensor), count, hash, bytes, operation, dtype, op */
    HALAY_RECORD_STARTED,
    HALAY_RECORD_FINISHED, /* the same, begin: when it started, status */
    HALAY_RECORD_ENDED,    /* a submission: as SUBMITTED; begin: when it was submitted, start: when its collective did
                                (0: never), collective, status */
    HALAY_RECORD_WAITS,    /* the program waits for a tensor: name, ordinal */
    HALAY_RECORD_WAITED,   /* the wait has ended: as WAITS; begin: its start */
    HALAY_RECORD_SLEPT,    /* the engine slept: begin */
    HALAY_RECORD_FAILED, /* the engine has ended: status, name (the cause, or a part of a long one: one record a part),
                                bytes: offset of the part in the cause */
    HALAY_RECORD_LEFT,   /* the program called halay_fini */
    HALAY_RECORD_SET,    /* a process set was made, with this rank in it: set, name (its ranks) */
    HALAY_RECORD_KINDS
};

struct halay_record {
    uint64_t number;
    int64_t time_ns;  /* CLOCK_MONOTONIC */
    int64_t begin_ns; /* the same clock; 0: unknown */
    int64_t start_ns;
    uint64_t collective; /* number in its process set, from 1, the same on all ranks; 0: none */
    uint64_t ordinal;    /* number of the submission of this name on this rank, from 1 */
    uint64_t bytes;
    uint64_t hash;  /* of the names of the first and last tensor of the collective; of the tensor's name */
    uint32_t count; /* tensors */
    int32_t set;    /* number of the process set; 0: all ranks */
    uint8_t kind;   /* enum halay_record_kind */
    uint8_t operation, dtype, op, status;
    uint8_t name_length;
    char name[HALAY_RECORD_NAME]; /* not terminated; halay_record_set_name */
};
_Static_assert(sizeof(struct halay_record) == 8 * HALAY_RECORD_WORDS, "a record is whole words");

/* Stores a name of length bytes of UTF-8; in one that is too long ".." replaces the middle. */
void halay_record_set_name(struct halay_record *record, const char *name, size_t length);

/* Stores the whole characters that fit from the start of a text. Returns their bytes; 0 only if length is 0. */
size_t halay_record_set_part(struct halay_record *record, const char *text, size_t length);

/* Returns the name of the record's operation, "allreduce" and so on (enum halay_collective of halay.h). Static storage;
 * "?" for an unknown one. */
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
    uint64_t plans;             /* that the rank replays: tensors of these have no records */
};

struct halay_ring;

/*
 * Creates a ring of about `bytes`, a few records at least. path: its file, which replaces one of that name; all blocks
 * are reserved, so that a full disk shows here and not as a signal later; NULL: memory. A file that does not fit keeps
 * fewer records; where none fit, *out is NULL; both are warnings: a job must not fail for its records. rank and size go
 * into the head. HALAY_ERR_SYSTEM (logged), HALAY_ERR_NO_MEMORY.
 */
enum halay_status halay_ring_create(struct halay_log *log, const char *path, size_t bytes, int rank, int size,
                                    struct halay_ring **out);
void halay_ring_destroy(struct halay_ring *ring); /* the file stays; NULL is allowed */

/* Returns the meters in the head, valid as long as the ring; only the process that created them writes. */
struct halay_meters *halay_ring_meters(const struct halay_ring *ring);

/* Adds a record and sets its number. Any thread, several at a time; never blocks. Drops the record if another thread
 * has not finished the one that it would overwrite. */
void halay_ring_add(struct halay_ring *ring, const struct halay_record *record);

/* Sets the number of plans in the head. */
void halay_ring_set_plans(struct halay_ring *ring, uint64_t plans);

/* Returns the number of records so far. */
uint64_t halay_ring_begun(const struct halay_ring *ring);
const struct halay_ring_head *halay_ring_head(const struct halay_ring *ring); /* begun is not current */

/* Copies the record of a number (from 1). Returns 0 if it is overwritten, or being written. Other threads may add. */
int halay_ring_get(const struct halay_ring *ring, uint64_t number, struct halay_record *record);

/* Maps a file to read, of a running or an ended process. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, both logged. */
enum halay_status halay_ring_open(struct halay_log *log, const char *path, struct halay_ring **out);

/*
 * Returns the path of one rank's file by a pattern: "%r" becomes the rank; without it the rank precedes the extension
 * ("trace.json": "trace.3.json"), or follows the name. Ranks are numbered anew in each generation of an elastic job, so
 * the name has the generation from the second on ("trace.3-generation2.json"). Freed with free(). NULL: no memory.
 */
char *halay_rank_path(const char *pattern, int rank, unsigned generation);

#endif
