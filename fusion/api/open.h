/* SPDX-License-Identifier: Apache-2.0
 *
 * Open and close: the engine over a world, and what a context's life calls of the files beside.
 */
#ifndef HALAY_OPEN_H
#define HALAY_OPEN_H

#include "fusion/requests/context.h"

/* Makes a context with its locks, and without a world; halay_context_destroy frees it. NULL: no memory. */
struct halay_context *halay_context_new(void);
/* Creates a context over an open world; owns the world on success. */
enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out);
/* Opens a closed context again: like create, but keeps names and requests. On error it is still closed. */
enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world);
/* Leaves the other ranks: all requests in flight end, the thread too. Destroys what belongs to the world, but not the
 * world. */
void halay_context_close(struct halay_context *ctx);
/* Destroys a context that is closed and has no names. */
void halay_context_destroy(struct halay_context *ctx);

/* ---- registered tensors (tensor.c) ---- */

/* Renews the names after a change of ranks, which voids all agreements. Names that are not registered are forgotten;
 * registered tensors whose description no longer holds are marked stale. The engine is closed; rank and size are the
 * new ones. */
enum halay_status halay_registry_renew(struct halay_context *ctx);
/* Frees all names of a set, and the tensors registered under them. */
void halay_names_free_all(struct halay_process_set *set);

/* ---- process sets that halay_init makes (sets.c) ---- */

/* Reads the sets that halay_init creates, the program's and the configuration's, and finds out whether there are any
 * (*wanted): HALAY_ERR_CONFIG, HALAY_ERR_ARGUMENT. */
enum halay_status halay_process_sets_read_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                 size_t count, int *wanted);
/* Creates them. If any rank requests sets, every rank calls this; a rank that requests none thereby disagrees. Blocks
 * until all ranks have called, at most HALAY_START_TIMEOUT. */
enum halay_status halay_process_sets_create_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                   size_t count);

/* ---- references to blocks (memory.c) ---- */

/* Begins halay_fini: blocks that are referenced now will outlive the context; no more can be retained. */
void halay_memories_keep(struct halay_context *ctx);
/* Transfers the blocks to their references; the transports are closed. */
void halay_memories_leave(struct halay_context *ctx);

#endif
