/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning table: what the choice of an algorithm goes by. Text that people can read, write and get measured (halay-perf
 * tune); docs/reference/tuning.md describes it.
 *
 * A table is plain data: rank 0 reads it and every rank is given a copy (tuning_share.c), so that all choose alike.
 * Tables are looked at one after the other: the file's, then the built-in one, which has an answer for everything.
 */
#ifndef HALAY_TUNING_H
#define HALAY_TUNING_H

#include "collectives/schedule/coll.h"

struct halay_boot;
struct halay_config;

enum {
    HALAY_TUNING_ROWS = 768,
    HALAY_TUNING_TRANSPORT = 16, /* bytes of a transport's name */
};

/* Bits: the ranks of a group are on one host, on several. */
enum halay_tuning_locality { HALAY_TUNING_LOCAL = 1, HALAY_TUNING_REMOTE = 2 };

/* A row gives costs, an algorithm to use, the bytes of a chunk, or, for operations over shared memory, the bytes of
 * private data that pass through it at a time. */
enum halay_tuning_kind { HALAY_TUNING_COST, HALAY_TUNING_USE, HALAY_TUNING_SEGMENT, HALAY_TUNING_SLOT };

/* Seconds: see algorithms.def. */
struct halay_tuning_cost {
    double a, o, b, g, x, m;
};

struct halay_tuning_row {
    enum halay_tuning_kind kind;
    int line; /* in the text */
    /* The row applies to a transport by name ("": any) and ranks of one host or of several (bits of
     * halay_tuning_locality). A use or slot also to one operation (enum halay_coll_kind; -1: any), some numbers of
     * ranks and some bytes. */
    char transport[HALAY_TUNING_TRANSPORT];
    unsigned localities;
    int operation;
    int ranks_min, ranks_max;
    size_t bytes_max;
    union {
        struct halay_tuning_cost cost;
        unsigned algorithm; /* of a use: index of halay_algorithms */
        size_t bytes;       /* of a segment or slot */
    };
};

struct halay_tuning {
    const struct halay_tuning *next; /* looked at after this one; borrowed; NULL: the last */
    char name[160];                  /* the file's, or "the built-in table" */
    size_t count;
    struct halay_tuning_row rows[HALAY_TUNING_ROWS];
};

/* The key by which rows are found. */
struct halay_tuning_key {
    enum halay_tuning_kind kind;
    const char *transport;
    unsigned locality; /* one of halay_tuning_locality */
    int operation, ranks;
    size_t bytes;
};

/* Parses a whole text into *table. HALAY_ERR_CONFIG: why has what is wrong, as "name:line: ..."; *table is
 * undefined. */
enum halay_status halay_tuning_parse(const char *text, const char *name, struct halay_tuning *table, char *why,
                                     size_t size);
/* Reads a file and parses it. HALAY_ERR_CONFIG also if it cannot be read. */
enum halay_status halay_tuning_read(const char *path, struct halay_tuning *table, char *why, size_t size);

/* The built-in table, as text; it parses. Static storage. */
extern const char halay_tuning_builtin[];

/* Returns the first row of this table after that one (NULL: of all) that fits, or NULL. */
const struct halay_tuning_row *halay_tuning_find(const struct halay_tuning *table, const struct halay_tuning_key *key,
                                                 const struct halay_tuning_row *after);
/* Returns the bytes of a chunk there, by the first row that fits. */
size_t halay_tuning_chunk(const struct halay_tuning *table, const char *transport, unsigned locality);

/* tuning_share.c: the tables of a job, the same on all ranks. */

/* Rank 0's message about its table, and settings that are rank 0's on every rank. */
struct halay_tuning_head {
    int64_t status;                   /* HALAY_OK, or why it cannot use its table */
    uint64_t count;                   /* of rows */
    uint64_t chunk_bytes, slot_bytes; /* HALAY_RING_SEGMENT, HALAY_SLOT; 0: by table */
    uint64_t check;                   /* HALAY_CHECK */
    uint64_t device_algorithm;        /* HALAY_DEVICE_ALGORITHM */
    char name[sizeof((struct halay_tuning *)0)->name];
};

/* Makes *out, which is the caller's to free, and on rank 0 reads the file into it, what is logged if that fails is in
 * head->status. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_tuning_offer(struct halay_log *log, const struct halay_config *config, int rank,
                                     struct halay_tuning_head *head, struct halay_tuning **out);
/* Completes the tables by rank 0's head: every rank calls it, over the bootstrap. Rank 0's error is every rank's. In
 * config, rank 0's settings become every rank's. */
enum halay_status halay_tuning_take(struct halay_boot *boot, const struct halay_tuning_head *head,
                                    struct halay_config *config, struct halay_tuning *tables);
/* Does both, with an exchange of heads between. */
enum halay_status halay_tuning_share(struct halay_boot *boot, struct halay_config *config, struct halay_tuning **out);

#endif
