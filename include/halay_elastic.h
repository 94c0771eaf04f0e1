/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: elastic jobs. Ranks may leave and join while a program trains.
 *
 * Concepts. A job is elastic if halayrun is started with --min-np, --max-np or --host-discovery-script. When one of its
 * processes is lost, or others wait to join, the job is *re-formed*: the remaining processes and halayrun agree on new
 * ranks, and the program continues in the same context. So that all continue from the same point, a program registers
 * its *state*: memory whose content is the same on every rank between two steps (weights, the optimizer's moments, the
 * number of the step). A *commit* keeps a copy of the state on each rank. After a loss every rank gets the newest
 * commit that any remaining rank has, and so does a process that joins.
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
 *             ...                                           recompute what depends on the ranks, as after begin
 *     }
 *
 * Kept when the job is re-formed: the context, memory of halay_alloc, registered tensors, requests that have ended and
 * their results. Not kept: the rank, the size, local and cross ranks; process sets (they count as removed). Registered
 * tensors that depend on the ranks (reduce-scatter, all-to-all, a broadcast whose root no longer exists) can only be
 * unregistered. Requests in flight end with the peer's error before. The timeline and the flight recorder restart under
 * the new rank.
 *
 * In a job that is not elastic, begin, commit and add may be called as well: begin copies the state of rank 0 to all
 * ranks, commit does nothing, and restore is refused.
 *
 * Errors. HALAY_ERR_CLOSED: the job continues without this process (its host was removed), or the job is ending (a rank
 * has exited with 0 already); the context is good for halay_fini only, and the state is that of the newest commit that
 * this process has. HALAY_ERR_PEER from commit: a rank is lost, call restore; begin and restore retry by themselves.
 * After any other error the content of the state is undefined. HALAY_ERR_MISMATCH: the ranks' states differ in size.
 * Otherwise as halay_init.
 *
 * Threads. While begin, commit or restore runs, no other call may be made on the context or on its objects; commit
 * requires that no request is in flight. Callbacks may run during begin, commit and restore, and must not call them
 * (HALAY_ERR_UNSUPPORTED). All ranks call begin and commit, in the same order, like a collective; restore is called by
 * those that had an error.
 */
#ifndef HALAY_ELASTIC_H
#define HALAY_ELASTIC_H

#include "halay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The changes that a call made, written if it returns HALAY_OK. Zero-initialise and set struct_size to sizeof; the
 * pointer to it may be NULL. */
struct halay_elastic_change {
    size_t struct_size;
    int has_reformed; /* rank and size may have changed: query them */
    int rank_was;     /* this process's previous rank, -1 if it has just joined */
    int size_was;     /* the previous number of ranks, 0 if it has just joined */
    uint64_t commit;  /* the number of the state's commit, from 1 on; 0 if the job is not elastic */
    uint64_t reforms; /* how often the job was re-formed since this process joined */
};

/* Returns nonzero if the job is elastic. */
static inline int halay_elastic_is_on(const struct halay_context *ctx)
{
    return ctx && halay_inline_context(ctx).is_elastic;
}

/* Adds memory to the state. Local; all ranks add the same sizes in the same order, before halay_elastic_begin. data is
 * borrowed until halay_fini and may have 0 bytes. Errors: HALAY_ERR_ARGUMENT (NULL, or begin has been called),
 * HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_elastic_add(struct halay_context *ctx, void *data, size_t bytes);

/* Begins elastic training; called once, when the state is complete. If ranks of the job have committed, every other
 * rank gets their state; otherwise every rank gets rank 0's, which is the first commit. Blocks until all ranks have
 * called it or are being re-formed. */
HALAY_API enum halay_status halay_elastic_begin(struct halay_context *ctx, struct halay_elastic_change *change);

/*
 * Commits: keeps a copy of the state, so that no older state is restored from now on. Blocks until all ranks have
 * called it (one small all-reduce) and for the copy; if halayrun requests a re-formation (processes wait to join, a
 * host is removed), also for that, like restore. When it returns an error the commit may have been made; restore finds
 * out.
 */
HALAY_API enum halay_status halay_elastic_commit(struct halay_context *ctx, struct halay_elastic_change *change);

/*
 * Restores after an error of the context (halay_context_status is not HALAY_OK): leaves the remaining ranks, joins the
 * job that halayrun re-forms, and sets the state to the newest commit. Blocks until all living processes have called
 * restore and there are as many ranks as the job needs; halayrun ends the job when that takes longer than its
 * --elastic-timeout. Errors: HALAY_ERR_ARGUMENT (the context has not failed), HALAY_ERR_UNSUPPORTED (the job is not
 * elastic, or begin has not been called).
 */
HALAY_API enum halay_status halay_elastic_restore(struct halay_context *ctx, struct halay_elastic_change *change);

#ifdef __cplusplus
}
#endif
#endif
