/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: rank 0's view of all ranks: the tensors that each has submitted, whether they agree, and what runs next.
 *
 * It takes items (messages.h) from the ranks, its own included, and emits items through `emit`. It moves no data, takes
 * no lock, reads no clock: the driver of rank 0 calls it, and so do tests.
 *
 * Each process set has its own coordinator, all on rank 0 of the job: ranks are numbers within the set there, and the
 * set's rank 0 is its lowest rank. The coordinator of all ranks is the parent of the others: it handles what concerns
 * ranks and not tensors (leaves, joins, stragglers, stalls).
 */
#ifndef HALAY_COORDINATOR_H
#define HALAY_COORDINATOR_H

#include "fusion/coordinator/coordinator_options.h"
#include "halay_tools.h"

enum halay_status halay_coordinator_create(const struct halay_coordinator_options *options,
                                           struct halay_coordinator **out);
/* Creates that of a process set, with the same options. ranks: borrowed until destroy, as arg, for emit. */
enum halay_status halay_coordinator_create_child(struct halay_coordinator *parent, int number, const int *ranks,
                                                 int size, void *arg, struct halay_coordinator **out);
void halay_coordinator_destroy(struct halay_coordinator *c); /* NULL is allowed */

/* Takes an item from a rank: READY, ANNOUNCE, WITHDRAW, FLUSH, FORGET, and the parent alone BYE, DOING. Any other item
 * is HALAY_ERR_FORMAT, and so is one that no correct engine sends (an id that does not exist, a tensor submitted
 * twice). Other errors: HALAY_ERR_NO_MEMORY, and those of emit. now_us: the clock. */
enum halay_status halay_coordinator_receive(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                            int64_t now_us);

/* Returns the number of names that some ranks have submitted and others have not, in all sets. */
size_t halay_coordinator_waiting(const struct halay_coordinator *c);

/* ---- decide.c ---- */

/* Emits what runs now. is_idle: no collective is in flight on this rank, so everything that is ready runs at once;
 * otherwise it accumulates up to the threshold. *emitted: whether anything was emitted. Call it for the parent last:
 * the end of a job, or of a join, follows all sets' tensors. */
enum halay_status halay_coordinator_decide(struct halay_coordinator *c, int is_idle, int *emitted);

/* Calls halay_coordinator_decide for the children that have something to decide. is_idle(arg): of the child with that
 * argument of emit; called once for each. */
enum halay_status halay_coordinator_decide_children(struct halay_coordinator *parent, int (*is_idle)(const void *arg),
                                                    int *emitted);

/* ---- stalls.c ---- */

/*
 * Reports tensors that some ranks have submitted and others have not for report_us (0: never), at most once each
 * report_us, in a few lines: tensors, ranks that have submitted, missing ranks and what they do instead, for which they
 * are asked first. After limit_us (0: never) sends FAIL with HALAY_ERR_PEER to all. own: what this rank does, a DOING.
 * Call it from time to time while a tensor is waiting. Errors: HALAY_ERR_NO_MEMORY, and those of emit.
 */
enum halay_status halay_coordinator_look_for_stalls(struct halay_coordinator *c, int64_t now_us, int64_t report_us,
                                                    int64_t limit_us, const struct halay_item *own);
/* Returns nonzero once after a call in which rank 0 was one of the ranks to show their stacks. */
int halay_coordinator_asks_rank0(struct halay_coordinator *c);

/* ---- stragglers.c ---- */

/* Reads the statistics, as halay_stragglers_read; any thread. */
void halay_coordinator_straggler(struct halay_coordinator *c, int rank, struct halay_straggler *out);
/* Logs at level info how often each rank arrived last, the worst first; nothing if no rank ever waited. */
void halay_coordinator_report_stragglers(struct halay_coordinator *c);

#endif
