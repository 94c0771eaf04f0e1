/* SPDX-License-Identifier: Apache-2.0
 *
 * Choice of an algorithm: a pure function of what every rank knows alike, over a tuning table (tuning.h) that all ranks
 * have alike.
 */
#ifndef HALAY_SELECT_H
#define HALAY_SELECT_H

#include "base/config.h"
#include "base/memory.h"
#include "collectives/schedule/coll.h"

enum {
    /* The hierarchical all-reduce's chunks under way, and their bytes. */
    HALAY_NODES_DEPTH = 4,
    HALAY_CHUNK_MIN = 32 << 10,
    HALAY_CHUNK_MAX = 512 << 10,
};

/* Returns the chunk of a row of `bytes` bytes; it may be longer than the row. */
static inline size_t halay_nodes_chunk(size_t bytes)
{
    size_t chunk = halay_round_up(bytes / HALAY_NODES_DEPTH + 1, HALAY_PAGE);

    if (chunk < HALAY_CHUNK_MIN)
        return HALAY_CHUNK_MIN;
    return chunk > HALAY_CHUNK_MAX ? HALAY_CHUNK_MAX : chunk;
}

struct halay_tuning; /* tuning.h */

struct halay_select_query {
    enum halay_coll_kind operation;
    size_t bytes; /* of the longer of in and out; all-to-all with splits: SIZE_MAX, no rank knows every rank's */
    int is_half;  /* f16 or bf16 */
    int size;
    int is_local;          /* all ranks are on one host */
    const char *transport; /* its name */
    enum halay_sharing sharing;
    int hosts; /* that the ranks are on; 0: each on one of its own */
    /* Operations of this kind at the same time: 0 means 1. */
    int flows;    /* over each host's link, by other ranks: a byte takes as many times as long */
    int overlap;  /* one after the other: they hide each other's latency */
    size_t chunk; /* bytes */
    size_t slot;  /* bytes; 0: by table */
    enum halay_deterministic deterministic;
    const struct halay_algorithm *forced; /* by configuration or call; NULL: by table */
    const struct halay_tuning *tuning;    /* its last table has costs for everything */
};

/* Returns the algorithm, never NULL. why: a phrase to follow "because: ", cut to size; may be NULL. */
const struct halay_algorithm *halay_select(const struct halay_select_query *query, char *why, size_t size);

/* Returns the question for an all-reduce that the devices of a host make through segments: one-shot or two-shot, as for
 * memory that the ranks share, by the rows of transport "cuda". */
struct halay_select_query halay_select_on_devices(const struct halay_tuning *tuning, int ranks, size_t bytes);

/* Returns the bytes that an algorithm over shared memory passes through a slot at a time, if there is room for that
 * many: by the first row that fits. */
size_t halay_select_slot(const struct halay_select_query *query);

/* Returns the seconds that it takes by its formula, with the costs of the first table that has some for this transport
 * and locality. */
double halay_select_seconds(const struct halay_select_query *query, const struct halay_algorithm *algorithm);

/* Returns the question for the all-reduces between the hosts that the hierarchical one consists of, each of one rank a
 * host, for a chunk of that many bytes: query is the whole's. The same on all ranks. */
struct halay_select_query halay_select_between(const struct halay_select_query *query, size_t chunk);

/* Checks that this group may use an algorithm: HALAY_OK, or HALAY_ERR_UNSUPPORTED with *why. */
enum halay_status halay_select_allows(const struct halay_algorithm *algorithm, int size, enum halay_sharing sharing,
                                      enum halay_deterministic deterministic, const char **why);

#endif
