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
/* Returns the memory that stays registered and allocated when the job is re-formed; NULL: the job is not elastic. */
struct halay_shm_memory *halay_elastic_memory(const struct halay_context *ctx);

#endif
