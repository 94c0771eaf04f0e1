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
    HALAY_TUNING_COSTS = 32,
    HALAY_TUNING_RULES = 512,
    HALAY_TUNING_FRAGMENTS = 32,
    HALAY_TUNING_SLOTS = 256,
    HALAY_TUNING_TRANSPORT = 16, /* bytes of a transport's name */
};

/* Where the ranks of a group are. */
enum halay_tuning_locality { HALAY_TUNING_LOCAL = 1, HALAY_TUNING_REMOTE = 2 };

/* What a row is about: a transport by name ("": any), ranks of one host or of several (bits of halay_tuning_locality).
 */
struct halay_tuning_scope {
    char transport[HALAY_TUNING_TRANSPORT];
    unsigned localities;
    int line; /* in the text */
};

struct halay_tuning_cost {
    struct halay_tuning_scope scope;
    double a, o, b, g, x, m; /* seconds: see algorithms.def */
};

struct halay_tuning_rule {
    struct halay_tuning_scope scope;
    int ranks_least, ranks_most;
    size_t bytes_most;
    unsigned algorithm; /* index of halay_algorithms */
};

struct halay_tuning_fragment {
    struct halay_tuning_scope scope;
    size_t bytes;
};

/* Operations over shared memory: how much of private data passes through it at a time. */
struct halay_tuning_slot {
    struct halay_tuning_scope scope;
    int operation; /* of enum halay_coll_kind; -1: any */
    int ranks_least, ranks_most;
    size_t bytes_most;
    size_t bytes;
};

struct halay_tuning {
    const struct halay_tuning *next; /* looked at after this one; borrowed; NULL: the last */
    char name[160];                  /* the file's, or "the built-in table" */
    size_t cost_count, rule_count, fragment_count, slot_count;
    struct halay_tuning_cost costs[HALAY_TUNING_COSTS];
    struct halay_tuning_rule rules[HALAY_TUNING_RULES];
    struct halay_tuning_fragment fragments[HALAY_TUNING_FRAGMENTS];
    struct halay_tuning_slot slots[HALAY_TUNING_SLOTS];
};

/* Parse a whole text into *table. HALAY_ERR_CONFIG: why says what is wrong, as "name:line: ..."; *table is
 * undefined. */
enum halay_status halay_tuning_parse(const char *text, const char *name, struct halay_tuning *table, char *why,
                                     size_t size);
/* The same from a file. HALAY_ERR_CONFIG also if it cannot be read. */
enum halay_status halay_tuning_read(const char *path, struct halay_tuning *table, char *why, size_t size);

/* The built-in table, as text; it parses. Static storage. */
extern const char halay_tuning_builtin[];

/* Is this row about that transport and locality (one of halay_tuning_locality)? */
int halay_tuning_fits(const struct halay_tuning_scope *scope, const char *transport, unsigned locality);
/* Bytes of a fragment there, by the first row that fits. */
size_t halay_tuning_fragment(const struct halay_tuning *table, const char *transport, unsigned locality);

/* tuning_share.c: the tables of a job, the same on all ranks. */

/* What rank 0 tells the others about its table, and settings that are rank 0's on every rank. */
struct halay_tuning_head {
    int64_t status; /* HALAY_OK, or why it cannot use its table */
    uint64_t cost_count, rule_count, fragment_count, slot_count;
    uint64_t fragment_bytes, slot_bytes; /* HALAY_RING_SEGMENT, HALAY_SLOT; 0: by table */
    uint64_t check;                      /* HALAY_CHECK */
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
/* Both, with an exchange of heads between. */
enum halay_status halay_tuning_share(struct halay_boot *boot, struct halay_config *config, struct halay_tuning **out);

#endif
