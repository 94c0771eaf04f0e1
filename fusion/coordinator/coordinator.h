/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: rank 0's view of all ranks: who has submitted what, whether they agree, and what runs next.
 *
 * It takes items (messages.h) from the ranks, its own included, and gives items back through `emit`. It moves no data,
 * takes no lock, reads no clock: the driver of rank 0 calls it, and so do tests.
 *
 * Each process set has one of its own, all on rank 0 of the job: ranks are numbers within the set there, and the set's
 * rank 0 is its lowest rank. That of all ranks is the parent of the others: what is about ranks and not about tensors
 * (who has left, who has joined, who comes late, what stalls) is told to it and asked of it.
 */
#ifndef HALAY_COORDINATOR_H
#define HALAY_COORDINATOR_H

#include "base/config.h"
#include "fusion/values/messages.h"

struct halay_coordinator;

struct halay_coordinator_options {
    int size;
    struct halay_coordinator *parent; /* NULL: this is the one of all ranks. Otherwise borrowed until destroy, and: */
    int number;                       /* of the process set */
    const int *ranks;                 /* the job's numbers of its ranks, ascending; borrowed until destroy */
    size_t threshold;                 /* bytes of a bucket */
    int chunk_shift;                  /* of a bucket's chunks */
    enum halay_deterministic deterministic;
    enum halay_join_average join_average;
    size_t ids_max;        /* how many names keep an id; those used longest ago lose theirs */
    struct halay_log *log; /* borrowed until destroy */
    /* An item for one rank, or for all (-1), the coordinator's own included. Must not call the coordinator. */
    enum halay_status (*emit)(void *arg, int rank, const struct halay_item *item);
    void *arg; /* borrowed until destroy */
};

enum halay_status halay_coordinator_create(const struct halay_coordinator_options *options,
                                           struct halay_coordinator **out);
void halay_coordinator_destroy(struct halay_coordinator *c); /* NULL is allowed */

/*
 * An item from a rank. READY, LATE, ANNOUNCE, WAITED, FLUSH, FORGET, and the parent alone: BYE, DOING; anything else is
 * HALAY_ERR_FORMAT, and so is what no correct engine sends (an id that does not exist, a tensor submitted twice). Other
 * errors: HALAY_ERR_NO_MEMORY, and what emit returned. now_us: the clock.
 */
enum halay_status halay_coordinator_receive(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                            int64_t now_us);

/*
 * Give out what is to run now. is_idle: nothing is under way on this rank; then everything that is ready runs at once,
 * otherwise it accumulates up to the threshold. *emitted: something was given out. The parent comes last: what ends a
 * job, or a join, comes behind all sets' tensors.
 */
enum halay_status halay_coordinator_decide(struct halay_coordinator *c, int is_idle, int *emitted);

/* Names may go by express (express.h), so many of them. Before the first item. */
void halay_coordinator_set_express(struct halay_coordinator *c, size_t places);

/* Rank 0 has seen that all ranks have put this round of a tensor that goes by express. now_us: the clock. */
void halay_coordinator_round_is_over(struct halay_coordinator *c, uint32_t id, uint64_t round, int64_t now_us);

/* Buckets of that size from now on, in chunks of that size (halay_group_set_chunks), in all sets. */
void halay_coordinator_set_sizes(struct halay_coordinator *c, size_t threshold, int chunk_shift);

/* For tests: keep fewer ids. */
void halay_coordinator_set_ids_max(struct halay_coordinator *c, size_t ids_max);

/* Names that some ranks have submitted and others have not, in all sets. */
size_t halay_coordinator_waiting(const struct halay_coordinator *c);

/*
 * Stalls: something that some ranks have submitted and others have not for report_us (0: never) is reported, at most
 * once each report_us, in a few lines: tensors, the ranks that are there, those that are missing and what they do
 * instead, for which they are asked first. After limit_us (0: never) it is the end: FAIL with HALAY_ERR_PEER to all.
 * own: what this rank does, a DOING. Call it from time to time while something is waiting. HALAY_ERR_NO_MEMORY, and
 * what emit returned.
 */
enum halay_status halay_coordinator_look_for_stalls(struct halay_coordinator *c, int64_t now_us, int64_t report_us,
                                                    int64_t limit_us, const struct halay_item *own);

/* Stragglers: as halay_stragglers_read; any thread. */
void halay_coordinator_straggler(struct halay_coordinator *c, int rank, struct halay_straggler *out);
/* Log at level info who came last how often, the worst first; nothing if nobody ever waited. */
void halay_coordinator_report_stragglers(struct halay_coordinator *c);

/*
 * Deterministic modes: rank 0 submits the first tensor of this static bucket: its members from now on (copied), in
 * order. Comes before that tensor's announcement. The bucket lives until all its members are dropped.
 */
struct halay_coordinator_bucket;
enum halay_status halay_coordinator_seal(struct halay_coordinator *c, const char *const *names, size_t count,
                                         struct halay_coordinator_bucket **out);
enum halay_status halay_coordinator_drop_member(struct halay_coordinator *c, struct halay_coordinator_bucket *bucket,
                                                size_t member);

#endif
