/* SPDX-License-Identifier: Apache-2.0
 *
 * Process set: some ranks of the job, or all of them.
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

/*
 * Some ranks of the job, or all of them: with names, an order, buckets and a group of their own, so that nothing in one
 * set waits for anything in another. Driver only, where not said otherwise.
 */
enum halay_set_state { HALAY_SET_OPEN, HALAY_SET_CLOSING, HALAY_SET_REMOVED };

struct halay_process_set {
    struct halay_context *ctx;      /* borrowed; set once, as are these */
    int number, size, rank;         /* 0: that of all ranks; this rank's number in it, -1: it is no member */
    int *ranks;                     /* owned, [size]: the job's numbers, ascending; NULL: all of them */
    struct halay_process_set *next; /* stored under lock by the driver: others look under lock */
    enum halay_set_state state;     /* guarded by lock */
    struct halay_table names;       /* guarded by lock */
    struct halay_path *path;        /* borrowed: it takes what has these names; NULL: the coordinator; set once */
    /* Which name the next collective without one gets (requests/names.h); guarded by lock. */
    unsigned unnamed[HALAY_COLLECTIVE_COUNT];
    unsigned groups;            /* the number of the last start of a group of it (api/group_of.c); guarded by lock */
    struct halay_entry **by_id; /* owned array: [id], borrowed entries */
    size_t id_capacity;
    struct halay_coordinator *coordinator;        /* owned; rank 0 of the job only */
    struct halay_group *group;                    /* owned; NULL where this rank is no member */
    struct halay_bucket *waiting, **waiting_last; /* buckets to be started, in the agreed order */
    struct halay_bucket *running;                 /* under way */
    uint64_t collectives;                         /* that the coordinator has given out */
    struct halay_replay *replay;                  /* owned: replay/replay.h; NULL: there has been no plan */
};

void halay_process_set_init(struct halay_process_set *set, struct halay_context *ctx, int size, int rank);
/* The number in the set of a rank of the job, -1: it is no member. */
int halay_process_set_rank_of(const struct halay_process_set *set, int rank);
/* Its ranks, for people: "[0,3]". Cut to size. */
void halay_process_set_print_ranks(const struct halay_process_set *set, char *text, size_t size);

#endif
