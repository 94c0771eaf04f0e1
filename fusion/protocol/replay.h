/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: the protocol by which a process set repeats the same buckets without messages.
 *
 * The result of an all-reduce, and of a reduce-scatter, all-gather or all-to-all of which no part is empty, needs data
 * of every rank on every rank. So a rank that enters a bucket by itself harms nothing: the bucket completes on no rank
 * before all ranks have entered it, and inputs stay intact until then (schedule/coll.h). A bucket that all ranks have
 * entered can be finished by all; one that some rank has not entered can be taken back by all. The data are a vote.
 *
 * A broadcast, reduce, gather or scatter, or an operation with an empty part, may complete on some ranks without the
 * others. A bucket of such operations has a vote: it begins with a barrier, on the same channel and under the same
 * number, and the operation follows as soon as the barrier is complete. A group of tensors of several types is one
 * bucket, too, with an all-reduce for each type. A bucket that devices reduce has a vote as well; all ranks enter such
 * buckets in the order of their numbers, since devices reduce one at a time. The later collectives of a bucket need no
 * vote: all ranks have entered the bucket, so they complete even after FREEZE.
 *
 *     coordinator                                                          rank
 *       has dispatched the same tensors in three successive turns
 *       PLANNED..., PLAN          --->  after all buckets dispatched before: submissions count down the plan's buckets;
 *                                       a complete one is entered as soon as its channel is free. No message.
 *                                 <---  PLAN: received. What this rank sends from now on is after it.
 *                                 <---  BREAK: the program does something else, or it waits
 *       all have received PLAN:
 *       FREEZE                    --->  enters no bucket any more
 *       minimum over the ranks    <---  ENTERED: of each channel the first collective that it has not entered
 *       COMPLETE                  --->  takes back buckets entered at or above the minimum, completes those below
 *       maximum over the ranks    <---  SETTLED: no bucket is running; its numbers
 *       RESUME                    --->  adopts the numbers, and sends submissions that have not ended as if just made
 *
 * From PLAN to RESUME the coordinator ignores items about tensors: each rank sends them again after RESUME.
 *
 * BREAK and all later items travel along a tree of the set's ranks (fusion/replay/branch.h): ENTERED and SETTLED are
 * merged on the way up, a BREAK is forwarded once, FREEZE, COMPLETE and RESUME are forwarded before they are applied.
 * All other items travel between the coordinator and a rank. Items of the two routes may overtake each other, which
 * matters in two places:
 *
 *     up      items that a rank has sent before its answer to PLAN must arrive before RESUME is sent, or they would
 *             count. So FREEZE waits for the answers to PLAN, which follow them.
 *     down    after RESUME the coordinator may send buckets to a rank that RESUME has not reached (changes of process
 *             sets ask the new members only). So a rank keeps items that arrive between SETTLED and RESUME.
 *
 * Bucket k of a plan of K has the collectives base + k, base + k + K, ... of the group; collective n runs on channel
 * n mod HALAY_CHANNELS, in order on each channel. Two ranks may enter buckets in different orders: a channel that is
 * held up does not stop the others.
 *
 * tests/fusion/test_replay_model.c explores all states of a small instance.
 */
#ifndef HALAY_PROTOCOL_REPLAY_H
#define HALAY_PROTOCOL_REPLAY_H

#include "collectives/group/epoch.h"
#include "collectives/transport/link.h"
#include "fusion/protocol/messages.h"

enum halay_break_reason {
    HALAY_BREAK_OTHER,  /* a submission that is not in the plan, or not as agreed */
    HALAY_BREAK_CHANGE, /* a join, a change of process sets, the end */
    HALAY_BREAK_TAKEN,  /* a submission is withdrawn: it was canceled, or its time limit has expired */
    HALAY_BREAK_WAITS,  /* the program waits for a tensor whose bucket lacks others of this rank */
    HALAY_BREAK_SLOW,   /* a bucket does not end: the coordinator reports the stall */
    HALAY_BREAK_REASONS
};

/* Numbers of ENTERED and COMPLETE: of each channel the first collective that was not entered; then the plan's base. */
enum { HALAY_ENTERED_BASE = HALAY_CHANNELS, HALAY_ENTERED_NUMBERS };

_Static_assert((int)HALAY_ENTERED_NUMBERS <= (int)HALAY_EPOCH_VALUES, "numbers has room for both");

/* ENTERED or SETTLED of several ranks, merged. Zero-initialised. */
struct halay_answers {
    int ranks; /* the number of ranks */
    uint64_t numbers[HALAY_EPOCH_VALUES];
};

/* Returns the count of numbers in an item of this kind. */
size_t halay_answers_count(enum halay_item_kind kind);
/* Merges one more of the same kind: ENTERED by minimum, SETTLED by maximum. HALAY_ERR_FORMAT: the item is for no rank,
 * would make the answers those of more than `max` ranks, or has another length. */
enum halay_status halay_answers_add(struct halay_answers *a, const struct halay_item *item, int max);

#endif
