/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: the parts of elastic jobs that the life of a context calls.
 */
#ifndef HALAY_API_ELASTIC_H
#define HALAY_API_ELASTIC_H

#include "collectives/group/world.h"
#include "halay.h"

/* Returns nonzero if the job is elastic. */
int halay_is_elastic(const struct halay_context *ctx);
/* Returns nonzero if starting again after this status is worthwhile. */
int halay_elastic_may_retry(enum halay_status status);
/* Makes the context elastic; takes the objects that carried owns. how: the options of its start. On error the context
 * is freed. */
enum halay_status halay_elastic_init(struct halay_context *ctx, const struct halay_options *how,
                                     const struct halay_carried *carried);
void halay_elastic_fini(struct halay_context *ctx); /* the world is closed */
/* the world is closed */
enum halay_status halay_elastic_alloc(struct halay_context *ctx, size_t bytes, void **ptr);
void halay_elastic_free(struct halay_context *ctx, void *ptr);
/* Registers memory as halay_shm_memory_register does; it stays registered when the job is re-formed. */
enum halay_status halay_elastic_register(struct halay_context *ctx, void *ptr, size_t bytes);
enum halay_status halay_elastic_unregister(struct halay_context *ctx, void *ptr);
int halay_elastic_has_allocated(struct halay_context *ctx, const void *ptr);
/* Keeps memory that outlives the context, as halay_shm_memory_keep does. */
void halay_elastic_keep(struct halay_context *ctx, void *ptr, struct halay_kept *kept);

#endif
