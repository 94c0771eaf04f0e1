/* SPDX-License-Identifier: Apache-2.0
 *
 * All-to-all, gather or scatter of a bucket. Driver only.
 */
#ifndef HALAY_OP_ALLTOALL_H
#define HALAY_OP_ALLTOALL_H

#include "fusion/run/bucket.h"

/* Starts the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error ends the
 * engine. */
enum halay_status halay_alltoall_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_gather_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_scatter_run(struct halay_context *ctx, struct halay_bucket *b);

#endif
