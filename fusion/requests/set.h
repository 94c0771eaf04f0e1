/* SPDX-License-Identifier: Apache-2.0
 *
 * Process set: a subset of the job's ranks, or all of them.
 */
#ifndef HALAY_SET_H
#define HALAY_SET_H

#include "fusion/protocol/table.h"
#include "halay.h"
#include <stdint.h>

struct halay_bucket;
struct halay_coordinator;
struct halay_entry;
struct halay_group;
struct halay_path;
struct halay_replay;

/* A process set has its own names, order, buckets and group, so that no operation of one set waits for one of another.
 * Driver only, unless stated otherwise. */
enum halay_set_state { HALAY_SET_OPEN, HALAY_SET_CLOSING, HALAY_SET_REMOVED };

struct halay_process_set {
    struct halay_context *ctx;      /* borrowed; set once, as are these */
    int number, size, rank;         /* 0: that of all ranks; this rank's number in it, -1 if not a member */
    int *ranks;                     /* owned, [size]: the job's numbers, ascending; NULL: all of them */
    struct halay_process_set *next; /* stored under lock by the driver: others read under lock */
    enum halay_set_state state;     /* guarded by lock */
    struct halay_table names;       /* guarded by lock */
    struct halay_path *path;        /* borrowed: takes submissions with these names; NULL: the coordinator; set once */
    /* Numbers of the next collectives without a name (requests/names.h); guarded by lock. */
    unsigned unnamed[HALAY_COLLECTIVE_COUNT];
    unsigned groups;            /* the number of the last start of a group of it (api/group_of.c); guarded by lock */
    struct halay_entry **by_id; /* owned array: [id], borrowed entries */
    size_t id_capacity;
    struct halay_coordinator *coordinator;        /* owned; rank 0 of the job only */
    struct halay_group *group;                    /* owned; NULL if this rank is not a member */
    struct halay_bucket *waiting, **waiting_last; /* buckets to be started, in the agreed order */
    struct halay_bucket *running;                 /* under way */
    uint64_t collectives;                         /* dispatched by the coordinator */
    struct halay_replay *replay;                  /* owned: replay/replay.h; NULL: no plan so far */
};

void halay_process_set_init(struct halay_process_set *set, struct halay_context *ctx, int size, int rank);
/* Returns the number in the set of a rank of the job, -1 if it is not a member. */
int halay_process_set_rank_of(const struct halay_process_set *set, int rank);
/* Prints its ranks as "[0,3]", truncated to size. */
void halay_process_set_print_ranks(const struct halay_process_set *set, char *text, size_t size);

#endif
