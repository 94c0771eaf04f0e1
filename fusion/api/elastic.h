/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: what the life of a context asks of it.
 */
#ifndef HALAY_API_ELASTIC_H
#define HALAY_API_ELASTIC_H

#include "collectives/group/world.h"
#include "halay.h"

/* Returns nonzero if the job is elastic. */
int halay_is_elastic(const struct halay_context *ctx);
/* Is it worth to start again after this? */
int halay_elastic_may_retry(enum halay_status status);
/* The context is of an elastic job; takes the objects that carried owns. how: as it was started. On error the context
 * is gone. */
enum halay_status halay_elastic_init(struct halay_context *ctx, const struct halay_options *how,
                                     const struct halay_carried *carried);
void halay_elastic_fini(struct halay_context *ctx); /* the world is closed */
/* the world is closed */
enum halay_status halay_elastic_alloc(struct halay_context *ctx, size_t bytes, void **ptr);
void halay_elastic_free(struct halay_context *ctx, void *ptr);
/* As of halay_shm_memory_register; what is registered stays so when the job is re-formed. */
enum halay_status halay_elastic_register(struct halay_context *ctx, void *ptr, size_t bytes);
enum halay_status halay_elastic_unregister(struct halay_context *ctx, void *ptr);
int halay_elastic_has_allocated(struct halay_context *ctx, const void *ptr);
/* It outlives the context; kept as in halay_shm_memory_keep. */
void halay_elastic_keep(struct halay_context *ctx, void *ptr, struct halay_kept *kept);

#endif
