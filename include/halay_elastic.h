/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: elastic jobs. Ranks may leave and join while a program trains.
 *
 * Concepts. A job is elastic if halayrun is told so (--min-np, --max-np, --host-discovery-script). When one of its
 * processes is lost, or others wait to join, the job is *re-formed*: those that are left agree with halayrun on new
 * ranks and go on in the same context. So that they go on from the same point, a program names its *state*: memory
 * whose content is the same on every rank between two steps (weights, the optimizer's moments, the number of the step).
 * A *commit* keeps a copy of it on each rank. After a loss every rank gets the newest commit that any remaining rank
 * has, and so does a process that joins.
 *
 *     halay_init(NULL, &ctx);
 *     ... halay_elastic_add(ctx, weights, bytes); halay_elastic_add(ctx, &step, sizeof step);
 *     status = halay_elastic_begin(ctx, NULL);             a process that joins gets the others' state here
 *     while (status == HALAY_OK && step < steps) {
 *         status = train(ctx, weights, step);              any function of halay.h: HALAY_ERR_PEER when a rank is lost
 *         if (status == HALAY_OK) {
 *             step++;
 *             status = halay_elastic_commit(ctx, &change); may re-form: ask halay_rank and halay_size again
 *         }
 *         if (status == HALAY_ERR_PEER)
 *             status = halay_elastic_restore(ctx, &change); re-forms; step and weights are those of the last commit
 *         if (status == HALAY_OK && change.has_reformed)
 *             ...                                           what depends on the ranks is made anew, as after begin
 *     }
 *
 * What stays when the job is re-formed: the context, memory of halay_alloc, registered tensors, requests that have
 * ended and their results. What does not: the rank, the size, local and cross ranks; process sets (they count as
 * removed); registered tensors that depend on the ranks (reduce-scatter, all-to-all, a broadcast whose root is no rank
 * any more) can only be unregistered. Requests in flight end with the peer's error before. The timeline and the flight
 * recorder begin anew, under the new rank.
 *
 * In a job that is not elastic begin, commit and add may be called all the same: begin copies the state of rank 0 to
 * all, commit does nothing, and restore is refused.
 *
 * Errors. HALAY_ERR_CLOSED: the job goes on without this process (its host was taken out of it), or nobody goes on (it
 * is ending, a rank has ended with 0 already); the context is good for halay_fini, and the state is that of the newest
 * commit that this process has. HALAY_ERR_PEER from commit: a rank is lost, call restore; begin and restore start again
 * by themselves. After any other error the content of the state is undefined. HALAY_ERR_MISMATCH: the ranks' states
 * differ in size. Otherwise as halay_init.
 *
 * Threads. While begin, commit or restore runs no other call is made on the context, nor on what belongs to it, and no
 * request is in flight in commit. Callbacks may run in begin, commit and restore, which are refused in one
 * (HALAY_ERR_UNSUPPORTED). All ranks call begin and commit alike, like a collective; restore is called by those that
 * had an error.
 */
#ifndef HALAY_ELASTIC_H
#define HALAY_ELASTIC_H

#include "halay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call has changed, written if it returns HALAY_OK. Zero-initialise and set struct_size to sizeof; a pointer to
 * one may be NULL. */
struct halay_elastic_change {
    size_t struct_size;
    int has_reformed; /* rank and size may be others: ask again */
    int rank_was;     /* this process's rank before, -1: it has just joined */
    int size_was;     /* the number of ranks before, 0 if it has just joined */
    uint64_t commit;  /* the number of the commit that the state is of, from 1 on; 0: the job is not elastic */
    uint64_t reforms; /* how often this process has seen the job re-formed */
};

/* Nonzero if this is an elastic job. */
static inline int halay_elastic_is_on(const struct halay_context *ctx)
{
    return ctx && halay_inline_context(ctx).is_elastic;
}

/*
 * Add memory to the state. Local; all ranks add the same sizes in the same order, before halay_elastic_begin. data is
 * borrowed until halay_fini and may be 0 bytes. HALAY_ERR_ARGUMENT: NULL, or begin has been called;
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_elastic_add(struct halay_context *ctx, void *data, size_t bytes);

/*
 * Once, when the state is complete: where ranks of the job have committed, every other rank gets that state; otherwise
 * rank 0's becomes every rank's, and is the first commit. Blocks until all ranks have called it, or are re-forming.
 */
HALAY_API enum halay_status halay_elastic_begin(struct halay_context *ctx, struct halay_elastic_change *change);

/*
 * Keep a copy of the state: from now on nothing older comes back. Blocks until all ranks have come (one small
 * all-reduce), and for the copy; if halayrun wants the job to be re-formed (processes wait to join, a host is to
 * leave), also for that, as restore does. When it returns an error the commit may have been made; restore finds out.
 */
HALAY_API enum halay_status halay_elastic_commit(struct halay_context *ctx, struct halay_elastic_change *change);

/*
 * After an error of the context (halay_context_status is not HALAY_OK): leave what is left of the ranks, join them
 * again as halayrun says, and set the state to the newest commit. Blocks until all processes that live have come to
 * their restore, and until there are as many ranks as the job needs; halayrun ends the job when that takes longer than
 * its --elastic-timeout. HALAY_ERR_ARGUMENT: the context has not failed. HALAY_ERR_UNSUPPORTED: the job is not elastic,
 * or begin has not been called.
 */
HALAY_API enum halay_status halay_elastic_restore(struct halay_context *ctx, struct halay_elastic_change *change);

#ifdef __cplusplus
}
#endif
#endif
